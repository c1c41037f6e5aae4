package predicates

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// question is the filters for one pod in one scope.
type question struct {
	plugin *plugin
	task   *model.Task
	pod    *corev1.Pod
	nodes  fwk.NodeInfoLister
	state  fwk.CycleState
	// filters are those that apply, after PreFilter.
	filters []preFiltered
	// refused says that no node fits; nil when some may.
	refused *model.Refusal
	// answers are the results so far, when scores may need the same again; nil otherwise.
	answers map[*model.Node]*model.Refusal
}

// preFiltered is a filter that was prepared for one pod.
type preFiltered struct {
	*filter
	// run is the check of a filter that replaces kube-scheduler's; nil for the others.
	run framework.NodeFilterFunc
	// only are the names of the nodes that PreFilter allows; nil when all are.
	only sets.Set[string]
	// later reports that PreFilter has not run yet, since it costs much and no node may ask for it. settled reports that it has, and
	// that its answer is the same for all nodes that ask: refused, nil when they pass.
	later, settled bool
	refused        *model.Refusal
	// failed is the refusal of the first node that the filter failed for; the others get the same text, since an error may
	// name its node, and a thousand different texts are useless.
	failed *model.Refusal
}

// add adds the result of a filter that replaces kube-scheduler's. It returns false when no other filter can change the
// result.
func (q *question) add(f *filter, ask framework.NodeFilterFunc, refused *model.Refusal) bool {
	if refused != nil {
		q.refused = refused
		return refused.Evictable
	}
	q.filters = append(q.filters, preFiltered{filter: f, run: ask})
	return true
}

// prepare runs a filter's PreFilter. It returns false when no other filter can change the result. A filter that searches for
// devices is prepared with the first node whose numbers do not say whether it has them.
func (q *question) prepare(f *filter) bool {
	if f.searches && !q.task.SearchesDevices() {
		q.filters = append(q.filters, preFiltered{filter: f, later: true})
		return true
	}
	return q.prepareNow(f)
}

func (q *question) prepareNow(f *filter) bool {
	all, err := q.nodes.List()
	if err != nil {
		q.refused = q.plugin.refusals.get(f.name+" failed: listing nodes: "+err.Error(), false)
		return false
	}
	result, status := f.pre.PreFilter(q.plugin.kube.Context(), q.state, q.pod, all)
	switch {
	case status.IsSkip():
		return true
	case status.IsSuccess():
		next := preFiltered{filter: f}
		if !result.AllNodes() {
			next.only = result.NodeNames
		}
		q.filters = append(q.filters, next)
		return true
	case status.IsError():
		q.refused = q.plugin.refusals.get(f.name+" failed: "+status.Message(), false)
		return false
	default:
		// Like kube-scheduler, continue while eviction could help: a later filter may refuse permanently.
		q.refused = q.plugin.refusals.intern(status)
		return q.refused.Evictable
	}
}

// checks returns the checks of the prepared filters. Those that replace kube-scheduler's run first.
func (q *question) checks() []framework.NodeFilterFunc {
	var checks []framework.NodeFilterFunc
	for i := range q.filters {
		if q.filters[i].run == nil {
			return []framework.NodeFilterFunc{q.check}
		}
		checks = append(checks, q.filters[i].run)
	}
	return checks
}

// saveState keeps the results for the scores of volumes and devices. These run before the engine's filters, and some filters
// cost as much as all others: so each node is checked once.
func (q *question) saveState() {
	if q.refused != nil {
		q.plugin.kube.SaveFilterState(q.pod.UID, nil, nil)
		return
	}
	q.answers = map[*model.Node]*model.Refusal{}
	q.plugin.kube.SaveFilterState(q.pod.UID, q.state, func(node *model.Node) bool { return q.check(node) == nil })
}

// check is the framework.NodeFilterFunc of the prepared filters.
func (q *question) check(node *model.Node) *model.Refusal {
	if q.answers == nil {
		return q.checkAll(node)
	}
	answer, known := q.answers[node]
	if !known {
		answer = q.checkAll(node)
		q.answers[node] = answer
	}
	return answer
}

func (q *question) checkAll(node *model.Node) *model.Refusal {
	for i := range q.filters {
		if refusal := q.checkOne(&q.filters[i], node); refusal != nil {
			return refusal
		}
	}
	return nil
}

// prepareLate prepares a filter that was left for later.
func (q *question) prepareLate(f *preFiltered) {
	late := question{plugin: q.plugin, task: q.task, pod: q.pod, nodes: q.nodes, state: q.state}
	late.prepareNow(f.filter)
	if len(late.filters) > 0 {
		*f = late.filters[0]
	} else {
		*f = preFiltered{filter: f.filter, settled: true, refused: late.refused}
	}
}

func (q *question) checkOne(f *preFiltered, asked *model.Node) *model.Refusal {
	if f.run != nil {
		return f.run(asked)
	}
	if f.only == nil && f.cannotReject != nil && f.cannotReject(q.plugin, q.task, asked) {
		return nil
	}
	if f.later {
		q.prepareLate(f)
	}
	if f.settled {
		return f.refused
	}
	node, err := q.nodes.Get(asked.Name)
	if err != nil || node.Node() == nil {
		return q.plugin.refusals.get("not known to kube-scheduler's plugins", false)
	}
	var status *fwk.Status
	ask := func(ctx context.Context) { status = f.check.Filter(ctx, q.state, q.pod, node) }
	if f.searches {
		if cut := q.plugin.search(q.task, ask); cut != nil {
			return cut
		}
	} else {
		ask(q.plugin.kube.Context())
	}
	switch {
	case status.IsError():
		if f.failed == nil {
			f.failed = q.plugin.refusals.get(f.name+" failed: "+status.Message(), false)
		}
		return f.failed
	case !status.IsSuccess():
		if f.explain != nil {
			if text := f.explain(q.pod, asked.Object); text != "" {
				return q.plugin.refusals.get(text, status.Code() == fwk.Unschedulable)
			}
		}
		return q.plugin.refusals.intern(status)
	case f.only != nil && !f.only.Has(node.Node().Name):
		return q.plugin.refusals.get("didn't satisfy plugin "+f.name, false)
	default:
		return nil
	}
}

// refusals are those of one session.
type refusals struct{ made framework.Refusals }

// intern returns the refusal of an unsuccessful status.
func (r *refusals) intern(status *fwk.Status) *model.Refusal {
	// The message is kube-scheduler's, which users can look up, without the "node(s)" that the diagnosis puts in front.
	return r.get(strings.TrimPrefix(status.Message(), "node(s) "), status.Code() == fwk.Unschedulable)
}

func (r *refusals) get(text string, evictable bool) *model.Refusal {
	return r.made.Get(Name, model.NodesFiltered, text, evictable)
}
