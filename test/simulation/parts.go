package simulation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// part is what of a gang starts as a whole: what is made first, or a role that is made later. Most gangs are one part.
type part struct {
	// PodGroup is what the part needs, as if there were nothing else of the gang. Its UID is its own, in each attempt of a JobSet.
	*v1alpha1.PodGroup
	job model.JobKey
	// role is empty for what is made first.
	role string
	// run is the first run of its group of which members count; those before it had ended.
	run int
	// pods are those among which its members are; runs are those of which one that runs shows that the part was whole.
	pods, runs []*corev1.Pod
}

// partKey names a part.
type partKey struct {
	job  model.JobKey
	role string
}

func (p *part) key() partKey { return partKey{p.job, p.role} }

// onePart is a gang all of which starts together.
func onePart(job model.JobKey, group *v1alpha1.PodGroup, pods []*corev1.Pod) part {
	pods, run := ofPresentRun(group, pods)
	return part{PodGroup: group, job: job, run: run, pods: pods, runs: pods}
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
	pods = newest(job, pods)
	parts := []part{onePart(job, group.DeepCopy(), pods)}
	first, attempt := &parts[0], ""
	if len(pods) > 0 {
		attempt = pods[0].Labels[jobSetAttempt]
	}
	first.Spec.Roles, first.pods, first.UID = nil, nil, partUID(group, "", attempt)
	var later []part
	for _, role := range group.Spec.Roles {
		var its []*corev1.Pod
		for _, pod := range pods {
			if stepOf(pod) == role.Name {
				its = append(its, pod)
			}
		}
		if group.Labels[role.Name] == isMadeLater {
			one := part{PodGroup: group.DeepCopy(), job: job, role: role.Name, pods: its, runs: its}
			one.UID, one.Spec.MinMember, one.Spec.Roles = partUID(group, role.Name, attempt), role.MinMember, []v1alpha1.Role{role}
			one.Status = v1alpha1.PodGroupStatus{}
			later = append(later, one)
			first.Spec.MinMember -= role.MinMember
			continue
		}
		if group.Labels[role.Name] == isDone && !slices.ContainsFunc(its, func(pod *corev1.Pod) bool { return !finished(pod) }) {
			left := min(role.MinMember, int32(countMembers(its, group, nodeOf).All)) // others are not waited for
			first.Spec.MinMember -= role.MinMember - left
			role.MinMember = left
		}
		first.Spec.Roles, first.pods = append(first.Spec.Roles, role), append(first.pods, its...)
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

// members counts those of the part.
func (p *part) members(place func(*corev1.Pod) string) *invariants.Members {
	return countMembers(p.pods, p.PodGroup, place)
}

// has reports whether one of the pods, by UID, may be a member.
func (p *part) has(pods []types.UID) bool {
	return slices.ContainsFunc(p.pods, func(pod *corev1.Pod) bool { return slices.Contains(pods, pod.UID) })
}

// goesOn reports whether a part was whole, as the API says, and something of it is left: a live member with a node besides those
// that a decision has just bound. It is not held to all that it states.
func (p *part) goesOn(placed func(*corev1.Pod) string) bool {
	whole, left := sources.Whole(p.PodGroup), false
	for _, pod := range p.runs {
		if jobKeyOf(pod) == p.job && ours(pod) {
			left = left || placed(pod) != "" && !finished(pod) && pod.DeletionTimestamp == nil
			whole = whole || p.job.Source != model.SourcePodGroup && (pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodSucceeded)
		}
	}
	return whole && left
}

// except returns where pods have a place, but for these, which a decision has just bound.
func except(place func(*corev1.Pod) string, fresh []types.UID) func(*corev1.Pod) string {
	return func(pod *corev1.Pod) string {
		if slices.Contains(fresh, pod.UID) {
			return ""
		}
		return place(pod)
	}
}

// lacking says what is lacking of the parts of a gang in which these pods get a place, and of what is made first where
// another part begins with that; empty when nothing is. What goes on may be completed one by one.
func lacking(parts []part, place func(*corev1.Pod) string, fresh []types.UID) string {
	for i := range parts {
		one := &parts[i]
		if len(parts) > 1 && !one.has(fresh) {
			continue
		}
		if lacks := one.members(place).Unmet(one.PodGroup); lacks != "" && !one.goesOn(except(place, fresh)) {
			return lacks
		}
		begins := i > 0 && one.members(except(place, fresh)).All == 0
		if lacks := parts[0].members(place).Unmet(parts[0].PodGroup); begins && lacks != "" {
			return "begins with " + one.role + ", and " + lacks
		}
	}
	return ""
}

// partsOf returns the parts of a job by the objects that the process has received.
func (p *process) partsOf(job model.JobKey) []part { return partsOf(job, p.pods(), p.groupOf) }

// partsOf returns the parts of a job as they are.
func (s *server) partsOf(job model.JobKey) []part { return partsOf(job, s.pods(), s.groupOf) }
