// Package nodeorder prefers nodes as kube-scheduler does, by weighted scores: how full a node would be, how evenly its
// resources would be used, taints, affinities, spread, images, volumes, devices, and the pods that a node avoids.
//
// Scores of resources are computed here, because requests are translated before they are compared, and because they are the
// hot loop; they are one score, the weighted sum. Inter-pod affinity and topology spread come from the topology.Index that
// predicates uses too, the others from kube-scheduler's own plugins. It rules no node out. A placed sibling counts
// immediately. Filters find out which volumes and devices a pod would get: without predicates these scores are 0. A score
// that fails counts 0. When no score has a weight all nodes are equal, and the lower name wins.
//
// Known differences from kube-scheduler: bounds of normalised scores are those of the candidates, not of the nodes with
// enough capacity; a pod with pod-level resources counts with those, where kube-scheduler's scores by requested share (not by
// balance) count its containers until it is on a node; devices that a DeviceClass provides under the name of an extended
// resource are not scored, because nodes do not account for them; an image that nodes report with different sizes counts with
// the largest; nominated capacity that a terminating pod still uses counts as that pod's; default constraints of spread are
// the system's or none; a profile can neither add affinity, nor ignore the preferences of running pods, nor shape the score
// of volumes; kube-scheduler has no score for avoided pods since 1.23, and it supported only ReplicaSets and
// ReplicationControllers.
package nodeorder

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-sched/tutti/pkg/argument"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/topology"
)

// Name is the plugin's name in the configuration.
const Name = "nodeorder"

// Summary is what the plugin does, in half a sentence.
const Summary = "which of them is best: kube-scheduler's scores, weighted"

// Kube is what the plugin needs of kube-scheduler. New calls Plugin; a session's goroutine calls the rest.
type Kube interface {
	// Plugin returns kube-scheduler's plugin of that name, nil when there is none.
	Plugin(name string) fwk.Plugin
	// Lister returns the view of nodes and pods that follows the session.
	Lister() fwk.SharedLister
	// Context returns the context that plugins are called with.
	Context() context.Context
	// NewState returns an empty state for one pod.
	NewState() fwk.CycleState
	// FilterState returns the filters' state for the pod since the session's last change, and a function that reports whether
	// the filters pass a node, after which the state is for that node; a nil state when no filter ran. SaveFilterState
	// replaces it.
	FilterState(pod types.UID) (state fwk.CycleState, passes func(*model.Node) bool)
	SaveFilterState(pod types.UID, state fwk.CycleState, passes func(*model.Node) bool)
	// HasDeviceChoice reports whether a device claim of the pod prefers some devices to others.
	HasDeviceChoice(pod *corev1.Pod) bool
	// HasVolumeChoice reports whether a volume claim of the pod could get a better volume on one node than on another.
	HasVolumeChoice(pod *corev1.Pod) bool
	// SpreadSelector returns a function that selects the pods of the same kind as a pod, empty when there are none. New calls
	// it, and only when pods are spread by default; it starts the watches that this needs. It is nil when they can no longer
	// be started.
	SpreadSelector() func(pod *corev1.Pod) labels.Selector
}

// ErrRestart says that spreading pods by default can only be enabled at the start of the process.
var ErrRestart = errors.New("nodeorder: " + defaulting + " needs a restart")

// RefuseUntilRestart reports the argument that enables it.
func RefuseUntilRestart(r argument.Reader) {
	r.Refuse(defaulting, "be none until the scheduler is started again: this needs a restart, since Services and controllers are "+
		"watched from the start or not at all")
}

// New returns the factory of the plugin, which uses the index for inter-pod affinity and spread. It fails when kube lacks
// another score that has a weight, and with ErrRestart. Weights that ReadWeights or DefaultWeights did not make must be at
// least 0, with a Shape where RequestedToCapacityRatio has one.
func New(kube Kube, index *topology.Index, weights Weights) (framework.Factory, error) {
	var scores []kubeScore
	for _, wanted := range wantedScores(kube, weights) {
		if wanted.weight == 0 {
			continue
		}
		plugin, ok := kube.Plugin(wanted.plugin).(fwk.ScorePlugin)
		if !ok {
			return nil, fmt.Errorf("nodeorder: kube-scheduler has no score %s", wanted.plugin)
		}
		wanted.score = plugin
		wanted.pre, _ = plugin.(fwk.PreScorePlugin)
		scores = append(scores, wanted)
	}
	var sameKind func(*corev1.Pod) labels.Selector
	if weights.DefaultSpread && weights.PodTopologySpread > 0 {
		if sameKind = kube.SpreadSelector(); sameKind == nil {
			return nil, ErrRestart
		}
	}
	return func() framework.Plugin {
		return &plugin{kube: kube, index: index, weights: weights, scores: scores, spreadSelector: sameKind}
	}, nil
}

// plugin is the plugin of one session.
type plugin struct {
	kube    Kube
	index   *topology.Index
	weights Weights
	scores  []kubeScore
	// spreadSelector is for pods that are spread by default; nil when none is.
	spreadSelector func(*corev1.Pod) labels.Selector
	// places are the positions of the scored resources in vectors, nodes all of the session.
	places resolvedResources
	nodes  []*model.Node
	// avoiders are read on first use.
	avoiders preferAvoidNodes
}

var (
	_ framework.Colocation    = (*plugin)(nil)
	_ framework.SessionOpener = (*plugin)(nil)
)

// ResetCache makes the index count everything again.
func (p *plugin) ResetCache() { p.index.ResetCache() }

// OpenSession finds the positions of the scored resources, and makes the index follow the session's snapshot.
func (p *plugin) OpenSession(view framework.View) {
	snapshot := view.Snapshot()
	p.index.Follow(snapshot)
	p.kube.SaveFilterState("", nil, nil) // left by a session with filters that this one does not have
	p.places, p.nodes = resolve(snapshot.Dimensions, &p.weights), snapshot.Nodes
}

// Name returns "nodeorder".
func (p *plugin) Name() string { return Name }

// PrefersColocation reports whether preferred affinity between pods has a weight.
func (p *plugin) PrefersColocation() bool { return p.weights.PodAffinity > 0 }

// PreScore returns the scores of one scope that have a weight and apply to the task; see framework.NodeScorer.
func (p *plugin) PreScore(task *model.Task, scope framework.FilterScope, candidates []*model.Node) []framework.NodeScore {
	if scope == framework.NodeWithPods {
		return resourceScores(&p.weights, &p.places, task)
	}
	var scores []framework.NodeScore
	if scope == framework.ClusterWide {
		if score, ok := p.preferAvoidPodsScore(task.Pod); ok {
			scores = append(scores, score)
		}
		scores = p.neighbourScores(scores, task.Pod, candidates)
	}
	nodes := p.kube.Lister().NodeInfos()
	for i := range p.scores {
		wanted := &p.scores[i]
		if wanted.scope != scope || !wanted.appliesTo(task.Pod) {
			continue
		}
		asked := question{plugin: p, kubeScore: wanted, pod: task.Pod, nodes: nodes}
		if wanted.usesFilterState {
			asked.state, asked.passes = p.kube.FilterState(task.UID)
		} else {
			asked.state = p.kube.NewState()
		}
		if asked.state == nil {
			continue
		}
		if score, ok := asked.prepare(); ok {
			scores = append(scores, score)
		}
	}
	return scores
}

// question is one score of kube-scheduler for one pod.
type question struct {
	*kubeScore
	plugin *plugin
	pod    *corev1.Pod
	nodes  fwk.NodeInfoLister
	state  fwk.CycleState
	// passes reports whether filters pass the pod on the node, whose state the score reads; nil when it reads none.
	passes func(*model.Node) bool
}

// prepare runs PreScore and returns the score; ok is false when it does not apply.
func (q *question) prepare() (score framework.NodeScore, ok bool) {
	score = framework.NodeScore{Name: q.name, Weight: q.weight, Normalization: q.normalization, Score: q.raw}
	if q.pre != nil {
		status := q.pre.PreScore(q.plugin.kube.Context(), q.state, q.pod, nil) // none reads the nodes
		if !status.IsSuccess() {
			return score, false
		}
	}
	return score, true
}

func (q *question) raw(node *model.Node) int64 {
	if q.isNoop != nil && q.isNoop(node.Object) || q.passes != nil && !q.passes(node) {
		return 0
	}
	info, err := q.nodes.Get(node.Name)
	if err != nil || info.Node() == nil {
		return 0
	}
	score, status := q.score.Score(q.plugin.kube.Context(), q.state, q.pod, info)
	if !status.IsSuccess() {
		return 0
	}
	return score
}
