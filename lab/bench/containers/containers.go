// Package containers measures what a user waits for on real nodes: the time from the start of `kubectl apply` until the last rank
// of a job has printed its first line, and what this time is made of.
package containers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/tutti-sched/tutti/lab/bench/page"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/demo/release"
	"github.com/tutti-sched/tutti/lab/node"
	"github.com/tutti-sched/tutti/lab/operators"
)

// nodes is how many real nodes there are.
const nodes = 3

// Options say what to measure.
type Options struct {
	// Kubernetes is the version of the control plane; empty means the default one.
	Kubernetes string
	// Rounds is how many times each job is applied, one after another.
	Rounds int
	// Out receives progress.
	Out io.Writer
}

// Job is a kind of job that is measured.
type Job struct {
	Name string
	// manifest are its objects, and pods is how many pods they become.
	manifest string
	pods     int
	// printers are the labels of the pods that print the lines of the ranks, and line is what a line of a rank has in it.
	printers, line string
	ranks          int
}

// Round is when each part of one start was over, from the start of `kubectl apply` on.
type Round struct {
	// Applied is when kubectl returned, and Created when a watch had seen the last pod.
	Applied, Created time.Duration
	// Decided is when the watch saw the first pod on a node, so that the gang was decided, and Bound when it saw the last.
	Decided, Bound time.Duration
	// Sandbox is when the watch saw that the last pod had its sandbox and its network (condition PodReadyToStartContainers).
	Sandbox time.Duration
	// Line is the time of the last rank's first line, as the container runtime writes it in the log.
	Line time.Duration
}

// Run is what was measured of one kind of job.
type Run struct {
	Job    Job
	Rounds []Round
}

// Result is what was measured.
type Result struct {
	// Nodes are the nodes when the chart is installed and no job has run.
	Nodes []Node
	Runs  []Run
}

// Node is one of the nodes.
type Node struct {
	Name string
	// Took is how long its start took, beside that of the others: until containerd, kubelet and kube-proxy answered.
	Took time.Duration
	// Memory is what its processes hold, in bytes, its containers among them.
	Memory int64
}

// Measure starts a cluster with real nodes, installs the chart in it, and measures one job after another. It needs root, as
// lab/node does, and says what is missing.
func Measure(ctx context.Context, options Options) (result Result, err error) {
	if options.Rounds < 1 {
		return result, errors.New("rounds must be 1 or more")
	}
	if missing := node.Missing(); len(missing) > 0 {
		return result, fmt.Errorf("real nodes need %s", strings.Join(missing, ", "))
	}
	root, err := binaries.Root()
	if err != nil {
		return result, err
	}
	unlock, err := operators.Lock()
	if err != nil {
		return result, err
	}
	defer unlock()
	c, err := cluster.Start(ctx, cluster.Options{
		Kubernetes: options.Kubernetes, ControllerManager: true, Scheduler: true, RealNodes: nodes,
		Dir: filepath.Join(root, "build", "bench"), Out: options.Out,
	})
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	jobs, err := options.prepare(ctx, c, root)
	if err != nil {
		return result, err
	}
	for _, m := range c.Machines() {
		memory, err := m.Memory(ctx)
		if err != nil {
			return result, err
		}
		result.Nodes = append(result.Nodes, Node{Name: m.Name(), Took: m.Took(), Memory: memory})
	}
	client, err := c.Client()
	if err != nil {
		return result, err
	}
	for _, job := range jobs {
		run := Run{Job: job}
		for i := range options.Rounds + 1 {
			round, err := job.start(ctx, c, client)
			if err != nil {
				return result, fmt.Errorf("%s, round %d: %w", job.Name, i, err)
			}
			if i > 0 { // the first round fills caches
				run.Rounds = append(run.Rounds, round)
			}
		}
		result.Runs = append(result.Runs, run)
		fmt.Fprintf(options.Out, "%s: %s\n", job.Name, strings.Join(run.cells(), ", "))
	}
	return result, nil
}

// prepare installs the chart, the operator and the images, and returns the jobs.
func (o *Options) prepare(ctx context.Context, c *cluster.Cluster, root string) ([]Job, error) {
	if err := release.InstallOnNodes(ctx, c, "1", o.Out); err != nil {
		return nil, err
	}
	if _, err := operators.Install(ctx, c, o.Out, operators.MPI("")); err != nil {
		return nil, err
	}
	image := node.OpenMPI()
	archive, err := image.Build(ctx, o.Out)
	if err != nil {
		return nil, err
	}
	for _, m := range c.Machines() {
		if err := m.Import(ctx, archive); err != nil {
			return nil, err
		}
	}
	sample, err := os.ReadFile(filepath.Join(root, "config", "samples", "operators", "mpijob.yaml"))
	if err != nil {
		return nil, fmt.Errorf("sample: %w", err)
	}
	return []Job{
		plain(3), plain(12),
		{
			Name: "MPIJob, a launcher and 3 workers", pods: 4, ranks: 3, line: "rank ",
			manifest: strings.ReplaceAll(string(sample), "mpioperator/mpi-pi:openmpi", image.Reference()),
			printers: "training.kubeflow.org/job-role=launcher",
		},
	}, nil
}

// plain is a gang of a batch Job whose ranks print a line.
func plain(ranks int) Job {
	return Job{
		Name: fmt.Sprintf("Job of %d ranks", ranks), pods: ranks, ranks: ranks, line: "rank ", printers: "job-name=ranks",
		manifest: fmt.Sprintf(`
apiVersion: scheduling.tutti.dev/v1alpha1
kind: PodGroup
metadata: {name: ranks}
spec: {minMember: %[1]d}
---
apiVersion: batch/v1
kind: Job
metadata: {name: ranks}
spec:
  parallelism: %[1]d
  completions: %[1]d
  completionMode: Indexed
  template:
    metadata: {labels: {scheduling.tutti.dev/pod-group: ranks}}
    spec:
      schedulerName: tutti
      restartPolicy: Never
      containers:
      - name: main
        image: %[2]s
        command: [sh, -c, "echo rank $JOB_COMPLETION_INDEX on $HOSTNAME"]
        resources: {requests: {cpu: 10m}}
`, ranks, node.Busybox),
	}
}

// namespace is where the jobs are. It exists for one start.
const namespace = "ranks"

// start applies the job once in a namespace of its own and waits for its lines.
func (j *Job) start(ctx context.Context, c *cluster.Cluster, client *kubernetes.Clientset) (round Round, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	file := filepath.Join(c.Dir(), "job.yaml")
	if err := os.WriteFile(file, []byte(j.manifest), 0o600); err != nil {
		return round, fmt.Errorf("manifest: %w", err)
	}
	if _, err := c.Kubectl(ctx, "create", "namespace", namespace); err != nil {
		return round, err
	}
	defer func() {
		_, gone := c.Kubectl(ctx, "delete", "namespace", namespace, "--wait", "--timeout=5m")
		err = errors.Join(err, gone)
	}()
	watched, err := client.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return round, fmt.Errorf("watch: %w", err)
	}
	defer watched.Stop()
	begin := time.Now()
	applied := make(chan error, 1)
	go func() {
		_, err := c.Kubectl(ctx, "apply", "--namespace", namespace, "--filename", file)
		round.Applied = time.Since(begin)
		applied <- err
	}()
	err = j.observe(ctx, watched, begin, &round)
	if err = errors.Join(err, <-applied); err != nil {
		return round, err
	}
	last, err := j.lastLine(ctx, client)
	round.Line = last.Sub(begin)
	return round, err
}

// observe reads the watch until the ranks have started or ended, and notes when each part was over.
func (j *Job) observe(ctx context.Context, watched watch.Interface, begin time.Time, round *Round) error {
	seen := map[string]int{} // how far each pod is
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the pods: %w; %v", ctx.Err(), seen)
		case event, open := <-watched.ResultChan():
			if !open {
				return errors.New("the watch has ended")
			}
			pod, is := event.Object.(*corev1.Pod)
			if !is {
				return fmt.Errorf("watch: %+v", event.Object)
			}
			now := time.Since(begin)
			for seen[pod.Name] < phase(pod) {
				seen[pod.Name]++
				switch seen[pod.Name] {
				case created:
					round.Created = now
				case bound:
					if round.Bound = now; round.Decided == 0 {
						round.Decided = now
					}
				case sandboxed:
					round.Sandbox = now
				}
			}
			if all(seen, j.pods) {
				return nil
			}
		}
	}
}

// How far a pod is.
const (
	created = iota + 1
	bound
	sandboxed
	started
)

func phase(pod *corev1.Pod) int {
	ready := func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionTrue
	}
	switch {
	case pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodSucceeded:
		return started
	case slices.ContainsFunc(pod.Status.Conditions, ready):
		return sandboxed
	case pod.Spec.NodeName != "":
		return bound
	}
	return created
}

// all reports whether so many pods have started.
func all(seen map[string]int, pods int) bool {
	for _, far := range seen {
		if far == started {
			pods--
		}
	}
	return pods <= 0
}

// lastLine waits until each rank has printed its first line, and returns the time of the last of these lines.
func (j *Job) lastLine(ctx context.Context, client *kubernetes.Clientset) (last time.Time, err error) {
	var printed []time.Time
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (done bool, err error) {
		printed, err = j.lines(ctx, client)
		return len(printed) >= j.ranks, err
	})
	if err != nil {
		return last, fmt.Errorf("%d of %d ranks have printed a line: %w", len(printed), j.ranks, err)
	}
	return slices.MaxFunc(printed, time.Time.Compare), nil
}

// lines are the times of the lines of ranks, as the container runtime writes them in the logs.
func (j *Job) lines(ctx context.Context, client *kubernetes.Clientset) (printed []time.Time, err error) {
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: j.printers})
	if err != nil {
		return nil, fmt.Errorf("pods: %w", err)
	}
	for _, pod := range pods.Items {
		log, err := client.CoreV1().Pods(namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Timestamps: true}).DoRaw(ctx)
		if err != nil {
			continue // its container has not started
		}
		for line := range strings.Lines(string(log)) {
			at, text, _ := strings.Cut(line, " ")
			if !strings.HasPrefix(text, j.line) {
				continue
			}
			t, err := time.Parse(time.RFC3339Nano, at)
			if err != nil {
				return nil, fmt.Errorf("the log of %s: %w", pod.Name, err)
			}
			printed = append(printed, t)
		}
	}
	return printed, nil
}

// Name is what the measurement is called.
func (o *Options) Name() string { return fmt.Sprintf("jobs on %d real nodes", nodes) }

// Markdown is the part of a page about the result.
func (o *Options) Markdown(kubernetes string, result Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n    cd lab && go run ./cmd/lab bench containers --rounds %d\n\n", o.Name(), o.Rounds)
	fmt.Fprintf(&b, "Kubernetes %s; %s, and the nodes, too.\n\n", kubernetes, page.Machine())
	b.WriteString("| job | kubectl returns | pods are created | first bind | last bind | last sandbox | **first line of the last rank** | longest |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, run := range result.Runs {
		fmt.Fprintf(&b, "| %s | %s |\n", run.Job.Name, strings.Join(run.cells(), " | "))
	}
	b.WriteString("\n| node | ready after | memory |\n|---|---:|---:|\n")
	for _, n := range result.Nodes {
		fmt.Fprintf(&b, "| %s | %s | %d MiB |\n", n.Name, short(n.Took), n.Memory>>20)
	}
	return b.String()
}

// cells are the medians of the parts, and the longest whole time.
func (r *Run) cells() (cells []string) {
	sorted := func(part func(Round) time.Duration) (all []time.Duration) {
		for _, round := range r.Rounds {
			all = append(all, part(round))
		}
		slices.Sort(all)
		return all
	}
	for _, part := range []func(Round) time.Duration{
		func(r Round) time.Duration { return r.Applied },
		func(r Round) time.Duration { return r.Created },
		func(r Round) time.Duration { return r.Decided },
		func(r Round) time.Duration { return r.Bound },
		func(r Round) time.Duration { return r.Sandbox },
		func(r Round) time.Duration { return r.Line },
	} {
		all := sorted(part)
		cells = append(cells, short(all[len(all)/2]))
	}
	all := sorted(func(r Round) time.Duration { return r.Line })
	return append(cells, short(all[len(all)-1]))
}

func short(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
