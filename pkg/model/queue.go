package model

import (
	"cmp"
	"fmt"
	"slices"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/types"
)

// Queue is a part of the cluster that jobs share. Queues form a tree, and the jobs are in its leaves.
//
// Invariant: Used = Σ requests of the tasks that count in the queue or in one below it; Releasing = Σ requests of those that are
// terminating and not overdue.
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
	// Share is what the queue may count on of the resources that are contended among its siblings, sorted by position: of the last
	// session that computed it. It is replaced, never changed.
	Share []ListedAmount

	// Headroom is what is kept free of the limit for a job that has waited for long; nil when nothing is.
	Headroom *Headroom

	// Index is the queue's place in Snapshot.Queues.
	Index int
	// parent is nil for a part of the whole cluster, when there is no such queue, and where the tree has a cycle.
	parent *Queue
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

// Headroom is a part of a limit that is kept free for the minimum of a job. It is replaced, never changed.
type Headroom struct {
	Job      JobKey
	Queue    string
	Priority int32
	// Least is the least that the minimum asks for beyond what the job has.
	Least Resources
}

// keptFrom reports whether the headroom is not for the job: it is kept from jobs of the same priority or below in the queue of
// its own job, and from all jobs of other queues.
func (h *Headroom) keptFrom(job *Job) bool {
	return h != nil && h.Job != job.Key && (h.Queue != job.Queue || h.Priority >= job.Priority)
}

// KeptFrom returns how much of a resource is kept free below the limit of the queue for a job other than this one; nothing for
// nil.
func (q *Queue) KeptFrom(job *Job, position int) int64 {
	if job == nil || !q.Headroom.keptFrom(job) {
		return 0
	}
	return q.Headroom.Least.At(position)
}

// HasHeadroom reports whether anything is kept free below the limit of the queue, or of one above it.
func (q *Queue) HasHeadroom() bool {
	for ; q != nil; q = q.parent {
		if q.Headroom != nil {
			return true
		}
	}
	return false
}

// SetHeadroom replaces what is kept free in each queue, by its index.
func (s *Snapshot) SetHeadroom(kept []*Headroom) {
	for i, queue := range s.Queues {
		if before, after := queue.Headroom, kept[i]; before != after && (before == nil || after == nil || !before.equal(after)) {
			queue.Headroom = after
			s.Journal.renew(true)
		}
	}
}

func (h *Headroom) equal(o *Headroom) bool {
	return h.Job == o.Job && h.Queue == o.Queue && h.Priority == o.Priority && h.Least.Equal(o.Least)
}

// ReleaseHeadroom ends what is kept free for the job, which has started.
func (s *Snapshot) ReleaseHeadroom(job *Job) {
	for queue := job.queue; queue != nil; queue = queue.parent {
		if queue.Headroom != nil && queue.Headroom.Job == job.Key {
			queue.Headroom = nil
			s.Journal.renew(true)
		}
	}
}

// Above returns the queue that this one is a part of, nil when there is none.
func (q *Queue) Above() *Queue { return q.parent }

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
			kept := q.KeptFrom(keptFrom, limit.Position)
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
	i, found := slices.BinarySearchFunc(s.Queues, name, func(q *Queue, name string) int { return cmp.Compare(q.Name, name) })
	if !found {
		return nil
	}
	return s.Queues[i]
}

// SetQueues replaces the queues, sorted by name, and counts again what each holds. No queues means that all jobs are in one, of
// which nothing is known. The cluster state calls it, never within a session.
func (s *Snapshot) SetQueues(queues []*Queue) {
	s.Queues = queues
	for i, queue := range queues {
		queue.Index, queue.parent, queue.Inner = i, nil, false
		queue.Used, queue.Releasing = make(Resources, s.Dimensions.Len()), make(Resources, s.Dimensions.Len())
	}
	for _, queue := range queues {
		parent := s.Queue(queue.Parent)
		if parent == nil || parent.isBelow(queue) {
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

// isBelow reports whether the queue is the other one, or below it.
func (q *Queue) isBelow(other *Queue) bool {
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
	if job.Class != (Class{}) {
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
	case queue == nil:
		return &Refusal{Code: QueueNotFound, Detail: fmt.Sprintf("queue %q does not exist", job.Queue)}
	case queue.Invalid != nil:
		return queue.Invalid
	case queue.Inner:
		return &Refusal{Code: QueueNotLeaf, Detail: fmt.Sprintf("queue %q has queues below it, and takes no jobs itself", job.Queue)}
	case job.QueueNotAllowed:
		return &Refusal{Code: QueueNotAllowed, Detail: fmt.Sprintf("queue %q does not take jobs of namespace %q", job.Queue, job.Key.Namespace)}
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
	return t.queue != nil && (t.Status.HasNode() || t.Status == Pending && t.Nominated != "")
}

// maxCounted is how much of a resource one task counts for at most, so that the sum of 262,144 tasks fits in an int64: any user
// may create pods that name a node, whatever they ask for.
const maxCounted = MaxAmount >> 5

// count adds what the task holds to what its queue and those above hold, or takes it off.
func (t *Task) count(sign int64) {
	if !t.CountsInQueue() {
		return
	}
	for queue := t.queue; queue != nil; queue = queue.parent {
		queue.Used.addCounted(t.Request, sign)
		if t.ReleasesResources() {
			queue.Releasing.addCounted(t.Request, sign)
		}
	}
}

func (r *Resources) addCounted(request Resources, sign int64) {
	r.grow(len(request))
	for i, amount := range request {
		(*r)[i] += sign * min(amount, maxCounted)
	}
}

// checkQueues returns an error when what a queue holds differs from the sum of its tasks.
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
				if task.ReleasesResources() {
					fresh[queue.Index].Releasing.addCounted(task.Request, 1)
				}
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

// copyQueues returns copies of the queues, which refer to each other.
func copyQueues(queues []*Queue) []*Queue {
	if len(queues) == 0 {
		return nil
	}
	copied := make([]*Queue, len(queues))
	for i, queue := range queues {
		copied[i] = new(*queue)
		copied[i].Used, copied[i].Releasing = queue.Used.Clone(), queue.Releasing.Clone()
	}
	for _, queue := range copied {
		queue.parent = counterpart(queue.parent, copied)
	}
	return copied
}

// counterpart returns the copy of a queue; nil for nil.
func counterpart(queue *Queue, copied []*Queue) *Queue {
	if queue == nil {
		return nil
	}
	return copied[queue.Index]
}
