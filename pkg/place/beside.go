package place

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file takes replacements to the domains that a gang prefers and in which it stands. At a start a domain is chosen for all
// members together (ties.go); a replacement has no choice to make: the others have made it.

// selectBeside returns the best node in the narrowest domain that the task prefers to share with the members which stand: that in
// which most of them stand, else the next wider one around it. It is nil when there is none, or no member stood before.
func (t *Placer) selectBeside(task *model.Task) *model.Node {
	for i := range t.job.Topology {
		shared := &t.job.Topology[i]
		stood := func(other *model.Task) bool {
			return shared.Covers(other) && (other.Status == model.Binding || other.Status == model.Bound || other.Status == model.Running)
		}
		level := t.session.Domains(shared.Level)
		stands := slices.IndexFunc(t.job.Tasks, stood)
		if !shared.Preferred || level == nil || !shared.Covers(task) || stands < 0 {
			continue
		}
		at := t.ask.SharedDomain(shared, 0)
		if at < 0 {
			continue
		}
		// Where no node has the labels of the domain, the wider domains are those of the node of a member.
		inside := t.session.Snapshot.Node(t.job.Tasks[stands].Node)
		if nodes := level.Nodes(at); len(nodes) > 0 {
			inside = t.session.Snapshot.Nodes[nodes[0]]
		}
		if inside == nil {
			continue
		}
		for _, around := range slices.Concat([]*engine.Domains{level}, t.session.LevelsAbove(shared.Level)) {
			domain := around.Of(inside)
			node := t.ask.Best(task, func(node *model.Node) bool {
				return domain >= 0 && around.Of(node) == domain
			})
			if node != nil {
				return node
			}
		}
	}
	return nil
}
