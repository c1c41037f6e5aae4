package predicates

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/topology"
)

// Name is the plugin's name in the configuration and in refusals.
const Name = "predicates"

// Summary is what the plugin does, in half a sentence.
const Summary = "which nodes will do: kube-scheduler's own filters (selectors, taints, affinity, spread, ports, " +
	"volumes, devices)"

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
	// NewGroup returns the state that the members of one job share in a session, NewStateIn an empty state for one of them;
	// nil is no group.
	NewGroup() fwk.PodGroupCycleState
	NewStateIn(group fwk.PodGroupCycleState) fwk.CycleState
	// TooLarge names a claim of the pod that is too large to be kept, and says why; empty when there is none.
	TooLarge(pod *corev1.Pod) string
	// Reserve reserves the volumes and devices that the pod gets on the node, and reports whether they must be written to the
	// API server before the pod is bound. A status other than success means that nothing was reserved, as when the context ends
	// before a search for devices does.
	Reserve(ctx context.Context, pod *corev1.Pod, node *corev1.Node, group fwk.PodGroupCycleState) (prepare bool, status *fwk.Status)
	// ByDeviceClass reports whether a device class provides devices for the extended resource, as far as known now.
	ByDeviceClass(resource corev1.ResourceName) bool
	// SaveFilterState keeps the filters' results for a pod for the scores that use them, until the session changes: their
	// state, nil when there is none, and a function that reports whether they pass the pod on a node.
	SaveFilterState(pod types.UID, state fwk.CycleState, passes func(*model.Node) bool)
	// Unreserve undoes Reserve in this session; it writes nothing.
	Unreserve(pod types.UID)
}

// New returns the factory of the plugin, which uses the index for spread and inter-pod affinity. It fails when kube lacks one
// of the other filters.
func New(kube Kube, index *topology.Index) (framework.Factory, error) {
	return newFactory(kube, index, searchLimit, time.Now)
}

func newFactory(kube Kube, index *topology.Index, limit time.Duration, now func() time.Time) (framework.Factory, error) {
	filters := map[framework.FilterScope][]filter{}
	for _, wanted := range wantedFilters() {
		if wanted.own != nil {
			filters[wanted.scope] = append(filters[wanted.scope], wanted)
			continue
		}
		plugin := kube.Plugin(wanted.name)
		pre, hasPre := plugin.(fwk.PreFilterPlugin)
		check, hasCheck := plugin.(fwk.FilterPlugin)
		if !hasPre || !hasCheck {
			return nil, fmt.Errorf("predicates: kube-scheduler has no filter %s", wanted.name)
		}
		wanted.pre, wanted.check = pre, check
		filters[wanted.scope] = append(filters[wanted.scope], wanted)
	}
	searches := searches{budget: framework.NewBudget[model.JobKey](limit, now), limit: limit}
	return func() framework.Plugin {
		return &plugin{kube: kube, index: index, filters: filters, searches: searches}
	}, nil
}

// plugin is the plugin of one session.
type plugin struct {
	kube     Kube
	index    *topology.Index
	filters  map[framework.FilterScope][]filter
	refusals refusals
	searches searches
	// view is nil before a session opens.
	view framework.View
	// reasons are the refusals for the index's reasons.
	reasons [topology.LastReason + 1]*model.Refusal
	// searched has, by position of a resource, whether a node has to be asked for it: see needsSearch. nil before.
	searched map[int]bool
	// oldKubelets is what hasOldKubelets has found; nil before.
	oldKubelets *bool
	// disagreed are nodes whose numbers said in this session that a task finds its devices there when it did not.
	disagreed map[*model.Node]bool
	// groups are the shared states of jobs with device claims.
	groups map[model.JobKey]fwk.PodGroupCycleState
}

var (
	_ framework.SnapshotOnlyFilter = (*plugin)(nil)
	_ framework.SessionOpener      = (*plugin)(nil)
)

// ResetCache makes the index count everything again.
func (p *plugin) ResetCache() { p.index.ResetCache() }

// OpenSession makes the index follow the session's snapshot.
func (p *plugin) OpenSession(view framework.View) {
	p.index.Follow(view.Snapshot())
	p.view = view
	p.searches.budget.Begin()
}

// Name returns "predicates".
func (p *plugin) Name() string { return Name }

// PreFilter runs the filters of one scope that apply to the task; see framework.NodeFilter. It caches nothing between tasks
// of a shape.
func (p *plugin) PreFilter(task *model.Task, scope framework.FilterScope) ([]framework.NodeFilterFunc, *model.Refusal) {
	if wantsAny(task) {
		if why := p.kube.TooLarge(task.Pod); why != "" {
			return nil, &model.Refusal{Plugin: Name, Code: model.InvalidRequest, Detail: why}
		}
	}
	var asked *question
	for i, goOn := 0, true; goOn && i < len(p.filters[scope]); i++ {
		asked, goOn = p.buildFilters(asked, &p.filters[scope][i], task)
	}
	if asked == nil {
		return nil, nil
	}
	if scope == framework.ClusterWide && wantsAny(task) {
		asked.saveState()
	}
	switch {
	case asked.refused != nil:
		return nil, asked.refused
	case len(asked.filters) == 0:
		return nil, nil
	default:
		return asked.checks(), nil
	}
}

// DependsOnSnapshotOnly reports whether no filter reads objects for the task that are in no snapshot: volumes, claims, device
// classes.
func (p *plugin) DependsOnSnapshotOnly(task *model.Task) bool {
	return !p.needsSearch(task) && !hasDisks(task.Pod)
}

// buildFilters adds one filter to the question about a task, which is created with the first filter that applies. goOn is
// false when no other filter can change the result.
func (p *plugin) buildFilters(asked *question, f *filter, task *model.Task) (_ *question, goOn bool) {
	var ask framework.NodeFilterFunc
	var refused *model.Refusal
	if f.own != nil {
		if ask, refused = f.own(p, task); ask == nil && refused == nil {
			return asked, true
		}
	} else if !f.appliesTo(task) || f.searches && !p.needsSearch(task) {
		return asked, true
	}
	if asked == nil {
		asked = &question{plugin: p, task: task, pod: task.Pod, nodes: p.kube.Lister().NodeInfos(), state: p.newState(task)}
	}
	if f.own != nil {
		return asked, asked.add(f, ask, refused)
	}
	return asked, asked.prepare(f)
}
