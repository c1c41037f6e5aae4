// Package predicates rules out the nodes that kube-scheduler would rule out, by asking kube-scheduler's own filters:
// names, cordons, taints, node affinity, ports, volumes, spread, inter-pod affinity, device claims and declared features.
//
// It knows no resources: whether a request fits is the engine's arithmetic, also for an extended resource that a
// DeviceClass provides. A pod that asks for nothing special costs no call into kube-scheduler once its shape is known. An
// error of a filter keeps the task off the nodes it happened for, and nothing else.
//
// It takes no arguments: kube-scheduler's filters are not a matter of taste. A pod that needs volumes or devices prepared
// before it may be bound is refused, in so many words, until commits can do that.
package predicates

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Name is the plugin's name in the configuration and in refusals.
const Name = "predicates"

// Kube is what the plugin needs of kube-scheduler. New calls Plugin; a session's goroutine calls the rest.
type Kube interface {
	// Plugin returns kube-scheduler's plugin of that name, nil when there is none.
	Plugin(name string) fwk.Plugin
	// Lister returns the view of nodes and pods that follows the session.
	Lister() fwk.SharedLister
	// Context returns the context that plugins are called with.
	Context() context.Context
	// NewState returns an empty state for the questions about one pod.
	NewState() fwk.CycleState
	// NeedsPreBind says what must be done for the pod before it may be bound, empty when nothing.
	NeedsPreBind(pod *corev1.Pod) string
}

// New returns the maker of the plugin for each session. It fails when kube lacks one of the filters.
func New(kube Kube) (framework.Factory, error) {
	filters := map[framework.Scope][]filter{}
	for _, wanted := range wantedFilters() {
		plugin := kube.Plugin(wanted.name)
		pre, hasPre := plugin.(fwk.PreFilterPlugin)
		check, hasCheck := plugin.(fwk.FilterPlugin)
		if !hasPre || !hasCheck {
			return nil, fmt.Errorf("predicates: kube-scheduler has no filter %s", wanted.name)
		}
		wanted.pre, wanted.check = pre, check
		filters[wanted.scope] = append(filters[wanted.scope], wanted)
	}
	return func() framework.Plugin { return &plugin{kube: kube, filters: filters} }, nil
}

// plugin is the plugin of one session.
type plugin struct {
	kube     Kube
	filters  map[framework.Scope][]filter
	refusals refusals
}

var _ framework.NodeFilter = (*plugin)(nil)

// Name returns "predicates".
func (p *plugin) Name() string { return Name }

// FilterFor asks the filters of one scope that concern the task; see framework.NodeFilter. It is the same whether a task
// of that shape was asked about before: nothing is kept.
func (p *plugin) FilterFor(task *model.Task, scope framework.Scope) ([]framework.NodeCheck, *model.Refusal) {
	nodes := p.kube.Lister().NodeInfos()
	var asked *question
	for i := range p.filters[scope] {
		filter := &p.filters[scope][i]
		if !filter.concerns(nodes, task.Pod) {
			continue
		}
		if asked == nil {
			asked = &question{plugin: p, pod: task.Pod, nodes: nodes, state: p.kube.NewState()}
		}
		if !asked.prepare(filter) {
			break
		}
	}
	if asked == nil {
		return nil, nil
	}
	if scope == framework.Global && asked.refused == nil {
		asked.refused = p.needsPreBind(task.Pod)
	}
	switch {
	case asked.refused != nil:
		return nil, asked.refused
	case len(asked.filters) == 0:
		return nil, nil
	default:
		return []framework.NodeCheck{asked.check}, nil
	}
}

// needsPreBind refuses a pod that commits cannot bind rightly yet. The filters of volume and resource claims have had
// their say by then, so that what can never work is said in their words.
func (p *plugin) needsPreBind(pod *corev1.Pod) *model.Refusal {
	if reason := p.kube.NeedsPreBind(pod); reason != "" {
		return p.refusals.get(reason, false)
	}
	return nil
}
