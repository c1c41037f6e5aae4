package simulation

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/lease"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// expectation is the cluster as one party sees it: all there is, or what one process has received.
type expectation struct {
	invariants.View
	// headroom names the queues below whose limits capacity is kept free for a job, which are looked at no closer.
	headroom map[string]bool
	// now is what the clock of the scheduler shows.
	now time.Time
	// searched are the pods that ask for devices of which their claims say no number.
	searched map[types.UID]bool
	// setAside are the devices, by node and class, that are reserved for these: the numbers do not say that they are taken.
	setAside map[string]map[string]int64
}

// inFact is the cluster as it is.
func (j *invariantChecker) inFact() expectation {
	pods := j.server.pods()
	var view *countedView
	if j.config.Devices {
		view = j.server.counted()
		pods = view.all
	}
	o := expectation{View: invariants.View{
		Pods: pods, Queues: j.server.queues(), Namespace: j.server.namespace, Place: nodeOf, JobOf: jobKeyOf, Level: labelsOf, Violated: j.violated,
		Group:  func(job model.JobKey) *v1alpha1.PodGroup { return groupFor(job, pods, j.server.groupOf) },
		Parts:  func(job model.JobKey) []part { return partsOf(job, pods, j.server.groupOf) },
		Shares: func(job model.JobKey) []v1alpha1.TopologyConstraint { return sharedBy(job, pods, j.server.groupOf) },
	}}
	if p := j.leader(); p != nil {
		o.now = j.queue.now.Add(p.skew)
	}
	for _, name := range j.server.names(kindNode) {
		node := j.server.node(name)
		if view != nil {
			node, o.searched = view.nodes[name], view.searched
		}
		o.Nodes = append(o.Nodes, node)
	}
	return o
}

// asTold is the cluster by what a process has received, with what it has assumed.
func (p *process) asTold() expectation {
	pods := p.pods()
	o := expectation{now: p.clock.Now(), View: invariants.View{
		Pods: pods, Queues: p.queues(), Namespace: p.namespace, Place: p.place, JobOf: jobKeyOf, Level: labelsOf, Violated: p.violated,
		Group:  func(job model.JobKey) *v1alpha1.PodGroup { return groupFor(job, pods, p.groupOf) },
		Parts:  func(job model.JobKey) []part { return partsOf(job, pods, p.groupOf) },
		Shares: func(job model.JobKey) []v1alpha1.TopologyConstraint { return sharedBy(job, pods, p.groupOf) },
		Mark:   p.markOf, Nominated: p.heldFor, Leaves: p.evicts, Keeps: p.keeps, Overstays: p.mayHaveOverstayed,
		Begun: func(job model.JobKey) (minimum int32) {
			if group := groupFor(job, pods, p.groupOf); group != nil {
				minimum = p.judge.decidedFor[group.UID]
			}
			return minimum
		},
	}}
	if p.config.Devices {
		o.searched, o.setAside, o.Kept = p.counted().searched, p.setAside(), p.counted().keptOf
		if len(p.wrote) > 0 { // it has claims as it has left them, and has not received them: no count of what it has received is its own
			o.searched = map[types.UID]bool{}
			for _, pod := range pods {
				o.searched[pod.UID] = len(pod.Spec.ResourceClaims) > 0 || asksExtended(pod)
			}
			o.Uncounted = func(_ *corev1.Node, name corev1.ResourceName) bool {
				return name == gpuResource || name == bigResource || name == nicResource
			}
		}
	}
	o.Elsewhere = func(decision model.Decision, victim model.JobKey) bool {
		reserved := func(hold model.HeldCapacity) bool { return hold.Reserved() && hold.Job != decision.Job }
		return slices.ContainsFunc(p.snapshot.Held(), reserved) || p.judge.limitsOnly(p, decision, p.judge.spares(p, decision, victim))
	}
	for _, name := range sortedNames(p.told[kindNode]) {
		o.Nodes = append(o.Nodes, p.node(name))
	}
	for _, name := range sortedNames(p.told[kindBudget]) {
		o.Budgets = append(o.Budgets, p.told[kindBudget][name].object.(*policyv1.PodDisruptionBudget))
	}
	return o
}

// isUseless returns a pod that waits although there is capacity, counted as simply as can be; empty when none does. Only those
// are looked at that may start.
func (o *expectation) isUseless(mayStart func(*corev1.Pod) bool) string {
	waiting := map[model.JobKey][]*corev1.Pod{}
	var keys []model.JobKey
	for _, pod := range o.Pods {
		job := jobKeyOf(pod)
		if !waits(pod) || o.Place(pod) != "" || len(pod.Spec.SchedulingGates) > 0 || pod.Labels[v1alpha1.LabelRole] != "" || !mayStart(pod) {
			continue
		}
		if waiting[job] == nil {
			keys = append(keys, job)
		}
		waiting[job] = append(waiting[job], pod)
	}
	slices.SortFunc(keys, model.JobKey.Compare)
	for _, job := range keys {
		pods, needs := waiting[job], 1
		if slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return o.searched[pod.UID] }) {
			continue
		}
		if !job.IsPod() {
			next := o.next(job)
			if next == nil || next.Spec.MinMember < 1 {
				continue
			}
			if pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !slices.Contains(next.Pods, pod) }); len(pods) == 0 {
				continue
			}
			needs = max(1, int(next.Lowered(o.Place, nil).Spec.MinMember)-next.Members(o.Place).All)
		}
		if o.Refuses(job) != "" || o.Exceeds(job, pods[0], needs) || o.hasHeadroom(job) {
			continue
		}
		if room, judged := o.roomFor(pods[0], needs); judged && len(pods) >= needs && room >= needs {
			return fmt.Sprintf("%s waits with %d pods, needs %d, and there is capacity for %d", job, len(pods), needs, room)
		}
	}
	return ""
}

// next returns the part of a gang that may start next: of one that is made in parts what is made first while nothing else is
// there, and what is made later once the first is complete; nil when there is none, it has roles, or pods of an earlier
// attempt are still to be deleted.
func (o *expectation) next(job model.JobKey) *part {
	parts := o.Parts(job)
	earlier := func(pod *corev1.Pod) bool { return jobKeyOf(pod) == job && !slices.Contains(parts[0].Runs, pod) }
	if len(parts) > 1 && slices.ContainsFunc(o.Pods, earlier) {
		return nil
	}
	for i := range slices.Backward(parts) {
		one := &parts[i]
		switch {
		case i > 0 && one.Members(invariants.Existing(o.Place)).All == 0:
		case i > 0 && parts[0].Members(o.Place).Unmet(parts[0].PodGroup) != "", i == 0 && len(parts) == 1 && len(one.Spec.Roles) > 0:
			return nil
		default:
			return one
		}
	}
	return nil
}

// noJobWaitsForever is I16, and Q6 with queues, at rest: no job waits for which there is capacity, where no capacity is held, or
// kept below its limits.
func (j *invariantChecker) noJobWaitsForever(p *process) {
	if len(p.state.Snapshot(p.clock.Now()).Held()) > 0 {
		return
	}
	in := j.inFact()
	in.headroom = p.headroom()
	if who := in.isUseless(func(*corev1.Pod) bool { return true }); who != "" {
		j.violated("I16", "%s", who)
	}
}

// asleep is for how long at least a loop that has nothing to do means to do nothing.
const asleep = 200 * time.Millisecond

// leavesNothingUndone is I18: a loop that has looked at all it has received, and goes to sleep, leaves no pod waiting for
// which there is capacity, unless the pod is held back, or capacity is held or kept below a limit for a job. While pods terminate
// nothing is checked: what is free by then is for the jobs that only lack the rest.
func (j *invariantChecker) leavesNothingUndone(p *process) {
	leaves := func(pod *corev1.Pod) bool {
		task := p.task(pod)
		return pod.DeletionTimestamp != nil || task != nil && task.Status == model.Releasing // its eviction may not be seen yet
	}
	if !p.leading || slices.ContainsFunc(p.pods(), leaves) || len(p.snapshot.Held()) > 0 || len(p.inFlight) > 0 || !p.machine.Idle() {
		return
	}
	if at, ok := p.loop.NextWake(); ok && at.Sub(p.clock.Now()) < asleep {
		return
	}
	told := p.asTold()
	told.headroom = p.headroom()
	who := told.isUseless(func(pod *corev1.Pod) bool {
		job, task := p.snapshot.Job(jobKeyOf(pod)), p.task(pod)
		if job == nil || task == nil { // unknown to the process: it counts as one that may start
			return true
		}
		return job.Invalid == nil && task.Invalid == nil && p.snapshot.JobBackoff[job.Key] == nil
	})
	if who != "" {
		j.violated("I18", "%s goes to sleep while %s", p, who)
	}
	if seen := p.sight(); seen != p.claimsSeen && p.queue.now.Sub(p.lastDecided) > period {
		p.claimsSeen = seen
		j.plansForGuarantees(p)
	}
}

// checkNoHoldAndWait is I17, at rest: no waiting job keeps capacity from others, since the job for which they were evicted has
// either started or released it.
func (j *invariantChecker) checkNoHoldAndWait() {
	for _, pod := range j.server.pods() {
		if waits(pod) && pod.Status.NominatedNodeName != "" {
			j.violated("I17", "pod %s waits, and keeps capacity on %s", keyOf(pod), pod.Status.NominatedNodeName)
		}
	}
}

// The longest that part of a gang is bound which never was whole, from its first bind, or from when things last went wrong:
// its start is undone when the deadline has passed, or as soon as the next leader may, which waits for the end of the Lease
// and a margin.
const longestPart = 30*time.Second + lease.Duration + lease.RequestTimeout

// trouble takes down that something went wrong just now.
func (j *invariantChecker) trouble() { j.troubled = j.queue.now }

// notePart takes down since when a group has been bound in part, if it never was whole, and no other client took part in it.
func (j *invariantChecker) notePart(group *part) {
	m := group.Members(nodeOf)
	inPart := m.Live > 0 && m.Unmet(group.PodGroup) != "" && !j.started[group.UID] && !j.hurt[group.UID] && j.server.groupOf(group.Job) != nil &&
		(!group.Job.IsForeign() || !group.GoesOn(nodeOf))
	since, known := j.inPart[group.UID]
	switch {
	case inPart && !known:
		j.inPart[group.UID] = j.queue.now
	case !inPart && known:
		j.result.Partial = max(j.result.Partial, j.queue.now.Sub(since))
		delete(j.inPart, group.UID)
	}
}

// startsEnd is I2 while things go on: no gang stays bound in part for longer than that.
func (j *invariantChecker) startsEnd() {
	if !j.calm && *j.faults() != (Faults{}) {
		return
	}
	for _, uid := range slices.Sorted(maps.Keys(j.inPart)) {
		since := j.inPart[uid]
		if j.troubled.After(since) {
			since = j.troubled
		}
		if j.queue.now.Sub(since) > longestPart {
			j.violated("I2", "part of group %s has been bound for longer than %s", uid, longestPart)
			return
		}
	}
}

// hasHeadroom reports whether capacity is kept free for a job below a limit of the job's queue, or of one above it.
func (o *expectation) hasHeadroom(job model.JobKey) bool {
	path, _, _ := o.Queues.Path(o.QueueOf(job))
	return slices.ContainsFunc(path, func(name string) bool { return o.headroom[name] })
}
