package simulation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/internal/lease"
	"github.com/tutti-sched/tutti/internal/scheduler"
	"github.com/tutti-sched/tutti/pkg/model"
)

// process is one life of one replica of the scheduler: the real state, machine and loop, put together as the program does it,
// with streams in place of informers, the simulation's queue in place of timers, and calls that travel in it.
type process struct {
	*Simulation
	name   string
	life   int
	random rng
	// dead reports that the process has ended; whatever is still planned for it does not happen. thaws is until when it stands
	// still; waiting is what happens then.
	dead    bool
	thaws   time.Time
	waiting []func()

	clock *clocktesting.FakeClock
	skew  time.Duration
	state *cluster.State
	// snapshot is the one long-lived one of the state, to look at.
	snapshot *model.Snapshot
	machine  *commit.Machine
	loop     *scheduler.Scheduler
	// maxGrace is how long pods that the process ends may take, by its configuration.
	maxGrace time.Duration
	mailbox  *scheduler.Mailbox
	streams  []*watchStream

	// election is the real one; elected reports that the Lease was got, ready that what the last leader wrote is known, leading
	// that the loop leads, leaving that the process ends in good order.
	election                         *lease.Election
	elected, ready, leading, leaving bool
	// watchdog is the real one, too; hung reports that a step of the loop has begun which does not end.
	watchdog *lease.Watchdog
	hung     bool
	// set is how far the wall clock was set since the process began, slept for how long the monotonic clock stood still, and
	// disturbed when either happened last.
	set, slept time.Duration
	disturbed  time.Time
	// underWay counts the calls that have left and have no answer yet.
	underWay int
	// arrives is when the last of them reaches the server, but for those of which this process knows no more.
	arrives time.Time
	// due is when the next step is planned, stepping that the loop is at work; quick counts steps without time passing.
	due      time.Time
	planned  bool
	stepping bool
	// mail reports that letters have come while the loop was at work, for which it does not go to sleep.
	mail bool
	// letters counts what was put into the mailbox.
	letters int
	quick   int
	stepped time.Time
	// inFlight are the calls without a reply; chosen is where each pod was last decided to go, seen what the process knew then;
	// nominated is the node that each pod was last nominated to, empty when it was cleared.
	inFlight  map[commit.CallID]commit.Call
	chosen    map[types.UID]string
	seen      map[types.UID]observedVersions
	nominated map[types.UID]string
	// marks are the annotations that say where in the topology each pod is, as last decided.
	marks map[types.UID]map[string]string
	// evicting are the pods that it has decided to evict, each with its group and the job for which it goes.
	evicting map[types.UID]plannedVictim
	// gangs is what the process has seen of each part of a gang.
	gangs map[partKey]gangSeen
	// taken are the decisions of this step that evict pods of other queues.
	taken []*economy
	// lastDecided is when it decided something last, or received that a bind had taken effect; claimsSeen what it knew when
	// claims by guarantees were last judged.
	lastDecided time.Time
	claimsSeen  observedVersions
	processDevices
	// told is the newest version of each object that the process has received, by name.
	told [kinds]map[string]change
}

// processDevices is what a process has of devices.
type processDevices struct {
	// inventory tells which devices nodes have, devices are as it told last.
	inventory *kube.DeviceInventory
	devices   map[string]*kube.NodeDevices
	// reserved is for pods that have a node and are not bound yet; wrote are claims as the process has left them, by name, until it
	// has received them.
	reserved map[types.UID]*deviceReservation
	wrote    map[string]*resourceapi.ResourceClaim
	// view is the pods and nodes with their devices, nil when they have to be counted again.
	view *countedView
	// together are the pods of the decision that last bound a pod.
	together map[types.UID][]types.UID
	// cut reports that only the first claim of a pod is written.
	cut bool
}

// start begins a new life of a replica.
func (s *Simulation) start(name string) {
	s.lives++
	p := &process{
		Simulation: s, name: name, life: s.lives, random: newRandom(s.config.Seed, fmt.Sprint("process ", s.lives)),
		skew: s.config.Ahead, inFlight: map[commit.CallID]commit.Call{}, chosen: map[types.UID]string{},
		seen: map[types.UID]observedVersions{}, nominated: map[types.UID]string{}, evicting: map[types.UID]plannedVictim{},
		gangs: map[partKey]gangSeen{}, marks: map[types.UID]map[string]string{},
	}
	p.reserved, p.wrote, p.devices = map[types.UID]*deviceReservation{}, map[string]*resourceapi.ResourceClaim{}, map[string]*kube.NodeDevices{}
	p.together = map[types.UID][]types.UID{}
	p.inventory = kube.NewDeviceInventory(func(seen *kube.NodeDevices) {
		p.devices[seen.Node] = seen
		p.receiveEvent(&cluster.DevicesSeen{Devices: seen})
	})
	if s.faults().Skew > 0 {
		p.skew += p.random.span(-s.faults().Skew, s.faults().Skew)
	}
	p.clock = clocktesting.NewFakeClock(s.queue.now.Add(p.skew))
	p.mailbox = scheduler.NewMailbox()
	p.state = cluster.New(cluster.Options{SchedulerNames: []string{schedulerName}})
	profile := s.profile(p)
	p.maxGrace = profile.MaxGrace()
	p.state.Configure(profile.Translators(), p.maxGrace)
	p.snapshot = p.state.Snapshot(p.clock.Now())
	p.machine = commit.New(commit.Options{Workers: s.config.Workers, RequestTimeout: lease.RequestTimeout + time.Second})
	options := scheduler.Options{Clock: p.clock, Verify: true, Decided: p.decided}
	if s.config.Devices {
		options.Reservations = deviceKube{s.filters.kube, p}
	}
	p.loop = scheduler.New(p.state, p.machine, profile, p, p.mailbox, options)
	s.processes[name] = p
	s.all = append(s.all, p)
	for kind := range p.told {
		p.told[kind] = map[string]change{}
	}
	for _, kind := range s.watched() {
		stream := &watchStream{
			process: p, kind: kind, random: newRandom(s.config.Seed, fmt.Sprint("stream ", s.lives, kind)), store: map[string]change{},
		}
		p.streams = append(p.streams, stream)
		stream.connect(p.random.span(5*time.Millisecond, 500*time.Millisecond))
		if isForeign(kind) {
			stream.ask()
		}
	}
	p.election = lease.New("ns", p.String(), p.instant)
	p.watchdog = lease.NewWatchdog(stepLimit, p.progress)
	p.elect()
	p.watch()
	p.step()
}

// end is the end of a process, at any moment; another one takes its place after a while.
func (p *process) end(why string) {
	if p.dead {
		return
	}
	p.trace("%s ends: %s", p, why)
	p.dead = true
	p.judge.cutShort(p, nil)
	p.judge.trouble()
	restart := p.random.span(100*time.Millisecond, 3*time.Second)
	p.queue.after(restart, "start", func() { p.start(p.name) })
}

// after plans something that happens only while the process lives.
func (p *process) after(delay time.Duration, what string, do func()) {
	p.queue.after(delay, fmt.Sprintf("%s %s", p, what), func() {
		if !p.dead {
			do()
		}
	})
}

// freeze makes the process stand still for a while. When its machine sleeps, its monotonic clock stands still, too.
func (p *process) freeze(span time.Duration, sleeps bool) {
	if p.frozen() {
		return
	}
	p.thaws = p.queue.now.Add(span)
	p.after(span, "thaw", func() {
		if sleeps {
			p.slept += span
		}
		p.judge.trouble()
		waiting := p.waiting
		p.waiting = nil
		p.random.Shuffle(len(waiting), func(i, j int) { waiting[i], waiting[j] = waiting[j], waiting[i] }) // any of them may be first
		for _, do := range waiting {
			do()
		}
		p.wakeUp(0)
	})
}

func (p *process) frozen() bool { return p.queue.now.Before(p.thaws) }

// whenThawed does something when the process does not stand still, now or later.
func (p *process) whenThawed(do func()) {
	if p.frozen() {
		p.waiting = append(p.waiting, func() {
			if !p.dead {
				do()
			}
		})
		return
	}
	do()
}

// synced tells the loop to lead when everything there was has been delivered, the Lease is held, and what its last holder
// wrote is known.
func (p *process) synced() {
	if p.leading || !p.ready || slices.ContainsFunc(p.streams, func(s *watchStream) bool { return !s.listed }) {
		return
	}
	p.leading = true
	p.trace("%s leads", p)
	p.judge.onTakeover(p)
	p.mailbox.Lead()
	p.letters++
	p.wakeUp(0)
}

// onWatchEnd is the end of a watch, or of a list.
func (p *process) onWatchEnd(one change) {
	name := keyOf(one.object)
	known, ok := p.told[one.kind][name]
	same := ok && known.object.GetUID() == one.object.GetUID()
	if pod, is := one.object.(*corev1.Pod); is && same && pod.Spec.NodeName != p.pod(name).Spec.NodeName {
		p.lastDecided = p.queue.now
	}
	switch {
	case one.deleted && same: // final, whatever version of it was seen last
		delete(p.told[one.kind], name)
	case !one.deleted && (!ok || one.version > known.version):
		p.told[one.kind][name] = one
	}
	p.view = nil
	p.tell(one)
	p.noteWhole(jobOf(one))
}

// tell sends what a watch has seen to the loop, and devices by way of the inventory.
func (p *process) tell(one change) {
	if claim, is := one.object.(*resourceapi.ResourceClaim); is {
		if mine := p.wrote[keyOf(claim)]; mine != nil && (one.deleted || versionOf(mine) <= one.version) {
			delete(p.wrote, keyOf(claim))
		}
	}
	tellOf(one, p.inventory, p.receiveEvent)
}

// receiveEvent puts what a watch has seen into the mailbox.
func (p *process) receiveEvent(event cluster.Event) {
	if hide := p.config.Sabotage.Hide; hide != nil && hide(event) {
		return
	}
	p.mailbox.Event(event)
	p.letters++
	p.wakeUp(0)
}

// answered puts a reply into the mailbox.
func (p *process) answered(reply commit.Reply) {
	p.mailbox.Reply(reply)
	p.letters++
	if p.mail = p.stepping; !p.mail {
		p.wakeUp(0)
	}
}

// wakeUp plans a step, unless there is one planned before.
func (p *process) wakeUp(delay time.Duration) {
	at := p.queue.now.Add(max(0, delay))
	if p.planned && !at.Before(p.due) {
		return
	}
	p.planned, p.due = true, at
	p.after(delay, "step", func() {
		if p.planned && !p.due.After(p.queue.now) {
			p.planned = false
			p.whenThawed(p.step)
		}
	})
}

// step lets the loop do what is due, and plans the next step.
func (p *process) step() {
	if p.dead || p.leaving || p.hung {
		return
	}
	if p.stepped.Equal(p.queue.now) {
		p.quick++
	} else {
		p.stepped, p.quick = p.queue.now, 0
	}
	if p.quick > 200 {
		p.violated("I27", "%s makes %d steps without time passing", p, p.quick)
		return
	}
	p.clock.SetTime(p.queue.now.Add(p.skew))
	p.lister.SharedLister = p.state.View()
	p.stepping, p.mail, p.view = true, false, nil
	p.doStep()
	p.stepping, p.view = false, nil
	p.judge.countsDevices(p)
	p.judge.keepsRights(p)
	switch {
	case p.dead, p.hung:
		return
	case p.mail:
		p.wakeUp(0)
		return
	}
	p.judge.leavesNothingUndone(p)
	if at, ok := p.loop.NextWake(); ok {
		p.wakeUp(at.Sub(p.clock.Now()))
	}
}

// doStep reports a panic as what it is. In verify mode it names the invariant.
func (p *process) doStep() {
	defer func() {
		if reason := recover(); reason != nil {
			p.judge.panicked(p, reason, debug.Stack())
		}
	}()
	if hangs := p.config.Sabotage.Hang; hangs != nil && p.leading && hangs(p) {
		p.trace("%s hangs", p)
		p.hung = true
		return
	}
	if rogue := p.config.Sabotage.Rogue; rogue != nil && p.leading {
		rogue(p)
	}
	p.loop.Step(klog.NewContext(context.Background(), logr.New(errorLogSink{p})))
}

// decided is called with each decision.
func (p *process) decided(decision model.Decision) {
	p.trace("%s decides %s", p, describe(decision))
	p.view = nil
	p.noteTogether(decision)
	for _, bind := range decision.Binds {
		p.chosen[bind.Pod.UID] = bind.Node
	}
	p.lastChange = p.queue.now // the write may follow later
	p.lastDecided = p.queue.now
	p.judge.decided(p, decision)
	p.noteWhole(decision.Job)
	if alter := p.config.Sabotage.Decided; alter != nil {
		alter(p, decision)
	}
}

// noteTogether takes down which pods are bound by one decision, since none of them is before all have their devices.
func (p *process) noteTogether(decision model.Decision) {
	var all []types.UID
	for _, bind := range decision.Binds[:min(len(decision.Binds), max(decision.MinBinds, 1))] {
		all = append(all, bind.Pod.UID)
	}
	for _, bind := range decision.Binds {
		if p.together[bind.Pod.UID] = all; !slices.Contains(all, bind.Pod.UID) {
			p.together[bind.Pod.UID] = append(slices.Clone(all), bind.Pod.UID)
		}
	}
}

// String names the process and its life.
func (p *process) String() string { return fmt.Sprintf("%s.%d", p.name, p.life) }

func sortedNames[T any](of map[string]T) []string { return slices.Sorted(maps.Keys(of)) }

func describe(decision model.Decision) string {
	text := decision.Job.String()
	for _, bind := range decision.Binds {
		text += fmt.Sprintf(" bind %s→%s", bind.Pod.Name, bind.Node)
	}
	for _, nomination := range decision.Nominations {
		text += fmt.Sprintf(" nomination %s→%s", nomination.Pod.Name, cmp.Or(nomination.Node, "nothing"))
	}
	for _, eviction := range decision.Evictions {
		text += fmt.Sprintf(" evict %s", eviction.Pod.Name)
	}
	if decision.Reservation != nil {
		text += fmt.Sprintf(" reserve %s %s", decision.Reservation.NodeNames(), decision.Reservation.Describe())
	}
	return text
}
