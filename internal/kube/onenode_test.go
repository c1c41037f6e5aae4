package kube_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/internal/kube"
)

// claim is a claim of any kind: mostly one for some devices of a class.
func (w *deviceWorld) claim(name string) *resourceapi.ResourceClaim {
	claim, yes := deviceClaim(name), true
	class := func() string {
		return rapid.SampledFrom(append(slices.Sorted(maps.Keys(w.known)), "gpu")).Draw(w.T, "class")
	}
	request := &claim.Spec.Devices.Requests[0]
	request.Exactly.DeviceClassName, request.Exactly.Count = class(), int64(1+w.number(1, "count"))
	switch {
	case w.odds(70, "plain"):
	case w.odds(20, "all"):
		request.Exactly.AllocationMode, request.Exactly.Count = resourceapi.DeviceAllocationModeAll, 0
	case w.odds(20, "admin"):
		request.Exactly.AdminAccess = &yes
	case w.odds(25, "tolerates"):
		request.Exactly.Tolerations = []resourceapi.DeviceToleration{{Operator: resourceapi.DeviceTolerationOpExists}}
	case w.odds(30, "alternatives"):
		request.Exactly = nil
		for i, n := range []int64{2, 1} {
			request.FirstAvailable = append(request.FirstAvailable, resourceapi.DeviceSubRequest{
				Name: fmt.Sprint("option-", i), DeviceClassName: class(),
				AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: n,
			})
		}
	case w.odds(50, "selects"):
		request.Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: `device.attributes["gpu.example.com"].?model.orValue("") == "x"`,
		}}}
	default:
		attribute := resourceapi.FullyQualifiedName("gpu.example.com/model")
		claim.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: &attribute}}
	}
	return claim
}

// claimants are pods of one claim each, and a plugin that is shown all devices.
type claimants struct {
	*store
	claims map[string]*resourceapi.ResourceClaim // by pod
	states map[string]string                     // reserved or prepared, by pod
}

// all returns what the plugin that is shown all devices gives the pod on the node.
func (c *claimants) all(p *corev1.Pod, on string) (*resourceapi.AllocationResult, *fwk.Status) {
	plugin := c.Plugin(names.DynamicResources)
	state, node := c.NewState(), framework.NewNodeInfo()
	node.SetNode(c.nodes[on])
	_, status := plugin.(fwk.PreFilterPlugin).PreFilter(c.t.Context(), state, p, nil)
	if status.IsSuccess() {
		status = plugin.(fwk.FilterPlugin).Filter(c.t.Context(), state, p, node)
	}
	if !status.IsSuccess() {
		return nil, status
	}
	if status := plugin.(fwk.ReservePlugin).Reserve(c.t.Context(), state, p, on); !status.IsSuccess() {
		return nil, status
	}
	claim := c.claims[p.Name].UID
	defer c.Forget(claim)
	return c.Pending(claim), nil
}

// stored returns the allocation of the pod's claim that the API server has, nil when there is none.
func (c *claimants) stored(pod string) *resourceapi.AllocationResult {
	c.t.Helper()
	claim, err := c.client.ResourceV1().ResourceClaims("default").Get(c.t.Context(), c.claims[pod].Name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return claim.Status.Allocation
}

// givenTwice returns a device that two claims have and that only one may have, empty when there is none.
func (c *claimants) givenTwice() string {
	users := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.claims)) {
		allocation := c.Pending(c.claims[name].UID)
		if allocation == nil {
			allocation = c.stored(name)
		}
		if allocation == nil {
			continue
		}
		for _, device := range allocation.Devices.Results {
			if device.ShareID != nil || device.AdminAccess != nil && *device.AdminAccess {
				continue
			}
			id := device.Driver + "/" + device.Pool + "/" + device.Device
			if users[id] != "" {
				return id + " of " + users[id] + " and " + name
			}
			users[id] = name
		}
	}
	return ""
}

// same reports whether two allocations are the same. The share of a device has a random name.
func same(a, b *resourceapi.AllocationResult) bool {
	if a == nil || b == nil {
		return a == b
	}
	a, b = a.DeepCopy(), b.DeepCopy()
	for _, allocation := range []*resourceapi.AllocationResult{a, b} {
		for i := range allocation.Devices.Results {
			if device := &allocation.Devices.Results[i]; device.ShareID != nil {
				device.ShareID = new(types.UID)
			}
		}
	}
	return reflect.DeepEqual(a, b)
}

// TestOneNodeIsEnough: with random devices and claims, Reserve, which is shown one node, gives a pod what it would give
// when it were shown all devices, for the same reason nothing, and no device to two claims.
func TestOneNodeIsEnough(t *testing.T) {
	given, refused := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		w := &deviceWorld{T: rt, slices: map[string]*resourceapi.ResourceSlice{}, known: map[string]*resourceapi.DeviceClass{}, free: 12}
		inventory := kube.NewDeviceInventory(nil)
		for range 4 + w.number(5, "changes") {
			w.change(inventory)
		}
		c := &claimants{claims: map[string]*resourceapi.ResourceClaim{}, states: map[string]string{}}
		var objects []runtime.Object
		counts := map[string]int64{}
		for _, name := range slices.Sorted(maps.Keys(w.slices)) {
			slice := w.slices[name]
			slice.ResourceVersion = "1"
			objects = append(objects, slice)
			// Where they differ, the allocator takes the one that happens to come first.
			pool := &slice.Spec.Pool
			of := fmt.Sprint(slice.Spec.Driver, pool.Name, pool.Generation)
			if counts[of] == 0 {
				counts[of] = pool.ResourceSliceCount
			}
			pool.ResourceSliceCount = counts[of]
			shared := w.odds(20, "shared")
			for i := range slice.Spec.Devices {
				if shared {
					slice.Spec.Devices[i].AllowMultipleAllocations = &shared
				}
			}
		}
		for _, class := range w.known {
			class.ResourceVersion = "1"
			objects = append(objects, class)
		}
		var pods []*corev1.Pod
		for i := range 6 {
			name := fmt.Sprint("p", i)
			c.claims[name] = w.claim("claim-" + name)
			pods = append(pods, pod(name, "device claim-"+name))
			objects = append(objects, c.claims[name], pods[i])
		}
		c.store = newStore(t, objects...)
		for range 4 + w.number(12, "steps") {
			p := pods[w.number(len(pods)-1, "pod")]
			claim, state := c.claims[p.Name].UID, c.states[p.Name]
			switch {
			case state == "":
				on := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "node")
				want, why := c.all(p, on)
				_, status := c.Reserve(t.Context(), p, c.nodes[on], nil)
				if got := c.Pending(claim); status.Code() != why.Code() || status.Message() != why.Message() || !same(got, want) {
					rt.Fatalf("%s on %s: given\n%v (%v), shown all it were\n%v (%v)", p.Name, on, got, status, want, why)
				}
				if !status.IsSuccess() {
					refused++
					continue
				}
				given++
				c.states[p.Name] = "reserved"
			case state == "reserved" && w.odds(60, "prepare") && !waits(c.Pending(claim)):
				if err := c.Prepare(t.Context(), p.UID); err != nil {
					rt.Fatal(err)
				}
				c.states[p.Name] = "prepared"
			case state == "reserved":
				c.Unreserve(p.UID)
				delete(c.states, p.Name)
			case w.odds(50, "release"):
				if err := c.Release(t.Context(), p.UID); err != nil {
					rt.Fatal(err)
				}
				delete(c.states, p.Name)
			}
			if twice := c.givenTwice(); twice != "" {
				rt.Fatalf("device %s", twice)
			}
		}
	})
	t.Logf("%d pods were given devices, %d were refused", given, refused)
	if !t.Failed() && (given == 0 || refused == 0) {
		t.Error("a case is missing")
	}
}

// waits reports whether a device of the allocation has to become ready.
func waits(allocation *resourceapi.AllocationResult) bool {
	return slices.ContainsFunc(allocation.Devices.Results, func(device resourceapi.DeviceRequestAllocationResult) bool {
		return len(device.BindingConditions) > 0
	})
}

// BenchmarkReserve measures a pod with a claim of one device, and one that requests one by an extended resource, on nodes of 8
// devices of which half are held.
func BenchmarkReserve(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		var objects []runtime.Object
		for i := range nodes {
			slice := devices(8)
			if i > 0 {
				slice.Name = fmt.Sprintf("node-%d", i)
			}
			slice.Spec.NodeName, slice.Spec.Pool.Name = &slice.Name, slice.Name
			objects = append(objects, slice)
			for j := range 4 {
				held := deviceClaim(fmt.Sprintf("held-%d-%d", i, j), fmt.Sprintf("pod-%d-%d", i, j))
				held.Status.Allocation.Devices.Results[0].Pool = slice.Name
				held.Status.Allocation.Devices.Results[0].Device = fmt.Sprintf("gpu-%d", 2*j)
				objects = append(objects, held)
			}
		}
		s := newStore(b, append(objects, deviceClaim("one"))...)
		for _, p := range []*corev1.Pod{pod("claim", "device one"), asking("resource", 1)} {
			b.Run(fmt.Sprintf("%s/nodes=%d", strings.ToLower(p.Name), nodes), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					s.reserve(p)
					s.Unreserve(p.UID)
				}
			})
		}
	}
}
