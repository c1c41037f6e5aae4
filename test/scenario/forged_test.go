package scenario

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// TestAReservationWithoutDecision is invariant I25 for what is read of a group's status: a user who may write it can keep no
// capacity that the group does not wait for.
func TestAReservationWithoutDecision(t *testing.T) {
	room := func(node, resourceName, amount string) v1alpha1.ReservedNode {
		return v1alpha1.ReservedNode{Name: node, Members: 1, Resources: corev1.ResourceList{
			corev1.ResourcePods: resource.MustParse("1"), corev1.ResourceName(resourceName): resource.MustParse(amount),
		}}
	}
	for name, nodes := range map[string][]v1alpha1.ReservedNode{
		"of more nodes":           {room("n1", "cpu", "2"), room("n2", "cpu", "4")},
		"of more of a node":       {room("n1", "cpu", "4"), room("n2", "cpu", "4")},
		"of all there is":         {room("n2", "cpu", "9999999999E")},
		"of less than nothing":    {room("n1", "cpu", "2"), room("n2", "cpu", "-100")},
		"of something else":       {room("n1", "cpu", "2"), room("n2", "pods", "110")},
		"of what none has":        {room("n1", "cpu", "2"), room("n2", "a.b/c", "1")},
		"on a node none has":      {room("n1", "cpu", "2"), room("gone", "cpu", "2")},
		"on a node twice":         {room("n2", "cpu", "4"), room("n2", "cpu", "2")},
		"on no node":              nil,
		"of nothing":              {room("n1", "cpu", "2"), room("n2", "cpu", "0")},
		"where the group may not": {room("n2", "cpu", "2")},
	} {
		t.Run(name, func(t *testing.T) {
			s := openLister(t)()
			if err := s.world.apply("node n{1..2} cpu=4\npod a cpu=4 node=n1 phase=Running deadline=1h\n" +
				"group mine min=1\npod mine-0 group=mine cpu=2 selector=kubernetes.io/hostname=n1\npods p{1..2} cpu=2"); err != nil {
				t.Fatal(err)
			}
			forged := s.world.groups["mine"].DeepCopy()
			forged.Status.WaitingSince = &metav1.Time{Time: s.world.now}
			forged.Status.Reservation = &v1alpha1.Reservation{Since: metav1.NewTime(s.world.now), Nodes: nodes}
			s.world.replaceGroup("mine", forged)
			for range 2 {
				if _, err := s.cycle(); err != nil {
					t.Fatal(err)
				}
				if err := s.confirm(); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{"p1", "p2"} {
				if s.world.pods[name] == nil || s.world.pods[name].Spec.NodeName != "n2" {
					t.Errorf("pod %s is kept off a node that is free", name)
				}
			}
		})
	}
}
