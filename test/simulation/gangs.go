package simulation

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// countMembers counts the members of a group among pods, in its namespace only.
func countMembers(pods []*corev1.Pod, group *v1alpha1.PodGroup, place func(*corev1.Pod) string) *invariants.Members {
	var m invariants.Members
	for _, pod := range pods {
		if pod.Namespace == group.Namespace && groupOf(pod) == group.Name && ours(pod) {
			m.Add(pod, invariants.RoleOf(pod), place(pod) != "")
		}
	}
	return &m
}

// groupFor returns what a job's group needs: its PodGroup, or what the pods of an implicit group say in the place of one; nil
// when neither says anything, as of a plain pod.
func groupFor(job model.JobKey, pods []*corev1.Pod, named func(model.JobKey) *v1alpha1.PodGroup) *v1alpha1.PodGroup {
	switch {
	case job.IsPod():
		return nil
	case !job.IsImplicit():
		return named(job)
	}
	group := &v1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name, UID: types.UID("implicit " + job.String())},
		Spec:       v1alpha1.PodGroupSpec{MinMember: 1},
	}
	for _, pod := range pods {
		if jobKeyOf(pod) == job {
			if asked, err := strconv.ParseInt(cmp.Or(pod.Annotations[v1alpha1.AnnotationMinMember], pod.Annotations[kueueTotal], pod.Annotations[lwsSize]), 10, 32); err == nil {
				group.Spec.MinMember = max(group.Spec.MinMember, int32(asked))
			}
		}
	}
	return group
}

// implicitGroups returns the keys of those of the server's pods, in their order.
func (s *server) implicitGroups() (jobs []model.JobKey) {
	for _, pod := range s.pods() {
		if job := jobKeyOf(pod); job.IsImplicit() && !slices.Contains(jobs, job) {
			jobs = append(jobs, job)
		}
	}
	return jobs
}

// checkMinimum is I1: with the decision's binds, enough members have a place.
func (j *invariantChecker) checkMinimum(p *process, decision model.Decision) {
	if decision.Job.IsPod() || len(decision.Binds) == 0 {
		return
	}
	parts := p.partsOf(decision.Job)
	if len(parts) == 0 {
		j.violated("I1", "%s has no group, and is started", decision.Job)
		return
	}
	if lacks := lacking(parts, p.place, boundBy(decision)); lacks != "" {
		j.violated("I1", "%s is started and %s", decision.Job, lacks)
	}
}

// existing returns a place for each pod that has one, or waits for one and may get it.
func existing(place func(*corev1.Pod) string) func(*corev1.Pod) string {
	return func(pod *corev1.Pod) string {
		if place(pod) != "" || waits(pod) && len(pod.Spec.SchedulingGates) == 0 {
			return "some node"
		}
		return ""
	}
}

// lowered returns what the next members of the part are held to. Where it goes on and lacks members of what it was whole with, it
// is that; and no more than the members that exist.
func (p *part) lowered(place func(*corev1.Pod) string, fresh []types.UID) *v1alpha1.PodGroup {
	group, pods, placed := p.PodGroup, p.pods, except(place, fresh)
	if !p.goesOn(placed) {
		return group
	}
	if started := limited(group, int(group.Status.StartedMinMember), startedRoles(group)); group.Status.StartedMinMember > 0 &&
		countMembers(pods, started, placed).Unmet(started) != "" {
		group = started
	}
	exist := countMembers(pods, group, existing(place))
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

// staysInItsNamespace is I26: a job is made of pods of its own namespace.
func (j *invariantChecker) staysInItsNamespace(p *process, decision model.Decision) {
	for _, bind := range decision.Binds {
		pod := p.pod(bind.Pod.String())
		if bind.Pod.Namespace != decision.Job.Namespace || pod == nil || pod.UID != bind.Pod.UID || jobKeyOf(pod) != decision.Job {
			j.violated("I26", "pod %s is bound for %s, to which it does not belong", bind.Pod, decision.Job)
		}
	}
}

// startedWholeOrNotAtAll is I2, at rest: of a gang that never had its minimum, and that nothing happened to but decisions of
// ours, no member has a node. A group without a PodGroup of ours of which a container runs counts as one that was whole,
// since nothing in the API says that it was not.
func (j *invariantChecker) startedWholeOrNotAtAll() {
	for _, one := range j.server.gangs(append(j.server.implicitGroups(), j.server.foreignGroups()...)) {
		m := one.members(nodeOf)
		whole := one.job.Source != model.SourcePodGroup && one.goesOn(nodeOf)
		if m.Live > 0 && m.Unmet(one.PodGroup) != "" && !whole && !j.started[one.UID] && !j.hurt[one.UID] {
			j.violated("I2", "part of %s runs for good: it %s", keyOf(one), m.Unmet(one.PodGroup))
		}
	}
}

// gangs returns the parts of all gangs with a PodGroup, and of others.
func (s *server) gangs(others []model.JobKey) (all []part) {
	for _, name := range s.names(kindGroup) {
		group := s.group(name)
		all = append(all, s.partsOf(model.JobKey{Namespace: group.Namespace, Name: group.Name})...)
	}
	for _, job := range others {
		all = append(all, s.partsOf(job)...)
	}
	return all
}

// undoesParts is I2, too: the start of a gang is not undone that has had its minimum on nodes for a while, as far as the process
// has received it, whichever process has bound it, and before any container runs; nor that of one part for the sake of another.
func (j *invariantChecker) undoesParts(p *process, call commit.Call) {
	if call.Kind != commit.CallDeleteStarted {
		return
	}
	for _, one := range p.partsOf(call.Job) {
		whole := p.gangs[one.key()].whole
		if one.has([]types.UID{call.Pod.UID}) && !whole.IsZero() && j.queue.now.Sub(whole) > 5*time.Second {
			j.violated("I2", "%s of %s, and %q of it has been whole for %s", call.Kind, call.Pod, one.role, j.queue.now.Sub(whole))
		}
	}
}
