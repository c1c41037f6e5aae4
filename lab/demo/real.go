package demo

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/demo/release"
	"github.com/tutti-sched/tutti/lab/node"
	"github.com/tutti-sched/tutti/lab/operators"
	"github.com/tutti-sched/tutti/pkg/isolated"
)

//go:embed real/*.yaml
var realManifests embed.FS

// RunReal runs the demo on real nodes: the chart runs as pods with the images of `make image`, and jobs run in containers. It
// shows the commands of a user and what they print. Its error says what did not go as it should, nil that everything did.
func RunReal(ctx context.Context, options Options) error {
	d := &realDemo{screen: newScreen(options.Out)}
	d.screen.title("Tutti on real nodes: a kubelet, a container runtime and containers")
	root, err := binaries.Root()
	if err != nil {
		return err
	}
	unlock, err := operators.Lock() // until the operator has ended with the cluster
	if err != nil {
		return err
	}
	defer unlock()
	d.cluster, err = cluster.Start(ctx, cluster.Options{
		Kubernetes: options.Kubernetes, ControllerManager: true, Scheduler: true, RealNodes: 3,
		Dir: filepath.Join(root, "build", "demo"), Out: d.screen.writer("cluster"),
	})
	if err != nil {
		return err
	}
	defer d.cluster.Stop()
	acts := []func(context.Context) error{d.chart, d.mpi, d.isolated, d.tooBig, d.evicted}
	if options.Torch {
		acts = append(acts, d.torch)
	}
	for _, act := range acts {
		if err := act(ctx); err != nil {
			return err
		}
	}
	d.screen.title("all as it should be")
	if options.Keep {
		fmt.Fprintf(options.Out, "\nThe cluster stays up until Ctrl-C. In another shell:\n\n  export KUBECONFIG=%s\n", d.cluster.Kubeconfig())
		return d.cluster.Wait(ctx)
	}
	return nil
}

// realDemo is one run of it.
type realDemo struct {
	screen  *output
	cluster *cluster.Cluster
}

// kubectl shows a command and what it prints, and returns the latter.
func (d *realDemo) kubectl(ctx context.Context, args ...string) (string, error) {
	d.screen.say("$", "kubectl %s", strings.Join(args, " "))
	out, err := d.cluster.Kubectl(ctx, args...)
	for line := range strings.Lines(out) {
		d.screen.say("", "  %s", strings.TrimRight(line, "\n"))
	}
	return out, err
}

// apply applies a manifest of the demo.
func (d *realDemo) apply(ctx context.Context, name string) error {
	text, err := fs.ReadFile(realManifests, "real/"+name)
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	return d.applyText(ctx, name, string(text))
}

func (d *realDemo) applyText(ctx context.Context, name, text string) error {
	file := filepath.Join(d.cluster.Dir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	d.screen.say("$", "kubectl apply -f %s", name)
	_, err := d.cluster.Kubectl(ctx, "apply", "-f", file)
	return err
}

// await waits until an object is as a condition of kubectl wait says.
func (d *realDemo) await(ctx context.Context, what, condition string) error {
	_, err := d.cluster.Kubectl(ctx, "wait", "--for="+condition, what, "--timeout="+release.Timeout)
	return err
}

func (d *realDemo) chart(ctx context.Context) error {
	d.screen.title("1. The chart, with the images of make image: two replicas and a leader")
	stop := d.screen.heartbeat("chart", "building images, and waiting for its pods")
	defer stop()
	if err := release.InstallOnNodes(ctx, d.cluster, "1", d.screen.writer("images")); err != nil {
		return err
	}
	_, err := d.kubectl(ctx, "get", "pods", "-n", release.Namespace, "-o", "wide")
	_, other := d.kubectl(ctx, "get", "lease", release.Deployment, "-n", release.Namespace)
	return errors.Join(err, other)
}

// sample applies a sample of an operator, with the operator as released and an image of Debian's packages in place of the
// sample's.
func (d *realDemo) sample(ctx context.Context, operator operators.Operator, file, published string, image node.Image) error {
	if _, err := operators.Install(ctx, d.cluster, d.screen.writer("operator"), operator); err != nil {
		return err
	}
	archive, err := image.Build(ctx, d.screen.writer("image"))
	if err != nil {
		return err
	}
	if err := d.cluster.Import(ctx, archive); err != nil {
		return err
	}
	root, err := binaries.Root()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, "config", "samples", "operators", file))
	if err != nil {
		return fmt.Errorf("sample: %w", err)
	}
	return d.applyText(ctx, file, strings.ReplaceAll(string(text), published, image.Reference()))
}

func (d *realDemo) mpi(ctx context.Context) error {
	d.screen.title("2. An MPIJob of mpi-operator, with Open MPI: launcher and workers start together")
	if err := d.sample(ctx, operators.MPI(""), "mpijob.yaml", "mpioperator/mpi-pi:openmpi", node.OpenMPI()); err != nil {
		return err
	}
	if err := d.await(ctx, "mpijob/pi", "condition=Succeeded"); err != nil {
		return err
	}
	said, err := d.kubectl(ctx, "logs", "-l", "training.kubeflow.org/job-role=launcher")
	if err == nil && (strings.Count(said, "of 3 on pi-worker-") != 3 || !strings.Contains(said, "pi is about 3.14")) {
		err = errors.New("the launcher did not print three ranks and pi")
	}
	return err
}

func (d *realDemo) isolated(ctx context.Context) error {
	d.screen.title("3. An isolated CPU: the kernel gives it to one container, and keeps others away")
	if err := d.apply(ctx, "isolated.yaml"); err != nil {
		return err
	}
	for _, pod := range []string{"quiet", "ordinary"} {
		if err := d.await(ctx, "pod/"+pod, "condition=Ready"); err != nil {
			return err
		}
		said, err := d.kubectl(ctx, "logs", pod)
		if err != nil {
			return err
		}
		_, list, _ := strings.Cut(said, ":")
		may, err := isolated.ParseSet(strings.TrimSpace(list))
		if err != nil {
			return fmt.Errorf("the pod %s says %q: %w", pod, said, err)
		}
		if only := may.String() == "1"; may.Has(1) != (pod == "quiet") || only != (pod == "quiet") {
			return fmt.Errorf("the pod %s may use %s: CPU 1 is for quiet alone", pod, may)
		}
	}
	_, err := d.cluster.Kubectl(ctx, "delete", "pod", "quiet", "ordinary")
	return err
}

func (d *realDemo) tooBig(ctx context.Context) error {
	d.screen.title("4. A gang that does not fit starts no container, and says why")
	if err := d.apply(ctx, "low.yaml"); err != nil {
		return err
	}
	if err := d.await(ctx, "podgroup/low", "jsonpath={.status.phase}=Running"); err != nil {
		return err
	}
	second := strings.NewReplacer("name: low}", "name: more}", "pod-group: low}", "pod-group: more}")
	text, err := fs.ReadFile(realManifests, "real/low.yaml")
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	_, objects, _ := strings.Cut(string(text), "---\n") // without the class
	if err := d.applyText(ctx, "more.yaml", second.Replace(objects)); err != nil {
		return err
	}
	if err := d.await(ctx, "podgroup/more", "jsonpath={.status.conditions[0].status}=False"); err != nil {
		return err
	}
	said, err := d.kubectl(ctx, "get", "podgroup", "more", "-o", "jsonpath={.status.conditions[0].message}")
	if err == nil && !strings.Contains(said, "needs 2, 0 would fit") {
		err = fmt.Errorf("the gang says %q", said)
	}
	return err
}

func (d *realDemo) evicted(ctx context.Context) error {
	d.screen.title("5. A gang of higher priority: the containers of the lower one end in their own time first")
	victims, err := d.cluster.Kubectl(ctx, "get", "pods", "-l", "scheduling.tutti.dev/pod-group=low", "-o", "name")
	if err != nil {
		return err
	}
	victim := strings.Fields(victims)[0]
	followed := make(chan string, 1)
	go func() {
		said, _ := d.cluster.Kubectl(ctx, "logs", "--follow", victim) // what it said so far, if the pod goes first
		followed <- said
	}()
	if err := d.apply(ctx, "high.yaml"); err != nil {
		return err
	}
	if err := d.await(ctx, "job/high", "condition=Complete"); err != nil {
		return err
	}
	said := <-followed
	d.screen.say("victim", "%s said: %s", victim, strings.Join(strings.Fields(strings.ReplaceAll(said, "\n", ", ")), " "))
	if !strings.Contains(said, "writes a checkpoint") {
		return fmt.Errorf("the victim had no time to end: %q", said)
	}
	_, err = d.kubectl(ctx, "get", "events", "--field-selector", "involvedObject.kind=PodGroup", "-o", "custom-columns=OF:.involvedObject.name,REASON:.reason,MESSAGE:.message")
	return err
}

func (d *realDemo) torch(ctx context.Context) error {
	d.screen.title("6. A PyTorchJob of training-operator: torchrun in each worker finds the others, and gloo adds up")
	stop := d.screen.heartbeat("image", "giving each node the image with PyTorch")
	err := d.sample(ctx, operators.Training(""), "pytorchjob.yaml", "pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime", node.Torch())
	stop()
	if err != nil {
		return err
	}
	if err := d.await(ctx, "pytorchjob/train", "condition=Succeeded"); err != nil {
		return err
	}
	// A worker whose torchrun ends after that of the first worker warns, in many lines, that the rendezvous is gone.
	d.screen.say("$", "kubectl logs -l training.kubeflow.org/job-name=train --tail=-1 | grep ^rank")
	said, err := d.cluster.Kubectl(ctx, "logs", "-l", "training.kubeflow.org/job-name=train", "--tail=-1")
	if err != nil {
		return err
	}
	ranks := slices.DeleteFunc(strings.Split(said, "\n"), func(line string) bool { return !strings.HasPrefix(line, "rank") })
	for _, line := range ranks {
		d.screen.say("", "  %s", line)
	}
	if len(ranks) != 3 || strings.Count(said, ": the sum is 6\n") != 3 {
		return fmt.Errorf("not each of three ranks printed the sum: %s", said)
	}
	return nil
}
