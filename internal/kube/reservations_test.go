package kube_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clientcache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/tutti-sched/tutti/internal/kube"
)

// store is an API server with resource versions and conflicts, and the plugins over it; other is a second set of them.
type store struct {
	*kube.Plugins
	other  *kube.Plugins
	t      testing.TB
	client *fake.Clientset
	nodes  map[string]*corev1.Node

	mu       sync.Mutex
	revision int
	// bind lets claims be bound as soon as a volume names them, as the volume controller does.
	bind bool
}

func newStore(t testing.TB, objects ...runtime.Object) *store {
	t.Helper()
	s := &store{t: t, nodes: map[string]*corev1.Node{}, revision: 100, bind: true}
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	all := append([]runtime.Object{
		&storagev1.StorageClass{
			ObjectMeta:  metav1.ObjectMeta{Name: "local", ResourceVersion: "1"},
			Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &mode,
		},
		&resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu", ResourceVersion: "1"}},
	}, objects...)
	for _, name := range []string{"a", "b"} {
		s.nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, ResourceVersion: "1", Labels: map[string]string{corev1.LabelHostname: name},
		}}
		all = append(all, s.nodes[name])
	}
	s.client = fake.NewClientset(all...)
	s.client.PrependReactor("update", "*", s.update)
	factory := informers.NewSharedInformerFactory(s.client, 0)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	var err error
	s.Plugins, err = kube.New(ctx, kube.Deps{
		Lister: cache.NewEmptySnapshot(), Informers: factory, Client: s.client,
		Malformed: func(claim metav1.Object) string { return claim.GetAnnotations()["example.com/malformed"] },
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.other, err = s.Another(cache.NewEmptySnapshot(), s.Namespaces); err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if !clientcache.WaitForCacheSync(ctx.Done(), s.HasSynced, s.other.HasSynced) {
		t.Fatal("the plugins did not sync")
	}
	return s
}

// update refuses what was not read in its last version.
func (s *store) update(action clienttesting.Action) (bool, runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object := action.(clienttesting.UpdateAction).GetObject().DeepCopyObject()
	described, err := meta.Accessor(object)
	if err != nil {
		return true, nil, err
	}
	resource := action.GetResource()
	stored, err := s.client.Tracker().Get(resource, action.GetNamespace(), described.GetName())
	if err != nil {
		return true, nil, err
	}
	if known, _ := meta.Accessor(stored); known.GetResourceVersion() != described.GetResourceVersion() {
		return true, nil, apierrors.NewConflict(resource.GroupResource(), described.GetName(), errors.New("it has changed"))
	}
	s.stamp(described)
	if err := s.client.Tracker().Update(resource, object, action.GetNamespace()); err != nil {
		return true, nil, err
	}
	if volume, ok := object.(*corev1.PersistentVolume); ok && s.bind && volume.Spec.ClaimRef != nil {
		err = s.bindClaim(volume)
	}
	return true, object, err
}

func (s *store) stamp(object metav1.Object) {
	s.revision++
	object.SetResourceVersion(strconv.Itoa(s.revision))
}

func (s *store) bindClaim(volume *corev1.PersistentVolume) error {
	resource := corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	stored, err := s.client.Tracker().Get(resource, "default", volume.Spec.ClaimRef.Name)
	if err != nil {
		return err
	}
	claim := stored.(*corev1.PersistentVolumeClaim).DeepCopy()
	s.stamp(claim)
	claim.Spec.VolumeName, claim.Status.Phase = volume.Name, corev1.ClaimBound
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
	return s.client.Tracker().Update(resource, claim, "default")
}

// disk is a volume of node a.
func disk(name string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName:       "local",
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/" + name}},
			NodeAffinity:           &corev1.VolumeNodeAffinity{Required: onNode(corev1.LabelHostname, "a")},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
}

func onNode(key, name string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{name}}},
	}}}
}

func volumeClaim(name string) *corev1.PersistentVolumeClaim {
	class := "local"
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("claim-" + name), ResourceVersion: "1"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
}

// devices are so many devices of node a.
func devices(n int) *resourceapi.ResourceSlice {
	node := "a"
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "slice-a", ResourceVersion: "1"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: &node,
			Pool: resourceapi.ResourcePool{Name: "a", Generation: 1, ResourceSliceCount: 1},
		},
	}
	for i := range n {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", i)})
	}
	return slice
}

func deviceClaim(name string, reservedFor ...string) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("claim-" + name), ResourceVersion: "1"},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
			},
		}}}},
	}
	for _, pod := range reservedFor {
		claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{{
				Request: "gpu", Driver: "gpu.example.com", Pool: "a", Device: "gpu-0",
			}},
		}}
		claim.Status.ReservedFor = append(claim.Status.ReservedFor,
			resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: types.UID(pod)})
	}
	return claim
}

// pod uses claims, named "volume NAME" or "device NAME".
func pod(name string, claims ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), ResourceVersion: "1"}}
	for _, claim := range claims {
		kind, of, _ := strings.Cut(claim, " ")
		if kind == "device" {
			pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: of, ResourceClaimName: &of})
			continue
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: of, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: of},
		}})
	}
	return pod
}

// reserve wants something reserved for the pod on node a.
func (s *store) reserve(pod *corev1.Pod) {
	s.t.Helper()
	if prepare, status := s.Reserve(s.t.Context(), pod, s.nodes["a"], nil); !prepare || !status.IsSuccess() {
		s.t.Fatalf("%s: prepare %t, %v", pod.Name, prepare, status)
	}
}

// refuse wants nothing reserved, for a reason.
func (s *store) refuse(pod *corev1.Pod, node, reason string) {
	s.t.Helper()
	prepare, status := s.Reserve(s.t.Context(), pod, s.nodes[node], nil)
	if prepare || status.IsSuccess() || !strings.Contains(status.Message(), reason) {
		s.t.Fatalf("%s: prepare %t, %v, want %q in it", pod.Name, prepare, status, reason)
	}
}

func (s *store) prepare(pod string) {
	s.t.Helper()
	if err := s.Prepare(s.t.Context(), types.UID(pod)); err != nil {
		s.t.Fatalf("prepare %s: %v", pod, err)
	}
}

func (s *store) release(pod string) {
	s.t.Helper()
	if err := s.Release(s.t.Context(), types.UID(pod)); err != nil {
		s.t.Fatalf("release %s: %v", pod, err)
	}
}

// device returns what the API server knows of a claim: the device, and who uses it.
func (s *store) device(name string) string {
	s.t.Helper()
	claim, err := s.client.ResourceV1().ResourceClaims("default").Get(s.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	var words []string
	if claim.Status.Allocation != nil {
		words = append(words, claim.Status.Allocation.Devices.Results[0].Device)
	}
	for _, consumer := range claim.Status.ReservedFor {
		words = append(words, consumer.Name)
	}
	return strings.Join(words, " ")
}

func (s *store) expectDevice(name, want string) {
	s.t.Helper()
	if got := s.device(name); got != want {
		s.t.Errorf("claim %s: got %q, want %q", name, got, want)
	}
}

// writes counts what was written so far.
func (s *store) writes() int {
	n := 0
	for _, action := range s.client.Actions() {
		if verb := action.GetVerb(); verb != "get" && verb != "list" && verb != "watch" {
			n++
		}
	}
	return n
}

const (
	noVolume = "didn't find available persistent volumes to bind"
	noDevice = "cannot allocate all claims"
)

// TestEachSetOfPluginsReservesForItself: what is reserved in one, for a question, is free in the other.
func TestEachSetOfPluginsReservesForItself(t *testing.T) {
	for kind, none := range map[string]string{"volume": noVolume, "device": noDevice} {
		t.Run(kind, func(t *testing.T) {
			p, q := pod("p", kind+" one"), pod("q", kind+" two")
			s := newStore(t, disk("d"), volumeClaim("one"), volumeClaim("two"), devices(1), deviceClaim("one"), deviceClaim("two"), p, q)
			if prepare, status := s.other.Reserve(t.Context(), q, s.nodes["a"], nil); !prepare || !status.IsSuccess() {
				t.Fatalf("prepare %t, %v", prepare, status)
			}
			s.reserve(p)
			s.other.Unreserve("q")
			s.refuse(q, "a", none)
		})
	}
}

func TestSetAsideIsTakenUntilTakenBack(t *testing.T) {
	for kind, none := range map[string]string{"volume": noVolume, "device": noDevice} {
		t.Run(kind, func(t *testing.T) {
			p, q := pod("p", kind+" one"), pod("q", kind+" two")
			s := newStore(t, disk("d"), volumeClaim("one"), volumeClaim("two"), devices(1), deviceClaim("one"), deviceClaim("two"), p, q)
			for range 3 {
				s.refuse(p, "b", none)
				s.reserve(p)
				s.refuse(q, "a", none)
				s.refuse(p, "a", "still being given back")
				s.Unreserve("p")
				s.reserve(q)
				s.refuse(p, "a", none)
				s.Unreserve("q")
				s.Unreserve("q") // nothing any more
			}
			if n := s.writes(); n != 0 {
				t.Errorf("%d writes, want none", n)
			}
		})
	}
}

func TestNothingToSetAside(t *testing.T) {
	bound := volumeClaim("bound")
	bound.Spec.VolumeName, bound.Status.Phase = "d", corev1.ClaimBound
	bound.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	s := newStore(t, disk("d"), bound)
	for _, p := range []*corev1.Pod{pod("plain"), pod("p", "volume bound")} {
		if prepare, status := s.Reserve(t.Context(), p, s.nodes["a"], nil); prepare || !status.IsSuccess() {
			t.Errorf("%s: prepare %t, %v", p.Name, prepare, status)
		}
		if err := s.Prepare(t.Context(), p.UID); err == nil {
			t.Errorf("%s: prepared although nothing is set aside", p.Name)
		}
		s.release(p.Name)
		s.Confirm(p.UID)
		s.Abandon(p.UID)
	}
	s.refuse(pod("p", "volume bound"), "b", "didn't match PersistentVolume's node affinity")
	s.refuse(pod("p", "volume none"), "a", `"none" not found`)
	s.refuse(pod("p", "device none"), "a", `"default/none"`)
}

// TestOneOfTwoKinds: when the devices are not to be had, the volume is not reserved either.
func TestOneOfTwoKinds(t *testing.T) {
	s := newStore(t, disk("d"), volumeClaim("one"), volumeClaim("two"), devices(1), deviceClaim("one"), deviceClaim("two"))
	s.reserve(pod("x", "device one"))
	s.refuse(pod("p", "volume one", "device two"), "a", noDevice)
	s.reserve(pod("q", "volume two"))
}

func TestDevicesArePreparedAndGivenBack(t *testing.T) {
	s := newStore(t, devices(1), deviceClaim("one"), deviceClaim("two"))
	p, q := pod("p", "device one"), pod("q", "device two")
	s.reserve(p)
	s.prepare("p")
	s.expectDevice("one", "gpu-0 p")
	s.refuse(q, "a", noDevice)
	s.release("p") // the bind failed
	s.expectDevice("one", "")
	s.reserve(q) // immediately, whatever the watch has seen by now
	s.prepare("q")
	s.Confirm("q")
	s.expectDevice("two", "gpu-0 q")
	s.refuse(p, "a", noDevice)
	s.release("q") // too late: it is bound
	s.expectDevice("two", "gpu-0 q")
}

// TestReservedBefore: a claim that is reserved for the pod since an attempt that a crash ended is left alone by sessions, and
// only loses the pod in the end: another scheduler may have allocated it.
func TestReservedBefore(t *testing.T) {
	s := newStore(t, devices(2), deviceClaim("one", "p"), deviceClaim("two"))
	p := pod("p", "device one", "device two")
	for range 2 {
		s.reserve(p)
		s.refuse(pod("q", "device two"), "a", "in the process of being allocated")
		s.Unreserve("p")
	}
	if n := s.writes(); n != 0 {
		t.Errorf("%d writes by sessions, want none", n)
	}
	s.reserve(p)
	s.prepare("p")
	s.expectDevice("two", "gpu-1 p")
	s.release("p")
	s.expectDevice("one", "gpu-0")
	s.expectDevice("two", "")
}

// TestStranded: what a crash has left with pods that find no place is released, what others use is not.
func TestStranded(t *testing.T) {
	shared := deviceClaim("shared", "p", "x")
	shared.Status.Allocation.Devices.Results[0].Device = "gpu-1"
	s := newStore(t, devices(3), deviceClaim("one", "p"), shared, deviceClaim("free"), deviceClaim("two"))
	p, q := pod("p", "device one", "device shared", "device free"), pod("q", "device two", "volume none")
	if s.IsOrphaned(q) || s.IsOrphaned(pod("plain")) {
		t.Error("a pod holds what unowned reserved for it")
	}
	if !s.IsOrphaned(p) || s.IsOrphaned(p) {
		t.Error("what the pod holds is not found, or found twice")
	}
	s.refuse(p, "a", "still being given back")
	s.release("p")
	s.expectDevice("one", "")
	s.expectDevice("shared", "gpu-1 x")
	if s.IsOrphaned(p) {
		t.Error("what was given back is found again")
	}
	x := pod("x", "device shared") // was to start together with p
	if !s.IsOrphaned(x) {
		t.Error("a device that two shared stays with both")
	}
	s.release("x")
	s.expectDevice("shared", "")
	s.reserve(p)
	if s.IsOrphaned(p) {
		t.Error("a placed pod is stranded")
	}
}

// TestWhatWasGivenBackStaysSo: the watch has not told yet that a claim has lost its device; a session that tries a place and
// takes it back does not let the claim look allocated again. The pod would be bound without a device then.
func TestWhatWasGivenBackStaysSo(t *testing.T) {
	s := newStore(t, devices(1), deviceClaim("one", "p"), deviceClaim("two"))
	s.client.PrependReactor("update", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		claim := action.(clienttesting.UpdateAction).GetObject().(*resourceapi.ResourceClaim).DeepCopy()
		s.stamp(claim)
		return true, claim, nil // and no watch tells of it
	})
	p := pod("p", "device one")
	if !s.IsOrphaned(p) {
		t.Fatal("what the pod holds is not found")
	}
	s.release("p")
	s.reserve(p)
	s.Unreserve("p")
	s.reserve(pod("q", "device two")) // which finds the device free
}

func TestVolumeIsPrepared(t *testing.T) {
	p := pod("p", "volume one")
	s := newStore(t, disk("d"), volumeClaim("one"), volumeClaim("two"), p)
	s.reserve(p)
	s.prepare("p")
	volume, err := s.client.CoreV1().PersistentVolumes().Get(t.Context(), "d", metav1.GetOptions{})
	if err != nil || volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.Name != "one" {
		t.Errorf("volume: %+v, %v", volume.Spec.ClaimRef, err)
	}
	s.release("p") // a volume that is bound stays so
	s.refuse(pod("q", "volume two"), "a", noVolume)
}

func TestAbandon(t *testing.T) {
	p := pod("p", "volume one")
	s := newStore(t, disk("d"), volumeClaim("one"), p)
	s.bind = false
	s.reserve(p)
	s.client.PrependReactor("update", "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) {
		s.Abandon("p") // while it is under way
		return false, nil, nil
	})
	if err := s.Prepare(t.Context(), "p"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was broken off", err)
	}
	s.release("p")

	q := pod("q", "volume one")
	s.reserve(q)
	s.Abandon("q") // before it began
	if err := s.Prepare(t.Context(), "q"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was broken off", err)
	}
}

// TestSharedByAGroup: members that share claims are prepared together, and the last member to go gives the device back.
func TestSharedByAGroup(t *testing.T) {
	members := []*corev1.Pod{}
	objects := []runtime.Object{disk("d"), volumeClaim("data"), volumeClaim("two"), devices(1), deviceClaim("gpu"), deviceClaim("two")}
	for i := range 3 {
		members = append(members, pod(fmt.Sprintf("p%d", i), "volume data", "device gpu"))
		objects = append(objects, members[i])
	}
	s := newStore(t, objects...)
	group := s.NewGroup()
	for _, member := range members {
		if prepare, status := s.Reserve(t.Context(), member, s.nodes["a"], group); !prepare || !status.IsSuccess() {
			t.Fatalf("%s: prepare %t, %v", member.Name, prepare, status)
		}
	}
	s.refuse(pod("q", "device gpu"), "a", "in the process of being allocated")
	s.Unreserve("p2") // the others keep everything
	s.refuse(pod("q", "volume two"), "a", noVolume)
	s.refuse(pod("q", "device two"), "a", noDevice)
	if _, status := s.Reserve(t.Context(), members[2], s.nodes["a"], group); !status.IsSuccess() {
		t.Fatal(status)
	}
	s.prepare("p0") // which the device is given to, and whose end is not the end of it
	var working sync.WaitGroup
	for _, member := range members[1:] {
		working.Go(func() {
			if err := s.Prepare(t.Context(), member.UID); err != nil {
				t.Errorf("prepare %s: %v", member.Name, err)
			}
		})
	}
	working.Wait()
	if got := s.device("gpu"); len(got) != len("gpu-0 p0 p1 p2") {
		t.Errorf("the claim is %q, want all three in it", got)
	}
	s.release("p1")
	s.release("p0")
	s.expectDevice("gpu", "gpu-0 p2")
	s.release("p2")
	s.expectDevice("gpu", "")
	s.reserve(pod("q", "device two"))
}

// TestReleaseLeavesTheSessionAlone: what is released before it was prepared, while the session goes on with the same group,
// does not touch what the session is reading. It fails under the race detector only.
func TestReleaseLeavesTheSessionAlone(t *testing.T) {
	s := newStore(t, devices(1), deviceClaim("gpu"))
	group, filter := s.NewGroup(), s.Plugin(names.DynamicResources).(fwk.PreFilterPlugin)
	if _, status := s.Reserve(t.Context(), pod("p", "device gpu"), s.nodes["a"], group); !status.IsSuccess() {
		t.Fatal(status)
	}
	var releasing sync.WaitGroup
	releasing.Go(func() {
		if err := s.Release(t.Context(), "p"); err != nil {
			t.Error(err)
		}
	})
	filter.PreFilter(t.Context(), s.NewStateIn(group), pod("q", "device gpu"), nil)
	releasing.Wait()
	s.reserve(pod("r", "device gpu"))
}

// TestNoMoreUsersThanAllowed: the API server allows a claim to be reserved for so many, those counted that will be.
func TestNoMoreUsersThanAllowed(t *testing.T) {
	s := newStore(t, devices(1), deviceClaim("one"))
	group := s.NewGroup()
	share := func(name string) *fwk.Status {
		_, status := s.Reserve(t.Context(), pod(name, "device one"), s.nodes["a"], group)
		return status
	}
	for i := range resourceapi.ResourceClaimReservedForMaxSize {
		if status := share(fmt.Sprint("p-", i)); !status.IsSuccess() {
			t.Fatalf("member %d: %v", i, status)
		}
	}
	s.prepare("p-0") // one is reserved by now, and counts once
	if status := share("one-more"); status.IsSuccess() || status.Message() != "resourceclaim in use" {
		t.Errorf("one more: %v", status)
	}
	s.Unreserve("p-1")
	if status := share("in-its-place"); !status.IsSuccess() {
		t.Errorf("in the place of one that is gone: %v", status)
	}
}

func TestClaimsAreTold(t *testing.T) {
	s := newStore(t, devices(1), deviceClaim("one"))
	told := make(chan struct{}, 100)
	s.OnDevices(func() { told <- struct{}{} })
	<-told // of the claim that is there
	p := pod("p", "device one")
	s.reserve(p)
	s.prepare("p")
	<-told
	s.release("p")
	<-told
}
