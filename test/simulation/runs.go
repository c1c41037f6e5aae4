package simulation

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is groups with several runs: once all members of a group have succeeded, and are kept, a controller creates as many
// pods again for the same PodGroup. What the controller does is played, and the judge holds each run to the minimum by itself.

// runMark is the label that says for which run of its group a pod was created; a pod of the first run has none.
const runMark = "run"

// attempts are the runs of a job.
type attempts struct {
	// again is how many runs follow the first one, run the number of the present one; next reports that another one is about to
	// begin.
	again, run int
	next       bool
	// jumped is how far the server's clock had jumped when the job was submitted. Times that jump do not tell runs apart, so that
	// after a jump no further run, and nothing more of one, is created.
	jumped time.Duration
	chance rng
}

// chooseRuns gives some jobs with a PodGroup of ours further runs. The pods of others say nothing of when they end.
func (w *world) chooseRuns(j *job) {
	d := newRandom(w.config.Seed, "runs of "+j.name)
	if j.implicit || j.source != model.SourcePodGroup || j.runs == 0 || d.chance(300) {
		return
	}
	j.attempts = attempts{again: d.number(1, 2), jumped: w.server.jumped, chance: d}
}

// markRun marks a pod as one of the present run of its job, which has an object of its own that controls its pods: a Job that
// a controller of the whole creates for each attempt.
func (j *job) markRun(pod *corev1.Pod) {
	if j.again == 0 {
		return
	}
	if j.run > 0 {
		pod.Name += fmt.Sprintf("-r%d", j.run)
		pod.Labels[runMark] = fmt.Sprint(j.run)
	}
	name := fmt.Sprintf("%s-r%d", j.name, j.run)
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: name, UID: types.UID("controller-" + name), Controller: new(true)}}
}

// runOf is the run for which a pod was created.
func runOf(pod *corev1.Pod) int {
	run, _ := strconv.Atoi(pod.Labels[runMark]) // the world's own, or empty
	return run
}

// end writes into a pod that it has ended, and when, as far as its job tells runs apart.
func (w *world) end(pod *corev1.Pod, phase corev1.PodPhase) {
	pod.Status.Phase = phase
	if j := w.jobOf(pod); j == nil || j.again == 0 {
		return
	}
	now := w.server.now()
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{FinishedAt: now},
	}}}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Subresource: "status", Time: &now}}
}

// runHasEnded reports whether all that a run is made of has succeeded and is kept.
func (w *world) runHasEnded(j *job) bool {
	succeeded := 0
	for _, pod := range w.server.pods() {
		switch {
		case w.jobOf(pod) != j || runOf(pod) != j.run:
		case !finished(pod):
			return false
		case pod.Status.Phase == corev1.PodSucceeded:
			succeeded++
		}
	}
	return succeeded >= j.members
}

// repeat is the controller of a job with several runs, when a pod of it has ended.
func (w *world) repeat(j *job) {
	if j.run == j.again || j.next || !w.runHasEnded(j) {
		return
	}
	j.next = true
	w.later(j.chance.span(0, pick(j.chance, time.Second, 20*time.Second)), "the next run begins", func() {
		if j.next = false; !w.runHasEnded(j) || w.server.jumped != j.jumped {
			return
		}
		j.run++
		for range j.members {
			w.later(j.chance.span(0, pick(j.chance, time.Millisecond, 100*time.Millisecond, 5*time.Second)), "a pod of the next run is made", func() {
				w.makePod(j, "")
			})
		}
	})
}

// ofPresentRun returns the pods of a namespace without those of runs of a group that had ended before the present one began, and
// which run is the first that is left. A run has ended when all pods of it have; and as many of them are kept as the group
// needs, since otherwise others may be gone, and later pods created in their place, unless as many as it needs wait that were
// created since, and none of these has a node.
func ofPresentRun(group *v1alpha1.PodGroup, pods []*corev1.Pod) (these []*corev1.Pod, first int) {
	last, kept, ended := 0, map[int]int{}, map[int]bool{}
	placed := map[int]bool{}
	for _, pod := range pods {
		if isOf(group, pod) {
			run := runOf(pod)
			ended[run] = finished(pod) && (kept[run] == 0 || ended[run])
			kept[run]++
			placed[run] = placed[run] || pod.Spec.NodeName != ""
			last = max(last, run)
		}
	}
	if last == 0 {
		return pods, 0
	}
	before, done := 0, true
	for run := range last + 1 {
		if kept[run] == 0 {
			continue
		}
		since, waits := 0, true
		for later := run; later <= last; later++ {
			since, waits = since+kept[later], waits && !placed[later]
		}
		if done && before > 0 && (before >= int(group.Spec.MinMember) || waits && since >= int(group.Spec.MinMember)) {
			first, before = run, 0
		}
		before, done = before+kept[run], done && ended[run]
	}
	for _, pod := range pods {
		if !isOf(group, pod) || runOf(pod) >= first {
			these = append(these, pod)
		}
	}
	return these, first
}

// isOf reports whether a pod is a member of a PodGroup of ours.
func isOf(group *v1alpha1.PodGroup, pod *corev1.Pod) bool {
	return pod.Namespace == group.Namespace && pod.Labels[v1alpha1.LabelPodGroup] == group.Name
}

// noteRun takes down which run of a group is the present one. Of a further one nothing has started yet. Where the runs before
// count again, since pods of them are gone or the minimum was changed, the group is one that was changed from outside.
func (j *invariantChecker) noteRun(one *part) {
	known := j.run[one.UID]
	if one.Run == known {
		return
	}
	j.run[one.UID] = one.Run
	delete(j.started, one.UID)
	delete(j.inPart, one.UID)
	if one.Run < known {
		j.hurt[one.UID], j.robbed[one.UID] = true, true
	}
}
