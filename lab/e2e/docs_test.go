package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/demo/release"
	"github.com/tutti-sched/tutti/lab/docs"
	"github.com/tutti-sched/tutti/lab/harness"
	"github.com/tutti-sched/tutti/lab/process"
)

// run are the pages whose commands are run, each from its first to its last, in a cluster that has never seen Tutti.
var run = []string{
	"README.md", "docs/quickstart.md", "docs/from-kube-batch.md", "docs/install.md", "docs/operations.md", "docs/jobs.md",
	"docs/kubectl-tutti.md", "docs/upgrading.md",
}

// whole are those of them where nothing may be left out.
var whole = []string{"README.md", "docs/quickstart.md", "docs/from-kube-batch.md"}

// installed are those whose readers have Tutti already.
var installed = []string{"docs/from-kube-batch.md", "docs/jobs.md", "docs/kubectl-tutti.md", "docs/upgrading.md"}

// elsewhere are commands that something else runs, and why.
var elsewhere = map[string]string{
	"make test": "it is what runs this test",
	makeImage:   "TestImagesAreMade runs it, once for all pages: no cluster of theirs loads an image",
}

// makeImage writes build/images, the same bytes each time.
const makeImage = "make image"

// notRun is how many blocks say that they cannot be run here. A change that adds one raises the number here, and is
// reviewed for the reason.
const notRun = 29

// TestPagesSayWhatIsNotRun wants every block of commands in any page to be run, or to say why not.
func TestPagesSayWhatIsNotRun(t *testing.T) {
	var marked, ran int
	for _, page := range pages(t) {
		for _, block := range blocks(t, page) {
			at := fmt.Sprintf("%s:%d", page, block.Line)
			switch {
			case block.NotRun == "" && slices.Contains(run, page):
				ran++
			case block.NotRun == "":
				t.Errorf("%s: these commands are not run by any test; say why above the block: <!-- not run: ... -->", at)
			case slices.Contains(whole, page):
				t.Errorf("%s: all commands of this page must run, and these do not: %s", at, block.NotRun)
			default:
				marked++
				t.Logf("%s: not run: %s", at, block.NotRun)
			}
		}
	}
	if marked != notRun {
		t.Errorf("%d blocks are not run, want %d", marked, notRun)
	}
	t.Logf("%d blocks are run, %d are not", ran, marked)
}

// TestPages runs the commands of the pages, as a user would who follows them. Each page has a cluster and a home of its own.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, page := range run {
		if !slices.Contains(pages(t), page) {
			continue
		}
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			all := blocks(t, page)
			reader := newReader(t)
			if slices.Contains(installed, page) && !reader.install() {
				return
			}
			for _, block := range all {
				if block.NotRun != "" {
					continue
				}
				for _, command := range block.Commands {
					if !reader.follow(fmt.Sprintf("%s:%d", page, command.Line), command) {
						return // what comes after builds on it
					}
				}
			}
		})
	}
}

// TestImagesAreMade by the command of the pages, and it prints what each of them shows.
func TestImagesAreMade(t *testing.T) {
	t.Parallel()
	printed, err := (&reader{t: t, env: append(os.Environ(), "CGO_ENABLED=0")}).shell(makeImage)
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, page := range run {
		for _, block := range blocks(t, page) {
			for _, command := range block.Commands {
				if block.NotRun != "" || uncommented(command.Text) != makeImage {
					continue
				}
				shown++
				if err := docs.Shows(command.Want, printed); err != nil {
					t.Errorf("%s:%d: %v", page, command.Line, err)
				}
			}
		}
	}
	if shown == 0 {
		t.Error("no page has the command")
	}
}

// uncommented is a command without the comment behind it.
func uncommented(text string) string {
	first, _, _ := strings.Cut(text, "  #")
	return strings.TrimSpace(first)
}

// TestNotes runs the commands that helm prints when it has installed the chart.
func TestNotes(t *testing.T) {
	t.Parallel()
	reader := newReader(t)
	if !reader.install() {
		return
	}
	notes, err := reader.lab.Cluster.Helm(t.Context(), "get", "notes", release.Name, "--namespace", release.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, line := range strings.Split(notes, "\n") {
		if text := strings.TrimSpace(line); strings.HasPrefix(text, "kubectl ") || strings.HasPrefix(text, "helm ") {
			commands++
			reader.follow("notes", docs.Command{Text: text})
		}
	}
	if commands != 3 {
		t.Errorf("the notes name %d commands, want the next three", commands)
	}
}

// pages are all pages of the repository, by their path in it.
func pages(t *testing.T) []string {
	t.Helper()
	root := repository(t)
	var all []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "build" || entry.Name() == ".git" || entry.Name() == "bin"):
			return fs.SkipDir
		case filepath.Ext(path) == ".md":
			name, err := filepath.Rel(root, path)
			all = append(all, name)
			return err
		}
		return nil
	})
	if err != nil || len(all) < 10 {
		t.Fatalf("pages: %q, %v", all, err)
	}
	return all
}

func blocks(t *testing.T, page string) []docs.Block {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository(t), page))
	if err != nil {
		t.Fatal(err)
	}
	found, err := docs.Parse(page, string(text))
	if err != nil {
		t.Error(err)
	}
	return found
}

func repository(t *testing.T) string {
	t.Helper()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// reader is a user who follows a page, at the root of the repository, with a cluster of their own.
type reader struct {
	t       *testing.T
	lab     *harness.Env
	env     []string
	program string
	// scheduler is the one that the chart installed; nil before that. No node of the lab runs a container.
	scheduler *process.Process
}

// newReader starts a cluster with a few nodes, some of them with GPUs.
func newReader(t *testing.T) *reader {
	t.Helper()
	dir := t.TempDir()
	c, err := cluster.Start(t.Context(), cluster.Options{
		Kubernetes: env.Cluster.Version(), ControllerManager: true, Scheduler: true, Kwok: true, JobsRun: true,
		Dir: filepath.Join(dir, "cluster"), Out: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Stop() })
	lab, err := harness.NewEnv(c)
	if err != nil {
		t.Fatal(err)
	}
	nodes := append(cluster.Nodes("node", 3, map[string]string{"cpu": "8", "memory": "32Gi"}),
		cluster.Nodes("gpu", 2, map[string]string{"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8"})...)
	if err := c.CreateNodes(t.Context(), nodes...); err != nil {
		t.Fatal(err)
	}
	program, err := binaries.Build(t.Context(), t.Output(), binaries.TuttiScheduler)
	if err != nil {
		t.Fatal(err)
	}
	helm, err := binaries.Ensure(t.Context(), c.Version(), t.Output(), binaries.Helm)
	if err != nil {
		t.Fatal(err)
	}
	plugin, err := binaries.Build(t.Context(), t.Output(), binaries.KubectlTutti)
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "bin")
	home := filepath.Join(dir, "home")
	err = errors.Join(os.Mkdir(bin, 0o755), os.MkdirAll(filepath.Join(home, ".kube"), 0o755),
		os.Symlink(helm.Path(binaries.Helm), filepath.Join(bin, "helm")),
		os.Symlink(c.Program(binaries.Kubectl), filepath.Join(bin, "kubectl")),
		os.Symlink(plugin, filepath.Join(bin, "kubectl-tutti")),
		os.Symlink(c.Kubeconfig(), filepath.Join(home, ".kube", "config")))
	if err != nil {
		t.Fatal(err)
	}
	// Without cgo, whatever the tests have, as in every other build: so the packages that a page compiles are in Go's cache.
	return &reader{t: t, lab: lab, program: program, env: append(os.Environ(), "CGO_ENABLED=0",
		"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "KUBECONFIG="+c.Kubeconfig(),
		"HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "KUBECACHEDIR="+filepath.Join(home, "cache"),
	)}
}

// install installs the chart, as its page says.
func (r *reader) install() bool {
	r.t.Helper()
	text := fmt.Sprintf("helm install %s charts/tutti --namespace %s --create-namespace --wait --set image.registry=localhost", release.Name, release.Namespace)
	return r.follow("install", docs.Command{Text: text})
}

// follow runs a command and reports whether it did what the page says. A command that only reads is repeated until it does.
func (r *reader) follow(at string, command docs.Command) bool {
	r.t.Helper()
	if why := elsewhere[uncommented(command.Text)]; why != "" {
		r.t.Logf("%s: %s: %s", at, uncommented(command.Text), why)
		return true
	}
	looks := strings.HasPrefix(command.Text, "kubectl get ") || strings.HasPrefix(command.Text, "kubectl describe ") ||
		strings.HasPrefix(command.Text, "kubectl events ") || strings.HasPrefix(command.Text, "kubectl tutti ")
	began := time.Now()
	var err error
	for {
		var printed string
		if printed, err = r.shell(command.Text); err == nil {
			err = docs.Shows(command.Want, printed)
		}
		if err == nil || !looks || time.Since(began) > patience {
			break
		}
	}
	r.t.Logf("%s: %s (%s)", at, command.Text, time.Since(began).Round(100*time.Millisecond))
	if err == nil {
		err = r.play(command.Text)
	}
	if err != nil {
		r.t.Errorf("%s: %s: %v", at, command.Text, err)
	}
	return err == nil
}

// shell runs a command at the root of the repository, and returns what it printed.
func (r *reader) shell(text string) (string, error) {
	cmd := exec.CommandContext(r.t.Context(), "bash", "-euo", "pipefail", "-c", text)
	cmd.Dir, cmd.Env = repository(r.t), r.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	printed, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w:\n%s", err, printed)
	}
	return string(printed), nil
}

// play does what a cluster's nodes would have done after a command: where it installed, changed or removed the scheduler, the
// one that is installed now runs.
func (r *reader) play(text string) error {
	changes := slices.ContainsFunc([]string{"helm install", "helm upgrade", "helm rollback", "helm uninstall", "config/default", "rollout restart"},
		func(word string) bool { return strings.Contains(text, word) })
	if !changes {
		return nil
	}
	if r.scheduler != nil {
		// As a kubelet ends a container, so that the Lease is given up.
		if err := r.scheduler.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		<-r.scheduler.Done()
		r.scheduler = nil
	}
	_, err := r.lab.Clientset.AppsV1().Deployments(release.Namespace).Get(r.t.Context(), release.Deployment, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	current, err := release.Read(r.t.Context(), r.lab.Cluster)
	if err != nil {
		return err
	}
	r.scheduler, err = current.Start(r.t.Context(), r.lab.Cluster, fmt.Sprintf("scheduler-%d", time.Now().UnixNano()), r.program)
	return err
}
