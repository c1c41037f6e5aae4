package allocate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

const (
	// exactMembers is up to how many members of different shapes every combination of nodes is tried.
	exactMembers = 8
	// exactBudget bounds that search, in nodes looked at. Six nodes and eight members stay below it unless almost
	// everything fits almost everywhere; past it a gang may wait although it could start.
	exactBudget = 500_000
)

// trial is the attempt to find room for one job's minimum.
type trial struct {
	session *framework.Session
	job     *model.Job
	// members are the waiting tasks in the order to place them.
	members []*model.Task
	// budget is what the exact search may still look at.
	budget int
}

// start places members until every gate agrees. First each member takes its best node. If that fails and members must
// share a domain, domain by domain, so that a small first choice does not make a feasible gang fail; if they differ in
// shape and are few, in every combination, so that an early member does not stand where only a later one could. The
// refusal is that of the first way, which the user would expect.
func (t *trial) start(room model.Room) *model.Refusal {
	refusal := t.session.Try(func(statement *framework.Statement) *model.Refusal {
		return t.place(statement, room, nil)
	})
	if refusal == nil {
		return nil
	}
	for _, domain := range t.domains() {
		started := t.session.Try(func(statement *framework.Statement) *model.Refusal {
			return t.place(statement, room, domain.holds)
		})
		if started == nil {
			return nil
		}
	}
	if t.startExact(room) {
		return nil
	}
	return refusal
}

// place takes members in order until every gate agrees. A member that finds no room is passed over, since another one
// may do; the first of them is the reason when the gates do not agree in the end.
func (t *trial) place(
	statement *framework.Statement, room model.Room, within func(*model.Node) bool,
) *model.Refusal {
	standing := standingFor(room)
	var reason *model.Refusal
	hopeless := map[model.Shape]bool{}
	for _, task := range t.members {
		if t.session.GateJob(t.job, standing) == nil {
			return nil
		}
		if hopeless[task.Shape] {
			continue
		}
		refusal := task.Refused
		if refusal == nil {
			refusal = t.placeOne(statement, task, room, within)
		}
		if refusal != nil {
			hopeless[task.Shape] = !drawsSiblings(task)
			reason = earlier(reason, refusal)
		}
	}
	gate := t.session.GateJob(t.job, standing)
	if gate == nil || reason == nil {
		return gate
	}
	return t.explain(standing, gate, reason)
}

func (t *trial) placeOne(
	statement *framework.Statement, task *model.Task, room model.Room, within func(*model.Node) bool,
) *model.Refusal {
	node, tally := t.session.Choose(task, room, within)
	if node == nil {
		return tally.Refusal(0, 0, task.Role)
	}
	return take(statement, task, node, room)
}

// take places on idle room, and promises room that is still being released.
func take(statement *framework.Statement, task *model.Task, node *model.Node, room model.Room) *model.Refusal {
	if room == model.FutureRoom {
		return statement.Promise(task, node)
	}
	return statement.Place(task, node)
}

func standingFor(room model.Room) framework.Standing {
	if room == model.FutureRoom {
		return framework.WithPromised
	}
	return framework.WithPlaced
}

// explain turns the refusal of one member into the job's: how many the gate needs, how many of them found room, and why
// the first of the others did not.
func (t *trial) explain(standing framework.Standing, gate, member *model.Refusal) *model.Refusal {
	if len(member.Causes) == 0 {
		return member
	}
	whole := *member
	whole.Needs, whole.Has = gate.Needs, gate.Has
	if whole.Needs == 0 {
		whole.Needs, whole.Has = int64(t.job.MinMember), int64(t.job.Count(standing.Counts))
	}
	switch {
	case gate.Needs != 0 && gate.Detail != "":
		whole.Detail = gate.Detail
	case whole.Detail != "":
		whole.Detail = "no room for role " + whole.Detail
	}
	return &whole
}

func earlier(first, second *model.Refusal) *model.Refusal {
	if first != nil {
		return first
	}
	return second
}

// startExact tries every combination of members and nodes, within the budget; of a gang with many members only those that
// make up the minimum.
func (t *trial) startExact(room model.Room) bool {
	short := max(1, int(t.job.MinMember)-t.job.Count(standingFor(room).Counts))
	chosen := t.members
	if len(chosen) > exactMembers {
		chosen = chosen[:min(short, len(chosen))]
	}
	if len(chosen) < 2 || len(chosen) > exactMembers || sameShape(chosen) && !drawsSiblings(chosen[0]) {
		return false
	}
	if !t.enoughFit(chosen, short, room) {
		return false
	}
	t.budget = exactBudget
	return t.session.Try(func(statement *framework.Statement) *model.Refusal {
		return t.combine(statement, chosen, 0, short, room)
	}) == nil
}

func sameShape(tasks []*model.Task) bool {
	return !slices.ContainsFunc(tasks, func(task *model.Task) bool { return task.Shape != tasks[0].Shape })
}

// enoughFit tells whether enough members would find room if each shape were alone: a cheap look that spares the search in
// most clusters that are simply full.
func (t *trial) enoughFit(chosen []*model.Task, short int, room model.Room) bool {
	var fit int64
	for i, task := range chosen {
		same := func(other *model.Task) bool { return other.Shape == task.Shape }
		if slices.IndexFunc(chosen, same) < i {
			continue
		}
		var count, places int64
		for _, other := range chosen {
			if same(other) {
				count++
			}
		}
		for _, node := range t.session.Feasible(task, room) {
			places += node.Fits(task.Request, room)
		}
		if drawsSiblings(task) {
			places = count
		}
		fit += min(count, places)
	}
	return fit >= int64(short)
}

// combine places chosen[i] on each feasible node in turn, or not at all, and the others behind it, until every gate agrees;
// at least short of them must get a place.
func (t *trial) combine(
	statement *framework.Statement, chosen []*model.Task, i, short int, room model.Room,
) *model.Refusal {
	gate := t.session.GateJob(t.job, standingFor(room))
	if gate == nil || i == len(chosen) || len(chosen)-i < short || t.budget <= 0 {
		return gate
	}
	task := chosen[i]
	var nodes []*model.Node
	if task.Refused == nil {
		nodes = t.session.Feasible(task, room)
		t.budget -= max(1, len(nodes))
	}
	for _, node := range nodes {
		if i > 0 && tried(chosen[i-1], task, node) {
			continue
		}
		refusal := t.session.Try(func(inner *framework.Statement) *model.Refusal {
			if refusal := take(inner, task, node, room); refusal != nil {
				return refusal
			}
			return t.combine(inner, chosen, i+1, short-1, room)
		})
		if refusal == nil {
			return nil
		}
	}
	return t.combine(statement, chosen, i+1, short, room)
}

// tried tells whether the node would make the same start again: of equal members the later one never goes to an earlier
// node, nor anywhere when the earlier one was left out.
func tried(before, task *model.Task, node *model.Node) bool {
	equal := before.Shape == task.Shape && before.Role == task.Role && !drawsSiblings(task)
	return equal && node.Name < before.Node || equal && before.Node == ""
}

// drawsSiblings tells whether a placed sibling can open or close nodes to the task, so that one failure does not stand for
// all of its shape.
func drawsSiblings(task *model.Task) bool {
	affinity := task.Pod.Spec.Affinity
	return affinity != nil && (affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil) ||
		len(task.Pod.Spec.TopologySpreadConstraints) > 0
}

// domain is the nodes that share one value of a topology label.
type domain struct{ key, value string }

func (d domain) holds(node *model.Node) bool { return node.Object.Labels[d.key] == d.value }

// domains returns the domains of which the members must choose one, largest idle room first as far as their number of
// nodes tells; none when the members need not share one.
func (t *trial) domains() []domain {
	i := slices.IndexFunc(t.members, func(task *model.Task) bool { return sharedKey(task.Pod) != "" })
	if i < 0 {
		return nil
	}
	task := t.members[i]
	key := sharedKey(task.Pod)
	size := map[string]int{}
	var domains []domain
	for _, node := range t.session.Candidates(task) {
		value, ok := node.Object.Labels[key]
		if !ok {
			continue
		}
		if size[value] == 0 {
			domains = append(domains, domain{key: key, value: value})
		}
		size[value]++
	}
	slices.SortStableFunc(domains, func(a, b domain) int { return size[b.value] - size[a.value] })
	return domains
}

// sharedKey returns the topology key of a required affinity of the pod to pods like itself, empty when it has none.
func sharedKey(pod *corev1.Pod) string {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.PodAffinity == nil {
		return ""
	}
	for _, term := range affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			return term.TopologyKey
		}
	}
	return ""
}
