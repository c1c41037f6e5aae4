package engine

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Ask is one question: for which job, on which capacity, and what is supposed beside the snapshot. It is a value, made for a job
// and passed on; its methods say what holds as the session stands. Which capacity the job may use is that of the moment when the
// question was put: Supposing puts it once more.
type Ask struct {
	session *Session
	Job     *model.Job
	Kind    model.CapacityKind
	As      Supposed
	// viewer is which capacity the job may use; nil while none was held.
	viewer *model.Viewpoint
}

// Supposed is what a question takes for granted. The zero value supposes nothing.
type Supposed struct {
	// GoneBy is when the job will have ended, in seconds since 1970, so that capacity which is reserved for others may be lent to
	// it; zero is never. See model.Viewpoint.EndsBefore.
	GoneBy int64
	// Takes reports that pods may be evicted for the job, and that it uses what is reserved for the jobs in GivesWay, as
	// TakeReserved says. GivesWay is as in model.Viewpoint.
	Takes    bool
	GivesWay string
	// Avoid reports that nodes which refused the job are no nodes.
	Avoid bool
	// LostMarks reports that a node which is nominated to a member, or reserved for the job, may have lost the label of a level: it
	// was chosen for its domain. Programs that label nodes take labels away for some seconds when they start again.
	LostMarks bool
	// ByNumbers reports that the numbers of a node say whether it has what a task needs: nothing is reserved for a task that is
	// placed, and the statement that places it must be refused in the end.
	ByNumbers bool
	// Start is the domain in which the members start that share an entry of the topology, whichever they would choose: a plan of
	// victims in one domain is for a start in that one. Its zero value is none.
	Start Start
}

// Start is a domain of the level of an entry, by its number in Domains.
type Start struct {
	Shared *model.TopologyConstraint
	Domain int
}

// Ask returns the question on that kind of capacity which supposes nothing.
func (s *Session) Ask(job *model.Job, kind model.CapacityKind) Ask {
	return Ask{session: s, Job: job, Kind: kind}.Supposing(Supposed{})
}

// Supposing returns the question with other suppositions, put as the session stands.
func (a Ask) Supposing(as Supposed) Ask {
	a.As, a.viewer = as, nil
	if a.Job != nil && len(a.session.Snapshot.Held()) > 0 {
		viewer := a.session.viewer(a.Job, as)
		a.viewer = &viewer
	}
	return a
}

// Session returns the session that is asked.
func (a Ask) Session() *Session { return a.session }

// Avoiding returns the question for which nodes that refused the job are no nodes; has is false where it has none. A caller that
// finds nothing asks again without that, since a node that refused once may be the only one there is.
func (a Ask) Avoiding() (avoiding Ask, has bool) {
	if len(a.session.Snapshot.NodeBackoff[a.Job.Key]) == 0 {
		return a, false
	}
	as := a.As
	as.Avoid = true
	return a.Supposing(as), true
}

// On returns the question on another kind of capacity, put as the session stands.
func (a Ask) On(kind model.CapacityKind) Ask {
	a.Kind = kind
	return a.Supposing(a.As)
}

// open is the only place where a question meets the accounting of the snapshot: it makes that, and what filters look at, show
// what the job may use; on future capacity, without the terminating tasks. Every method that reads one of these begins with it.
func (a *Ask) open() {
	snapshot := a.session.Snapshot
	if len(snapshot.Held()) > 0 {
		if a.viewer == nil { // the first capacity is held since the question was put
			*a = a.Supposing(a.As)
		}
		snapshot.SetViewpoint(*a.viewer)
	}
	snapshot.ExcludeTerminating(a.Kind == model.FutureIdle)
}

// asked is what is known of a question about one task.
type asked struct {
	answer *static
	order  *ranking
	nodeQuery
}

// about opens the question for a task and returns what is known of its shape, brought up to date, and what else must hold for
// it; or why no node can have it.
func (a *Ask) about(task *model.Task) (known asked, refused *model.Refusal) {
	s := a.session
	if alone := s.quarantined[task.Job]; alone != nil {
		return known, alone
	}
	a.open()
	shape, order := s.ranked(task, a.Kind)
	known.answer, known.order, known.session = &shape.static, order, s
	switch {
	case known.answer.refused != nil:
		return known, known.answer.refused
	case known.order.refused != nil:
		return known, known.order.refused
	}
	known.checks, refused = a.checks(task)
	return known, refused
}

// checks returns what must hold of a node for the task in the cluster as a whole: that it is not avoided, that it is in the
// domains which the task has to share, and what the plugins want to hold.
func (a *Ask) checks(task *model.Task) (all []framework.NodeFilterFunc, refused *model.Refusal) {
	if avoided := a.session.Snapshot.NodeBackoff[task.Job]; a.As.Avoid && len(avoided) > 0 {
		all = append(all, func(node *model.Node) *model.Refusal { return avoided[node.Name] })
	}
	all = append(all, a.domainChecks(task)...)
	checks, refused := a.session.checks(task, framework.ClusterWide)
	if refused != nil || len(all) == 0 {
		return checks, refused
	}
	return append(all, checks...), nil
}

// Rest is on what it rests where a task may go, beside what its ranking knows of its shape. Each holds for more tasks than the
// next.
type Rest int8

const (
	// OnShape: nothing but the task's shape and the capacity on each node decides: what holds for it holds for every task of its
	// shape that rests on that alone, too, and for the others all the more. Of a task that starts in a domain it is about its nodes.
	OnShape Rest = iota
	// OnDomain: the domains that the task shares decide, too, so that the answer is that of all tasks which share the same.
	OnDomain
	// OnSnapshot: the answer is the same as long as the snapshot is.
	OnSnapshot
)

// Rests reports whether where the task may go rests on nothing more than that, as the session stands.
func (a Ask) Rests(task *model.Task, on Rest) bool {
	s := a.session
	a.Kind = model.Idle // a terminating task may keep others away still
	if s.quarantined[task.Job] != nil {
		return false
	}
	defer a.session.charge(task.Job, nil)
	a.open()
	if on == OnSnapshot {
		return !slices.ContainsFunc(s.slots.nodeFilter, func(filter framework.NodeFilter) bool {
			if reachOf(filter, task) == ForJob {
				return false
			}
			checks, refused := filter.PreFilter(task, framework.ClusterWide)
			return len(checks) > 0 || refused != nil
		})
	}
	if checks, refused := s.checks(task, framework.NodeWithPods); len(checks) > 0 || refused != nil {
		return false
	}
	checks, refused := a.checks(task)
	domains := a.startChecks(task)
	if on == OnDomain {
		domains = len(a.domainChecks(task))
	}
	return len(checks) <= domains && refused == nil
}

// Viewpoint returns the part of what the job may use that decides which capacity is visible: see Snapshot.EffectiveViewpoint.
func (a Ask) Viewpoint() model.Viewpoint {
	if a.viewer == nil {
		a = a.Supposing(a.As)
	}
	if a.viewer == nil {
		return model.Viewpoint{}
	}
	return a.session.Snapshot.EffectiveViewpoint(*a.viewer)
}

// Free returns what a node has left for the job, until the next question.
func (a Ask) Free(node *model.Node) model.Free {
	a.open()
	return node.Free(a.Kind)
}
