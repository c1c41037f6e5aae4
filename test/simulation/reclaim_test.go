package simulation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// borrowing is a cluster of two teams with 12 CPUs: one borrows all of them with gangs of 3, then the other one submits a gang of
// 5, to which it has a right. One plan needs two of the gangs, and no more.
type borrowing struct {
	what string
	// guarantee is that of the second team, empty for a right of its share.
	guarantee int
	// perPod is the CPU of one pod of the borrower, of which a gang has 3 in all.
	perPod int
	// grace is how long the pods of the borrower may take to end.
	grace time.Duration
}

// freely is the built-in configuration, by which pods are left alone for a second.
var freely = []byte(string(config.DefaultYAML()) + "configurations: [{name: reclaim, arguments: {minRunSeconds: 1}}]\n")

// found makes nodes and queues in the place of what the seed says.
func (b borrowing) found(w *world, nodes int) {
	for _, kind := range []objectKind{kindNode, kindQueue} {
		for _, name := range w.server.names(kind) {
			w.server.remove(kind, name)
		}
	}
	for i := range nodes {
		has := amounts(3, 0)
		has[corev1.ResourcePods] = resource.MustParse("20")
		w.server.create(kindNode, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i)}, Status: corev1.NodeStatus{Allocatable: has, Capacity: has},
		})
	}
	for _, name := range []string{"borrower", "lender"} {
		queue := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}}
		queue.Spec.NamespaceSelector = &metav1.LabelSelector{}
		if name == "lender" && b.guarantee > 0 {
			queue.Spec.Guarantee = amounts(b.guarantee, 0)
		}
		w.server.create(kindQueue, queue)
	}
}

// build makes all of it.
func (b borrowing) build(w *world) {
	b.found(w, 4)
	gang := func(name, queue string, members, cpu int) {
		w.submit(w.random, &job{
			namespace: firstNamespace, name: name, gang: true, members: members, min: members, requests: amounts(cpu, 0), queue: queue,
			grace: b.grace,
		})
	}
	for i := range 4 {
		gang(fmt.Sprintf("lent%d", i), "borrower", 3/b.perPod, b.perPod)
	}
	w.later(30*time.Second, "the guarantee is asked for", func() { gang("due", "lender", 5, 1) })
}

// endsOf counts the pods of each gang that a scheduler has begun to end, and how many members of the other team's have a node.
func (s *Simulation) endsOf(what string) (ended map[string]int, started int) {
	ended = map[string]int{}
	for _, one := range s.server.log[kindPod] {
		pod := one.object.(*corev1.Pod)
		if one.deleted && s.judge.ourVictims[pod.UID] {
			ended[pod.Labels["job"]]++
		}
	}
	for _, pod := range s.server.pods() {
		if pod.Labels["job"] == what && pod.Spec.NodeName != "" {
			started++
		}
	}
	return ended, started
}

// reclaimed plays it, and says what is not as one plan has it. Where the leader is killed between the evictions of a gang, and
// what was evicted by then is enough, a part of it is left.
func (b borrowing) reclaimed(t *testing.T, filters *Filters, c Config) (writes int, why string) {
	t.Helper()
	s := newSimulation(filters, c)
	if _, err := filters.build(s.text); err != nil {
		t.Fatal(err)
	}
	s.queue.after(0, "two teams", func() { b.build(s.world) })
	s.play()
	ended, started := s.endsOf("due")
	victims := 0
	for name, members := range ended {
		victims += members
		if members != 3/b.perPod && c.CrashAfterWrite == 0 {
			why += fmt.Sprintf("%d members of %s were evicted; ", members, name)
		}
	}
	if started != 5 || len(ended) != 2 || victims*b.perPod < 5 {
		why += fmt.Sprintf("%d members have started, and of %d gangs pods were evicted: %v; ", started, len(ended), ended)
	}
	for _, v := range s.result.Violations {
		why += v.String() + "; "
	}
	return s.writes, why
}

// TestCrashDuringReclaim is Q22: a leader is killed after each of its writes in turn, SIM_CRASH_STRIDE apart, while it takes from
// one queue for another. The next one evicts no more pods than one plan needs, and none of other gangs.
func TestCrashDuringReclaim(t *testing.T) {
	filters := open(t)
	stride, crashes := int(setting(t, "SIM_CRASH_STRIDE", 4)), 0
	for _, b := range []borrowing{
		{"by a guarantee", 6, 1, 10 * time.Second}, {"by a guarantee, pods of a whole node", 6, 3, 10 * time.Second}, {"by a share", 0, 1, 10 * time.Second},
		{"by a guarantee, pods that outlast the Lease", 6, 1, 2 * time.Minute},
	} {
		t.Run(b.what, func(t *testing.T) {
			c := Config{Seed: setting(t, "SIM_SEED", 1), Plan: []Step{}, Faults: &Faults{}, Replicas: 1, Queues: true, Scheduler: freely, Punctual: true, Workers: 1}
			writes, why := b.reclaimed(t, filters, c)
			if why != "" {
				t.Fatal(why)
			}
			for after := 1; after <= writes; after += stride {
				c.CrashAfterWrite = after
				crashes++
				if _, why := b.reclaimed(t, filters, c); why != "" {
					t.Errorf("killed after write %d of %d: %s", after, writes, why)
				}
			}
		})
	}
	t.Logf("%d crashes, each after another write", crashes)
}

// TestASecondRoundOfEvictionsIsSeen, of a leader that follows one which was killed and takes pods that terminate for running
// ones; and of a single leader of whose victims one is refused.
func TestASecondRoundOfEvictionsIsSeen(t *testing.T) {
	filters := open(t)
	b := borrowing{"by a guarantee", 6, 1, 2 * time.Minute}
	for want, plant := range map[string]func() FaultInjection{
		"Q22":                           func() FaultInjection { return forgetful(func(pod *corev1.Pod) { pod.DeletionTimestamp = nil }) },
		"members of lent1 were evicted": refusesTheThird,
	} {
		t.Run(want, func(t *testing.T) {
			c := Config{Seed: 1, Plan: []Step{}, Faults: &Faults{}, Replicas: 1, Queues: true, Scheduler: freely, Punctual: true, Workers: 1}
			c.Sabotage = plant()
			_, why := b.reclaimed(t, filters, c)
			if !strings.Contains(why, want) {
				t.Errorf("not seen: %s", why)
			}
		})
	}
}

// refusesTheThird refuses the third eviction.
func refusesTheThird() FaultInjection {
	refused := 0
	return FaultInjection{Refuse: func(call commit.Call) error {
		if call.Kind == commit.CallEvict {
			if refused++; refused == 3 {
				return apierrors.NewForbidden(corev1.Resource("pods"), call.Pod.Name, nil)
			}
		}
		return nil
	}}
}

// TestAPodThatIsNotOnItsNodeForCertainCouldNotGo is Q16 where the watch has not shown a bind when a queue gets a guarantee: the
// pod is no victim until then.
func TestAPodThatIsNotOnItsNodeForCertainCouldNotGo(t *testing.T) {
	filters := open(t)
	c := Config{Seed: 1, Plan: []Step{}, Faults: &Faults{}, Replicas: 1, Queues: true, Scheduler: freely, Punctual: true, Workers: 1}
	c.Sabotage.Decided = func(p *process, decision model.Decision) {
		if len(decision.Binds) > 0 && strings.HasPrefix(decision.Job.Name, "first") {
			p.streams[slices.IndexFunc(p.streams, func(s *watchStream) bool { return s.kind == kindPod })].stall(time.Minute)
		}
	}
	s := newSimulation(filters, c)
	if _, err := filters.build(s.text); err != nil {
		t.Fatal(err)
	}
	s.queue.after(0, "two jobs of the size of the node", func() {
		borrowing{}.found(s.world, 1)
		s.world.setQueue("lender", func(spec *v1alpha1.QueueSpec) { spec.Paused = true })
		single := func(name, queue string) {
			s.world.submit(s.world.random, &job{namespace: firstNamespace, name: name, members: 1, requests: amounts(3, 0), label: queue})
		}
		single("second", "lender")
		s.queue.after(5*time.Second, "the first job", func() { single("first", "borrower") })
	})
	s.queue.after(30*time.Second, "a guarantee", func() {
		s.world.setQueue("lender", func(spec *v1alpha1.QueueSpec) { spec.Paused, spec.Guarantee = false, amounts(3, 0) })
	})
	s.play()
	if _, started := s.endsOf("second"); started != 1 {
		t.Error("the second job never starts")
	}
	for _, v := range s.result.Violations {
		t.Error(v)
	}
}
