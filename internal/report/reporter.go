package report

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/gang"
	"github.com/tutti-sched/tutti/pkg/model"
)

// How often an object is written again when nothing but this has changed. Another phase or reason is written immediately,
// unless it is the one before; see record.delay, and budget for how much is written about a namespace.
const (
	countInterval   = time.Second
	messageInterval = 10 * time.Second
	// flipInterval is how long after a change of phase or reason the one before is not written again: what goes to and fro is
	// written once.
	flipInterval = 10 * time.Second
	// echoTimeout is for how long a write counts as made that the watch has not shown.
	echoTimeout = 30 * time.Second
)

// Reporter turns the state of jobs into writes: the differences from what the API server has, or has been sent.
//
// Invariant: for an unchanged cluster it writes nothing, but one event about each pod that waits, and one every half hour about
// each job that waits: see repeatReason.
type Reporter struct {
	writer *writer
	source Source
	// repeats are when the reason of the oldest waiting pod of a job is to be repeated as an event, or said for the first time of
	// another one, by its UID.
	repeats map[types.UID]repeat
	// evictions are the last ones of members of groups below their minimum, by the UID of the group; ended are the pods that this
	// process has ended, or of which it does not know who did, with the last call of Report that met them.
	evictions map[types.UID]eviction
	ended     map[types.UID]int
	// removed are the groups of which an event said that a field is not read, with the last call of Report that met them.
	removed map[types.UID]int
	// deletions are of groups that are not to be kept any longer.
	deletions []commit.Write
}

// Source knows what the job does not say.
type Source struct {
	// Group returns the PodGroup of a job that has one, never changed.
	Group func(model.JobKey) *v1alpha1.PodGroup
	// Reservation returns what the status of the job's PodGroup is to show as reserved for it; nil when that is nothing.
	Reservation func(*model.Job) *v1alpha1.Reservation
	// Whole returns whether the group has had its minimum bound and has members left since, and what it was whole with; known is
	// false where the status of the group says so itself.
	Whole func(*model.Job) (started model.Minima, whole, known bool)
	// Standing returns in which domains the members of a job are that are bound and share one, and how many domains they would
	// need at least, which costs a look at every node; nil where the level is not known. Nil says it of no job.
	Standing func(*model.Job, *model.TopologyConstraint) (in Standing, least func() int)
	// List writes down a request; nil writes none.
	List func(model.Resources) corev1.ResourceList
	// Advice returns what would let a job start that waits for a reason; nil where that is not known. Nil knows it of no job.
	Advice func(*model.Job, *model.Refusal) *v1alpha1.Advice
}

// NewReporter returns a reporter that has written nothing yet.
func NewReporter(source Source) *Reporter {
	return &Reporter{
		writer: newWriter(backoff.Policy{Min: 10 * time.Second, Max: 10 * time.Minute}), source: source, repeats: map[types.UID]repeat{},
		evictions: map[types.UID]eviction{}, ended: map[types.UID]int{}, removed: map[types.UID]int{},
	}
}

// Report returns what is to be written about the jobs, and when to call it again at the latest; zero when nothing is delayed.
// refusals says why each waiting job waits. guard makes the report of one job, and answers a panic over it.
func (r *Reporter) Report(
	jobs []*model.Job, refusals map[model.JobKey]*model.Refusal, now time.Time, guard func(key model.JobKey, report func()),
) (writes []commit.Write, wake time.Time) {
	r.deletions = nil
	r.writer.begin()
	for _, job := range jobs {
		guard(job.Key, func() { r.reportJob(job, refusals[job.Key], now) })
	}
	writes = append(r.deletions, r.writer.writes(now)...)
	r.prune()
	return writes, r.writer.wake
}

func (r *Reporter) reportJob(job *model.Job, refusal *model.Refusal, now time.Time) {
	if job.HasGroup {
		if group := r.source.Group(job.Key); group.DeletionTimestamp == nil {
			r.reportGroup(job, group, refusal, now)
			r.reportRemoved(job, group, now)
		}
	}
	if refusal != nil {
		if !job.HasGroup && job.Warning != "" {
			refusal = refusal.WithNote(job.Warning)
		}
		r.reportPods(job, refusal, now)
	}
}

// reportRemoved says once, for as long as a group is there, which of its fields are not read.
func (r *Reporter) reportRemoved(job *model.Job, group *v1alpha1.PodGroup, now time.Time) {
	words := sources.Removed(group)
	_, said := r.removed[group.UID]
	switch {
	case words == "":
	case said:
		r.removed[group.UID] = r.writer.generation
	default:
		event := jobEvent(job, ReasonFieldRemoved, now)
		event.Type, event.Action, event.Note = corev1.EventTypeWarning, "Reading", words
		r.writer.offerAt(offer{from: account{job.Key.Namespace, ofGroups}, write: func() []commit.Write {
			r.removed[group.UID] = r.writer.generation
			return []commit.Write{event}
		}}, now, now)
	}
}

// Failed records that the API server refused a write. It is tried again later; so is a deletion, see expire.
func (r *Reporter) Failed(write commit.Write, now time.Time) {
	switch write := write.(type) {
	case *commit.GroupStatus:
		r.writer.fail(write.UID, now)
	case *commit.PodCondition:
		r.writer.fail(write.Pod.UID, now)
	}
}

func (r *Reporter) reportGroup(job *model.Job, group *v1alpha1.PodGroup, refusal *model.Refusal, now time.Time) {
	sent := r.writer.sent[job.UID]
	wanted, current, started := r.status(job, group, refusal, r.evictionOf(gang.Stated(job), now), now)
	sources.StartedMinima(&wanted, gang.Stated(job), &v1alpha1.PodGroup{Spec: group.Spec, Status: current}, started, r.source.List)
	r.setTopology(&wanted, job, current)
	setReserved(&wanted, group.Generation, metav1.NewTime(now).Rfc3339Copy())
	boundConditions(&wanted)
	if at, ok := job.OverrunsAt(now.Unix()); ok && wanted.OverrunSince == nil {
		r.writer.requeue(time.Unix(at, 0))
	}
	from := account{job.Key.Namespace, ofGroups}
	if equality.Semantic.DeepEqual(wanted, current) {
		shown := equality.Semantic.DeepEqual(current, group.Status)
		expired := shown && r.expire(group, now)
		if !r.writer.settle(job.UID, from, shown, now) && expired {
			r.writer.sent[job.UID] = record{generation: r.writer.generation} // while the deletion is refused
		}
		return
	}
	wanted.SchedulerName = schedulerName(job, group, &wanted) // it alone is no reason to write
	writes := []commit.Write{&commit.GroupStatus{
		Namespace: job.Key.Namespace, Name: job.Key.Name, UID: job.UID, Status: wanted,
	}}
	reason := scheduledReason(wanted)
	changed := scheduledReason(current) != reason || scheduledStatus(current) != scheduledStatus(wanted)
	if changed && sent.lastReason != reason {
		writes = append(writes, groupEvent(job, wanted, now))
	}
	urgent := urgent(current, wanted)
	r.writer.offer(offer{
		object: job.UID, from: from, before: phaseAndReason(current), after: phaseAndReason(wanted), every: interval(current, wanted),
		immediate: urgent, urgent: urgent, shows: wanted, reason: reason, write: func() []commit.Write { return writes },
	}, now)
}

// status returns the status that a group is to show, without its topology, the one that it has, or was sent, and with which
// minima it was whole. last is the last eviction of its members, nil when none is known. It changes nothing.
func (r *Reporter) status(
	job *model.Job, group *v1alpha1.PodGroup, refusal *model.Refusal, last *eviction, now time.Time,
) (wanted, current v1alpha1.PodGroupStatus, started model.Minima) {
	current = currentOf(r.writer.sent[job.UID], group.Status, now)
	started, was, known := r.source.Whole(job)
	if !known {
		was = meta.IsStatusConditionTrue(current.Conditions, v1alpha1.ConditionScheduled)
	}
	was = was || !job.HasGroup && job.Whole // no status says so of it
	wanted = groupStatus(job, group, current, was, refusal, last, metav1.NewTime(now).Rfc3339Copy())
	sources.SetReservation(&wanted, r.source.Reservation(job))
	if r.source.Advice != nil && refusal != nil && scheduledReason(wanted) == string(refusal.Code) { // beside another reason it would be about that
		wanted.Advice = r.source.Advice(job, refusal)
	}
	return wanted, current, started
}

// Status returns the status that the PodGroup of a job is to show, or would show if the job had one. It changes nothing.
func (r *Reporter) Status(job *model.Job, refusal *model.Refusal, now time.Time) v1alpha1.PodGroupStatus {
	group, last := &v1alpha1.PodGroup{}, (*eviction)(nil)
	if job.HasGroup {
		group = r.source.Group(job.Key)
	}
	if known, is := r.evictions[job.UID]; is {
		last = &known
	}
	status, _, _ := r.status(job, group, refusal, last, now)
	if !job.HasGroup {
		status.WaitingSince = nil // it is not kept anywhere
	}
	return status
}

// expire deletes a group that has ended and is not to be kept any longer, again with a back-off while the watch still shows it.
// It reports whether the group's time is over.
func (r *Reporter) expire(group *v1alpha1.PodGroup, now time.Time) bool {
	at, ok := sources.ExpiresAt(group)
	switch {
	case !ok:
		return false
	case at.After(now):
		r.writer.requeue(at)
		return false
	}
	if !r.writer.refused.Delayed(group.UID, now) {
		r.writer.refused.Fail(group.UID, nil, now) // unless the watch shows otherwise by then
		r.deletions = append(r.deletions, &commit.GroupDeletion{
			Namespace: group.Namespace, Name: group.Name, UID: group.UID, ResourceVersion: group.ResourceVersion,
		})
	}
	r.writer.requeue(r.writer.refused.Until(group.UID))
	return true
}

// schedulerName returns the scheduler that the status of a group is to show: the one that wrote it before when neither the
// group nor a member says it.
func schedulerName(job *model.Job, group *v1alpha1.PodGroup, before *v1alpha1.PodGroupStatus) string {
	switch {
	case group.Spec.SchedulerName != "":
		return group.Spec.SchedulerName
	case len(job.Tasks) > 0:
		return job.Tasks[0].Pod.Spec.SchedulerName
	}
	return sources.Writer(before)
}

// urgent reports whether a difference is written immediately and has the larger budget: the first status of a group, what a
// restart reads, and a phase that a start, or its end, comes to.
func urgent(current, wanted v1alpha1.PodGroupStatus) bool {
	return current.Phase == "" || scheduledStatus(current) != scheduledStatus(wanted) ||
		current.StartedMinMember != wanted.StartedMinMember ||
		(current.DegradedSince == nil) != (wanted.DegradedSince == nil) || current.EvictedAt == nil && wanted.EvictedAt != nil ||
		current.Reclaims < wanted.Reclaims || isEvicted(current) != isEvicted(wanted) ||
		current.FinishedAt != nil && wanted.FinishedAt == nil ||
		nodesChanged(current.Reservation, wanted.Reservation) || progress(wanted.Phase) > progress(current.Phase)
}

// progress orders the phases of a start.
func progress(phase v1alpha1.PodGroupPhase) int {
	switch phase {
	case v1alpha1.PodGroupStarting:
		return 1
	case v1alpha1.PodGroupRunning:
		return 2
	case v1alpha1.PodGroupSucceeded, v1alpha1.PodGroupFailed:
		return 3
	default:
		return 0
	}
}

// interval returns how long after the last write this difference is written, where phase and reason stay.
func interval(current, wanted v1alpha1.PodGroupStatus) time.Duration {
	// A message that names counts would be wrong for as long.
	if countsOf(current) != countsOf(wanted) || current.ObservedGeneration != wanted.ObservedGeneration {
		return countInterval
	}
	if equality.Semantic.DeepEqual(current.Conditions, wanted.Conditions) &&
		equality.Semantic.DeepEqual(current.Reservation, wanted.Reservation) && equality.Semantic.DeepEqual(current.Advice, wanted.Advice) {
		return countInterval
	}
	return messageInterval
}

func countsOf(status v1alpha1.PodGroupStatus) [5]int32 {
	return [...]int32{status.Members, status.Placed, status.Running, status.Succeeded, status.Failed}
}

// nodesChanged reports whether other nodes are reserved than before. The expected start may change often, and does not count.
func nodesChanged(before, after *v1alpha1.Reservation) bool {
	if before == nil || after == nil {
		return before != after
	}
	return !equality.Semantic.DeepEqual(before.Nodes, after.Nodes) || !before.Since.Equal(&after.Since)
}

// scheduledReason is the reason of the condition that says why the group is as it is, scheduledStatus the status of the
// condition Scheduled; empty when there is none.
func scheduledReason(status v1alpha1.PodGroupStatus) string {
	if condition := sources.Explanation(status.Conditions); condition != nil {
		return condition.Reason
	}
	return ""
}

func scheduledStatus(status v1alpha1.PodGroupStatus) metav1.ConditionStatus {
	if condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionScheduled); condition != nil {
		return condition.Status
	}
	return ""
}

// phaseAndReason is what a status says in two words.
func phaseAndReason(status v1alpha1.PodGroupStatus) string {
	return string(status.Phase) + " " + scheduledReason(status)
}

// prune drops what is about objects that this call of Report did not meet.
func (r *Reporter) prune() {
	r.writer.prune()
	before := func(_ types.UID, generation int) bool { return generation != r.writer.generation }
	maps.DeleteFunc(r.removed, before)
	maps.DeleteFunc(r.ended, before)
	maps.DeleteFunc(r.repeats, func(_ types.UID, next repeat) bool { return next.generation != r.writer.generation })
	maps.DeleteFunc(r.evictions, func(_ types.UID, last eviction) bool { return last.generation != r.writer.generation })
}
