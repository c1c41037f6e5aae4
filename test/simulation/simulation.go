package simulation

import (
	"fmt"
	"hash"
	"hash/fnv"
	"io"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/lease"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins"
)

const schedulerName = "tutti"

// Config says what is simulated. The same configuration leads to the same simulation, byte for byte.
type Config struct {
	Seed uint64
	// Plan is what users, nodes and chance do to the cluster and to the scheduler; nil draws one from the seed.
	Plan []Step
	// Faults are how often what goes wrong while the plan lasts; nil draws them from the seed. When the plan is over, nothing does.
	Faults *Faults
	// Replicas is how many schedulers there are; 0 is what the seed says.
	Replicas int
	// Workers is how many calls a scheduler has in flight at most; 0 is the default of package commit.
	Workers int
	// Queues gives the cluster Queues, and steps that change them.
	Queues bool
	// Foreign makes most gangs groups of other projects, and adds steps that change their objects.
	Foreign bool
	// Topology declares levels of which the nodes have labels, makes most gangs share domains, and adds steps that change both.
	Topology bool
	// Devices gives nodes devices, and most jobs claims to them, and adds steps that change both.
	Devices bool
	// Scheduler is the configuration of the schedulers, YAML; nil is what the seed says.
	Scheduler []byte
	// Ahead is how far the clocks of all schedulers are ahead of those of all others, beside what Faults make of it.
	Ahead time.Duration
	// Punctual reports that every kubelet ends its pods within their grace; else a few of them do not answer for a while.
	Punctual bool
	// CrashAfterWrite kills the scheduler right after so many writes; 0 does not.
	CrashAfterWrite int
	// Sabotage plants bugs, so that tests see them caught.
	Sabotage FaultInjection
	// Trace receives a line for everything that happens; nil drops them.
	Trace io.Writer
}

// FaultInjection plants bugs. The zero value plants none.
type FaultInjection struct {
	// Hide is asked about each event that a watch delivers; true keeps it from the scheduler. It may change the event.
	Hide func(cluster.Event) bool
	// Refuse is asked about each call that reaches the server; an error is the answer.
	Refuse func(commit.Call) error
	// Prepare is asked about each call that writes or gives back devices; true answers it and does nothing.
	Prepare func(*process, commit.Call) bool
	// Decided is called with each decision before its calls leave; Rogue is called before each step of a leader.
	Decided func(*process, model.Decision)
	Rogue   func(*process)
	// Hang is asked before each step of a leader; true lets the step begin and never end.
	Hang func(*process) bool
	// Clock changes what the clocks of a process show to its election, Lease what it reads of the Lease.
	Clock func(*process, lease.Instant) lease.Instant
	Lease func(*process, *coordinationv1.Lease)
	// Plugin returns one more plugin of each session of a process; its points come after those of all others.
	Plugin func(*process) framework.Plugin
	// Careless lets the server bind a pod again, Unfenced lets schedulers write without the Lease, Heedless lets new leaders begin
	// without asking what the last one wrote.
	Careless, Unfenced, Heedless bool
}

// Result is what a simulation came to.
type Result struct {
	// Steps is how many events happened, Writes how many calls reached the server, Lives how many processes there were.
	Steps, Writes, Lives int
	// Bound and Evicted count the pods that were, Guaranteed and Shared those that were evicted for another queue, by right of a
	// guarantee or of a share.
	Bound, Evicted, Guaranteed, Shared int
	// Partial is the longest that a gang was bound in part before it was whole or undone.
	Partial time.Duration
	// Span is how much virtual time passed.
	Span time.Duration
	// Violations are the broken invariants; nil when all held. A simulation ends with the first, but at rest all are looked for.
	Violations []Violation
	// Hash is of the trace.
	Hash uint64
	// Plan and Faults are what was played.
	Plan   []Step
	Faults Faults
}

// Violation is one broken invariant.
type Violation struct {
	// Invariant is its name, such as I3.
	Invariant string
	// Text says what was seen.
	Text string
	// Step is the number of the event, At how long it had been going on.
	Step int
	At   time.Duration
}

// String returns one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s at step %d, after %s: %s", v.Invariant, v.Step, v.At, v.Text)
}

// Simulation is one run: all there is, driven by one queue.
type Simulation struct {
	config  Config
	queue   *queue
	began   time.Time
	server  *server
	world   *world
	judge   *invariantChecker
	lister  *switchableLister
	filters *Filters

	lease     leaseRecord
	processes map[string]*process
	// all are the processes there have been, in order.
	all   []*process
	lives int
	// apart is until when replicas cannot reach the Lease.
	apart map[string]time.Time
	// calm reports that the plan is over and nothing goes wrong any more.
	calm   bool
	storm  Faults
	text   []byte
	result Result
	hash   hash.Hash64
	// writer is the process whose call the server is carrying out; nil when the change is by another client.
	writer *process
	writes int
	// lastChange is when the server stored something last, a process decided something, or all faults ended.
	lastChange time.Time
}

// Run simulates. An error is a bug of the simulator; what is wrong with the scheduler is in the result.
func Run(filters *Filters, config Config) (*Result, error) {
	s := newSimulation(filters, config)
	if _, err := filters.build(s.text); err != nil {
		return nil, err
	}
	s.play()
	s.result.Writes, s.result.Lives, s.result.Hash = s.writes, s.lives, s.hash.Sum64()
	s.result.Span = s.queue.now.Sub(s.began)
	return &s.result, nil
}

func newSimulation(filters *Filters, c Config) *Simulation {
	d := newRandom(c.Seed, "simulation")
	s := &Simulation{
		config: c, filters: filters, lister: filters.lister, queue: &queue{now: time.Unix(1_800_000_000, 0)},
		processes: map[string]*process{}, apart: map[string]time.Time{}, hash: fnv.New64a(), text: c.Scheduler,
	}
	s.began = s.queue.now
	if s.text == nil {
		s.text = drawScheduler(d)
		if c.Queues {
			s.text = withReclaim(newRandom(c.Seed, "reclaim"), s.text)
		}
		if c.Topology {
			s.text = withTopologies(newRandom(c.Seed, "topologies"), s.text)
		}
	}
	s.storm = drawFaults(d)
	if c.Faults != nil {
		s.storm = *c.Faults
	}
	if s.config.Replicas == 0 {
		s.config.Replicas = d.number(1, 2)
	}
	s.server = newServer(s.queue, c.Seed)
	s.server.careless = c.Sabotage.Careless
	s.world = newWorld(s)
	s.judge = newJudge(s)
	s.server.changed = s.changed
	plan := drawPlan(newRandom(c.Seed, "plan"))
	if c.Queues {
		plan = append(plan, drawQueuePlan(newRandom(c.Seed, "plan of queues"))...)
	}
	if c.Foreign {
		plan = append(plan, drawForeignPlan(newRandom(c.Seed, "plan of foreign groups"))...)
	}
	if c.Topology {
		plan = append(plan, drawPlanOf(newRandom(c.Seed, "plan of topologies"), topologyActions())...)
	}
	if c.Devices {
		plan = append(plan, drawDevicePlan(newRandom(c.Seed, "plan of devices"))...)
	}
	if c.Plan != nil {
		plan = c.Plan
	}
	s.result.Plan, s.result.Faults = plan, s.storm
	return s
}

// drawScheduler chooses among configurations: the built-in one, two by which capacity is reserved soon, one of them
// for a short time, one that deletes victims, and one that prefers to keep budgets and gives victims little time.
func drawScheduler(d rng) []byte {
	text := string(config.DefaultYAML())
	return []byte(text + pick(d, "", "", `
configurations: [{name: backfill, arguments: {reserveAfter: "20s", reserveShare: 100}}]
`, `
configurations: [{name: backfill, arguments: {reserveAfter: "10s", reserveFor: "5m", reservations: 2}}]
`, `
configurations: [{name: preempt, arguments: {budgets: prefer, maxGrace: 5s}}]
`))
}

// changed is called with everything that the server stores.
func (s *Simulation) changed(before object, now change) {
	s.lastChange = s.queue.now
	s.judge.changed(before, now)
	s.world.changed(before, now)
	for _, name := range sortedNames(s.processes) {
		if p := s.processes[name]; !p.dead {
			for _, stream := range p.streams {
				if stream.kind == now.kind {
					stream.pump()
				}
			}
		}
	}
}

// play plays the plan, lets the cluster come to rest, and looks at what is left.
func (s *Simulation) play() {
	s.world.found()
	for i := range s.config.Replicas {
		name := fmt.Sprintf("scheduler-%d", i)
		s.queue.after(time.Duration(i)*100*time.Millisecond, "start "+name, func() { s.start(name) })
	}
	var end time.Duration
	for _, step := range s.result.Plan {
		s.queue.after(step.At, step.What, func() { s.take(step) })
		end = max(end, step.At)
	}
	s.until(s.began.Add(end + time.Second))
	s.stopFaults()
	if s.runToQuiescence() && len(s.result.Violations) == 0 {
		s.judge.atQuiescence()
	}
}

// stopFaults ends everything that goes wrong.
func (s *Simulation) stopFaults() {
	s.trace("calm")
	s.calm, s.lastChange = true, s.queue.now
	s.judge.trouble()
	clear(s.apart)
	clear(s.server.unread)
	for _, name := range sortedNames(s.processes) {
		for _, stream := range s.processes[name].streams {
			stream.stalled = s.queue.now
		}
	}
}

// runToQuiescence is I29, and Q10 with queues: all comes to rest. It waits until nothing has changed for a minute, and no job
// is delayed after a failure, and reports whether that came. It need not where the server's clock is an hour behind, and pods
// go on to be evicted by share: all seem to have run for as long as reclaim leaves them alone at most, so that jobs may take
// turns.
func (s *Simulation) runToQuiescence() bool {
	const quiet, most, mostSteps = 70 * time.Second, 45 * time.Minute, 100_000
	calm, steps, shared := s.queue.now, s.result.Steps, s.result.Shared
	for s.until(s.queue.now.Add(10 * time.Second)) {
		if s.queue.now.Sub(s.lastChange) >= quiet && s.world.pending == 0 && !s.delays() {
			return true
		}
		if s.queue.now.Sub(calm) > most || s.result.Steps-steps > mostSteps {
			if s.world.server.jumped > -time.Hour || s.result.Shared == shared {
				s.violated("I29", "something is written all the time although nothing happens")
			}
			return false
		}
	}
	return true
}

// delays reports whether a leader delays a job, such as one of which a start was undone.
func (s *Simulation) delays() bool {
	for _, p := range s.processes {
		if !p.dead && p.leading && len(p.snapshot.JobBackoff) > 0 {
			return true
		}
	}
	return false
}

// until lets everything happen until then; false when the simulation has ended.
func (s *Simulation) until(end time.Time) bool {
	for len(s.result.Violations) == 0 {
		next := s.queue.next(end)
		if next == nil {
			s.queue.now = end
			return true
		}
		s.result.Steps++
		s.trace("%s", next.what)
		next.do()
		s.judge.afterStep()
	}
	return false
}

func (s *Simulation) faults() *Faults {
	if s.calm {
		return &Faults{}
	}
	return &s.storm
}

func (s *Simulation) violated(invariant, format string, words ...any) {
	v := Violation{
		Invariant: invariant, Text: fmt.Sprintf(format, words...), Step: s.result.Steps, At: s.queue.now.Sub(s.began),
	}
	s.trace("violated: %s", v)
	s.result.Violations = append(s.result.Violations, v)
}

func (s *Simulation) trace(format string, words ...any) {
	fmt.Fprintf(s.hash, format+"\n", words...)
	if s.config.Trace != nil {
		fmt.Fprintf(s.config.Trace, "%6d %12s ", s.result.Steps, s.queue.now.Sub(s.began))
		fmt.Fprintf(s.config.Trace, format+"\n", words...)
	}
}

// kubeOf is kube-scheduler's plugins as a process has them.
func (s *Simulation) kubeOf(p *process) plugins.Kube {
	if s.config.Devices {
		return deviceKube{s.filters.kube, p}
	}
	return s.filters.kube
}

// profile makes the actions and plugins of one process, and with levels the plugin that counts its tables again.
func (s *Simulation) profile(p *process) *engine.Profile {
	profile, err := s.filters.buildWith(s.kubeOf(p), s.text)
	if err != nil { // it was built before
		s.violated("I25", "the profile of %s cannot be built: %v", p, err)
		return &engine.Profile{}
	}
	more := engine.Tier{}
	if s.config.Topology {
		random := newRandom(s.config.Seed, fmt.Sprint("tables ", p.life))
		more = append(more, engine.TierPlugin{Factory: func() framework.Plugin { return tableChecker{p, random} }})
	}
	if plugin := s.config.Sabotage.Plugin; plugin != nil {
		more = append(more, engine.TierPlugin{Factory: func() framework.Plugin { return plugin(p) }})
	}
	profile.Tiers = append(profile.Tiers, more)
	return profile
}
