package preempt_test

import (
	"flag"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/actions/preempt"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/place"
	"github.com/tutti-sched/tutti/pkg/plugins/conformance"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/pkg/plugins/priority"
)

func profileOf(action engine.Action) *engine.Profile {
	return &engine.Profile{Actions: []engine.Action{placing{}, action}, Topologies: racks(), Tiers: []engine.Tier{{
		{Factory: priority.New}, {Factory: gang.New}, {Factory: conformance.New}, {Factory: func() framework.Plugin { return barred{} }},
	}}}
}

// placing stands in for allocate: it places the minimum of each job that waits, or says why not.
type placing struct{}

func (placing) Name() string { return "placing" }

func (placing) Execute(session *engine.Session) {
	largest := place.Largest(session.Snapshot)
	for _, job := range session.Snapshot.Jobs {
		budget := place.Budget
		if session.JobReady(job, framework.Ready) != nil {
			if refusal := place.New(session.Ask(job, model.Idle), largest, &budget).Place(); refusal != nil {
				session.Refuse(job, refusal)
			}
		}
	}
}

// outcome is what one cycle did for the gang.
type outcome struct {
	binds, nominations int
	victims            map[types.UID]bool
	why                *model.Refusal
}

func play(p *problem, action engine.Action) outcome {
	o := outcome{victims: map[types.UID]bool{}}
	result := engine.Run(p.snapshot, profileOf(action), engine.Options{Verify: true, Decide: func(d model.Decision) {
		o.binds += len(d.Binds)
		o.nominations += len(d.Nominations)
		for _, eviction := range d.Evictions {
			o.victims[eviction.Pod.UID] = true
		}
	}})
	o.why = result.Refusals[p.gang.Key]
	return o
}

// hold holds what was done to what must always be so: a plan starts the gang, breaks no strict budget, and needs each of its
// victims, and there is none where none is needed. It returns what the plan costs, and what the best one does; needed is false
// where there is none.
func hold(t require, p *problem, o outcome, strict bool) (got, best bill, needed bool) {
	best, found := p.best(strict)
	switch {
	case o.binds > 0 && (best.pods > 0 || len(o.victims) > 0):
		t.Fatalf("bound although %+v", best)
	case o.binds > 0, !found && len(o.victims) == 0, len(o.victims) == 0 && best.pods == 0:
		return got, best, false
	case !found, best.pods == 0:
		t.Fatalf("%v are evicted in vain; the best is %+v, %v", o.victims, best, found)
	case len(o.victims) == 0:
		return got, best, true
	case o.nominations < int(p.gang.MinMember):
		t.Fatalf("%d are nominated, %d must start", o.nominations, p.gang.MinMember)
	}
	got, allowed := p.billOf(o.victims)
	if !allowed || strict && got.violations > 0 {
		t.Fatalf("%v may not be evicted together", o.victims)
	}
	if !p.starts(o.victims) {
		t.Fatalf("without %v the gang does not start", o.victims)
	}
	p.holdMinimal(t, o.victims)
	return got, best, true
}

// require is a test, or a case of one.
type require interface {
	Fatalf(format string, args ...any)
}

// tally counts plans that are needed, how many have the least violations and priority, and how many cost what the solver's do.
type tally struct{ plans, priorities, same int }

func (n *tally) add(got, best bill) {
	n.plans++
	if got.pods > 0 && got.violations == best.violations && got.highest == best.highest {
		n.priorities++
	}
	if got == best {
		n.same++
	}
}

// hold holds the counts to marks, in thousandths.
func (n *tally) hold(t *testing.T, priorities, same int) {
	t.Helper()
	t.Logf("of %d plans that are needed %d have the least violations and priority, and %d are the solver's", n.plans, n.priorities, n.same)
	if 1000*n.priorities < priorities*n.plans || 1000*n.same < same*n.plans || n.plans == 0 {
		t.Errorf("fewer than %d and %d in a thousand", priorities, same)
	}
}

func (p *problem) billOf(victims map[types.UID]bool) (costs bill, allowed bool) {
	costs, allowed = bill{highest: -1 << 31}, true
	for _, job := range p.others {
		mask := 0
		for j, task := range job.Tasks {
			if victims[task.UID] {
				mask |= 1 << j
			}
		}
		var ok bool
		costs, ok = p.bill(job, mask, costs)
		allowed = allowed && ok
	}
	costs.violations = p.violations(victims)
	return costs, allowed
}

// holdMinimal is invariant I10: whichever victims are released, the gang cannot start.
func (p *problem) holdMinimal(t require, victims map[types.UID]bool) {
	for _, job := range p.others {
		var gone []types.UID
		for _, task := range job.Tasks {
			if victims[task.UID] {
				gone = append(gone, task.UID)
			}
		}
		units := [][]types.UID{gone}
		if len(gone) < len(job.Tasks) {
			units = nil
			for _, uid := range gone {
				units = append(units, []types.UID{uid})
			}
		}
		for _, unit := range units {
			if len(unit) == 0 {
				continue
			}
			rest := map[types.UID]bool{}
			for uid := range victims {
				rest[uid] = true
			}
			for _, uid := range unit {
				delete(rest, uid)
			}
			if p.starts(rest) {
				t.Fatalf("%v are evicted, and %v for nothing", victims, unit)
			}
		}
	}
}

// clusters is how many clusters TestSmallPlansAreTheBest draws of each kind, always the same ones.
var clusters = flag.Int("clusters", 2000, "in how many clusters plans are compared with the solver's")

// TestSmallPlansAreTheBest holds the action to a solver that tries everything, on up to 6 nodes and 12 pods. Some things hold for
// each plan; nearly all plans are the solver's. With budgets that are preferred to be kept, a budget may be broken more.
func TestSmallPlansAreTheBest(t *testing.T) {
	for name, of := range map[string]struct {
		options          preempt.Options
		priorities, same int
	}{
		"evicted":   {preempt.DefaultOptions(), 999, 994},
		"preferred": {preempt.Options{Method: model.ByEvictionOrDeletion, Budget: 1 << 30}, 999, 994},
	} {
		t.Run(name, func(t *testing.T) {
			var sum tally
			for seed := range *clusters {
				like := taste{nodes: 6, pods: 12, members: []int{1, 4, 4, 4}[seed%4], budgets: seed%8 > 1, mixed: seed%4 > 1}
				p := problemOf(numbersOf(seed), like)
				if got, best, needed := hold(cluster{t, seed}, p, play(p, preempt.New(of.options)), of.options.Method == model.ByEviction); needed {
					sum.add(got, best)
					if got != best && testing.Verbose() {
						t.Logf("cluster %d: %+v, the best %+v", seed, got, best)
					}
				}
			}
			sum.hold(t, of.priorities, of.same)
		})
	}
}

// TestLargePlansAreGood holds the action to the same solver where nothing but capacity decides: a gang of equal members without
// budgets always gets a plan with the lowest highest priority.
func TestLargePlansAreGood(t *testing.T) {
	for name, like := range map[string]taste{
		"single":  {nodes: 6, pods: 12, members: 1},
		"uniform": {nodes: 6, pods: 12, members: 4, minimal: true},
	} {
		t.Run(name, func(t *testing.T) {
			plans := 0
			rapid.Check(t, func(t *rapid.T) {
				p := draw(t, like)
				got, best, needed := hold(t, p, play(p, preempt.New(preempt.DefaultOptions())), true)
				if !needed {
					return
				}
				if plans++; got.pods == 0 || got.highest != best.highest {
					t.Fatalf("costs %+v, the best %+v", got, best)
				}
			})
			if plans == 0 {
				t.Error("no plan was needed")
			}
		})
	}
}

// numbersOf returns always the same numbers for a seed.
func numbersOf(seed int) func(least, most int, _ string) int {
	numbers := rand.New(rand.NewPCG(uint64(seed), 0))
	return func(least, most int, _ string) int { return least + numbers.IntN(most-least+1) }
}

// cluster is the case of a seed.
type cluster struct {
	*testing.T
	seed int
}

func (c cluster) Fatalf(format string, args ...any) {
	c.T.Helper()
	c.T.Fatalf("cluster %d: "+format, append([]any{c.seed}, args...)...)
}

// TestASearchCutShortGoesOn: however small the budget, a plan is found as soon as it is the job's turn. A gang without a plan
// comes before it.
func TestASearchCutShortGoesOn(t *testing.T) {
	longest := 0
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t, taste{nodes: 6, pods: 12, members: 4, budgets: true, mixed: true})
		p.addHopeless()
		action := preempt.New(preempt.Options{Budget: int64(rapid.IntRange(1, 100).Draw(t, "budget"))})
		var o outcome
		cycles := 0
		for ; cycles < 5; cycles++ {
			o = play(p, action)
			if o.binds > 0 || len(o.victims) > 0 || o.why == nil || !strings.Contains(o.why.Note, "exhausted") {
				break
			}
		}
		longest = max(longest, cycles)
		hold(t, p, o, true)
		if o.why != nil && strings.Contains(o.why.Note, "exhausted") {
			t.Fatalf("no turn in %d cycles", cycles)
		}
	})
	if longest == 0 {
		t.Error("the budget was never spent before the job's turn: this tests nothing")
	}
}
