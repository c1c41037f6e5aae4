package suggest

import (
	"cmp"
	"container/heap"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/place"
)

// shortageSearch is one attempt to find out what capacity is lacking, and where there is least of it lacking.
type shortageSearch struct {
	*search
	statement *framework.Statement
	// rooms are supposed to be free by now; at has the place of a node in them.
	rooms []NodeAmount
	at    map[*model.Node]int
	// missing are the members without capacity, in their order, offers where each kind of them would lack least.
	missing []*model.Task
	offers  map[kind]*shortageHeap
	// freeableCapacity is what could be freed on the nodes that were asked about.
	freeableCapacity map[*model.Node]model.Resources
	// plain reports that nothing but shape and capacity decided.
	plain bool
}

// freeResources returns the least of what others use that would have to end, nil when nothing of that kind helps.
//
// Of members that are all alike the least is exact where no node is overdrawn: what a node lacks for one more of them grows
// with each, so that taking the least each time leads to the least in all. On a node that is overdrawn the first is the
// dearest. Of others it is such that no amount in it can be lowered.
func (q *search) freeResources() *Change {
	rooms, exact := q.fill()
	if len(rooms) == 0 || !q.startsWith(rooms) {
		return nil
	}
	if !exact {
		rooms = q.trim(rooms)
	}
	if len(rooms) == 0 {
		return nil
	}
	return freed(q.session.Snapshot.Dimensions, rooms)
}

// fill places as many members as find capacity, and then others where the least is lacking until every gate agrees. No rooms
// reports that there is not enough in use by the tasks that could leave it.
func (q *search) fill() (rooms []NodeAmount, exact bool) {
	waiting := q.job.Pending()
	q.whatIf(func(statement *framework.Statement) {
		f := &shortageSearch{
			search: q, statement: statement, at: map[*model.Node]int{}, offers: map[kind]*shortageHeap{},
			freeableCapacity: map[*model.Node]model.Resources{}, plain: len(kindsOf(waiting)) == 1,
		}
		defer func() { f.addCapacities(f.rooms, -1) }()
		q.session.ApplyReservations(q.job)
		f.placeAll(slices.SortedFunc(slices.Values(waiting), q.session.CompareTasks))
		for q.session.JobReady(q.job, framework.Pipelined) != nil {
			if !f.placeNext() {
				return
			}
		}
		rooms, exact = slices.DeleteFunc(clone(f.rooms), func(room NodeAmount) bool { return isZero(room.Amount) }), f.plain
	})
	slices.SortFunc(rooms, func(a, b NodeAmount) int { return cmp.Compare(a.Node, b.Node) })
	return rooms, exact
}

func (f *shortageSearch) placeAll(waiting []*model.Task) {
	hopeless := map[model.Shape]bool{}
	for _, task := range waiting {
		if f.session.JobReady(f.job, framework.Pipelined) == nil {
			return
		}
		if !hopeless[task.Shape] {
			node, _ := f.session.SelectNode(task, model.FutureIdle, nil)
			if node != nil && f.statement.Pipeline(task, node) == nil {
				f.left--
				continue
			}
			f.left -= len(f.session.EligibleNodes(task))
			hopeless[task.Shape] = f.session.FitsByResourcesOnly(task)
			f.plain = f.plain && hopeless[task.Shape]
		}
		f.missing = append(f.missing, task)
	}
}

// placeNext places the member, of those that are missing, for which the least capacity is lacking; false when there is none.
func (f *shortageSearch) placeNext() bool {
	for f.left > 0 {
		var best *model.Task
		var offered nodeShortage
		for _, first := range kindsOf(f.missing) {
			if o, ok := f.offersFor(first).least(f, first); ok && (best == nil || o.cost < offered.cost) {
				best, offered = first, o
			}
		}
		if best == nil {
			return false
		}
		if f.take(best, offered.node) {
			f.missing = slices.DeleteFunc(f.missing, func(task *model.Task) bool { return task == best })
			return true
		}
		f.offersFor(best).drop()
	}
	return false
}

// take nominates the task to the node of which some capacity is assumed to be free; false when something else keeps it off.
func (f *shortageSearch) take(task *model.Task, node *model.Node) bool {
	more := rounded(lacking(node, task.Request))
	f.addCapacity(node, more, 1)
	if !f.plain {
		f.left -= 20
	}
	if !f.plain && !f.session.FeasibleOn(task, node, model.FutureIdle) || f.statement.Pipeline(task, node) != nil {
		f.addCapacity(node, more, -1)
		return false
	}
	return true
}

// addCapacity supposes that more capacity of a node is free, or takes that back with a sign of -1.
func (f *shortageSearch) addCapacity(node *model.Node, more model.Resources, sign int64) {
	if isZero(more) {
		return
	}
	i, known := f.at[node]
	if !known {
		i = len(f.rooms)
		f.at[node] = i
		f.rooms = append(f.rooms, NodeAmount{Node: node.Name})
	}
	room := &f.rooms[i].Amount
	f.addCapacities([]NodeAmount{{Node: node.Name, Amount: more}}, sign)
	if sign > 0 {
		room.Add(more)
	} else {
		room.Sub(more)
	}
}

// lacking returns what the node lacks for a request.
func lacking(node *model.Node, request model.Resources) model.Resources {
	var lacks model.Resources
	for _, lack := range node.Shortage(request, model.FutureIdle) {
		lacks.Set(lack.Index, lack.Amount)
	}
	return lacks
}

func isZero(amount model.Resources) bool { return amount.Equal(nil) }

func clone(rooms []NodeAmount) []NodeAmount {
	copied := slices.Clone(rooms)
	for i := range copied {
		copied[i].Amount = copied[i].Amount.Clone()
	}
	return copied
}

// addCapacities makes rooms free, or takes that back with a sign of -1.
func (q *search) addCapacities(rooms []NodeAmount, sign int64) {
	for _, room := range rooms {
		by := room.Amount.Clone()
		for i := range by {
			by[i] *= sign
		}
		if !isZero(by) {
			q.session.Snapshot.AddCapacity(q.session.Snapshot.Node(room.Node), by)
		}
	}
}

// startsWith reports whether the job would start if these rooms were free.
func (q *search) startsWith(rooms []NodeAmount) bool {
	q.addCapacities(rooms, 1)
	defer q.addCapacities(rooms, -1)
	return q.isSchedulable()
}

// mostTrimmed is up to how many amounts are made as small as they can be.
const mostTrimmed = 12

// trim makes every amount as small as it can be with the others as they are by then.
func (q *search) trim(rooms []NodeAmount) []NodeAmount {
	amounts := 0
	for i := range rooms {
		for _, amount := range rooms[i].Amount {
			if amount > 0 {
				amounts++
			}
		}
	}
	for i := 0; i < len(rooms) && amounts <= mostTrimmed; i++ {
		for position, amount := range rooms[i].Amount {
			if amount > 0 {
				q.shrinkAmount(rooms, &rooms[i].Amount[position], granularity(position))
			}
		}
	}
	return slices.DeleteFunc(rooms, func(room NodeAmount) bool { return isZero(room.Amount) })
}

// shrinkAmount finds the least of one amount that will do.
func (q *search) shrinkAmount(rooms []NodeAmount, amount *int64, unit int64) {
	low, high := int64(-1), (*amount+unit-1)/unit // in units: low does not do, high does
	for guess := high - 1; low+1 < high; guess = low + (high-low)/2 {
		if *amount = guess * unit; q.startsWith(rooms) {
			high = guess
		} else if low = guess; q.left <= 0 {
			return
		}
	}
	*amount = high * unit
}

// freeable returns what could be freed on a node: all that pods use there but those of the job itself, of the system, of
// those that belong to the node, and of those that are leaving already.
func (f *shortageSearch) freeable(node *model.Node) model.Resources {
	if known, ok := f.freeableCapacity[node]; ok {
		return known
	}
	sum := model.Resources{}
	f.left -= 1 + len(node.Tasks)/8
	for _, task := range node.Tasks {
		if task.Status.Occupies() && !task.ReleasesResources() && (task.Job != f.job.Key || task.Job == model.JobKey{}) && isEvictable(task) {
			sum.Add(task.Request)
		}
	}
	f.freeableCapacity[node] = sum
	return sum
}

func isEvictable(task *model.Task) bool {
	if task.IsSystemCritical() {
		return false
	}
	owner := metav1.GetControllerOfNoCopy(task.Pod)
	return owner == nil || owner.Kind != "DaemonSet" && owner.Kind != "Node"
}

// nodeShortage is how much a node lacks for one more task of a kind, as a share of the largest node, summed over resources.
type nodeShortage struct {
	cost int64
	node *model.Node
}

// shortageHeap is a heap, the cheapest first, equal ones by name of the node.
type shortageHeap []nodeShortage

func (o shortageHeap) Len() int           { return len(o) }
func (o shortageHeap) Swap(i, j int)      { o[i], o[j] = o[j], o[i] }
func (o shortageHeap) Less(i, j int) bool { return o[i].compare(o[j]) < 0 }
func (o *shortageHeap) Push(x any)        { *o = append(*o, x.(nodeShortage)) }
func (o *shortageHeap) Pop() any {
	last := (*o)[len(*o)-1]
	*o = (*o)[:len(*o)-1]
	return last
}

func (o nodeShortage) compare(other nodeShortage) int {
	return cmp.Or(cmp.Compare(o.cost, other.cost), cmp.Compare(o.node.Name, other.node.Name))
}

func (f *shortageSearch) offersFor(task *model.Task) *shortageHeap {
	known := f.offers[kindOf(task)]
	if known == nil {
		known = &shortageHeap{}
		for _, node := range f.session.EligibleNodes(task) {
			*known = append(*known, nodeShortage{cost: f.cost(node, task), node: node})
		}
		f.left -= len(*known)
		heap.Init(known)
		f.offers[kindOf(task)] = known
	}
	return known
}

// least returns the cheapest offer. One that has become dearer since is put in its place; none becomes cheaper, as no member is
// given more capacity than is taken at the same time. Those that ask for more than could be freed are dropped.
func (o *shortageHeap) least(f *shortageSearch, task *model.Task) (nodeShortage, bool) {
	for len(*o) > 0 {
		first := &(*o)[0]
		if cost := f.cost(first.node, task); cost > first.cost {
			first.cost = cost
			heap.Fix(o, 0)
			continue
		}
		if f.covers(first.node, task) {
			return *first, true
		}
		o.drop()
	}
	return nodeShortage{}, false
}

func (o *shortageHeap) drop() { heap.Pop(o) }

// cost is in 4096ths of the largest node, summed over resources and rounded up.
func (f *shortageSearch) cost(node *model.Node, task *model.Task) int64 {
	const whole = 12 // bits
	var sum int64
	for position, lack := range lacking(node, task.Request) {
		if largest := f.options.Largest.At(position); lack > 0 && largest > 0 {
			sum += lack/largest<<whole + (lack%largest<<whole+largest-1)/largest
		} else if lack > 0 {
			sum += model.MaxAmount
		}
	}
	return sum
}

// covers reports whether what is lacking for the task, with what is supposed to be free already, is in use by tasks that could
// leave.
func (f *shortageSearch) covers(node *model.Node, task *model.Task) bool {
	needed := lacking(node, task.Request)
	if i, known := f.at[node]; known {
		needed.Add(f.rooms[i].Amount)
	}
	could := f.freeable(node)
	for position, amount := range needed {
		if amount > rounding(position, could.At(position)) {
			return false
		}
	}
	return true
}

// addNodes returns what finds how many nodes would have to be added, for a job of whose members so many have capacity, and which
// are all alike and ask for nothing but nodes and their capacity; nothing for others, nor for a job that waits for a domain: in
// which one added nodes are is not known. The nodes are no larger than the largest there is, unless one member is.
func (q *search) addNodes(placed int64) func() *Change {
	return func() *Change {
		waiting := q.job.Pending()
		short := int64(q.job.MinMember) - placed
		special := func(task *model.Task) bool { return !q.session.FitsByResourcesOnly(task) }
		required := func(c model.TopologyConstraint) bool { return !c.Preferred }
		if slices.ContainsFunc(q.job.Topology, required) || place.AwaitsDomain(q.job, q.session.Snapshot.Now) {
			return nil
		}
		if len(kindsOf(waiting)) != 1 || slices.ContainsFunc(waiting, special) || short <= 0 || short > int64(len(waiting)) {
			return nil
		}
		request := waiting[0].Request.Clone()
		request.Set(model.Pods, 0) // a node takes as many pods as it has capacity for, within reason
		each := int64(1)
		if isZero(request) {
			each = mostOnNode
		}
		for _, node := range q.session.Snapshot.Nodes {
			each = max(each, min(mostOnNode, node.Allocatable.Copies(request)))
		}
		q.left -= len(q.session.Snapshot.Nodes)
		nodes := (short + each - 1) / each
		each = (short + nodes - 1) / nodes
		var room model.Resources
		for position, amount := range request {
			room.Set(position, amount*min(each, model.MaxAmount/max(1, amount)))
		}
		return added(q.session.Snapshot.Dimensions.For(waiting[0]), int(nodes), room, waiting[0].Pod)
	}
}

// mostOnNode is how many members a node that is to be added would take at most.
const mostOnNode = 100
