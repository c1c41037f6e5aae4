package simulation

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/pkg/gang"
	"github.com/tutti-sched/tutti/pkg/model"
)

// atQuiescence judges what is left when nothing happens any more.
func (j *invariantChecker) atQuiescence() {
	p := j.leader()
	if p == nil || !p.leading {
		j.violated("I23", "none leads when all is quiet")
		return
	}
	j.startedWholeOrNotAtAll()
	j.checkNoHoldAndWait()
	j.checkReasonReported()
	j.saysPhases()
	j.checkNoLeftovers(p)
	j.stateIsTheClusters(p)
	j.noJobWaitsForever(p)
	j.saysDomains(p)
	j.wroteLittle()
	j.leavesNoPart()
	j.releasesDevices()
	j.saysWhatQueuesHold()
	j.meetsGuarantees(p)
}

// onTakeover is I23 where a process begins to lead: it knows what those before it have written about what still exists.
func (j *invariantChecker) onTakeover(p *process) {
	for _, kind := range []objectKind{kindPod, kindGroup} {
		for _, name := range j.server.names(kind) {
			now := j.server.objects[kind][name]
			if by := j.written[now.GetUID()]; p.told[kind][name].version < by {
				j.violated("I23", "%s begins and has not received version %d of %s, which a scheduler has written", p, by, name)
			}
		}
	}
}

// checkReasonReported is I7: each pod and group that waits has been looked at, and its status says why it waits.
func (j *invariantChecker) checkReasonReported() {
	for _, pod := range j.server.pods() {
		if !waits(pod) || len(pod.Spec.SchedulingGates) > 0 {
			continue
		}
		i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
		if i < 0 || pod.Status.Conditions[i].Message == "" || pod.Status.Conditions[i].Status != corev1.ConditionFalse {
			j.violated("I7", "pod %s waits, and none says why", keyOf(pod))
		}
	}
	for _, name := range j.server.names(kindGroup) {
		group := j.server.group(name)
		isMember := func(pod *corev1.Pod) bool { return pod.Namespace == group.Namespace && groupOf(pod) == group.Name }
		if group.Spec.SchedulerName == "" && group.Status.SchedulerName == "" && !slices.ContainsFunc(j.server.pods(), isMember) {
			continue // it belongs to no scheduler yet
		}
		ended := group.Status.Phase == v1alpha1.PodGroupSucceeded || group.Status.Phase == v1alpha1.PodGroupFailed // which says it all
		told := ended || meta.FindStatusCondition(group.Status.Conditions, v1alpha1.ConditionScheduled) != nil
		if group.Status.ObservedGeneration != group.Generation || !told {
			j.violated("I7", "group %s in version %d has a status of version %d, with the phase %q and nothing about its start", name,
				group.Generation, group.Status.ObservedGeneration, group.Status.Phase)
		}
	}
}

// checkNoLeftovers is I8 as far as the machine and nominations go: nothing is in flight, and capacity is held by reservations
// alone.
func (j *invariantChecker) checkNoLeftovers(p *process) {
	if !p.machine.Idle() || len(p.inFlight) > 0 {
		j.violated("I8", "%d calls are in flight at rest, the machine's counts are %+v", len(p.inFlight), p.machine.TakeCounts())
	}
	for _, pod := range j.server.pods() {
		if pod.Status.NominatedNodeName != "" && pod.Spec.NodeName != "" {
			j.violated("I8", "pod %s has a node, and is nominated to %s", keyOf(pod), pod.Status.NominatedNodeName)
		}
	}
}

// stateIsTheClusters is I8, I22 and I23: what the process holds is what a new one reads from the server.
func (j *invariantChecker) stateIsTheClusters(p *process) {
	fresh := cluster.New(cluster.Options{SchedulerNames: []string{schedulerName}})
	inventory := kube.NewDeviceInventory(func(seen *kube.NodeDevices) { fresh.Apply(&cluster.DevicesSeen{Devices: seen}) })
	fresh.Configure(j.profile(p).Translators(), j.profile(p).MaxGrace())
	for _, stream := range p.streams {
		if isForeign(stream.kind) {
			fresh.Apply(&cluster.ReadingChanged{Source: sourceOf(stream.kind), Reading: cluster.IsRead})
		}
		for _, name := range j.server.names(stream.kind) {
			tellOf(change{kind: stream.kind, object: j.server.objects[stream.kind][name]}, inventory, func(event cluster.Event) { fresh.Apply(event) })
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

// written writes down what a snapshot says, line by line. A minimum is as it is stated: with how many members a gang of another
// project has started is not in the API.
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
		has := node.Amounts()
		lines = append(lines, fmt.Sprintf("node %s: offers %s, idle %s, releasing %s, nominated %s", node.Name,
			amounts(node.Allocatable()), amounts(has.Idle), amounts(has.Releasing), amounts(has.Pipelined)))
	}
	for _, job := range s.Jobs {
		lines = append(lines, fmt.Sprintf("job %s in %q: needs %d of %d, priority %d, refused %q", job.Key, job.Queue, gang.Stated(job).MinMember, len(job.Tasks), job.Priority, job.Invalid))
		if len(job.Topology) > 0 {
			lines = append(lines, fmt.Sprintf("  shares %+v", job.Topology))
		}
		for _, task := range job.Tasks {
			lines = append(lines, fmt.Sprintf("  %s %s on %q, nominated %q, gated %t, asks %s",
				task.UID, task.Status, task.Node, task.Nominated, task.SchedulingGated, amounts(task.Request)))
			if task.Place != nil {
				lines = append(lines, fmt.Sprintf("    is in %+v", *task.Place))
			}
		}
	}
	for _, queue := range s.Queues {
		above := ""
		if queue.Above() != nil {
			above = queue.Above().Name
		}
		lines = append(lines, fmt.Sprintf("queue %s in %q: weight %d, inner %t, inactive %q, holds %s, releases %s", queue.Name, above,
			queue.Weight, queue.Inner, queue.Inactive, amounts(queue.Used), amounts(queue.Releasing)))
	}
	for _, hold := range s.Held() {
		lines = append(lines, fmt.Sprintf("hold for %s %s on %s: %s", hold.Job, hold.Pod, hold.Node, amounts(hold.Request)))
	}
	return lines
}

// wroteLittle is I29 as far as events go: a pod is said to be bound once.
func (j *invariantChecker) wroteLittle() {
	for _, pod := range j.server.pods() {
		if n := j.server.recorded[pod.UID]["Scheduled"]; n > 1 {
			j.violated("I29", "%d events say that %s is bound", n, keyOf(pod))
		}
	}
}
