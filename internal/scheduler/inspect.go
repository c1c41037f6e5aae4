package scheduler

import (
	"context"
	"time"

	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/report"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Inspect has the loop call read between two cycles. Any goroutine may call Inspect.
func (s *Scheduler) Inspect(read debugapi.Inspection) { s.mailbox.inspect(read) }

// Leading reports whether the loop decides. Any goroutine may call it.
func (s *Scheduler) Leading() bool { return s.leading.Load() }

// Cycles returns what the last cycles did. Any goroutine may call it; it does not wait for the loop.
func (s *Scheduler) Cycles() *debugapi.CycleList { return s.history.Document(s.Leading()) }

// serveInspections serves what Inspect has asked for; without a request it costs nothing.
func (s *Scheduler) serveInspections(ctx context.Context, inspections []debugapi.Inspection, now time.Time) {
	if len(inspections) == 0 {
		return
	}
	snapshot := s.state.Snapshot(now)
	waiting := func() (ordered []*model.Job) { // nil where a plugin panics over it
		var jobs []*model.Job
		for _, job := range snapshot.Jobs {
			if !s.waitsToStart(job).IsZero() {
				jobs = append(jobs, job)
			}
		}
		s.recoverPanic(ctx, partInspection, func() { ordered = engine.Order(snapshot, s.profile, &s.cache, jobs) })
		return ordered
	}
	counts := func() map[*model.Queue]debugapi.QueueCounts {
		all, asked := map[*model.Queue]debugapi.QueueCounts{}, map[*model.Queue]*model.Resources{}
		for _, job := range snapshot.Jobs {
			var requests model.Resources
			for _, task := range job.Pending() {
				requests.AddCapped(task.Request)
			}
			for queue := job.InQueue(); queue != nil; queue = queue.Above() {
				if asked[queue] == nil {
					asked[queue] = &model.Resources{}
				}
				asked[queue].AddCapped(requests)
			}
		}
		for queue, jobs := range report.CountJobs(snapshot.Jobs, s.refusals) {
			counts := debugapi.QueueCounts{RunningJobs: jobs.Running, WaitingJobs: jobs.Waiting, WaitingFor: jobs.WaitingFor()}
			if requests := asked[queue]; requests != nil {
				counts.Asked = snapshot.Dimensions.List(*requests)
			}
			all[queue] = counts
		}
		return all
	}
	trees := func() []engine.Tree { return engine.Trees(snapshot, s.profile, &s.cache) }
	for _, read := range inspections {
		s.recoverPanic(ctx, partInspection, func() {
			read(debugapi.Inspected{
				Snapshot: snapshot, Leading: s.Leading(), Paused: s.profile.Paused, SchedulerNames: s.state.SchedulerNames(),
				Waiting: waiting, Counts: counts, Trees: trees,
				Jobs: func(namespace string) ([]debugapi.Job, []model.JobKey) { return s.jobs(ctx, snapshot, namespace, now) },
			})
		})
	}
}
