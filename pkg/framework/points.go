package framework

import (
	"cmp"

	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Plugin is one policy. The decisions it takes part in are the interfaces that it implements: most are in this file; review.go,
// reclaim.go and profilequeries.go have the others, and model.RequestTranslator is one. There is nothing to
// register. Plugins are made again for each session, so their fields are session state, and are called on the session's
// goroutine only.
type Plugin interface {
	// Name is the plugin's name in the configuration and in refusals.
	Name() string
}

// QueueOrderer decides which of the queues with one parent has its turn first. Combined: the first ranks that differ, in tier
// order, then the queue of which a job started longest ago, then the order of the jobs. In a configuration: `queueOrder`.
type QueueOrderer interface {
	Plugin
	// RankQueue returns where the queue is among those with the same parent, the lowest rank first. The job is the one that would
	// be tried next in the queue, or below it. The answer may change only with the job and with what the queue holds: it is asked
	// again of the queues in which a job was tried, and of no others.
	RankQueue(queue *model.Queue, job *model.Job) QueueRank
}

// QueueRank orders queues: by First, and by Second where that is equal. It is two numbers, and no comparison by the plugin, since
// each start compares many queues of which nothing has changed.
type QueueRank struct{ First, Second uint64 }

// Compare is negative when the rank comes before the other one.
func (r QueueRank) Compare(o QueueRank) int {
	if r.First != o.First {
		return cmp.Compare(r.First, o.First)
	}
	return cmp.Compare(r.Second, o.Second)
}

// JobOrderer decides which job of a queue is tried first. Combined: the first non-zero answer in tier order, then creation time,
// then UID. One whose answers change with what the session decides is an EventHandler, too: the order is then found again after
// each job, which costs what waits, unless it is a GroupJobOrderer. In a configuration: `jobOrder`.
type JobOrderer interface {
	Plugin
	// CompareJobs is negative when a comes before b, zero when the plugin has no opinion.
	CompareJobs(a, b *model.Job) int
}

// GroupJobOrderer is a JobOrderer that orders the jobs of a queue by what groups of them hold, which changes with each start.
// The jobs are kept by group, so that after a start the first jobs of some groups are compared, and not all jobs. Of several in a
// configuration this holds for the first.
type GroupJobOrderer interface {
	JobOrderer
	// GroupOfJob returns the group that the job is in, the same throughout the session. CompareJobs has no opinion about two jobs
	// of one group in one queue; about others its answer may change only with what the jobs of their groups hold.
	GroupOfJob(job *model.Job) string
}

// TaskOrderer decides which task of a job is placed first. Combined like JobOrderer. In a configuration: `taskOrder`.
type TaskOrderer interface {
	Plugin
	// CompareTasks is negative when a comes before b, zero when the plugin has no opinion.
	CompareTasks(a, b *model.Task) int
}

// JobValidator reports whether trying a job makes sense at all. Combined: the first refusal. In a configuration: `jobValid`.
type JobValidator interface {
	Plugin
	// ValidateJob returns nil when the job may be tried.
	ValidateJob(job *model.Job) *model.Refusal
}

// Readiness says which tasks a JobReadiness may count.
type Readiness int8

const (
	// Ready: tasks that hold capacity, and those that have succeeded. If all gates agree the job can start now.
	Ready Readiness = iota
	// Pipelined: those, and tasks nominated to capacity that is being released. If all gates agree the job can wait for it.
	Pipelined
)

// Counts reports whether a task counts at this standing.
func (s Readiness) Counts(task *model.Task) bool {
	return task.Status.CountsTowardMinimum() || s == Pipelined && task.Status == model.Pipelined
}

// JobReadiness reports whether a job, as it stands in the session, may start. Combined: all must agree; the first refusal is
// kept. In a configuration: `jobGate`.
type JobReadiness interface {
	Plugin
	// JobReady returns nil when the job may start with the tasks that count at this standing. When the refusal has numbers, the
	// session does not ask again until Needs - Has more tasks count. Leave both zero where the answer may change sooner. It is
	// asked about jobs that run, too, when more of their members start.
	JobReady(job *model.Job, standing Readiness) *model.Refusal
}

// FilterScope says what an answer about a task and a node depends on, and so for how long it may be kept.
type FilterScope int8

const (
	// NodeOnly: on the task's shape and the node objects alone. The answers are kept, beyond the session too. A filter is
	// called again only for a node that has changed, a score for all nodes when any has changed.
	NodeOnly FilterScope = iota
	// NodeWithPods: also on the pods of that node, as the snapshot has them. The answer is kept, also for other tasks of the
	// shape and beyond the session, until a pod comes to the node or leaves it. A score may depend on whether the task's job names
	// levels of a topology, too; see View.NamesLevels.
	NodeWithPods
	// ClusterWide: on anything else too, the time among it: only a refusal of this scope may have a time in Until. The filter is
	// called again for every task.
	ClusterWide
)

// NodeFilterFunc answers for one node; nil is yes. A refusal may be shared between nodes.
type NodeFilterFunc func(node *model.Node) *model.Refusal

// NodeFilter rules nodes out. Combined: the first refusal in tier order. In a configuration: `nodeFilter`.
type NodeFilter interface {
	Plugin
	// PreFilter returns the checks of one scope that the task needs, none when it needs none, or a refusal when no node can
	// pass. NodeOnly and NodeWithPods checks are valid until the session closes, ClusterWide ones until the next statement
	// changes it.
	PreFilter(task *model.Task, scope FilterScope) ([]NodeFilterFunc, *model.Refusal)
}

// SnapshotOnlyFilter is a NodeFilter that knows for which tasks its ClusterWide checks follow from the snapshot alone, so that
// their answers stay the same as long as the snapshot does. A task with other ClusterWide checks is tried in every cycle.
type SnapshotOnlyFilter interface {
	NodeFilter
	// DependsOnSnapshotOnly reports whether all answers of the plugin about the task follow from the snapshot and the labels of
	// namespaces: from no other object, no answer of an extender, and no clock. True is also right of a task that it has not
	// been asked about.
	DependsOnSnapshotOnly(task *model.Task) bool
}

// Normalization says how raw scores become 0…100 over the candidates.
type Normalization int8

const (
	// NormalizeNone: the raw scores are 0…100 already, or weighted sums of such.
	NormalizeNone Normalization = iota
	// NormalizeByMax: the highest raw score becomes 100; all zero stay zero.
	NormalizeByMax
	// NormalizeReversed: the highest raw score becomes 0 and zero becomes 100.
	NormalizeReversed
	// NormalizeMinMax: the lowest becomes 0 and the highest 100; all equal become 0.
	NormalizeMinMax
)

// NodeScore is one reason to prefer a node.
type NodeScore struct {
	// Name tells scores of one plugin apart in explanations.
	Name string
	// Weight is how much a normalised point counts, at least 1.
	Weight int64
	// Normalization is how Raw becomes 0…100.
	Normalization Normalization
	// Score returns the score of a node before normalisation.
	Score func(node *model.Node) int64
	// BrokenDomains makes the session compute the score of each node: 100 points for each level of the configuration at which it is
	// in no whole domain, single nodes not counted. No member of a job holds a device in a whole domain, or anything on a node
	// without devices. The scope of such a score is NodeWithPods; Normalization and Score are not used.
	BrokenDomains bool
}

// NodeScorer prefers nodes. Combined: Σ weight × score normalised to 0…100; ties go to the lower node name. In a configuration:
// `nodeScore`.
type NodeScorer interface {
	Plugin
	// PreScore returns the scores of one scope for a task over the candidates, the nodes that pass the NodeOnly filters, by
	// name. ClusterWide ones are computed directly after the ClusterWide checks of all filters for the same task. Valid as long
	// as the checks of a NodeFilter.
	PreScore(task *model.Task, scope FilterScope, candidates []*model.Node) []NodeScore
}

// Colocation is a NodeScorer that may want gangs to be gathered. Combined: one is enough.
type Colocation interface {
	NodeScorer
	// PrefersColocation reports whether the wish of pods to be near each other has a weight. Actions ask before they look for a
	// domain that holds a whole gang whose members prefer to share one.
	PrefersColocation() bool
}

// Reserver reserves what no node accounts for, such as volumes and devices, so that no other task is given them. Combined: the
// first refusal; Unreserve of the plugins that have reserved by then is called in reverse order.
type Reserver interface {
	Plugin
	// Reserve is called before a task is placed on idle capacity of the node. prepare reports that what was reserved must be
	// written to the API server before the pod is bound; internal/commit does that. A refusal means that nothing was reserved
	// and the task cannot be placed there. It is not called while actions find out by numbers whether a gang can start: gates
	// and observers must not depend on it.
	Reserve(task *model.Task, node *model.Node) (prepare bool, refusal *model.Refusal)
	// Unreserve takes back what Reserve reserved, because the placement is undone in the session. After a decision
	// internal/commit releases it when the decision fails. After a panic it is also called for a task for which nothing, or not
	// all, was reserved.
	Unreserve(task *model.Task)
}

// CPUAllocator gives tasks isolated CPUs of the node that they are placed on, so that no other task is given the same.
// Combined: the first answer.
type CPUAllocator interface {
	Plugin
	// AllocateCPUs is called before a task is placed on idle capacity of the node; what it returns is the task's until the
	// placement is undone, and written with the bind. It is nil when the task is to have none. A refusal means that the task
	// cannot be placed there. A task that is only nominated is given nothing.
	AllocateCPUs(task *model.Task, node *model.Node) (*isolated.Assignment, *model.Refusal)
	// ExplainShortage says in more words what it means that the node lacks the resource at that position for the task; nil when
	// there are none. Asked for explanations alone.
	ExplainShortage(task *model.Task, node *model.Node, position int, room model.CapacityKind) *model.Refusal
}

// Binder names the extender that binds a pod, if it is not the API server. Combined: the first that is not empty.
type Binder interface {
	Plugin
	// BinderOf returns the name of the binder of the task's pod; empty is the API server.
	BinderOf(task *model.Task) string
}

// EvictionUnit is what is evicted together: one surplus task, or a whole job.
type EvictionUnit struct {
	Job   *model.Job
	Tasks []*model.Task
	// WholeGang reports that the unit is the whole job.
	WholeGang bool
	// Overstays reports that the unit may be evicted although its priority is that of the preemptor: it uses capacity that is
	// reserved for the preemptor, and has run for longer than it said. The session sets it before it asks victim filters.
	Overstays bool
	// OtherQueue reports that the unit is of another queue than the preemptor's: a right decides, and no priority. The session sets
	// it before it asks victim filters.
	OtherQueue bool
}

// Priority returns the unit's: that of the job when it goes whole, else the highest of its tasks, which is no higher than the
// job's. Job is nil for a pod of another scheduler.
func (u *EvictionUnit) Priority() int32 {
	if u.WholeGang && u.Job != nil {
		return u.Job.Priority
	}
	var highest int32
	for i, task := range u.Tasks {
		if i == 0 || task.Priority > highest {
			highest = task.Priority
		}
	}
	if u.Job != nil {
		highest = min(highest, u.Job.Priority)
	}
	return highest
}

// VictimFilter narrows which units may be evicted. Combined: the intersection inside a tier; the first tier in which a plugin
// decided is final, also when its answer is no unit; when all abstain, the next tier is asked. In a configuration: `victims`.
type VictimFilter interface {
	Plugin
	// FilterVictims returns the units that may go for the preemptor, a subset of units in their order; decided is false when
	// the plugin has no opinion.
	FilterVictims(preemptor *model.Job, units []EvictionUnit) (picked []EvictionUnit, decided bool)
}

// EventHandler follows what statements do. All handlers are called, in tier order; for an undo in reverse tier order. In a
// configuration: `observe`.
type EventHandler interface {
	Plugin
	// OnAllocate is called after a task got capacity, placed or nominated.
	OnAllocate(task *model.Task)
	// OnEvict is called after a task was marked as releasing.
	OnEvict(task *model.Task)
	// OnDeallocate is called after either was taken back; before is the position that is no more.
	OnDeallocate(task *model.Task, before model.Placement)
}

// SessionOpener prepares a plugin before the first action. Called in tier order.
type SessionOpener interface {
	Plugin
	// OpenSession may ask the view, and keep it until the session closes.
	OpenSession(view View)
}

// SessionCloser ends a plugin's session after the last action. Called in reverse tier order.
type SessionCloser interface {
	Plugin
	// CloseSession may ask the view a last time.
	CloseSession(view View)
}

// CacheResetter is a plugin or action that keeps something beyond a session. After a panic of any plugin or action, it is
// unknown how much of a change the cache has seen.
type CacheResetter interface {
	// ResetCache makes what is kept what it was before the first session. It is called between two sessions, on their
	// goroutine, and may be called several times.
	ResetCache()
}
