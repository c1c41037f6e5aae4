package scheduler

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// jobSet shows a JobSet of three pods with a UID, and ofJobSet makes pods that its controller has marked with the UID.
func (w *world) jobSet(uid string) {
	spec := &sources.Spec{Source: model.SourceJobSet, MinMember: 3, Roles: []model.Role{{Name: "work", MinMember: 3}}}
	spec.Namespace, spec.Name, spec.UID = "default", "train", types.UID(uid)
	w.meta(spec)
	w.mailbox.Event(&cluster.ForeignSeen{Spec: spec})
	w.mailbox.Event(&cluster.ReadingChanged{Source: model.SourceJobSet, Reading: cluster.IsRead})
}

func (w *world) ofJobSet(uid string, names ...string) {
	w.step("work", names...)
	for _, name := range names {
		w.change(name, func(pod *corev1.Pod) { pod.Labels["jobset.sigs.k8s.io/jobset-uid"] = uid })
	}
}

// TestAJobSetThatIsMadeAgain while the pods of the one before it run, or have been bound in part: none of its pods starts in
// their place, and all start together once there is capacity. What is left of the one before is not undone.
func TestAJobSetThatIsMadeAgain(t *testing.T) {
	for name, c := range map[string]struct {
		refused bool
		left    []string
	}{
		"all run":                {false, []string{"old-0", "old-1", "old-2"}},
		"two of three are bound": {true, []string{"old-0", "old-1"}},
	} {
		w := newWorld(t)
		w.node("n1", "3")
		w.jobSet("old")
		w.play(t.Context(), time.Minute) // or the start is taken for one that was found
		if c.refused {
			w.refuseTo("old-2")
		}
		w.ofJobSet("old", "old-0", "old-1", "old-2")
		w.play(t.Context(), time.Second)
		if !c.refused {
			w.run("old-0", "old-1", "old-2")
			w.play(t.Context(), time.Minute)
		}
		w.node("n1", "5")
		w.jobSet("new")
		w.ofJobSet("new", "new-0", "new-1", "new-2")
		if c.refused {
			w.gone("old-2")
		}
		w.node("n1", fmt.Sprint(len(c.left)+2))
		w.play(t.Context(), 20*time.Second)
		w.wantBound(name+", no capacity", c.left...)
		for _, old := range c.left {
			w.gone(old)
		}
		w.node("n1", "3")
		w.play(t.Context(), time.Minute)
		w.wantBound(name, "new-0", "new-1", "new-2")
	}
}

// TestARayJobThatIsTriedAgain while the pods of its first RayCluster are not deleted yet: those of the second start together once
// there is capacity for all of them, and a pod that submits the job counts for neither.
func TestARayJobThatIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "4")
	w.volcano("ray-train-pg", func(spec *sources.Spec) { spec.MinMember = 3 })
	attempt := func(kind, name string, members ...int) {
		for _, i := range members {
			w.volcanoMember("ray-train-pg", i)
			w.change(fmt.Sprint("ray-train-pg-", i), func(pod *corev1.Pod) {
				pod.CreationTimestamp = metav1.NewTime(w.clock.Now())
				pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: types.UID(name), Controller: new(true)}}
			})
		}
	}
	attempt("RayCluster", "train-a", 0, 1, 2)
	w.play(t.Context(), time.Minute)
	w.run("ray-train-pg-0", "ray-train-pg-1", "ray-train-pg-2")
	attempt("Job", "train", 3)
	w.play(t.Context(), time.Minute)
	w.wantBound("the first", "ray-train-pg-0", "ray-train-pg-1", "ray-train-pg-2", "ray-train-pg-3")
	w.inPhase("ray-train-pg-3", corev1.PodFailed)
	w.node("n1", "5")
	attempt("RayCluster", "train-b", 4, 5, 6)
	w.play(t.Context(), time.Minute)
	w.gone("ray-train-pg-0")
	w.node("n1", "4")
	w.play(t.Context(), time.Minute)
	w.wantBound("capacity for two", "ray-train-pg-1", "ray-train-pg-2", "ray-train-pg-3")
	w.gone("ray-train-pg-1")
	w.gone("ray-train-pg-2")
	w.play(t.Context(), time.Minute)
	w.wantBound("capacity for all", "ray-train-pg-3", "ray-train-pg-4", "ray-train-pg-5", "ray-train-pg-6")
}
