package simulation

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/lease"
	"github.com/tutti-sched/tutti/pkg/model"
)

// expectation is the cluster as one party sees it: all there is, or what one process has received.
type expectation struct {
	pods  []*corev1.Pod
	nodes []*corev1.Node
	group func(job model.JobKey) *v1alpha1.PodGroup
	// queues are all Queues; namespace is nil where none is watched.
	queues    tree
	namespace func(name string) *corev1.Namespace
	// headroom names the queues below whose limits capacity is kept free for a job, which are looked at no closer.
	headroom map[string]bool
	// place is where a pod is or is about to be; empty when nowhere.
	place func(*corev1.Pod) string
	// now is what the clock of the scheduler shows.
	now time.Time
}

// inFact is the cluster as it is.
func (j *invariantChecker) inFact() expectation {
	o := expectation{
		pods: j.server.pods(), group: j.server.groupOf, queues: j.server.queues(), namespace: j.server.namespace, place: nodeOf,
	}
	if p := j.leader(); p != nil {
		o.now = j.queue.now.Add(p.skew)
	}
	for _, name := range j.server.names(kindNode) {
		o.nodes = append(o.nodes, j.server.node(name))
	}
	return o
}

// asTold is the cluster by what a process has received, with what it has assumed.
func (p *process) asTold() expectation {
	o := expectation{pods: p.pods(), group: p.groupOf, queues: p.queues(), namespace: p.namespace, place: p.place, now: p.clock.Now()}
	for _, name := range sortedNames(p.told[kindNode]) {
		o.nodes = append(o.nodes, p.node(name))
	}
	return o
}

// isUseless returns a pod that waits although there is capacity, counted as simply as can be; empty when none does. Only those
// are looked at that may start.
func (o *expectation) isUseless(mayStart func(*corev1.Pod) bool) string {
	waiting := map[model.JobKey][]*corev1.Pod{}
	var keys []model.JobKey
	for _, pod := range o.pods {
		job := jobKeyOf(pod)
		if !waits(pod) || o.place(pod) != "" || len(pod.Spec.SchedulingGates) > 0 || pod.Labels[v1alpha1.LabelRole] != "" || !mayStart(pod) {
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
		if !job.IsPod() {
			next := o.next(job)
			if next == nil || next.Spec.MinMember < 1 {
				continue
			}
			if pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !next.has([]types.UID{pod.UID}) }); len(pods) == 0 {
				continue
			}
			needs = max(1, int(next.lowered(o.place, nil).Spec.MinMember)-next.members(o.place).All)
		}
		if o.refuses(job) != "" || o.exceeds(job, pods[0], needs) || o.hasHeadroom(job) {
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
	parts := partsOf(job, o.pods, o.group)
	earlier := func(pod *corev1.Pod) bool { return jobKeyOf(pod) == job && !slices.Contains(parts[0].runs, pod) }
	if len(parts) > 1 && slices.ContainsFunc(o.pods, earlier) {
		return nil
	}
	for i := range slices.Backward(parts) {
		one := &parts[i]
		switch {
		case i > 0 && one.members(existing(o.place)).All == 0:
		case i > 0 && parts[0].members(o.place).Unmet(parts[0].PodGroup) != "", i == 0 && len(parts) == 1 && len(one.Spec.Roles) > 0:
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
	m := group.members(nodeOf)
	inPart := m.Live > 0 && m.Unmet(group.PodGroup) != "" && !j.started[group.UID] && !j.hurt[group.UID] && j.server.groupOf(group.job) != nil &&
		(!group.job.IsForeign() || !group.goesOn(nodeOf))
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
