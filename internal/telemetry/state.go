package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/internal/metrics"
)

// Survey is what a leader counted of the cluster at one moment. Once delivered it is never changed.
type Survey struct {
	values map[series]float64
	since  map[series]time.Time
}

// series is one value of a metric: its name, and the values of its labels, of which it has up to two; a value may be empty.
type series struct {
	name   metrics.Name
	count  int
	labels [2]string
}

func seriesOf(name metrics.Name, labels []string) series {
	one := series{name: name, count: len(labels)}
	copy(one.labels[:], labels)
	return one
}

// NewSurvey returns a survey that has counted nothing.
func NewSurvey() *Survey { return &Survey{map[series]float64{}, map[series]time.Time{}} }

// Add adds to a value, which is then shown also where it is zero.
func (s *Survey) Add(n float64, name metrics.Name, labels ...string) {
	s.values[seriesOf(name, labels)] += n
}

// Since records since when something waits: the time of what has waited longest is shown, counted to when it is scraped.
func (s *Survey) Since(at time.Time, name metrics.Name, labels ...string) {
	key := seriesOf(name, labels)
	if first, known := s.since[key]; !known || at.Before(first) {
		s.since[key] = at
	}
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
// the present nevertheless.
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
	show := func(one series, value float64) { s.survey.Show(one.name, value, one.labels[:one.count]...) }
	for one, value := range s.last.values {
		show(one, value)
	}
	for one, since := range s.last.since {
		show(one, max(0, now.Sub(since)).Seconds())
	}
}
