package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is the status of queues. Users make its numbers change with each job, so it has a budget of its own, whatever the
// number of queues: what is not written is computed again later. A restart reads one of them, when a job last started, so that of
// queues which hold the same the turn is right, except for starts that were not written yet.

const (
	// queueInterval is how long after the last write about a queue its numbers, or its message, are written again. Whether it is
	// active, or why not, is written immediately.
	queueInterval = 30 * time.Second
	// mostQueues is how many statuses of queues are written in any second, all queues together.
	mostQueues = 10
	// maxReasons is how many reasons a status lists, as the CRD has it.
	maxReasons = 64
	// maxResources is how many resources a status lists, as the CRD has it; maxNamed is how many a message names, and maxName how
	// many bytes of each.
	maxResources, maxNamed, maxName = 512, 8, 80
)

// QueueReporter turns what queues hold into writes: the differences from what the API server has, or has been sent.
//
// Invariant: for an unchanged cluster it writes nothing.
type QueueReporter struct {
	// schedulers are the names of the schedulers that this process is, at least one.
	schedulers []string
	object     func(name string) *v1alpha1.Queue
	writer     *writer
	missing    Missing
}

// Missing is what the configuration lacks that queues need. Limits hold in any configuration.
type Missing struct {
	// Order reports that no plugin orders queues.
	Order bool
	// Guarantees says why guarantees do not hold; empty when they do.
	Guarantees string
}

// Configure sets what the configuration lacks, which the conditions of the queues that it concerns say.
func (r *QueueReporter) Configure(missing Missing) { r.missing = missing }

// NewQueueReporter returns a reporter that has written nothing yet, for a process with these names, at least one. object
// returns the Queue of a name, never changed; nil when there is no object.
func NewQueueReporter(schedulers []string, object func(name string) *v1alpha1.Queue) *QueueReporter {
	r := &QueueReporter{schedulers: schedulers, object: object, writer: newWriter(backoff.Policy{Min: 10 * time.Second, Max: 10 * time.Minute})}
	r.writer.most, r.writer.pause = newWindow(mostQueues), time.Second // each report looks at all jobs
	return r
}

// Report returns what is to be written about the queues, and when to call it again at the latest; zero when nothing is delayed.
// refusals says why each waiting job waits.
func (r *QueueReporter) Report(
	snapshot *model.Snapshot, refusals map[model.JobKey]*model.Refusal, now time.Time,
) (writes []commit.Write, wake time.Time) {
	r.writer.begin()
	if len(snapshot.Queues) > 0 {
		r.offer(snapshot, refusals, now)
	}
	writes = r.writer.writes(now)
	r.writer.prune()
	return writes, r.writer.wake
}

// Failed records that the API server refused a write. It is tried again later.
func (r *QueueReporter) Failed(write commit.Write, now time.Time) {
	if status, is := write.(*commit.QueueStatus); is {
		r.writer.fail(status.UID, now)
	}
}

// offer offers the statuses that differ from what was written. Those that say something new about whether a queue is active are
// written immediately, and first.
func (r *QueueReporter) offer(snapshot *model.Snapshot, refusals map[model.JobKey]*model.Refusal, now time.Time) {
	counts, offered := CountJobs(snapshot.Jobs, refusals), offeredResources(snapshot)
	for _, queue := range snapshot.Queues {
		object := r.object(queue.Name)
		if object == nil || object.DeletionTimestamp != nil {
			continue
		}
		// Of two schedulers over one cluster the one writes that has done so first.
		if writer := object.Status.SchedulerName; writer != "" && !slices.Contains(r.schedulers, writer) {
			continue
		}
		current := currentOf(r.writer.keep(object.UID), object.Status, now)
		wanted := current.DeepCopy()
		wanted.SchedulerName = cmp.Or(wanted.SchedulerName, r.schedulers[0])
		wanted.ObservedGeneration, wanted.Used = object.Generation, cut(snapshot.Dimensions.List(queue.Used))
		wanted.Share = cut(snapshot.Dimensions.ListOf(queue.ContendedShares()))
		if !queue.LastStart.IsZero() {
			wanted.LastStart = &metav1.MicroTime{Time: queue.LastStart}
		}
		wanted.Waiting, wanted.Running = counts[queue].Waiting, counts[queue].Running
		wanted.WaitingFor = counts[queue].WaitingFor()
		meta.SetStatusCondition(&wanted.Conditions, r.active(queue, object, counts[queue].own > 0, offered, now))
		r.setGuaranteeMet(wanted, queue, object, now)
		if equality.Semantic.DeepEqual(*wanted, current) {
			shown := equality.Semantic.DeepEqual(object.Status, current)
			if r.writer.settle(object.UID, account{}, shown, now); shown {
				r.writer.refused.Reset(object.UID) // what was refused before is over
			}
			continue
		}
		wanted.CountedAt = &metav1.Time{Time: now.Truncate(time.Second)} // it alone is no reason to write
		changed := activeChanged(current, *wanted)
		r.writer.offer(offer{
			object: object.UID, every: queueInterval, immediate: changed, rank: map[bool]int{false: 1}[changed], shows: *wanted,
			write: func() []commit.Write {
				return []commit.Write{&commit.QueueStatus{Name: object.Name, UID: object.UID, Status: *wanted}}
			},
		}, now)
	}
}

// JobCounts is how many jobs of a queue, and of those below it, wait to start or hold capacity; own are those of the queue
// itself.
type JobCounts struct {
	Waiting, Running, own int32
	waitFor               map[model.Code]int32
}

// WaitingFor returns how many wait for which reason, the first of them by reason as far as a status may list them.
func (c JobCounts) WaitingFor() (all []v1alpha1.WaitingReason) {
	for _, code := range slices.Sorted(maps.Keys(c.waitFor)) {
		all = append(all, v1alpha1.WaitingReason{Reason: string(code), Jobs: c.waitFor[code]})
	}
	return all[:min(len(all), maxReasons)]
}

// CountJobs counts the jobs of each queue; refusals says why those wait that do. A group that no pod names does not wait.
func CountJobs(jobs []*model.Job, refusals map[model.JobKey]*model.Refusal) map[*model.Queue]JobCounts {
	all := map[*model.Queue]JobCounts{}
	for _, job := range jobs {
		own := int32(1)
		holds := slices.ContainsFunc(job.Tasks, (*model.Task).CountsInQueue)
		for queue := job.InQueue(); queue != nil; queue = queue.Above() {
			counts := all[queue]
			switch {
			case holds:
				counts.Running++
			case refusals[job.Key] != nil && len(job.Tasks) > 0:
				counts.Waiting++
				if counts.waitFor == nil {
					counts.waitFor = map[model.Code]int32{}
				}
				counts.waitFor[refusals[job.Key].Code]++
			}
			counts.own += own
			all[queue], own = counts, 0
		}
	}
	return all
}

// offeredResources returns a function that reports whether a node offers a resource, by any of its names.
func offeredResources(snapshot *model.Snapshot) func(corev1.ResourceName) bool {
	offered := map[int]bool{}
	for position := range snapshot.Dimensions.Len() {
		if slices.ContainsFunc(snapshot.Nodes, func(node *model.Node) bool { return node.Allocatable().At(position) > 0 }) {
			offered[position] = true
		}
	}
	return func(name corev1.ResourceName) bool {
		position, known := snapshot.Dimensions.Find(name)
		return known && offered[position]
	}
}

// cut leaves out the last by name of more resources than a status may list.
func cut(list corev1.ResourceList) corev1.ResourceList {
	for _, name := range slices.Sorted(maps.Keys(list))[min(maxResources, len(list)):] {
		delete(list, name)
	}
	return list
}

// active is the condition that says whether jobs of the queue start, and if not, why; and what of the object has no effect.
func (r *QueueReporter) active(
	queue *model.Queue, object *v1alpha1.Queue, hasJobs bool, offered func(corev1.ResourceName) bool, now time.Time,
) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ConditionActive, Status: metav1.ConditionTrue, Reason: v1alpha1.ConditionActive,
		ObservedGeneration: object.Generation, LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
	}
	says := []string{"jobs of the queue may start"}
	switch {
	case queue.Invalid != nil:
		condition.Status, condition.Reason, says[0] = metav1.ConditionFalse, queue.Inactive, queue.Invalid.Detail
	case queue.Inner:
		says[0] = "jobs of the queues below it may start"
	}
	if queue.Inner && hasJobs {
		says = append(says, string(model.QueueNotLeaf)+": jobs name this queue, which has queues below it and takes no jobs itself")
	}
	if missing := notOffered(object, offered); len(missing) > 0 {
		says = append(says, "its limit or guarantee lists what no node offers: "+strings.Join(missing, ", "))
	}
	if r.missing.Order {
		says = append(says, "queues take turns whatever they hold, since the configuration has no plugin that orders them, such as proportion")
	}
	condition.Message = strings.Join(says, "; ")
	return condition
}

// reasonUnenforced is the reason of a guarantee of which it is not known whether it is met.
const reasonUnenforced = "NotEnforced"

// setGuaranteeMet sets the condition that says whether jobs wait that are within the guarantee of the queue, and why; a queue
// without a guarantee has none. It changes with the jobs of users, so that it is written as numbers are.
func (r *QueueReporter) setGuaranteeMet(status *v1alpha1.QueueStatus, queue *model.Queue, object *v1alpha1.Queue, now time.Time) {
	condition := metav1.Condition{
		Type: v1alpha1.ConditionGuaranteeMet, Status: metav1.ConditionUnknown, ObservedGeneration: object.Generation,
		LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
	}
	switch {
	case len(queue.Guarantee) == 0:
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionGuaranteeMet)
		return
	case r.missing.Guarantees != "":
		condition.Reason, condition.Message = reasonUnenforced, r.missing.Guarantees
	case queue.Invalid != nil:
		condition.Reason, condition.Message = queue.Inactive, queue.Invalid.Detail
	case queue.Unmet != nil:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, queue.Unmet.Reason, queue.Unmet.Message
	case queue.Parts == nil: // no session has seen the queue as it is
		return
	case queue.Oversubscribed != "":
		condition.Reason, condition.Message = model.UnmetOversubscribed, "no job waits that is within the guarantee; "+queue.Oversubscribed
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ConditionGuaranteeMet
		condition.Message = "no job waits that is within the guarantee"
	}
	meta.SetStatusCondition(&status.Conditions, condition)
}

// notOffered returns the resources that the limit or the guarantee lists and no node offers, by name.
func notOffered(object *v1alpha1.Queue, offered func(corev1.ResourceName) bool) (names []string) {
	listed := maps.Clone(object.Spec.Limit)
	if listed == nil {
		listed = corev1.ResourceList{}
	}
	maps.Copy(listed, object.Spec.Guarantee)
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if !offered(name) {
			names = append(names, model.Clean(string(name), maxName))
		}
	}
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return names
}

// activeChanged reports whether a status says something new about whether the queue is active, or is about another version of
// its spec.
func activeChanged(current, wanted v1alpha1.QueueStatus) bool {
	before := meta.FindStatusCondition(current.Conditions, v1alpha1.ConditionActive)
	after := meta.FindStatusCondition(wanted.Conditions, v1alpha1.ConditionActive)
	return before == nil || before.Status != after.Status || before.Reason != after.Reason ||
		current.ObservedGeneration != wanted.ObservedGeneration
}
