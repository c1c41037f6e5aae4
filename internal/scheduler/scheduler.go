package scheduler

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/lifecycle"
	"github.com/tutti-sched/tutti/internal/metrics"
	"github.com/tutti-sched/tutti/internal/report"
	"github.com/tutti-sched/tutti/internal/telemetry"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

const (
	// debouncePeriod is how long no event must have come before a cycle starts, so that a burst is one cycle.
	debouncePeriod = 5 * time.Millisecond
	// maxDebounce is how long a burst may put a cycle off.
	maxDebounce = 100 * time.Millisecond
	// reportEvery is the shortest time between two reports.
	reportEvery = 200 * time.Millisecond
)

// Sender carries out calls. It must not block; the answers come by the Mailbox.
type Sender interface {
	Send(call commit.Call)
}

// Reservations are the volumes and devices that are reserved for pods with a bind in flight; the Preparer of the sender
// works on the same ones. The loop's goroutine calls it, for any pod, also one without a reservation.
type Reservations interface {
	// Confirm ends the reservation of a pod that is bound.
	Confirm(pod types.UID)
	// Abandon ends soon what is being prepared for a pod.
	Abandon(pod types.UID)
	// IsOrphaned reports whether a pod that is not placed holds devices, which the sender's Preparer is then to be asked to
	// release.
	IsOrphaned(pod *corev1.Pod) bool
}

// Scheduler is the loop and what it owns.
type Scheduler struct {
	state   *cluster.State
	machine *commit.Machine
	profile *engine.Profile
	sender  Sender
	mailbox *Mailbox
	options Options
	// endsConflicts is the profile's.
	endsConflicts bool

	reporter  *report.Reporter
	queues    *report.QueueReporter
	foreign   *report.ForeignReporter
	delays    *backoff.Delays
	uncertain uncertainBinds
	gangs     *lifecycle.Gangs
	panics    panics
	refusals  map[model.JobKey]*model.Refusal
	// findings are what was found of waiting jobs beside the loop; nil before the first.
	findings map[model.JobKey]Finding
	// echo is when another cycle is due after an event about an object that only kube-scheduler's plugins read; see ownEventDelay.
	echo time.Time
	// cache is handed on from session to session.
	cache engine.Cache
	// leading is written by the loop alone.
	leading atomic.Bool
	last    lastCycle
	history *debugapi.History
	// progress is what other goroutines may know of the loop.
	progress progress
	cycle    timer
	reports  timer
}

// Options are how the loop runs.
type Options struct {
	// Clock is the only clock of the process that the loop reads.
	Clock clock.WithTicker
	// BindDeadline is how long after the first bind of a gang it must have its minimum, or is undone; 30 s when it is zero.
	BindDeadline time.Duration
	// Resync is how long nothing may have changed before a cycle runs nevertheless; a minute when it is zero.
	Resync time.Duration
	// Delays are those that the loop begins with, and owns from then on; nil is none.
	Delays *backoff.Delays
	// Verify checks the invariants after every statement; for tests.
	Verify bool
	// Reservations receives the results of binds; nil when nothing is ever reserved.
	Reservations Reservations
	// Metrics receives the measurements; nil drops them.
	Metrics *telemetry.Metrics
	// Decided is called with each decision when its effect is assumed and before its first call leaves, on the loop's goroutine; for
	// simulators. nil is not called.
	Decided func(model.Decision)
}

// New returns a loop that decides nothing before the mailbox says Lead.
func New(
	state *cluster.State, machine *commit.Machine, profile *engine.Profile, sender Sender, mailbox *Mailbox,
	options Options,
) *Scheduler {
	if options.Reservations == nil {
		options.Reservations = noReservations{}
	}
	if options.Decided == nil {
		options.Decided = func(model.Decision) {}
	}
	if options.Resync == 0 {
		options.Resync = resyncPeriod
	}
	if options.Delays == nil {
		options.Delays = backoff.NewDelays()
	}
	delays := options.Delays
	gangs := lifecycle.New(options.BindDeadline, delays)
	if options.Metrics == nil {
		options.Metrics = &telemetry.Metrics{}
	}
	s := &Scheduler{
		state: state, machine: machine, sender: sender, mailbox: mailbox, options: options,
		foreign: report.NewForeignReporter(report.ForeignSource{News: state.TakeForeignNews, Spec: state.Foreign, OfOthers: state.OfOthers}),
		queues:  report.NewQueueReporter(state.SchedulerNames(), state.Queue),
		delays:  delays, uncertain: uncertainBinds{}, gangs: gangs, history: &debugapi.History{},
	}
	s.use(profile)
	s.reporter = report.NewReporter(report.Source{
		Group: state.Group, Reservation: state.Reservation, Whole: gangs.Observed, Standing: s.standing, List: state.List,
		Advice: s.advice,
	})
	return s
}

// Run is the loop, until the context ends. It follows the cluster from the start and decides once it leads.
func (s *Scheduler) Run(ctx context.Context) error {
	for {
		s.Step(ctx)
		if !s.sleep(ctx) {
			return nil
		}
	}
}

// Step does whatever is due now and returns immediately. A simulator calls it in place of Run, with the mailbox filled and the
// clock set to where it wants them, and again at NextWake at the latest.
func (s *Scheduler) Step(ctx context.Context) {
	now := s.options.Clock.Now()
	s.progress.begin(now)
	defer func() {
		ended := s.options.Clock.Now()
		s.progress.end(ended)
		s.options.Metrics.Observe(metrics.StepSeconds, ended.Sub(now).Seconds())
	}()
	inspections := s.receive(ctx, now)
	s.logMalformed(ctx)
	defer s.serveInspections(ctx, inspections, now)
	if !s.Leading() {
		s.state.Snapshot(now).Journal.BeginCycle() // a standby keeps up, so that it has nothing to catch up with, and no list of it to keep
		return
	}
	for _, bind := range s.uncertain.expired(now) {
		s.resolve(ctx, bind, now)
	}
	s.watchConflicts(ctx, now)
	if s.cycle.due(now) {
		s.runCycle(ctx)
	}
	for panics := 1; s.panicked(now) && panics < maxPanicsInStep; panics++ {
		s.runCycle(ctx)
	}
	if s.reports.due(now) && !s.cycle.insideBurst && !s.panicked(now) { // else the reasons are those of a cycle that knew less
		s.report(ctx, now)
	}
	s.handleOutcomes(ctx, s.machine.Tick(now))
	s.send()
	s.options.Metrics.Calls(s.machine)
}

// receive empties the mailbox into the state machines. It returns the requests to read the snapshot at the end of the step.
func (s *Scheduler) receive(ctx context.Context, now time.Time) []debugapi.Inspection {
	received := s.mailbox.take()
	for _, next := range received.profiles {
		if profile := next(); profile != nil {
			s.reconfigure(profile, now)
		}
	}
	for _, event := range received.groups {
		s.handleOutcomes(ctx, s.handleEvent(ctx, event, now))
	}
	for _, event := range received.events {
		s.handleOutcomes(ctx, s.handleEvent(ctx, event, now))
	}
	for _, reply := range received.replies {
		s.handleOutcomes(ctx, s.machine.Reply(now, reply))
	}
	if received.findings != nil {
		s.findings = received.findings
		s.reports.debounce(now, reportEvery, reportEvery)
	}
	if received.lead && !s.Leading() {
		s.leading.Store(true)
		s.state.Lead()
		s.options.Metrics.Show(metrics.Leading, 1)
		s.gangs.Lead(s.state.Snapshot(now), now)
		s.cycle.at(now)
		klog.FromContext(ctx).Info("Leading: scheduling starts")
	}
	return received.inspections
}

// reconfigure goes on with another profile. What pods request, and nodes offer, is worked out again; what earlier sessions
// remember is forgotten with the profile it came from; what is bound, nominated or in flight stays.
func (s *Scheduler) reconfigure(profile *engine.Profile, now time.Time) {
	s.use(profile)
	s.state.Configure(profile.Translators(), profile.MaxGrace(), profile.SourcesOff...)
	s.wake(now)
}

// use lets a profile decide from now on, and says what it lacks that queues need.
func (s *Scheduler) use(profile *engine.Profile) {
	s.profile, s.endsConflicts = profile, profile.EvictsOnCPUConflict()
	s.options.Metrics.Show(metrics.Paused, metrics.Is(profile.Paused != ""))
	s.options.Metrics.Expect(profile, s.options.Clock.Now)
	s.queues.Configure(report.Missing{Order: !profile.OrdersQueues(), Guarantees: profile.Unenforced()})
}

// runCycle is one cycle: a session on a snapshot. Decisions are assumed and in flight while it still runs; what becomes
// final meanwhile is settled after it, since a session has the snapshot to itself.
func (s *Scheduler) runCycle(ctx context.Context) {
	now := s.options.Clock.Now()
	s.progress.count.Add(1)
	s.cycle.at(now.Add(period))
	if s.cyclesSuspended(ctx, now) {
		return
	}
	if s.wouldRepeat(now) {
		s.cycle.atMost(s.last.expires)
		return
	}
	watch := debugapi.NewRecorder(s.options.Clock, now)
	snapshot, pass := s.look(ctx, now)
	r := &runningCycle{snapshot: snapshot, watch: watch, now: now, number: s.history.Last() + 1, changed: map[model.JobKey]bool{}}
	var panicked *engine.RecoveredPanic
	result := engine.Run(snapshot, s.profile, engine.Options{
		Verify: s.options.Verify,
		Cache:  &s.cache, Stopwatch: s.options.Metrics.Stopwatch(s.options.Clock.Now),
		OnAction:           func(part string) { s.progress.count.Add(1); watch.Begin(part) },
		OnSearchCut:        func(action string) { s.options.Metrics.Count(metrics.SearchCut, 1, action) },
		OnDeviceCountWrong: func() { s.options.Metrics.Count(metrics.CountsDisagree, 1) },
		OnPanic: func(recovered engine.RecoveredPanic) {
			watch.Cycle.Panics++
			panicked = &recovered
		},
		Decide: func(decision model.Decision) { s.decide(ctx, r, decision) },
	})
	watch.Begin(debugapi.PartSettle)
	logRefusals(ctx, r.number, s.cache.Trail())
	s.refusals = result.Refusals
	s.last = lastCycle{
		decided: watch.Cycle.Decided > 0, expires: s.expires(result.Until, pass, now), awaitsWatch: s.state.HasAssumedBinds() || s.echo.After(now),
	}
	s.progress.version.Store(snapshot.Version)
	s.progress.refused.Store(int64(len(s.refusals)))
	if s.last.decided {
		s.progress.refused.Store(0) // while the loop decides, nothing is looked for beside it
	}
	s.afterCycle(ctx, snapshot, panicked, now)
	s.cycle.atMost(s.last.expires)
	if r.repeat {
		s.wake(now)
	}
	s.handleOutcomes(ctx, r.outcomes)
	s.releaseOrphanedClaims(ctx, snapshot, now)
	s.reports.debounce(now, reportEvery, reportEvery)
	watch.Stop(snapshot, len(s.refusals))
	s.history.Add(watch.Cycle)
	s.options.Metrics.Cycled(watch.Cycle, s.profile.Actions, s.refusals)
	klog.FromContext(ctx).V(2).Info("Cycle", "cycle", r.number, "took", watch.Cycle.Took.Duration, "jobs", len(snapshot.Jobs),
		"nodes", len(snapshot.Nodes), "decided", watch.Cycle.Decided, "waiting", len(s.refusals))
}

// runningCycle is what a cycle gathers while its session runs.
type runningCycle struct {
	snapshot *model.Snapshot
	watch    *debugapi.Recorder
	now      time.Time
	number   uint64
	// changed are the groups, the objects of operators, and without a name the sources that have changed since the snapshot.
	changed  map[model.JobKey]bool
	outcomes []commit.Outcome
	// repeat reports that other jobs may start, or more of one, or one may be planned for again, and no watch shows it.
	repeat bool
}

// decide takes a decision of the session: its effect is assumed, and its calls leave, while the session goes on.
func (s *Scheduler) decide(ctx context.Context, r *runningCycle, decision model.Decision) {
	s.progress.count.Add(1)
	defer r.watch.Begin(r.watch.Begin(debugapi.PartSend))
	decision.Cycle = r.number
	r.watch.Decided(&decision)
	logDecision(ctx, &decision)
	s.assume(decision)
	s.options.Metrics.Decided(&decision)
	job := r.snapshot.Job(decision.Job)
	if job != nil && len(decision.Binds) > 0 {
		s.gangs.Begin(job)
	}
	bound := func(task *model.Task) bool {
		return slices.ContainsFunc(decision.Binds, func(bind model.Bind) bool { return bind.Pod.UID == task.UID })
	}
	s.machine.SubmitUntil(r.now, decision, s.gangs.Deadline(job, bound, r.now))
	s.drainGroupEvents(r, decision.Job)
	r.repeat = r.repeat || decision.ReleasesCapacity() || job != nil && leavesNomination(job, bound) ||
		job != nil && len(decision.Binds) > 0 && job.HeldRole() != "" // it may have all that it had lost now, and the role may start
	for _, reply := range s.mailbox.takeReplies() {
		r.outcomes = append(r.outcomes, s.machine.Reply(s.options.Clock.Now(), reply)...)
	}
	s.send()
}

// assume lets the effect of a decision be seen, before its calls leave.
func (s *Scheduler) assume(decision model.Decision) {
	s.state.Assume(decision)
	s.reporter.Ends(decision.Evictions)
	s.options.Decided(decision)
}

// leavesNomination reports whether one of the tasks that are bound had capacity nominated to it on another node: jobs that had
// their turn before may start there, and no watch shows it.
func leavesNomination(job *model.Job, bound func(*model.Task) bool) bool {
	return slices.ContainsFunc(job.Tasks, func(task *model.Task) bool {
		return bound(task) && task.Nominated != "" && task.Nominated != task.Node
	})
}

// look takes the snapshot of a cycle and marks the jobs, nodes and pods in it that are held back. pass is when the first of these
// is due again; zero for none.
func (s *Scheduler) look(ctx context.Context, now time.Time) (snapshot *model.Snapshot, pass time.Time) {
	asOf := s.rebuild(now)
	held, pass := s.checkGangs(ctx, s.state.Snapshot(now), now)
	snapshot = s.state.Snapshot(now)
	snapshot.Journal.BeginCycle()
	until := s.delays.Apply(snapshot, func(pod types.UID) bool { return s.state.Pod(pod) != nil }, asOf)
	s.holdPaused(snapshot, now)
	maps.Copy(snapshot.JobBackoff, held)
	snapshot.Begun = s.gangs.Begun()
	return snapshot, model.Sooner(pass, until)
}

// report writes what has changed since the last report.
func (s *Scheduler) report(ctx context.Context, now time.Time) {
	var wake time.Time
	submit := func(writes []commit.Write, again time.Time) {
		s.write(now, s.history.Last(), writes...)
		wake = model.Sooner(wake, again)
	}
	guard := func(key model.JobKey, look func()) { s.quarantineOnPanic(ctx, partReports, key, now, look) }
	s.reports = timer{}
	snapshot := s.state.Snapshot(now)
	writes, again := s.reporter.Report(snapshot.Jobs, s.refusals, now, guard)
	s.gangs.StatusSent(writes)
	s.observeWrites(ctx, writes, now)
	submit(writes, again)
	s.recoverPanic(ctx, partReports, func() { submit(s.queues.Report(snapshot, s.refusals, now)) })
	s.recoverPanic(ctx, partReports, func() { submit(s.foreign.Report(snapshot, s.refusals, now, guard)) })
	if !wake.IsZero() {
		s.reports.at(wake)
	}
}

// send hands over what may go out now.
func (s *Scheduler) send() {
	for _, call := range s.machine.Calls(s.options.Clock.Now()) {
		s.sender.Send(call)
	}
}
