package scenario

import (
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/engine"
)

// TestNoHistory is the fourth promise, for what is remembered: a scheduler that has seen all of a cluster's history decides,
// and says, what one decides that has just started, whatever it remembers of nodes, shapes, domains and failures.
func TestNoHistory(t *testing.T) {
	newStage := openLister(t)
	rapid.Check(t, func(t *rapid.T) {
		d, s := &random{t: t}, newStage()
		s.configuration = d.configuration()
		if err := s.world.apply(d.cluster()); err != nil {
			t.Fatal(err)
		}
		for range d.n(2, 8) {
			if len(s.world.queues) > 0 && s.world.queues[v1alpha1.DefaultQueue] == nil {
				// Without an object there is no status from which a scheduler that has just started knows the last start.
				if err := s.world.apply("queue " + v1alpha1.DefaultQueue); err != nil {
					t.Fatal(err)
				}
			}
			fresh := configured(newStage(), s)
			fresh.started = maps.Clone(s.started) // a part of the snapshot: a scheduler that finds a start does not know what it began with
			want := newcomer(t, fresh, s.world)
			s.focus()
			if got := remembering(t, s); got != want {
				t.Fatalf("with a past:\n%s\ninstead of\n%s", got, want)
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
	})
}

// configured gives a stage the configuration of another one.
func configured(s, like *environment) *environment {
	s.configuration = like.configuration
	return s
}

// remembering plays a cycle, and no other one on the same snapshot, so that what is remembered lives on.
func remembering(t *rapid.T, s *environment) string {
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	o := s.session(engine.Options{Verify: true, Cache: &s.cache})
	said := o.written()
	if err := s.applyDecisions(o); err != nil {
		t.Fatal(err)
	}
	if err := s.state.View().Check(); err != nil {
		t.Fatal(err)
	}
	return said
}

// newcomer returns what a new scheduler decides that receives the world as it is.
func newcomer(t *rapid.T, s *environment, present *world) string {
	s.world = present
	present.tellAll(s.state)
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	return s.session(engine.Options{Cache: &s.cache}).written()
}
