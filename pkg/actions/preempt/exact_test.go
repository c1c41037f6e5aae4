package preempt_test

import (
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

// score adds up how many pods were evicted, and how many the solver would have.
type score struct{ got, best, plans int }

// hold compares what was done with the best that could be.
func hold(t *rapid.T, p *problem, o outcome, strict bool, sum *score) {
	best, fewest, found := p.best(strict)
	if o.binds > 0 {
		if best.pods > 0 || len(o.victims) > 0 {
			t.Fatalf("bound although %+v", best)
		}
		return
	}
	if !found || best.pods == 0 {
		if len(o.victims) > 0 {
			t.Fatalf("%v are evicted in vain; the best is %+v, %v", o.victims, best, found)
		}
		return
	}
	if len(o.victims) == 0 {
		t.Fatalf("nothing found, where %+v does, with %d units: %s", best, fewest, o.why)
	}
	if o.nominations < int(p.gang.MinMember) {
		t.Fatalf("%d are nominated, %d must start", o.nominations, p.gang.MinMember)
	}
	got, allowed := p.billOf(o.victims)
	if !allowed {
		t.Fatalf("%v may not be evicted together", o.victims)
	}
	if !p.starts(o.victims) {
		t.Fatalf("without %v the gang does not start", o.victims)
	}
	if got.violations != best.violations || got.highest != best.highest {
		t.Fatalf("%v cost %+v, the best %+v", o.victims, got, best)
	}
	p.holdMinimal(t, o.victims)
	sum.got, sum.best, sum.plans = sum.got+got.pods, sum.best+best.pods, sum.plans+1
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
func (p *problem) holdMinimal(t *rapid.T, victims map[types.UID]bool) {
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

func (s *score) hold(t *testing.T) {
	t.Helper()
	t.Logf("%d plans evict %d pods, the solver's %d", s.plans, s.got, s.best)
	if s.plans > 20 && 10*s.got > 11*s.best {
		t.Errorf("%d pods are evicted where %d would do", s.got, s.best)
	}
}

// TestSmallPlansAreTheBest holds the action to a solver that tries everything, on up to 6 nodes and 12 pods: the fewest
// violations, the lowest highest priority, and hardly more pods.
func TestSmallPlansAreTheBest(t *testing.T) {
	for name, options := range map[string]preempt.Options{
		"evicted":   preempt.DefaultOptions(),
		"preferred": {Method: model.ByEvictionOrDeletion, Budget: 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			var sum score
			rapid.Check(t, func(t *rapid.T) {
				p := draw(t, taste{nodes: 6, pods: 12, members: 4, budgets: true, mixed: true})
				hold(t, p, play(p, preempt.New(options)), options.Method == model.ByEviction, &sum)
			})
			sum.hold(t)
		})
	}
}

// TestLargePlansAreGood holds what the action does on large clusters to the same solver, on small ones: gangs of equal members
// without budgets get the lowest highest priority, always, and every plan is minimal.
func TestLargePlansAreGood(t *testing.T) {
	for name, like := range map[string]taste{
		"single":  {nodes: 6, pods: 12, members: 1},
		"uniform": {nodes: 6, pods: 12, members: 4, minimal: true},
	} {
		t.Run(name, func(t *testing.T) {
			var sum score
			rapid.Check(t, func(t *rapid.T) {
				p := draw(t, like)
				hold(t, p, play(p, preempt.NewForLarge(preempt.DefaultOptions())), true, &sum)
			})
			sum.hold(t)
		})
	}
}

// TestASearchCutShortGoesOn: however small the budget, the plan that a large budget finds is found, as soon as it is the job's
// turn. A gang without a plan comes before it.
func TestASearchCutShortGoesOn(t *testing.T) {
	for name, maker := range map[string]func(preempt.Options) engine.Action{"small": preempt.New, "large": preempt.NewForLarge} {
		t.Run(name, func(t *testing.T) {
			longest := 0
			rapid.Check(t, func(t *rapid.T) {
				p := draw(t, taste{nodes: 6, pods: 12, members: 4, budgets: true, mixed: true})
				p.addHopeless()
				action := maker(preempt.Options{Budget: int64(rapid.IntRange(1, 100).Draw(t, "budget"))})
				var o outcome
				cycles := 0
				for ; cycles < 5; cycles++ {
					o = play(p, action)
					if o.binds > 0 || len(o.victims) > 0 || o.why == nil || !strings.Contains(o.why.Note, "exhausted") {
						break
					}
				}
				longest = max(longest, cycles)
				if name == "small" {
					hold(t, p, o, true, &score{})
				} else if len(o.victims) > 0 {
					p.holdMinimal(t, o.victims)
				}
				if o.why != nil && strings.Contains(o.why.Note, "exhausted") {
					t.Fatalf("no turn in %d cycles", cycles)
				}
			})
			if longest == 0 {
				t.Error("the budget was never spent before the job's turn: this tests nothing")
			}
		})
	}
}
