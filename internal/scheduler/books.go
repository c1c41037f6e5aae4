package scheduler

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file shows the books of the nodes to those who ask from outside. The loop only copies numbers, between two cycles; who asks
// makes a document of them.

// maxReportAge is for how long a copy of the books is good enough for whoever asks next, so that nobody can keep the loop busy by asking.
const maxReportAge = time.Second

// nodeReport is a copy of what the snapshot says of its nodes.
type nodeReport struct {
	at      time.Time
	leading bool
	// dimensions are those of the copy: the loop's own may grow.
	dimensions *model.ResourceIndex
	nodes      []nodeState
	holds      []model.HeldCapacity
}

type nodeState struct {
	name          string
	unschedulable bool
	refused       string
	pods          int
	// The vectors are the copy's own.
	allocatable, idle, releasing model.Resources
	isolated                     *isolated.Topology
	held                         isolated.CPUSet
	stale                        bool
}

// serveInspections calls those who want to see the snapshot. It costs nothing when nobody does.
func (s *Scheduler) serveInspections(ctx context.Context, now time.Time) {
	if len(s.looks) == 0 {
		return
	}
	snapshot := s.state.Snapshot(now)
	for _, look := range s.looks {
		s.recoverPanics(ctx, partInspection, func() { look(snapshot) })
	}
	s.looks = nil
}

// copyNodes copies what the snapshot says of its nodes.
func copyNodes(snapshot *model.Snapshot) *nodeReport {
	b := &nodeReport{at: snapshot.Now, dimensions: snapshot.Dimensions.Clone(), nodes: make([]nodeState, len(snapshot.Nodes))}
	for i, node := range snapshot.Nodes {
		copied := &b.nodes[i]
		*copied = nodeState{
			name: node.Name, unschedulable: node.Object != nil && node.Object.Spec.Unschedulable, refused: node.Invalid.String(),
			pods: len(node.Tasks), allocatable: node.Allocatable.Clone(), idle: node.Idle.Clone(), releasing: node.Releasing.Clone(),
			isolated: node.Isolated, stale: node.AgentExpired,
		}
		if node.Isolated != nil {
			copied.held = node.HeldCPUs(false)
		}
	}
	for _, hold := range snapshot.Held() {
		hold.Request = hold.Request.Clone()
		b.holds = append(b.holds, hold)
	}
	return b
}

// NodeInspector answers for the books of the nodes. It is safe for concurrent use; at most one question at a time is put to the loop.
type NodeInspector struct {
	loop *Scheduler
	// turn holds one token while nobody asks.
	turn chan struct{}
	// last is the last answer; whoever has the token may use it.
	last *nodeReport
}

// NewBookkeeper returns who answers for the books of the loop's nodes.
func NewBookkeeper(loop *Scheduler) *NodeInspector {
	b := &NodeInspector{loop: loop, turn: make(chan struct{}, 1)}
	b.turn <- struct{}{}
	return b
}

// Nodes returns the books of all nodes, at most booksFor old. The error is the context's, when it ends before the loop has time.
func (b *NodeInspector) Nodes(ctx context.Context) (*debugapi.Nodes, error) {
	copied, err := b.books(ctx)
	if err != nil {
		return nil, err
	}
	return copied.document(), nil
}

func (b *NodeInspector) books(ctx context.Context) (*nodeReport, error) {
	select {
	case <-b.turn:
		defer func() { b.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if b.last != nil && b.loop.options.Clock.Since(b.last.at) < maxReportAge {
		return b.last, nil
	}
	answer := make(chan *nodeReport, 1)
	b.loop.mailbox.inspect(func(snapshot *model.Snapshot) { answer <- copyNodes(snapshot) })
	select {
	case copied := <-answer:
		copied.leading = b.loop.history.isLeading()
		b.last = copied
		return copied, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (b *nodeReport) document() *debugapi.Nodes {
	document := &debugapi.Nodes{At: b.at, Leading: b.leading, Nodes: make([]debugapi.Node, len(b.nodes))}
	index := make(map[string]int, len(b.nodes))
	for i := range b.nodes {
		document.Nodes[i] = b.node(&b.nodes[i])
		index[b.nodes[i].name] = i
	}
	for i := range b.holds {
		hold := &b.holds[i]
		at, known := index[hold.Node]
		if !known {
			continue
		}
		node, kept := &document.Nodes[at], debugapi.HeldCapacity{
			Job: hold.Job.String(), Pod: hold.Pod.Name, Resources: b.dimensions.List(hold.Request),
		}
		if !hold.Reserved() {
			node.Promised = append(node.Promised, kept)
			continue
		}
		if hold.LentUntil > 0 {
			kept.AvailableUntil = new(time.Unix(hold.LentUntil, 0).UTC())
		}
		node.Reserved = append(node.Reserved, kept)
	}
	return document
}

func (b *nodeReport) node(copied *nodeState) debugapi.Node {
	node := debugapi.Node{
		Name: copied.name, Unschedulable: copied.unschedulable, Refused: copied.refused, Pods: copied.pods,
		Allocatable: b.list(copied, copied.allocatable), Idle: b.list(copied, copied.idle), Releasing: b.list(copied, copied.releasing),
	}
	if topology := copied.isolated; topology != nil {
		free := topology.Isolated.Minus(copied.held)
		node.Isolated = &debugapi.Isolated{
			CPUs: topology.Isolated.String(), Held: copied.held.String(), Total: topology.Isolated.Len(), Free: free.Len(),
			Stale: copied.stale,
		}
	}
	return node
}

// list writes down a vector of a node. What is counted elsewhere, device by device, has no numbers here.
func (b *nodeReport) list(copied *nodeState, vector model.Resources) corev1.ResourceList {
	list := b.dimensions.List(vector)
	for i := range copied.allocatable {
		if copied.allocatable[i] == model.ProvidedByDRA {
			delete(list, b.dimensions.Name(i))
		}
	}
	return list
}
