package predicates

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// rejectWithoutDeviceClass rejects nodes without capacity for the task unless a device class provides the resources that they
// do not report, for the time when the class is deleted already: DynamicResources sees this before the snapshot does, and
// then rejects no node.
func (p *plugin) rejectWithoutDeviceClass(task *model.Task) (framework.NodeFilterFunc, *model.Refusal) {
	if !task.MayUseDeviceClass {
		return nil, nil
	}
	gone := map[int]corev1.ResourceName{}
	for i := model.Pods + 1; i < len(task.Request); i++ {
		if name := p.view.Snapshot().Dimensions.Name(i); own(task, i) > 0 && !p.kube.ByDeviceClass(name) {
			gone[i] = name
		}
	}
	if len(gone) == 0 {
		return nil, nil
	}
	return func(node *model.Node) *model.Refusal {
		var lacking corev1.ResourceName
		for i, name := range gone {
			if !p.reports(node, i) && node.Allocatable().At(i) > 0 && (lacking == "" || name < lacking) {
				lacking = name
			}
		}
		if lacking == "" {
			return nil
		}
		return p.refusals.get("lack "+string(lacking)+", which no DeviceClass provides", false)
	}, nil
}

// rejectBesideNominated rejects, on capacity that is being released, nodes to which another pod is nominated whose devices no
// node counts: the allocator sees each pod alone, so that the devices which are free may be too few for both. When a member that
// shares a claim with the task is nominated, it rejects all other nodes. Idle capacity needs no such check, since devices are
// reserved with it.
func (p *plugin) rejectBesideNominated(task *model.Task) (framework.NodeFilterFunc, *model.Refusal) {
	if !wantsDevices(task) || !p.view.Snapshot().ExcludesTerminating() {
		return nil, nil
	}
	snapshot := p.view.Snapshot()
	viewpoint := snapshot.Viewpoint()
	beside := func(other *model.Task, node *model.Node) bool {
		nominated := other.Status == model.Pipelined || other.Status == model.Pending
		return nominated && other != task && mayTakeUncounted(other, node) && !sharesClaims(task, other)
	}
	sharers := p.sharersNode(task)
	return func(node *model.Node) *model.Refusal {
		if sharers != "" && sharers != node.Name {
			return p.refusals.get("are not the node where another member with the same claim is nominated", false)
		}
		if !mayTakeUncounted(task, node) {
			return nil
		}
		found := slices.ContainsFunc(node.Tasks, func(other *model.Task) bool { return beside(other, node) })
		for _, hold := range snapshot.HeldAt(node.Name) {
			if job := snapshot.Job(hold.Job); !found && job != nil && !hold.Reserved() && hold.AppliesTo(viewpoint) {
				of := slices.IndexFunc(job.Tasks, func(other *model.Task) bool { return other.UID == hold.Pod.UID })
				found = of >= 0 && beside(job.Tasks[of], node)
			}
		}
		if found {
			return p.refusals.get("another pod with devices that are not counted is nominated there", false)
		}
		return nil
	}, nil
}

// sharersNode returns the node to which another member of the task's job is nominated in this session that shares a claim with
// it; empty when there is none. The devices of a claim are of one node; with devices of several nodes nothing is planned.
func (p *plugin) sharersNode(task *model.Task) string {
	job := p.view.Snapshot().Job(task.Job)
	if job == nil || !task.SearchesDevices() {
		return ""
	}
	for _, other := range job.Tasks {
		if other.Status == model.Pipelined && other.SharesClaim(task) {
			return other.Node
		}
	}
	return ""
}

// mayTakeUncounted reports whether the task may take devices of the node that are no part of its capacity: by a claim, or by an
// extended resource that the node does not report.
func mayTakeUncounted(task *model.Task, node *model.Node) bool {
	if task.SearchesDevices() || selectsSome(task, node) {
		return true
	}
	for i := model.Pods + 1; wantsDevices(task) && i < len(task.Request); i++ {
		if task.Request[i] > 0 && node.Allocatable().At(i) == model.ProvidedByDRA {
			return true
		}
	}
	return false
}

// sharesClaims reports whether all devices of the task are by claims that the other one has, too: then it takes none besides.
func sharesClaims(task, other *model.Task) bool {
	shared := func(claim corev1.PodResourceClaim) bool {
		return claim.ResourceClaimName != nil && slices.ContainsFunc(other.Pod.Spec.ResourceClaims, func(its corev1.PodResourceClaim) bool {
			return its.ResourceClaimName != nil && *its.ResourceClaimName == *claim.ResourceClaimName
		})
	}
	return !task.MayUseDeviceClass && task.Namespace == other.Namespace &&
		!slices.ContainsFunc(task.Pod.Spec.ResourceClaims, func(claim corev1.PodResourceClaim) bool { return !shared(claim) })
}
