package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// reservationOf returns capacity for so many members of one CPU and some memory each.
func reservationOf(node string, members int) *v1alpha1.Reservation {
	ends := metav1.NewTime(start.Add(time.Hour))
	return &v1alpha1.Reservation{
		Since: metav1.NewTime(start), ExpectedStart: &ends,
		Nodes: []v1alpha1.ReservedNode{{
			Name: node, Members: int32(members), Resources: list("cpu", []string{"0", "1", "1500m", "3", "4"}[members], "memory", "1Gi"),
		}},
	}
}

func showing(r *v1alpha1.Reservation) func(*v1alpha1.PodGroup) {
	return func(g *v1alpha1.PodGroup) { g.Status.Reservation = r }
}

// scheduled says in the status that the group has started.
func scheduled(g *v1alpha1.PodGroup) {
	g.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionTrue}}
}

// reserve decides on so much CPU, none of which ends what is reserved.
func reserve(name, node string, cpu int64) model.Decision {
	r := &model.Reservation{Since: start}
	if cpu > 0 {
		r.Nodes = []model.ReservedNode{{Node: node, Members: 1, Request: model.Resources{cpu}}}
	}
	return model.Decision{Job: ns(name), Reservation: r}
}

// TestReservedRoom follows the capacity that is kept for a group of two, in CPU, and what its status is to show.
func TestReservedRoom(t *testing.T) {
	members := func(options ...podOption) []any {
		return []any{pod("a", append(options, of("g"))...), pod("b", append(options, of("g"))...)}
	}
	assume := func(s *State) { s.Assume(reserve("g", "n", 3000)) }
	shown := func(s *State, r *v1alpha1.Reservation) { s.Apply(seen(group("g", 2, showing(r)))) }
	asDecided := &v1alpha1.Reservation{Since: metav1.NewTime(start), Nodes: []v1alpha1.ReservedNode{
		{Name: "n", Members: 1, Resources: list("cpu", "3")},
	}}
	for name, c := range map[string]struct {
		then []func(*State)
		// kept is what others must not touch, shows reports whether the status is to show anything.
		kept  int64
		shows bool
	}{
		"nothing":               {nil, 0, false},
		"read from the status":  {[]func(*State){func(s *State) { shown(s, reservationOf("n", 2)) }}, 1500, true},
		"assumed":               {[]func(*State){assume}, 3000, true},
		"not shown yet":         {[]func(*State){assume, func(s *State) { shown(s, nil) }}, 3000, true},
		"an older one is shown": {[]func(*State){assume, func(s *State) { shown(s, reservationOf("n", 2)) }}, 3000, true},
		"shown":                 {[]func(*State){assume, func(s *State) { shown(s, asDecided) }}, 3000, true},
		"shown, and then changed": {[]func(*State){assume, func(s *State) { shown(s, asDecided) }, func(s *State) {
			shown(s, reservationOf("n", 1))
		}}, 1000, true},
		"shown, and then taken away": {[]func(*State){assume, func(s *State) { shown(s, asDecided) }, func(s *State) {
			shown(s, nil)
		}}, 0, false},
		"an end of it, not shown yet": {[]func(*State){func(s *State) { shown(s, asDecided) }, func(s *State) {
			s.Assume(reserve("g", "", 0))
		}, func(s *State) { shown(s, asDecided) }}, 0, false},
		"the group goes": {[]func(*State){assume, func(s *State) { s.Apply(gone(group("g", 2))) }}, 0, false},
		"another group of the name": {[]func(*State){assume, func(s *State) {
			s.Apply(seen(group("g", 2, func(g *v1alpha1.PodGroup) { g.UID = "other" })))
		}}, 0, false},
		"binds on their way": {[]func(*State){assume, func(s *State) {
			s.Assume(bind("a", "m"))
			s.Assume(bind("b", "m"))
		}}, 0, true},
		"binds that failed": {[]func(*State){assume, func(s *State) {
			s.Assume(bind("a", "m"))
			s.Assume(bind("b", "m"))
		}, func(s *State) { s.Forget("a") }}, 3000, true},
		"bound": {[]func(*State){assume, func(s *State) {
			for _, p := range members(on("m")) {
				s.Apply(seen(p))
			}
		}}, 0, false},
		"bound, and then degraded": {[]func(*State){assume, func(s *State) {
			for _, p := range members(on("m")) {
				s.Apply(seen(p))
			}
			s.Apply(seen(group("g", 2, scheduled)))
			s.Apply(gone(pod("a")))
		}}, 0, false},
		"degraded, and an older status": {[]func(*State){assume, func(s *State) {
			s.Apply(seen(group("g", 2, scheduled, func(g *v1alpha1.PodGroup) {
				g.Status.WaitingSince = &metav1.Time{Time: start}
			})))
		}}, 3000, true},
		"for a group that is not there": {[]func(*State){func(s *State) { s.Assume(reserve("other", "n", 3000)) }}, 0, false},
		"on a node that is not there":   {[]func(*State){func(s *State) { s.Assume(reserve("g", "gone", 3000)) }}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(append(members(), node("n"), node("m"), group("g", 2))...)
			for _, then := range c.then {
				snap(t, s, start)
				then(s)
			}
			snapshot := snap(t, s, start)
			snapshot.SetViewpoint(model.Viewpoint{})
			if kept := snapshot.Node("n").Amounts().Reserved.At(model.CPU); kept != c.kept {
				t.Errorf("%d of CPU are kept, want %d", kept, c.kept)
			}
			if snapshot.SetViewpoint(model.Viewpoint{Job: ns("g")}); snapshot.Node("n").Amounts().Reserved.At(model.CPU) != 0 {
				t.Error("something is kept from the group itself")
			}
			if job := snapshot.Job(ns("g")); job != nil && (job.Reservation != nil) != c.shows {
				t.Errorf("the job's reservation is %v", job.Reservation)
			}
		})
	}
}

// TestReservationInTheStatus: what is decided is read back the same, by one who knows nothing of it.
func TestReservationInTheStatus(t *testing.T) {
	decided := &model.Reservation{
		Since: start, ExpectedStart: start.Add(time.Hour),
		Nodes: []model.ReservedNode{
			{Node: "n", Members: 2, Request: model.Resources{1500, 1 << 30, 3, 2}},
			{Node: "o", Members: 1, Request: model.Resources{7}},
		},
	}
	s := newState(pod("a", of("g")), group("g", 1))
	s.Assume(model.Decision{Job: ns("g"), Reservation: decided})
	object := s.Reservation(snap(t, s, start).Job(ns("g")))
	other := newState(pod("a", of("g")), group("g", 1, showing(object)))
	if read := snap(t, other, start).Job(ns("g")).Reservation; !read.Equal(decided) || other.Reservation(snap(t, other, start).Job(ns("g"))) != object {
		t.Errorf("read %+v, decided %+v", read, decided)
	}
}

func TestReservationOfAStartedGroupIsNotShown(t *testing.T) {
	s := newState(group("g", 1, showing(reservationOf("n", 1))), pod("a", of("g")), node("n"))
	job := snap(t, s, start).Job(ns("g"))
	if s.Reservation(job) == nil {
		t.Error("nothing is shown of a group that waits")
	}
	job.Tasks[0].Status = model.Binding
	if s.Reservation(job) == nil {
		t.Error("nothing is shown while the bind is in flight")
	}
	job.Tasks[0].Status = model.Bound
	if s.Reservation(job) != nil {
		t.Error("it is shown of a group that has started")
	}
}

// TestEffectOfReservations: a cycle is due when reserved capacity changes behind our back, or may be free at another time.
func TestEffectOfReservations(t *testing.T) {
	began := func(p *corev1.Pod) { p.Status.StartTime = &metav1.Time{Time: start} }
	s := newState(node("n"), group("g", 1), pod("a", of("g")), pod("b", on("n"), phase("Running")))
	if effect := s.Apply(seen(pod("b", on("n"), phase("Running"), began))); effect.Schedule {
		t.Error("a cycle is due because a pod began, and nothing is reserved")
	}
	s.Assume(reserve("g", "n", 3000))
	object := s.Reservation(snap(t, s, start).Job(ns("g")))
	if effect := s.Apply(seen(group("g", 1, showing(object)))); effect.Schedule {
		t.Error("a cycle is due because the status shows what was decided")
	}
	if effect := s.Apply(seen(pod("b", on("n"), phase("Running")))); !effect.Schedule {
		t.Error("no cycle is due although a pod began at another time")
	}
	if effect := s.Apply(seen(group("g", 1))); !effect.Schedule {
		t.Error("no cycle is due although the reservation was removed")
	}
}
