package report

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is the condition Evicted of a group. Its words are those of the event about the same evictions, so that they name
// nothing of another namespace. A restart reads the condition: it stays True until the minimum is bound again.

// eviction is what the condition says of the last eviction of members of a group.
type eviction struct {
	reason, message string
	at              time.Time
	// byUser are the pods that another client has evicted; nil where the scheduler has.
	byUser     map[types.UID]bool
	generation int
}

// loss is how many members a job has lost to evictions for another one.
type loss struct {
	job     *model.Job
	members int
	right   model.Right
	note    string
	related *corev1.ObjectReference
}

// losses returns what the groups have lost to the evictions of a plan, in the order of their keys, in words for the users of
// each.
func losses(outcome *commit.Outcome, jobOf func(model.JobKey) *model.Job) (all []loss) {
	lost, by := map[model.JobKey]int{}, model.Eviction{}
	for _, victim := range outcome.Victims {
		lost[victim.Job]++
		by = victim
	}
	for _, key := range slices.SortedFunc(maps.Keys(lost), model.JobKey.Compare) {
		loser := jobOf(key)
		if loser == nil || !loser.IsSchedulableGroup() {
			continue
		}
		one, done := loss{job: loser, members: lost[key], right: by.Right}, "Evicted "+countNoun(lost[key], "member")
		one.note, one.related = onBehalfOf(done, key.Namespace, outcome.Job, jobOf(outcome.Job))
		if by.Right != "" {
			one.note, one.related = forQueue(done, by.Queue, by.Right), nil
		}
		all = append(all, one)
	}
	return all
}

// Evicted takes note of evictions that were carried out for a job.
func (r *Reporter) Evicted(outcome *commit.Outcome, jobOf func(model.JobKey) *model.Job, now time.Time) {
	reasons := map[model.Right]string{
		"": v1alpha1.EvictedByPriority, model.ByShare: v1alpha1.EvictedByShare, model.ByGuarantee: v1alpha1.EvictedByGuarantee,
	}
	for _, lost := range losses(outcome, jobOf) {
		r.evictions[lost.job.UID] = eviction{reason: reasons[lost.right], message: lost.note, at: now, generation: r.writer.generation}
	}
}

// Ends takes note that the scheduler is about to end pods itself: no user has evicted them.
func (r *Reporter) Ends(pods []model.Eviction) {
	for _, pod := range pods {
		r.ended[pod.Pod.UID] = r.writer.generation
	}
}

// evictionOf returns the eviction of which the condition of the job's group is to tell, nil when none is known. Another client
// has evicted the members that were evicted through the API and that this scheduler has not ended; of those that it finds
// terminating when it begins to lead it is not known who evicted them.
func (r *Reporter) evictionOf(job *model.Job, now time.Time) *eviction {
	known, is := r.evictions[job.UID]
	byUser := map[types.UID]bool{}
	for _, task := range job.Tasks {
		evicted := evictedThroughAPI(task.Pod)
		if _, is := r.ended[task.UID]; is || evicted && r.writer.generation == 1 {
			r.ended[task.UID] = r.writer.generation
		} else if evicted {
			byUser[task.UID] = true
		}
	}
	switch {
	case job.FirstUnmetMinimum((*model.Task).IsBound) == nil:
		return nil // it is of what was before
	case len(byUser) > 0 && (!is || known.byUser != nil):
		maps.Copy(byUser, known.byUser)
		if len(byUser) > len(known.byUser) {
			known.at = now
		}
		known.reason, known.byUser = v1alpha1.EvictedByUser, byUser
		known.message = fmt.Sprintf("Evicted %s through the API for evictions, by another client than the scheduler, as kubectl drain does",
			countNoun(len(byUser), "member"))
	case !is:
		return nil
	}
	known.generation = r.writer.generation
	r.evictions[job.UID] = known
	return &known
}

// evictedThroughAPI reports whether a pod ends, or has ended, since a client has evicted it.
func evictedThroughAPI(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue && condition.Reason == reasonEvictionByAPI
	})
}

// reasonEvictionByAPI is the API server's, on a pod that a client evicts.
const reasonEvictionByAPI = "EvictionByEvictionAPI"

// setEvicted sets the condition Evicted: True from the eviction, nil when none is known, until the minimum is bound again.
func setEvicted(status *v1alpha1.PodGroupStatus, job *model.Job, last *eviction, generation int64, now metav1.Time) {
	switch {
	case job.FirstUnmetMinimum((*model.Task).IsBound) == nil:
		setCondition(status, v1alpha1.ConditionEvicted, "", "the minimum is bound again", generation, now)
	case job.Finished() && !isToBeMadeAgain(job):
		setCondition(status, v1alpha1.ConditionEvicted, "", "the group has ended", generation, now)
	case last != nil:
		condition := metav1.Condition{
			Type: v1alpha1.ConditionEvicted, Status: metav1.ConditionTrue, Reason: last.reason, Message: last.message,
			ObservedGeneration: generation,
		}
		meta.SetStatusCondition(&status.Conditions, condition)
		// The time is when the members were evicted last, also where the condition has been True since an eviction before.
		meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionEvicted).LastTransitionTime = metav1.NewTime(last.at).Rfc3339Copy()
	}
}

// isToBeMadeAgain reports whether no member has failed by itself, of a job whose members have ended: those that were evicted are
// made again by their controller, or by nothing, as the pods of users are.
func isToBeMadeAgain(job *model.Job) bool {
	return job.Count(func(task *model.Task) bool { return model.Failed.Is(task) && task.Pod.DeletionTimestamp == nil }) == 0
}
