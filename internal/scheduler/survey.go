package scheduler

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/metrics"
	"github.com/tutti-sched/tutti/internal/report"
	"github.com/tutti-sched/tutti/internal/telemetry"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file counts, for a scrape, what waits and what runs. It is done between two steps and only when it is asked for: a cycle
// in an unchanged cluster walks no job.

// Survey has the loop count the jobs, pods and nodes between two steps; nil is delivered while it does not lead. Any goroutine
// may call it; deliver is called on the loop's and must not block.
func (s *Scheduler) Survey(deliver func(*telemetry.Survey)) {
	s.mailbox.inspect(func(shown debugapi.Inspected) {
		if !s.Leading() {
			deliver(nil)
			return
		}
		deliver(s.survey(shown.Snapshot))
	})
}

func (s *Scheduler) survey(snapshot *model.Snapshot) *telemetry.Survey {
	seen := telemetry.NewSurvey()
	seen.Add(float64(len(snapshot.Nodes)), metrics.SnapshotObjects, "node")
	seen.Add(float64(len(snapshot.Jobs)), metrics.SnapshotObjects, "job")
	seen.Add(float64(snapshot.Dimensions.Len()), metrics.Dimensions)
	pods, stuck := 0, 0
	for _, node := range snapshot.Nodes {
		pods += len(node.Tasks)
		for _, task := range node.Tasks {
			if task.TerminationOverdue {
				stuck++
			}
		}
	}
	seen.Add(float64(pods), metrics.SnapshotObjects, "pod")
	seen.Add(float64(stuck), metrics.StuckVictims)
	s.surveyJobs(snapshot, seen)
	s.surveyQueues(snapshot, seen)
	s.surveyLevels(snapshot, seen)
	for _, held := range snapshot.Held() {
		name := metrics.Nominated
		if held.Reserved() {
			name = metrics.Reserved
		}
		for resource, amount := range snapshot.Dimensions.List(held.Request) {
			seen.Add(amount.AsApproximateFloat64(), name, string(resource))
		}
	}
	return seen
}

// surveyJobs counts jobs and their pods.
func (s *Scheduler) surveyJobs(snapshot *model.Snapshot, seen *telemetry.Survey) {
	for _, phase := range phases { // one without groups is seen to have none
		seen.Add(0, metrics.PodGroups, string(phase))
	}
	seen.Add(0, metrics.Reservations)
	seen.Add(0, metrics.BlockedJobs, "budget")
	unplaced, unscheduled, members := 0, 0, map[string]int{} // of pods, of which there are many
	for _, job := range snapshot.Jobs {
		for _, task := range job.Tasks {
			if !task.Status.HasNode() {
				unplaced++
			}
			if task.Status == model.Pending && !task.SchedulingGated {
				unscheduled++
			}
			if !job.Key.IsPod() {
				members[memberState(task)]++
			}
		}
		if group := s.state.Group(job.Key); group != nil && group.Status.Phase != "" {
			seen.Add(1, metrics.PodGroups, string(group.Status.Phase))
		}
		if job.Reservation != nil {
			seen.Add(1, metrics.Reservations)
		}
		refusal := s.refusals[job.Key]
		if refusal == nil || len(job.Tasks) == 0 {
			continue
		}
		seen.Add(1, metrics.WaitingJobs, string(refusal.Code))
		if refusal.BlockedByBudgets {
			seen.Add(1, metrics.BlockedJobs, "budget")
		}
		if since := s.waitsToStart(job); !since.IsZero() {
			seen.Since(since, metrics.OldestWaiting, string(refusal.Code))
		}
	}
	for state, n := range members {
		seen.Add(float64(n), metrics.Members, state)
	}
	seen.Add(float64(unplaced), metrics.SnapshotObjects, "pod")
	seen.Add(float64(unscheduled), metrics.UnscheduledPods)
}

// surveyLevels counts the domains. Which nodes of them are in use follows the changes since the last scrape.
func (s *Scheduler) surveyLevels(snapshot *model.Snapshot, seen *telemetry.Survey) {
	for _, tree := range engine.Trees(snapshot, s.profile, &s.cache) {
		for _, level := range tree.Levels {
			whole := 0
			used := level.UsedNodes(snapshot)
			for _, nodes := range used {
				if nodes == 0 {
					whole++
				}
			}
			seen.Add(float64(whole), metrics.Domains, level.Level, "whole")
			seen.Add(float64(len(used)-whole), metrics.Domains, level.Level, "broken")
		}
	}
}

// mostQueues is of how many queues there are series; of more there are those of the queues without a parent alone, up to so many.
const mostQueues = 2_000

func (s *Scheduler) surveyQueues(snapshot *model.Snapshot, seen *telemetry.Survey) {
	if len(snapshot.Queues) == 0 {
		return
	}
	shown := map[*model.Queue]bool{}
	for _, queue := range snapshot.Queues {
		if len(shown) < mostQueues && (len(snapshot.Queues) <= mostQueues || queue.Above() == nil) {
			shown[queue] = true
		}
	}
	for _, job := range snapshot.Jobs {
		since := s.waitsToStart(job)
		for queue := job.InQueue(); queue != nil && !since.IsZero(); queue = queue.Above() {
			if shown[queue] {
				seen.Since(since, metrics.QueueOldestWait, queue.Name)
			}
		}
	}
	jobs, dimensions := report.CountJobs(snapshot.Jobs, s.refusals), snapshot.Dimensions
	enforced := s.profile.Unenforced() == ""
	for queue := range shown {
		for name, list := range map[metrics.Name]corev1.ResourceList{
			metrics.QueueUsed: dimensions.List(queue.Used), metrics.QueueDemand: dimensions.ListOf(queue.Demand()),
			metrics.QueueShare: dimensions.ListOf(queue.ContendedShares()), metrics.QueueGuarantee: dimensions.ListOf(queue.Guarantee),
			metrics.QueueLimit: dimensions.ListOf(queue.Limit),
		} {
			for resource, amount := range list {
				seen.Add(amount.AsApproximateFloat64(), name, queue.Name, string(resource))
			}
		}
		seen.Add(float64(jobs[queue].Running), metrics.QueueJobs, queue.Name, "running")
		seen.Add(float64(jobs[queue].Waiting), metrics.QueueJobs, queue.Name, "waiting")
		if enforced && queue.Unmet != nil && queue.Invalid == nil {
			seen.Add(1, metrics.QueueUnmet, queue.Name, queue.Unmet.Reason)
		}
	}
}

// waitsToStart returns since when a job has waited to start: since it has had all members that it needs, else since its oldest
// pod without a node was created; zero for one that does not.
func (s *Scheduler) waitsToStart(job *model.Job) (since time.Time) {
	if s.refusals[job.Key] == nil || len(job.Tasks) == 0 || job.FirstUnmetMinimum((*model.Task).IsBound) == nil {
		return time.Time{}
	}
	if since = job.WaitingSince; !since.IsZero() {
		return since
	}
	for _, task := range job.Tasks { // in the order in which they were created
		if task.Status == model.Pending && !task.SchedulingGated {
			return task.Created
		}
	}
	return time.Time{}
}

// phases are those of PodGroups.
var phases = [...]v1alpha1.PodGroupPhase{
	v1alpha1.PodGroupPending, v1alpha1.PodGroupStarting, v1alpha1.PodGroupRunning, v1alpha1.PodGroupDegraded,
	v1alpha1.PodGroupSucceeded, v1alpha1.PodGroupFailed,
}

// memberState is the state of a task as metrics name it.
func memberState(task *model.Task) string {
	switch {
	case task.Status == model.Pending && task.SchedulingGated:
		return "gated"
	case task.Status == model.Pending && task.Nominated != "":
		return "nominated"
	case task.Status == model.Releasing:
		return "terminating"
	}
	return strings.ToLower(task.Status.String())
}
