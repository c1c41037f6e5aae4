package simulation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// part is what of a gang starts as a whole.
type part = invariants.Part

// partKey names a part.
type partKey struct {
	job  model.JobKey
	role string
}

func keyOfPart(p *part) partKey { return partKey{p.Job, p.Role} }

// onePart is a gang all of which starts together.
func onePart(job model.JobKey, group *v1alpha1.PodGroup, pods []*corev1.Pod) part {
	pods, run := ofPresentRun(group, pods)
	members := membersOf(job, pods)
	return part{PodGroup: group, Job: job, Run: run, Pods: members, Runs: members}
}

// membersOf returns those of the pods that are members of a job.
func membersOf(job model.JobKey, pods []*corev1.Pod) (members []*corev1.Pod) {
	for _, pod := range pods {
		if jobKeyOf(pod) == job && ours(pod) {
			members = append(members, pod)
		}
	}
	return members
}

// partsOf returns the parts of a job, what is made first before those that are made later, whether these have members or
// not; none when nothing says what the job needs.
func partsOf(job model.JobKey, pods []*corev1.Pod, named func(model.JobKey) *v1alpha1.PodGroup) []part {
	group := groupFor(job, pods, named)
	switch {
	case group == nil:
		return nil
	case len(group.Labels) == 0:
		return []part{onePart(job, group, pods)}
	}
	pods = membersOf(job, newest(job, pods))
	parts := []part{onePart(job, group.DeepCopy(), pods)}
	first, attempt := &parts[0], ""
	if len(pods) > 0 {
		attempt = pods[0].Labels[jobSetAttempt]
	}
	first.Spec.Roles, first.Pods, first.UID = nil, nil, partUID(group, "", attempt)
	var later []part
	for _, role := range group.Spec.Roles {
		var its []*corev1.Pod
		for _, pod := range pods {
			if stepOf(pod) == role.Name {
				its = append(its, pod)
			}
		}
		if group.Labels[role.Name] == isMadeLater {
			one := part{PodGroup: group.DeepCopy(), Job: job, Role: role.Name, Pods: its, Runs: its}
			one.UID, one.Spec.MinMember, one.Spec.Roles = partUID(group, role.Name, attempt), role.MinMember, []v1alpha1.Role{role}
			one.Status = v1alpha1.PodGroupStatus{}
			later = append(later, one)
			first.Spec.MinMember -= role.MinMember
			continue
		}
		if group.Labels[role.Name] == isDone && !slices.ContainsFunc(its, func(pod *corev1.Pod) bool { return !finished(pod) }) {
			left := min(role.MinMember, int32((&part{Job: job, Pods: its}).Members(nodeOf).All)) // others are not waited for
			first.Spec.MinMember -= role.MinMember - left
			role.MinMember = left
		}
		first.Spec.Roles, first.Pods = append(first.Spec.Roles, role), append(first.Pods, its...)
	}
	return append(parts, later...)
}

// partUID is the UID of a part of a group, uidOf that of the part of a pod of it, in the attempt of the pod.
func partUID(group *v1alpha1.PodGroup, role, attempt string) types.UID {
	return types.UID(fmt.Sprintf("%s/%s/%s", group.UID, role, attempt))
}

func uidOf(group *v1alpha1.PodGroup, pod *corev1.Pod) types.UID {
	role := stepOf(pod)
	switch {
	case len(group.Labels) == 0:
		return group.UID
	case group.Labels[role] != isMadeLater:
		role = ""
	}
	return partUID(group, role, pod.Labels[jobSetAttempt])
}

// partsOf returns the parts of a job by the objects that the process has received.
func (p *process) partsOf(job model.JobKey) []part { return partsOf(job, p.podsAsTold(), p.groupOf) }

// partsOf returns the parts of a job as they are.
func (s *server) partsOf(job model.JobKey) []part { return partsOf(job, s.pods(), s.groupOf) }
