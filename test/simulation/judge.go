package simulation

import (
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// invariantChecker holds the schedulers to the invariants of the design, counted from the objects alone: those that a process
// has received for what it decides, those of the server for what came of it.
type invariantChecker struct {
	*Simulation
	// came is how each pod got its node, shrunk in which version each node last lost capacity.
	came   map[types.UID]podArrival
	shrunk map[string]uint64
	// fewer is in which version each node last lost devices.
	fewer map[string]uint64
	// moved is, by kind, the last version of an object that may have moved a job to another queue, or changed a limit.
	moved observedVersions
	// ourVictims are the pods whose deletion a scheduler began, and their groups, by UID; robbed are the groups that lost a member in
	// another way, whose minimum was raised, or of which the eviction was cut short.
	ourVictims, robbed map[types.UID]bool
	// started tells of each group, by UID, that it has had its minimum; hurt that it lost members, or was changed, from outside.
	started, hurt map[types.UID]bool
	// decidedFor is the minimum of each group, by UID, as the process knew it that last decided to bind members.
	decidedFor map[types.UID]int32
	// run is the present run of each group, by UID.
	run  map[types.UID]int
	past map[evictionLoop]bool
	// evictedBy is the life of the scheduler that last evicted pods for a job.
	evictedBy map[model.JobKey]int
	// namespaces are those of all jobs and pods that there have been, by name.
	namespaces map[string]string
	// written are the versions that schedulers have brought objects to, by UID.
	written map[types.UID]uint64
	// inPart is since when groups have been bound in part, by UID; troubled is when something went wrong last.
	inPart   map[types.UID]time.Time
	troubled time.Time
}

// podArrival is when a pod came to its node, and by which life of a scheduler; zero by another client.
type podArrival struct {
	version uint64
	life    int
}

func newJudge(s *Simulation) *invariantChecker {
	return &invariantChecker{
		Simulation: s, came: map[types.UID]podArrival{}, shrunk: map[string]uint64{}, fewer: map[string]uint64{},
		started: map[types.UID]bool{}, hurt: map[types.UID]bool{}, decidedFor: map[types.UID]int32{}, run: map[types.UID]int{}, past: map[evictionLoop]bool{}, inPart: map[types.UID]time.Time{},
		evictedBy: map[model.JobKey]int{}, namespaces: map[string]string{},
		ourVictims: map[types.UID]bool{}, robbed: map[types.UID]bool{}, written: map[types.UID]uint64{},
	}
}

// decided judges a decision, by what its process knows. Its effect is assumed by then.
func (j *invariantChecker) decided(p *process, decision model.Decision) {
	for _, bind := range decision.Binds {
		p.seen[bind.Pod.UID] = p.sight()
	}
	if p.groupOf(decision.Job) != nil && len(decision.Binds) > 0 {
		for _, one := range p.partsOf(decision.Job) {
			j.decidedFor[one.UID] = one.Spec.MinMember
			if one.Run != j.run[one.UID] { // it has not received yet that another run has ended, or that its pods are gone
				j.hurt[one.UID], j.robbed[one.UID] = true, true
			}
		}
	}
	for _, bind := range decision.Binds {
		p.marks[bind.Pod.UID] = maps.Clone(bind.Place)
	}
	told := p.asTold()
	told.CheckMinimum(decision)
	told.Judge(decision)
	topology := told.Shares(decision.Job)
	j.writesPlaces(&told, decision, topology)
	j.keepsOrder(&told, decision, topology)
	j.plansEvictions(p, decision)
	if len(decision.Evictions) > 0 {
		j.result.Evicted += len(decision.Evictions)
		switch decision.Right() {
		case model.ByGuarantee:
			j.result.Guaranteed += len(decision.Evictions)
		case model.ByShare:
			j.result.Shared += len(decision.Evictions)
		}
		j.takesByRight(p, decision)
		j.evictsForAStart(p, decision)
		j.freesEnough(p, decision)
		j.checkEvictionUseful(p, decision)
		j.evictsOnlyWhereNeeded(p, decision)
		j.checkNoEvictionLoop(decision)
	}
	for _, bind := range decision.Binds {
		p.nominated[bind.Pod.UID] = ""
	}
	for _, nomination := range decision.Nominations {
		p.nominated[nomination.Pod.UID] = nomination.Node
	}
}

// onSend judges a call as the loop gives it away.
func (j *invariantChecker) onSend(p *process, call commit.Call) {
	j.isAssumed(p, call)
	j.givesGrace(p, call)
	j.namesOnlyOwn(call)
	j.undoesParts(p, call)
}

// onDepart judges a call as it leaves the process.
func (j *invariantChecker) onDepart(p *process, call commit.Call) { j.holdsTheLease(p, call) }

// onServed judges what a call came to.
func (j *invariantChecker) onServed(p *process, call commit.Call, err error) {
	if call.Kind == commit.CallBind && err == nil {
		j.result.Bound++
		j.isBoundOnce(call)
		j.fitsTheLimits(p, call)
		j.fitsInFact(p, call)
		j.hasDevices(p, call)
		j.hasPlace(p, call.Pod.UID, j.server.pod(call.Pod.String()))
	}
}

// afterStep judges what lies between two events.
func (j *invariantChecker) afterStep() {
	for _, name := range sortedNames(j.processes) {
		if p := j.processes[name]; !p.dead {
			j.staysAssumed(p)
		}
	}
	j.startsEnd()
}

// changed takes down what happens to pods and nodes, by whomever.
func (j *invariantChecker) changed(before object, now change) {
	if j.writer != nil {
		j.written[now.object.GetUID()] = now.version
	}
	j.queuesChanged(before, now)
	j.noteNames(now.object)
	switch o := now.object.(type) {
	case *corev1.Pod:
		was, _ := before.(*corev1.Pod)
		j.podChanged(was, o, now)
	case *corev1.Node:
		was, _ := before.(*corev1.Node)
		if was == nil || now.deleted || smaller(o, was) {
			j.shrunk[o.Name] = now.version
		}
	case *resourceapi.ResourceSlice:
		j.fewer[*o.Spec.NodeName] = now.version
	case *resourceapi.ResourceClaim:
		if !now.deleted {
			j.isGivenOnce(o)
		}
	case *v1alpha1.PodGroup:
		was, _ := before.(*v1alpha1.PodGroup)
		j.groupChanged(jobOf(now), was, o)
	case *unstructured.Unstructured:
		was, _ := before.(*unstructured.Unstructured)
		var group *v1alpha1.PodGroup
		if was != nil {
			group = asGroup(sourceOf(now.kind), was)
			j.goesForward(was, o)
		}
		j.groupChanged(jobOf(now), group, asGroup(sourceOf(now.kind), o))
	}
}

func (j *invariantChecker) groupChanged(job model.JobKey, was, now *v1alpha1.PodGroup) {
	pods := j.server.pods()
	before := partsOf(job, pods, func(model.JobKey) *v1alpha1.PodGroup { return was })
	for i, one := range partsOf(job, pods, func(model.JobKey) *v1alpha1.PodGroup { return now }) {
		if one.Members(nodeOf).All > 0 && (was == nil || before[i].Spec.MinMember < one.Spec.MinMember) { // no process of ours has asked for more
			delete(j.started, one.UID)
			j.hurt[one.UID], j.robbed[one.UID] = true, true
		}
		j.noteRun(&one)
		j.noteStart(&one)
		j.notePart(&one)
	}
}

func (j *invariantChecker) podChanged(was, now *corev1.Pod, c change) {
	if now.Spec.NodeName != "" && (was == nil || was.Spec.NodeName == "") {
		life := 0
		if j.writer != nil {
			life = j.writer.life
		}
		j.came[now.UID] = podArrival{version: c.version, life: life}
	}
	if was != nil && was.Spec.NodeName != "" && was.Spec.NodeName != now.Spec.NodeName {
		j.violated("I5", "pod %s goes from %s to %s", keyOf(now), was.Spec.NodeName, now.Spec.NodeName)
	}
	if c.deleted || now.DeletionTimestamp != nil {
		its := jobKeyOf(now)
		for _, p := range j.all {
			j.cutShort(p, &its)
		}
	}
	job := jobKeyOf(now)
	group := groupFor(job, j.server.pods(), j.server.groupOf)
	if group == nil {
		return
	}
	lost := c.deleted || now.DeletionTimestamp != nil || now.Status.Phase == corev1.PodFailed
	its := uidOf(group, now)
	if lost && now.Spec.NodeName != "" {
		j.hurt[its] = true
		if j.writer != nil {
			j.ourVictims[now.UID], j.ourVictims[its] = true, true
		} else if !j.ourVictims[now.UID] {
			j.robbed[its] = true
		}
	}
	delete(j.inPart, its) // of an earlier attempt, which counts no more
	for _, one := range j.server.partsOf(job) {
		j.noteRun(&one)
		j.noteStart(&one)
		j.notePart(&one)
	}
}

// noteStart takes down that a group has its minimum, or had it as far as the process knew that bound its members: the minimum
// may have been raised just before.
func (j *invariantChecker) noteStart(one *part) {
	group := one.PodGroup
	if decidedFor, known := j.decidedFor[group.UID]; known && decidedFor < group.Spec.MinMember {
		group = group.DeepCopy()
		group.Spec.MinMember = decidedFor
	}
	if one.Members(nodeOf).Unmet(group) == "" {
		j.started[group.UID] = true
	}
}

func nodeOf(pod *corev1.Pod) string { return pod.Spec.NodeName }

func smaller(now, was *corev1.Node) bool {
	for name, amount := range was.Status.Allocatable {
		if less := now.Status.Allocatable[name]; less.Cmp(amount) < 0 {
			return true
		}
	}
	return false
}

// panicked reports what verify mode found, or that a scheduler fell over.
func (j *invariantChecker) panicked(p *process, reason any, stack []byte) {
	invariant, text := "I25", fmt.Sprint(reason)
	switch {
	case strings.Contains(text, "invariant I9"), strings.Contains(text, "invariant broken"):
		invariant = "I9"
	case strings.Contains(text, "invariant I11"):
		invariant = "I11"
	case strings.Contains(text, "invariant I12"):
		invariant = "I12"
	default:
		text += "\n" + string(stack)
	}
	j.violated(invariant, "%s panics: %s", p, text)
	p.dead = true
}

// groupOf is the name of the group of a pod, of whichever source; empty when it has none.
func groupOf(pod *corev1.Pod) string {
	if job := jobKeyOf(pod); !job.IsPod() {
		return job.Name
	}
	return ""
}

// jobKeyOf is the job of a pod.
func jobKeyOf(pod *corev1.Pod) model.JobKey {
	if group := pod.Labels[v1alpha1.LabelPodGroup]; group != "" {
		job := model.JobKey{Namespace: pod.Namespace, Name: group}
		if _, implicit := pod.Annotations[v1alpha1.AnnotationMinMember]; implicit { // no PodGroup is ever of its name here
			job.Source, job.Owner = model.SourceImplicit, metav1.GetControllerOf(pod).UID
		}
		return job
	}
	if job, ok := foreignJobOf(pod); ok {
		return job
	}
	return model.JobKey{Namespace: pod.Namespace, Name: pod.Name, Source: model.SourcePod}
}

func ours(pod *corev1.Pod) bool { return pod.Spec.SchedulerName == schedulerName }

// waits reports whether a pod wants a node.
func waits(pod *corev1.Pod) bool {
	return ours(pod) && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !finished(pod)
}
