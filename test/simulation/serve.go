package simulation

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/test/invariants"
)

// This file answers the calls of schedulers in the words of the real API server.

// serve carries out a call, or says why not.
func (s *server) serve(call commit.Call) error {
	switch call.Kind {
	case commit.CallBind:
		return s.serveBind(call)
	case commit.CallGetPod:
		return s.serveRead(call)
	case commit.CallEvict:
		return s.serveEvict(call)
	case commit.CallDelete, commit.CallDeleteStarted:
		return s.serveDelete(call)
	case commit.CallNominate:
		return s.serveNomination(call)
	case commit.CallSetCondition, commit.CallPodCondition:
		return s.patchStatus(call, func(pod *corev1.Pod) { setCondition(pod, call.Write.(*commit.PodCondition).Condition) })
	case commit.CallGroupStatus:
		return s.serveGroupStatus(call.Write.(*commit.GroupStatus))
	case commit.CallForeignStatus:
		return s.serveForeignStatus(call.Write.(*commit.ForeignStatus))
	case commit.CallQueueStatus:
		return s.serveQueueStatus(call.Write.(*commit.QueueStatus))
	case commit.CallEvent:
		return s.serveEvent(call.Write.(*commit.Event))
	}
	return fmt.Errorf("the model has no %s", call.Kind)
}

func (s *server) serveBind(call commit.Call) error {
	name := call.Pod.String()
	pod := s.pod(name)
	conflict := func(format string, words ...any) error {
		return apierrors.NewConflict(corev1.Resource("pods/binding"), call.Pod.Name, fmt.Errorf(format, words...))
	}
	switch {
	case pod == nil:
		return notFound("pods", call.Pod.Name)
	case pod.UID != call.Pod.UID:
		return conflict("Precondition failed: UID in precondition: %v, UID in object meta: %v", call.Pod.UID, pod.UID)
	case pod.DeletionTimestamp != nil:
		return conflict("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "" && !s.careless:
		return conflict("pod %v is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		return conflict("pod %v has non-empty .spec.schedulingGates", pod.Name)
	}
	if s.queue.now.Before(s.refused[pod.UID]) {
		return apierrors.NewForbidden(corev1.Resource("pods/binding"), call.Pod.Name, errors.New("denied by an admission policy"))
	}
	s.bound[pod.UID]++
	s.changePod(name, pod.UID, func(pod *corev1.Pod) {
		pod.Spec.NodeName, pod.Status.NominatedNodeName = call.Node, ""
		for key, value := range call.Annotations() {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
		}
		setCondition(pod, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: s.now()})
	})
	return nil
}

// serveRead reports whether a pod is where a bind would have it.
func (s *server) serveRead(call commit.Call) error {
	pod := s.pod(call.Pod.String())
	switch {
	case pod == nil || pod.UID != call.Pod.UID:
		return notFound("pods", call.Pod.Name)
	case pod.Spec.NodeName == "":
		return commit.ErrNotBound
	case pod.Spec.NodeName != call.Node:
		return commit.ErrElsewhere
	}
	return nil
}

func (s *server) serveDelete(call commit.Call) error {
	pod := s.pod(call.Pod.String())
	switch {
	case pod == nil:
		return notFound("pods", call.Pod.Name)
	case pod.UID != call.Pod.UID:
		return apierrors.NewConflict(corev1.Resource("pods"), call.Pod.Name,
			fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s)", call.Pod.UID, pod.UID))
	}
	s.deletePod(call.Pod.String(), call.GraceSeconds)
	return nil
}

// serveEvict keeps disruption budgets as the eviction subresource does.
func (s *server) serveEvict(call commit.Call) error {
	pod := s.pod(call.Pod.String())
	if pod == nil || pod.UID != call.Pod.UID {
		return s.serveDelete(call)
	}
	switch budget, never := invariants.Holding(pod, s.budgets()); {
	case never:
		return apierrors.NewInternalError(errors.New("this pod has more than one PodDisruptionBudget, which the eviction subresource does not support"))
	case budget != nil && !s.spend(budget):
		err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: budget.Name}}
		return err
	}
	return s.serveDelete(call)
}

func (s *server) budgets() (all []*policyv1.PodDisruptionBudget) {
	for _, name := range s.names(kindBudget) {
		all = append(all, s.objects[kindBudget][name].(*policyv1.PodDisruptionBudget))
	}
	return all
}

// spend takes one disruption off a budget, if there is one.
func (s *server) spend(budget *policyv1.PodDisruptionBudget) bool {
	if invariants.Allows(budget) <= 0 {
		return false
	}
	budget = budget.DeepCopy()
	budget.Status.DisruptionsAllowed--
	s.update(kindBudget, budget)
	return true
}

// patchStatus changes the status of a pod. The patch names the UID, which no patch can change.
func (s *server) patchStatus(call commit.Call, alter func(*corev1.Pod)) error {
	pod := s.pod(call.Pod.String())
	switch {
	case pod == nil:
		return notFound("pods", call.Pod.Name)
	case pod.UID != call.Pod.UID:
		return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), call.Pod.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "uid"), string(call.Pod.UID), "field is immutable"),
		})
	}
	s.changePod(call.Pod.String(), pod.UID, alter)
	return nil
}

// serveNomination nominates a node for a pod that has none.
func (s *server) serveNomination(call commit.Call) error {
	pod := s.pod(call.Pod.String())
	if pod != nil && pod.UID == call.Pod.UID && pod.Spec.NodeName != "" && call.Node != "" {
		return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), call.Pod.Name, field.ErrorList{
			field.Forbidden(field.NewPath("status", "nominatedNodeName"), "may not be set on pods that are already bound to a node"),
		})
	}
	return s.patchStatus(call, func(pod *corev1.Pod) { pod.Status.NominatedNodeName = call.Node })
}

func setCondition(pod *corev1.Pod, condition corev1.PodCondition) {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == condition.Type })
	if i < 0 {
		pod.Status.Conditions = append(pod.Status.Conditions, condition)
		return
	}
	pod.Status.Conditions[i] = condition
}

func (s *server) serveGroupStatus(status *commit.GroupStatus) error {
	group := s.group(key(status.Namespace, status.Name))
	switch {
	case group == nil:
		return apierrors.NewNotFound(v1alpha1.Resource("podgroups"), status.Name)
	case group.UID != status.UID:
		err := apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", v1alpha1.Resource("podgroups"), status.Name,
			"the server rejected our request due to an error in our request", 0, false)
		return err
	}
	group = group.DeepCopy()
	status.Status.DeepCopyInto(&group.Status)
	s.update(kindGroup, group)
	return nil
}

func (s *server) serveQueueStatus(status *commit.QueueStatus) error {
	queue := s.queueOf(status.Name)
	switch {
	case queue == nil:
		return apierrors.NewNotFound(v1alpha1.Resource("queues"), status.Name)
	case queue.UID != status.UID:
		return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", v1alpha1.Resource("queues"), status.Name,
			"the server rejected our request due to an error in our request", 0, false)
	}
	queue = queue.DeepCopy()
	status.Status.DeepCopyInto(&queue.Status)
	s.update(kindQueue, queue)
	return nil
}

// serveEvent records an event once, under the name that every attempt gives it.
func (s *server) serveEvent(event *commit.Event) error {
	name := fmt.Sprint(event.Regarding.UID, event.Reason, event.At.UnixNano())
	if s.events[name] {
		return apierrors.NewAlreadyExists(corev1.Resource("events"), event.Regarding.Name)
	}
	s.events[name] = true
	if s.recorded[event.Regarding.UID] == nil {
		s.recorded[event.Regarding.UID] = map[string]int{}
	}
	s.recorded[event.Regarding.UID][event.Reason]++
	return nil
}

func notFound(resource, name string) error {
	return apierrors.NewNotFound(corev1.Resource(resource), name)
}

// writesTo returns the UID of the object that a call changes.
func writesTo(call commit.Call) types.UID {
	switch write := call.Write.(type) {
	case *commit.GroupStatus:
		return write.UID
	case *commit.ForeignStatus:
		return write.UID
	case *commit.QueueStatus:
		return write.UID
	case *commit.Event:
		return write.Regarding.UID
	}
	return call.Pod.UID
}
