package scheduler

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/debugapi"
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
	seen := &telemetry.Survey{
		Waiting: map[model.Code]int{}, OldestWaiting: map[model.Code]time.Time{}, PodGroups: phases(), Members: map[string]int{},
		Nominated: map[string]float64{}, Reserved: map[string]float64{},
		Nodes: len(snapshot.Nodes), Jobs: len(snapshot.Jobs), Dimensions: snapshot.Dimensions.Len(),
	}
	for _, node := range snapshot.Nodes {
		seen.Pods += len(node.Tasks)
		for _, task := range node.Tasks {
			if task.TerminationOverdue {
				seen.Stuck++
			}
		}
	}
	for _, job := range snapshot.Jobs {
		s.surveyJob(job, seen)
	}
	seen.Queues, seen.Levels = s.surveyQueues(snapshot), s.surveyLevels(snapshot)
	for _, held := range snapshot.Held() {
		sums := seen.Nominated
		if held.Reserved() {
			sums = seen.Reserved
		}
		for name, amount := range approximate(snapshot.Dimensions.List(held.Request)) {
			sums[name] += amount
		}
	}
	return seen
}

// surveyLevels counts the domains. Which nodes of them are in use follows the changes since the last scrape.
func (s *Scheduler) surveyLevels(snapshot *model.Snapshot) (seen []telemetry.LevelSurvey) {
	for _, tree := range engine.Trees(snapshot, s.profile, &s.cache) {
		for _, level := range tree.Levels {
			one := telemetry.LevelSurvey{Name: level.Level}
			for _, used := range level.UsedNodes(snapshot) {
				if used == 0 {
					one.Whole++
				} else {
					one.Broken++
				}
			}
			seen = append(seen, one)
		}
	}
	return seen
}

// mostQueues is of how many queues there are series; of more there are those of the queues without a parent alone, up to so many.
const mostQueues = 2_000

func (s *Scheduler) surveyQueues(snapshot *model.Snapshot) (seen []telemetry.QueueSurvey) {
	if len(snapshot.Queues) == 0 {
		return nil
	}
	oldest := map[*model.Queue]time.Time{}
	for _, job := range snapshot.Jobs {
		since := s.waitsToStart(job)
		for queue := job.InQueue(); queue != nil && !since.IsZero(); queue = queue.Above() {
			if first, known := oldest[queue]; !known || since.Before(first) {
				oldest[queue] = since
			}
		}
	}
	jobs, dimensions := report.CountJobs(snapshot.Jobs, s.refusals), snapshot.Dimensions
	enforced := s.profile.Unenforced() == ""
	for _, queue := range snapshot.Queues {
		if len(seen) == mostQueues || len(snapshot.Queues) > mostQueues && queue.Above() != nil {
			continue
		}
		seen = append(seen, telemetry.QueueSurvey{
			Name: queue.Name, Used: approximate(dimensions.List(queue.Used)), Demand: approximate(dimensions.ListOf(queue.Demand())),
			Share: approximate(dimensions.ListOf(queue.ContendedShares())), Guarantee: approximate(dimensions.ListOf(queue.Guarantee)),
			Limit: approximate(dimensions.ListOf(queue.Limit)), Running: int(jobs[queue].Running), Waiting: int(jobs[queue].Waiting),
			OldestWaiting: oldest[queue],
		})
		if enforced && queue.Unmet != nil && queue.Invalid == nil {
			seen[len(seen)-1].Unmet = queue.Unmet.Reason
		}
	}
	return seen
}

// approximate returns the amounts by name, in cores, bytes or pieces.
func approximate(list corev1.ResourceList) map[string]float64 {
	amounts := make(map[string]float64, len(list))
	for name, amount := range list {
		amounts[string(name)] = amount.AsApproximateFloat64()
	}
	return amounts
}

func (s *Scheduler) surveyJob(job *model.Job, seen *telemetry.Survey) {
	for _, task := range job.Tasks {
		if !task.Status.HasNode() {
			seen.Pods++
		}
		if task.Status == model.Pending && !task.SchedulingGated {
			seen.Unscheduled++
		}
		if !job.Key.IsPod() {
			seen.Members[memberState(task)]++
		}
	}
	if group := s.state.Group(job.Key); group != nil && group.Status.Phase != "" {
		seen.PodGroups[string(group.Status.Phase)]++
	}
	if job.Reservation != nil {
		seen.Reservations++
	}
	refusal := s.refusals[job.Key]
	if refusal == nil || len(job.Tasks) == 0 {
		return
	}
	seen.Waiting[refusal.Code]++
	if refusal.BlockedByBudgets {
		seen.BlockedByBudgets++
	}
	since := s.waitsToStart(job)
	if since.IsZero() {
		return
	}
	if first, known := seen.OldestWaiting[refusal.Code]; !known || since.Before(first) {
		seen.OldestWaiting[refusal.Code] = since
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

// phases are all phases at zero, so that a phase without groups is seen to have none.
func phases() map[string]int {
	counts := map[string]int{}
	for _, phase := range []v1alpha1.PodGroupPhase{
		v1alpha1.PodGroupPending, v1alpha1.PodGroupStarting, v1alpha1.PodGroupRunning, v1alpha1.PodGroupDegraded,
		v1alpha1.PodGroupSucceeded, v1alpha1.PodGroupFailed,
	} {
		counts[string(phase)] = 0
	}
	return counts
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
