package commit

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/model"
)

// plans is what the model server and the checks of TestEveryBindHasOneTrueOutcome know about nominations and evictions, by
// the name of their job: there is one plan for each.
type plans struct {
	// nominated, marked and evicted count the server's requests about pods.
	nominated       map[types.UID]string
	marked, evicted map[types.UID]bool
	// members are the nominated pods, missing how many of these nominations are not confirmed.
	members map[string][]model.PodRef
	missing map[string]int
	// over is why no pod is to be evicted for a job any more; owed counts the evictions that VictimsGone has not reported.
	over map[string]string
	owed map[string]int
}

func newPlans() plans {
	return plans{
		nominated: map[types.UID]string{}, marked: map[types.UID]bool{}, evicted: map[types.UID]bool{},
		members: map[string][]model.PodRef{}, missing: map[string]int{}, over: map[string]string{}, owed: map[string]int{},
	}
}

// plan adds nominations and evictions to a decision, of random pods.
func (w *world) plan(decision *model.Decision) {
	job := decision.Job.Name
	numbers := func(most int, what string) []int {
		return rapid.SliceOfNDistinct(rapid.IntRange(0, 11), 0, most, rapid.ID).Draw(w.t, what)
	}
	for _, n := range numbers(3, "nominations") {
		pod := pod(fmt.Sprintf("p%d", n))
		decision.Nominations = append(decision.Nominations, model.Nomination{Pod: pod, Node: "capacity-of-" + job})
		w.plans.members[job] = append(w.plans.members[job], pod)
		w.open[key(decision.Job, "promise", pod)]++
	}
	w.plans.missing[job] = len(decision.Nominations)
	for _, n := range numbers(3, "evictions") {
		pod := pod(fmt.Sprintf("p%d", n))
		method := model.EvictionMethod(rapid.IntRange(0, 2).Draw(w.t, "method"))
		decision.Evictions = append(decision.Evictions, model.Eviction{Pod: pod, Method: method})
		w.open[key(decision.Job, "evict", pod)]++
		w.plans.owed[job]++
	}
}

// giveBack releases the nominations of an earlier decision.
func (w *world) giveBack() {
	if w.jobs == 0 {
		return
	}
	job := fmt.Sprintf("j%d", rapid.IntRange(1, w.jobs).Draw(w.t, "job"))
	decision := model.Decision{Job: model.JobKey{Namespace: "ns", Name: job}}
	for _, pod := range w.plans.members[job] {
		decision.Nominations = append(decision.Nominations, model.Nomination{Pod: pod})
		w.open[key(decision.Job, "lapse", pod)]++
		w.plans.over[job] = "given back"
	}
	w.machine.Submit(w.now, decision)
	w.send()
}

// dropEvictions drops the evictions of a plan that has lost a member.
func (p *plans) dropEvictions(lost model.PodRef) {
	for job, members := range p.members {
		for _, member := range members {
			if member == lost {
				p.over[job] = "a member was deleted"
			}
		}
	}
}

// judgePlan expects evictions after all nominations, and none when the plan has been cancelled.
func (w *world) judgePlan(call Call) {
	if !call.Kind.evicts() {
		return
	}
	job := call.Job.Name
	if why := w.plans.over[job]; why != "" {
		w.t.Fatalf("%s of %s for %s: %s", call.Kind, call.Pod, job, why)
	}
	if n := w.plans.missing[job]; n > 0 {
		w.t.Fatalf("%s of %s for %s, which lacks %d nominations", call.Kind, call.Pod, job, n)
	}
	if call.Kind == CallDelete && !w.plans.marked[call.Pod.UID] {
		w.t.Fatalf("%s is deleted and was not marked", call.Pod)
	}
}

func (w *world) settlePlan(o Outcome) {
	p, job := &w.plans, o.Job.Name
	switch o.Kind {
	case Evicted:
		w.settle(o, "evict")
		if !o.PodGone && !p.evicted[o.Pod.UID] && !w.deleted[o.Pod.UID] {
			w.t.Fatalf("reported as evicted, was not: %s", o.Pod)
		}
	case EvictFailed:
		w.settle(o, "evict")
		p.over[job] = "a victim was refused"
	case Nominated:
		w.settle(o, "promise")
		if p.missing[job]--; p.nominated[o.Pod.UID] != o.Node {
			w.t.Fatalf("capacity on %s is nominated to %s, which says %q", o.Node, o.Pod, p.nominated[o.Pod.UID])
		}
	case NominationFailed:
		w.settle(o, "promise")
		p.over[job] = "a nomination failed"
	case NominationReleased:
		w.settle(o, "lapse")
		if said := p.nominated[o.Pod.UID]; o.Message == "" && said != "" {
			w.t.Fatalf("%s was nominated nothing more, and says %q", o.Pod, said)
		}
	case VictimsGone:
		if want := p.owed[job]; want == 0 || len(o.Victims)+o.Failed > want || o.Members != len(p.members[job]) {
			w.t.Fatalf("%+v: want %d evictions for %d", o, want, len(p.members[job]))
		}
		delete(p.owed, job)
	}
}
