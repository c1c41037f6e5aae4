package model

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

func TestLacking(t *testing.T) {
	node := func(idle, releasing, promised Resources) *Node {
		return &Node{idle: idle, releasing: releasing, pipelined: promised}
	}
	for name, c := range map[string]struct {
		node    *Node
		request Resources
		room    CapacityKind
		want    int
	}{
		"fits exactly":                              {node(Resources{4}, nil, nil), Resources{4}, Idle, -1},
		"one too many":                              {node(Resources{4}, nil, nil), Resources{5}, Idle, 0},
		"the higher of two":                         {node(Resources{4, 4}, nil, nil), Resources{5, 5}, Idle, 1},
		"second":                                    {node(Resources{4, 4}, nil, nil), Resources{4, 5}, Idle, 1},
		"resource the node never heard of":          {node(Resources{4}, nil, nil), Resources{0, 0, 0, 0, 1}, Idle, 4},
		"nothing on an overdrawn node":              {node(Resources{-4, 4}, nil, nil), Resources{0, 1}, Idle, -1},
		"something on an overdrawn node":            {node(Resources{-4, 4}, nil, nil), Resources{1, 0}, Idle, 0},
		"released capacity is not idle":             {node(Resources{1}, Resources{3}, nil), Resources{4}, Idle, 0},
		"released capacity is future capacity":      {node(Resources{1}, Resources{3}, nil), Resources{4}, FutureIdle, -1},
		"nominated capacity is for its job":         {node(Resources{1}, Resources{3}, Resources{1}), Resources{4}, FutureIdle, 0},
		"a nomination on what is being released":    {node(Resources{1}, Resources{3}, Resources{3}), Resources{1}, Idle, -1},
		"a nomination that needs idle capacity too": {node(Resources{1}, Resources{3}, Resources{4}), Resources{1}, Idle, 0},
		"released capacity makes good a debt":       {node(Resources{-1}, Resources{3}, nil), Resources{2}, FutureIdle, -1},
		"and no more":                               {node(Resources{-1}, Resources{3}, nil), Resources{3}, FutureIdle, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := NewDimensions().InsufficientResource(c.node.Free(c.room), c.request); got != c.want {
				t.Errorf("lacking %d, want %d", got, c.want)
			}
			if fits := c.node.Free(c.room).Fits(c.request); fits != (c.want < 0) {
				t.Errorf("fits: %t, lacking %d", fits, c.want)
			}
		})
	}
}

// TestLackingNamesTheSame: of several missing devices the first by name is named, whichever was seen first.
func TestLackingNamesTheSame(t *testing.T) {
	for _, order := range [][]corev1.ResourceName{{"a/a", "b/b"}, {"b/b", "a/a"}} {
		d := NewDimensions()
		request := Resources{1, 0, 0, 1}
		for _, name := range order {
			request.Set(d.Index(name), 1)
		}
		if got := d.Name(d.InsufficientResource((&Node{}).Free(Idle), request)); got != "a/a" {
			t.Errorf("seen in the order %v: %s", order, got)
		}
	}
}

// TestIdleIsFuture: what fits idle capacity fits future idle capacity.
func TestIdleIsFuture(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.SliceOfN(rapid.Int64Range(-3, 6), 0, 4)
		some := rapid.SliceOfN(rapid.Int64Range(0, 6), 0, 4)
		node := &Node{idle: small.Draw(t, "idle"), releasing: some.Draw(t, "releasing"), pipelined: some.Draw(t, "promised")}
		request := Resources(some.Draw(t, "request"))
		if node.Free(Idle).Fits(request) && !node.Free(FutureIdle).Fits(request) {
			t.Fatal("fits idle capacity, lacks future capacity")
		}
	})
}

// crowded draws nodes and tasks, some of them on nodes, as a snapshot without jobs.
func crowded(t *rapid.T) (*Snapshot, []*Task) {
	snapshot := &Snapshot{Dimensions: NewDimensions()}
	for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
		room := Resources(rapid.SliceOfN(rapid.Int64Range(0, 9), 0, 5).Draw(t, "allocatable"))
		snapshot.Nodes = append(snapshot.Nodes, &Node{Name: fmt.Sprintf("n%d", i), allocatable: room, idle: room.Clone()})
	}
	var tasks []*Task
	for i := range rapid.IntRange(1, 6).Draw(t, "tasks") {
		task := &Task{
			PodRef:             PodRef{UID: types.UID(fmt.Sprintf("u%d", i)), Name: fmt.Sprintf("p%d", i)},
			Request:            rapid.SliceOfN(rapid.Int64Range(0, 9), 0, 5).Draw(t, "request"),
			TerminationOverdue: rapid.Bool().Draw(t, "stuck"),
		}
		tasks = append(tasks, task)
		snapshot.Move(task, position(t, snapshot))
	}
	return snapshot, tasks
}

func position(t *rapid.T, snapshot *Snapshot) Placement {
	status := Status(rapid.IntRange(int(Pending), int(Failed)).Draw(t, "status"))
	if !status.HasNode() {
		return Placement{Status: status}
	}
	// One of the names is of a node that does not exist.
	return Placement{Status: status, Node: fmt.Sprintf("n%d", rapid.IntRange(0, len(snapshot.Nodes)).Draw(t, "node"))}
}

func books(snapshot *Snapshot, tasks []*Task) []string {
	var lines []string
	for _, node := range snapshot.Nodes {
		line := fmt.Sprint(node.Name)
		for i := range 5 {
			line += fmt.Sprintf(" %d/%d/%d", node.Idle(i), node.releasing.At(i), node.pipelined.At(i))
		}
		for _, task := range node.Tasks {
			line += " " + string(task.UID)
		}
		lines = append(lines, line)
	}
	for _, task := range tasks {
		lines = append(lines, fmt.Sprint(task.UID, task.Placement))
	}
	return lines
}

// TestMoveIsItsOwnInverse: moves in any order, undone in reverse, leave the accounting as it was; in between it always adds
// up.
func TestMoveIsItsOwnInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snapshot, tasks := crowded(t)
		before := books(snapshot, tasks)
		type move struct {
			task *Task
			from Placement
		}
		var moves []move
		for range rapid.IntRange(0, 10).Draw(t, "moves") {
			task := rapid.SampledFrom(tasks).Draw(t, "task")
			moves = append(moves, move{task, snapshot.Move(task, position(t, snapshot))})
			if err := snapshot.Check(); err != nil {
				t.Fatal(err)
			}
		}
		for _, move := range slices.Backward(moves) {
			snapshot.Move(move.task, move.from)
		}
		if after := books(snapshot, tasks); !slices.Equal(before, after) {
			t.Fatalf("before %q\nafter  %q", before, after)
		}
	})
}

// TestCheckFindsWrongBooks plants one error in each amount in turn.
func TestCheckFindsWrongBooks(t *testing.T) {
	for name, spoil := range map[string]func(*Node){
		"idle":         func(n *Node) { n.idle.Set(Memory, 7) },
		"releasing":    func(n *Node) { n.releasing.Add(Resources{1}) },
		"promised":     func(n *Node) { n.pipelined.Add(Resources{1}) },
		"task missing": func(n *Node) { n.Tasks = nil },
		"task's node":  func(n *Node) { n.Tasks[0].Node = "elsewhere" },
		"task's state": func(n *Node) { n.Tasks[0].Status = Succeeded },
	} {
		t.Run(name, func(t *testing.T) {
			node := &Node{Name: "n1", allocatable: Resources{4}, idle: Resources{4}}
			snapshot := &Snapshot{Nodes: []*Node{node}}
			task := &Task{PodRef: PodRef{UID: "u"}, Request: Resources{1}}
			snapshot.Move(task, Placement{Status: Running, Node: "n1"})
			if err := snapshot.Check(); err != nil {
				t.Fatal(err)
			}
			spoil(node)
			if snapshot.Check() == nil {
				t.Fatal("nothing found")
			}
		})
	}
}

// TestBooks gives for each status the change of the node's accounting by a task.
func TestBooks(t *testing.T) {
	for _, c := range []struct {
		status                    Status
		stuck                     bool
		idle, releasing, promised int64
	}{
		{Pending, false, 10, 0, 0},
		{Pipelined, false, 10, 0, 3},
		{Allocated, false, 7, 0, 0},
		{Binding, false, 7, 0, 0},
		{Bound, false, 7, 0, 0},
		{Running, false, 7, 0, 0},
		{Releasing, false, 7, 3, 0},
		{Releasing, true, 7, 0, 0},
		{Running, true, 7, 0, 0},
		{Succeeded, false, 10, 0, 0},
		{Failed, false, 10, 0, 0},
	} {
		node := &Node{Name: "n1", allocatable: Resources{10}, idle: Resources{10}}
		task := &Task{PodRef: PodRef{UID: "u"}, Request: Resources{3}, TerminationOverdue: c.stuck}
		(&Snapshot{Nodes: []*Node{node}}).Move(task, Placement{Status: c.status, Node: "n1"})
		if node.Idle(0) != c.idle || node.releasing.At(0) != c.releasing || node.pipelined.At(0) != c.promised {
			t.Errorf("%s, stuck %v: idle %v, releasing %v, promised %v", c.status, c.stuck, node.idle, node.releasing, node.pipelined)
		}
	}
}

// TestNodeIsFoundByName, also one of a list that was replaced in another way than by SetNodes, as tests do.
func TestNodeIsFoundByName(t *testing.T) {
	s := &Snapshot{}
	s.SetNodes([]*Node{{Name: "a"}, {Name: "b"}, {Name: "c"}})
	expect := func(what string) {
		t.Helper()
		for _, name := range []string{"a", "b", "c", "d"} {
			var want *Node
			for _, node := range s.Nodes {
				if node.Name == name {
					want = node
				}
			}
			if got := s.Node(name); got != want {
				t.Errorf("%s: node %s is %v, want %v", what, name, got, want)
			}
		}
	}
	expect("set")
	s.Nodes = []*Node{s.Nodes[0], {Name: "b", Index: 1}, {Name: "d", Index: 2}}
	expect("replaced")
	s.SetNodes(s.Nodes[1:])
	expect("set again")
	s.Reset()
	expect("none")
}
