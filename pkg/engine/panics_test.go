package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// bomb takes part at every point and panics at one of them, when it is called for a job or one of its tasks.
type bomb struct {
	named
	job string
	at  string
	// left is how often it is asked before it panics; it does so each time after that.
	left *int
}

func (b bomb) about(at string, job model.JobKey) {
	if b.at != at || b.job != job.Name {
		return
	}
	if *b.left > 0 {
		*b.left--
		return
	}
	panic("assignment to entry in nil map")
}

func (b bomb) CompareJobs(x, y *model.Job) int {
	b.about("jobOrder", x.Key)
	b.about("jobOrder", y.Key)
	return 0
}
func (b bomb) CompareTasks(x, _ *model.Task) int                { b.about("taskOrder", x.Job); return 0 }
func (b bomb) ValidateJob(job *model.Job) *model.Refusal        { b.about("jobValid", job.Key); return nil }
func (b bomb) OnAllocate(task *model.Task)                      { b.about("observe", task.Job) }
func (b bomb) OnEvict(task *model.Task)                         { b.about("evicted", task.Job) }
func (b bomb) OnDeallocate(task *model.Task, _ model.Placement) { b.about("undone", task.Job) }
func (b bomb) BinderOf(task *model.Task) string                 { b.about("bind", task.Job); return "" }
func (b bomb) Unreserve(task *model.Task)                       { b.about("unreserve", task.Job) }

func (b bomb) JobReady(job *model.Job, _ framework.Readiness) *model.Refusal {
	b.about("jobGate", job.Key)
	return nil
}

func (b bomb) PreFilter(task *model.Task, scope framework.FilterScope) ([]framework.NodeFilterFunc, *model.Refusal) {
	b.about(fmt.Sprint("filter", scope), task.Job)
	if scope != framework.ClusterWide {
		return nil, nil
	}
	return []framework.NodeFilterFunc{func(*model.Node) *model.Refusal { b.about("check", task.Job); return nil }}, nil
}

func (b bomb) PreScore(task *model.Task, scope framework.FilterScope, _ []*model.Node) []framework.NodeScore {
	b.about(fmt.Sprint("score", scope), task.Job)
	if scope != framework.ClusterWide {
		return nil
	}
	return []framework.NodeScore{{Name: "s", Weight: 1, Score: func(*model.Node) int64 { b.about("raw", task.Job); return 0 }}}
}

func (b bomb) FilterVictims(preemptor *model.Job, units []framework.EvictionUnit) ([]framework.EvictionUnit, bool) {
	b.about("victims", preemptor.Key)
	for _, unit := range units {
		b.about("unit", unit.Job.Key)
	}
	return units, true
}

func (b bomb) Reserve(task *model.Task, _ *model.Node) (bool, *model.Refusal) {
	b.about("reserve", task.Job)
	return false, nil
}

// points are where a bomb may go off.
var points = []string{
	"jobOrder", "taskOrder", "jobValid", "observe", "undone", "bind", "unreserve", "jobGate", "filter0", "filter1", "filter2", "check",
	"score0", "score1", "score2", "raw", "victims", "reserve", "action",
}

// cellar is a reserver that knows what is reserved on it, across sessions.
type cellar struct {
	named
	held map[string]bool
}

func (s cellar) Reserve(task *model.Task, _ *model.Node) (bool, *model.Refusal) {
	s.held[string(task.UID)] = true
	return false, nil
}
func (s cellar) Unreserve(task *model.Task) { delete(s.held, string(task.UID)) }

// counter is an observer that counts tasks with capacity; it is made again for each session and counts from what it finds.
type counter struct {
	named
	session framework.View
	room    int
}

func (c *counter) OpenSession(view framework.View) {
	c.session = view
	c.room += c.count() // it must be a new one
}

func (c *counter) count() (n int) {
	for _, job := range c.session.Snapshot().Jobs {
		n += job.Count(func(task *model.Task) bool { return task.Status.Occupies() && task.Status != model.Releasing })
	}
	return n
}

func (c *counter) OnAllocate(*model.Task) { c.room++ }
func (c *counter) OnEvict(*model.Task)    { c.room-- }
func (c *counter) OnDeallocate(_ *model.Task, was model.Placement) {
	if was.Status == model.Releasing {
		c.room++
	} else {
		c.room--
	}
}

func (c *counter) CloseSession(framework.View) {
	if c.room != c.count() {
		panic(invariantViolation(fmt.Sprintf("the observer counts %d with capacity, there are %d", c.room, c.count())))
	}
}

// greedy places each job whole, after it has asked everything there is to ask and undone a first try.
type greedy struct{ bomb bomb }

func (greedy) Name() string { return "greedy" }

func (g greedy) Execute(s *Session) {
	for _, job := range slices.SortedFunc(slices.Values(s.Snapshot.Jobs), s.CompareJobs) {
		if job.Count(func(task *model.Task) bool { return task.Status == model.Pending }) == 0 {
			continue
		}
		if refusal := s.ValidateJob(job); refusal != nil {
			s.Refuse(job, refusal)
			continue
		}
		s.Victims(job, nil)
		g.place(s, job, no("supposed"))
		s.Refuse(job, g.place(s, job, nil))
	}
}

func (g greedy) place(s *Session, job *model.Job, end *model.Refusal) *model.Refusal {
	return s.Try(func(statement *Statement) *model.Refusal {
		for _, task := range slices.SortedFunc(slices.Values(job.Tasks), s.CompareTasks) {
			node, tally := s.askFor(task, model.Idle).BestOrWhy(task, nil)
			if node == nil {
				return tally.Refusal(0, 0, "")
			}
			inner := s.Try(func(inner *Statement) *model.Refusal { return inner.allocate(task, node) })
			if inner != nil {
				return inner
			}
		}
		g.bomb.about("action", job.Key)
		return end
	})
}

// street has capacity for all of its jobs.
func street(jobs int) *model.Snapshot {
	snapshot := house(6, 6, 6)
	for i := range jobs {
		job := join(snapshot, fmt.Sprint("j", i), 2, 2, model.Resources{1})
		for _, task := range job.Tasks {
			task.Shape = unique.Make(job.Key.Name) // else what is asked about one job is known for the next
		}
	}
	return snapshot
}

// runAgain runs sessions until one runs to its end, as the scheduler's loop does: the job of each panic is held back in the
// next one.
func runAgain(snapshot *model.Snapshot, profile *Profile, options Options) (refusals map[model.JobKey]*model.Refusal) {
	onPanic := options.OnPanic
	for again := true; again; {
		again = false
		options.OnPanic = func(recovered RecoveredPanic) {
			onPanic(recovered)
			if again = recovered.Job != nil; again {
				held := map[model.JobKey]*model.Refusal{recovered.Job.Key: recovered.Refusal}
				maps.Copy(held, snapshot.JobBackoff)
				snapshot.JobBackoff = held
			}
		}
		refusals = Run(snapshot, profile, options).Refusals
	}
	return refusals
}

type result struct {
	caught   []RecoveredPanic
	started  []string
	refusals map[model.JobKey]*model.Refusal
	held     map[string]bool
	snapshot *model.Snapshot
}

// cycle runs one in verify mode, with a bomb before and observers and reservers around it.
func cycle(snapshot *model.Snapshot, b bomb, cache *Cache) result {
	r := result{held: map[string]bool{}, snapshot: snapshot}
	b.named = "bomb"
	if b.left == nil {
		b.left = new(int)
	}
	profile := &Profile{Actions: []Action{greedy{b}}, Tiers: []Tier{{
		always(cellar{"first", r.held}), {Factory: func() framework.Plugin { return &counter{named: "before"} }}, always(b),
		{Factory: func() framework.Plugin { return &counter{named: "after"} }}, always(minimum{"minimum"}),
	}}}
	r.refusals = runAgain(snapshot, profile, Options{
		Verify: true, Cache: cache, OnPanic: func(p RecoveredPanic) { r.caught = append(r.caught, p) },
		Decide: func(d model.Decision) { r.started = append(r.started, fmt.Sprint(d.Job.Name, " ", d.Binds)) },
	})
	return r
}

func TestPanicCostsOneJob(t *testing.T) {
	for _, at := range points {
		t.Run(at, func(t *testing.T) {
			without := cycle(street(4), bomb{}, nil)
			if len(without.started) != 4 || len(without.caught) != 0 {
				t.Fatalf("without a panic: %d started, %v", len(without.started), without.caught)
			}
			got := cycle(street(4), bomb{job: "j1", at: at}, nil)
			if len(got.caught) != 1 || got.caught[0].Job == nil || got.caught[0].Job.Key.Name != "j1" ||
				!strings.Contains(got.caught[0].Stack, "bomb.about") {
				t.Fatalf("caught %+v", got.caught)
			}
			key := model.JobKey{Namespace: "default", Name: "j1"}
			refusal := got.refusals[key]
			want := " panicked: assignment to entry in nil map"
			if refusal == nil || refusal.Code != model.Quarantined || !strings.HasSuffix(refusal.String(), want) || len(got.refusals) != 1 {
				t.Errorf("refusals %v", got.refusals)
			}
			if names := starts(got.started); names != "j0 j2 j3" {
				t.Errorf("started %s", names)
			}
			for _, task := range got.snapshot.Job(key).Tasks {
				if task.Status != model.Pending || got.held[string(task.UID)] {
					t.Errorf("%s is %s, held: %v", task, task.Status, got.held)
				}
			}
			if len(got.held) != 6 {
				t.Errorf("set aside: %v", got.held)
			}
			if err := got.snapshot.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

func starts(started []string) string {
	var names []string
	for _, start := range started {
		names = append(names, strings.Fields(start)[0])
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// TestPanicLeavesNothing lets a plugin panic anywhere, at any time: the other jobs get what they would get without that job.
func TestPanicLeavesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jobs := rapid.IntRange(2, 5).Draw(t, "jobs")
		poisoned := fmt.Sprint("j", rapid.IntRange(0, jobs-1).Draw(t, "job"))
		left := rapid.IntRange(0, 12).Draw(t, "left")
		snapshot, cache := street(jobs), &Cache{}
		key := model.JobKey{Namespace: "default", Name: poisoned}
		got := cycle(snapshot, bomb{job: poisoned, at: rapid.SampledFrom(points).Draw(t, "at"), left: &left}, cache)
		alone := street(jobs)
		if len(got.caught) > 0 {
			alone.JobBackoff = map[model.JobKey]*model.Refusal{key: {Code: model.Quarantined}}
		}
		want := cycle(alone, bomb{}, nil)
		others := func(started []string) []string {
			return slices.DeleteFunc(slices.Clone(started), func(s string) bool { return strings.HasPrefix(s, poisoned+" ") })
		}
		if !slices.Equal(others(got.started), others(want.started)) {
			t.Fatalf("others got\n%v\nwithout the job\n%v", got.started, want.started)
		}
		if len(got.caught) > 0 && len(others(got.started)) != len(got.started) {
			if got.refusals[key] == nil { // it started before a plugin panicked over it
				t.Fatalf("started and quarantined without a word: %v", got.caught)
			}
		}
		if err := got.snapshot.Check(); err != nil {
			t.Fatal(err)
		}
		for _, job := range snapshot.Jobs {
			for _, task := range job.Tasks {
				if (task.Status == model.Allocated) != got.held[string(task.UID)] {
					t.Fatalf("%s is %s, set aside: %v", task, task.Status, got.held)
				}
			}
		}
	})
}

// usher panics when a session opens or closes.
type usher struct {
	named
	open bool
}

func (u usher) OpenSession(framework.View) {
	if u.open {
		var none *model.Job
		none.MinMember++
	}
}

func (u usher) CloseSession(view framework.View) {
	if !u.open {
		_ = view.Snapshot().Nodes[len(view.Snapshot().Nodes)]
	}
}

func TestPanicWithoutAJobEndsTheCycle(t *testing.T) {
	for _, open := range []bool{true, false} {
		snapshot := street(3)
		var caught []RecoveredPanic
		started := 0
		b := bomb{named: "bomb", left: new(int)}
		result := Run(snapshot, &Profile{Actions: []Action{greedy{b}}, Tiers: []Tier{{always(usher{"usher", open}), always(minimum{"minimum"})}}},
			Options{Verify: true, OnPanic: func(c RecoveredPanic) { caught = append(caught, c) }, Decide: func(model.Decision) { started++ }})
		if len(caught) != 1 || caught[0].Job != nil {
			t.Errorf("open %v: caught %+v", open, caught)
		}
		waiting := 0
		for _, refusal := range result.Refusals {
			if refusal.Code == model.CycleFailed {
				waiting++
			}
		}
		if open && (started != 0 || waiting != 3) || !open && (started != 3 || waiting != 0) {
			t.Errorf("open %v: %d started, refusals %v", open, started, result.Refusals)
		}
	}
}

func TestPanicOverManyJobs(t *testing.T) {
	snapshot := house(100)
	for i := range 40 {
		join(snapshot, fmt.Sprintf("j%02d", i), 1, 1, model.Resources{1})
	}
	over := map[model.JobKey]bool{}
	quiet := bomb{named: "bomb", left: new(int)}
	profile := &Profile{Actions: []Action{greedy{quiet}}, Tiers: []Tier{{always(grudge{"grudge"})}}}
	refusals := runAgain(snapshot, profile, Options{Verify: true, OnPanic: func(p RecoveredPanic) { over[p.Job.Key] = true }})
	if len(over) != 40 || len(refusals) != 40 {
		t.Errorf("panics over %d jobs, %d refused, want 40", len(over), len(refusals))
	}
	for key, refusal := range refusals {
		if refusal.Code != model.Quarantined {
			t.Errorf("%s is refused: %s", key, refusal)
		}
	}
}

// grudge panics over every job.
type grudge struct{ named }

func (grudge) ValidateJob(job *model.Job) *model.Refusal {
	_ = job.Tasks[len(job.Tasks)]
	return nil
}

func TestPanicsThatAreNotCaught(t *testing.T) {
	escapes := func(name string, run func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s: nothing panics", name)
			}
		}()
		run()
	}
	caught := func(RecoveredPanic) {}
	b := bomb{named: "bomb", left: new(int)}
	actions := []Action{greedy{b}}
	escapes("without OnPanic", func() {
		Run(street(2), &Profile{Actions: actions, Tiers: []Tier{{always(grudge{"grudge"})}}}, Options{})
	})
	escapes("a broken invariant", func() {
		snapshot := street(2)
		forget(snapshot.Nodes[0])
		Run(snapshot, &Profile{Actions: actions}, Options{Verify: true, OnPanic: caught})
	})
	escapes("who receives decisions", func() {
		Run(street(2), &Profile{Actions: actions}, Options{OnPanic: caught, Decide: func(model.Decision) {
			var none *model.Job
			none.MinMember++
		}})
	})
}

// stumbler's check panics the first time that it comes to a node.
type stumbler struct {
	named
	on       string
	stumbled *bool
}

func (s stumbler) PreFilter(_ *model.Task, scope framework.FilterScope) ([]framework.NodeFilterFunc, *model.Refusal) {
	if scope != framework.NodeWithPods {
		return nil, nil
	}
	return []framework.NodeFilterFunc{func(node *model.Node) *model.Refusal {
		if node.Name == s.on && !*s.stumbled {
			*s.stumbled = true
			_ = node.Tasks[len(node.Tasks)]
		}
		return nil
	}}, nil
}

// TestPanicLeavesNoHalfAnswer interrupts a question in the middle of the nodes, which the next job asks, too.
func TestPanicLeavesNoHalfAnswer(t *testing.T) {
	snapshot := house(2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2)
	snapshot.SetNodes(snapshot.Nodes) // what is kept is of a list with a version
	for i := range 3 {
		join(snapshot, fmt.Sprint("j", i), 1, 1, model.Resources{2}).Tasks[0].Pod = &corev1.Pod{}
	}
	var binds []string
	stumbled := false
	quiet := bomb{named: "bomb", left: new(int)}
	profile := &Profile{Actions: []Action{greedy{quiet}}, Tiers: []Tier{{always(stumbler{"stumbler", "n1", &stumbled})}}}
	runAgain(snapshot, profile, Options{Verify: true, Cache: &Cache{}, OnPanic: func(RecoveredPanic) {}, Decide: func(d model.Decision) {
		binds = append(binds, d.Job.Name+" "+d.Binds[0].Node)
	}})
	if !slices.Equal(binds, []string{"j1 n0", "j2 n1"}) {
		t.Errorf("bound: %v", binds)
	}
}
