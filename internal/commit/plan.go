package commit

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file carries out preemption plans. The nominations come first: if the process ends before the evictions, no pod was
// evicted; if it ends after them, the nominated pods have the capacity. The evictions of a decision begin when all of its
// nominations are confirmed, and there are none when one of them fails.

// plan begins with the nominations of a decision, or with its evictions if there are no nominations.
func (m *Machine) plan(now time.Time, decision model.Decision) {
	nominations := &callGroup{kind: CallNominate, job: decision.Job, cycle: decision.Cycle}
	// No call waits for a release, but autoscalers rely on a pod's nomination as long as it is there.
	back := &callGroup{kind: CallNominate, job: decision.Job, cycle: decision.Cycle, noDeadline: true}
	for _, nomination := range decision.Nominations {
		to := nominations
		if nomination.Node == "" {
			to = back
		}
		to.add(Call{Kind: CallNominate, Job: decision.Job, Pod: nomination.Pod, Node: nomination.Node})
	}
	evictions := &callGroup{kind: CallEvict, job: decision.Job, cycle: decision.Cycle, nominations: nominations}
	for _, eviction := range decision.Evictions {
		evictions.add(evictionCall(now, decision.Job, eviction))
		evictions.entries[len(evictions.entries)-1].victimOf = &eviction
	}
	m.takeOver(evictions)
	if len(evictions.entries) > 0 {
		m.plans = append(m.plans, evictions)
		nominations.evictions = evictions
	}
	m.begin(now, nominations)
	m.begin(now, back)
	if len(nominations.entries) == 0 {
		m.begin(now, evictions)
	}
}

// takeOver adds to a plan the evictions of earlier plans of its job that have not begun, if one of the victims is on a node that
// the plan nominates: it was made as if they were gone, and ends the nominations that their evictions wait for. Without them the
// capacity would be missing, and the next cycle would plan again.
func (m *Machine) takeOver(plan *callGroup) {
	isNominated := func(victim *entry) bool {
		return slices.ContainsFunc(plan.nominations.entries, func(e *entry) bool { return e.call.Node == victim.call.Node })
	}
	for _, earlier := range slices.Clone(m.plans) {
		waits := earlier.job == plan.job && earlier.aborted == "" && earlier.nominations.open > 0
		if !waits || !slices.ContainsFunc(earlier.entries, isNominated) {
			continue
		}
		for _, e := range earlier.entries {
			e.batch = plan
		}
		plan.entries, plan.open = append(plan.entries, earlier.entries...), plan.open+earlier.open
		earlier.nominations.evictions = nil
		m.plans = slices.DeleteFunc(m.plans, func(other *callGroup) bool { return other == earlier })
	}
}

func evictionCall(now time.Time, job model.JobKey, eviction model.Eviction) Call {
	call := Call{Kind: CallEvict, Job: job, Pod: eviction.Pod, Node: eviction.Node, GraceSeconds: eviction.GraceSeconds}
	if eviction.Method == model.ByDeletion {
		call.Kind, call.Write = CallSetCondition, deletionMark(now, job, &eviction)
	}
	return call
}

// deletionMark says in a victim's status for which job it is deleted, or for which other queue.
func deletionMark(now time.Time, job model.JobKey, victim *model.Eviction) Write {
	whom := job.DescribeTo(victim.Pod.Namespace)
	if victim.Right != "" {
		whom = "queue " + victim.Queue
	}
	return &PodCondition{Pod: victim.Pod, Condition: corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
		Message: "deleted to free capacity for " + whom, LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
	}}
}

// supersedeEvictions ends the evictions of earlier decisions about a job that a new one has made obsolete: the capacity that
// they are for is released, or the job starts without it.
func (m *Machine) supersedeEvictions(now time.Time, decision model.Decision) {
	if len(decision.Binds) > 0 || slices.ContainsFunc(decision.Nominations, model.Nomination.Releases) {
		m.cancelEvictions(now, "the capacity is not needed any more", func(plan *callGroup) bool { return plan.job == decision.Job })
	}
}

// dropEvictionsOf ends the evictions for a pod that no longer exists: the start that was planned with it is impossible.
func (m *Machine) dropEvictionsOf(now time.Time, uid types.UID) {
	m.cancelEvictions(now, "a pod that they are for was deleted", func(plan *callGroup) bool {
		return slices.ContainsFunc(plan.nominations.entries, func(e *entry) bool { return e.call.Pod.UID == uid })
	})
}

// cancelEvictions ends the evictions that are not in flight of the plans that satisfy the condition.
func (m *Machine) cancelEvictions(now time.Time, why string, condition func(*callGroup) bool) {
	for _, plan := range slices.Clone(m.plans) {
		if plan.aborted == "" && condition(plan) {
			m.abort(now, plan, why)
		}
	}
}

// failNomination ends a nomination that failed. The rest of its decision is obsolete then. A release counts as done even if it
// failed: the capacity is no longer held.
func (m *Machine) failNomination(now time.Time, e *entry, outcome Outcome) {
	if e.call.Node == "" {
		outcome.Kind, outcome.Superseded = NominationReleased, e.superseded
		m.finalizeDecision(now, e, outcome)
		return
	}
	outcome.Kind, outcome.Refused, outcome.Superseded = NominationFailed, e.refused, e.superseded
	b := e.batch
	m.finalizeDecision(now, e, outcome)
	for _, rest := range []*callGroup{b, b.evictions} {
		if rest != nil && rest.open > 0 && rest.aborted == "" {
			m.abort(now, rest, "pod "+e.call.Pod.Name+" was not nominated: "+outcome.Message)
		}
	}
}

// continueEviction goes on with the next call that ends a victim, unless it is obsolete: where a budget forbids the eviction the
// pod is marked, and a marked one is deleted. If it is not, Kubernetes resets its condition after two minutes.
func (m *Machine) continueEviction(now time.Time, e *entry, next Kind, write Write) {
	if m.giveUp(now, e) {
		return
	}
	m.completeFlight(e)
	e.call.Kind, e.call.Attempt, e.call.Write, e.message, e.mayHaveTakenEffect = next, 0, write, "", false
	m.makeReady(now, e)
}

// failEviction ends an eviction that did not take effect. When its pod still exists, the other victims of the decision are
// spared, except those in flight: their evictions would be useless.
func (m *Machine) failEviction(now time.Time, e *entry, gone bool, outcome Outcome) {
	if gone { // when an attempt was without answer, because of that one
		m.finalizeDecision(now, e, Outcome{Kind: Evicted, PodGone: !e.mayHaveTakenEffect})
		return
	}
	outcome.Kind, outcome.Refused = EvictFailed, e.refused
	b := e.batch
	m.finalizeDecision(now, e, outcome)
	if b.open > 0 && b.aborted == "" && !b.expired {
		m.abort(now, b, "another victim was refused: "+outcome.Message)
	}
}

// finishPlan ends a plan when every eviction has succeeded or failed.
func (m *Machine) finishPlan(now time.Time, b *callGroup) {
	i := slices.Index(m.plans, b)
	m.plans = slices.Delete(m.plans, i, i+1)
	m.report(now, Outcome{
		Kind: VictimsGone, Job: b.job, Cycle: b.cycle, Failed: b.failed, Victims: b.victims, Members: len(b.nominations.entries),
	})
}
