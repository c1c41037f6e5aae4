package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/harness"
	"github.com/tutti-sched/tutti/lab/process"
)

// SchedulerUnderTest is who binds the pods.
type SchedulerUnderTest string

// The contenders.
const (
	// Alone is no scheduler: binds to nodes chosen beforehand, by workers that decide nothing.
	Alone SchedulerUnderTest = "binding alone"
	// Floor is the least that a scheduler does: list nodes and pods, watch pods, bind each to any node, and see every bind in the
	// watch.
	Floor SchedulerUnderTest = "floor"
	// Tutti is the scheduler of this repository.
	Tutti SchedulerUnderTest = "Tutti"
	// Kube is kube-scheduler of the control plane's version, which knows no gangs.
	Kube SchedulerUnderTest = "kube-scheduler"
	// KubeGangs is the same with native gang scheduling on.
	KubeGangs SchedulerUnderTest = "kube-scheduler, gangs"
)

// Contenders are all of them, in the order of their tables.
func Contenders() []SchedulerUnderTest {
	return []SchedulerUnderTest{Alone, Floor, Tutti, Kube, KubeGangs}
}

// Schedules reports whether it is a scheduler: it decides, and is a process of its own.
func (c SchedulerUnderTest) Schedules() bool { return c != Alone && c != Floor }

// Schedulers returns an error when the contenders are not schedulers, one at least.
func Schedulers(contenders []SchedulerUnderTest) error {
	if len(contenders) == 0 || slices.ContainsFunc(contenders, func(c SchedulerUnderTest) bool { return !c.Schedules() }) {
		return errors.New("there must be schedulers, and nothing else")
	}
	return nil
}

// Room returns an error when so many pods do not fit on so many nodes.
func Room(nodes, pods int) error {
	if pods > nodes*PerNode {
		return fmt.Errorf("%d nodes have capacity for %d pods only", nodes, nodes*PerNode)
	}
	return nil
}

// Program returns the scheduler's program: the one that is given, or the one of this repository, which is built, if a
// contender needs it.
func Program(ctx context.Context, given string, contenders []SchedulerUnderTest, out io.Writer) (string, error) {
	if given != "" || !slices.Contains(contenders, Tutti) {
		return given, nil
	}
	return binaries.Build(ctx, out, binaries.TuttiScheduler)
}

// gangGate turns native gang scheduling on, in the API server and in kube-scheduler.
const gangGate = "--feature-gates=GenericWorkload=true"

// serverArgs are what the API server needs for a contender.
func (c SchedulerUnderTest) serverArgs() []string {
	if c == KubeGangs {
		return []string{gangGate, "--runtime-config=scheduling.k8s.io/v1beta1=true"}
	}
	return nil
}

// Settings says how a contender was started, for the page about it; empty when there is nothing to say.
func (c SchedulerUnderTest) Settings() string {
	switch c {
	case Kube:
		return "clientConnection qps 50000 and burst 50000, no leader election, else its defaults"
	case KubeGangs:
		return "the same, " + gangGate + " for it and the API server, scheduling.k8s.io/v1beta1 PodGroups with gang.minCount"
	case Alone, Floor, Tutti:
	}
	return ""
}

// kubeConfiguration lifts the limits on requests and gives kube-scheduler our pods.
func kubeConfiguration(kubeconfig string) string {
	return fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 50000, burst: 50000, contentType: application/vnd.kubernetes.protobuf}
leaderElection: {leaderElect: false}
profiles:
- schedulerName: %s
`, kubeconfig, harness.SchedulerName)
}

func (s *Bench) kubeScheduler(ctx context.Context) (*process.Process, error) {
	set, err := binaries.Ensure(ctx, s.options.Kubernetes, s.options.Out, binaries.Scheduler)
	if err != nil {
		return nil, fmt.Errorf("kube-scheduler: %w", err)
	}
	file := filepath.Join(s.Cluster.Dir(), "kubeconfig", "contender.yaml")
	if err := os.WriteFile(file, []byte(kubeConfiguration(s.Cluster.Kubeconfig())), 0o600); err != nil {
		return nil, fmt.Errorf("configuration of kube-scheduler: %w", err)
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	access := s.Cluster.Kubeconfig()
	args := []string{
		"--config=" + file, "--authentication-kubeconfig=" + access, "--authorization-kubeconfig=" + access,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
	}
	if s.options.Contender == KubeGangs {
		args = append(args, gangGate)
	}
	return s.Cluster.Run("kube-scheduler-contender", set.Path(binaries.Scheduler), args...)
}

// FreePort is a port of the loopback interface that no process uses now.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// nativePodGroups makes groups that kube-scheduler knows.
type nativePodGroups struct{ client *kubernetes.Clientset }

func newNatives(config *rest.Config) (*nativePodGroups, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return &nativePodGroups{client: client}, nil
}

func (n *nativePodGroups) create(ctx context.Context, name string, size int) error {
	group := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name},
		Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
			Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(size)},
		}},
	}
	if _, err := n.client.SchedulingV1beta1().PodGroups(Namespace).Create(ctx, group, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create native PodGroup %s: %w", name, err)
	}
	return nil
}

// join makes a pod a member of the native group of the same name as ours.
func (n *nativePodGroups) join(pod *corev1.Pod) {
	name := pod.Labels[v1alpha1.LabelPodGroup]
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
}

// ParseContenders reads names as a command line has them: alone, floor, tutti, kube, gangs. None means all.
func ParseContenders(names []string) ([]SchedulerUnderTest, error) {
	if len(names) == 0 {
		return Contenders(), nil
	}
	short := ShortNames()
	var all []SchedulerUnderTest
	for _, name := range names {
		found := false
		for i, one := range short {
			if one == name {
				all, found = append(all, Contenders()[i]), true
			}
		}
		if !found {
			return nil, fmt.Errorf("contender %q: there are %s", name, strings.Join(short, ", "))
		}
	}
	return all, nil
}

// ShortNames are the contenders' names on a command line, in the order of Contenders.
func ShortNames() []string { return []string{"alone", "floor", "tutti", "kube", "gangs"} }
