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

	running, lastStep, mailbox                   *prometheus.GaugeVec
	waiting, oldest, blocked, podGroups, members *prometheus.GaugeVec
	unscheduled, nominated, stuck, objects, dims *prometheus.GaugeVec
	reservations, reserved                       *prometheus.GaugeVec
	queueUsed, queueShare, queueJobs             *prometheus.GaugeVec
	queueGuarantee, queueLimit                   *prometheus.GaugeVec
	queueDemand, queueOldest, queueUnmet         *prometheus.GaugeVec
	domains                                      *prometheus.GaugeVec
}

// NewState returns the collector of a loop's state, which the caller registers.
func NewState(loop Loop, clock clock.Clock) *State {
	return &State{
		loop: loop, clock: clock,
		running: metrics.NewGauge(metrics.StepRunning), lastStep: metrics.NewGauge(metrics.LastStep),
		mailbox: metrics.NewGauge(metrics.MailboxLength), waiting: metrics.NewGauge(metrics.WaitingJobs),
		oldest: metrics.NewGauge(metrics.OldestWaiting), blocked: metrics.NewGauge(metrics.BlockedJobs), podGroups: metrics.NewGauge(metrics.PodGroups),
		members: metrics.NewGauge(metrics.Members), unscheduled: metrics.NewGauge(metrics.UnscheduledPods),
		nominated: metrics.NewGauge(metrics.Nominated), stuck: metrics.NewGauge(metrics.StuckVictims),
		objects: metrics.NewGauge(metrics.SnapshotObjects), dims: metrics.NewGauge(metrics.Dimensions),
		reservations: metrics.NewGauge(metrics.Reservations), reserved: metrics.NewGauge(metrics.Reserved),
		queueUsed:  metrics.NewGauge(metrics.QueueUsed),
		queueShare: metrics.NewGauge(metrics.QueueShare), queueJobs: metrics.NewGauge(metrics.QueueJobs),
		queueGuarantee: metrics.NewGauge(metrics.QueueGuarantee), queueLimit: metrics.NewGauge(metrics.QueueLimit),
		queueDemand: metrics.NewGauge(metrics.QueueDemand), queueOldest: metrics.NewGauge(metrics.QueueOldestWait),
		queueUnmet: metrics.NewGauge(metrics.QueueUnmet), domains: metrics.NewGauge(metrics.Domains),
	}
}

// ofLoop are the gauges that every replica has.
func (s *State) ofLoop() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{s.running, s.lastStep, s.mailbox}
}

// ofSurvey are the gauges that only the leader has: those of two replicas would add up.
func (s *State) ofSurvey() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{
		s.waiting, s.oldest, s.blocked, s.podGroups, s.members, s.unscheduled, s.nominated, s.stuck, s.objects, s.dims,
		s.reservations, s.reserved, s.queueUsed, s.queueShare, s.queueGuarantee, s.queueLimit, s.queueJobs,
		s.queueDemand, s.queueOldest, s.queueUnmet, s.domains,
	}
}

// Describe is for the registry.
func (s *State) Describe(out chan<- *prometheus.Desc) {
	for _, gauge := range append(s.ofLoop(), s.ofSurvey()...) {
		gauge.Describe(out)
	}
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
	s.running.WithLabelValues().Set(running)
	if !ended.IsZero() {
		s.lastStep.WithLabelValues().Set(float64(ended.UnixNano()) / float64(time.Second))
	}
	s.mailbox.WithLabelValues().Set(float64(s.loop.MailboxLength()))
	for _, gauge := range s.ofLoop() {
		gauge.Collect(out)
	}
	s.ask()
	if s.last == nil {
		return
	}
	s.fill(now)
	for _, gauge := range s.ofSurvey() {
		gauge.Collect(out)
	}
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
	for _, gauge := range s.ofSurvey() {
		gauge.Reset()
	}
	for code, n := range s.last.Waiting {
		s.waiting.WithLabelValues(string(code)).Set(float64(n))
	}
	for code, since := range s.last.OldestWaiting {
		s.oldest.WithLabelValues(string(code)).Set(max(0, now.Sub(since)).Seconds())
	}
	s.blocked.WithLabelValues("budget").Set(float64(s.last.BlockedByBudgets))
	for phase, n := range s.last.PodGroups {
		s.podGroups.WithLabelValues(phase).Set(float64(n))
	}
	for state, n := range s.last.Members {
		s.members.WithLabelValues(state).Set(float64(n))
	}
	for name, amount := range s.last.Nominated {
		s.nominated.WithLabelValues(name).Set(amount)
	}
	for name, amount := range s.last.Reserved {
		s.reserved.WithLabelValues(name).Set(amount)
	}
	s.reservations.WithLabelValues().Set(float64(s.last.Reservations))
	for kind, n := range map[string]int{"node": s.last.Nodes, "job": s.last.Jobs, "pod": s.last.Pods} {
		s.objects.WithLabelValues(kind).Set(float64(n))
	}
	s.unscheduled.WithLabelValues().Set(float64(s.last.Unscheduled))
	s.stuck.WithLabelValues().Set(float64(s.last.Stuck))
	s.dims.WithLabelValues().Set(float64(s.last.Dimensions))
	for i := range s.last.Queues {
		s.fillQueue(&s.last.Queues[i], now)
	}
	for _, level := range s.last.Levels {
		s.domains.WithLabelValues(level.Name, "whole").Set(float64(level.Whole))
		s.domains.WithLabelValues(level.Name, "broken").Set(float64(level.Broken))
	}
}

func (s *State) fillQueue(queue *QueueSurvey, now time.Time) {
	set := func(gauge *prometheus.GaugeVec, amounts map[string]float64) {
		for name, amount := range amounts {
			gauge.WithLabelValues(queue.Name, name).Set(amount)
		}
	}
	set(s.queueUsed, queue.Used)
	set(s.queueDemand, queue.Demand)
	set(s.queueShare, queue.Share)
	set(s.queueGuarantee, queue.Guarantee)
	set(s.queueLimit, queue.Limit)
	s.queueJobs.WithLabelValues(queue.Name, "running").Set(float64(queue.Running))
	s.queueJobs.WithLabelValues(queue.Name, "waiting").Set(float64(queue.Waiting))
	if since := queue.OldestWaiting; !since.IsZero() {
		s.queueOldest.WithLabelValues(queue.Name).Set(max(0, now.Sub(since)).Seconds())
	}
	if queue.Unmet != "" {
		s.queueUnmet.WithLabelValues(queue.Name, queue.Unmet).Set(1)
	}
}
