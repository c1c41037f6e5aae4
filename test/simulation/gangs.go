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
)

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

// startedWholeOrNotAtAll is I2, at rest: of a gang that never had its minimum, and that nothing happened to but decisions of
// ours, no member has a node. A group without a PodGroup of ours of which a container runs counts as one that was whole,
// since nothing in the API says that it was not.
func (j *invariantChecker) startedWholeOrNotAtAll() {
	for _, one := range j.server.gangs(append(j.server.implicitGroups(), j.server.foreignGroups()...)) {
		m := one.Members(nodeOf)
		whole := one.Job.Source != model.SourcePodGroup && one.GoesOn(nodeOf)
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
		whole := p.gangs[keyOfPart(&one)].whole
		if slices.ContainsFunc(one.Pods, func(pod *corev1.Pod) bool { return pod.UID == call.Pod.UID }) && !whole.IsZero() && j.queue.now.Sub(whole) > 5*time.Second {
			j.violated("I2", "%s of %s, and %q of it has been whole for %s", call.Kind, call.Pod, one.Role, j.queue.now.Sub(whole))
		}
	}
}
