package predicates

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

var _ framework.Reserver = (*plugin)(nil)

// Reserve reserves the volumes and devices of a task that has any; see framework.Reserver. It runs kube-scheduler's filters
// for them once more, since the earlier result may be stale: informers do not wait for sessions.
func (p *plugin) Reserve(task *model.Task, node *model.Node) (prepare bool, refusal *model.Refusal) {
	if !wantsAny(task) {
		return false, nil
	}
	var status *fwk.Status
	reserve := func(ctx context.Context) {
		prepare, status = p.kube.Reserve(ctx, task.Pod, node.Object, p.groupOf(task))
	}
	if wantsDevices(task) {
		if cut := p.search(task, reserve); cut != nil {
			return false, cut
		}
	} else {
		reserve(p.kube.Context())
	}
	switch {
	case status.IsSuccess():
		return prepare, nil
	case status.IsError():
		return false, p.refusals.get("setting volumes and devices aside failed: "+status.Message(), false)
	default:
		if status.Code() != fwk.Pending && !hasVolumeClaims(task.Pod) && wantsDevices(task) && p.countsDevices(task, node) {
			if p.disagreed == nil {
				p.disagreed = map[*model.Node]bool{}
			}
			p.disagreed[node] = true // the allocator is asked about it from now on
			p.view.DeviceCountWrong()
		}
		return false, p.refusals.intern(status)
	}
}

// Unreserve undoes Reserve.
func (p *plugin) Unreserve(task *model.Task) {
	if wantsAny(task) {
		p.kube.Unreserve(task.UID)
	}
}

func wantsAny(task *model.Task) bool { return hasVolumeClaims(task.Pod) || wantsDevices(task) }

// newState returns an empty state for one task.
func (p *plugin) newState(task *model.Task) fwk.CycleState {
	if group := p.groupOf(task); group != nil {
		return p.kube.NewStateIn(group)
	}
	return p.kube.NewState()
}

// groupOf returns the shared state of the task's job, nil when there is nothing to share: only a device claim can be
// allocated to several pods before the API server has it.
func (p *plugin) groupOf(task *model.Task) fwk.PodGroupCycleState {
	if task.Job.IsPod() || !hasResourceClaims(task.Pod) {
		return nil
	}
	group := p.groups[task.Job]
	if group == nil {
		if p.groups == nil {
			p.groups = map[model.JobKey]fwk.PodGroupCycleState{}
		}
		group = p.kube.NewGroup()
		p.groups[task.Job] = group
	}
	return group
}
