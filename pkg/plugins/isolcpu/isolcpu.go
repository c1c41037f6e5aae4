// Package isolcpu assigns isolated CPUs to pods, and charges pods for these instead of ordinary CPU.
//
// A pod requests them by annotation (see pkg/isolated); the number is its CPU request. Isolated CPUs are one more dimension
// of requests and of allocatable, so that every resource check includes them. The ids are chosen when a pod is placed, and
// written together with its node; a node's free ids are those that no pod on it holds.
//
// The package has no accounting of its own. It enforces nothing on a node, which the agent does, and does not report pods
// with conflicting ids, which the cluster state does.
package isolcpu

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/argument"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Name is the plugin's name in the configuration.
const Name = "isolcpu"

// Summary is what the plugin does, in half a sentence.
const Summary = "which CPUs pods get that ask for isolated ones, and that they are not charged for ordinary ones"

// Options are the plugin's arguments. A score of weight 0 is not computed.
type Options struct {
	// BestFit prefers, for pods with isolated CPUs, nodes where fewer of them are left over, on one NUMA node first.
	BestFit int64
	// Avoid prefers, for all others, nodes without isolated CPUs.
	Avoid int64
	// Report only reports a pod that can never run since its CPUs were assigned to another pod before; else it is evicted.
	Report bool
}

// Arguments are the plugin's arguments.
func Arguments() argument.List {
	const most = 10_000
	return argument.List{
		argument.Int("bestfit.weight", 10, 0, most).WithHelp("prefers, for pods that ask for isolated CPUs, nodes on which the fewest are " +
			"left over beside theirs, of one NUMA node first; 0 turns it off"),
		argument.Int("avoid.weight", 1, 0, most).WithHelp("prefers, for all others, nodes that have none; 0 turns it off"),
		argument.OneOf("onConflict", conflictEvict, conflictEvict, conflictReport).WithHelp("`evict` evicts a pod of Tutti's which can " +
			"never run, since a pod that was bound before it holds some of the same CPUs, as may happen while two schedulers are " +
			"active; `report` only says so"),
	}
}

// The policies for a pod of this scheduler that was bound to CPUs of a pod bound before it.
const (
	conflictEvict  = "evict"
	conflictReport = "report"
)

// ReadOptions reads the plugin's arguments. The reader reports errors.
func ReadOptions(r argument.Reader) Options {
	given := Arguments().Read(r)
	return Options{
		BestFit: given.Int("bestfit.weight"), Avoid: given.Int("avoid.weight"), Report: given.Text("onConflict") == conflictReport,
	}
}

// New returns the factory of the plugin.
func New(options Options) framework.Factory {
	seen := &nodeCPUState{}
	return func() framework.Plugin { return &plugin{options: options, seen: seen, chargedResource: -1} }
}

// plugin is the plugin of one session.
type plugin struct {
	options  Options
	snapshot *model.Snapshot
	// chargedResource is the dimension of isolated CPUs; -1 while no pod or node has any.
	chargedResource int
	// overcommitted reports whether pods on some node hold more isolated CPUs than it has.
	overcommitted bool
	// seen is kept from session to session.
	seen     *nodeCPUState
	refusals refusals
}

// nodeCPUState is a summary of the nodes, computed when these have changed.
type nodeCPUState struct {
	snapshot *model.Snapshot
	mark     model.Cursor
	// isolated reports whether a node has isolated CPUs, excluded whether such a node's allocatable CPU does not count them.
	isolated, excluded bool
}

var (
	_ framework.NodeFilter        = (*plugin)(nil)
	_ framework.NodeScorer        = (*plugin)(nil)
	_ framework.CPUAllocator      = (*plugin)(nil)
	_ framework.SessionOpener     = (*plugin)(nil)
	_ framework.CPUConflictPolicy = (*plugin)(nil)
	_ model.RequestTranslator     = (*plugin)(nil)
)

// Name returns "isolcpu".
func (p *plugin) Name() string { return Name }

// EvictsOnConflict reports whether a pod that can never run is evicted; see framework.CPUConflictPolicy.
func (p *plugin) EvictsOnConflict() bool { return !p.options.Report }

// OpenSession finds the dimension, and summarises the nodes.
func (p *plugin) OpenSession(view framework.View) {
	p.snapshot = view.Snapshot()
	if position, known := p.snapshot.Dimensions.Find(isolated.Resource); known {
		p.chargedResource = position
		p.overcommitted = slices.ContainsFunc(p.snapshot.Nodes, func(node *model.Node) bool { return node.Idle(position) < 0 })
	}
	p.seen.refresh(p.snapshot)
}

func (s *nodeCPUState) refresh(snapshot *model.Snapshot) {
	if s.snapshot == snapshot && snapshot.Journal.SameNodes(s.mark) {
		return
	}
	*s = nodeCPUState{snapshot: snapshot, mark: snapshot.Journal.Cursor()}
	for _, node := range snapshot.Nodes {
		if node.Isolated != nil {
			s.isolated = true
			s.excluded = s.excluded || node.Isolated.Mode == isolated.Excluded
		}
	}
}

// Counts names the resource that isolated CPUs are counted as.
func (p *plugin) Counts() []corev1.ResourceName { return []corev1.ResourceName{isolated.Resource} }

// TranslateRequest divides a pod's request between the two pools; see model.RequestTranslator. A bound pod is charged for its
// assigned ids, or, without any, only for ordinary CPU.
func (p *plugin) TranslateRequest(dimensions *model.ResourceIndex, task *model.Task, request *model.Resources) *model.Refusal {
	if task.Pod.Spec.NodeName != "" {
		if held := task.Isolated; held != nil {
			charge(dimensions, request, held.CPUs.Len(), isolated.SharedPoolRequest(task.Pod, held))
		}
		return nil
	}
	asked, err := task.Asks.Request()
	switch {
	case err != nil:
		return &model.Refusal{Plugin: Name, Code: model.InvalidRequest, Detail: "pod " + task.Name + ": " + err.Error()}
	case asked != nil:
		charge(dimensions, request, asked.CPUsHeld(), asked.SharedCPU)
	}
	return nil
}

func charge(dimensions *model.ResourceIndex, request *model.Resources, ids int, ordinary int64) {
	request.Set(model.CPU, min(ordinary, model.MaxAmount))
	request.Set(dimensions.Index(isolated.Resource), int64(ids))
}

// TranslateCapacity divides a node's allocatable; see model.RequestTranslator. Where allocatable CPU counts the isolated
// ones, ordinary CPU is the rest. A node whose isolated CPUs cannot be read takes no pods: it would be given too many.
func (p *plugin) TranslateCapacity(dimensions *model.ResourceIndex, node *corev1.Node, allocatable *model.Resources) *model.Refusal {
	text, there := node.Annotations[isolated.TopologyAnnotation]
	if !there {
		return nil
	}
	topology, err := isolated.ParseTopology(text)
	if err != nil {
		return &model.Refusal{Plugin: Name, Code: model.NodesFiltered, Detail: "isolated cpu cannot be read: " + err.Error()}
	}
	count := int64(topology.Isolated.Len())
	if count == 0 {
		return nil
	}
	if topology.Mode == isolated.Included {
		allocatable.Set(model.CPU, allocatable.At(model.CPU)-1000*count)
	}
	allocatable.Set(dimensions.Index(isolated.Resource), count)
	return nil
}
