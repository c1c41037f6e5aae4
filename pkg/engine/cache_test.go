package engine

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// choosy has something to say at every scope: who may be where depends on the node's label, on how many pods are there and,
// for some tasks, on how many are everywhere; so do the scores.
type choosy struct {
	named
	session framework.View
	// weights are those of its scores; of its taste it is unknown whether they are none, or below it.
	weights [5]int64
}

func (c *choosy) OpenSession(view framework.View) { c.session = view }
func (c *choosy) CloseSession(framework.View)     { c.session = nil }

// still panics when an answer is used after its session.
func (c *choosy) still(node *model.Node) *model.Node {
	if c.session == nil {
		panic("the session has closed")
	}
	return node
}

func grade(node *model.Node) int64 { return int64(len(node.Object.Labels["grade"])) }

func (c *choosy) everywhere() (pods int) {
	for _, node := range c.session.Snapshot().Nodes {
		pods += len(node.Tasks)
	}
	return pods
}

func (c *choosy) PreFilter(task *model.Task, scope framework.FilterScope) ([]framework.NodeFilterFunc, *model.Refusal) {
	check := func(detail string, bad func(node *model.Node) bool) []framework.NodeFilterFunc {
		return []framework.NodeFilterFunc{func(node *model.Node) *model.Refusal {
			if bad(c.still(node)) {
				return &model.Refusal{Code: model.NodesFiltered, Detail: detail}
			}
			return nil
		}}
	}
	switch {
	case scope == framework.NodeOnly:
		return check("grade", func(node *model.Node) bool { return grade(node) == 3 && task.Shape == shapes[0] }), nil
	case scope == framework.NodeWithPods && task.Shape != shapes[1]:
		return check("crowd", func(node *model.Node) bool { return len(node.Tasks) > 3 }), nil
	case scope == framework.ClusterWide && task.Role == "shy":
		return check("all", func(node *model.Node) bool { return len(node.Tasks)*2 > c.everywhere() }), nil
	}
	return nil, nil
}

func (c *choosy) PreScore(task *model.Task, scope framework.FilterScope, candidates []*model.Node) []framework.NodeScore {
	tasks := func(node *model.Node) int64 { return int64(len(node.Tasks)) }
	switch {
	case scope == framework.NodeOnly:
		return []framework.NodeScore{{Weight: c.weights[0], Normalization: framework.NormalizeByMax, Score: func(node *model.Node) int64 { return node.Object.Generation }}}
	case scope == framework.NodeWithPods && task.Shape == shapes[2]:
		return []framework.NodeScore{{Weight: c.weights[1], Score: tasks}, {Weight: c.weights[2], Normalization: framework.NormalizeReversed, Score: tasks}}
	case scope == framework.NodeWithPods:
		return []framework.NodeScore{{Weight: c.weights[3], Score: func(node *model.Node) int64 { return c.still(node).Idle(0) }}}
	case task.Role == "shy":
		return []framework.NodeScore{{Weight: c.weights[4], Normalization: framework.NormalizeMinMax, Score: tasks}}
	}
	return nil
}

var shapes = []model.Shape{unique.Make("one"), unique.Make("two"), unique.Make("three")}

// field is a cluster that changes under a cache.
type field struct {
	t        *rapid.T
	snapshot *model.Snapshot
	profile  *Profile
	cache    Cache
	pods     int
	placed   []*model.Task
}

func (f *field) n(least, most int) int { return rapid.IntRange(least, most).Draw(f.t, "n") }

func (f *field) object() *corev1.Node {
	object := &corev1.Node{}
	object.Labels = map[string]string{"grade": "xxx"[:f.n(0, 3)]}
	object.Generation = 7 // so that many are liked equally
	if f.n(0, 2) == 0 {
		object.Generation = int64(f.n(1, 1000))
	}
	return object
}

// weights draws those of the scores.
func (f *field) weights() (weights [5]int64) {
	for i := range weights {
		weights[i] = []int64{0, 1, 5, 10_000, -3}[f.n(0, 4)]
	}
	return weights
}

// keep draws capacity that is kept for some jobs, on nodes that are there.
func (f *field) keep() {
	var holds []model.HeldCapacity
	for i := range f.n(0, 3) {
		if len(f.snapshot.Nodes) == 0 {
			break
		}
		node := f.snapshot.Nodes[f.n(0, len(f.snapshot.Nodes)-1)]
		holds = append(holds, model.HeldCapacity{
			Job: jobs[f.n(0, 1)], Priority: int32(f.n(0, 2)), Node: node.Name,
			Pod: model.PodRef{UID: types.UID(fmt.Sprint(i))}, Request: model.Resources{int64(f.n(1, 3))},
		})
	}
	slices.SortFunc(holds, func(a, b model.HeldCapacity) int { return model.CompareHeld(&a, &b) })
	f.snapshot.SetHeld(holds)
}

var jobs = []model.JobKey{{Name: "i"}, {Name: "j"}}

func (f *field) task() *model.Task {
	f.pods++
	shape := f.n(0, len(shapes)-1)
	task := &model.Task{
		PodRef: model.PodRef{UID: types.UID(fmt.Sprintf("p%03d", f.pods))}, Pod: &corev1.Pod{},
		Shape: shapes[shape], Request: model.Resources{int64(shape + 1)}, Job: jobs[f.n(0, 1)],
	}
	if f.n(0, 4) == 0 {
		task.Role = "shy"
	}
	return task
}

func (f *field) node(number int) *model.Node {
	return model.NewNode(fmt.Sprintf("n%d", number), f.object(), model.Resources{int64(f.n(0, 9))})
}

func (f *field) setNodes(nodes []*model.Node) {
	slices.SortFunc(nodes, func(a, b *model.Node) int { return cmp.Compare(a.Name, b.Name) })
	f.snapshot.SetNodes(nodes)
}

// change is what the live state does between two sessions.
func (f *field) change() {
	nodes := slices.Clone(f.snapshot.Nodes)
	switch what := f.n(0, 8); {
	case what == 0:
		if node := f.node(f.n(0, 40)); f.snapshot.Node(node.Name) == nil {
			f.setNodes(append(nodes, node))
		}
	case len(nodes) == 0:
	case what == 1:
		i := f.n(0, len(nodes)-1)
		f.placed = slices.DeleteFunc(f.placed, func(task *model.Task) bool { return task.Node == nodes[i].Name })
		f.snapshot.SetNodes(slices.Delete(nodes, i, i+1))
	case what == 2:
		node := nodes[f.n(0, len(nodes)-1)]
		node.Object, node.Invalid = f.object(), nil
		if f.n(0, 3) == 0 {
			node.Invalid = &model.Refusal{Code: model.NodesFiltered, Detail: "broken"}
		}
		f.snapshot.NodeChanged(node)
	case len(f.placed) > 0:
		i := f.n(0, len(f.placed)-1)
		f.snapshot.Update(f.placed[i], func(task *model.Task) {
			task.Status = []model.Status{model.Running, model.Releasing, model.Pipelined, model.Succeeded}[f.n(0, 3)]
		})
		if !f.placed[i].Status.HasNode() {
			f.placed = slices.Delete(f.placed, i, i+1)
		}
	}
}

// compare asks the session, one that remembers nothing, and every plugin about every node.
func (f *field) compare(session, afresh *Session) {
	task := f.task()
	for _, room := range []model.CapacityKind{model.Idle, model.FutureIdle} {
		var within func(*model.Node) bool
		if f.n(0, 4) == 0 {
			within = func(node *model.Node) bool { return grade(node) < 2 }
		}
		node, why := session.askFor(task, room).BestOrWhy(task, within)
		ask := afresh.askFor(task, room)
		want, wantWhy := ask.chooseUncached(task, within)
		if node != want {
			f.t.Fatalf("%s %s: chose %s, want %s", task.Shape.Value(), task.Role, name(node), name(want))
		}
		if again := ask.Best(task, within); again != want {
			f.t.Fatalf("%s %s: a session that remembers nothing chose %s, want %s", task.Shape.Value(), task.Role, name(again), name(want))
		}
		if node == nil && fmt.Sprint(why.Causes()) != fmt.Sprint(wantWhy.Causes()) {
			f.t.Fatalf("%s %s: says %v, want %v", task.Shape.Value(), task.Role, why.Causes(), wantWhy.Causes())
		}
		if got, want := session.askFor(task, room).All(task), ask.feasibleUncached(task); !slices.Equal(got, want) {
			f.t.Fatalf("%s %s: %d nodes are feasible, want %d", task.Shape.Value(), task.Role, len(got), len(want))
		}
		if task.Role == "" { // else it matters, too, what is on all nodes
			f.recount(session, task, room, ask.feasibleUncached(task))
		}
	}
}

// recount is invariant T6, and T9 after what was taken back: the tables of what fits on each node and into each domain are what
// counting again gives, from labels and from what is idle.
func (f *field) recount(session *Session, task *model.Task, room model.CapacityKind, feasible []*model.Node) {
	level, fits := session.Domains("label:grade"), session.askFor(task, room).Counts(task)
	sums := map[string]int64{}
	for _, node := range f.snapshot.Nodes {
		path, n := "", int32(0)
		if level.Of(node) >= 0 {
			path = level.Path(level.Of(node))
		}
		if slices.Contains(feasible, node) {
			n = int32(node.Free(room).Copies(task.Request))
		}
		if got := fits.Each()[node.Index]; path != node.Object.Labels["grade"] || got != n {
			f.t.Fatalf("%s: in domain %q, want %q; %d of %s fit, want %d", node.Name, path, node.Object.Labels["grade"], got, task.Shape.Value(), n)
		}
		sums[path] += int64(n)
	}
	for domain, got := range fits.In(level) {
		if want := sums[level.Path(domain)]; got != want {
			f.t.Fatalf("%d of %s fit into %s, want %d", got, task.Shape.Value(), level.Name(domain), want)
		}
	}
}

func name(node *model.Node) string {
	if node == nil {
		return "none"
	}
	return node.Name
}

// TestMemoryChangesNoAnswer: whatever happens within sessions and between them, what is remembered is what would be said
// again.
func TestMemoryChangesNoAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &field{t: t, snapshot: &model.Snapshot{Dimensions: model.NewDimensions()}}
		for i, key := range jobs {
			f.snapshot.Jobs = append(f.snapshot.Jobs, &model.Job{Key: key, Priority: int32(i + 1)})
		}
		weights := f.weights()
		f.profile = &Profile{Tiers: []Tier{{TierPlugin{Factory: func() framework.Plugin { return &choosy{named: "choosy", weights: weights} }}}}}
		var nodes []*model.Node
		for i := range f.n(0, 20) {
			nodes = append(nodes, f.node(i))
		}
		f.setNodes(nodes)
		for range f.n(4, 20) {
			for range f.n(0, 4) {
				f.change()
			}
			if f.n(0, 2) == 0 || len(f.snapshot.Held()) > 0 { // the live state says so before each session, since nodes may have gone
				f.keep()
			}
			session := Open(f.snapshot, f.profile, Options{Cache: &f.cache})
			afresh := Open(f.snapshot, f.profile, Options{Afresh: true})
			for range f.n(0, 8) {
				f.compare(session, afresh)
				f.tryOne(session)
			}
			session.Close()
		}
	})
}

// tryOne places or promises a few tasks, or takes that back, or some of it, immediately.
func (f *field) tryOne(session *Session) {
	var placed []*model.Task
	keep := f.n(0, 2) > 0
	refusal := session.Try(func(*Statement) *model.Refusal {
		for range f.n(1, 3) {
			task, room, stays := f.task(), model.CapacityKind(f.n(0, 1)), f.n(0, 2) > 0
			refusal := session.Try(func(statement *Statement) *model.Refusal {
				ask := session.askFor(task, room)
				node := ask.Best(task, nil)
				if node == nil || statement.Put(ask, task, node) != nil || !stays {
					return no("Changed")
				}
				return nil
			})
			if refusal == nil {
				placed = append(placed, task)
			}
		}
		if !keep {
			return no("Changed")
		}
		return nil
	})
	if refusal == nil {
		f.placed = append(f.placed, placed...)
	}
}

// fond counts how often it is asked what it likes about a place in the world.
type fond struct {
	named
	asked int
}

func (f *fond) PreScore(_ *model.Task, scope framework.FilterScope, _ []*model.Node) []framework.NodeScore {
	if scope == framework.ClusterWide {
		f.asked++
	}
	return nil
}

// TestFullNodesAreNotRanked: where no node has capacity, and where it does not matter which is best, no plugin is asked for
// scores that depend on the whole cluster. These cost most.
func TestFullNodesAreNotRanked(t *testing.T) {
	f := &fond{named: "fond"}
	snapshot := house(1, 2)
	session := Open(snapshot, profileOf(f), Options{})
	large := join(snapshot, "large", 1, 1, model.Resources{3}).Tasks[0]
	small := join(snapshot, "small", 1, 1, model.Resources{2}).Tasks[0]
	large.Shape, small.Shape = shapes[2], shapes[1]
	if node := session.askFor(large, model.Idle).Best(large, nil); node != nil || f.asked > 0 {
		t.Errorf("chose %s for the large one, and asked %d times", name(node), f.asked)
	}
	session.askFor(small, model.Idle).All(small)
	if f.asked > 0 {
		t.Errorf("asked %d times where there is nothing to choose", f.asked)
	}
	if node := session.askFor(small, model.Idle).Best(small, nil); node == nil || f.asked != 1 {
		t.Errorf("chose %s for the small one, and asked %d times", name(node), f.asked)
	}
}
