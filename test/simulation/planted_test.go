package simulation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/lease"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// placedWith is how many members of the gang of a pod have a place.
func (p *process) placedWith(pod *corev1.Pod) (all int) {
	for _, one := range p.partsOf(jobKeyOf(pod)) {
		all += one.Members(p.place).All
	}
	return all
}

// priorityOf is the priority of a job as the process knows it.
func (p *process) priorityOf(job model.JobKey) int32 {
	told := p.asTold()
	return told.PriorityOf(job, nil)
}

// without is the built-in configuration without a plugin.
func without(plugin string) []byte {
	return []byte(strings.ReplaceAll(string(config.DefaultYAML()), "  - name: "+plugin+"\n", ""))
}

// rogue decides something once, as soon as it can, as an action with a bug would.
func rogue(decide func(*process) (model.Decision, bool)) FaultInjection {
	var done bool
	return FaultInjection{Rogue: func(p *process) {
		if done {
			return
		}
		if decision, ok := decide(p); ok {
			done = true
			p.state.Assume(decision)
			p.decided(decision)
			p.machine.Submit(p.clock.Now(), decision)
		}
	}}
}

// evict is a decision to evict a pod for another, with a nomination.
func evict(victim, holder *corev1.Pod) model.Decision {
	return model.Decision{
		Job:         jobKeyOf(holder),
		Nominations: []model.Nomination{{Pod: refOf(holder), Node: victim.Spec.NodeName}},
		Evictions: []model.Eviction{{
			Pod: refOf(victim), Job: jobKeyOf(victim), Node: victim.Spec.NodeName, GraceSeconds: min(300, *victim.Spec.TerminationGracePeriodSeconds),
		}},
	}
}

func refOf(pod *corev1.Pod) model.PodRef {
	return model.PodRef{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}
}

// pair returns a running pod and a waiting one, both ours, that satisfy a condition.
func pair(p *process, condition func(running, waiting *corev1.Pod) bool) (running, waiting *corev1.Pod) {
	for _, a := range p.pods() {
		for _, b := range p.pods() {
			if ours(a) && a.Status.Phase == corev1.PodRunning && a.DeletionTimestamp == nil && waits(b) && condition(a, b) {
				return a, b
			}
		}
	}
	return nil, nil
}

func evictPair(condition func(p *process, running, waiting *corev1.Pod) bool) FaultInjection {
	return rogue(func(p *process) (model.Decision, bool) {
		victim, holder := pair(p, func(a, b *corev1.Pod) bool { return condition(p, a, b) })
		if victim == nil {
			return model.Decision{}, false
		}
		return evict(victim, holder), true
	})
}

// hide keeps some events of a kind from the scheduler.
func hide[E cluster.Event](which func(E) bool) FaultInjection {
	return FaultInjection{Hide: func(event cluster.Event) bool {
		seen, is := event.(E)
		return is && which(seen)
	}}
}

type planted struct {
	what, invariant string
	// config is tried with its seed first, and then with those after it.
	config Config
}

// plantedBugs are bugs that a scheduler, or what it relies on, may have, each with the invariant that it breaks.
func plantedBugs() []planted {
	lossy := &Faults{Calls: 300}
	lower := func(a, b *corev1.Pod) bool { return *a.Spec.Priority < *b.Spec.Priority }
	return []planted{
		{"no plugin sees to the minimum", "I1", Config{Scheduler: without("gang")}},
		{"a member is never let in, nor what is bound undone", "I2", Config{Faults: &Faults{}, Sabotage: refuseOneOf("g")}},
		{"members of an ended run count for the next one", "I1", Config{Sabotage: misreadPods(hasNoEnd)}},
		{"pods of other schedulers are not seen", "I3", Config{Sabotage: hide(func(e *cluster.PodSeen) bool {
			return e.Pod.Spec.SchedulerName == "another"
		})}},
		{"no plugin filters nodes", "I4", Config{Scheduler: without("predicates")}},
		{"the server binds pods that are bound", "I5", Config{Faults: lossy, Sabotage: FaultInjection{Careless: true}}},
		{"what is decided is not assumed", "I6", Config{Sabotage: FaultInjection{Decided: func(p *process, d model.Decision) {
			for _, bind := range d.Binds {
				p.state.Forget(bind.Pod.UID)
			}
		}}}},
		{"a new pod is missed", "I7", Config{Sabotage: hide(func(e *cluster.PodSeen) bool {
			return waits(e.Pod) && strings.HasSuffix(e.Pod.Name, "7")
		})}},
		{"the end of a pod is missed", "I22", Config{Sabotage: hide(func(e *cluster.PodSeen) bool { return e.Gone })}},
		{"a call is made and forgotten", "I8", Config{Sabotage: FaultInjection{Rogue: forgetsReplies}}},
		{"undo leaves something behind", "I9", Config{Sabotage: FaultInjection{Rogue: func(p *process) {
			for _, node := range p.snapshot.Nodes {
				tasks := slices.Clone(node.Tasks)
				node.Place(&model.Task{Request: model.Resources{-1}, Placement: model.Placement{Status: model.Running, Node: node.Name}})
				node.Tasks = tasks
			}
		}}}},
		{"a pod is evicted for a job that needs more than that", "I10", Config{Sabotage: evictPair(func(p *process, a, b *corev1.Pod) bool {
			group := p.groupOf(jobKeyOf(b))
			return lower(a, b) && group != nil && group.Spec.MinMember > 1 && p.placedWith(b) == 0
		})}},
		{"a pod is evicted that is not in the way", "I10", Config{Sabotage: evictPair(func(p *process, a, b *corev1.Pod) bool {
			node := p.node(a.Spec.NodeName)
			if node == nil || !lower(a, b) || groupOf(a) != "" || groupOf(b) != "" || !invariants.Takes(node, b) || len(p.snapshot.Held()) > 0 {
				return false
			}
			free := invariants.Free(node, p.pods(), func(other *corev1.Pod) bool { return other.UID == b.UID || p.place(other) == node.Name })
			return len(free.Lacks(b)) == 0
		})}},
		{"an equal is evicted", "I11", Config{Sabotage: evictPair(func(_ *process, a, b *corev1.Pod) bool {
			return *a.Spec.Priority == *b.Spec.Priority && jobKeyOf(a) != jobKeyOf(b)
		})}},
		{"a gang evicts by the priority of one of its members", "I11", Config{Sabotage: evictPair(func(p *process, a, b *corev1.Pod) bool {
			return lower(a, b) && *a.Spec.Priority >= p.priorityOf(jobKeyOf(b)) && len(p.prioritiesOf(jobKeyOf(a))) == 1
		})}},
		{"one member of a gang is evicted", "I12", Config{Sabotage: evictPair(func(p *process, a, b *corev1.Pod) bool {
			group := p.groupOf(jobKeyOf(a))
			return lower(a, b) && group != nil && group.Spec.MinMember > 1 &&
				p.placedWith(a) == int(group.Spec.MinMember)
		})}},
		{"jobs evict each other", "I13", Config{Sabotage: feudal()}},
		{"budgets are not read", "I14", Config{Sabotage: evictPair(func(p *process, a, b *corev1.Pod) bool {
			return lower(a, b) && slices.ContainsFunc(sortedNames(p.told[kindBudget]), func(name string) bool {
				budget := p.told[kindBudget][name].object.(*policyv1.PodDisruptionBudget)
				return invariants.Covers(budget, a) && budget.Status.DisruptionsAllowed == 0 && invariants.IsReady(a)
			})
		})}},
		{"it is not read that several budgets cover a pod", "I14", Config{Sabotage: evictPair(func(p *process, a, b *corev1.Pod) bool {
			over := slices.DeleteFunc(p.asTold().Budgets, func(one *policyv1.PodDisruptionBudget) bool { return !invariants.Covers(one, a) })
			return lower(a, b) && len(over) > 1 && !slices.ContainsFunc(over, func(one *policyv1.PodDisruptionBudget) bool { return invariants.Allows(one) == 0 })
		})}},
		{"a pod is given as long as it asks for", "I30", Config{Sabotage: FaultInjection{Rogue: givesAnHour()}}},
		{"kept capacity is given away", "I15", Config{Sabotage: bindOnKeptRoom()}},
		{"the watch of nodes has ended, and none notices", "I16", Config{Sabotage: FaultInjection{Rogue: func(p *process) {
			p.streams[1].open = false
		}}}},
		{"capacity is nominated to one member, and never released", "I17", Config{Sabotage: nominateOne()}},
		{"no action places any job who has capacity", "I18", Config{
			Scheduler: []byte(strings.ReplaceAll(string(config.DefaultYAML()), `"allocate, backfill, reclaim, preempt"`, "preempt")),
		}},
		{"a node's return is missed", "I18", Config{Sabotage: hide(func(e *cluster.NodeSeen) bool {
			return !e.Gone && !e.Node.Spec.Unschedulable && len(e.Node.Spec.Taints) == 0 && e.Node.Generation == 1 &&
				e.Node.ResourceVersion > "1"
		})}},
		{"a new leader does not ask what the last one wrote", "I23", Config{Replicas: 2, Sabotage: FaultInjection{Heedless: true, Decided: leavesOthersBehind}}},
		{"calls leave without the Lease", "I24", Config{Replicas: 2, Sabotage: FaultInjection{Unfenced: true, Decided: freezes}}},
		{"a leader's clocks are slow, so that it writes after the end of its Lease", "I24", Config{Sabotage: FaultInjection{
			Clock: slowWhile((*process).holds, 3), Decided: cutsOff,
		}}},
		{"a standby's clocks are fast, so that it takes over too early", "I24", Config{Replicas: 2, Sabotage: FaultInjection{
			Clock: slowWhile(func(p *process) bool { return !p.holds() }, 1.0/3), Decided: freezes,
		}}},
		{"a Lease that has expired is taken for one that was given up", "I24", Config{Replicas: 2, Sabotage: FaultInjection{
			Lease: expiresUnseen, Decided: freezes,
		}}},
		{"that the machine sleeps is not seen", "I24", Config{Replicas: 2, Sabotage: FaultInjection{Clock: wallless, Decided: sleeps}}},
		{"a plugin falls over", "I25", Config{Sabotage: FaultInjection{Decided: func(p *process, d model.Decision) {
			var none *process
			_ = none.chosen[d.Binds[0].Pod.UID]
		}}}},
		{"namespaces are not distinguished", "I26", Config{Sabotage: strayMember()}},
		{"the loop never sleeps", "I27", Config{Sabotage: FaultInjection{Rogue: func(p *process) {
			p.mailbox.Event(&cluster.OtherSeen{})
			p.wakeUp(0)
		}}}},
		{"a status is written all the time", "I29", Config{Sabotage: FaultInjection{Rogue: writeAlways}}},
	}
}

// hasNoEnd takes from a pod that has ended when it did.
func hasNoEnd(pod *corev1.Pod) {
	if finished(pod) {
		pod.Status.StartTime = nil // where it is kept
	}
}

// freezes lets a scheduler that has just decided something stand still for longer than the Lease lasts.
func freezes(p *process, _ model.Decision) {
	if !p.calm {
		p.freeze(20*time.Second, false)
	}
}

// sleeps lets the machine of a scheduler that has just decided something sleep for longer than the Lease lasts.
func sleeps(p *process, _ model.Decision) {
	if !p.calm && p.disturb() {
		p.freeze(20*time.Second, true)
	}
}

// cutsOff keeps a scheduler that has decided something from its Lease.
func cutsOff(p *process, _ model.Decision) {
	if !p.calm {
		p.apart[p.name] = p.queue.now.Add(40 * time.Second)
	}
}

func (p *process) holds() bool { return p.elected && !p.dead }

// slowWhile makes the clocks of a process so many times slower while a condition holds.
func slowWhile(condition func(*process) bool, times float64) func(*process, lease.Instant) lease.Instant {
	type shown struct{ is, said time.Duration }
	last := map[*process]shown{}
	return func(p *process, now lease.Instant) lease.Instant {
		before, known := last[p]
		if !known {
			before = shown{now.Monotonic, now.Monotonic}
		}
		passed := now.Monotonic - before.is
		if condition(p) {
			passed = time.Duration(float64(passed) / times)
		}
		last[p] = shown{now.Monotonic, before.said + passed}
		return lease.Instant{Wall: p.Simulation.began.Add(last[p].said), Monotonic: last[p].said}
	}
}

// wallless has no wall clock of its own.
func wallless(p *process, now lease.Instant) lease.Instant {
	return lease.Instant{Wall: p.Simulation.began.Add(now.Monotonic), Monotonic: now.Monotonic}
}

// expiresUnseen shows a Lease whose time has passed as one without holder.
func expiresUnseen(p *process, stored *coordinationv1.Lease) {
	if p.queue.now.Sub(p.lease.renewed) > lease.Duration {
		stored.Spec.HolderIdentity = new("")
	}
}

// leavesOthersBehind lets the watches of the other replicas stand still from before a bind until after the leader has ended.
func leavesOthersBehind(p *process, d model.Decision) {
	if p.calm || len(d.Binds) == 0 || p.leading && p.life > 2 {
		return
	}
	for _, name := range sortedNames(p.processes) {
		if other := p.processes[name]; other != p {
			other.streams[0].stall(time.Minute)
		}
	}
	p.after(time.Second, "the end", func() { p.end("killed") })
}

// catchPlanted sees that each of the bugs is found within some seeds, under the name of its invariant, in clusters of that kind.
func catchPlanted(t *testing.T, bugs func() []planted, kind func(*Config)) {
	filters := open(t)
	for i, bug := range bugs() {
		t.Run(bug.invariant+" "+bug.what, func(t *testing.T) {
			found := map[string]int{}
			for tries := range uint64(60) {
				config := bugs()[i].config // what it remembers begins again
				config.Seed = max(1, config.Seed) + tries
				kind(&config)
				for _, v := range run(t, filters, config).Violations {
					found[v.Invariant]++
				}
				if found[bug.invariant] > 0 {
					t.Logf("seed %d", config.Seed)
					return
				}
			}
			t.Errorf("not caught; found %v", found)
		})
	}
}

func TestPlantedBugsAreCaught(t *testing.T) {
	catchPlanted(t, plantedBugs, func(*Config) {})
}

// TestWhatIsPlantedIsNoBugByItself: a scheduler that stands still after each decision breaks nothing where calls heed the
// Lease.
func TestWhatIsPlantedIsNoBugByItself(t *testing.T) {
	filters := open(t)
	for seed := uint64(1); seed <= 5; seed++ {
		for _, v := range run(t, filters, Config{Seed: seed, Replicas: 2, Sabotage: FaultInjection{Decided: freezes}}).Violations {
			t.Errorf("seed %d: %s", seed, v)
		}
	}
}

// refuseOneOf refuses the binds of one member of each gang for good, and that what is bound of it is undone.
func refuseOneOf(letter string) FaultInjection {
	refused := map[string]string{}
	return FaultInjection{Refuse: func(call commit.Call) error {
		if call.Kind == commit.CallDeleteStarted {
			return refusal(call, conflicts, newRandom(1, "undo"))
		}
		if call.Kind != commit.CallBind || call.Job.IsPod() || !strings.HasPrefix(call.Job.Name, letter) {
			return nil
		}
		if refused[call.Job.String()] == "" {
			refused[call.Job.String()] = call.Pod.Name
		}
		if refused[call.Job.String()] == call.Pod.Name {
			return refusal(call, conflicts, newRandom(1, "refuse"))
		}
		return nil
	}}
}

// forgetsReplies has the machine wait for a reply that does not come.
func forgetsReplies(p *process) {
	for _, pod := range p.pods() {
		if ours(pod) && p.calm && p.machine.Idle() {
			p.machine.Write(p.clock.Now(), &commit.PodCondition{Pod: refOf(pod)})
			p.machine.Calls(p.clock.Now())
			return
		}
	}
}

// nominateOne holds capacity for one member of a gang that waits for more, and keeps it from being taken back.
func nominateOne() FaultInjection {
	sabotage := rogue(func(p *process) (model.Decision, bool) {
		for _, pod := range p.pods() {
			if waits(pod) && groupOf(pod) != "" && len(p.told[kindNode]) > 0 && p.task(pod) != nil && p.calm {
				node := sortedNames(p.told[kindNode])[0]
				return model.Decision{Job: jobKeyOf(pod), Nominations: []model.Nomination{{Pod: refOf(pod), Node: node}}}, true
			}
		}
		return model.Decision{}, false
	})
	sabotage.Refuse = func(call commit.Call) error {
		if call.Kind == commit.CallNominate && call.Node == "" {
			return apierrors.NewForbidden(corev1.Resource("pods"), call.Pod.Name, nil)
		}
		return nil
	}
	return sabotage
}

// givesAnHour lets pods take an hour to end, whatever the configuration says.
func givesAnHour() func(*process) {
	done := map[*process]bool{}
	return func(p *process) {
		if !done[p] {
			done[p] = true
			p.state.Configure(p.profile(p).Translators(), time.Hour)
		}
	}
}

// feudal evicts a lower job for a higher one, and later the other way round.
func feudal() FaultInjection {
	var first *evictionLoop
	return FaultInjection{Decided: func(p *process, d model.Decision) {
		if len(d.Evictions) > 0 && first == nil {
			first = &evictionLoop{victim: d.Evictions[0].Job, beneficiary: d.Job}
			p.judge.checkNoEvictionLoop(model.Decision{Job: first.victim, Evictions: []model.Eviction{{Job: first.beneficiary}}})
		}
	}}
}

func bindOnKeptRoom() FaultInjection {
	return rogue(func(p *process) (model.Decision, bool) {
		for _, holder := range p.pods() {
			node := holder.Status.NominatedNodeName
			if node == "" || p.node(node) == nil || !p.keeps(holder, node) {
				continue
			}
			for _, thief := range p.pods() {
				single := waits(thief) && groupOf(thief) == "" && thief.Name != holder.Name && *thief.Spec.Priority <= *holder.Spec.Priority
				if single && !thief.Spec.Containers[0].Resources.Requests.Cpu().IsZero() && p.task(thief) != nil {
					return model.Decision{Job: jobKeyOf(thief), MinBinds: 1, Binds: []model.Bind{{Pod: refOf(thief), Node: node}}}, true
				}
			}
		}
		return model.Decision{}, false
	})
}

func strayMember() FaultInjection {
	return rogue(func(p *process) (model.Decision, bool) {
		for _, pod := range p.pods() {
			if waits(pod) && groupOf(pod) != "" && len(p.told[kindNode]) > 0 {
				job := jobKeyOf(pod)
				job.Namespace = map[string]string{firstNamespace: secondNamespace, secondNamespace: firstNamespace}[job.Namespace]
				return model.Decision{Job: job, Binds: []model.Bind{{Pod: refOf(pod), Node: sortedNames(p.told[kindNode])[0]}}}, true
			}
		}
		return model.Decision{}, false
	})
}

func writeAlways(p *process) {
	for _, name := range sortedNames(p.told[kindGroup]) {
		group := p.group(name)
		status := *group.Status.DeepCopy()
		status.Members = int32(p.clock.Now().Unix() % int64(time.Hour/time.Second))
		p.machine.Write(p.clock.Now(), &commit.GroupStatus{
			Namespace: group.Namespace, Name: group.Name, UID: group.UID, Status: status,
		})
	}
}

// TestShrinking finds the little that a planted bug needs.
func TestShrinking(t *testing.T) {
	filters := open(t)
	bug := Config{Scheduler: without("gang")}
	for seed := uint64(1); seed < 60; seed++ {
		bug.Seed = seed
		result := run(t, filters, bug)
		if len(result.Violations) == 0 || len(result.Plan) < 10 {
			continue
		}
		small, less, err := Shrink(filters, bug, result, 400)
		if err != nil {
			t.Fatal(err)
		}
		if len(small.Plan) > 2 || len(less.Violations) == 0 || less.Violations[0].Invariant != "I1" || *small.Faults != (Faults{}) {
			t.Errorf("shrunk to %+v under %+v: %v", small.Plan, small.Faults, less.Violations)
		}
		if again := run(t, filters, small); fmt.Sprint(again.Violations) != fmt.Sprint(less.Violations) {
			t.Errorf("the small one ends in %v, not in %v", again.Violations, less.Violations)
		}
		return
	}
	t.Error("no seed fails")
}
