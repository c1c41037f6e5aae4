package diagnose

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// queuePosition names the waiting jobs of the namespace that come first in the order, as far as their pods show it: by
// priority, then by age. Capacity that becomes free is offered to them first. Single pods are left out, and jobs that lack
// members.
func queuePosition(namespace *Namespace, g *gang) []string {
	mine := g.priority()
	var higher, older []string
	for _, name := range namespace.named() {
		gangs := namespace.gangs(name)
		for i := range gangs {
			other := &gangs[i]
			if other.name == g.name && other.owner == g.owner || !other.waits() {
				continue
			}
			switch theirs := other.priority(); {
			case theirs > mine:
				higher = append(higher, other.name)
			case theirs == mine && other.created().Compare(g.created()) < 0:
				older = append(older, other.name)
			}
		}
	}
	var notes []string
	if len(higher) > 0 {
		notes = append(notes, fmt.Sprintf("waiting too, and of a higher priority: %s", few(higher)))
	}
	if len(older) > 0 {
		notes = append(notes, fmt.Sprintf("waiting too, and older at the same priority: %s", few(older)))
	}
	return notes
}

// notEnough is the code of a group for which the scheduler counts too few members. This program may count more, such as those
// left to another scheduler.
const notEnough = "NotEnoughMembers"

// waits reports whether it has the members it needs, and has not started.
func (g *gang) waits() bool {
	m := countMembers(g)
	if g.group == nil {
		return g.byPods && m.Exist >= m.Needs && m.Bound < m.Needs && m.Running+m.Succeeded == 0
	}
	condition := meta.FindStatusCondition(g.group.Status.Conditions, v1alpha1.ConditionScheduled)
	return m.Exist >= m.Needs && condition != nil && condition.Status == metav1.ConditionFalse && condition.Reason != notEnough && condition.Reason != v1alpha1.ConditionEvicted
}
