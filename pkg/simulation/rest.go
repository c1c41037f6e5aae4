package simulation

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/cluster"
	"github.com/tutti-sched/tutti/pkg/model"
)

// atRest judges what is left when nothing happens any more.
func (j *judge) atRest() {
	p := j.lease.holder
	if p == nil || p.dead || !p.leading {
		j.violated("I23", "nobody leads when all is quiet")
		return
	}
	j.startedWholeOrNotAtAll()
	j.everybodyIsTold()
	j.nothingIsLeft(p)
	j.stateIsTheClusters(p)
	j.nobodyWaitsForNothing(p)
	j.wroteLittle()
}

// everybodyIsTold is I7: who waits has been looked at, and told why.
func (j *judge) everybodyIsTold() {
	for _, pod := range j.server.pods() {
		if !waits(pod) || len(pod.Spec.SchedulingGates) > 0 {
			continue
		}
		i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
		if i < 0 || pod.Status.Conditions[i].Message == "" || pod.Status.Conditions[i].Status != corev1.ConditionFalse {
			j.violated("I7", "pod %s waits, and nobody says why", keyOf(pod))
		}
	}
	for _, name := range j.server.names(cluster.KindGroup) {
		group := j.server.group(name)
		told := j.hasEnded(group) || meta.FindStatusCondition(group.Status.Conditions, v1alpha1.ConditionScheduled) != nil
		if group.Status.ObservedGeneration != group.Generation || !told {
			j.violated("I7", "group %s in version %d is told of version %d, that it is %q and nothing about its start", name,
				group.Generation, group.Status.ObservedGeneration, group.Status.Phase)
		}
	}
}

// hasEnded tells whether a group has had members and none of them lives.
func (j *judge) hasEnded(group *v1alpha1.PodGroup) bool {
	ended := group.Status.Phase == v1alpha1.PodGroupSucceeded || group.Status.Phase == v1alpha1.PodGroupFailed
	for _, pod := range j.server.pods() {
		if pod.Namespace == group.Namespace && groupOf(pod) == group.Name && ours(pod) {
			if ended = finished(pod); !ended {
				return false
			}
		}
	}
	return ended
}

// nothingIsLeft is I8 as far as the machine and promises go: nothing is on its way, and room is kept for nobody but by reservation.
func (j *judge) nothingIsLeft(p *process) {
	if !p.machine.Idle() || len(p.inFlight) > 0 {
		j.violated("I8", "%d calls are in flight at rest, the machine's counts are %+v", len(p.inFlight), p.machine.Counts())
	}
	for _, pod := range j.server.pods() {
		// What a promise says that arrives behind the bind means nothing any more.
		if pod.Status.NominatedNodeName != "" && pod.Spec.NodeName != "" && !j.late[pod.UID] {
			j.violated("I8", "pod %s has a node, and is promised %s", keyOf(pod), pod.Status.NominatedNodeName)
		}
	}
}

// stateIsTheClusters is I8, I22 and I23: what the process holds is what a new one reads from the server.
func (j *judge) stateIsTheClusters(p *process) {
	fresh := cluster.New(cluster.Options{SchedulerNames: []string{schedulerName}})
	fresh.Translate(j.profile(p).Translators())
	for _, stream := range p.streams {
		for _, name := range j.server.names(stream.kind) {
			fresh.Apply(stream.event(j.server.objects[stream.kind][name], false))
		}
	}
	p.clock.SetTime(p.queue.now.Add(p.skew))
	want, got := written(fresh.Snapshot(p.clock.Now())), written(p.state.Snapshot(p.clock.Now()))
	for i := range max(len(want), len(got)) {
		var a, b string
		if i < len(want) {
			a = want[i]
		}
		if i < len(got) {
			b = got[i]
		}
		if a != b {
			j.violated("I22", "%s holds\n%s\nwhere the server says\n%s", p, b, a)
			return
		}
	}
}

// written writes down what a snapshot says, line by line.
func written(s *model.Snapshot) []string {
	var lines []string
	amounts := func(r model.Resources) string {
		var all []string
		for i := range r {
			if r[i] != 0 {
				all = append(all, fmt.Sprintf("%s=%d", s.Dimensions.Name(i), r[i]))
			}
		}
		slices.Sort(all)
		return strings.Join(all, ",")
	}
	for _, node := range s.Nodes {
		lines = append(lines, fmt.Sprintf("node %s: offers %s, idle %s, releasing %s, promised %s", node.Name,
			amounts(node.Allocatable), amounts(node.Idle), amounts(node.Releasing), amounts(node.Promised)))
	}
	for _, job := range s.Jobs {
		lines = append(lines, fmt.Sprintf("job %s: needs %d of %d, priority %d, refused %q", job.Key, job.MinMember, len(job.Tasks), job.Priority, job.Refused))
		for _, task := range job.Tasks {
			lines = append(lines, fmt.Sprintf("  %s %s on %q, promised %q, gated %t, asks %s",
				task.UID, task.Status, task.Node, task.Nominated, task.Gated, amounts(task.Request)))
		}
	}
	for _, hold := range s.Holds() {
		lines = append(lines, fmt.Sprintf("hold for %s %s on %s: %s", hold.Job, hold.Pod, hold.Node, amounts(hold.Request)))
	}
	return lines
}

// nobodyWaitsForNothing is I16 and I18: no job waits for which there is room, counted as simply as can be, where no room is kept
// for anybody.
func (j *judge) nobodyWaitsForNothing(p *process) {
	if len(p.state.Snapshot(p.clock.Now()).Holds()) > 0 {
		return
	}
	waiting := map[model.JobKey][]*corev1.Pod{}
	for _, pod := range j.server.pods() {
		if waits(pod) && len(pod.Spec.SchedulingGates) == 0 && pod.Labels[v1alpha1.LabelRole] == "" {
			waiting[jobKeyOf(pod)] = append(waiting[jobKeyOf(pod)], pod)
		}
	}
	keys := make([]model.JobKey, 0, len(waiting))
	for job := range waiting {
		keys = append(keys, job)
	}
	slices.SortFunc(keys, model.JobKey.Compare)
	for _, job := range keys {
		pods, needs := waiting[job], 1
		if group := groupFor(job, j.server.pods(), j.server.group); group != nil {
			m := countMembers(j.server.pods(), group, func(pod *corev1.Pod) string { return pod.Spec.NodeName })
			needs = max(1, int(group.Spec.MinMember)-m.all)
			if group.Spec.MinMember < 1 || len(group.Spec.Roles) > 0 {
				continue
			}
		} else if !job.Single {
			continue
		}
		if room := j.roomFor(pods[0]); len(pods) >= needs && room >= needs {
			j.violated("I16", "%s waits with %d pods, needs %d, and there is room for %d", job, len(pods), needs, room)
		}
	}
}

// roomFor returns how many pods like this one the nodes have room for now.
func (j *judge) roomFor(pod *corev1.Pod) int {
	sum := int64(0)
	for _, name := range j.server.names(cluster.KindNode) {
		node := j.server.node(name)
		if !eligible(pod, node) {
			continue
		}
		free := freeOn(node, j.server.pods(), func(other *corev1.Pod) bool { return other.Spec.NodeName == name })
		asks := room{}
		asks.add(requestsOf(pod), 1)
		fits := int64(1000)
		for resource, amount := range asks {
			if amount > 0 {
				fits = min(fits, max(0, free[resource]/amount))
			}
		}
		sum += fits
	}
	return int(sum)
}

// wroteLittle is I29 as far as events go: a pod is said to be bound once.
func (j *judge) wroteLittle() {
	for _, pod := range j.server.pods() {
		if n := j.server.recorded[pod.UID]["Scheduled"]; n > 1 {
			j.violated("I29", "%d events say that %s is bound", n, keyOf(pod))
		}
	}
}
