package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file acts on what became of promises and evictions, and tells those concerned.

// The reasons of the events, kube-scheduler's own: on a victim, and on whom it made room for.
const (
	reasonPreempted  = "Preempted"
	reasonPreempting = "Preempting"
)

// onEvictionOutcome acts on an outcome of a promise or an eviction. What was assumed of one that failed is forgotten, so that the next
// cycle plans anew.
func (s *Scheduler) onEvictionOutcome(ctx context.Context, outcome commit.Outcome, now time.Time) {
	log := klog.FromContext(ctx)
	job := s.state.Job(outcome.Job)
	switch outcome.Kind {
	case commit.Evicted:
		switch {
		case outcome.PodGone:
		case outcome.Why != "":
			s.machine.Write(now, conflictEnded(outcome, now))
		default:
			s.machine.Write(now, preempted(outcome, job, now))
		}
	case commit.EvictFailed:
		s.state.ForgetEviction(outcome.Pod.UID)
		if outcome.Refused {
			log.Info("Eviction refused", "pod", outcome.Pod, "for", outcome.Job, "reason", outcome.Message)
			s.spared.add(outcome, now)
		}
		s.wake(now)
	case commit.VictimsGone:
		if outcome.Job == (model.JobKey{}) {
			s.emitConflictEvents(outcome.Victims, now)
			return
		}
		log.Info("Evictions carried out", "for", outcome.Job, "evicted", len(outcome.Victims), "stayed", outcome.Failed)
		if len(outcome.Victims) > 0 {
			s.emitPreemptionEvents(outcome, job, now)
		}
	case commit.NominationFailed:
		if !outcome.Superseded {
			s.state.ForgetPromise(outcome.Pod.UID)
		}
		if outcome.Refused && job != nil {
			log.Info("Nomination refused", "pod", outcome.Pod, "node", outcome.Node, "reason", outcome.Message)
			s.backoff.failed(outcome.Job, job.UID, promiseFailed(outcome), now)
		}
		s.wake(now)
	case commit.NominationReleased:
		if outcome.Message != "" && !outcome.PodGone && !outcome.Superseded {
			log.Info("Nomination not cleared", "pod", outcome.Pod, "reason", outcome.Message)
		}
	}
}

// takesBack tells of a promise that it ends an earlier one.
func takesBack(promise model.Nomination) bool { return promise.Node == "" }

func promiseFailed(outcome commit.Outcome) *model.Refusal {
	return &model.Refusal{
		Code:   model.BindFailed,
		Detail: "pod " + outcome.Pod.Name + " could not be nominated for " + outcome.Node + ": " + outcome.Message,
	}
}

// preempted tells a victim's users for whom it goes. job is nil when that one is gone meanwhile.
func preempted(outcome commit.Outcome, job *model.Job, now time.Time) commit.Write {
	write := podEvent(outcome.Pod, corev1.EventTypeNormal, reasonPreempted, "", now)
	write.Event.Action = reasonPreempting
	write.Event.Note, write.Event.Related = onBehalfOf("Evicted from node "+outcome.Node, outcome.Job, job)
	return write
}

// onBehalfOf adds to what was done for whom it was.
func onBehalfOf(done string, key model.JobKey, job *model.Job) (note string, related *corev1.ObjectReference) {
	note = done + " to make room for " + key.Describe()
	if job == nil {
		return note, nil
	}
	reference := referenceTo(job)
	return fmt.Sprintf("%s, whose priority is %d", note, job.Priority), &reference
}

// emitPreemptionEvents tells the users of a job whom its plan has cost, and those of each group that lost members how many, in one event
// each. job is nil when it is gone meanwhile.
func (s *Scheduler) emitPreemptionEvents(outcome commit.Outcome, job *model.Job, now time.Time) {
	if job != nil {
		s.machine.Write(now, preempting(outcome, job, now))
	}
	lost := map[model.JobKey]int{}
	for _, victim := range outcome.Victims {
		lost[victim.Job]++
	}
	for _, key := range slices.SortedFunc(maps.Keys(lost), model.JobKey.Compare) {
		if loser := s.state.Job(key); loser != nil && loser.IsSchedulableGroup() {
			event := jobEvent(loser, reasonPreempted, now)
			event.Note, event.Related = onBehalfOf("Evicted "+countNoun(lost[key], "member"), outcome.Job, job)
			s.machine.Write(now, commit.Write{Event: event})
		}
	}
}

// preempting tells a job's users whom it has cost.
func preempting(outcome commit.Outcome, job *model.Job, now time.Time) commit.Write {
	nodes := map[string]bool{}
	for _, victim := range outcome.Victims {
		nodes[victim.Node] = true
	}
	event := jobEvent(job, reasonPreempting, now)
	event.Note = fmt.Sprintf("Evicted %s on %s to make room for %s: %s", countNoun(len(outcome.Victims), "pod"),
		countNoun(len(nodes), "node"), countNoun(outcome.Members, "member"), listPods(outcome.Victims))
	if outcome.Failed > 0 {
		event.Note += fmt.Sprintf("; %s stayed", countNoun(outcome.Failed, "pod"))
	}
	return commit.Write{Event: event}
}

func jobEvent(job *model.Job, reason string, now time.Time) *commit.Event {
	return &commit.Event{
		Regarding: referenceTo(job), Type: corev1.EventTypeNormal, Reason: reason, Action: reasonPreempting, At: now,
	}
}

// listPods names up to three victims.
func listPods(victims []model.Eviction) string {
	const most = 3
	var names []string
	for _, victim := range victims {
		names = append(names, victim.Pod.String())
	}
	slices.Sort(names)
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func countNoun(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// referenceTo names the object that a job is to its users: its PodGroup, or its only pod; of an implicit group the controller, or
// its oldest pod when it has none.
func referenceTo(job *model.Job) corev1.ObjectReference {
	reference := corev1.ObjectReference{
		APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "PodGroup",
		Namespace: job.Key.Namespace, Name: job.Key.Name, UID: job.UID,
	}
	if job.Key.IsPod {
		reference.APIVersion, reference.Kind = "v1", "Pod"
	}
	if job.Key.WithoutPodGroup && len(job.Tasks) > 0 {
		oldest := job.Tasks[0].Pod
		reference.APIVersion, reference.Kind, reference.Name, reference.UID = "v1", "Pod", oldest.Name, oldest.UID
		if controller := metav1.GetControllerOf(oldest); controller != nil {
			reference.APIVersion, reference.Kind = controller.APIVersion, controller.Kind
			reference.Name, reference.UID = controller.Name, controller.UID
		}
	}
	return reference
}
