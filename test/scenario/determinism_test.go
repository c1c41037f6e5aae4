package scenario

import (
	"fmt"
	"runtime"
	"testing"

	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/internal/cluster"
)

// written is everything that a cycle decided, byte for byte.
func (o *outcome) written() string {
	text := o.String()
	for _, decision := range o.decisions {
		if decision.Reservation != nil {
			for _, room := range decision.Reservation.Nodes {
				for _, i := range byName(o.snapshot.Dimensions) { // their positions depend on the order of events
					if amount := room.Request.At(i); amount != 0 { // who has a past knows more resources by name
						text += fmt.Sprintln(room.Node, o.snapshot.Dimensions.Name(i), amount)
					}
				}
			}
			decision.Reservation = nil // else it is written as an address
		}
		text += fmt.Sprintf("%+v\n", decision)
	}
	for _, job := range o.snapshot.Jobs {
		if refusal := o.refusals[job.Key]; refusal != nil {
			text += fmt.Sprintf("%s %+v\n", job.Key, *refusal)
		}
	}
	return text
}

// replay gives the events to a new scheduler, on so many processors, and returns what its first two cycles decide.
func replay(t *rapid.T, s *environment, told *world, events []cluster.Event, processors int) string {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
	s.world = told
	for _, event := range events {
		s.state.Apply(event)
	}
	text := ""
	for range 2 {
		o, err := s.cycle()
		if err != nil {
			t.Fatal(err)
		}
		text += o.written()
	}
	return text
}

// TestSameInputSameDecision is invariants I21 and I22: the same objects give the same decisions and the same refusals, in
// whatever order and however often the watches told of them, on however many processors.
func TestSameInputSameDecision(t *testing.T) {
	newStage := openLister(t)
	rapid.Check(t, func(t *rapid.T) {
		d, s := &random{t: t}, newStage()
		s.configuration = d.configuration()
		if err := s.world.apply(d.cluster()); err != nil {
			t.Fatal(err)
		}
		for range d.n(0, 2) {
			if _, err := s.cycle(); err != nil {
				t.Fatal(err)
			}
			if err := s.confirm(); err != nil {
				t.Fatal(err)
			}
			for range d.n(0, 3) {
				if err := d.happen(s); err != nil {
					t.Fatal(err)
				}
			}
		}
		events := s.world.events
		want := replay(t, configured(newStage(), s), s.world, events, 1)
		for processors := 1; processors <= 4; processors++ {
			shuffled := rapid.Permutation(events).Draw(t, "order")
			if len(events) > 0 {
				shuffled = append(shuffled, rapid.SampledFrom(events).Draw(t, "again"))
			}
			if got := replay(t, configured(newStage(), s), s.world, shuffled, processors); got != want {
				t.Fatalf("on %d processors, in another order:\n%s\ninstead of\n%s", processors, got, want)
			}
		}
	})
}
