package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

func bind(pod, node string) model.Decision {
	return model.Decision{Binds: []model.Bind{{Pod: model.PodRef{UID: types.UID(pod)}, Node: node}}}
}

func evict(pod string) model.Decision {
	return model.Decision{Evictions: []model.Eviction{{Pod: model.PodRef{UID: types.UID(pod)}}}}
}

func nomination(pod, node string) model.Decision {
	return model.Decision{Nominations: []model.Nomination{{Pod: model.PodRef{UID: types.UID(pod)}, Node: node}}}
}

func TestAssumedBind(t *testing.T) {
	for name, c := range map[string]struct {
		then func(*State)
		want model.Placement
		idle int64
		gone bool
	}{
		"waits for the watch": {func(*State) {}, model.Placement{Status: model.Binding, Node: "n"}, 9000, false},
		"survives an update":  {func(s *State) { s.Apply(seen(pod("p", label("a", "b")))) }, model.Placement{Status: model.Binding, Node: "n"}, 9000, false},
		"confirmed":           {func(s *State) { s.Apply(seen(pod("p", on("n")))) }, model.Placement{Status: model.Bound, Node: "n"}, 9000, false},
		"another node wins":   {func(s *State) { s.Apply(seen(pod("p", on("m")))) }, model.Placement{Status: model.Bound, Node: "m"}, 10000, false},
		"forgotten":           {func(s *State) { s.Forget("p") }, model.Placement{Status: model.Pending}, 10000, false},
		"pod deleted":         {func(s *State) { s.Apply(gone(pod("p"))) }, model.Placement{}, 10000, true},
		"pod being deleted":   {func(s *State) { s.Apply(seen(pod("p", deleting(start)))) }, model.Placement{}, 10000, true},
		"pod failed":          {func(s *State) { s.Apply(seen(pod("p", phase("Failed")))) }, model.Placement{Status: model.Failed}, 10000, false},
		"pod replaced":        {func(s *State) { s.Apply(seen(pod("p", uid("p2")))) }, model.Placement{}, 10000, true},
		"assumed elsewhere":   {func(s *State) { s.Assume(bind("p", "m")) }, model.Placement{Status: model.Binding, Node: "n"}, 9000, false},
		"node deleted and back": {func(s *State) {
			s.Apply(gone(node("n")))
			s.Snapshot(start)
			s.Apply(seen(withUID(node("n"), "n2")))
		}, model.Placement{Status: model.Binding, Node: "n"}, 9000, false},
		"confirmed, then forgotten too late": {func(s *State) {
			s.Apply(seen(pod("p", on("n"))))
			s.Forget("p")
		}, model.Placement{Status: model.Bound, Node: "n"}, 9000, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(node("n"), node("m"), pod("p"))
			s.Assume(bind("p", "n"))
			c.then(s)
			snapshot := snap(t, s, start)
			if idle := snapshot.Node("n").Idle(model.CPU); idle != c.idle {
				t.Errorf("idle CPU is %d, want %d", idle, c.idle)
			}
			task := taskIn(snapshot, "p")
			if (task == nil) != c.gone {
				t.Fatalf("task is %v, want it gone: %t", task, c.gone)
			}
			if task != nil && task.Placement != c.want {
				t.Errorf("task is %+v, want %+v", task.Placement, c.want)
			}
		})
	}
}

func TestAssumedEviction(t *testing.T) {
	s := newState(node("n"), pod("p", on("n"), phase("Running")), pod("q"))
	s.Assume(evict("p"))
	snapshot := snap(t, s, start)
	if got := taskIn(snapshot, "p").Placement; got != (model.Placement{Status: model.Releasing, Node: "n"}) {
		t.Errorf("evicted task is %+v", got)
	}
	if n := snapshot.Node("n"); n.Amounts().Releasing.At(model.CPU) != 1000 || n.Idle(model.CPU) != 9000 {
		t.Errorf("releasing %v, idle %v", n.Amounts().Releasing, n.Amounts().Idle)
	}
	if _, ok := s.NextWake(start); ok {
		t.Error("an eviction that unowned has seen yet expires")
	}
	if !s.ForgetEviction("p") || s.ForgetEviction("p") {
		t.Error("an eviction is forgotten exactly once")
	}
	if got := taskIn(snap(t, s, start), "p").Status; got != model.Running {
		t.Errorf("task is %s after its eviction was forgotten", got)
	}
	s.Assume(evict("p"))
	s.Apply(seen(pod("p", on("n"), phase("Running"), deleting(start))))
	if s.ForgetEviction("p") {
		t.Error("an eviction that the watch has seen is still assumed")
	}
	if got := taskIn(snap(t, s, start.Add(time.Second)), "p").Status; got != model.Releasing {
		t.Errorf("task is %s while it is being deleted", got)
	}
	s.Assume(evict("q")) // holds no capacity
	if got := taskIn(snap(t, s, start), "q").Status; got != model.Pending {
		t.Errorf("evicted pending task is %s", got)
	}
}

func TestAssumptionsWithoutAPod(t *testing.T) {
	s := newState(node("n"), pod("p", on("n")))
	before := dump(snap(t, s, start))
	s.Assume(bind("unknown", "n"))
	s.Assume(evict("unknown"))
	s.Assume(bind("p", "m"))
	if s.Forget("unknown") || s.Forget("p") || s.ForgetEviction("unknown") {
		t.Error("something was forgotten that was never assumed")
	}
	if after := dump(snap(t, s, start)); after != before {
		t.Errorf("was\n%s\nis\n%s", before, after)
	}
}

func TestEvictedWhileBinding(t *testing.T) {
	s := newState(node("n"), pod("p"))
	s.Assume(bind("p", "n"))
	s.Assume(evict("p"))
	if got := taskIn(snap(t, s, start), "p").Placement; got != (model.Placement{Status: model.Releasing, Node: "n"}) {
		t.Errorf("task is %+v", got)
	}
	s.ForgetEviction("p")
	if got := taskIn(snap(t, s, start), "p").Status; got != model.Binding {
		t.Errorf("task is %s after its eviction was forgotten", got)
	}
	s.Assume(evict("p"))
	s.Forget("p")
	if got := taskIn(snap(t, s, start), "p").Status; got != model.Pending {
		t.Errorf("task is %s after its bind was forgotten", got)
	}
}

// TestNomination: what becomes of the nomination of a pod to n, by an assumption and by what the pod itself says.
func TestNomination(t *testing.T) {
	assumed := func(s *State) { s.Assume(nomination("p", "n")) }
	said := func(s *State) { s.Apply(seen(pod("p", nominated("n")))) }
	for name, c := range map[string]struct {
		first, then func(*State)
		want        string // the nominated node now
	}{
		"assumed":                        {assumed, nil, "n"},
		"survives an update":             {assumed, func(s *State) { s.Apply(seen(pod("p", label("a", "b")))) }, "n"},
		"confirmed":                      {assumed, said, "n"},
		"forgotten":                      {assumed, func(s *State) { s.ForgetNomination("p") }, ""},
		"confirmed, and then taken away": {assumed, func(s *State) { said(s); s.Apply(seen(pod("p"))) }, ""},
		"confirmed, then forgotten late": {assumed, func(s *State) { said(s); s.ForgetNomination("p") }, "n"},
		"another one":                    {assumed, func(s *State) { s.Assume(nomination("p", "m")) }, "m"},
		"another one, forgotten":         {said, func(s *State) { s.Assume(nomination("p", "m")); s.ForgetNomination("p") }, "n"},
		"read back":                      {said, nil, "n"},
		"taken back":                     {said, func(s *State) { s.Assume(nomination("p", "")) }, ""},
		"taken back, and confirmed":      {said, func(s *State) { s.Assume(nomination("p", "")); s.Apply(seen(pod("p"))) }, ""},
		"taken back, and forgotten":      {said, func(s *State) { s.Assume(nomination("p", "")); s.ForgetNomination("p") }, "n"},
		"redeemed":                       {said, func(s *State) { s.Assume(bind("p", "n")) }, ""},
		"redeemed in vain":               {said, func(s *State) { s.Assume(bind("p", "n")); s.Forget("p") }, "n"},
		"bound elsewhere":                {said, func(s *State) { s.Apply(seen(pod("p", on("m"), nominated("n")))) }, ""},
		"finished":                       {said, func(s *State) { s.Apply(seen(pod("p", phase("Failed"), nominated("n")))) }, ""},
		"being deleted":                  {said, func(s *State) { s.Apply(seen(pod("p", nominated("n"), deleting(start)))) }, ""},
		"gone":                           {said, func(s *State) { s.Apply(gone(pod("p"))) }, ""},
		"assumed, and gone":              {assumed, func(s *State) { s.Apply(gone(pod("p"))) }, ""},
		"pod replaced":                   {said, func(s *State) { s.Apply(seen(pod("p", uid("p2")))) }, ""},
		"pod of others":                  {said, func(s *State) { s.Apply(seen(pod("p", nominated("n"), by("other")))) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(node("n"), node("m"), pod("p"))
			c.first(s)
			snap(t, s, start)
			if c.then != nil {
				c.then(s)
			}
			snapshot := snap(t, s, start)
			got := ""
			for _, hold := range snapshot.Held() {
				if hold.Pod.UID != "p" || hold.Job != alone("p") || hold.Request.At(model.CPU) != 1000 {
					t.Errorf("hold %+v", hold)
				}
				got += hold.Node
			}
			if got != c.want {
				t.Errorf("the nomination is on %q, want %q", got, c.want)
			}
			if task := taskIn(snapshot, "p"); task != nil && task.Nominated != c.want {
				t.Errorf("the task is nominated for %q, want %q", task.Nominated, c.want)
			}
			for _, n := range snapshot.Nodes {
				if kept := n.Amounts().Reserved.At(model.CPU) > 0; kept != (n.Name == c.want) {
					t.Errorf("node %s keeps capacity for others: %t", n.Name, kept)
				}
			}
		})
	}
}

func TestForgettingANominationThatIsNone(t *testing.T) {
	s := newState(node("n"), pod("p"), pod("q", on("n")))
	s.Assume(nomination("unknown", "n"))
	s.Assume(nomination("p", ""))
	s.Assume(nomination("q", "n"))
	for _, uid := range []types.UID{"unknown", "p", "q"} {
		if s.ForgetNomination(uid) {
			t.Errorf("a nomination to %s was forgotten that was never assumed", uid)
		}
	}
}

// TestOthersNominateNothing while this process leads: what stood on a pod before is taken over, and what this process writes
// counts, also when no answer to the write came.
func TestOthersNominateNothing(t *testing.T) {
	version := 1
	shows := func(s *State, name, node string) string {
		version++
		s.Apply(seen(pod(name, revised(version), func(p *corev1.Pod) { p.Status.NominatedNodeName = node })))
		snapshot := snap(t, s, start)
		if held := snapshot.Held(); len(held) != 0 != (taskIn(snapshot, name).Nominated != "") {
			t.Errorf("%d are held, nominated is %q", len(held), taskIn(snapshot, name).Nominated)
		}
		return taskIn(snapshot, name).Nominated
	}
	nominate := func(s *State, name, node string) {
		s.Assume(model.Decision{Nominations: []model.Nomination{{Pod: model.PodRef{UID: types.UID(name)}, Node: node}}})
	}
	expect := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: nominated to %q, want %q", what, got, want)
		}
	}
	s := newState(node("n"), node("m"))
	expect("before it leads", shows(s, "p", "n"), "n")
	s.Lead()
	expect("taken over", shows(s, "p", "n"), "n")
	expect("changed by others", shows(s, "p", "m"), "n")
	expect("taken back by others", shows(s, "p", ""), "n")
	nominate(s, "p", "")
	expect("taken back", shows(s, "p", ""), "")
	expect("written by others", shows(s, "p", "m"), "")
	nominate(s, "p", "n")
	expect("not shown yet", shows(s, "p", "m"), "n")
	expect("shown", shows(s, "p", "n"), "n")
	nominate(s, "p", "")
	expect("given back", shows(s, "p", ""), "")
	nominate(s, "p", "m")
	s.ForgetNomination("p")
	expect("failed", shows(s, "p", ""), "")
	expect("written all the same", shows(s, "p", "m"), "m")

	s = newState(node("n"))
	s.Lead()
	expect("a pod that comes with one", shows(s, "p", "n"), "")
}
