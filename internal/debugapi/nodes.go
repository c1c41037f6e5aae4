package debugapi

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file makes the document of the nodes. The loop only copies numbers, between two cycles; the goroutine of the request
// makes the document of the copy.

// maxReportAge is how old a copy may be that answers a request: requests, however many, cost the loop one copy in this time, and
// one each where they ask for another namespace than the last one.
const maxReportAge = time.Second

// Loop is the scheduler's loop. Its methods may be called by any goroutine.
type Loop interface {
	// Inspect has the loop's goroutine call read between two cycles.
	Inspect(read Inspection)
	// Leading reports whether this process decides.
	Leading() bool
}

// Inspection reads what it is shown, and keeps none of it.
type Inspection func(shown Inspected)

// Inspected is the loop's state between two cycles.
type Inspected struct {
	Snapshot *model.Snapshot
	// Paused says why no job starts; empty when they may.
	Paused string
	// SchedulerNames are the values of spec.schedulerName of the pods that the loop places.
	SchedulerNames []string
	// Jobs returns the jobs of a namespace, of all namespaces when it is empty, without their turns, and the key of each.
	Jobs func(namespace string) ([]Job, []model.JobKey)
	// Waiting returns the jobs that wait to start, in the order in which a cycle would try them now.
	Waiting func() []*model.Job
	// Counts returns how many jobs of each queue hold capacity and wait.
	Counts func() map[*model.Queue]QueueCounts
	// Trees returns the levels that the configuration declares, and their domains.
	Trees func() []engine.Tree
}

// inspector reports a part of the loop's state. It is safe for concurrent use, and puts at most one request at a time to the
// loop.
type inspector[C any] struct {
	loop  Loop
	clock clock.PassiveClock
	// read copies that part, or what is in a namespace of it, on the loop's goroutine.
	read func(shown Inspected, namespace string) C
	// free holds one token while no request is served.
	free chan struct{}
	// last is the last copy, nil before; the holder of the token may use it.
	last *copied[C]
}

// copied is a copy, of which namespace, when it was made and whether the scheduler that was asked decides.
type copied[C any] struct {
	of        C
	namespace string
	at        time.Time
	leading   bool
}

func newInspector[C any](loop Loop, clock clock.PassiveClock, read func(Inspected, string) C) *inspector[C] {
	i := &inspector[C]{loop: loop, clock: clock, read: read, free: make(chan struct{}, 1)}
	i.free <- struct{}{}
	return i
}

// copy returns a copy that is at most maxReportAge old, of a namespace or, where that is empty, of all. The error is the
// context's, when it ends before the loop answers.
func (i *inspector[C]) copy(ctx context.Context, namespace string) (*copied[C], error) {
	select {
	case <-i.free:
		defer func() { i.free <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if i.last != nil && i.last.namespace == namespace && i.clock.Since(i.last.at) < maxReportAge {
		return i.last, nil
	}
	answer := make(chan *copied[C], 1)
	i.loop.Inspect(func(shown Inspected) {
		answer <- &copied[C]{of: i.read(shown, namespace), namespace: namespace, at: shown.Snapshot.Now}
	})
	select {
	case i.last = <-answer:
		i.last.leading = i.loop.Leading()
		return i.last, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// NodeInspector reports what the loop's snapshot says of the nodes. It is safe for concurrent use.
type NodeInspector struct{ *inspector[*nodesCopy] }

// NewNodeInspector returns the inspector of a loop's nodes.
func NewNodeInspector(loop Loop, clock clock.PassiveClock) NodeInspector {
	return NodeInspector{newInspector(loop, clock, copyNodes)}
}

// Nodes returns the document of all nodes.
func (i NodeInspector) Nodes(ctx context.Context) (*NodeList, error) {
	copied, err := i.copy(ctx, "")
	if err != nil {
		return nil, err
	}
	document := copied.of.document()
	document.ListMeta = listMeta("NodeList", copied.at, copied.leading)
	return document, nil
}

// nodesCopy is a copy of what a snapshot says of its nodes.
type nodesCopy struct {
	// dimensions are those of the copy: the loop's own may grow.
	dimensions *model.ResourceIndex
	nodes      []nodeCopy
	holds      []model.HeldCapacity
}

type nodeCopy struct {
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

func copyNodes(shown Inspected, _ string) *nodesCopy {
	snapshot := shown.Snapshot
	c := &nodesCopy{dimensions: snapshot.Dimensions.Clone(), nodes: make([]nodeCopy, len(snapshot.Nodes))}
	for i, node := range snapshot.Nodes {
		copied := &c.nodes[i]
		*copied = nodeCopy{
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
		c.holds = append(c.holds, hold)
	}
	return c
}

func (c *nodesCopy) document() *NodeList {
	document := &NodeList{Items: make([]Node, len(c.nodes))}
	index := make(map[string]int, len(c.nodes))
	for i := range c.nodes {
		document.Items[i] = c.node(&c.nodes[i])
		index[c.nodes[i].name] = i
	}
	for i := range c.holds {
		hold := &c.holds[i]
		at, known := index[hold.Node]
		if !known {
			continue
		}
		node, kept := &document.Items[at], Kept{
			Job: hold.Job.String(), Pod: hold.Pod.Name, Resources: c.dimensions.List(hold.Request),
		}
		if !hold.Reserved() {
			node.Nominated = append(node.Nominated, kept)
			continue
		}
		if hold.LentUntil > 0 {
			kept.LentUntil = new(time.Unix(hold.LentUntil, 0).UTC())
		}
		node.Reserved = append(node.Reserved, kept)
	}
	return document
}

func (c *nodesCopy) node(copied *nodeCopy) Node {
	node := Node{
		ObjectMeta: metav1.ObjectMeta{Name: copied.name}, Unschedulable: copied.unschedulable, Refused: copied.refused, Pods: copied.pods,
		Allocatable: c.list(copied, copied.allocatable), Idle: c.list(copied, copied.idle), Releasing: c.list(copied, copied.releasing),
	}
	if topology := copied.isolated; topology != nil {
		free := topology.Isolated.Minus(copied.held)
		node.Isolated = &Isolated{
			CPUs: topology.Isolated.String(), Held: copied.held.String(), FreeCPUs: free.String(), Total: topology.Isolated.Len(), Free: free.Len(),
			Stale: copied.stale,
		}
	}
	return node
}

// list returns a vector of a node as a resource list. Resources that are counted per device have no numbers here.
func (c *nodesCopy) list(copied *nodeCopy, vector model.Resources) corev1.ResourceList {
	list := c.dimensions.List(vector)
	for i := range copied.allocatable {
		if copied.allocatable[i] == model.ProvidedByDRA {
			delete(list, c.dimensions.Name(i))
		}
	}
	return list
}
