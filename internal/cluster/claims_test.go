package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/pkg/model"
)

func deviceID(node string, i int) kube.DeviceID {
	return kube.DeviceID{Driver: "driver", Pool: "pool-" + node, Device: fmt.Sprint(i)}
}

// devicesOn are so many devices of a node in the classes.
func devicesOn(node string, n int, classes ...string) *kube.NodeDevices {
	seen := &kube.NodeDevices{Node: node}
	for i := range n {
		seen.Devices = append(seen.Devices, kube.Device{ID: deviceID(node, i), Classes: classes})
	}
	return seen
}

// claimOf is a claim for devices of a class.
func claimOf(name, class string, n int64) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("claim " + name)},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: n},
		}}}},
	}
}

// give allocates a device to a claim.
func give(claim *resourceapi.ResourceClaim, id kube.DeviceID) {
	if claim.Status.Allocation == nil {
		claim.Status.Allocation = &resourceapi.AllocationResult{}
	}
	claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results,
		resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: id.Driver, Pool: id.Pool, Device: id.Device})
}

// given is a claim with devices of a node that is reserved for pods.
func given(claim *resourceapi.ResourceClaim, node string, devices []int, pods ...string) *resourceapi.ResourceClaim {
	claim = claim.DeepCopy()
	claim.ResourceVersion = "9"
	for _, i := range devices {
		give(claim, deviceID(node, i))
	}
	for _, uid := range pods {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: uid, UID: types.UID(uid)})
	}
	return claim
}

// madeFor is the claim as kube-scheduler's plugin makes it for the extended resources of a pod.
func madeFor(uid types.UID, claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	claim.Annotations = map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"}
	claim.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: string(uid), UID: uid, Controller: new(true)}}
	return claim
}

// claiming lets a pod name claims.
func claiming(names ...string) podOption {
	return func(p *corev1.Pod) {
		for _, name := range names {
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimName: &name})
		}
	}
}

// TestDevicesAreCounted plays what a node has of a class, and what pods are charged for it, in one place each. Node n has four
// devices of the class gpu.
func TestDevicesAreCounted(t *testing.T) {
	const gpu = "nvidia.com/gpu"
	one, two := claimOf("one", "gpu", 1), claimOf("two", "gpu", 2)
	tainted := devicesOn("n", 4, "gpu")
	tainted.Devices[0].Tainted, tainted.Devices[1].Tainted = true, true
	ending := func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: start.Add(time.Minute)}, new(int64(60))
	}
	for name, tt := range map[string]struct {
		objects                 []any
		offers, idle, releasing int64
		pod                     string // whose charge is looked at
		charge, kept            int64
		searched                string
	}{
		"nothing is held":      {offers: 4, idle: 4},
		"a pod waits":          {objects: []any{two, pod("p", claiming("two"))}, offers: 4, idle: 4, pod: "p", charge: 2},
		"the claim is missing": {objects: []any{pod("p", claiming("two"))}, offers: 4, idle: 4, pod: "p", searched: "claim two is not there"},
		"the class is missing": {
			objects: []any{claimOf("none", "nonsense", 1), pod("p", claiming("none"))}, offers: 4, idle: 4, pod: "p",
			searched: "claim none: DeviceClass nonsense is not there",
		},
		"the claim of the template is not the pod's": {
			objects: []any{one, pod("p", func(p *corev1.Pod) {
				p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "r", ResourceClaimTemplateName: new("t")}}
				p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "r", ResourceClaimName: new("one")}}
			})}, offers: 4, idle: 4, pod: "p", searched: "claim one was not made for the pod",
		},
		"a pod is bound before its claim is seen to be allocated": {
			objects: []any{two, pod("p", claiming("two"), on("n"))}, offers: 4, idle: 2, pod: "p", charge: 2,
		},
		"a pod holds two": {objects: []any{given(two, "n", []int{0, 1}, "p"), pod("p", claiming("two"), on("n"))}, offers: 4, idle: 2, pod: "p", charge: 2},
		"a pod that holds two ends": {
			objects: []any{given(two, "n", []int{0, 1}, "p"), pod("p", claiming("two"), on("n"), ending)}, offers: 4, idle: 2, releasing: 2, pod: "p", charge: 2,
		},
		"the pod is gone, its devices are not free": {objects: []any{given(two, "n", []int{0, 1}, "p")}, offers: 4, idle: 2, releasing: 2},
		"another scheduler has not bound its pod yet": {
			objects: []any{given(two, "n", []int{0, 1}, "p"), pod("p", by("other"), claiming("two"))}, offers: 2, idle: 2,
		},
		"another scheduler has not bound its pod yet, another pod of the claim is gone": {
			objects: []any{given(two, "n", []int{0, 1}, "gone", "p"), pod("p", by("other"), claiming("two"))}, offers: 2, idle: 2,
		},
		"another scheduler has not bound its pod yet, which asks by the extended resource": {
			objects: []any{madeFor("p", given(two, "n", []int{0, 1}, "p")), pod("p", by("other"), asking(gpu, "2"))}, offers: 2, idle: 2,
		},
		"another scheduler has bound its pod": {
			objects: []any{pod("p", by("other"), claiming("two")), given(two, "n", []int{0, 1}, "p"), pod("p", by("other"), claiming("two"), on("n"))},
			offers:  4, idle: 2, pod: "p", charge: 2,
		},
		"another scheduler's pod is deleted before it is bound": {
			objects: []any{pod("p", by("other"), claiming("two")), given(two, "n", []int{0, 1}, "p"), pod("p", by("other"), claiming("two"), ending)},
			offers:  4, idle: 2, releasing: 2,
		},
		"a start was undone": {
			objects: []any{given(two, "n", []int{0, 1}, "p"), pod("p", claiming("two"))}, offers: 2, idle: 2, pod: "p", searched: "claim two has devices already",
		},
		"allocated and reserved for no pod": {objects: []any{given(two, "n", []int{0, 1})}, offers: 2, idle: 2},
		"two pods share a claim": {
			objects: []any{given(one, "n", []int{0}, "p", "q"), pod("p", claiming("one"), on("n"), ending), pod("q", claiming("one"), on("n"))},
			offers:  4, idle: 3, releasing: 0, pod: "p", charge: 1, kept: 1, searched: "",
		},
		"the other one of two that share a claim": {
			objects: []any{given(one, "n", []int{0}, "p", "q"), pod("p", claiming("one"), on("n")), pod("q", claiming("one"), on("n"))},
			offers:  4, idle: 3, pod: "q", searched: "claim one is shared with other pods",
		},
		"a pod shares a claim with one that waits": {
			objects: []any{given(one, "n", []int{0}, "p"), pod("p", claiming("one"), on("n"), ending), pod("q", claiming("one"))},
			offers:  4, idle: 3, releasing: 1, pod: "p", charge: 1,
		},
		"two are tainted": {objects: []any{tainted}, offers: 2, idle: 2},
		"a tainted one is held": {
			objects: []any{tainted, given(one, "n", []int{0}, "p"), pod("p", claiming("one"), on("n"), ending)}, offers: 3, idle: 2, pod: "p", charge: 1, kept: 1,
		},
		"the slice has shrunk": {
			objects: []any{devicesOn("n", 1, "gpu"), given(two, "n", []int{0, 3}, "p"), pod("p", claiming("two"), on("n"), ending)},
			offers:  2, idle: 0, releasing: 1, pod: "p", charge: 2, kept: 1,
		},
		"by the extended resource": {objects: []any{pod("p", asking(gpu, "3"), on("n"))}, offers: 4, idle: 1, pod: "p", charge: 3},
		"by the resource made of the name": {
			objects: []any{pod("p", asking("deviceclass.resource.kubernetes.io/gpu", "3"), on("n"))}, offers: 4, idle: 1, pod: "p", charge: 3,
		},
		"by all three": {
			objects: []any{one, pod("p", asking("deviceclass.resource.kubernetes.io/gpu", "1", gpu, "1"), claiming("one"), on("n"))},
			offers:  4, idle: 1, pod: "p", charge: 3,
		},
		"a class inside the class": {
			objects: []any{deviceClass("h100", ""), devicesOn("n", 4, "gpu", "h100"), devicesOn("m", 1, "gpu"), claimOf("inner", "h100", 2), pod("p", claiming("inner"), on("n"))},
			offers:  4, idle: 2, pod: "p", charge: 2,
		},
		"by the resource of a class inside the class": {
			objects: []any{
				deviceClass("h100", ""), devicesOn("n", 4, "gpu", "h100"), devicesOn("m", 1, "gpu"),
				madeFor("p", given(claimOf("made", "h100", 2), "n", []int{0, 1}, "p")), pod("p", asking("deviceclass.resource.kubernetes.io/h100", "2"), on("n")),
			},
			offers: 4, idle: 2, pod: "p", charge: 2,
		},
		"it waits, by the resource of a class inside the class": {
			objects: []any{
				pod("p", asking("deviceclass.resource.kubernetes.io/h100", "2")), deviceClass("h100", ""), devicesOn("n", 4, "gpu", "h100"), devicesOn("m", 1, "gpu"),
			},
			offers: 4, idle: 4, pod: "p", charge: 2,
		},
		"it waits, by resources of both classes and a claim": {
			objects: []any{
				deviceClass("h100", ""), devicesOn("n", 4, "gpu", "h100"), devicesOn("m", 1, "gpu"), claimOf("inner", "h100", 1),
				pod("p", asking("deviceclass.resource.kubernetes.io/h100", "2", gpu, "1"), claiming("inner")),
			},
			offers: 4, idle: 4, pod: "p", charge: 4,
		},
		"it waits, by the resource of a class inside the class, which a node reports": {
			objects: []any{
				pod("p", asking("example.com/h100", "2")), deviceClass("h100", "example.com/h100"), devicesOn("n", 4, "gpu", "h100"), devicesOn("m", 1, "gpu"),
				node("o", "example.com/h100", "8"),
			},
			offers: 4, idle: 4, pod: "p",
		},
		"by the extended resource, and the slice has shrunk": {
			objects: []any{
				devicesOn("n", 1, "gpu"), madeFor("p", given(two, "n", []int{0, 3}, "p")), pod("p", asking(gpu, "2"), on("n"), ending),
			},
			offers: 2, idle: 0, releasing: 1, pod: "p", charge: 2, kept: 1,
		},
		"a class that overlaps": {
			objects: []any{deviceClass("big", ""), devicesOn("n", 4, "big", "gpu"), devicesOn("m", 1, "gpu"), devicesOn("o", 1, "big")},
			offers:  model.ProvidedByDRA, idle: model.ProvidedByDRA,
		},
		"devices with counters": {
			objects: []any{&kube.NodeDevices{Node: "n", Uncounted: map[string]string{"gpu": "counters"}}}, offers: model.ProvidedByDRA, idle: model.ProvidedByDRA,
		},
		"no devices":                           {objects: []any{devicesOn("n", 0)}},
		"a device plugin reports the resource": {objects: []any{node("n", gpu, "8")}, offers: 8, idle: 8},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(node("n"), node("m"), node("o"), deviceClass("gpu", gpu), devicesOn("n", 4, "gpu"))
			for _, object := range tt.objects {
				s.Apply(seen(object))
			}
			snapshot := snap(t, s, start)
			position := s.dimensions.Index(gpu)
			n := snapshot.Node("n")
			if got := [3]int64{n.Allocatable().At(position), n.Idle(position), n.Amounts().Releasing.At(position)}; got != [3]int64{tt.offers, tt.idle, tt.releasing} {
				t.Errorf("the node offers %d, idle %d, releasing %d; want %d, %d, %d", got[0], got[1], got[2], tt.offers, tt.idle, tt.releasing)
			}
			if tt.pod == "" {
				return
			}
			task := taskIn(snapshot, tt.pod)
			if got := task.Request.At(position); got != tt.charge {
				t.Errorf("%s is charged for %d, want %d", tt.pod, got, tt.charge)
			}
			if task.Devices != nil && (task.Devices.Kept.At(position) != tt.kept || task.Devices.Searched != tt.searched) {
				t.Errorf("%s keeps %d, searched %q; want %d, %q", tt.pod, task.Devices.Kept.At(position), task.Devices.Searched, tt.kept, tt.searched)
			}
		})
	}
}

// TestUncountedClasses: a limit of a class holds back what may take devices of it and does not say how many: a claim with
// alternatives inside the class, and a claim that an older pod of another job is charged for. A gang's own claim does not.
func TestUncountedClasses(t *testing.T) {
	shared := claimOf("shared", "h100", 1)
	either := claimOf("either", "", 1)
	either.Spec.Devices.Requests[0] = resourceapi.DeviceRequest{
		Name: "r", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "a", DeviceClassName: "h100"}},
	}
	s := newState(node("n"), node("m"), deviceClass("gpu", ""), deviceClass("h100", ""), devicesOn("n", 2, "gpu", "h100"), devicesOn("m", 2, "gpu"),
		given(claimOf("undone", "h100", 1), "n", []int{0}, "back"), pod("back", claiming("undone")),
		shared, either, pod("old", claiming("shared")), pod("young", claiming("shared"), created(start.Add(time.Hour))), pod("any", claiming("either")))
	snapshot := snap(t, s, start)
	both := []int{s.dimensions.Index(implicitName("gpu")), s.dimensions.Index(implicitName("h100"))}
	slices.Sort(both)
	for name, want := range map[string][]int{"old": nil, "young": both, "any": both, "back": both} {
		if got := taskIn(snapshot, name).Devices.Uncounted; !slices.Equal(got, want) {
			t.Errorf("%s: uncounted at %v, want %v", name, got, want)
		}
	}
}

// TestDevicesAfterTheirClaims: the devices of a claim whose pods are gone are releasing also when they are seen after it, as
// when a process starts; and no longer when the slice is gone.
func TestDevicesAfterTheirClaims(t *testing.T) {
	s := newState(node("n"), deviceClass("gpu", ""), given(claimOf("c", "gpu", 2), "n", []int{0, 1}, "gone"))
	position := s.dimensions.Index(implicitName("gpu"))
	for _, want := range []struct{ devices, idle, releasing int64 }{{0, 0, 0}, {4, 2, 2}, {0, 0, 0}, {4, 2, 2}} {
		s.Apply(seen(devicesOn("n", int(want.devices), "gpu")))
		n := snap(t, s, start).Node("n")
		if idle, releasing := n.Idle(position), n.Amounts().Releasing.At(position); idle != want.idle || releasing != want.releasing {
			t.Errorf("of %d devices %d are idle and %d releasing, want %d and %d", want.devices, idle, releasing, want.idle, want.releasing)
		}
	}
}

// TestDevicesOfAnotherSchedulersPod: devices that another scheduler has allocated to a pod and not bound yet are held, whichever
// was seen first, and leaving from when the pod is gone, which starts a cycle.
func TestDevicesOfAnotherSchedulersPod(t *testing.T) {
	claim, waits := given(claimOf("c", "gpu", 2), "n", []int{0, 1}, "p"), pod("p", by("other"), claiming("c"))
	for _, objects := range [][]any{{claim, waits}, {waits, claim}} {
		s := newState(append([]any{node("n"), deviceClass("gpu", ""), devicesOn("n", 4, "gpu")}, objects...)...)
		position := s.dimensions.Index(implicitName("gpu"))
		n := snap(t, s, start).Node("n")
		if offers, releasing := n.Allocatable().At(position), n.Amounts().Releasing.At(position); offers != 2 || releasing != 0 {
			t.Errorf("the node offers %d and releases %d, want 2 and 0", offers, releasing)
		}
		if effect := s.Apply(gone(waits)); !effect.Schedule {
			t.Error("the end of the pod starts no cycle")
		}
		n = snap(t, s, start).Node("n")
		if offers, releasing := n.Allocatable().At(position), n.Amounts().Releasing.At(position); offers != 4 || releasing != 2 {
			t.Errorf("the pod is gone: the node offers %d and releases %d, want 4 and 2", offers, releasing)
		}
	}
}

// TestWhoIsChargedNext: what a pod shares stays in its queue when a pod of another job is charged next, and not where that has
// no job, is of the same one, or is being deleted, too.
func TestWhoIsChargedNext(t *testing.T) {
	for name, tt := range map[string]struct {
		other  *corev1.Pod
		shared int64
	}{
		"of another job":       {pod("q", claiming("c"), on("n")), 1},
		"it waits":             {pod("q", claiming("c")), 0},
		"it is being deleted":  {pod("q", claiming("c"), on("n"), deleting(start)), 0},
		"of another scheduler": {pod("q", claiming("c"), on("n"), by("other")), 0},
		"of the same job":      {pod("q", claiming("c"), on("n"), of("g"), annotation(v1alpha1.AnnotationMinMember, "2")), 0},
	} {
		s := newState(node("n"), deviceClass("gpu", ""), devicesOn("n", 4, "gpu"), given(claimOf("c", "gpu", 1), "n", []int{0}, "p", "q"), tt.other,
			pod("p", claiming("c"), on("n"), of("g"), annotation(v1alpha1.AnnotationMinMember, "2")))
		if got := taskIn(snap(t, s, start), "p").Devices.Shared.At(s.dimensions.Index(implicitName("gpu"))); got != tt.shared {
			t.Errorf("%s: %d devices are shared, want %d", name, got, tt.shared)
		}
	}
}

// TestTheOuterClassOfAResource: a pod that waits and asks by the resource of a class is charged in the class around it, too, as
// long as no node reports the resource. The order of the events does not matter.
func TestTheOuterClassOfAResource(t *testing.T) {
	s := newState(node("o"), pod("p", asking("example.com/h100", "2")))
	position := s.dimensions.Index("nvidia.com/gpu")
	inside := []any{deviceClass("gpu", "nvidia.com/gpu"), deviceClass("h100", "example.com/h100"), devicesOn("n", 4, "gpu", "h100"), devicesOn("m", 1, "gpu")}
	for i, step := range []struct {
		objects []any
		charge  int64
	}{
		{inside, 2}, {[]any{node("o", "example.com/h100", "8")}, 0}, {[]any{node("o", "example.com/h100", "4")}, 0}, {[]any{node("o")}, 2},
		{[]any{devicesOn("o", 1, "h100")}, 0}, {[]any{devicesOn("o", 0)}, 2},
	} {
		for _, object := range step.objects {
			s.Apply(seen(object))
		}
		if got := taskIn(snap(t, s, start), "p").Request.At(position); got != step.charge {
			t.Errorf("step %d: it is charged %d, want %d", i, got, step.charge)
		}
	}
}

// TestClassesOfDevicesWithoutASlice: in which other classes a device counts that a pod has by an extended resource follows what
// is seen of other nodes, also while the node of the pod is not known.
func TestClassesOfDevicesWithoutASlice(t *testing.T) {
	s := newState(deviceClass("gpu", ""), deviceClass("h100", ""), madeFor("p", given(claimOf("c", "h100", 1), "n", []int{0}, "p")),
		pod("p", on("n"), asking("deviceclass.resource.kubernetes.io/h100", "1")))
	position := s.dimensions.Index(implicitName("gpu"))
	for _, want := range []struct {
		devices int
		charge  int64
	}{{0, 0}, {1, 1}, {0, 0}} {
		s.Apply(seen(devicesOn("m", want.devices, "gpu", "h100")))
		if got := taskIn(snap(t, s, start), "p").Request.At(position); got != want.charge {
			t.Errorf("with %d devices in both classes it is charged %d of the outer one, want %d", want.devices, got, want.charge)
		}
	}
}

// TestAClaimHidesNoUnofferedResource: a pod with a claim that requests a resource that no node offers has no capacity.
func TestAClaimHidesNoUnofferedResource(t *testing.T) {
	s := newState(node("n"), deviceClass("gpu", ""), devicesOn("n", 4, "gpu"), claimOf("c", "gpu", 1), pod("p", claiming("c"), asking("example.com/none", "1")))
	snapshot := snap(t, s, start)
	if task := taskIn(snapshot, "p"); snapshot.Node("n").Free(model.Idle).Fits(task.Request) || task.Devices.Claimed.At(model.Unoffered) != 0 {
		t.Errorf("it requests %v, of which %v by its claim", task.Request, task.Devices.Claimed)
	}
}

// TestAClassThatComesAfterItsDevices: a pod with devices of a claim that was made for its extended resources, which it does not
// name, is charged for them when their class comes, on a node that is there and on one that is not.
func TestAClassThatComesAfterItsDevices(t *testing.T) {
	made := func(uid types.UID, node string) *resourceapi.ResourceClaim {
		return madeFor(uid, given(claimOf("made-"+string(uid), "gpu", 1), node, []int{0}, string(uid)))
	}
	s := newState(node("n"), made("p", "n"), made("q", "gone"), pod("p", on("n")), pod("q", on("gone")))
	snap(t, s, start)
	s.Apply(seen(deviceClass("gpu", "")))
	snapshot := snap(t, s, start)
	for _, name := range []string{"p", "q"} {
		if got := taskIn(snapshot, name).Request.At(s.dimensions.Index(implicitName("gpu"))); got != 1 {
			t.Errorf("%s is charged for %d devices, want 1", name, got)
		}
	}
}
