package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// maxLevels is how many levels the tree of queues may have.
const maxLevels = 8

// queueState is what is known of one Queue object. It is never changed, only replaced.
type queueState struct {
	object *v1alpha1.Queue
	// namespaces selects those whose jobs may use it.
	namespaces labels.Selector
	// unreadable says what cannot be read of it; empty when all can.
	unreadable string
}

// queues are the Queue objects by name.
type queues struct {
	objects map[string]*queueState
	// lastStart is when a job of each last started in its turn: as this process has decided, as a status says, or as was read back
	// when it began to lead, whichever is later. It has what is known of the default queue also while that has no object.
	lastStart map[string]time.Time
	// starts are those that lastStart does not have yet, the latest last.
	starts []turn
	// dirty reports that the snapshot has to be given them again.
	dirty bool
	// inherits reports that this process leads from now on, and has not read back yet what the last leader started.
	inherits bool
}

// turn is when a job of a queue of the snapshot has started in its turn.
type turn struct {
	queue *model.Queue
	at    time.Time
}

// any reports whether there is a Queue object. While there is none all jobs are in one queue, whatever name they say.
func (q *queues) any() bool { return len(q.objects) > 0 }

// QueueSeen is a new version of a queue, or its end.
type QueueSeen struct {
	Queue *v1alpha1.Queue
	Gone  bool
}

func (e *QueueSeen) object() (string, metav1.Object, bool) { return kindQueue, e.Queue, e.Gone }

// apply keeps the queue. What its status says matters only for what is written to it. The jobs that name it are filled again when
// it may take those of other namespaces, all jobs when the first queue comes or the last one goes.
func (e *QueueSeen) apply(s *State, _ types.UID) Effect {
	object := e.Queue
	s.queues.noteStarts() // before a queue is gone, or another of its name is there
	before := s.queues.objects[object.Name]
	if e.Gone || before != nil && before.object.UID != object.UID {
		delete(s.queues.lastStart, object.Name)
	}
	if !e.Gone {
		if at := object.Status.LastStart; at != nil && at.After(s.queues.lastStart[object.Name]) { // another process may have written it
			s.queues.lastStart[object.Name], s.queues.dirty = at.UTC(), true
		}
	}
	if before != nil && !e.Gone && before.object.UID == object.UID && equality.Semantic.DeepEqual(before.object.Spec, object.Spec) &&
		Malformed(before.object) == Malformed(object) {
		written := !equality.Semantic.DeepEqual(before.object.Status, object.Status)
		s.queues.objects[object.Name] = &queueState{object, before.namespaces, before.unreadable}
		return Effect{Report: written}
	}
	had := s.queues.any()
	if delete(s.queues.objects, object.Name); !e.Gone {
		s.queues.objects[object.Name] = readQueue(object)
	}
	s.queues.dirty = true
	listed := s.queues.objects[object.Name].listed()
	for _, name := range listed {
		s.dimensions.Index(name) // before the vectors grow for the next snapshot
	}
	s.setOffers(before.listed(), listed)
	switch after := s.queues.objects[object.Name]; {
	case had != s.queues.any():
		s.refillJobs(func(*model.Job) bool { return true })
	case before == nil || after == nil || before.unreadable != after.unreadable ||
		!equality.Semantic.DeepEqual(before.object.Spec.NamespaceSelector, object.Spec.NamespaceSelector):
		s.refillJobs(func(job *model.Job) bool { return job.Queue == object.Name || job.RefusedBy == object.Name })
	}
	return Effect{Schedule: true, Report: true}
}

// assumeStart takes note that a job has started in its turn.
func (s *State) assumeStart(decision model.Decision) {
	if decision.LastStart.IsZero() || len(decision.Binds) == 0 {
		return
	}
	if entry, _ := s.pods.find(decision.Binds[0].Pod.UID); entry != nil && entry.task != nil && entry.task.InQueue() != nil {
		s.queues.starts = append(s.queues.starts, turn{entry.task.InQueue(), decision.LastStart})
	}
}

// noteStarts brings lastStart up to date, for the queues in which jobs have started and those above them. Of the queues that it
// meets again the later start is there.
func (q *queues) noteStarts() {
	for _, start := range slices.Backward(q.starts) {
		for queue := start.queue; queue != nil && q.lastStart[queue.Name].Before(start.at); queue = queue.Above() {
			q.lastStart[queue.Name] = start.at
		}
	}
	clear(q.starts)
	q.starts = q.starts[:0]
}

// bindDelay is how long after its decision a bind is noted at most, as a rule. A start that was read back and is no later than
// that after the one that the status says is that one.
const bindDelay = 2 * time.Second

// inheritStarts takes over, once this process leads, the starts of the last leader that no status of a queue says yet: they are
// read from the pods and from the groups. The times there are those of the API server and in seconds, so that what the status
// says goes first.
func (s *State) inheritStarts() {
	if !s.queues.inherits {
		return
	}
	s.queues.inherits = false
	last := map[*model.Queue]time.Time{}
	for _, job := range s.snapshot.Jobs {
		at := s.startedAt(job)
		for queue := job.InQueue(); queue != nil && at.After(last[queue]); queue = queue.Above() {
			last[queue] = at
		}
	}
	for queue, at := range last {
		if at.After(queue.LastStart.Add(bindDelay)) {
			s.queues.lastStart[queue.Name], queue.LastStart = at.UTC(), at.UTC()
		}
	}
}

// startedAt returns when a job started in its turn, as far as its pods and its group say; zero when they do not. What begins
// later, such as a member that takes the place of a lost one, is no start: the earliest bind counts, or the moment when the group
// was seen to be whole. Of a group that has ended before it was seen so the end counts.
func (s *State) startedAt(job *model.Job) (at time.Time) {
	earliest := func(one time.Time) {
		if at.IsZero() || one.Before(at) {
			at = one
		}
	}
	for _, task := range job.Tasks {
		if task.Status.Occupies() {
			earliest(boundAt(task.Pod))
		}
	}
	if !job.HasGroup || s.groups[job.Key] == nil {
		return at
	}
	status := &s.groups[job.Key].Status
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionScheduled); c != nil && c.Status == metav1.ConditionTrue {
		earliest(c.LastTransitionTime.Time)
	}
	if ended := status.FinishedAt; at.IsZero() && ended != nil {
		at = ended.Time
	}
	return at
}

// refillJobs fills jobs of the snapshot again; the others are filled when they come into it.
func (s *State) refillJobs(concerned func(*model.Job) bool) {
	for _, job := range s.snapshot.Jobs {
		if concerned(job) {
			s.dirty.addJob(job.Key)
		}
	}
}

// readQueue reads what a queue says, as the rules of the CRD hold it: an object may be older than they are.
func readQueue(object *v1alpha1.Queue) *queueState {
	known := &queueState{object: object, unreadable: Malformed(object)}
	var err error
	if known.namespaces, err = sources.NamespacesOf(object); err != nil {
		known.unreadable = "its namespaceSelector: " + model.OneLine(err)
	}
	for _, list := range []corev1.ResourceList{object.Spec.Guarantee, object.Spec.Limit} {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			if amount := list[name]; amount.Sign() < 0 {
				known.unreadable = fmt.Sprintf("the amount of %s is negative", model.Brief(string(name), maxQuoted))
			}
		}
	}
	return known
}

// listed returns the resources that the queue limits or guarantees, by name; none of a queue that does not exist. They are
// counted also while no node offers them: a job is refused by its limit, and does not wait for a node that would not help.
func (q *queueState) listed() []corev1.ResourceName {
	if q == nil {
		return nil
	}
	names := map[corev1.ResourceName]bool{}
	for _, list := range []corev1.ResourceList{q.object.Spec.Guarantee, q.object.Spec.Limit} {
		for name := range list {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// enqueue puts a job into its queue: the one that its group names, else its oldest member, else its namespace.
func (s *State) enqueue(job *model.Job, group *v1alpha1.PodGroup) {
	if !s.queues.any() {
		return
	}
	named := ""
	if group != nil {
		named = group.Spec.Queue
	} else if spec := s.foreign.specs[job.Key]; spec != nil {
		named = spec.Queue
	}
	oldest := ""
	if len(job.Tasks) > 0 {
		oldest = job.Tasks[0].Says().Queue
	}
	name := sources.QueueOf(named, oldest, s.namespaces.labels[job.Key.Namespace])
	if job.RefusedBy = ""; !s.queues.admits(name, s.namespaces.labels[job.Key.Namespace]) {
		job.RefusedBy, name = name, v1alpha1.DefaultQueue
	}
	s.snapshot.Enqueue(job, name)
}

// admits reports whether a queue takes jobs of a namespace with these labels. One that does not exist, or that cannot be read,
// has nothing against them: what its jobs hold counts in it, and in the queues above it.
func (q *queues) admits(name string, namespace map[string]string) bool {
	known := q.objects[name]
	return known == nil || known.unreadable != "" || known.namespaces.Matches(labels.Set(namespace))
}

// patchQueues gives the snapshot the queues, and reports whether they have changed. When a job of each last started is as the
// assumed decisions say, whatever the last session left.
func (s *State) patchQueues() (changed bool) {
	s.queues.noteStarts()
	if changed, s.queues.dirty = s.queues.dirty, false; changed {
		s.snapshot.SetQueues(s.queues.list(s.dimensions))
	}
	for _, queue := range s.snapshot.Queues {
		queue.LastStart = s.queues.lastStart[queue.Name]
	}
	return changed
}

// list returns the queues by name, the default one among them; none when there is no object.
func (q *queues) list(dimensions *model.ResourceIndex) []*model.Queue {
	if !q.any() {
		return nil
	}
	names := slices.Collect(maps.Keys(q.objects))
	if q.objects[v1alpha1.DefaultQueue] == nil {
		names = append(names, v1alpha1.DefaultQueue)
	}
	slices.Sort(names)
	all := make([]*model.Queue, 0, len(names))
	for _, name := range names {
		queue := &model.Queue{Name: name, Weight: 1}
		if known := q.objects[name]; known != nil {
			object := known.object
			queue.UID, queue.Created, queue.Parent = object.UID, object.CreationTimestamp.Time, object.Spec.Parent
			queue.Guarantee, queue.Limit = boundsOf(dimensions, object.Spec.Guarantee), boundsOf(dimensions, object.Spec.Limit)
			queue.Paused = object.Spec.Paused
			queue.Invalid, queue.Inactive = q.refusal(name)
			if object.Spec.Weight != nil {
				queue.Weight = max(0, *object.Spec.Weight)
			}
		}
		all = append(all, queue)
	}
	return all
}

// boundsOf returns the amounts of the resources, all of which have a dimension since the queue was applied.
func boundsOf(dimensions *model.ResourceIndex, list corev1.ResourceList) (bounds []model.ListedAmount) {
	for name, quantity := range list {
		if position, known := dimensions.Find(name); known {
			bounds = append(bounds, model.ListedAmount{Position: position, Amount: amountOf(name, quantity)})
		}
	}
	slices.SortFunc(bounds, func(a, b model.ListedAmount) int { return cmp.Compare(a.Position, b.Position) })
	return bounds
}

// amountOf returns a quantity in the unit of its dimension, cut to what an int64 holds: a limit for all nodes together may be
// above what one pod may ask for.
func amountOf(name corev1.ResourceName, quantity resource.Quantity) int64 {
	most := resource.NewQuantity(math.MaxInt64, resource.DecimalSI)
	if name == corev1.ResourceCPU {
		most = resource.NewMilliQuantity(math.MaxInt64, resource.DecimalSI)
	}
	switch {
	case quantity.Cmp(*most) >= 0:
		return math.MaxInt64
	case name == corev1.ResourceCPU:
		return quantity.MilliValue()
	}
	return quantity.Value()
}

// refusal returns why no job of a queue starts, also in one word; nil when they may: it or a queue above it cannot be read, is
// paused or is missing, or the tree is too deep there or has no end.
func (q *queues) refusal(name string) (why *model.Refusal, inactive string) {
	invalid := func(inactive, format string, values ...any) (*model.Refusal, string) {
		return &model.Refusal{Code: model.QueueInvalid, Detail: fmt.Sprintf(format, values...)}, inactive
	}
	var paused *model.Refusal
	var isPaused string
	at := name
	for level := 1; ; level++ {
		switch known := q.objects[at]; {
		case known == nil && at == v1alpha1.DefaultQueue:
			return paused, isPaused
		case known == nil:
			return invalid(model.QueueParentNotFound, "queue %q: a queue above it, %q, does not exist", name, at)
		case known.unreadable != "":
			return invalid(model.QueueUnreadable, "queue %q cannot be read: %s", at, known.unreadable)
		case level > maxLevels && q.endless(name):
			return invalid(model.QueueInCycle, "queue %q: the queues above it have no end, since one is above itself", name)
		case level > maxLevels:
			return invalid(model.QueueTooDeep, "queue %q: the tree has more than %d levels above it", name, maxLevels-1)
		case known.object.Spec.Paused && paused == nil:
			paused = &model.Refusal{Code: model.QueuePaused, Detail: fmt.Sprintf("queue %q is paused", at)}
			isPaused = model.QueueIsPaused
		}
		if at = q.objects[at].object.Spec.Parent; at == "" {
			return paused, isPaused
		}
	}
}

// endless reports whether the way up from a queue never ends.
func (q *queues) endless(name string) bool {
	seen := map[string]bool{}
	for at := name; at != ""; at = q.objects[at].object.Spec.Parent {
		if seen[at] {
			return true
		}
		if seen[at] = true; q.objects[at] == nil {
			return false
		}
	}
	return false
}
