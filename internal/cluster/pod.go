package cluster

import (
	"maps"
	"strings"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/cluster/groups"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// stuckAfter is how long a pod may outlive its deletionTimestamp, which includes its grace, before no job counts on its
// capacity any more.
const stuckAfter = 30 * time.Second

// podState is what the state knows about one pod. It is never changed, only replaced.
type podState struct {
	// task is what the snapshot shows, but for Stuck, which depends on its time.
	task model.Task
	// membership is what the pod says of its job; zero when it is not ours.
	membership groups.Membership
	// bind is the node of an assumed bind, empty when there is none.
	bind string
	// assignedCPUs are the isolated CPUs that the pod is bound with; nil when there are none.
	assignedCPUs *isolated.Assignment
	// invalid says what is wrong with what the pod asks for, and outdated that the API server has a newer version of it, which the
	// watch is yet to show. Either holds the task.
	invalid            *model.Refusal
	awaitsNewerVersion bool
	// evicted reports that an eviction is assumed.
	evicted bool
	// promise is the node of an assumed promise, empty when it is taken back; nil when what the pod says counts.
	promise *string
	// stayed is when the last snapshot was taken that showed the pod and not yet that it is being deleted; zero when none did.
	stayed time.Time
}

// finished reports whether the pod has ended.
func (r *podState) finished() bool {
	return r.task.Status == model.Succeeded || r.task.Status == model.Failed
}

// stuckAt returns from when on a pod that is being deleted counts as stuck. The deletionTimestamp is of the API server's clock.
// A clock of ours that is ahead of it must not make every pod that has just been evicted count as stuck: the nominations that
// they were evicted for would be released, and other pods be evicted again, indefinitely.
func (r *podState) stuckAt() time.Time {
	pod := r.task.Pod
	at := pod.DeletionTimestamp.Time
	if grace := pod.DeletionGracePeriodSeconds; grace != nil && !r.stayed.IsZero() {
		if least := r.stayed.Add(time.Duration(*grace) * time.Second); least.After(at) {
			at = least
		}
	}
	return at.Add(stuckAfter).Truncate(time.Second)
}

func (r *podState) stuck(now time.Time) bool {
	return r.task.Status == model.Releasing && r.task.Pod.DeletionTimestamp != nil && now.Unix() >= r.stuckAt().Unix()
}

func (s *State) applyPod(pod *corev1.Pod, deleted bool) Effect {
	living, ok := s.ledger.isNews(KindPod, pod, deleted)
	if !ok {
		return Effect{}
	}
	var effect Effect
	if living != "" && (deleted || living != pod.UID) {
		effect = s.replace(living, nil)
	}
	if deleted {
		return effect
	}
	if !s.counts(pod) {
		return effect.merge(s.replace(pod.UID, nil))
	}
	before := s.record(pod.UID)
	return effect.merge(s.replace(pod.UID, s.buildPod(pod, before, before)))
}

// counts reports whether a pod concerns us at all: it takes room, wants room from us, or is a member that has finished.
func (s *State) counts(pod *corev1.Pod) bool {
	ours := s.schedulers[pod.Spec.SchedulerName]
	switch {
	case terminal(pod):
		return ours
	case pod.Spec.NodeName != "":
		return true
	default:
		return ours && pod.DeletionTimestamp == nil
	}
}

func terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// readRecord reads a pod. What was assumed about it before stays as long as the pod does not say otherwise; what was
// worked out for an earlier version is taken over where it must be the same. Either may be nil.
func (s *State) readRecord(pod *corev1.Pod, before, earlier *podState) *podState {
	r := &podState{}
	t := &r.task
	t.PodRef = model.PodRef{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}
	t.Created = pod.CreationTimestamp.Time
	t.Pod = pod
	if s.schedulers[pod.Spec.SchedulerName] {
		r.membership, t.Role = groups.Of(pod), groups.Role(pod)
	}
	s.membershipOf(r)
	t.Started = hasStarted(pod)
	if terminal(pod) {
		// A finished pod may come stripped or whole; it means the same.
		t.Shape = unique.Make("")
		t.Placement = r.position()
		return r
	}
	if pod.Spec.Priority != nil {
		t.Priority = *pod.Spec.Priority
	}
	t.SchedulingGated = len(pod.Spec.SchedulingGates) > 0
	same := earlier != nil && !earlier.finished() && sameSpec(earlier.task.Pod, pod) && sameCPUCharge(earlier, pod) &&
		sameOwnAnnotations(earlier.task.Pod.Annotations, pod.Annotations) && sameLabels(earlier.task.Pod.Labels, pod.Labels, true)
	if same {
		t.Request, r.invalid, t.NonZeroDefaults = earlier.task.Request, earlier.invalid, earlier.task.NonZeroDefaults
	} else {
		t.Request, r.invalid = s.request(pod)
		t.NonZeroDefaults = nonZeroDefaultsOf(pod)
	}
	t.MayUseDeviceClass = s.devices.requestsAny(t.Request)
	if same && earlier.task.Pod.Spec.NodeName == pod.Spec.NodeName {
		t.Shape = earlier.task.Shape
	} else {
		t.Shape = shapeOf(s.dimensions, t.Request, pod)
	}
	r.assume(before, s.snapshot.Now)
	return r
}

// assume takes over what was assumed about the pod before, unless it says otherwise; nil is nothing. seen is when the last
// snapshot was taken.
func (r *podState) assume(before *podState, seen time.Time) {
	pod := r.task.Pod
	if before != nil {
		if pod.Spec.NodeName == "" {
			if r.bind, r.assignedCPUs = before.bind, before.assignedCPUs; r.chargedAtBind() {
				r.task.Request = before.task.Request
			}
		}
		switch {
		case pod.DeletionTimestamp == nil:
			r.evicted = before.evicted
		case before.task.Pod.DeletionTimestamp == nil:
			r.stayed = seen
		default:
			r.stayed = before.stayed
		}
		if before.promise != nil && pod.Spec.NodeName == "" && *before.promise != pod.Status.NominatedNodeName {
			r.promise = before.promise
		}
	}
	r.derivePosition()
}

// derivePosition works out where the pod is, and where it is nominated to, from what it says and what is assumed.
func (r *podState) derivePosition() {
	t := &r.task
	t.Placement, t.Nominated = r.position(), ""
	t.Isolated = r.isolated()
	if t.Invalid = r.invalid; t.Invalid == nil && t.Job.WithoutPodGroup {
		t.Invalid = r.membership.Malformed
	}
	if t.Invalid == nil && r.awaitsNewerVersion {
		t.Invalid = &model.Refusal{Code: model.BindFailed, Detail: "the pod has changed while it was being bound, and is about to be looked at again"}
	}
	switch {
	case t.Status != model.Pending || t.Job == (model.JobKey{}):
	case r.promise != nil:
		t.Nominated = *r.promise
	default:
		t.Nominated = t.Pod.Status.NominatedNodeName
	}
}

func (r *podState) position() model.Placement {
	pod := r.task.Pod
	node := pod.Spec.NodeName
	if node == "" {
		node = r.bind
	}
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		return model.Placement{Status: model.Succeeded}
	case pod.Status.Phase == corev1.PodFailed:
		return model.Placement{Status: model.Failed}
	case node == "":
		return model.Placement{Status: model.Pending}
	case r.evicted || pod.DeletionTimestamp != nil:
		return model.Placement{Status: model.Releasing, Node: node}
	case pod.Spec.NodeName == "":
		return model.Placement{Status: model.Binding, Node: node}
	case pod.Status.Phase == corev1.PodRunning:
		return model.Placement{Status: model.Running, Node: node}
	default:
		return model.Placement{Status: model.Bound, Node: node}
	}
}

// replace puts a record in the place of what is known about a pod and says whom it concerns; nil makes it gone.
func (s *State) replace(uid types.UID, after *podState) Effect {
	slot, before := s.find(uid)
	switch {
	case slot != nil:
		s.index(slot, after)
	case after != nil:
		slot = &podEntry{uid: uid}
		s.pods[uid] = slot
		s.index(slot, after)
	}
	switch {
	case before == nil && after == nil:
		return Effect{}
	case before == nil:
		return Effect{Schedule: true, Report: after.task.Job != model.JobKey{}}
	case after == nil:
		return Effect{Schedule: true, Report: before.task.Job != model.JobKey{}}
	}
	effect := change(before, after)
	if len(s.reserved) > 0 && !sameStartTime(before.task.Pod, after.task.Pod) {
		effect.Schedule = true // when room is expected to be free depends on it
	}
	if s.makesWhole(before, after) && s.waits(after.task.Job) {
		effect.Schedule = true
	}
	return effect
}

// sameStartTime reports whether two versions of a pod began to run at the same time, and may do so for as long.
func sameStartTime(a, b *corev1.Pod) bool {
	return a.Status.StartTime.Equal(b.Status.StartTime) && equality.Semantic.DeepEqual(a.Spec.ActiveDeadlineSeconds, b.Spec.ActiveDeadlineSeconds)
}

// markJob marks the jobs whose own fields, list of tasks or questions may have changed; a task that goes from node to node,
// or begins to run where it was bound, changes none of them.
func (s *State) markJob(before, after *podState) {
	if before != nil && after != nil && before.finished() == after.finished() &&
		sameQueueState(before.task.Status, after.task.Status) && sameSchedulingSpec(&before.task, &after.task) && !s.makesWhole(before, after) {
		return
	}
	for _, r := range []*podState{before, after} {
		if r != nil && r.task.Job != (model.JobKey{}) {
			s.dirtyJobs[r.task.Job] = struct{}{}
		}
	}
}

// makesWhole reports whether a container of an implicit group has begun to run that was not known to have been whole.
func (s *State) makesWhole(before, after *podState) bool {
	if key := after.task.Job; key.WithoutPodGroup && after.task.Started && !before.task.Started {
		job := s.snapshot.Job(key)
		return job != nil && !job.Whole
	}
	return false
}

// sameQueueState reports whether tasks of two statuses leave as much to decide about their job.
func sameQueueState(a, b model.Status) bool {
	return (a == model.Pending) == (b == model.Pending) && a.CountsTowardMinimum() == b.CountsTowardMinimum()
}

// sameSchedulingSpec reports whether two versions of a task ask the same of the cluster, in the same place of its job.
func sameSchedulingSpec(a, b *model.Task) bool {
	return a.Job == b.Job && a.MinMember == b.MinMember && a.Role == b.Role && a.Priority == b.Priority && a.Created.Equal(b.Created) &&
		a.Shape == b.Shape && a.MayUseDeviceClass == b.MayUseDeviceClass && a.SchedulingGated == b.SchedulingGated && a.Nominated == b.Nominated && a.Invalid.String() == b.Invalid.String() &&
		(b.Status != model.Pending || maps.Equal(a.Pod.Labels, b.Pod.Labels)) // others are drawn to them, or kept away: itself, too
}

// change says whom the difference between two records of one pod concerns.
func change(before, after *podState) Effect {
	a, b := &before.task, &after.task
	moved := a.Placement != b.Placement
	expected := a.Node == b.Node && isOnNode(a.Status) && isOnNode(b.Status)
	ours := a.Job != model.JobKey{} || b.Job != model.JobKey{}
	held := a.SchedulingGated != b.SchedulingGated || a.Invalid.String() != b.Invalid.String()
	asks := !sameCPUs(a.Isolated, b.Isolated) || a.Job != b.Job || a.MinMember != b.MinMember || a.Role != b.Role || a.Priority != b.Priority || !a.Request.Equal(b.Request) ||
		a.NonZeroDefaults != b.NonZeroDefaults || a.Nominated != b.Nominated ||
		!a.Pod.DeletionTimestamp.Equal(b.Pod.DeletionTimestamp) || // decides from when on the pod is stuck
		!sameLabels(a.Pod.Labels, b.Pod.Labels, expected)
	if b.Status == model.Pending {
		asks = asks || a.Shape != b.Shape || !sameOwnAnnotations(a.Pod.Annotations, b.Pod.Annotations) ||
			!equality.Semantic.DeepEqual(a.Pod.Status.ResourceClaimStatuses, b.Pod.Status.ResourceClaimStatuses)
	}
	return Effect{Schedule: moved && !expected || held || asks, Report: ours && (moved || held || asks)}
}

// isOnNode reports whether a pod has its place; from one such status to the next nothing changes for anybody else.
func isOnNode(status model.Status) bool {
	return status == model.Binding || status == model.Bound || status == model.Running
}

// sameLabels compares labels; those of the node, which the API server copies to the pod as it is bound, do not count
// when the pod was expected there.
func sameLabels(a, b map[string]string, expected bool) bool {
	if maps.Equal(a, b) {
		return true
	}
	if !expected {
		return false
	}
	copied := func(key, _ string) bool { return strings.HasPrefix(key, "topology.kubernetes.io/") }
	a, b = maps.Clone(a), maps.Clone(b)
	maps.DeleteFunc(a, copied)
	maps.DeleteFunc(b, copied)
	return maps.Equal(a, b)
}

// sameOwnAnnotations compares the annotations that mean something to us.
func sameOwnAnnotations(a, b map[string]string) bool {
	return within(a, b) && within(b, a)
}

func within(a, b map[string]string) bool {
	for key, value := range a {
		if other, ok := b[key]; isOwnAnnotation(key) && (!ok || other != value) {
			return false
		}
	}
	return true
}

// isOwnAnnotation reports whether an annotation is one of the project's.
func isOwnAnnotation(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return strings.HasSuffix(domain, ".tutti.dev")
}
