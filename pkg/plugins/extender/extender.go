// Package extender asks HTTP extenders, the webhooks of kube-scheduler, which nodes will do, which are best, whom to evict, and to
// bind pods. What goes over the wire, and what the answers mean, is as with kube-scheduler 1.37.
//
// It is the only plugin that does I/O inside a cycle, and only where it is configured. So that a gang of thousands does
// not become thousands of calls, an extender is asked once per cycle and verb about all pods that are the same to it: same
// shape, same requests and limits, same namespace, same values under what `distinguishBy` names. One of them stands for
// all in the call. What it answers may depend on anything and is forgotten with the session; a job that an extender
// refuses is tried again after a few seconds even if nothing has changed.
//
// Two differences from kube-scheduler follow. The nodes that an extender is asked about are those that pass the filters which depend on
// the node object alone, not only those with room at the moment. And it does not see in its books the pods that the same
// cycle has placed before.
//
// About victims an extender is asked once for each plan and kind of members, with all the nodes on which members of the kind would
// take the room of victims. To kube-scheduler these are choices, of which one is taken; to a gang they are needed together, and
// what an extender leaves out is planned anew. A node that it refuses for now, by its filter, passes while somebody is leaving it,
// since it has its say again when the plan is made; and for some seconds more for whom they have left, since its books may be
// behind.
//
// It is not the place to carry out binds (see internal/commit, which asks the PodBinder of this package).
package extender

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Name is the plugin's name in the configuration.
const Name = "extender"

// Summary is what the plugin says, in half a sentence.
const Summary = "what webhooks say about nodes, about victims, and who binds. Not in the default"

// New returns what makes the plugin for a session. It connects to nobody; an error says that a file of the TLS settings
// cannot be used.
func New(options []Options) (framework.Factory, error) {
	remotes := make([]*extenderClient, len(options))
	for i := range options {
		var err error
		if remotes[i], err = newRemote(options[i]); err != nil {
			return nil, err
		}
	}
	behind := &stalePods{since: map[podOnNode]time.Time{}}
	return func() framework.Plugin {
		return &plugin{remotes: remotes, behind: behind, answers: map[requestKey]*extenderResult{}, byPod: map[*corev1.Pod]*extenderResult{}}
	}, nil
}

// plugin is one session's. An answer is asked for when somebody needs it, and kept until the session ends.
type plugin struct {
	remotes []*extenderClient
	behind  *stalePods
	nodes   nodeSource
	sight   snapshotView
	now     time.Time
	answers map[requestKey]*extenderResult
	// byPod finds the answer again without another look at what the pod needs.
	byPod map[*corev1.Pod]*extenderResult
}

// nodeSource is what the plugin needs of a session.
type nodeSource interface {
	// EligibleNodes returns the nodes that pass the task's static filters, by name.
	EligibleNodes(task *model.Task) []*model.Node
}

// snapshotView is what the plugin needs of a snapshot.
type snapshotView interface {
	// ExcludesTerminating tells whether pods that are about to leave are not to be seen.
	ExcludesTerminating() bool
}

var (
	_ framework.NodeFilter         = (*plugin)(nil)
	_ framework.TransientFilter    = (*plugin)(nil)
	_ framework.NodeScorer         = (*plugin)(nil)
	_ framework.PreemptionExtender = (*plugin)(nil)
	_ framework.Binder             = (*plugin)(nil)
	_ framework.PodBinderProvider  = (*plugin)(nil)
	_ framework.SessionOpener      = (*plugin)(nil)
	_ model.RequestTranslator      = (*plugin)(nil)
)

// Name returns "extender".
func (p *plugin) Name() string { return Name }

// OpenSession keeps what the plugin asks of the session.
func (p *plugin) OpenSession(session *framework.Session) {
	p.nodes, p.sight, p.now = session, session.Snapshot, session.Snapshot.Now
}

// requestKey is what pods have in common that are the same to every extender.
type requestKey struct {
	shape model.Shape
	// spec is what a shape does not hold.
	spec string
}

// requestKeyOf reads it off a task. Resources stand in it in full because a shape has neither limits nor what the extenders alone
// count.
func (p *plugin) requestKeyOf(task *model.Task) requestKey {
	var b strings.Builder
	b.WriteString(task.Namespace)
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
	return requestKey{shape: task.Shape, spec: b.String()}
}

func writeAmounts(b *strings.Builder, list corev1.ResourceList) {
	names := make([]string, 0, len(list))
	for name := range list {
		names = append(names, string(name))
	}
	slices.Sort(names)
	for _, name := range names {
		quantity := list[corev1.ResourceName(name)]
		b.WriteString(name)
		b.WriteString("=")
		b.WriteString(quantity.String())
		b.WriteString(" ")
	}
}

// resultFor returns what is known of the task's kind; nothing was asked yet when it is new.
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

// PreFilter asks the extenders, in their order, each about the nodes that those before it have left.
func (p *plugin) PreFilter(task *model.Task, scope framework.FilterScope) ([]framework.NodeFilterFunc, *model.Refusal) {
	if scope != framework.ClusterWide {
		return nil, nil
	}
	known := p.filtered(task)
	switch {
	case known.refused != nil || known.rejected == nil:
		return nil, known.refused
	case len(known.transient) > 0 && p.sight.ExcludesTerminating():
		return []framework.NodeFilterFunc{p.excludeTerminating(known, task)}, nil
	}
	return []framework.NodeFilterFunc{known.check}, nil
}

// DependsOnSnapshotOnly tells whether no extender had a part in what the session has found out about the pod: none was asked, or none
// keeps it from a node. Nobody is asked for it.
func (p *plugin) DependsOnSnapshotOnly(task *model.Task) bool {
	known := p.byPod[task.Pod]
	return known == nil || known.refused == nil && known.rejected == nil
}

// IsTransient tells whether an extender keeps such a pod from a node.
func (p *plugin) IsTransient(task *model.Task) bool {
	known := p.filtered(task)
	return known.refused != nil || known.rejected != nil
}

// filtered returns what is known of the task's kind, what the filters say included.
func (p *plugin) filtered(task *model.Task) *extenderResult {
	known := p.resultFor(task)
	if !known.filtered {
		known.filter(p.now, task.Pod, p.nodes.EligibleNodes(task))
	}
	return known
}

// PreScore asks the extenders, each about the nodes that all have left.
func (p *plugin) PreScore(task *model.Task, scope framework.FilterScope, candidates []*model.Node) []framework.NodeScore {
	if scope != framework.ClusterWide {
		return nil
	}
	known := p.resultFor(task)
	if !known.scored {
		known.score(p.now, task.Pod, candidates)
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

// PodBinderProvider returns the extenders that bind.
func (p *plugin) PodBinders() []model.PodBinder {
	var all []model.PodBinder
	for _, r := range p.remotes {
		if r.options.BindVerb != "" {
			all = append(all, podBinder{r})
		}
	}
	return all
}

// TranslateRequest takes out what the extenders alone count. It reads nothing of the session.
func (p *plugin) TranslateRequest(dimensions *model.ResourceIndex, _ *corev1.Pod, request *model.Resources) *model.Refusal {
	for _, r := range p.remotes {
		for _, managed := range r.options.ManagedResources {
			if position := dimensions.Index(managed.Name); managed.IgnoredByScheduler && request.At(position) != 0 {
				request.Set(position, 0)
			}
		}
	}
	return nil
}

// TranslateCapacity leaves what nodes offer as it is.
func (p *plugin) TranslateCapacity(*model.ResourceIndex, *corev1.Node, *model.Resources) *model.Refusal {
	return nil
}
