// Package isolcpu gives pods CPUs that the kernel keeps its own work off, and charges them for those and not for ordinary ones.
//
// A pod asks by annotation (see pkg/isolated); how many is its CPU request. Isolated CPUs are one more dimension of requests and of
// what nodes offer, so whatever counts resources counts them. Which ids a pod is given is chosen when it is placed, and written
// together with its node; a node's free ids are those that no pod on it holds.
//
// The package keeps no books. It does not enforce anything on a node, which is the agent's part, and does not report pods that
// hold what they should not, which is the live state's.
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

// Summary is what the plugin says, in half a sentence.
const Summary = "which CPUs pods get that ask for isolated ones, and that they are not charged for ordinary ones"

// Options are the plugin's arguments. A score of weight 0 is not asked for.
type Options struct {
	// BestFit prefers, for pods with isolated CPUs, nodes on which fewer are left over beside them, of one NUMA node first.
	BestFit int64
	// Avoid prefers, for all others, nodes without isolated CPUs.
	Avoid int64
	// Report only reports a pod that can never run since another one was given its CPUs before; else it is evicted.
	Report bool
}

// Arguments are all that a configuration may say to the plugin.
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

// What becomes of a pod of Tutti's that was bound to CPUs of one bound before it.
const (
	conflictEvict  = "evict"
	conflictReport = "report"
)

// ReadOptions reads the plugin's arguments. What is no good is said by the reader.
func ReadOptions(r argument.Reader) Options {
	given := Arguments().Read(r)
	return Options{
		BestFit: given.Int("bestfit.weight"), Avoid: given.Int("avoid.weight"), Report: given.Text("onConflict") == conflictReport,
	}
}

// New returns the maker of the plugin for each session.
func New(options Options) framework.Factory {
	seen := &nodeCPUState{}
	return func() framework.Plugin { return &plugin{options: options, seen: seen, chargedResource: -1} }
}

// plugin is the plugin of one session.
type plugin struct {
	options  Options
	snapshot *model.Snapshot
	// chargedResource is the dimension of isolated CPUs; -1 while nobody has asked for any.
	chargedResource int
	// overcommitted tells that on some node pods hold more isolated CPUs than it has.
	overcommitted bool
	// seen is known from session to session.
	seen     *nodeCPUState
	refusals refusals
}

// nodeCPUState is what there is among the nodes, looked for when these have changed.
type nodeCPUState struct {
	snapshot *model.Snapshot
	mark     model.Cursor
	// isolated tells that a node has isolated CPUs, excluded that such a node's allocatable CPU does not count them.
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

// EvictsOnConflict tells whether a pod that can never run is evicted; see framework.CPUConflictPolicy.
func (p *plugin) EvictsOnConflict() bool { return !p.options.Report }

// OpenSession finds the dimension, and what there is among the nodes.
func (p *plugin) OpenSession(session *framework.Session) {
	p.snapshot = session.Snapshot
	if position, known := p.snapshot.Dimensions.Find(isolated.Resource); known {
		p.chargedResource = position
		p.overcommitted = slices.ContainsFunc(p.snapshot.Nodes, func(node *model.Node) bool { return node.Idle.At(position) < 0 })
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

// TranslateRequest divides what a pod asks for between the two pools; see model.RequestTranslator. A bound pod is charged for the
// ids that stand on it, or, without any, for ordinary CPU alone.
func (p *plugin) TranslateRequest(dimensions *model.ResourceIndex, pod *corev1.Pod, request *model.Resources) *model.Refusal {
	if pod.Spec.NodeName != "" {
		if held, err := isolated.AssignedTo(pod); err == nil && held != nil {
			charge(dimensions, request, held.CPUs.Len(), isolated.SharedPoolRequest(pod, held))
		}
		return nil
	}
	asked, err := isolated.ParseRequest(pod)
	switch {
	case err != nil:
		return &model.Refusal{Plugin: Name, Code: model.InvalidRequest, Detail: "pod " + pod.Name + ": " + err.Error()}
	case asked != nil:
		charge(dimensions, request, asked.CPUsHeld(), asked.SharedCPU)
	}
	return nil
}

func charge(dimensions *model.ResourceIndex, request *model.Resources, ids int, ordinary int64) {
	request.Set(model.CPU, min(ordinary, model.MaxAmount))
	request.Set(dimensions.Index(isolated.Resource), int64(ids))
}

// TranslateCapacity divides what a node offers; see model.RequestTranslator. Where allocatable CPU counts the isolated ones,
// ordinary CPU is what is left without them. A node whose isolated CPUs cannot be read takes no pods: it would be given too many.
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
