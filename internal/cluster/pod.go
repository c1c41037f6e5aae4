package cluster

import (
	"slices"
	"time"
	"unique"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// stuckAfter is how long a pod may outlive its grace, and State.maxGrace if that is shorter, before no job counts on its capacity
// any more.
const stuckAfter = 30 * time.Second

// podState is what the state knows about one pod. It is never changed, only replaced.
type podState struct {
	// task is what the snapshot shows, without TerminationOverdue, which depends on its time.
	task model.Task
	// membership is what the pod says of its job; zero when it is not ours. malformed is what cannot be read of the one that
	// holds: see membershipOf.
	membership sources.Membership
	malformed  *model.Refusal
	// bind is the node of an assumed bind, empty when there is none.
	bind string
	// assignedCPUs are the isolated CPUs that the pod is being bound with, heldCPUs those that stand on it and count; nil when there
	// are none.
	assignedCPUs, heldCPUs *isolated.Assignment
	// unoffered is what it requests of resources that no node offers; nil when that is nothing.
	unoffered corev1.ResourceList
	// devices is what is known of the devices that it asks for by claims or classes; nil when it asks for none.
	devices *podDevices
	// invalid says what is wrong with what the pod asks for, and outdated that the API server has a newer version of it, which the
	// watch is yet to show. Either holds the task.
	invalid            *model.Refusal
	awaitsNewerVersion bool
	// evicted reports that an eviction is assumed, prolonged that a client has deleted the pod with so long a grace that it counts
	// as one that runs: see updateProlonged.
	evicted, prolonged bool
	// nomination is the node of an assumed nomination, empty when it is taken back; nil when the one before it counts: nominated, as
	// this process wrote it, or as it stood on the pod before this process led. attempted is the node of the last one that was
	// forgotten, and may have been written nevertheless.
	nomination           *string
	nominated, attempted string
	// stayed is when the last snapshot was taken that showed the pod and not yet that it is being deleted, or, of a prolonged pod,
	// that it is evicted; zero when none did.
	stayed time.Time
}

// finished reports whether the pod has ended.
func (r *podState) finished() bool {
	return r.task.Status == model.Succeeded || r.task.Status == model.Failed
}

// stuckAt returns from when on a pod that is being deleted counts as stuck, whichever client has deleted it: its
// deletionTimestamp includes the grace that it was deleted with, which may be a year. It is of the API server's clock. A clock
// of ours that is ahead of it must not make every pod that has just been evicted count as stuck: the nominations that they were
// evicted for would be released, and other pods be evicted again, indefinitely.
func (r *podState) stuckAt(maxGrace time.Duration) time.Time {
	pod := r.task.Pod
	at := pod.DeletionTimestamp.Time
	if seconds := pod.DeletionGracePeriodSeconds; seconds != nil {
		began := at.Add(-time.Duration(*seconds) * time.Second) // may overflow, as where the API server added it
		if r.stayed.After(began) {
			began = r.stayed
		}
		at = began.Add(min(time.Duration(*seconds), maxGrace/time.Second) * time.Second)
	}
	return at.Add(stuckAfter).Truncate(time.Second)
}

func (r *podState) stuck(now time.Time, maxGrace time.Duration) bool {
	return r.task.Status == model.Releasing && r.task.Pod.DeletionTimestamp != nil && now.Unix() >= r.stuckAt(maxGrace).Unix()
}

// prolongedUntil returns until when a pod that is being deleted has more than the limit left, by the grace of its deletion.
// That may be so long that the deletionTimestamp has overflowed: it is counted from when the deletion began.
func (r *podState) prolongedUntil(maxGrace time.Duration) time.Time {
	const century = 100 * 365 * 24 * 3600
	pod := r.task.Pod
	if pod.DeletionGracePeriodSeconds == nil {
		return time.Time{}
	}
	seconds := *pod.DeletionGracePeriodSeconds
	began := pod.DeletionTimestamp.Add(-time.Duration(seconds) * time.Second)
	return began.Add(time.Duration(min(seconds, century))*time.Second - maxGrace)
}

// updateProlonged lets a pod that is stuck, and that its deletion gives longer than the limit from now on, count as one that
// runs: it may be evicted, which shortens the time that it has. Otherwise a user could keep a node for a year from jobs of any
// priority, by deleting a pod that does not end with a grace of a year.
func (s *State) updateProlonged(now time.Time) {
	if s.second == now.Unix() { // which patchOverdue sets
		return
	}
	for _, entry := range s.pods.releasing {
		r := entry.record
		prolonged := (r.prolonged || r.stuck(now, s.maxGrace)) && r.prolongedUntil(s.maxGrace).After(now)
		if prolonged != r.prolonged {
			after := *r
			after.prolonged = prolonged
			after.derivePosition()
			s.put(entry, &after)
		}
	}
}

// graceSeconds returns how long a pod may take to end when we end it. Without a grace of its own, as only in tests, it has
// that of the API server. One that is being deleted has at least a second: without a grace the API server leaves its deletion as
// it is.
func (s *State) graceSeconds(pod *corev1.Pod) int64 {
	least, own := int64(0), int64(corev1.DefaultTerminationGracePeriodSeconds)
	if pod.DeletionTimestamp != nil {
		least = 1
	}
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		own = *pod.Spec.TerminationGracePeriodSeconds
	}
	return min(int64(s.maxGrace/time.Second), max(least, own))
}

// PodSeen is a new version of a pod, or its end.
type PodSeen struct {
	Pod  *corev1.Pod
	Gone bool
}

func (e *PodSeen) object() (string, metav1.Object, bool) { return kindPod, e.Pod, e.Gone }

func (e *PodSeen) apply(s *State, ended types.UID) (effect Effect) {
	if ended != "" {
		effect = s.followOther(ended, nil).merge(s.followUnbound(ended, nil)).merge(s.dropPod(ended)) // the state need not hold it
	}
	if !e.Gone {
		effect = effect.merge(s.applyPod(e.Pod))
	}
	return effect
}

// applyPod takes in a new version of a pod.
func (s *State) applyPod(pod *corev1.Pod) Effect {
	effect := s.followOther(pod.UID, pod).merge(s.followUnbound(pod.UID, pod))
	if !s.counts(pod) {
		return effect.merge(s.dropPod(pod.UID))
	}
	entry := s.pods.entries[pod.UID]
	if entry == nil {
		entry = &podEntry{uid: pod.UID}
		s.pods.entries[pod.UID] = entry
	}
	return effect.merge(s.put(entry, s.readPod(pod, entry.record)))
}

// dropPod makes a pod gone, or one that does not concern us any more.
func (s *State) dropPod(uid types.UID) Effect {
	if entry := s.pods.entries[uid]; entry != nil && entry.record != nil {
		return s.put(entry, nil)
	}
	return Effect{}
}

// counts reports whether a pod concerns us at all: it takes capacity, wants capacity from us, or is a member that has finished.
func (s *State) counts(pod *corev1.Pod) bool {
	ours := s.schedulers[pod.Spec.SchedulerName]
	switch {
	case terminal(pod):
		return ours && !s.hasEndedByDeletion(pod)
	case pod.Spec.NodeName != "":
		return true
	default:
		return ours && pod.DeletionTimestamp == nil
	}
}

func terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// hasEndedByDeletion reports whether a pod that is deleted has ended with the exit code 0, as many programs do on SIGTERM. It has
// not done its work, and what controls it makes another one: until it is gone it would count in the place of that, and a part
// of its gang would start. A Job of Kubernetes counts it as done, and makes none; Kueue deletes one that is made.
func (s *State) hasEndedByDeletion(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodSucceeded || !isDeletedAlive(pod) {
		return false
	}
	controller := metav1.GetControllerOfNoCopy(pod)
	ofJob := controller != nil && controller.Kind == "Job" && controller.APIVersion == batchv1.SchemeGroupVersion.String()
	return !ofJob && s.sources.Of(pod).Job.Source != model.SourceKueue
}

// isDeletedAlive reports whether a pod was deleted before it had ended: by an eviction, a scheduler or another controller of
// nodes, or with a grace, which the API server does not give to a pod that has ended.
func isDeletedAlive(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp == nil {
		return false
	}
	return ptr.Deref(pod.DeletionGracePeriodSeconds, 0) > 0 || slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue
	})
}

// readPod reads a pod. What was assumed about it before stays as long as the pod does not say otherwise, and what was worked out
// for an earlier version is taken over where it must be the same; before may be nil. The same version is read again because what
// it is read by has changed, and then nothing is taken over.
func (s *State) readPod(pod *corev1.Pod, before *podState) *podState {
	if before != nil && before.task.Pod == pod && before.unreadable() {
		return before // what is left of it says less than it did
	}
	r := &podState{}
	t := &r.task
	t.PodRef = model.PodRef{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}
	t.Created, t.Pod, t.GraceSeconds = pod.CreationTimestamp.Time, pod, s.graceSeconds(pod)
	if s.schedulers[pod.Spec.SchedulerName] {
		r.membership = s.sources.Of(pod)
		s.shareOtherwise(&r.membership)
	}
	s.membershipOf(r)
	t.Started, t.Member, t.Ranks, t.Place = hasStarted(pod), s.said.Of(pod), sources.Ranks(pod), sources.PlaceOf(pod.Annotations)
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
	if refused := s.guard.run(identityOf(kindPod, pod), func() { s.readRequest(r, before) }); refused != nil {
		r.keepIdentity(before, refused)
		t.Member = s.said.Of(t.Pod)
	}
	r.readNomination(before, s.leading)
	r.assume(before, s.snapshot.Now)
	return r
}

// readAgain reads the pods again that are as asked, since what they are read by has changed.
func (s *State) readAgain(is func(*podState) bool) {
	for _, entry := range s.pods.entries {
		if known := entry.record; known != nil && is(known) {
			s.put(entry, s.readPod(known.task.Pod, known))
		}
	}
}

// readRequest works out what a pod asks of a node.
func (s *State) readRequest(r, before *podState) {
	t, pod := &r.task, r.task.Pod
	r.heldCPUs, t.Asks = s.heldCPUs(pod), isolated.AskedBy(pod)
	t.Isolated = r.heldCPUs
	same := before != nil && before.task.Pod != pod && !before.finished() && kube.SameSpec(before.task.Pod, pod) && sameCPUCharge(before, r) &&
		sameOwnAnnotations(before.task.Pod.Annotations, pod.Annotations) && sameLabels(before.task.Pod.Labels, pod.Labels, true) &&
		equality.Semantic.DeepEqual(before.task.Pod.Status.ResourceClaimStatuses, pod.Status.ResourceClaimStatuses)
	if same {
		t.Request, t.Devices, r.devices, r.unoffered = before.task.Request, before.task.Devices, before.devices, before.unoffered
		r.invalid, t.NonZeroDefaults = before.invalid, before.task.NonZeroDefaults
	} else {
		t.Request, r.unoffered, r.invalid = s.request(t)
		t.NonZeroDefaults = nonZeroDefaultsOf(pod)
		if r.devices = s.devicesOf(pod, t.Request); s.paysAlone(r) {
			t.Request, t.Devices = s.withDevices(r)
		}
	}
	if waits := pod.Spec.NodeName == ""; waits && r.unoffered != nil && r.invalid == nil {
		t.Request, t.Unoffered = t.Request.Clone(), r.unoffered
		t.Request.Set(model.Unoffered, 1)
	} else if t.Request.At(model.Unoffered) != 0 {
		t.Request = t.Request.Clone()
		t.Request.Set(model.Unoffered, 0)
	}
	t.MayUseDeviceClass = s.devices.classes.requestsAny(r.ownRequest())
	if same && before.task.Pod.Spec.NodeName == pod.Spec.NodeName {
		t.Shape = before.task.Shape
	} else {
		t.Shape = shapeOf(s.dimensions, t)
	}
}

// ownRequest returns what the pod requests without its claims.
func (r *podState) ownRequest() model.Resources {
	if r.devices != nil {
		return r.devices.own
	}
	return r.task.Request
}

// membershipOf says which job a pod belongs to, and what it says of that.
func (s *State) membershipOf(r *podState) {
	m := &r.membership
	for m.Otherwise != nil && !s.holds(m.Job) {
		m = m.Otherwise
	}
	r.malformed = m.Malformed
	t := &r.task
	t.Job, t.Role, t.MinMember, t.MayDoWithoutGroup = m.Job, m.Role, m.MinMember, r.membership.Otherwise != nil
	t.BoundWith = sources.BoundWith(t.Pod, t.Job)
}

// shareOtherwise lets the members of a group hold one copy of what holds in its place, if they say the same.
func (s *State) shareOtherwise(m *sources.Membership) {
	if m.Otherwise == nil {
		return
	}
	for _, entry := range s.pods.uncertain[m.Job] {
		if other := entry.record.membership.Otherwise; other != nil && *m.Otherwise == *other {
			m.Otherwise = other
		}
		return // one is enough: they differ in their roles at most
	}
}

// holds reports whether pods are in the group that they may be in: a PodGroup of ours that exists, or a foreign one unless it
// exists and is no gang.
func (s *State) holds(job model.JobKey) bool {
	if job.IsForeign() {
		return !s.foreign.isNoGang(job)
	}
	return s.groups[job] != nil
}

// hasStarted reports whether a container of the pod runs, or has done its work.
func hasStarted(pod *corev1.Pod) bool {
	started := func(status corev1.ContainerStatus) bool { return mayHaveSideEffects(&status) }
	return pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodSucceeded ||
		pod.Status.Phase == corev1.PodPending && slices.ContainsFunc(pod.Status.InitContainerStatuses, started)
}

// mayHaveSideEffects reports whether an init container has come so far that it may have done something.
func mayHaveSideEffects(status *corev1.ContainerStatus) bool {
	return status.Started != nil && *status.Started || status.State.Running != nil || status.State.Terminated != nil ||
		status.LastTerminationState.Terminated != nil
}

// readNomination works out the node that was nominated. While this process leads, only its own writes count: users and other
// components can write to the status of a pod, too, and no pod was evicted for what they write.
func (r *podState) readNomination(before *podState, leading bool) {
	says := r.task.Pod.Status.NominatedNodeName
	switch {
	case !leading:
		r.nominated = says
	case before != nil:
		r.nominated, r.attempted = before.nominated, before.attempted
		if before.nomination != nil && *before.nomination == says || says != "" && says == before.attempted {
			r.nominated, r.attempted = says, ""
		}
	}
}

// assume takes over what was assumed about the pod before, unless it says otherwise; nil is nothing. seen is when the last
// snapshot was taken.
func (r *podState) assume(before *podState, seen time.Time) {
	pod := r.task.Pod
	if before != nil {
		if pod.Spec.NodeName == "" {
			if r.bind, r.assignedCPUs = before.bind, before.assignedCPUs; r.bind != "" {
				r.task.Place = before.task.Place
			}
			if r.chargedAtBind() {
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
			if ptr.Equal(pod.DeletionGracePeriodSeconds, before.task.Pod.DeletionGracePeriodSeconds) { // else it was shortened
				r.evicted, r.prolonged = before.evicted, before.prolonged
			}
		}
		if before.nomination != nil && pod.Spec.NodeName == "" && *before.nomination != pod.Status.NominatedNodeName {
			r.nomination = before.nomination
		}
	}
	r.derivePosition()
}

// derivePosition works out where the pod is, and where it is nominated to, from what it says and what is assumed.
func (r *podState) derivePosition() {
	t := &r.task
	t.Placement, t.Nominated = r.position(), ""
	t.Isolated = r.isolated()
	if t.Invalid = r.invalid; t.Invalid == nil {
		t.Invalid = r.malformed
	}
	if t.Invalid == nil && r.awaitsNewerVersion {
		t.Invalid = &model.Refusal{Code: model.BindFailed, Detail: "the pod has changed while it was being bound, and is about to be looked at again"}
	}
	switch {
	case t.Status != model.Pending || t.Job == (model.JobKey{}):
	case r.nomination != nil:
		t.Nominated = *r.nomination
	default:
		t.Nominated = r.nominated
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
	case r.evicted || pod.DeletionTimestamp != nil && !r.prolonged:
		return model.Placement{Status: model.Releasing, Node: node}
	case pod.Spec.NodeName == "":
		return model.Placement{Status: model.Binding, Node: node}
	case pod.Status.Phase == corev1.PodRunning:
		return model.Placement{Status: model.Running, Node: node}
	default:
		return model.Placement{Status: model.Bound, Node: node}
	}
}
