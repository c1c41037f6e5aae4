package model

import (
	"fmt"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/types"
)

// Queue is a part of the cluster that jobs share. Queues form a tree, and the jobs are in its leaves.
//
// Invariant: Used = Σ requests of the tasks that count in the queue or in one below it; Releasing = Σ requests of those that are
// terminating and not overdue, without what tasks of other jobs are charged for then.
type Queue struct {
	Name string
	// UID and Created are the object's; both are zero when the queue exists without one.
	UID     types.UID
	Created time.Time
	// Parent is the name of the queue that this one is a part of; empty for the whole cluster.
	Parent string
	// Weight is the part of what guarantees leave that is meant for the queue, relative to those with the same parent.
	Weight int32
	// Guarantee and Limit are sorted by position. A resource that is not listed has none.
	Guarantee, Limit []ListedAmount
	// Paused reports whether the object says so; those below a paused queue are not marked.
	Paused bool
	// LastStart is when a job of the queue, or of one below it, last started in its turn; zero when that is not known. It orders
	// the starts of one cycle, too, and may be some microseconds ahead of the time.
	LastStart time.Time
	// Invalid says why no job of the queue starts, whatever it asks for: an error in the tree, or a pause, of the queue or of one
	// above it; nil when jobs may start.
	Invalid *Refusal
	// Inactive is the same in one word, one of those below; empty when jobs may start.
	Inactive string

	// Inner reports whether another queue is a part of this one, so that it takes no jobs; set by SetQueues.
	Inner bool
	// Used is what the jobs of the queue and of those below it hold: on nodes, terminating pods included, and nominated. Releasing
	// is what of it is being released.
	Used, Releasing Resources
	// Parts are the resources of which the queue is guaranteed, holds or asks for any, sorted by position, as the last session
	// that computed shares left them; nil before. They are replaced, never changed.
	Parts []QueuePart
	// Unmet says why a job waits that is within the guarantee of the queue, as Parts do; nil when no job does.
	Unmet *UnmetGuarantee
	// Oversubscribed says that all guarantees together are more than there is, so that the queue would not have its own if all were
	// asked for; empty when it would. Like Unmet it names no job.
	Oversubscribed string

	// Headroom is what is kept free of the limit for a job that has waited for long; nil when nothing is.
	Headroom *Headroom

	// Index is the queue's place in Snapshot.Queues.
	Index int
	// parent is nil for a part of the whole cluster, when there is no such queue, and where the tree has a cycle.
	parent *Queue
	// handle is that of the name, for the classes of the queue's jobs.
	handle unique.Handle[string]
}

// Why no job of a queue starts: it, or a queue above it.
const (
	// QueueParentNotFound: its parent does not exist.
	QueueParentNotFound = "ParentNotFound"
	// QueueInCycle: it is above itself.
	QueueInCycle = "Cycle"
	// QueueTooDeep: the tree has too many levels above it.
	QueueTooDeep = "TooDeep"
	// QueueUnreadable: it cannot be read.
	QueueUnreadable = "Invalid"
	// QueueIsPaused: it is paused.
	QueueIsPaused = "Paused"
)

// ListedAmount is an amount of one resource, in the unit of its dimension.
type ListedAmount struct {
	Position int
	Amount   int64
}

// QueuePart is what a queue may count on of one resource. The numbers include those of the queues below it.
type QueuePart struct {
	Position int
	// Guarantee is its own, or that of all below it where this is more; Floor the part of it that the queue has a use for.
	Guarantee, Floor int64
	// Demand is what its jobs hold and ask for, Share what it may count on while others want theirs.
	Demand, Share int64
	// Contended reports whether the queue and its siblings ask for more than there is for them.
	Contended bool
	// Level is how far the queue is above its floor, relative to its weight: 1 is at its share; with weight 0, relative to what
	// there is. It is for people, and rounded.
	Level float64
}

// UnmetGuarantee is why jobs wait that are within a guarantee: one word, and a sentence that names no job.
type UnmetGuarantee struct{ Reason, Message string }

// Why a guarantee is not met, where it is not the code of the refusal of a job.
const (
	// UnmetFragmentation: no set of pods that may be evicted lets the job start on the nodes that it can use.
	UnmetFragmentation = "Fragmentation"
	// UnmetBudget: disruption budgets forbid the evictions.
	UnmetBudget = "Budget"
	// UnmetProtected: pods that would have to go are never evicted, such as those of the system.
	UnmetProtected = "Protected"
	// UnmetLimit: a limit is in the way, of the queue or of one above it, full or lower than the guarantee.
	UnmetLimit = "Limit"
	// UnmetLowerJobs: jobs of lower priority of the queue itself and borrowers are in the way together.
	UnmetLowerJobs = "LowerJobs"
	// UnmetOversubscribed: the guarantee of the queue, alone or with those beside it, is more than there is.
	UnmetOversubscribed = "Oversubscribed"
	// UnmetSearch: the search for pods to evict goes on in the next cycle.
	UnmetSearch = "SearchContinues"
)

// Above returns the queue that this one is a part of, nil when there is none.
func (q *Queue) Above() *Queue { return q.parent }

// Meets returns the children of the lowest queue above both, or of the whole cluster, on the way to this queue and to another;
// nil when one of the two is the other, or above it.
func (q *Queue) Meets(other *Queue) (own, others *Queue) {
	for own = q; own != nil; own = own.parent {
		for others = other; others != nil; others = others.parent {
			if own != others && own.parent == others.parent {
				return own, others
			}
		}
	}
	return nil, nil
}

// ContendedShares returns the shares of the resources that are contended, sorted by position.
func (q *Queue) ContendedShares() (shares []ListedAmount) {
	for _, part := range q.Parts {
		if part.Contended {
			shares = append(shares, ListedAmount{part.Position, part.Share})
		}
	}
	return shares
}

// Demand returns what the jobs of the queue, and of those below it, hold and ask for, sorted by position.
func (q *Queue) Demand() (demand []ListedAmount) {
	for _, part := range q.Parts {
		demand = append(demand, ListedAmount{part.Position, part.Demand})
	}
	return demand
}

// Exceeded returns the first queue, from this one up, that would hold more than its limit with what is asked for, and that
// limit; nil when there is none. Resources that are not asked for do not count. counted reports that what is asked for is a
// part of what the queue holds already. What is being released is taken as free if after is FutureIdle. What is kept from the job
// counts as held; of no job, nil, nothing is.
func (q *Queue) Exceeded(
	ask func(position int) int64, counted bool, after CapacityKind, keptFrom *Job,
) (exceeded *Queue, limit ListedAmount) {
	for ; q != nil; q = q.parent {
		for _, limit := range q.Limit {
			used := q.Used.At(limit.Position)
			if after == FutureIdle {
				used -= q.Releasing.At(limit.Position)
			}
			amount := ask(limit.Position)
			if amount <= 0 {
				continue
			}
			kept := q.KeptFrom(keptFrom, limit.Position, amount)
			if counted {
				amount, kept = 0, 0
			}
			if amount > limit.Amount-used-kept {
				return q, limit
			}
		}
	}
	return nil, ListedAmount{}
}

// SetLastStart sets when a job of the queue last started in its turn, also for those above it.
func (q *Queue) SetLastStart(at time.Time) {
	for ; q != nil; q = q.parent {
		q.LastStart = at
	}
}

// Limited reports whether the queue or one above it has a limit.
func (q *Queue) Limited() bool {
	for ; q != nil; q = q.parent {
		if len(q.Limit) > 0 {
			return true
		}
	}
	return false
}

// Queue returns the queue of that name, nil when there is none.
func (s *Snapshot) Queue(name string) *Queue {
	if i, found := s.queueIndex[name]; found {
		return s.Queues[i]
	}
	return nil
}

// SetQueues replaces the queues, sorted by name, and counts again what each holds. No queues means that all jobs are in one, of
// which nothing is known. The cluster state calls it, never within a session.
func (s *Snapshot) SetQueues(queues []*Queue) {
	s.SetViewpoint(Viewpoint{}) // the last one is of queues that are replaced
	s.Queues, s.queueIndex = queues, make(map[string]int, len(queues))
	for i, queue := range queues {
		s.queueIndex[queue.Name] = i
		queue.Index, queue.parent, queue.Inner, queue.handle = i, nil, false, unique.Make(queue.Name)
		queue.Used, queue.Releasing = make(Resources, s.Dimensions.Len()), make(Resources, s.Dimensions.Len())
	}
	for _, queue := range queues {
		parent := s.Queue(queue.Parent)
		if parent == nil || parent.IsBelow(queue) {
			continue
		}
		queue.parent = parent
		if queue.Invalid == nil || queue.Invalid.Code == QueuePaused { // a queue in error must not stop the jobs of its parent
			parent.Inner = true
		}
	}
	for _, job := range s.Jobs {
		job.queue = s.Queue(job.Queue)
		for _, task := range job.Tasks {
			task.queue = job.queue
			task.count(1)
		}
	}
	s.Journal.renew(true)
}

// IsBelow reports whether the queue is the other one, or below it; no queue, nil, is below none.
func (q *Queue) IsBelow(other *Queue) bool {
	for at := q; at != nil; at = at.parent {
		if at == other {
			return true
		}
	}
	return false
}

// Enqueue puts a job into the queue of that name, whether it exists or not, and counts its tasks there. The cluster state calls
// it when it has filled the job, never within a session.
func (s *Snapshot) Enqueue(job *Job, name string) {
	job.Queue, job.queue = name, s.Queue(name)
	switch {
	case job.Class == Class{}:
	case job.queue != nil:
		job.Class.Queue = job.queue.handle
	default:
		job.Class.Queue = unique.Make(name)
	}
	for _, task := range job.Tasks {
		if task.queue == job.queue {
			continue
		}
		task.count(-1)
		task.queue = job.queue
		task.count(1)
		s.Journal.renew(false)
	}
}

// QueueRefusal returns why the job may not start in its queue, whatever it asks for: nil when it may, and while there are no
// queues.
func (s *Snapshot) QueueRefusal(job *Job) *Refusal {
	switch queue := job.queue; {
	case len(s.Queues) == 0:
		return nil
	case job.RefusedBy != "":
		return &Refusal{Code: QueueNotAllowed, Detail: fmt.Sprintf("queue %q does not take jobs of namespace %q", job.RefusedBy, job.Key.Namespace)}
	case queue == nil:
		return &Refusal{Code: QueueNotFound, Detail: fmt.Sprintf("queue %q does not exist", job.Queue)}
	case queue.Invalid != nil:
		return queue.Invalid
	case queue.Inner:
		return &Refusal{Code: QueueNotLeaf, Detail: fmt.Sprintf("queue %q has queues below it, and takes no jobs itself", job.Queue)}
	}
	return nil
}

// CrossesQueues reports whether the jobs are in different queues.
func (s *Snapshot) CrossesQueues(a, b *Job) bool { return len(s.Queues) > 0 && a.Queue != b.Queue }

// InQueue returns the queue of the job, nil when it does not exist, and while there are no queues.
func (j *Job) InQueue() *Queue { return j.queue }

// InQueue returns the queue in which the task counts, nil when there is none.
func (t *Task) InQueue() *Queue { return t.queue }

// CountsInQueue reports whether what the task asks for is a part of what its queue holds: it has a node, until it is gone, or
// capacity is nominated to it. Each task counts once.
func (t *Task) CountsInQueue() bool {
	return t.queue != nil && (t.Status.HasNode() || t.Status == Pending && t.HoldsNomination())
}

// HoldsNomination reports whether capacity is nominated to the task, and has not been released in this session.
func (t *Task) HoldsNomination() bool { return t.Nominated != "" && !t.released }

// maxCounted is how much of a resource one task counts for at most, so that the sum of 262,143 tasks fits in an int64: any user
// may create pods that name a node, whatever they ask for.
const maxCounted = MaxAmount >> 5

// count adds what the task holds to what its queue and those above hold, or takes it off.
func (t *Task) count(sign int64) {
	if !t.CountsInQueue() {
		return
	}
	for queue := t.queue; queue != nil; queue = queue.parent {
		queue.Used.addCounted(t.Request, sign)
		t.countReleasing(&queue.Releasing, sign)
	}
}

// countReleasing adds to a sum what of the task's request is being released, or takes it off.
func (t *Task) countReleasing(sum *Resources, sign int64) {
	if !t.ReleasesResources() {
		return
	}
	sum.addCounted(t.Request, sign)
	if t.Devices != nil {
		sum.addCounted(t.Devices.Shared, -sign)
	}
}

func (r *Resources) addCounted(request Resources, sign int64) {
	r.grow(len(request))
	for i, amount := range request {
		(*r)[i] += sign * min(amount, maxCounted)
	}
}

// checkQueues returns an error when what a queue holds differs from the sum of its tasks: invariant Q7.
func (s *Snapshot) checkQueues() error {
	fresh := make([]Queue, len(s.Queues))
	for _, job := range s.Jobs {
		if job.queue != s.Queue(job.Queue) {
			return fmt.Errorf("%s is not in its queue %q", job.Key.Describe(), job.Queue)
		}
		for _, task := range job.Tasks {
			if task.queue != job.queue {
				return fmt.Errorf("pod %s does not count in the queue of its job", task)
			}
			for queue := job.queue; queue != nil && task.CountsInQueue(); queue = queue.parent {
				fresh[queue.Index].Used.addCounted(task.Request, 1)
				task.countReleasing(&fresh[queue.Index].Releasing, 1)
			}
		}
	}
	for i, queue := range s.Queues {
		if !queue.Used.Equal(fresh[i].Used) || !queue.Releasing.Equal(fresh[i].Releasing) {
			return fmt.Errorf("queue %s: holds %v and releases %v, its pods sum up to %v and %v",
				queue.Name, queue.Used, queue.Releasing, fresh[i].Used, fresh[i].Releasing)
		}
	}
	return nil
}
