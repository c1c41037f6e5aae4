package place

import (
	"cmp"
	"slices"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file says of which domain the least is lacking, for advice.

// NearestDomain is the domain with capacity for most of the members that must share one, where none has enough.
type NearestDomain struct {
	// Name is as messages show it: "rack b1/r3".
	Name string
	// Lacks is for how many more members it would need capacity. Like is one of them.
	Lacks int64
	Like  *model.Task
	// Nodes are those of its nodes that would take such members if they were empty, those with least capacity for them first;
	// without nodes that are overdrawn, where more capacity is no capacity for more members.
	Nodes []*model.Node
}

// Nearest returns that domain for the first members that share one; nil when by numbers one has enough, or when the members that
// share it differ, or share it by slices. It costs two looks at every node.
func (t *Placer) Nearest(room model.CapacityKind) *NearestDomain {
	t.session.ApplyReservations(t.job)
	required, _, settled := t.ties(room)
	for i := range required {
		tie := &required[i]
		level := t.session.Domains(tie.shared.Level)
		sets := t.capacities(tie, level, settled)
		if tie.needs == 0 || slices.ContainsFunc(sets, domainSet.suffices) {
			continue
		}
		if len(sets) == 0 || len(tie.shapes) != 1 || tie.sliceSize() > 0 {
			return nil
		}
		best := slices.MaxFunc(sets, func(a, b domainSet) int { return cmp.Compare(a.fits, b.fits) }) // the first of several
		nearest := &NearestDomain{Name: level.Name(best.domain), Lacks: best.lacks, Like: tie.shapes[0].tasks[0]}
		for _, node := range t.session.EligibleNodes(nearest.Like) {
			if level.Of(node) == best.domain && !isOverdrawn(node, nearest.Like.Request, room) {
				nearest.Nodes = append(nearest.Nodes, node)
			}
		}
		fits := tie.shapes[0].fits
		slices.SortStableFunc(nearest.Nodes, func(a, b *model.Node) int { return cmp.Compare(fits[a.Index], fits[b.Index]) })
		return nearest
	}
	return nil
}

// isOverdrawn reports whether pods use more than the node has, of what is requested.
func isOverdrawn(node *model.Node, request model.Resources, room model.CapacityKind) bool {
	for position, amount := range request {
		if amount > 0 && node.FreeAmount(position, room) < 0 {
			return true
		}
	}
	return false
}
