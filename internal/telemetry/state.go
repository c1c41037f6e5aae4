package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/internal/metrics"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Survey is what a leader counted of the cluster at one moment. It is never changed.
type Survey struct {
	// Waiting are the jobs that wait, by reason code, OldestWaiting since when the one that has waited longest to start has.
	Waiting       map[model.Code]int
	OldestWaiting map[model.Code]time.Time
	// BlockedByBudgets counts the jobs that only disruption budgets keep from preempting.
	BlockedByBudgets int
	// PodGroups are counted by phase, Members by state.
	PodGroups, Members map[string]int
	// Nominated is by resource name, in cores, bytes or pieces.
	Nominated map[string]float64
	// Reserved is the same of capacity that is reserved, Reservations counts the jobs that it is reserved for.
	Reserved     map[string]float64
	Reservations int
	// Unscheduled and Stuck count pods.
	Unscheduled, Stuck int
	Nodes, Jobs, Pods  int
	Dimensions         int
	// Queues are the first by name, when there are very many.
	Queues []QueueSurvey
	// Levels are those that the configuration declares.
	Levels []LevelSurvey
}

// LevelSurvey is how many domains of a level are whole, and how many are broken.
type LevelSurvey struct {
	Name          string
	Whole, Broken int
}

// QueueSurvey is what a leader counted of one queue and of those below it.
type QueueSurvey struct {
	Name string
	// Used and the others are by resource name, in cores, bytes or pieces.
	Used, Demand, Share, Guarantee, Limit map[string]float64
	Running, Waiting                      int
	// OldestWaiting is since when the job that has waited longest to start has; zero when none waits.
	OldestWaiting time.Time
	// Unmet is the reason for which its guarantee is not met; empty when it is, and while guarantees are not enforced.
	Unmet string
}

// Loop is what a scrape asks of the scheduler's loop. Any goroutine may call its methods.
type Loop interface {
	// Survey has the loop deliver a survey between two steps; nil while it does not lead. Deliver must not block.
	Survey(deliver func(*Survey))
	// Steps returns when the loop began the step that is under way, zero when none is, and when the last one ended; zero before
	// the first.
	Steps() (began, ended time.Time)
	// MailboxLength returns how many events and replies the loop has not taken in.
	MailboxLength() int
}

// surveyTimeout is how long a scrape waits for a loop that is busy. After it, the last survey is served, and waits are counted to
// the present all the same.
const surveyTimeout = time.Second

// State serves what is counted when it is scraped: an unchanged cluster costs nothing between two scrapes, however many jobs
// wait. It is safe for concurrent use.
type State struct {
	loop  Loop
	clock clock.Clock

	mu sync.Mutex
	// asked is where the survey comes that the loop was asked for; nil when none is awaited. last is the last that came.
	asked chan *Survey
	last  *Survey
	// steps and survey are what is scraped, of each replica and of the leader.
	steps, survey metrics.Set
}

// NewState returns the collector of a loop's state, which the caller registers.
func NewState(loop Loop, clock clock.Clock) *State {
	return &State{loop: loop, clock: clock, steps: metrics.Make(metrics.Steps()), survey: metrics.Make(metrics.State())}
}

// Describe is for the registry.
func (s *State) Describe(out chan<- *prometheus.Desc) {
	s.steps.Describe(out)
	s.survey.Describe(out)
}

// Collect is called for each scrape. A loop that hangs costs it surveyTimeout.
func (s *State) Collect(out chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	began, ended := s.loop.Steps()
	running := 0.0
	if !began.IsZero() {
		running = now.Sub(began).Seconds()
	}
	s.steps.Show(metrics.StepRunning, running)
	s.steps.Reset(metrics.LastStep)
	if !ended.IsZero() {
		s.steps.Show(metrics.LastStep, float64(ended.UnixNano())/float64(time.Second))
	}
	s.steps.Show(metrics.MailboxLength, float64(s.loop.MailboxLength()))
	s.steps.Collect(out)
	s.ask()
	if s.last == nil {
		return
	}
	s.fill(now)
	s.survey.Collect(out)
}

// ask waits for a survey. One that comes too late is for the next scrape.
func (s *State) ask() {
	if s.asked == nil {
		asked := make(chan *Survey, 1)
		s.asked = asked
		s.loop.Survey(func(survey *Survey) { asked <- survey })
	}
	timer := s.clock.NewTimer(surveyTimeout)
	defer timer.Stop()
	select {
	case s.last = <-s.asked:
		s.asked = nil
	case <-timer.C():
	}
}

// fill sets the gauges to the last survey.
func (s *State) fill(now time.Time) {
	for name := range s.survey {
		s.survey.Reset(name)
	}
	for code, n := range s.last.Waiting {
		s.survey.Show(metrics.WaitingJobs, float64(n), string(code))
	}
	for code, since := range s.last.OldestWaiting {
		s.survey.Show(metrics.OldestWaiting, max(0, now.Sub(since)).Seconds(), string(code))
	}
	s.survey.Show(metrics.BlockedJobs, float64(s.last.BlockedByBudgets), "budget")
	for phase, n := range s.last.PodGroups {
		s.survey.Show(metrics.PodGroups, float64(n), phase)
	}
	for state, n := range s.last.Members {
		s.survey.Show(metrics.Members, float64(n), state)
	}
	for name, amount := range s.last.Nominated {
		s.survey.Show(metrics.Nominated, amount, name)
	}
	for name, amount := range s.last.Reserved {
		s.survey.Show(metrics.Reserved, amount, name)
	}
	s.survey.Show(metrics.Reservations, float64(s.last.Reservations))
	for kind, n := range map[string]int{"node": s.last.Nodes, "job": s.last.Jobs, "pod": s.last.Pods} {
		s.survey.Show(metrics.SnapshotObjects, float64(n), kind)
	}
	s.survey.Show(metrics.UnscheduledPods, float64(s.last.Unscheduled))
	s.survey.Show(metrics.StuckVictims, float64(s.last.Stuck))
	s.survey.Show(metrics.Dimensions, float64(s.last.Dimensions))
	for i := range s.last.Queues {
		s.fillQueue(&s.last.Queues[i], now)
	}
	for _, level := range s.last.Levels {
		s.survey.Show(metrics.Domains, float64(level.Whole), level.Name, "whole")
		s.survey.Show(metrics.Domains, float64(level.Broken), level.Name, "broken")
	}
}

func (s *State) fillQueue(queue *QueueSurvey, now time.Time) {
	for name, amounts := range map[metrics.Name]map[string]float64{
		metrics.QueueUsed: queue.Used, metrics.QueueDemand: queue.Demand, metrics.QueueShare: queue.Share,
		metrics.QueueGuarantee: queue.Guarantee, metrics.QueueLimit: queue.Limit,
	} {
		for resource, amount := range amounts {
			s.survey.Show(name, amount, queue.Name, resource)
		}
	}
	s.survey.Show(metrics.QueueJobs, float64(queue.Running), queue.Name, "running")
	s.survey.Show(metrics.QueueJobs, float64(queue.Waiting), queue.Name, "waiting")
	if since := queue.OldestWaiting; !since.IsZero() {
		s.survey.Show(metrics.QueueOldestWait, max(0, now.Sub(since)).Seconds(), queue.Name)
	}
	if queue.Unmet != "" {
		s.survey.Show(metrics.QueueUnmet, 1, queue.Name, queue.Unmet)
	}
}
