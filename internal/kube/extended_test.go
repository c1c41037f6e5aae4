package kube_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clienttesting "k8s.io/client-go/testing"
)

const extended corev1.ResourceName = "deviceclass.resource.kubernetes.io/gpu"

// asking is a pod that asks for so many devices by the resource that class gpu provides.
func asking(name string, devices int64) *corev1.Pod {
	p := pod(name)
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{extended: *resource.NewQuantity(devices, resource.DecimalSI)},
	}}}
	return p
}

// newExtended is a store that names the claims that are made in it.
func newExtended(t *testing.T, objects ...runtime.Object) *store {
	t.Helper()
	s := newStore(t, objects...)
	s.client.PrependReactor("create", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		claim := action.(clienttesting.CreateAction).GetObject().DeepCopyObject().(*resourceapi.ResourceClaim)
		s.stamp(claim)
		claim.Name = claim.GenerateName + claim.ResourceVersion
		claim.UID = types.UID(claim.Name)
		return true, claim, s.client.Tracker().Create(action.GetResource(), claim, "default")
	})
	return s
}

// made returns the claims there are, each with its device and user.
func (s *store) made() []string {
	s.t.Helper()
	all, err := s.client.ResourceV1().ResourceClaims("default").List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	var lines []string
	for i := range all.Items {
		lines = append(lines, s.device(all.Items[i].Name))
	}
	return lines
}

func (s *store) expectMade(want ...string) {
	s.t.Helper()
	if got := s.made(); fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Errorf("the claims are %q, want %q", got, want)
	}
}

func TestExtendedResourcesAreDevices(t *testing.T) {
	p, q := asking("p", 2), asking("q", 1)
	s := newExtended(t, devices(2), p, q)
	for range 2 {
		s.refuse(p, "b", noDevice)
		s.reserve(p)
		s.refuse(q, "a", noDevice)
		s.Unreserve("p")
		s.reserve(q)
		s.refuse(p, "a", noDevice)
		s.Unreserve("q")
	}
	s.nodes["b"].Status.Allocatable = corev1.ResourceList{extended: resource.MustParse("2")}
	if prepare, status := s.Reserve(t.Context(), p, s.nodes["b"], nil); prepare || !status.IsSuccess() {
		t.Errorf("a node that reports the resource: prepare %t, %v", prepare, status)
	}
	if n := s.writes(); n != 0 {
		t.Errorf("%d writes, want none", n)
	}
}

func TestExtendedResourcesArePreparedAndGivenBack(t *testing.T) {
	p, q := asking("p", 1), asking("q", 1)
	s := newExtended(t, devices(1), p, q)
	s.reserve(p)
	s.prepare("p")
	s.expectMade("gpu-0 p")
	stored, err := s.client.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil || stored.Status.ExtendedResourceClaimStatus == nil ||
		stored.Status.ExtendedResourceClaimStatus.RequestMappings[0].ResourceName != string(extended) {
		t.Errorf("the pod's status is %+v, %v", stored.Status, err)
	}
	s.refuse(q, "a", noDevice)
	s.release("p") // the bind failed
	s.expectMade()
	s.reserve(q) // immediately, whatever the watch has seen by now
	s.prepare("q")
	s.Confirm("q")
	s.expectMade("gpu-0 q")
	s.release("q") // too late: it is bound
	s.expectMade("gpu-0 q")
}

// TestHalfPreparedIsDeleted: the claim was made, and the devices could not be written into it.
func TestHalfPreparedIsDeleted(t *testing.T) {
	p, q := asking("p", 1), asking("q", 1)
	s := newExtended(t, devices(1), p, q)
	s.client.PrependReactor("update", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return action.GetSubresource() == "status", nil, errors.New("no capacity")
	})
	s.reserve(p)
	if err := s.Prepare(t.Context(), "p"); err == nil {
		t.Fatal("nothing failed")
	}
	s.expectMade("")
	s.release("p")
	s.expectMade()
	s.reserveSoon(q)
}

// TestStrandedExtended: a claim that a crash has left with a pod keeps it from every node until it is deleted.
func TestStrandedExtended(t *testing.T) {
	p, yes := asking("p", 1), true
	left := deviceClaim("left", "p")
	left.Annotations = map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"}
	left.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "p", Controller: &yes}}
	left.Finalizers = []string{resourceapi.Finalizer}
	s := newExtended(t, devices(1), left, p)
	s.refuse(p, "a", "cannot schedule extended resource claim")
	if s.IsOrphaned(asking("q", 1)) {
		t.Error("another pod is taken for its owner")
	}
	if !s.IsOrphaned(p) || s.IsOrphaned(p) {
		t.Error("the claim is not found, or found twice")
	}
	s.release("p")
	s.expectMade()
	s.reserveSoon(p)
}

// TestNoDeviceClass: whatever the snapshot says, no pod is bound without devices.
func TestNoDeviceClass(t *testing.T) {
	p := asking("p", 1)
	s := newExtended(t, devices(1), p)
	told := make(chan struct{}, 100)
	s.OnDevices(func() { told <- struct{}{} })
	s.reserve(p)
	s.Unreserve("p")
	if err := s.client.ResourceV1().DeviceClasses().Delete(t.Context(), "gpu", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	<-told
	if s.ByDeviceClass(extended) {
		t.Error("the change is reported while the class is there")
	}
	s.refuse(p, "a", "lack "+string(extended)+", which no DeviceClass provides")
}

// reserveSoon wants something reserved for the pod on node a as soon as the watch has seen what was deleted.
func (s *store) reserveSoon(pod *corev1.Pod) {
	s.t.Helper()
	seen := func(context.Context) (bool, error) {
		_, status := s.Reserve(s.t.Context(), pod, s.nodes["a"], nil)
		return status.IsSuccess(), nil
	}
	if err := wait.PollUntilContextCancel(s.t.Context(), time.Millisecond, true, seen); err != nil {
		s.t.Fatal(err)
	}
}
