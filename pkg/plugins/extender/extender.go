package extender

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Name is the plugin's name in the configuration.
const Name = "extender"

// Summary is what the plugin does, in half a sentence.
const Summary = "what webhooks say about nodes and victims, and binding by a webhook. Not in the default"

// New returns the factory of the plugin. It makes no connection; an error says that a file of the TLS settings cannot be
// used.
func New(options []Options) (framework.Factory, error) {
	return newFactory(options, framework.NewBudget[requestKey](cycleBudget, time.Now))
}

func newFactory(options []Options, budget *framework.Budget[requestKey]) (framework.Factory, error) {
	remotes := make([]*extenderClient, len(options))
	for i := range options {
		var err error
		if remotes[i], err = newRemote(options[i]); err != nil {
			return nil, err
		}
	}
	behind := &stalePods{since: map[podOnNode]time.Time{}}
	return func() framework.Plugin {
		return &plugin{
			remotes: remotes, behind: behind, cycle: cycle{budget: budget},
			answers: map[requestKey]*extenderResult{}, byPod: map[*corev1.Pod]*extenderResult{},
		}
	}, nil
}

// cycle is what calls of one session have in common: when it began, and the time they have.
type cycle struct {
	now    time.Time
	budget *framework.Budget[requestKey]
}

// plugin is one session's. A call is made when its answer is first needed; the answer is kept until the session ends.
type plugin struct {
	remotes []*extenderClient
	behind  *stalePods
	view    framework.View
	cycle
	answers map[requestKey]*extenderResult
	// byPod finds the result without computing the key again.
	byPod map[*corev1.Pod]*extenderResult
}

var (
	_ framework.NodeFilter         = (*plugin)(nil)
	_ framework.NodeScorer         = (*plugin)(nil)
	_ framework.PreemptionExtender = (*plugin)(nil)
	_ framework.Binder             = (*plugin)(nil)
	_ framework.PodBinderProvider  = (*plugin)(nil)
	_ framework.Caller             = (*plugin)(nil)
	_ framework.SessionOpener      = (*plugin)(nil)
	_ model.RequestTranslator      = (*plugin)(nil)
)

// Name returns "extender".
func (p *plugin) Name() string { return Name }

// MeasureCalls measures the calls of all extenders.
func (p *plugin) MeasureCalls(timer *framework.CallTimer) {
	for _, r := range p.remotes {
		r.timer.Store(timer)
	}
}

// OpenSession keeps the view, and begins the time that calls may take.
func (p *plugin) OpenSession(view framework.View) {
	p.view, p.now = view, view.Snapshot().Now
	p.budget.Begin()
}

// requestKey is what pods that are equal to every extender have in common.
type requestKey struct {
	namespace string
	shape     model.Shape
	// spec is what the shape does not contain.
	spec string
}

// requestKeyOf returns the key of a task. It contains all resources because a shape has no limits and none of the resources
// that only the extenders count.
func (p *plugin) requestKeyOf(task *model.Task) requestKey {
	var b strings.Builder
	for _, containers := range [][]corev1.Container{task.Pod.Spec.Containers, task.Pod.Spec.InitContainers} {
		for i := range containers {
			b.WriteString("\n")
			writeAmounts(&b, containers[i].Resources.Requests)
			b.WriteString("|")
			writeAmounts(&b, containers[i].Resources.Limits)
		}
		b.WriteString("\n")
	}
	for _, r := range p.remotes {
		for _, key := range r.options.DistinguishBy {
			for _, values := range []map[string]string{task.Pod.Labels, task.Pod.Annotations} {
				if value, ok := values[key]; ok {
					b.WriteString(value)
				}
				b.WriteString("\x00")
			}
		}
	}
	return requestKey{namespace: task.Namespace, shape: task.Shape, spec: b.String()}
}

func writeAmounts(b *strings.Builder, list corev1.ResourceList) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		quantity := list[name]
		b.WriteString(string(name))
		b.WriteString("=")
		b.WriteString(quantity.String())
		b.WriteString(" ")
	}
}

// resultFor returns the result of the task's kind; it is empty when it is new.
func (p *plugin) resultFor(task *model.Task) *extenderResult {
	if known := p.byPod[task.Pod]; known != nil {
		return known
	}
	key := p.requestKeyOf(task)
	known := p.answers[key]
	if known == nil {
		known = &extenderResult{kind: key}
		for _, r := range p.remotes {
			if r.isInterested(task.Pod) {
				known.remotes = append(known.remotes, r)
			}
		}
		p.answers[key] = known
	}
	p.byPod[task.Pod] = known
	return known
}

// PreFilter calls the extenders, in their order, each with the nodes that passed those before it.
func (p *plugin) PreFilter(task *model.Task, scope framework.FilterScope) ([]framework.NodeFilterFunc, *model.Refusal) {
	if scope != framework.ClusterWide {
		return nil, nil
	}
	known := p.filtered(task)
	switch {
	case known.refused != nil || known.rejected == nil:
		return nil, known.refused
	case len(known.transient) > 0 && p.view.Snapshot().ExcludesTerminating():
		return []framework.NodeFilterFunc{p.excludeTerminating(known, task)}, nil
	}
	return []framework.NodeFilterFunc{known.check}, nil
}

// DependsOnSnapshotOnly reports whether no extender affected the session's results for the pod: none was called, or none
// rejects a node. It makes no call.
func (p *plugin) DependsOnSnapshotOnly(task *model.Task) bool {
	known := p.byPod[task.Pod]
	return known == nil || known.refused == nil && known.rejected == nil
}

// filtered returns the result of the task's kind after filtering.
func (p *plugin) filtered(task *model.Task) *extenderResult {
	known := p.resultFor(task)
	if !known.filtered {
		known.filter(p.cycle, task.Pod, p.view.EligibleNodes(task))
	}
	return known
}

// PreScore calls the extenders, each with the nodes that passed all filters.
func (p *plugin) PreScore(task *model.Task, scope framework.FilterScope, candidates []*model.Node) []framework.NodeScore {
	if scope != framework.ClusterWide {
		return nil
	}
	known := p.resultFor(task)
	if !known.scored {
		known.score(p.cycle, task.Pod, candidates)
	}
	return known.scores
}

// BinderOf returns the extender that binds such pods.
func (p *plugin) BinderOf(task *model.Task) string {
	for _, r := range p.resultFor(task).remotes {
		if r.options.BindVerb != "" {
			return r.name
		}
	}
	return ""
}

// PodBinders returns the extenders that bind.
func (p *plugin) PodBinders() []model.PodBinder {
	var all []model.PodBinder
	for _, r := range p.remotes {
		if r.options.BindVerb != "" {
			all = append(all, podBinder{r})
		}
	}
	return all
}

// Counts names the resources that the extenders manage.
func (p *plugin) Counts() (names []corev1.ResourceName) {
	for _, r := range p.remotes {
		for _, managed := range r.options.ManagedResources {
			names = append(names, managed.Name)
		}
	}
	return names
}

// TranslateRequest removes the resources that only the extenders count. It reads nothing of the session.
func (p *plugin) TranslateRequest(dimensions *model.ResourceIndex, _ *model.Task, request *model.Resources) *model.Refusal {
	for _, r := range p.remotes {
		for _, managed := range r.options.ManagedResources {
			if position := dimensions.Index(managed.Name); managed.IgnoredByScheduler && request.At(position) != 0 {
				request.Set(position, 0)
			}
		}
	}
	return nil
}

// TranslateCapacity changes nothing.
func (p *plugin) TranslateCapacity(*model.ResourceIndex, *corev1.Node, *model.Resources) *model.Refusal {
	return nil
}
