package scheduler

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/inspect"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file shows the books of the nodes to those who ask from outside. The loop only copies numbers, between two cycles; who asks
// makes a document of them.

// booksFor is for how long a copy of the books is good enough for whoever asks next, so that nobody can keep the loop busy by asking.
const booksFor = time.Second

// books is a copy of what the snapshot says of its nodes.
type books struct {
	at      time.Time
	leading bool
	// dimensions are those of the copy: the loop's own may grow.
	dimensions *model.Dimensions
	nodes      []nodeBook
	holds      []model.Hold
}

type nodeBook struct {
	name          string
	unschedulable bool
	refused       string
	pods          int
	// The vectors are the copy's own.
	allocatable, idle, releasing model.Resources
	isolated                     *isolated.Topology
	held                         isolated.Set
	stale                        bool
}

// letLook calls those who want to see the snapshot. It costs nothing when nobody does.
func (s *Scheduler) letLook(ctx context.Context, now time.Time) {
	if len(s.looks) == 0 {
		return
	}
	snapshot := s.state.Snapshot(now)
	for _, look := range s.looks {
		s.recoverPanic(ctx, partInspection, func() { look(snapshot) })
	}
	s.looks = nil
}

// copyBooks copies what the snapshot says of its nodes.
func copyBooks(snapshot *model.Snapshot) *books {
	b := &books{at: snapshot.Now, dimensions: snapshot.Dimensions.Clone(), nodes: make([]nodeBook, len(snapshot.Nodes))}
	for i, node := range snapshot.Nodes {
		copied := &b.nodes[i]
		*copied = nodeBook{
			name: node.Name, unschedulable: node.Object != nil && node.Object.Spec.Unschedulable, refused: node.Refused.String(),
			pods: len(node.Tasks), allocatable: node.Allocatable.Clone(), idle: node.Idle.Clone(), releasing: node.Releasing.Clone(),
			isolated: node.Isolated, stale: node.Stale,
		}
		if node.Isolated != nil {
			copied.held = node.HeldCPUs(false)
		}
	}
	for _, hold := range snapshot.Holds() {
		hold.Request = hold.Request.Clone()
		b.holds = append(b.holds, hold)
	}
	return b
}

// Bookkeeper answers for the books of the nodes. It is safe for concurrent use; at most one question at a time is put to the loop.
type Bookkeeper struct {
	loop *Scheduler
	// turn holds one token while nobody asks.
	turn chan struct{}
	// last is the last answer; whoever has the token may use it.
	last *books
}

// NewBookkeeper returns who answers for the books of the loop's nodes.
func NewBookkeeper(loop *Scheduler) *Bookkeeper {
	b := &Bookkeeper{loop: loop, turn: make(chan struct{}, 1)}
	b.turn <- struct{}{}
	return b
}

// Nodes returns the books of all nodes, at most booksFor old. The error is the context's, when it ends before the loop has time.
func (b *Bookkeeper) Nodes(ctx context.Context) (*inspect.Nodes, error) {
	copied, err := b.books(ctx)
	if err != nil {
		return nil, err
	}
	return copied.document(), nil
}

func (b *Bookkeeper) books(ctx context.Context) (*books, error) {
	select {
	case <-b.turn:
		defer func() { b.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if b.last != nil && b.loop.options.Clock.Since(b.last.at) < booksFor {
		return b.last, nil
	}
	answer := make(chan *books, 1)
	b.loop.mailbox.look(func(snapshot *model.Snapshot) { answer <- copyBooks(snapshot) })
	select {
	case copied := <-answer:
		copied.leading = b.loop.history.isLeading()
		b.last = copied
		return copied, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (b *books) document() *inspect.Nodes {
	document := &inspect.Nodes{At: b.at, Leading: b.leading, Nodes: make([]inspect.Node, len(b.nodes))}
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
		node, kept := &document.Nodes[at], inspect.Kept{
			Job: hold.Job.String(), Pod: hold.Pod.Name, Resources: b.dimensions.List(hold.Request),
		}
		if !hold.Reserved() {
			node.Promised = append(node.Promised, kept)
			continue
		}
		if hold.Until > 0 {
			kept.LentUntil = new(time.Unix(hold.Until, 0).UTC())
		}
		node.Reserved = append(node.Reserved, kept)
	}
	return document
}

func (b *books) node(copied *nodeBook) inspect.Node {
	node := inspect.Node{
		Name: copied.name, Unschedulable: copied.unschedulable, Refused: copied.refused, Pods: copied.pods,
		Allocatable: b.list(copied, copied.allocatable), Idle: b.list(copied, copied.idle), Releasing: b.list(copied, copied.releasing),
	}
	if topology := copied.isolated; topology != nil {
		free := topology.Isolated.Minus(copied.held)
		node.Isolated = &inspect.Isolated{
			CPUs: topology.Isolated.String(), Held: copied.held.String(), Total: topology.Isolated.Len(), Free: free.Len(),
			Stale: copied.stale,
		}
	}
	return node
}

// list writes down a vector of a node. What is counted elsewhere, device by device, has no numbers here.
func (b *books) list(copied *nodeBook, vector model.Resources) corev1.ResourceList {
	list := b.dimensions.List(vector)
	for i := range copied.allocatable {
		if copied.allocatable[i] == model.Elsewhere {
			delete(list, b.dimensions.Name(i))
		}
	}
	return list
}
