package cluster

import (
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file answers a panic over one object: of a translator, of kube-scheduler's code, or of ours. There is one guard, with
// three uses. An object that cannot be read is kept by its identity and refused. An object that was read, and over which the
// update of the snapshot panics, is taken out of the state, and the snapshot is made again, since half of it may be in the
// accounting. A job that cannot be filled has its members and a refusal.

// recovered returns, in one line, what a call has panicked with; empty when it has not.
func recovered(do func()) (why string) {
	defer func() {
		if what := recover(); what != nil {
			why = model.OneLine(what)
		}
	}()
	do()
	return ""
}

// guard answers panics over single objects.
type guard struct {
	// malformed says which objects could not be read, and was not taken yet.
	malformed []string
	// probe is called for each object that is read, or brought into the snapshot, for tests; nil is not called.
	probe func(identity)
}

// run does something for one object. After a panic it returns why the object is refused, and keeps that for TakeMalformed.
func (g *guard) run(object identity, do func()) *model.Refusal {
	why := recovered(func() {
		if g.probe != nil {
			g.probe(object)
		}
		do()
	})
	if why == "" {
		return nil
	}
	why = object.String() + " could not be read: " + why
	g.malformed = append(g.malformed, why)
	return &model.Refusal{Code: model.Malformed, Detail: why}
}

// TakeMalformed returns which objects could not be read since the last call, and why.
func (s *State) TakeMalformed() (malformed []string) {
	malformed, s.guard.malformed = s.guard.malformed, nil
	return malformed
}

// unreadable reports whether no more than the identity of the pod is known.
func (r *podState) unreadable() bool { return r.invalid != nil && r.invalid.Code == model.Malformed }

// keepIdentity leaves of a pod its name, its job and its node, so that it is never placed. On its node it takes what it took
// before, else no more than its place among the pods.
func (r *podState) keepIdentity(before *podState, refused *model.Refusal) {
	t := &r.task
	t.Pod, t.Request, t.NonZeroDefaults, r.invalid = identityOfPod(t.Pod), nil, model.NonZeroDefaults{}, refused
	t.Unoffered, r.unoffered, t.Asks = nil, nil, nil
	r.devices, t.Devices = nil, nil
	t.MayUseDeviceClass, t.SchedulingGated, t.Shape = false, false, unique.Make("malformed")
	if before != nil && !before.finished() {
		t.Request = before.task.Request.Clone()
		t.Request.Set(model.Unoffered, 0)
	}
	t.Request.Set(model.Pods, 1)
}

// identityOfPod returns a pod with no more than its name and node, and the CPUs that it holds there: no other pod may be given
// them.
func identityOfPod(pod *corev1.Pod) *corev1.Pod {
	known := stripFinished(pod)
	known.Spec.NodeName, known.Status.NominatedNodeName = pod.Spec.NodeName, pod.Status.NominatedNodeName
	known.Status.Reason = pod.Status.Reason
	if held, holds := pod.Annotations[isolated.AssignedAnnotation]; holds {
		metav1.SetMetaDataAnnotation(&known.ObjectMeta, isolated.AssignedAnnotation, held)
	}
	return known
}

// Rebuild empties the snapshot, and the view of it, and makes everything in it again.
func (s *State) Rebuild() {
	s.snapshot.Reset()
	if s.view != nil {
		s.view.Reset()
	}
	s.width, s.second, s.leases.dirty, s.budgets.dirty = 0, 0, true, true
	s.queues.dirty = s.queues.any()
	s.dirty = newChanges()
	for uid, entry := range s.pods.entries {
		if entry.task, entry.dirty = nil, false; entry.record == nil {
			delete(s.pods.entries, uid)
			continue
		}
		s.dirty.addPod(entry)
	}
	for name := range s.nodes {
		s.dirty.addNode(name, true)
	}
	for key := range s.pods.members {
		s.dirty.addJob(key)
	}
	for key := range s.groups {
		s.dirty.addJob(key)
	}
}
