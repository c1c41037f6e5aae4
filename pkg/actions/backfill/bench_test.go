package backfill_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/pkg/actions/allocate"
	"github.com/tutti-sched/tutti/pkg/actions/backfill"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/pkg/plugins/priority"
)

// field is a full cluster, and one gang that waits.
type field struct {
	state   *cluster.State
	profile *engine.Profile
	cache   engine.Cache
	now     time.Time
	version int
}

const (
	benchNodes   = 5_000
	benchPerNode = 10
)

func newField(nodes, perNode, members int, cpu string, arguments map[string]string) *field {
	f := &field{
		state: cluster.New(cluster.Options{SchedulerNames: []string{"tutti"}}),
		now:   time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC),
		profile: &engine.Profile{
			Actions: []engine.Action{
				allocate.New(), backfill.New(config.NewArguments("action backfill", arguments).Reader()),
			},
			Tiers: []engine.Tier{{{Factory: priority.New}, {Factory: gang.New}}},
		},
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range nodes {
		name := fmt.Sprintf("n%04d", i)
		f.apply(&cluster.NodeSeen{Node: &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
			Status:     corev1.NodeStatus{Allocatable: amounts(fmt.Sprint(perNode))},
		}})
		for j := range perNode {
			pod := onePod(fmt.Sprintf("p-%d-%d", i, j), "1")
			span := random.Int64N(36_000)
			began := metav1.NewTime(f.now.Add(-time.Duration(random.Int64N(600)) * time.Second))
			pod.Spec.NodeName, pod.Status.Phase, pod.Status.StartTime = name, corev1.PodRunning, &began
			if span%4 > 0 {
				pod.Spec.ActiveDeadlineSeconds = &span
			}
			f.apply(&cluster.PodSeen{Pod: pod})
		}
	}
	f.apply(&cluster.GroupSeen{Group: &v1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "big", UID: "big"},
		Spec:       v1alpha1.PodGroupSpec{MinMember: int32(members)},
	}})
	for i := range members {
		pod := onePod(fmt.Sprintf("big-%d", i), cpu)
		pod.Labels = map[string]string{v1alpha1.LabelPodGroup: "big"}
		f.apply(&cluster.PodSeen{Pod: pod})
	}
	return f
}

func (f *field) time() *metav1.Time {
	at := metav1.NewTime(f.now)
	return &at
}

func amounts(cpu string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourcePods: resource.MustParse("110")}
}

func onePod(name, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{
			SchedulerName: "tutti",
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
			}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

func (f *field) apply(event cluster.Event) {
	f.version++
	switch e := event.(type) {
	case *cluster.PodSeen:
		e.Pod.ResourceVersion = fmt.Sprint(f.version)
	case *cluster.NodeSeen:
		e.Node.ResourceVersion = fmt.Sprint(f.version)
	case *cluster.GroupSeen:
		e.Group.ResourceVersion = fmt.Sprint(f.version)
	}
	f.state.Apply(event)
}

// cycle plays a cycle and returns what it reserves; it is assumed where assume says so.
func (f *field) cycle(assume bool) (reserved *model.Reservation) {
	engine.Run(f.state.Snapshot(f.now), f.profile, engine.Options{Cache: &f.cache, Decide: func(d model.Decision) {
		if d.Reservation != nil {
			reserved = d.Reservation
		}
		if assume {
			f.state.Assume(d)
		}
	}})
	return reserved
}

// BenchmarkCycle is a cycle of 5,000 nodes full of 50,000 running pods with a gang that waits. The part that planning takes is
// the difference to the case in which no gang is due.
func BenchmarkCycle(b *testing.B) {
	for _, c := range []struct {
		name         string
		members      int
		cpu          string
		reserveAfter string
		holds        bool
	}{
		{"none due", 100, "10", "10m", false},
		{"planning 100 whole nodes", 100, "10", "0", false},
		{"planning 1000 half nodes", 1000, "5", "0", false},
		{"planning 4000 whole nodes", 4000, "10", "0", false},
		{"planning for nothing", 5001, "10", "0", false},
		{"keeping 100 whole nodes", 100, "10", "0", true},
		{"keeping 1000 half nodes", 1000, "5", "0", true},
	} {
		b.Run(c.name, func(b *testing.B) {
			f := newField(benchNodes, benchPerNode, c.members, c.cpu, map[string]string{"reserveAfter": c.reserveAfter, "reserveShare": "100"})
			plans := c.reserveAfter == "0" && c.members <= benchNodes
			if reserved := f.cycle(c.holds); (reserved != nil) != plans {
				b.Fatalf("reserved is %v", reserved)
			}
			for b.Loop() {
				f.cycle(c.holds)
			}
		})
	}
}
