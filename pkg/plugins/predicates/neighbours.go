package predicates

import (
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/topology"
)

// counts returns the index for the session's present mode: all pods, or without the terminating ones.
func (p *plugin) counts() *topology.Index {
	if p.view != nil && p.view.Snapshot().ExcludesTerminating() {
		return p.index.Ahead()
	}
	return p.index
}

// spread is the filter in place of PodTopologySpread.
func (p *plugin) spread(task *model.Task) (framework.NodeFilterFunc, *model.Refusal) {
	f, err := p.counts().Spread(task.Pod)
	switch {
	case err != nil:
		return nil, p.refusals.get("PodTopologySpread failed: "+err.Error(), false)
	case f == nil:
		return nil, nil
	default:
		return func(node *model.Node) *model.Refusal { return p.reason(f.Check(node)) }, nil
	}
}

// podTopologyFilter is the filter in place of InterPodAffinity.
func (p *plugin) podTopologyFilter(task *model.Task) (framework.NodeFilterFunc, *model.Refusal) {
	f, err := p.counts().Affinity(task.Pod)
	switch {
	case err != nil:
		return nil, p.refusals.get(err.Error(), false)
	case f == nil:
		return nil, nil
	default:
		return func(node *model.Node) *model.Refusal { return p.reason(f.Check(node)) }, nil
	}
}

// reason returns the refusal that goes with a reason, nil for none.
func (p *plugin) reason(reason topology.Reason) *model.Refusal {
	if reason != topology.Fits && p.reasons[reason] == nil {
		p.reasons[reason] = p.refusals.get(reason.String(), reason.Evictable())
	}
	return p.reasons[reason]
}
