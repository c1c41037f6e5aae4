package inprocess

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/scheduler"
	"github.com/tutti-sched/tutti/internal/telemetry"
)

const (
	// heartbeats are how often the loop at rest is woken by something that asks for no cycle, each after a pause.
	heartbeats = 100
	pause      = 10 * time.Millisecond
	// settled is how long nothing must have been written before the loop counts as being at rest: longer than it puts off a
	// message, 10 s.
	settled = 12 * time.Second
	// patience is how long it may take until then.
	patience = 6 * time.Minute
	// namespaces is over how many the gangs that wait are spread. About the pods of one namespace 500 events are written in 10 s
	// (docs/decisions/0040), so that 80,000 pods of a single one would be written about for half an hour.
	namespaces = 200
)

// rest is what the loop did at rest.
type rest struct {
	// wake is the processor time of this process for one heartbeat, everything included.
	wake time.Duration
	// writes and cycles are what was sent and run meanwhile.
	writes, cycles int
	// binds is how many pods were bound before.
	binds int
}

// loop runs the scheduler's real loop on the workload until it has nothing left to do, and then lets nodes say that they
// live, which changes no answer.
func (w *world) loop(ctx context.Context) (rest, error) {
	var r rest
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	registry := prometheus.NewRegistry()
	metrics, err := telemetry.New(registry)
	if err != nil {
		return r, fmt.Errorf("metrics: %w", err)
	}
	server := newServer(w)
	loop := scheduler.New(w.state, commit.New(commit.Options{}), w.profile, server, server.mailbox, scheduler.Options{
		Clock: clock.RealClock{}, Metrics: metrics,
	})
	running, stop := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	ended := make(chan error)
	go func() { ended <- loop.Run(running) }()
	server.mailbox.Lead()
	server.create(w.pending)
	err = server.settle(ctx)
	if err == nil {
		r, err = server.rest(ctx, w.nodes[0], registry)
	}
	stop()
	return r, errors.Join(err, <-ended)
}

// server answers calls as an API server that has no time to lose, and tells the loop's watches.
type server struct {
	mailbox *scheduler.Mailbox

	mu      sync.Mutex
	serial  int
	pods    map[types.UID]*corev1.Pod
	groups  map[string]*v1alpha1.PodGroup
	writes  int
	binds   int
	written time.Time
}

func newServer(w *world) *server {
	s := &server{
		mailbox: scheduler.NewMailbox(), serial: 2 * w.serial, written: time.Now(),
		pods: map[types.UID]*corev1.Pod{}, groups: map[string]*v1alpha1.PodGroup{},
	}
	for _, group := range w.existing.Groups {
		s.groups[group.Name] = group
	}
	for _, pod := range w.existing.Pods {
		s.pods[pod.UID] = pod
	}
	return s
}

func (s *server) create(b Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, group := range b.Groups {
		group := *group
		group.Namespace = namespaceOf(group.Name)
		s.group(group)
	}
	for _, pod := range b.Pods {
		pod := *pod
		pod.Namespace = namespaceOf(pod.Labels[v1alpha1.LabelPodGroup])
		s.pod(pod)
	}
}

// namespaceOf is the namespace of a gang.
func namespaceOf(gang string) string {
	hash := fnv.New32a()
	io.WriteString(hash, gang)
	return fmt.Sprintf("%s-%d", namespace, hash.Sum32()%namespaces)
}

func (s *server) version(meta *metav1.ObjectMeta) {
	s.serial++
	meta.ResourceVersion = strconv.Itoa(s.serial)
}

func (s *server) group(group v1alpha1.PodGroup) {
	s.version(&group.ObjectMeta)
	s.groups[group.Name] = &group
	s.mailbox.Event(&cluster.GroupSeen{Group: &group})
}

func (s *server) pod(pod corev1.Pod) {
	s.version(&pod.ObjectMeta)
	s.pods[pod.UID] = &pod
	s.mailbox.Event(&cluster.PodSeen{Pod: &pod})
}

// Send implements scheduler.Sender.
func (s *server) Send(call commit.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	s.written = time.Now()
	switch call.Kind {
	case commit.CallBind:
		pod := *s.pods[call.Pod.UID]
		pod.Spec.NodeName = call.Node
		s.binds++
		s.pod(pod)
	case commit.CallPodCondition:
		pod := *s.pods[call.Pod.UID]
		pod.Status.Conditions = []corev1.PodCondition{call.Write.(*commit.PodCondition).Condition}
		s.pod(pod)
	case commit.CallGroupStatus:
		group := *s.groups[call.Write.(*commit.GroupStatus).Name]
		group.Status = call.Write.(*commit.GroupStatus).Status
		s.group(group)
	case commit.CallEvict, commit.CallEvent:
	}
	s.mailbox.Reply(commit.Reply{ID: call.ID})
}

func (s *server) counts() (writes, binds int, written time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes, s.binds, s.written
}

// settle waits until there is nothing left to write.
func (s *server) settle(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, settled/10, false, func(context.Context) (bool, error) {
		writes, _, written := s.counts()
		return writes > 0 && time.Since(written) > settled, nil
	})
	if err != nil {
		return fmt.Errorf("the loop has not come to rest: %w", err)
	}
	return nil
}

// rest lets a node say that it lives, again and again.
func (s *server) rest(ctx context.Context, node *corev1.Node, registry *prometheus.Registry) (rest, error) {
	var r rest
	cycles, err := countCycles(registry)
	if err != nil {
		return r, err
	}
	writes, binds, _ := s.counts()
	before, err := processorTime()
	if err != nil {
		return r, err
	}
	beats := 0
	err = wait.PollUntilContextCancel(ctx, pause, true, func(context.Context) (bool, error) {
		s.heartbeat(*node)
		beats++
		return beats == heartbeats, nil
	})
	if err != nil {
		return r, fmt.Errorf("the loop at rest: %w", err)
	}
	after, err := processorTime()
	if err != nil {
		return r, err
	}
	cyclesAfter, err := countCycles(registry)
	if err != nil {
		return r, err
	}
	writesAfter, _, _ := s.counts()
	return rest{
		wake: (after - before) / heartbeats, writes: writesAfter - writes, cycles: cyclesAfter - cycles, binds: binds,
	}, nil
}

func (s *server) heartbeat(node corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version(&node.ObjectMeta)
	node.Status.Conditions = append([]corev1.NodeCondition(nil), node.Status.Conditions...)
	for i := range node.Status.Conditions {
		node.Status.Conditions[i].LastHeartbeatTime = metav1.Now()
	}
	s.mailbox.Event(&cluster.NodeSeen{Node: &node})
}

// processorTime is what this process has used so far.
func processorTime() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("processor time: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

// countCycles reads how many cycles the loop has run.
func countCycles(registry *prometheus.Registry) (int, error) {
	families, err := registry.Gather()
	if err != nil {
		return 0, fmt.Errorf("metrics: %w", err)
	}
	for _, family := range families {
		if family.GetName() == "tutti_cycle_duration_seconds" {
			return int(family.GetMetric()[0].GetHistogram().GetSampleCount()), nil
		}
	}
	return 0, errors.New("metrics: there is no count of cycles")
}
