package simulation

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is jobs of which a part is made later: a JobSet whose second replicated job depends on the first one, and an MPIJob
// whose launcher waits for its workers. What their controllers do is played.

// The labels of the pods of a JobSet, and the names of its replicated jobs.
const (
	jobSetMark    = "jobset.sigs.k8s.io/jobset-name"
	jobSetRole    = "jobset.sigs.k8s.io/replicatedjob-name"
	jobSetAttempt = "jobset.sigs.k8s.io/restart-attempt"
	firstStep     = "first"
	secondStep    = "second"
)

// mostAttempts is how often a JobSet is begun.
const mostAttempts = 3

// steps is what a job has of which a part is made later.
type steps struct {
	// first is how many pods are made first; zero when none are made later.
	first int
	// afterSuccess reports that the others are made when the first have succeeded, else when they run; cleans that those
	// that have succeeded are deleted; refused that the binds of some of the others are refused for a while, and they all
	// take long to begin to run.
	afterSuccess, cleans, refused bool
	// attempt counts failures that made it begin again, succeeded the pods of this attempt that were made first and have succeeded;
	// begun reports that the others are made.
	attempt, succeeded int
	begun              bool
}

// takeSteps makes a part of a job of JobSet or mpi-operator one that is made later.
func (j *job) takeSteps(d rng) {
	if j.members = max(2, j.members); j.source == model.SourceJobSet {
		j.members = max(3, j.members)
	}
	j.min, j.mixed, j.first = j.members, false, j.members-1
	if j.source == model.SourceJobSet {
		j.first, j.afterSuccess, j.cleans, j.refused = d.number(1, j.members-2), d.chance(500), d.chance(500), d.chance(500)
		if j.afterSuccess && j.runs == 0 {
			j.runs = 5 * time.Second
		}
	}
}

// firstRole and laterRole are the roles of the pods that are made first, and of the others; empty where none are made later.
func (j *job) firstRole() string {
	switch {
	case j.first == 0:
		return ""
	case j.source == model.SourceJobSet:
		return firstStep
	}
	return "worker"
}

func (j *job) laterRole() string {
	if j.source == model.SourceJobSet {
		return secondStep
	}
	return "launcher"
}

// ofRole is how many pods of a role there are to be.
func (j *job) ofRole(role string) int {
	switch {
	case j.first == 0:
		return j.members
	case role == j.firstRole():
		return j.first
	}
	return j.members - j.first
}

// jobSetSpec is the spec of a JobSet.
func (j *job) jobSetSpec() map[string]any {
	replicated := func(name string, pods int) map[string]any {
		return map[string]any{"name": name, "replicas": int64(1), "template": map[string]any{
			"spec": map[string]any{"parallelism": int64(pods), "completions": int64(pods)},
		}}
	}
	second := replicated(secondStep, j.members-j.first)
	second["dependsOn"] = []any{map[string]any{"name": firstStep, "status": map[bool]string{false: "Ready", true: "Complete"}[j.afterSuccess]}}
	return map[string]any{"replicatedJobs": []any{replicated(firstStep, j.first), second}}
}

// What a role of a group is, by the role's name, in the labels of what the judge reads of an object.
const (
	isMadeLater = "made later"
	isDone      = "done"
)

// jobSetAsGroup is what a JobSet means, in the words of a PodGroup of ours.
func jobSetAsGroup(object *unstructured.Unstructured, group *v1alpha1.PodGroup) {
	group.Labels = map[string]string{}
	all, _, _ := unstructured.NestedSlice(object.Object, "spec", "replicatedJobs")
	for _, one := range all {
		replicated := one.(map[string]any)
		name := replicated["name"].(string)
		pods, _, _ := unstructured.NestedInt64(replicated, "template", "spec", "parallelism")
		group.Spec.Roles = append(group.Spec.Roles, v1alpha1.Role{Name: name, MinMember: int32(pods)})
		group.Spec.MinMember += int32(pods)
		if replicated["dependsOn"] != nil {
			group.Labels[name] = isMadeLater
		}
	}
	if _, succeeded, _ := unstructured.NestedSlice(object.Object, "status", "replicatedJobsStatus"); succeeded {
		group.Labels[firstStep] = isDone
	}
}

// control is the controller of a job of which a part is made later, when a pod of it has changed.
func (w *world) control(j *job, was, now *corev1.Pod) {
	if j.first == 0 || j.ended || !w.isOfThisAttempt(j, now) || now.Status.Phase == was.Status.Phase {
		return
	}
	switch phase := now.Status.Phase; {
	case phase == corev1.PodFailed && j.source == model.SourceJobSet && j.attempt+1 < mostAttempts:
		w.beginAgain(j)
	case phase == corev1.PodSucceeded && stepOf(now) == j.firstRole():
		if j.succeeded++; j.succeeded == j.first {
			w.firstIsDone(j)
		}
	}
	w.makeTheRest(j)
}

// stepOf is the role of a pod of a JobSet or an MPIJob.
func stepOf(pod *corev1.Pod) string { return pod.Labels[jobSetRole] + pod.Labels[mpiRole] }

func (w *world) isOfThisAttempt(j *job, pod *corev1.Pod) bool {
	return j.source != model.SourceJobSet || pod.Labels[jobSetAttempt] == fmt.Sprint(j.attempt)
}

// refuseSome lets the server refuse the binds of some pods that are made later, for a while.
func (w *world) refuseSome(j *job, pod *corev1.Pod) {
	if j.refused && stepOf(pod) == j.laterRole() && w.random.chance(400) {
		w.server.refused[pod.UID] = w.queue.now.Add(w.random.span(35*time.Second, 90*time.Second))
	}
}

// startsIn is how long a kubelet takes to start a pod.
func (w *world) startsIn(pod *corev1.Pod) time.Duration {
	if j := w.jobOf(pod); j != nil && j.refused && stepOf(pod) == j.laterRole() {
		return w.random.span(20*time.Second, 90*time.Second)
	}
	return w.random.span(10*time.Millisecond, w.starts)
}

// makeTheRest makes the other pods of a job once those that are made first run, or have succeeded.
func (w *world) makeTheRest(j *job) {
	object, _ := w.server.objects[j.kind()][key(j.namespace, j.name)].(*unstructured.Unstructured)
	if j.first == 0 || j.begun || j.ended || object == nil {
		return
	}
	ready, needed := j.succeeded, j.first
	if j.source == model.SourceMPIJob {
		needed = int(asGroup(j.source, object).Spec.MinMember) - 1
	}
	for _, pod := range w.server.pods() {
		if !j.afterSuccess && w.jobOf(pod) == j && w.isOfThisAttempt(j, pod) && stepOf(pod) == j.firstRole() && pod.Status.Phase == corev1.PodRunning {
			ready++
		}
	}
	if ready >= needed {
		j.begun = true
		w.makeStep(j, j.laterRole())
	}
}

// makeStep makes the pods of a role, unless the job has begun again by then.
func (w *world) makeStep(j *job, role string) {
	attempt := j.attempt
	for range j.ofRole(role) {
		w.later(w.random.span(0, pick(w.random, time.Millisecond, 100*time.Millisecond, 2*time.Second)), "a pod of a step is made", func() {
			if j.attempt == attempt {
				w.makePod(j, role)
			}
		})
	}
}

// firstIsDone writes that all pods that are made first have succeeded, and deletes them if that is so.
func (w *world) firstIsDone(j *job) {
	if j.source != model.SourceJobSet {
		return
	}
	w.writeSteps(j)
	for _, pod := range w.server.pods() {
		if j.cleans && w.jobOf(pod) == j && stepOf(pod) == firstStep {
			w.later(w.random.span(0, 20*time.Second), "a pod that has succeeded is deleted", func() { w.recordDeletion(keyOf(pod), pod.UID) })
		}
	}
}

// writeSteps writes a little later into the status of a JobSet whether its first step has succeeded.
func (w *world) writeSteps(j *job) {
	w.later(w.random.span(time.Millisecond, time.Second), "the status of a JobSet is written", func() {
		object, _ := w.server.objects[j.kind()][key(j.namespace, j.name)].(*unstructured.Unstructured)
		if object == nil || j.source != model.SourceJobSet {
			return
		}
		object = object.DeepCopy()
		delete(object.Object, "status")
		if j.succeeded == j.first {
			object.Object["status"] = map[string]any{"replicatedJobsStatus": []any{map[string]any{"name": firstStep, "succeeded": int64(1)}}}
		}
		w.server.update(j.kind(), object)
	})
}

// objectMade is the controller of the job of an object that was created again.
func (w *world) objectMade(object metav1.Object) {
	for _, j := range w.jobs {
		if j.first > 0 && j.namespace == object.GetNamespace() && j.name == object.GetName() {
			w.writeSteps(j)
			w.makeTheRest(j)
		}
	}
}

// beginAgain is a JobSet of which a pod has failed: its pods are deleted, and made again from the first step on.
func (w *world) beginAgain(j *job) {
	for _, pod := range w.server.pods() {
		if w.jobOf(pod) == j {
			w.later(w.random.span(0, 3*time.Second), "a pod of an earlier attempt is deleted", func() { w.server.deletePod(keyOf(pod), 0) })
		}
	}
	j.attempt, j.succeeded, j.begun = j.attempt+1, 0, false
	w.writeSteps(j)
	w.makeStep(j, firstStep)
}

// newest returns the pods of a job without those of earlier attempts, which count for nothing.
func newest(job model.JobKey, pods []*corev1.Pod) (these []*corev1.Pod) {
	for _, pod := range pods {
		switch {
		case jobKeyOf(pod) != job:
		case len(these) > 0 && these[0].Labels[jobSetAttempt] > pod.Labels[jobSetAttempt]: // of one digit each
		case len(these) > 0 && these[0].Labels[jobSetAttempt] < pod.Labels[jobSetAttempt]:
			these = []*corev1.Pod{pod}
		default:
			these = append(these, pod)
		}
	}
	return these
}
