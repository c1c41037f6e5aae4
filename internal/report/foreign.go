package report

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is when the status of groups of other projects is written, as their schedulers write it; internal/sources says
// what.
// One of Volcano is Inqueue as soon as it is seen, since its operator makes no pods before, then Running, then Completed, and
// never goes back. One of Kubernetes has a condition that says whether it was placed. Others may write the same fields.

const (
	// mostForeign is how many statuses are written in any second; a namespace has 500 of those of ten seconds, as of the other
	// statuses. An operator that makes hundreds of jobs waits for them.
	mostForeign = 100
	// foreignMessageInterval is how long after the last write about a group its message is written again, and
	// foreignCountInterval its numbers of members: in an hour most of them change many times, and no operator waits for them. A
	// phase, or another reason, is written immediately. A group that is queued, waits for members and then for capacity, starts, and
	// ends, is written at most six times, the numbers once.
	foreignMessageInterval = 30 * time.Second
	foreignCountInterval   = time.Minute
	// maxReverted is how often what was written about a group may be replaced by another writer before it is written no more.
	maxReverted = 2
)

// The reasons of events about the status of a group of another project.
const (
	// ReasonStatusRefused: the API server does not take it.
	ReasonStatusRefused = "StatusRefused"
	// ReasonStatusContested: another program writes it, too.
	ReasonStatusContested = "StatusContested"
)

// ForeignSource knows what the jobs do not say.
type ForeignSource struct {
	// News returns the groups whose objects have changed since its last call, or that have lost their last member.
	News func() []model.JobKey
	// Spec returns what the object of a group says, never changed; nil when there is none.
	Spec func(model.JobKey) *sources.Spec
	// OfOthers reports whether a group without members of ours has some of other schedulers.
	OfOthers func(model.JobKey) bool
}

// ForeignReporter turns the state of groups of other projects into writes: the differences from what the API server has. A group
// has one write at a time: the next one follows when the watch has shown the last.
//
// Invariant: for an unchanged cluster it writes nothing. What it writes depends on members and specs; the status that an object
// has decides only what is left out, and from which phase it goes on.
type ForeignReporter struct {
	source ForeignSource
	sent   map[model.JobKey]sentForeign
	// open are the groups of which something is to be written, or to be seen.
	open   map[model.JobKey]bool
	writer *writer
	events []commit.Write
}

// sentForeign is what is kept of a group that was written, as long as its object exists.
type sentForeign struct {
	// uid is that of the object that was written.
	uid types.UID
	// said is what was written last, or what another writer has put in its place.
	said sources.Shown
	// written is what the group was to show with the last write, before what it showed until then. version is that of the object by
	// then, or the one that shows what the API server has kept. What was written of a version is not written again, unless it was
	// refused.
	written, before sources.Shown
	version         string
	// awaited reports that the watch has not shown it. reverted is how often another writer has replaced it.
	awaited  bool
	reverted int
	// refusedSince is the first refusal since the group showed what it is to show, or a write was taken; zero when there is none.
	// hasEvent reports that an event says so.
	refusedSince time.Time
	hasEvent     bool
}

// NewForeignReporter returns a reporter that has written nothing yet.
func NewForeignReporter(source ForeignSource) *ForeignReporter {
	r := &ForeignReporter{
		source: source, sent: map[model.JobKey]sentForeign{}, open: map[model.JobKey]bool{},
		writer: newWriter(backoff.Policy{Min: time.Second, Max: 10 * time.Minute}),
	}
	r.writer.most = newWindow(mostForeign)
	return r
}

// Report returns what is to be written, and when to call it again at the latest; zero when nothing is delayed. refusals says why
// each waiting job waits. guard looks at one group, and answers a panic over it.
func (r *ForeignReporter) Report(
	snapshot *model.Snapshot, refusals map[model.JobKey]*model.Refusal, now time.Time, guard func(key model.JobKey, look func()),
) (writes []commit.Write, wake time.Time) {
	r.events = nil
	r.writer.begin()
	for _, key := range r.source.News() {
		r.open[key] = true
	}
	for _, job := range snapshot.Jobs {
		if sources.WritesStatus(job.Key.Source) {
			guard(job.Key, func() { r.look(job.Key, job, refusals[job.Key], now) })
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(r.open), model.JobKey.Compare) {
		if snapshot.Job(key) == nil {
			guard(key, func() { r.look(key, nil, nil, now) })
		}
	}
	writes = r.writer.writes(now)
	return append(r.events, writes...), r.writer.wake
}

// Failed records that the API server refused a write. It is tried again later. It returns the event that says so, once it
// was refused for as long as a watch may take: it may have taken effect before, with its answer lost, or another writer was
// faster. first reports that no event says so of another group of the kind, for which it still holds.
func (r *ForeignReporter) Failed(outcome *commit.Outcome, now time.Time) (events []commit.Write, first bool) {
	write, is := outcome.Write.(*commit.ForeignStatus)
	if !is {
		return nil, false
	}
	spec, sent := r.source.Spec(write.Group), r.sent[write.Group]
	if spec == nil || spec.UID != write.UID {
		return nil, false
	}
	if sent.refusedSince.IsZero() {
		sent.refusedSince = now
	}
	if !sent.hasEvent && !outcome.PodGone && now.Sub(sent.refusedSince) >= echoTimeout {
		sent.hasEvent = true
		events = append(events, foreignEvent(spec, ReasonStatusRefused, now,
			"The API server refuses the status of this group, for which its operator may wait: "+outcome.Message))
		first = true
		for other, known := range r.sent {
			if known.hasEvent && other.Source == spec.Source {
				first = false
				break
			}
		}
	}
	sent.uid, sent.awaited, sent.said, sent.version = spec.UID, false, said(spec.Shown), ""
	r.sent[write.Group], r.open[write.Group] = sent, true
	r.writer.fail(spec.UID, now)
	return events, first
}

// look works out what is to be written about a group, if it is one for us. job is nil when it has no members.
func (r *ForeignReporter) look(key model.JobKey, job *model.Job, refusal *model.Refusal, now time.Time) {
	spec := r.source.Spec(key)
	sent := r.sent[key]
	if spec == nil || sent.uid != spec.UID {
		delete(r.sent, key)
		r.writer.forget(sent.uid)
		sent = sentForeign{}
	}
	if delete(r.open, key); spec == nil || job == nil && r.source.OfOthers(key) {
		return
	}
	wanted := spec.Wanted(job, refusal)
	if sent.uid != "" {
		if !r.follow(&sent, spec, wanted, now) {
			return
		}
		r.sent[key] = sent
	}
	switch {
	case wanted == spec.Shown:
		if r.writer.sent[spec.UID].refused {
			r.taken(&sent, spec.UID)
			r.sent[key] = sent
		}
		return
	case content(wanted) == sent.written && spec.ResourceVersion == sent.version:
		return // the API server has dropped it
	}
	interval := foreignMessageInterval
	if said(wanted) == said(spec.Shown) {
		interval = foreignCountInterval
	}
	newPhase := wanted.Phase != spec.Shown.Phase
	r.open[key] = true
	r.writer.offer(offer{
		object: spec.UID, from: account{key.Namespace, ofForeign}, before: phaseOf(spec.Shown), after: phaseOf(wanted), every: interval,
		rank: map[bool]int{false: 1}[newPhase], key: key, write: func() []commit.Write {
			sent.uid, sent.said, sent.written, sent.before = spec.UID, said(wanted), content(wanted), content(spec.Shown)
			sent.version, sent.awaited = spec.ResourceVersion, true
			r.sent[key] = sent
			r.writer.requeue(now.Add(echoTimeout))
			return []commit.Write{foreignPatch(spec, wanted, now)}
		},
	}, now)
}

// follow compares what was written about a group with what it shows now. It returns false while nothing more is to be written:
// the watch has not shown the last write, or another writer contests it.
func (r *ForeignReporter) follow(sent *sentForeign, spec *sources.Spec, wanted sources.Shown, now time.Time) bool {
	key, shown, at := spec.Key(), said(spec.Shown), r.writer.sent[spec.UID].at
	switch {
	case sent.reverted >= maxReverted:
		return false
	case shown == sent.said:
		if sent.awaited {
			sent.version = spec.ResourceVersion
			r.taken(sent, spec.UID)
		}
		return true
	case sent.awaited && now.Sub(at) < echoTimeout:
		r.open[key] = true
		r.writer.requeue(at.Add(echoTimeout))
		return false
	case sent.awaited && spec.ResourceVersion == sent.version: // the watch shows nothing
		sent.said = shown
		r.taken(sent, spec.UID)
		return true
	case sent.awaited && keptInPart(content(spec.Shown), sent.before, sent.written):
		sent.said, sent.version = shown, spec.ResourceVersion
		r.taken(sent, spec.UID)
		return true
	}
	if sent.awaited, sent.said = false, shown; shown == said(wanted) {
		r.taken(sent, spec.UID)
		return true
	}
	if sent.reverted++; sent.reverted >= maxReverted {
		r.sent[key] = *sent
		r.events = append(r.events, foreignEvent(spec, ReasonStatusContested, now,
			"Another program writes the status of this group, too: it is written no more. Give the group one scheduler"))
		return false
	}
	return true
}

// keptInPart reports whether the API server has kept part of what was written, as it does where a CRD lacks the other fields:
// each is as it was written, or as it was before.
func keptInPart(shown, before, written sources.Shown) bool {
	return shown != before &&
		either(shown.Phase, before.Phase, written.Phase) &&
		either(shown.Type, before.Type, written.Type) && either(shown.Status, before.Status, written.Status) &&
		either(shown.Reason, before.Reason, written.Reason) && either(shown.Message, before.Message, written.Message) &&
		either(shown.Running, before.Running, written.Running) && either(shown.Succeeded, before.Succeeded, written.Succeeded) &&
		either(shown.Failed, before.Failed, written.Failed)
}

func either[T comparable](value, one, other T) bool { return value == one || value == other }

// taken records that the API server has taken the last write, or that a group shows what is to be written.
func (r *ForeignReporter) taken(sent *sentForeign, group types.UID) {
	sent.awaited, sent.hasEvent, sent.refusedSince = false, false, time.Time{}
	r.writer.taken(group)
}

// content is a status without where it says so.
func content(shown sources.Shown) sources.Shown {
	shown.HasStatus, shown.HasConditions, shown.At = false, false, 0
	return shown
}

// said is the part of a status that says more than numbers.
func said(shown sources.Shown) sources.Shown {
	shown = content(shown)
	shown.Running, shown.Succeeded, shown.Failed = 0, 0, 0
	return shown
}

// phaseOf is what a status says in few words.
func phaseOf(shown sources.Shown) string { return shown.Phase + " " + shown.Type + " " + shown.Reason }

// foreignPatch is the write that makes a status show what is wanted.
func foreignPatch(spec *sources.Spec, wanted sources.Shown, now time.Time) *commit.ForeignStatus {
	shown := spec.Shown
	watch := sources.WatchOf(spec.Source) // it is one with a status of ours
	status := &commit.ForeignStatus{
		Resource: watch.Resource, Group: spec.Key(), UID: spec.UID, Subresource: watch.Subresource,
		HasStatus: shown.HasStatus, HasConditions: shown.HasConditions,
	}
	counts := commit.ForeignCounts{Running: wanted.Running, Succeeded: wanted.Succeeded, Failed: wanted.Failed}
	if before := (commit.ForeignCounts{Running: shown.Running, Succeeded: shown.Succeeded, Failed: shown.Failed}); counts != before {
		status.Counts = &counts
	}
	if wanted.Phase != shown.Phase {
		status.Phase = wanted.Phase
	}
	if wanted.Type != shown.Type || wanted.Status != shown.Status || wanted.Reason != shown.Reason || wanted.Message != shown.Message {
		status.Condition = &commit.ForeignCondition{
			Replaces: shown.Type, Was: shown.Status, At: shown.At,
			Type: wanted.Type, Status: corev1.ConditionStatus(wanted.Status), Reason: wanted.Reason, Message: wanted.Message,
		}
		if wanted.Type != shown.Type || wanted.Status != shown.Status {
			if status.Condition.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy(); watch.HasTransitionIDs {
				status.Condition.TransitionID = transitionID(spec.UID, now)
			}
		}
	}
	return status
}

// transitionID is a UID that no other transition has.
func transitionID(group types.UID, now time.Time) types.UID {
	sum := sha256.Sum256([]byte(string(group) + now.Format(time.RFC3339Nano)))
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]))
}

func foreignEvent(spec *sources.Spec, reason string, now time.Time, note string) commit.Write {
	return &commit.Event{
		Regarding: referenceTo(&model.Job{Key: spec.Key(), UID: spec.UID}),
		Type:      corev1.EventTypeWarning, Reason: reason, Action: "Reporting", Note: note, At: now,
	}
}
