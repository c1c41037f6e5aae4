package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestPartsUnderFaults: the members of a gang come and go while binds and deletions are refused, or their answers are lost,
// while the object that says what is made later is not read, and while another process begins to lead. No part is deleted that
// the API server has shown to be whole, and none stays bound in part. When the faults are over all members are bound.
func TestPartsUnderFaults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		p := &parts{
			world: w, draw: t, kind: rapid.SampledFrom(kindsOfParts()).Draw(t, "kind"), read: true,
			refused: map[string]bool{}, lost: map[string]bool{}, whole: map[string]bool{}, everWhole: map[string]bool{}, partSince: map[string]time.Time{},
			wholeSince: map[string]time.Time{}, noted: map[string]bool{},
		}
		p.serveFaults()
		p.node("n1", "7")
		p.kind.show(p.world)
		p.come(p.kind.parts[0])
		t.Repeat(map[string]func(*rapid.T){
			"come": p.does(p.grow), "refuse": p.does(p.refuseOne), "lose": p.does(p.loseOne), "run": p.does(p.run), "go": p.does(p.remove),
			"fail": p.does(p.fail), "capacity": p.does(p.capacity), "hide": p.does(p.hide), "restart": p.does(p.restart), "end": p.does(p.end), "keep": p.does(p.keep),
			"pass": p.does(p.pass), "wait": p.does(p.pass), "grow": p.does(p.grow),
		})
		p.finish()
	})
}

// kindOfParts is a kind of gangs with parts.
type kindOfParts struct {
	// parts are the parts, the first one first, needs how many members each needs.
	parts []string
	needs map[string]int
	// show makes its object, hide lets it not be read; nil where there is none.
	show, hide func(*world)
	make       func(w *world, part string, n int) (name string)
	// says reports that its object says whether it was whole.
	says bool
}

func kindsOfParts() []kindOfParts {
	one, three := []string{""}, map[string]int{"": 3}
	return []kindOfParts{
		{
			parts: []string{"prepare", "side", "work"}, needs: map[string]int{"prepare": 2, "side": 2, "work": 3},
			show: func(w *world) { w.stepsOf(append([]model.Role{{Name: "prepare", MinMember: 2}}, twoLateSteps()...)...) },
			hide: func(w *world) {
				w.mailbox.Event(&cluster.ReadingChanged{Source: model.SourceJobSet, Reading: cluster.NotServed})
			},
			make: func(w *world, part string, n int) string {
				name := fmt.Sprintf("%s-%d", part[:1], n)
				w.step(part, name)
				return name
			},
		},
		{parts: one, needs: three, says: true, show: func(w *world) { w.gang("mpi", 0, 3) }, make: func(w *world, _ string, n int) string {
			w.member("mpi", n)
			return fmt.Sprint("mpi-", n)
		}},
		{parts: one, needs: three, show: func(*world) {}, make: func(w *world, _ string, n int) string {
			w.implied("mpi", n, 3)
			return fmt.Sprint("mpi-", n)
		}},
	}
}

// parts is what happens to a gang, at random.
type parts struct {
	*world
	draw *rapid.T
	kind kindOfParts
	made int
	// refused and lost are the pods whose binds are refused, or get no answer.
	refused, lost map[string]bool
	undoRefused   bool
	lastRefused   time.Time
	read          bool
	// unknown reports that this process has not seen yet what is whole: of what is in part, and does not run, it cannot know it.
	unknown bool
	// whole are the parts that were whole when a step began, so that the process knows it, everWhole also those that it may not.
	whole, everWhole map[string]bool
	// wholeSince is since when all of a part is bound and its object is read, noted whether that was so for as long as there was a
	// cycle in it, in which the process takes note of it: there is one every five seconds.
	wholeSince map[string]time.Time
	noted      map[string]bool
	// partSince is since when a part is bound in part.
	partSince map[string]time.Time
}

func exists(*corev1.Pod) bool        { return true }
func isBound(pod *corev1.Pod) bool   { return pod.Spec.NodeName != "" }
func isRunning(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning }
func waits(pod *corev1.Pod) bool     { return !isBound(pod) }

func partOf(pod *corev1.Pod) string { return pod.Labels["jobset.sigs.k8s.io/replicatedjob-name"] }

// does is a step for rapid.
func (p *parts) does(step func()) func(*rapid.T) { return func(*rapid.T) { step() } }

// of are the pods of a part that have not failed and are so, sorted.
func (p *parts) of(part string, is func(*corev1.Pod) bool) (names []string) {
	for _, pod := range p.pods {
		if partOf(pod) == part && pod.Status.Phase != corev1.PodFailed && is(pod) {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

// one is one of these pods of some part, and may be none.
func (p *parts) one(is func(*corev1.Pod) bool) (name string, ok bool) {
	names := p.of(rapid.SampledFrom(p.kind.parts).Draw(p.draw, "part"), is)
	if len(names) == 0 {
		return "", false
	}
	return rapid.SampledFrom(names).Draw(p.draw, "pod"), true
}

// come makes the members that a part lacks. Binds of some of them are refused.
func (p *parts) come(part string) {
	for len(p.of(part, exists)) < p.kind.needs[part] {
		p.made++
		if name := p.kind.make(p.world, part, p.made); rapid.IntRange(0, 3).Draw(p.draw, "refused") == 0 {
			p.refused[name] = true
		}
	}
}

func (p *parts) grow() {
	part := rapid.SampledFrom(p.kind.parts).Draw(p.draw, "part")
	if first := p.kind.parts[0]; part == first || len(p.of(first, isRunning)) > 0 {
		p.come(part)
	}
}

func (p *parts) refuseOne() {
	if name, ok := p.one(waits); ok {
		p.refused[name] = true
	}
}

func (p *parts) loseOne() {
	if name, ok := p.one(waits); ok {
		p.lost[name] = true
	}
}

func (p *parts) run() {
	if name, ok := p.one(isBound); ok {
		p.world.run(name)
	}
}

func (p *parts) remove() {
	if name, ok := p.one(exists); ok {
		p.gone(name)
	}
}

func (p *parts) fail() {
	if name, ok := p.one(isRunning); ok && name[0] != 'p' {
		p.inPhase(name, corev1.PodFailed)
	}
}

func (p *parts) capacity() { p.node("n1", fmt.Sprint(rapid.IntRange(2, 7).Draw(p.draw, "cpu"))) }

// end ends faults of binds.
func (p *parts) end() {
	clear(p.refused)
	clear(p.lost)
}

// keep lets no bound member be deleted, or any again.
func (p *parts) keep() { p.undoRefused = !p.undoRefused }

// hide lets the object be read no more, or again.
func (p *parts) hide() {
	switch {
	case p.kind.hide == nil:
	case p.read:
		p.kind.hide(p.world)
		p.read = false
	default:
		p.kind.show(p.world)
		p.read = true
	}
}

// restart lets another process lead.
func (p *parts) restart() {
	before := p.world
	p.world = before.next(p.draw)
	p.serveFaults()
	switch {
	case p.kind.says:
		p.group(before.groups["mpi"].DeepCopy())
	case p.read:
		p.kind.show(p.world)
	default:
		p.kind.hide(p.world)
	}
	p.unknown = true
	clear(p.partSince)
}

// shows reports whether the API shows that the part was whole.
func (p *parts) shows(part string) bool {
	if p.kind.says {
		c := p.condition("mpi")
		return c != nil && c.Status == "True"
	}
	runs := func(part string) bool { return len(p.of(part, isRunning)) > 0 }
	return runs(part) || part == p.kind.parts[0] && slices.ContainsFunc(p.kind.parts, runs)
}

func (p *parts) serveFaults() {
	p.refuse = func(call commit.Call) error {
		switch {
		case p.lost[call.Pod.Name]:
			return errors.New("connection reset")
		case p.refused[call.Pod.Name]:
			return forbidden(call)
		}
		return nil
	}
	p.refuseUndo = func(call commit.Call) error {
		part, first := partOf(p.pods[call.Pod.UID]), p.kind.parts[0]
		if p.noted[part] && p.noted[first] {
			p.t.Errorf("%s: %s is deleted, and part %q was whole", p.clock.Now().Format("04:05.0"), call.Pod.Name, part)
		}
		if p.undoRefused {
			p.lastRefused = p.clock.Now()
			return forbidden(call)
		}
		return nil
	}
}

func (p *parts) pass() {
	spans := []time.Duration{0, 100 * time.Millisecond, time.Second, 5 * time.Second, 20 * time.Second, 40 * time.Second}
	p.watch(rapid.SampledFrom(spans).Draw(p.draw, "time"), 100*time.Millisecond)
}

// watch lets time pass, and looks before every step: what is bound then, the step takes note of.
func (p *parts) watch(span, tick time.Duration) {
	for range span / tick {
		p.look()
		p.loop.Step(p.draw.Context())
		p.note(p.everWhole, !p.loop.machine.Idle() || len(p.loop.uncertain) > 0)
		p.clock.Step(tick)
	}
}

func (p *parts) look() {
	for part := range p.kind.needs {
		if p.unknown {
			p.whole[part] = p.whole[part] && p.read && p.shows(part)
		}
	}
	p.unknown = p.unknown && !p.read
	p.note(p.whole, false)
	p.note(p.everWhole, !p.loop.machine.Idle() || len(p.loop.uncertain) > 0)
	now := p.clock.Now()
	for part, need := range p.kind.needs {
		switch since := p.wholeSince[part]; {
		case (len(p.of(part, isBound)) < need || !p.read) && !(p.read && p.shows(part)): // an object that is not read says no minimum
			delete(p.wholeSince, part)
		case since.IsZero():
			p.wholeSince[part] = now
		}
		p.noted[part] = p.whole[part] && (p.noted[part] || !p.wholeSince[part].IsZero() && now.Sub(p.wholeSince[part]) > 6*time.Second)
	}
	for _, part := range p.kind.parts {
		inPart := len(p.of(part, isBound)) > 0 && !p.everWhole[part]
		switch since := p.partSince[part]; {
		case !inPart || !p.read || p.undoRefused || now.Sub(p.lastRefused) < 12*time.Minute:
			delete(p.partSince, part)
		case since.IsZero():
			p.partSince[part] = now
		case now.Sub(since) > 140*time.Second:
			p.t.Fatalf("%s: %q of part %q are bound since %s", now.Format("04:05.0"), p.of(part, isBound), part, since.Format("04:05.0"))
		}
	}
}

// note takes note of which parts are whole, or were and have members left, or may get one by a bind that is under way.
func (p *parts) note(whole map[string]bool, binding bool) {
	for part, need := range p.kind.needs {
		n := len(p.of(part, isBound))
		whole[part] = (n > 0 || binding) && (n >= need || whole[part] || p.read && p.shows(part))
	}
}

// finish ends first what keeps a start from being undone, and lets so much time pass that it is. Then it ends all faults and
// waits until all members are bound.
func (p *parts) finish() {
	clear(p.lost)
	p.undoRefused = false
	if !p.read {
		p.hide()
	}
	p.watch(16*time.Minute, time.Second)
	clear(p.refused)
	p.node("n1", "7")
	all := func() bool {
		return !slices.ContainsFunc(p.kind.parts, func(part string) bool { return len(p.of(part, isBound)) < p.kind.needs[part] })
	}
	for range 60 {
		for _, part := range p.kind.parts {
			for len(p.of(part, exists)) < p.kind.needs[part] {
				p.made++
				p.kind.make(p.world, part, p.made)
			}
		}
		if p.watch(30*time.Second, time.Second); all() {
			return
		}
	}
	p.t.Fatalf("bound at rest are %q, refused %v", p.bound(), p.loop.refusals)
}
