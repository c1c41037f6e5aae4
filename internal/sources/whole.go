package sources

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is what a status says of a gang that was whole, and with which minima it was.

// Whole reports whether the PodGroup has had its minimum bound, as its condition Scheduled says.
func Whole(group *v1alpha1.PodGroup) bool {
	return whole(&group.Status)
}

func whole(status *v1alpha1.PodGroupStatus) bool {
	return meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionScheduled)
}

// StartedMinimaOf returns the minima that the group was whole with; zero when it was not. A status may lack them: a group
// that was not degraded then had as many members as it says, and one that was had what its spec says.
func StartedMinimaOf(group *v1alpha1.PodGroup) model.Minima {
	status := &group.Status
	switch {
	case !Whole(group):
		return model.Minima{}
	case status.StartedMinMember > 0:
		return model.Minima{MinMember: status.StartedMinMember, Roles: rolesOf(status.StartedRoles)}
	}
	minima := model.Minima{MinMember: group.Spec.MinMember, Roles: rolesOf(group.Spec.Roles)}
	if status.DegradedSince == nil {
		minima.MinMember = min(minima.MinMember, status.Placed)
	}
	return minima
}

// StartedMinima writes the minima that the group was whole with, and what its members requested: those of the job, as its group
// states them, while they are bound; the ones before while it is whole and lacks members, which are those that were seen until a
// status says so; none when it is not whole. list writes down a request; nil writes none.
func StartedMinima(
	status *v1alpha1.PodGroupStatus, job *model.Job, before *v1alpha1.PodGroup, seen model.Minima,
	list func(model.Resources) corev1.ResourceList,
) {
	if !whole(status) {
		status.StartedMinMember, status.StartedRoles, status.StartedRequests = 0, nil, nil
		return
	}
	minima := StartedMinimaOf(before)
	isBound := job.FirstUnmetMinimum((*model.Task).IsBound) == nil
	if isBound {
		seen = job.Minima()
		seen.Requests = model.HeldBy(job.Tasks)
	}
	if isBound || !Whole(before) {
		minima = seen
		if status.StartedRequests = nil; list != nil {
			status.StartedRequests = list(seen.Requests)
		}
	}
	status.StartedMinMember, status.StartedRoles = min(minima.MinMember, maxMembers), nil
	for _, role := range minima.Roles {
		status.StartedRoles = append(status.StartedRoles, v1alpha1.Role{Name: role.Name, MinMember: min(role.MinMember, maxOfRole)})
	}
}

// The limits of the API for what a group was whole with, in all and of a role: the minima of a spec that was stored before there
// were limits may be above them, and a status that the API server refuses would never be written.
const (
	maxMembers = 10_000_000
	maxOfRole  = 100_000
)
