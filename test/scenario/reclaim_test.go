package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// economy is a closed cluster of queues: no job comes or ends, pods that are evicted are created again, and nothing but capacity
// decides where they go.
type economy struct {
	*random
	*environment
	t rapid.TB
	// lines are what the cluster began as.
	lines string
}

const reclaimFreely = `actions: "allocate, %s"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: nodeorder
  - name: proportion
configurations:
- name: reclaim
  arguments: {minRunSeconds: 0}
`

// draw draws nodes, queues of one or two levels, and jobs that fill the nodes, or more.
func (e *economy) draw(levels int) string {
	lines := ""
	for i := range e.n(1, 3) {
		lines += fmt.Sprintf("node n%d cpu=%d memory=%dGi nvidia.com/gpu=%d pods=100\n", i, e.n(2, 8), e.n(2, 8), e.n(0, 6))
	}
	var leaves []string
	queue := func(name, parent string, most int) {
		lines += fmt.Sprintf("queue %s selector=* weight=%d%s", name, e.n(0, 3), parent)
		if e.n(0, 2) == 0 {
			lines += fmt.Sprintf(" guarantee=nvidia.com/gpu:%d", e.n(0, most))
			if e.n(0, 1) == 0 {
				lines += fmt.Sprintf(",cpu:%d", e.n(0, most))
			}
		} else if e.n(0, 3) == 0 {
			lines += fmt.Sprintf(" guarantee=cpu:%d", e.n(0, most)) + e.one("", ",memory:3Gi")
		} else if e.n(0, 5) == 0 {
			lines += fmt.Sprintf(" limit=cpu:%d", e.n(2, 12))
		}
		lines += "\n"
	}
	for i := range e.n(2, 3) {
		name := fmt.Sprintf("q%d", i)
		queue(name, "", 8)
		below := 0
		if levels > 1 {
			below = e.n(0, 2)
		}
		for j := range below {
			leaf := fmt.Sprintf("%s-%d", name, j)
			queue(leaf, " parent="+name, 5)
			leaves = append(leaves, leaf)
		}
		if below == 0 {
			leaves = append(leaves, name)
		}
	}
	for i := range e.n(3, 9) {
		members := e.n(1, 4)
		name, leaf := fmt.Sprintf("j%d", i), e.one(leaves...)
		request := e.one("cpu=1", "cpu=1", "cpu=2", "cpu=1 nvidia.com/gpu=1", "cpu=1 nvidia.com/gpu=1", "nvidia.com/gpu=2",
			"cpu=1 memory=1Gi", "cpu=1 memory=2Gi", "memory=1Gi")
		lines += fmt.Sprintf("group %s min=%d queue=%s\npods %s-{1..%d} group=%s %s priority=%d age=%dm\n",
			name, e.n(1, members), leaf, name, members, name, request, e.n(0, 2), e.n(1, 9))
	}
	return lines
}

// back removes the pods that are being deleted and creates them again, younger.
func (e *economy) back() {
	w := e.world
	for _, name := range w.podNames(func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }) {
		pod := w.pods[name].DeepCopy()
		if err := w.remove("pod", []string{name}); err != nil {
			e.t.Fatal(err)
		}
		e.names++
		pod.Spec.NodeName, pod.Status, pod.DeletionTimestamp = "", corev1.PodStatus{Phase: corev1.PodPending}, nil
		again := line{kind: "pod", namespace: pod.Namespace, name: fmt.Sprintf("again%03d", e.names)}
		if err := w.setPod(pod, again); err != nil {
			e.t.Fatal(err)
		}
	}
}

// queues are the queues as they are: what the jobs of each hold, and ask for if they could start in an empty cluster.
func (e *economy) queues() map[string]*invariants.Queue {
	all := map[string]*invariants.Queue{}
	for name, queue := range e.world.queues {
		weight := int64(1)
		if queue.Spec.Weight != nil {
			weight = int64(*queue.Spec.Weight)
		}
		all[name] = &invariants.Queue{
			Parent: queue.Spec.Parent, Weight: weight, Guarantee: invariants.AmountsOf(queue.Spec.Guarantee), Limit: invariants.AmountsOf(queue.Spec.Limit),
			Used: invariants.Amounts{}, Demand: invariants.Amounts{},
		}
	}
	supply := e.supply()
	for name, group := range e.world.groups {
		queue := all[group.Spec.Queue]
		has, waits, least, possible := int32(0), int32(0), invariants.Amounts{}, invariants.Amounts{}
		for _, pod := range e.membersOf(name) {
			request := invariants.RequestOf(pod)
			switch {
			case e.nodeOf(pod) != "" && pod.Status.Phase != corev1.PodSucceeded:
				queue.Used.Add(request, 1)
				queue.Demand.Add(request, 1)
				if pod.DeletionTimestamp == nil {
					has++
				}
			case pod.Status.NominatedNodeName != "" && pod.DeletionTimestamp == nil:
				queue.Used.Add(request, 1)
				queue.Demand.Add(request, 1)
				waits++
			case e.fitsEmpty(request) && pod.DeletionTimestamp == nil:
				possible.Add(request, 1)
				waits++
			}
			least = request // all members are alike
		}
		enough := waits+has >= group.Spec.MinMember
		needs := max(0, group.Spec.MinMember-has)
		for r, amount := range least {
			enough = enough && amount*int64(needs) <= max(0, supply[r])
		}
		for _, above := range e.world.above(group.Spec.Queue) {
			for r, limit := range all[above].Limit {
				enough = enough && (least[r] == 0 || needs == 0 || least[r]*int64(needs) <= limit)
			}
		}
		if enough {
			queue.Demand.Add(possible, 1)
		}
	}
	return all
}

func (e *economy) membersOf(group string) (pods []*corev1.Pod) {
	for _, name := range e.world.podNames(func(pod *corev1.Pod) bool { return groupOf(pod) == group }) {
		pods = append(pods, e.world.pods[name])
	}
	return pods
}

func (e *economy) supply() invariants.Amounts {
	sum := invariants.Amounts{}
	for _, node := range e.world.nodes {
		sum.Add(invariants.AmountsOf(node.Status.Allocatable), 1)
	}
	return sum
}

func (e *economy) fitsEmpty(request invariants.Amounts) bool {
	for _, node := range e.world.nodes {
		if invariants.AmountsOf(node.Status.Allocatable).Slots(request) > 0 {
			return true
		}
	}
	return false
}

// running is what each job has on nodes, of a moment.
type running map[types.UID]bool

// units divides what runs: the pods that a job can spare, the youngest first, and the rest.
func (e *economy) units(runs, taken running) (units []invariants.Unit) {
	for _, name := range slices.Sorted(maps.Keys(e.world.groups)) {
		group := e.world.groups[name]
		pods := slices.DeleteFunc(e.membersOf(name), func(pod *corev1.Pod) bool { return !runs[pod.UID] })
		if len(pods) == 0 {
			continue
		}
		began := func(pod *corev1.Pod) int64 {
			if pod.Status.StartTime != nil {
				return pod.Status.StartTime.Unix()
			}
			if at := model.PodScheduled(pod); at != nil {
				return at.LastTransitionTime.Unix()
			}
			if e.nodeOf(pod) != pod.Spec.NodeName { // bound in this cycle
				return e.world.now.Unix()
			}
			return pod.CreationTimestamp.Unix()
		}
		started := func(pod *corev1.Pod) int64 {
			if pod.Status.StartTime != nil {
				return pod.Status.StartTime.UnixNano()
			}
			return pod.CreationTimestamp.UnixNano()
		}
		slices.SortFunc(pods, func(a, b *corev1.Pod) int {
			return cmp.Or(cmp.Compare(*a.Spec.Priority, *b.Spec.Priority), cmp.Compare(started(b), started(a)), cmp.Compare(a.UID, b.UID))
		})
		times := make([]int64, len(pods)) // one that goes instead counts as old as the one that could be spared
		for i, pod := range pods {
			times[i] = began(pod)
		}
		spare := max(0, len(pods)-int(group.Spec.MinMember))
		for i := range pods[:spare] { // any that are alike may be the ones that can be spared
			like := func(other *corev1.Pod) bool {
				return taken[other.UID] && reflect.DeepEqual(other.Spec.Containers, pods[i].Spec.Containers)
			}
			if at := slices.IndexFunc(pods[spare:], like); at >= 0 && !taken[pods[i].UID] {
				pods[i], pods[spare+at] = pods[spare+at], pods[i]
			}
		}
		for i, pod := range pods {
			if i <= spare {
				units = append(units, invariants.Unit{
					Queue: group.Spec.Queue, Job: name, Amounts: invariants.Amounts{}, Priority: *pod.Spec.Priority, Began: times[i], Surplus: i < spare,
				})
			}
			unit := &units[len(units)-1]
			unit.Amounts.Add(invariants.RequestOf(pod), 1)
			unit.Began, unit.Taken = min(unit.Began, times[i]), unit.Taken || taken[pod.UID]
		}
	}
	return units
}

// judge holds every decision of a cycle that takes from other queues to the rights, on what was before and after it.
func (e *economy) judge(o *outcome, queues map[string]*invariants.Queue, runs running) (evicted int) {
	used := map[string]invariants.Amounts{}
	for name, queue := range queues {
		used[name] = invariants.Amounts{}
		used[name].Add(queue.Used, 1)
	}
	placed := map[types.UID]bool{}
	requestOf := func(pod model.PodRef) (invariants.Amounts, string) {
		of := e.world.pods[key(pod.Namespace, pod.Name)]
		return invariants.RequestOf(of), e.world.groups[groupOf(of)].Spec.Queue
	}
	for _, pod := range e.world.pods { // pods that go do not count
		if pod.DeletionTimestamp != nil && pod.Spec.NodeName != "" {
			request, queue := requestOf(model.PodRef{Namespace: pod.Namespace, Name: pod.Name})
			used[queue].Add(request, -1)
		}
		if pod.Status.NominatedNodeName != "" && pod.Spec.NodeName == "" {
			placed[pod.UID] = true
		}
	}
	nominated := map[types.UID]bool{}
	for _, decision := range o.decisions {
		for _, nomination := range decision.Nominations {
			nominated[nomination.Pod.UID] = nomination.Node != ""
		}
	}
	free := map[string]invariants.Amounts{} // nominated without a victim: before any is looked for, or for jobs that were deferred
	for _, node := range o.snapshot.Nodes {
		for _, task := range node.Tasks {
			if task.Status == model.Pipelined && !nominated[task.UID] && !placed[task.UID] {
				request, queue := requestOf(task.PodRef)
				if free[queue] == nil {
					free[queue] = invariants.Amounts{}
				}
				free[queue].Add(request, 1)
			}
		}
	}
	for _, decision := range o.decisions {
		gains, taken, own := invariants.Amounts{}, running{}, invariants.Amounts{}
		taker := e.queueOf(decision.Job)
		for _, bind := range decision.Binds {
			runs[bind.Pod.UID] = true
			if request, queue := requestOf(bind.Pod); !placed[bind.Pod.UID] {
				used[queue].Add(request, 1)
			}
		}
		for _, pod := range e.world.pods {
			if e.jobOf(pod) == decision.Job && placed[pod.UID] && pod.Status.NominatedNodeName != "" && pod.Spec.NodeName == "" {
				own.Add(invariants.RequestOf(pod), 1)
			}
		}
		for _, nomination := range decision.Nominations {
			request, _ := requestOf(nomination.Pod)
			if nomination.Node != "" {
				gains.Add(request, 1)
			}
		}
		for _, eviction := range decision.Evictions {
			taken[eviction.Pod.UID] = true
		}
		before := map[string]invariants.Amounts{}
		for name, amounts := range used {
			before[name] = maps.Clone(amounts)
		}
		before[taker].Add(own, -1)
		judged := invariants.Reclaim{
			Queues: queues, Used: before, Supply: e.supply(), Taker: taker, Gains: gains, Right: string(decision.Right()), Units: e.units(runs, taken),
		}
		if decision.Right() != "" {
			if err := judged.Check(); err != nil {
				for queue, amounts := range free {
					judged.Used[queue].Add(amounts, 1)
				}
				if len(free) == 0 || judged.Check() != nil {
					e.t.Fatalf("%v\n%s\n%s\n%+v", err, e.lines, o, judged)
				}
				for queue, amounts := range free {
					judged.Used[queue].Add(amounts, -1)
				}
			}
		}
		if len(decision.Nominations) > 0 {
			used[taker] = before[taker]
			used[taker].Add(gains, 1)
			for _, nomination := range decision.Nominations {
				placed[nomination.Pod.UID] = nomination.Node != ""
			}
		}
		for _, eviction := range decision.Evictions {
			request, queue := requestOf(eviction.Pod)
			used[queue].Add(request, -1)
			delete(runs, eviction.Pod.UID)
			evicted++
		}
	}
	return evicted
}

// judgeUnmet is invariant Q16: at rest, a queue says that its guarantee is unmet if and only if a job waits that lacks nothing
// but capacity and is within it, or would be without lower jobs of its queue, or if there were enough for all guarantees and no
// limit above were lower; and that no pods are ending for it. It says that guarantees are more than there is whether or not jobs
// wait.
func (e *economy) judgeUnmet(o *outcome, queues map[string]*invariants.Queue) (unmet int) {
	want, written, used := map[string]bool{}, map[string][]string{}, map[string]invariants.Amounts{}
	for name, queue := range queues {
		used[name] = queue.Used
	}
	for name, group := range e.world.groups {
		refusal := o.refusals[model.JobKey{Namespace: group.Namespace, Name: name}]
		if refusal == nil {
			continue
		}
		has, waits, fits, needs := int32(0), int32(0), int32(0), invariants.Amounts{}
		for _, pod := range e.membersOf(name) {
			request := invariants.RequestOf(pod)
			if e.nodeOf(pod) != "" {
				has++
				continue
			}
			if waits++; e.fitsEmpty(request) {
				fits++
			}
			if needs = (invariants.Amounts{}); group.Spec.MinMember > has {
				needs.Add(request, int64(group.Spec.MinMember-has))
			}
		}
		if waits+has < group.Spec.MinMember || has >= group.Spec.MinMember {
			continue
		}
		judged := invariants.Reclaim{
			Queues: queues, Used: used, Supply: e.supply(), Taker: group.Spec.Queue, Gains: needs, Lower: e.heldBelow(name),
		}
		reason, possible := model.UnmetOversubscribed, fits+has >= group.Spec.MinMember
		if refusal.Code == model.QueueLimit && possible {
			reason = model.UnmetLimit
		}
		within, only := judged.Within(possible, reason == model.UnmetLimit)
		for _, queue := range within {
			want[queue] = true
		}
		for _, queue := range only {
			written[queue] = append(written[queue], reason)
		}
	}
	promised := invariants.Reclaim{Queues: map[string]*invariants.Queue{}, Supply: e.supply(), Gains: invariants.Amounts{}}
	for name, queue := range queues { // as if each asked for what it is guaranteed
		promised.Queues[name] = &invariants.Queue{
			Parent: queue.Parent, Weight: queue.Weight, Guarantee: queue.Guarantee, Limit: queue.Limit, Demand: queue.Guarantee,
		}
		promised.Gains.Add(queue.Guarantee, 1)
	}
	reduced := promised.Reduced()
	for _, queue := range o.snapshot.Queues {
		if slices.Contains(reduced, queue.Name) != (queue.Oversubscribed != "") {
			e.t.Fatalf("queue %s says %q, reduced are %q\n%s\n%s", queue.Name, queue.Oversubscribed, reduced, e.lines, o)
		}
		says, ok := queue.Unmet != nil, false
		switch {
		case want[queue.Name]:
			ok = says && queue.Unmet.Reason != model.UnmetOversubscribed
		case len(written[queue.Name]) > 0:
			ok = says && slices.Contains(written[queue.Name], queue.Unmet.Reason)
		default:
			ok = !says
		}
		if !ok || says && queue.Unmet.Reason == string(model.WaitingForVictims) {
			e.t.Fatalf("queue %s says %+v, unmet are %v and %v\n%s\n%s", queue.Name, queue.Unmet, want, written, e.lines, o)
		}
		if says {
			unmet++
		}
	}
	return unmet
}

// heldBelow is what groups of lower priority than one hold in its queue.
func (e *economy) heldBelow(name string) invariants.Amounts {
	held, members := invariants.Amounts{}, e.membersOf(name)
	for other, group := range e.world.groups {
		if group.Spec.Queue != e.world.groups[name].Spec.Queue || len(members) == 0 {
			continue
		}
		for _, pod := range e.membersOf(other) {
			if e.nodeOf(pod) != "" && *pod.Spec.Priority < *members[0].Spec.Priority {
				held.Add(invariants.RequestOf(pod), 1)
			}
		}
	}
	return held
}

// TestASpareMemberGoesInsteadOfTheYoungest is Q8 where the youngest member, which no guarantee covers, is on a node of no use: an
// older one that is like it goes in its place.
func TestASpareMemberGoesInsteadOfTheYoungest(t *testing.T) {
	e := &economy{environment: openLister(t)(), t: t}
	e.environment.configuration = fmt.Appendf(nil, reclaimFreely, "reclaim")
	if err := e.world.apply(`node n0 cpu=1 nvidia.com/gpu=1 pods=100
node n1 cpu=4 pods=100
queue q0 selector=* weight=0 guarantee=cpu:4
queue q1 selector=*
group j0 min=2 queue=q0
pods j0-1 group=j0 cpu=1 age=9m priority=1 node=n0 phase=Running
pods j0-2 group=j0 cpu=1 age=9m priority=1 node=n1 phase=Running
pods j0-3 group=j0 cpu=1 age=1m priority=1 node=n1 phase=Running
group j1 min=2 queue=q0
pods j1-{1..2} group=j1 cpu=1 age=5m priority=1 node=n1 phase=Running
group j2 min=1 queue=q1
pods j2-1 group=j2 cpu=1 nvidia.com/gpu=1 priority=1 age=1m
`); err != nil {
		t.Fatal(err)
	}
	runs := running{}
	for _, pod := range e.world.pods {
		runs[pod.UID] = pod.Spec.NodeName != ""
	}
	queues := e.queues()
	o, err := e.cycle()
	if err != nil {
		t.Fatal(err)
	}
	if evicted := e.judge(o, queues, runs); evicted != 1 || o.decisions[0].Evictions[0].Pod.Name != "j0-1" {
		t.Errorf("not j0-1 alone goes:\n%s", o)
	}
}

// TestReclaimComesToRest is invariants Q8, Q10 and I20: each decision stands on its right, and in a cluster in which no job
// comes or ends no pod is evicted any more after some rounds, although none is left alone for having started lately, and
// without preempt.
func TestReclaimComesToRest(t *testing.T) {
	newStage := openLister(t)
	for levels := 1; levels <= 2; levels++ {
		t.Run(fmt.Sprint(levels, " levels"), func(t *testing.T) {
			reclaims, unmet := map[model.Right]int{}, 0
			rapid.Check(t, func(t *rapid.T) {
				e := &economy{random: &random{t: t}, environment: newStage(), t: t}
				actions := e.one("reclaim", "reclaim, preempt")
				e.environment.configuration = fmt.Appendf(nil, reclaimFreely, actions)
				lines := e.draw(levels)
				e.lines = lines
				if err := e.world.apply(lines); err != nil {
					t.Fatal(err)
				}
				// Priorities in a queue undo what shares have made: preempt frees what a lower job of the queue has a guarantee of, and
				// that takes it elsewhere. What bounds this is the time that reclaim leaves groups alone, which is none here.
				rounds := 40
				if actions != "reclaim" {
					rounds = 12
				}
				history := ""
				quiet := 0
				for round := range rounds {
					runs := running{}
					for _, pod := range e.world.pods {
						runs[pod.UID] = pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil
					}
					queues := e.queues()
					o, err := e.cycle()
					if err != nil {
						t.Fatalf("%v\n%s\n%s", err, lines, history)
					}
					for _, decision := range o.decisions {
						reclaims[decision.Right()] += len(decision.Evictions)
					}
					history += o.String() + "\n"
					if evicted := e.judge(o, queues, runs); evicted == 0 && len(o.decisions) == 0 {
						if quiet++; quiet == 2 {
							unmet += e.judgeUnmet(o, queues)
							return
						}
					} else {
						quiet = 0
					}
					if err := e.confirm(); err != nil {
						t.Fatal(err)
					}
					bound := e.world.podNames(func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodPending })
					if err := e.applyEvents("run", bound, nil); err != nil {
						t.Fatal(err)
					}
					if round%3 < 2 {
						e.back()
					}
					e.world.now = e.world.now.Add(10 * time.Second)
				}
				if actions != "reclaim" {
					return
				}
				t.Fatalf("pods are still evicted after %d rounds:\n%s\n%s", rounds, lines, strings.Join(strings.Split(history, "\n\n")[rounds-6:], "\n\n"))
			})
			if reclaims[model.ByGuarantee] == 0 || reclaims[model.ByShare] == 0 {
				t.Errorf("pods were evicted %v times", reclaims)
			}
			if unmet == 0 {
				t.Error("no guarantee was ever unmet")
			}
		})
	}
}
