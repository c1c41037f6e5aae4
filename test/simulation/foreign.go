package simulation

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is groups of other projects: what operators write, what becomes of it, and whether it can be read. All of it is drawn
// only where Config asks for it.

// The marks of other projects on pods.
const (
	coschedulingMark = "scheduling.x-k8s.io/pod-group"
	volcanoMark      = "scheduling.k8s.io/group-name"
	volcanoRole      = "volcano.sh/task-spec"
	kueueMark        = "kueue.x-k8s.io/pod-group-name"
	kueueTotal       = "kueue.x-k8s.io/pod-group-total-count"
	lwsMark          = "leaderworkerset.sigs.k8s.io/group-key"
	lwsRevision      = "leaderworkerset.sigs.k8s.io/template-revision-hash"
	lwsSize          = "leaderworkerset.sigs.k8s.io/size"
	mpiMark          = "training.kubeflow.org/job-name"
	mpiOperator      = "training.kubeflow.org/operator-name"
	mpiRole          = "training.kubeflow.org/job-role"
)

// objectSources are the sources with objects that are played.
func objectSources() []model.Source {
	return []model.Source{model.SourceCoscheduling, model.SourceVolcano, model.SourceNative, model.SourceMPIJob, model.SourceJobSet}
}

// kindOf returns the kind of the objects of a foreign source, sourceOf the source of a kind; isForeign reports whether it is one.
func kindOf(source model.Source) objectKind {
	return kindForeign + objectKind(source-model.SourceCoscheduling)
}

func sourceOf(kind objectKind) model.Source {
	return model.SourceCoscheduling + model.Source(kind-kindForeign)
}

func isForeign(kind objectKind) bool { return kind >= kindForeign }

// chooseSource makes some jobs those of an operator.
func (w *world) chooseSource(d rng, j *job) {
	inSteps := w.config.Seed%3 == 1 // a cluster in which most jobs are made in parts
	switch {
	case d.chance(300):
		return
	case inSteps && d.chance(700):
		j.source = pick(d, model.SourceJobSet, model.SourceJobSet, model.SourceMPIJob)
	default:
		j.source = pick(d, append(objectSources(), model.SourceKueue, model.SourceLeaderWorkerSet)...)
	}
	j.implicit, j.neverPreempts = false, false
	j.label, j.queue = cmp.Or(j.label, j.queue), "" // their pods name it
	switch j.source {
	case model.SourceVolcano:
	case model.SourceJobSet:
		j.roles = nil
		j.takeSteps(d)
	case model.SourceMPIJob:
		j.min, j.members = max(2, j.min), max(2, j.members)
		if inSteps {
			j.takeSteps(d)
		}
		j.roles = []v1alpha1.Role{{Name: "launcher", MinMember: 1}, {Name: "worker", MinMember: int32(j.min - 1)}}
	default:
		j.roles = nil
	}
}

// object is what an operator writes beside the pods of a job; nil when it writes nothing.
func (j *job) object() *unstructured.Unstructured {
	if j.source < model.SourceCoscheduling {
		return nil
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	object.SetNamespace(j.namespace)
	object.SetName(j.name)
	spec := object.Object["spec"].(map[string]any)
	switch {
	case j.source == model.SourceJobSet:
		object.Object["spec"] = j.jobSetSpec()
		return object
	case j.first > 0:
		spec["launcherCreationPolicy"] = "WaitForWorkersReady"
	}
	setMinimum(object, j.source, int32(j.min))
	if j.source == model.SourceVolcano && len(j.roles) > 0 {
		minima := map[string]any{}
		for _, role := range j.roles {
			minima[role.Name] = int64(role.MinMember)
		}
		spec["minTaskMember"] = minima
	}
	return object
}

// minimumPath is where an object says how many members start together; of an MPIJob how many of them are workers.
func minimumPath(source model.Source) []string {
	switch source {
	case model.SourceNative:
		return []string{"spec", "schedulingPolicy", "gang", "minCount"}
	case model.SourceMPIJob:
		return []string{"spec", "mpiReplicaSpecs", "Worker", "replicas"}
	}
	return []string{"spec", "minMember"}
}

func setMinimum(object *unstructured.Unstructured, source model.Source, minimum int32) {
	if source == model.SourceMPIJob {
		minimum--
	}
	_ = unstructured.SetNestedField(object.Object, int64(minimum), minimumPath(source)...) // the fields are the simulator's own
}

// asGroup is what an object of another project means, in the words of a PodGroup of ours.
func asGroup(source model.Source, object *unstructured.Unstructured) *v1alpha1.PodGroup {
	minimum, _, _ := unstructured.NestedInt64(object.Object, minimumPath(source)...)
	group := &v1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID()},
		Spec:       v1alpha1.PodGroupSpec{MinMember: int32(minimum)},
	}
	if source == model.SourceJobSet {
		jobSetAsGroup(object, group)
		return group
	}
	minima, _, _ := unstructured.NestedMap(object.Object, "spec", "minTaskMember")
	for _, name := range sortedNames(minima) {
		group.Spec.Roles = append(group.Spec.Roles, v1alpha1.Role{Name: name, MinMember: int32(minima[name].(int64))})
	}
	if minimum == 0 && source != model.SourceNative && source != model.SourceMPIJob {
		group.Spec.MinMember = 1 // clients leave it out
	}
	switch {
	case source == model.SourceMPIJob:
		group.Spec.MinMember++
		group.Spec.Roles = []v1alpha1.Role{{Name: "launcher", MinMember: 1}, {Name: "worker", MinMember: int32(minimum)}}
		if _, later, _ := unstructured.NestedString(object.Object, "spec", "launcherCreationPolicy"); later {
			group.Labels = map[string]string{"launcher": isMadeLater}
		}
	case len(group.Spec.Roles) > 0 && sumOf(group.Spec.Roles) > group.Spec.MinMember:
		group.Spec.Roles = nil // as Volcano has it
	}
	return group
}

func sumOf(roles []v1alpha1.Role) (sum int32) {
	for _, role := range roles {
		sum += role.MinMember
	}
	return sum
}

// mark puts on a pod what its operator does. role is that of a pod of a job of which a part is made later.
func (w *world) mark(j *job, pod *corev1.Pod, role string) {
	switch j.source {
	case model.SourceCoscheduling:
		pod.Labels[coschedulingMark] = j.name
	case model.SourceVolcano:
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, volcanoMark, j.name)
		if role := pod.Labels[v1alpha1.LabelRole]; role != "" {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, volcanoRole, role)
		}
	case model.SourceNative:
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &j.name}
	case model.SourceJobSet:
		pod.Labels[jobSetMark], pod.Labels[jobSetRole], pod.Labels[jobSetAttempt] = j.name, role, fmt.Sprint(j.attempt)
	case model.SourceMPIJob:
		role = cmp.Or(role, w.missingRole(j))
		pod.Labels[mpiMark], pod.Labels[mpiOperator], pod.Labels[mpiRole], pod.Labels[v1alpha1.LabelRole] = j.name, "mpi-operator", role, role
	case model.SourceKueue:
		pod.Labels[kueueMark] = j.name
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, kueueTotal, fmt.Sprint(j.min))
	case model.SourceLeaderWorkerSet:
		pod.Labels[lwsMark], pod.Labels[lwsRevision] = j.name, "one"
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, lwsSize, fmt.Sprint(j.min))
	default:
		pod.Labels[v1alpha1.LabelPodGroup] = j.name
	}
}

// missingRole is the role of the next pod of an MPIJob.
func (w *world) missingRole(j *job) string {
	for _, other := range w.server.pods() {
		if w.jobOf(other) == j && other.Labels[mpiRole] == "launcher" && !finished(other) {
			return "worker"
		}
	}
	return "launcher"
}

// foreignJobOf is the job of a pod by the marks of other projects; ok is false when it has none.
func foreignJobOf(pod *corev1.Pod) (job model.JobKey, ok bool) {
	job.Namespace = pod.Namespace
	switch {
	case pod.Spec.SchedulingGroup != nil:
		job.Name, job.Source = *pod.Spec.SchedulingGroup.PodGroupName, model.SourceNative
	case pod.Labels[coschedulingMark] != "":
		job.Name, job.Source = pod.Labels[coschedulingMark], model.SourceCoscheduling
	case pod.Annotations[volcanoMark] != "":
		job.Name, job.Source = pod.Annotations[volcanoMark], model.SourceVolcano
	case pod.Labels[lwsMark] != "":
		job.Name, job.Source = pod.Labels[lwsMark], model.SourceLeaderWorkerSet
		job.Owner = types.UID(pod.Labels[lwsMark] + "/" + pod.Labels[lwsRevision])
	case pod.Labels[kueueMark] != "":
		job.Name, job.Source = pod.Labels[kueueMark], model.SourceKueue
	case pod.Labels[mpiMark] != "":
		job.Name, job.Source = pod.Labels[mpiMark], model.SourceMPIJob
	case pod.Labels[jobSetMark] != "":
		job.Name, job.Source = pod.Labels[jobSetMark], model.SourceJobSet
	}
	return job, job.Source != model.SourcePodGroup
}

// foreignActions are the steps that concern groups of other projects, and how often each is.
func foreignActions() []step {
	return []step{
		{"edit an object of an operator", 8, (*world).editForeign},
		{"delete an object of an operator", 5, (*world).deleteForeign},
		{"a kind cannot be read", 4, (*world).hideKind},
		{"a kind can be read again", 4, (*world).showKind},
	}
}

// drawForeignPlan chooses some of them, over the time of a plan.
func drawForeignPlan(d rng) []Step { return drawPlanOf(d, foreignActions()) }

// someObject returns one of the objects of operators, and its source; false when there is none.
func (w *world) someObject(d rng) (*unstructured.Unstructured, model.Source, bool) {
	var all []object
	var sources []model.Source
	for _, source := range objectSources() {
		for _, name := range w.server.names(kindOf(source)) {
			all, sources = append(all, w.server.objects[kindOf(source)][name]), append(sources, source)
		}
	}
	if len(all) == 0 {
		return nil, 0, false
	}
	i := d.IntN(len(all))
	return all[i].DeepCopyObject().(*unstructured.Unstructured), sources[i], true
}

// editForeign moves the minimum of a group, below what is possible too.
func (w *world) editForeign(d rng) {
	object, source, ok := w.someObject(d)
	if !ok || source == model.SourceJobSet { // which cannot be changed
		return
	}
	minimum := asGroup(source, object).Spec.MinMember + pick[int32](d, -2, -1, 1, 2)
	if least := pick[int32](d, 1, 1, 1, -3); minimum < least || source == model.SourceMPIJob && minimum < 2 {
		return
	}
	setMinimum(object, source, minimum)
	object.SetGeneration(object.GetGeneration() + 1)
	w.server.update(kindOf(source), object)
}

// deleteForeign deletes the object of a group, and often makes it again.
func (w *world) deleteForeign(d rng) {
	object, source, ok := w.someObject(d)
	if !ok {
		return
	}
	w.server.remove(kindOf(source), keyOf(object))
	if d.chance(700) {
		w.later(d.span(0, 5*time.Second), "an object of an operator is created again", func() {
			delete(object.Object, "status")
			w.server.create(kindOf(source), object)
		})
	}
}

// hideKind lets the server not serve a kind any more, or takes away the right to read it; the objects stay.
func (w *world) hideKind(d rng) {
	w.server.unread[kindOf(pick(d, objectSources()...))] = pick(d, cluster.NotServed, cluster.NotAllowed)
}

func (w *world) showKind(rng) { clear(w.server.unread) }

// serveForeignStatus is the patch of an object without a status subresource: its tests refuse it where the status is not what
// was seen.
func (s *server) serveForeignStatus(status *commit.ForeignStatus) error {
	kind, name := kindOf(status.Group.Source), key(status.Group.Namespace, status.Group.Name)
	before, _ := s.objects[kind][name].(*unstructured.Unstructured)
	refused := func(code int) error {
		return apierrors.NewGenericServerResponse(code, "patch", status.Resource.GroupResource(), status.Group.Name, "refused", 0, false)
	}
	switch {
	case s.unread[kind] == cluster.NotServed, before == nil:
		return refused(http.StatusNotFound)
	case before.GetUID() != status.UID:
		return refused(http.StatusUnprocessableEntity)
	}
	now := before.DeepCopy()
	fields, has := now.Object["status"].(map[string]any)
	if has != status.HasStatus {
		return refused(http.StatusUnprocessableEntity)
	}
	if !has {
		fields = map[string]any{}
		now.Object["status"] = fields
	}
	if status.Phase != "" {
		fields["phase"] = status.Phase
	}
	if n := status.Counts; n != nil {
		fields["running"], fields["succeeded"], fields["failed"] = int64(n.Running), int64(n.Succeeded), int64(n.Failed)
	}
	if status.Condition != nil && !setForeignCondition(fields, status) {
		return refused(http.StatusUnprocessableEntity)
	}
	now.SetGeneration(now.GetGeneration() + 1)
	s.update(kind, now)
	return nil
}

// setForeignCondition puts the condition into the list of a status, and reports whether that is as it was seen.
func setForeignCondition(fields map[string]any, status *commit.ForeignStatus) bool {
	list, has := fields["conditions"].([]any)
	if has != status.HasConditions {
		return false
	}
	next := map[string]any{
		"type": status.Condition.Type, "status": string(status.Condition.Status), "reason": status.Condition.Reason, "message": status.Condition.Message,
	}
	if status.Condition.Replaces == "" {
		fields["conditions"] = append(slices.Clone(list), next)
		return true
	}
	if status.Condition.At >= len(list) {
		return false
	}
	before := list[status.Condition.At].(map[string]any)
	if before["type"] != status.Condition.Replaces || status.Condition.Was != "" && before["status"] != status.Condition.Was {
		return false
	}
	list[status.Condition.At] = next
	return true
}

// decoded is what an informer keeps of an object.
func decoded(kind objectKind, object *unstructured.Unstructured) *sources.Spec {
	watch := sources.WatchOf(sourceOf(kind))
	return watch.Decode(object)
}

// saysPhases is I7 of groups whose operators wait for a phase: it is written, and is none that makes them wait.
func (j *invariantChecker) saysPhases() {
	kind := kindOf(model.SourceVolcano)
	for _, name := range j.server.names(kind) {
		object := j.server.objects[kind][name].(*unstructured.Unstructured)
		phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
		if asGroup(model.SourceVolcano, object).Spec.MinMember >= 0 && rank(phase) == 0 {
			j.violated("I7", "group %s has the phase %q, for which its operator makes no pods", name, phase)
		}
		if j.server.recorded[object.GetUID()]["StatusContested"] > 0 {
			j.violated("I7", "the status of %s is said to be contested, and only schedulers of ours write it", name)
		}
	}
}

// goesForward is I7, too: a phase never goes back, and is Running only of a group that has had its minimum.
func (j *invariantChecker) goesForward(before, now *unstructured.Unstructured) {
	was, _, _ := unstructured.NestedString(before.Object, "status", "phase")
	is, _, _ := unstructured.NestedString(now.Object, "status", "phase")
	if rank(is) < rank(was) && !(was == sources.VolcanoCompleted && is == sources.VolcanoRunning) {
		j.violated("I7", "the phase of %s goes from %q to %q", keyOf(now), was, is)
	}
	if is != was && is == sources.VolcanoRunning && !j.started[now.GetUID()] {
		j.violated("I7", "%s is said to be %s, and never had its minimum", keyOf(now), is)
	}
}

// rank orders phases; 0 is of those for which operators make no pods.
func rank(phase string) int {
	return slices.Index([]string{sources.VolcanoInqueue, sources.VolcanoRunning, sources.VolcanoCompleted}, phase) + 1
}
