package invariants

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Part is what of a gang starts as a whole: what is made first, or a role that is made later. Most gangs are one part.
type Part struct {
	// PodGroup is what the part needs, as if there were nothing else of the gang. Its UID is its own, in each attempt of a JobSet.
	*v1alpha1.PodGroup
	Job model.JobKey
	// Role is empty for what is made first.
	Role string
	// Run is the first run of its group of which members count; those before it had ended.
	Run int
	// Pods are its members; Runs are pods that show, while one of them runs, that the part was whole.
	Pods, Runs []*corev1.Pod
}

// Members counts those of the part that have a place.
func (p *Part) Members(place func(*corev1.Pod) string) *Members {
	var m Members
	p.count(&m, place)
	return &m
}

func (p *Part) count(m *Members, place func(*corev1.Pod) string) {
	for _, pod := range p.Pods {
		m.Add(pod, roleIn(p.Job, pod), place(pod) != "")
	}
}

// roleIn is the role of a pod in its job. The marks of other projects count in their groups only.
func roleIn(job model.JobKey, pod *corev1.Pod) string {
	if job.IsForeign() {
		return RoleOf(pod)
	}
	return pod.Labels[v1alpha1.LabelRole]
}

// GoesOn reports whether a part was whole, as the API says, and something of it is left: a live member with a node besides those
// that a decision has just bound. It is not held to all that it states.
func (p *Part) GoesOn(placed func(*corev1.Pod) string) bool {
	whole, left := meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionScheduled), false
	for _, pod := range p.Runs {
		left = left || placed(pod) != "" && !Finished(pod) && pod.DeletionTimestamp == nil
		whole = whole || p.Job.Source != model.SourcePodGroup && (pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodSucceeded)
	}
	return whole && left
}

// Existing returns a place for each pod that has one, or waits for one and may get it.
func Existing(place func(*corev1.Pod) string) func(*corev1.Pod) string {
	return func(pod *corev1.Pod) string {
		if place(pod) != "" || Waits(pod) && len(pod.Spec.SchedulingGates) == 0 {
			return "some node"
		}
		return ""
	}
}

// except returns where pods have a place, without these, which a decision has just given one.
func except(place func(*corev1.Pod) string, fresh map[types.UID]string) func(*corev1.Pod) string {
	return func(pod *corev1.Pod) string {
		if fresh[pod.UID] != "" {
			return ""
		}
		return place(pod)
	}
}

// Lowered returns what the next members of the part are held to. Where it goes on and lacks members of what it was whole with, it
// is that; and no more than the members that exist.
func (p *Part) Lowered(place func(*corev1.Pod) string, fresh map[types.UID]string) *v1alpha1.PodGroup {
	group, placed := p.PodGroup, except(place, fresh)
	if !p.GoesOn(placed) {
		return group
	}
	if started := limited(group, int(group.Status.StartedMinMember), startedRoles(group)); group.Status.StartedMinMember > 0 &&
		p.Members(placed).Unmet(started) != "" {
		group = started
	}
	exist := p.Members(Existing(place))
	return limited(group, exist.All, exist.Roles)
}

// startedRoles are the minima of the roles that a gang was whole with.
func startedRoles(group *v1alpha1.PodGroup) map[string]int {
	minima := map[string]int{}
	for _, role := range group.Status.StartedRoles {
		minima[role.Name] = int(role.MinMember)
	}
	return minima
}

// limited returns the group with no minimum above these.
func limited(group *v1alpha1.PodGroup, all int, roles map[string]int) *v1alpha1.PodGroup {
	group = group.DeepCopy()
	group.Spec.MinMember = min(group.Spec.MinMember, int32(all))
	for i, role := range group.Spec.Roles {
		group.Spec.Roles[i].MinMember = min(role.MinMember, int32(roles[role.Name]))
	}
	return group
}

// Lacking says what is lacking of the parts of a gang in which these pods get a place, and of what is made first where
// another part begins with that; empty when nothing is. What goes on may be completed one by one.
func Lacking(parts []Part, place func(*corev1.Pod) string, fresh map[types.UID]string) string {
	for i := range parts {
		one := &parts[i]
		if len(parts) > 1 && !slices.ContainsFunc(one.Pods, func(pod *corev1.Pod) bool { return fresh[pod.UID] != "" }) {
			continue
		}
		if lacks := one.Members(place).Unmet(one.PodGroup); lacks != "" && !one.GoesOn(except(place, fresh)) {
			return lacks
		}
		begins := i > 0 && one.Members(except(place, fresh)).All == 0
		if lacks := parts[0].Members(place).Unmet(parts[0].PodGroup); begins && lacks != "" {
			return "begins with " + one.Role + ", and " + lacks
		}
	}
	return ""
}

// CheckMinimum is I1: with the decision's binds, enough members have a place.
func (v *View) CheckMinimum(decision model.Decision) {
	if decision.Job.IsPod() || len(decision.Binds) == 0 {
		return
	}
	parts := v.Parts(decision.Job)
	if len(parts) == 0 {
		v.Violated("I1", "%s has no group, and is started", decision.Job)
		return
	}
	if lacks := Lacking(parts, v.Place, BoundBy(decision)); lacks != "" {
		v.Violated("I1", "%s %s", decision.Job, lacks)
	}
}

// staysInItsNamespace is I26: a job is made of pods of its own namespace.
func (v *View) staysInItsNamespace(decision model.Decision) {
	for _, bind := range decision.Binds {
		pod := v.Pod(bind.Pod)
		if bind.Pod.Namespace != decision.Job.Namespace || pod == nil || v.JobOf(pod) != decision.Job {
			v.Violated("I26", "pod %s is bound for %s, to which it does not belong", bind.Pod, decision.Job)
		}
	}
}
