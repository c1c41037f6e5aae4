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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/internal/kube"
)

// TestKnownFieldsOfDevices: a field that is not listed here may decide which claim gets a device, and the inventory does not read
// it. For each new one decide whether a device with it can still be counted, and make it a reason in notPlain where it cannot.
func TestKnownFieldsOfDevices(t *testing.T) {
	for of, known := range map[reflect.Type]string{
		reflect.TypeFor[resourceapi.ResourceSliceSpec](): "Driver Pool NodeName NodeSelector AllNodes Devices PerDeviceNodeSelection " +
			"SharedCounters PartitionTypeAttribute SkipNodeOperations",
		reflect.TypeFor[resourceapi.ResourcePool](): "Name Generation ResourceSliceCount",
		reflect.TypeFor[resourceapi.Device](): "Name Attributes Capacity ConsumesCounters NodeName NodeSelector AllNodes Taints " +
			"BindsToNode BindingConditions BindingFailureConditions AllowMultipleAllocations NodeAllocatableResources",
		reflect.TypeFor[resourceapi.DeviceCapacity]():           "Value RequestPolicy",
		reflect.TypeFor[resourceapi.DeviceTaint]():              "Key Value Effect TimeAdded",
		reflect.TypeFor[resourceapi.DeviceCounterConsumption](): "CounterSet Counters CompatibilityGroups",
		reflect.TypeFor[resourceapi.CounterSet]():               "Name Counters",
		reflect.TypeFor[resourceapi.DeviceClassSpec]():          "Selectors Config ExtendedResourceName",
		reflect.TypeFor[resourceapi.DeviceSelector]():           "CEL",
		reflect.TypeFor[resourceapi.CELDeviceSelector]():        "Expression",
		reflect.TypeFor[cel.Device]():                           "Driver AllowMultipleAllocations Attributes Capacity",
	} {
		var fields []string
		for _, field := range reflect.VisibleFields(of) {
			fields = append(fields, field.Name)
		}
		if got := strings.Join(fields, " "); got != known {
			t.Errorf("the fields of %s are %q, the inventory knows %q", of, got, known)
		}
	}
}

// deviceWorld makes random slices, classes and allocations.
type deviceWorld struct {
	*rapid.T
	slices map[string]*resourceapi.ResourceSlice
	known  map[string]*resourceapi.DeviceClass
	free   int // how many devices may still be made: the allocator's search is exponential in them
}

var deviceDrivers = []string{"gpu.example.com", "nic.example.com"}

// odds is true in so many of 100 cases; numbers of rapid are mostly small ones.
func (w *deviceWorld) odds(percent int, what string) bool {
	const bits = 6
	drawn := 0
	for range bits {
		drawn *= 2
		if rapid.Bool().Draw(w.T, what) {
			drawn++
		}
	}
	return drawn*100 >= (100-percent)<<bits
}

func (w *deviceWorld) number(most int, what string) int {
	return rapid.IntRange(0, most).Draw(w.T, what)
}

// pool makes the slices of one pool, of its newest generation and of what is left of the one before.
func (w *deviceWorld) pool(name string) []*resourceapi.ResourceSlice {
	driver := rapid.SampledFrom(deviceDrivers).Draw(w.T, "driver")
	odd := w.odds(40, "odd pool")
	node := rapid.SampledFrom([]string{"a", "b"}).Draw(w.T, "node")
	counters := odd && w.odds(30, "counters")
	var made []*resourceapi.ResourceSlice
	for generation := int64(2); generation > 0; generation-- {
		n := 1 + w.number(1, "slices")
		if generation == 1 {
			n = 0
			if w.odds(30, "old slices") {
				n = 1
			}
		}
		count := n
		if counters && n > 0 {
			count++
		}
		if odd && w.odds(30, "wrong count") {
			count += w.number(2, "count") - 1
		}
		for i := range count {
			if i >= n+1 || i == n && !counters {
				break
			}
			slice := &resourceapi.ResourceSlice{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s-%d-%d", name, driver[:3], generation, i)},
				Spec: resourceapi.ResourceSliceSpec{Driver: driver, NodeName: &node, Pool: resourceapi.ResourcePool{
					Name: name, Generation: generation, ResourceSliceCount: int64(count),
				}},
			}
			if odd && w.odds(10, "differs") {
				slice.Spec.Pool.ResourceSliceCount++
			}
			if odd && w.odds(20, "elsewhere") {
				w.elsewhere(&slice.Spec)
			}
			if i == n {
				if w.odds(10, "beside") {
					w.devices(slice, i, true, odd)
				}
				slice.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "memory", Counters: map[string]resourceapi.Counter{
					"gb": {Value: resource.MustParse("2")},
				}}}
			} else {
				w.devices(slice, i, counters || odd && w.odds(5, "no counters"), odd)
			}
			made = append(made, slice)
		}
	}
	return made
}

func (w *deviceWorld) elsewhere(spec *resourceapi.ResourceSliceSpec) {
	yes, other := true, rapid.SampledFrom([]string{"a", "b"}).Draw(w.T, "other node")
	spec.NodeName = nil
	switch w.number(4, "where") {
	case 0:
		spec.AllNodes = &yes
	case 1:
		spec.NodeSelector = onNode(corev1.LabelHostname, other)
	case 2:
		spec.PerDeviceNodeSelection = &yes
	case 3:
		spec.NodeName = &other
	}
}

func (w *deviceWorld) devices(slice *resourceapi.ResourceSlice, nth int, counters, odd bool) {
	spec, yes := &slice.Spec, true
	for i := range min(w.number(3, "devices"), w.free) {
		w.free--
		device := resourceapi.Device{Name: fmt.Sprintf("d%d-%d", nth, i)}
		if odd && w.odds(5, "same name") {
			device.Name = "d0-0"
		}
		if w.odds(90, "model") {
			model := rapid.SampledFrom([]string{"x", "y"}).Draw(w.T, "which model")
			device.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &model}}
		}
		if w.odds(40, "memory") {
			amount := rapid.SampledFrom([]string{"1Gi", "2Gi"}).Draw(w.T, "how much")
			device.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse(amount)}}
		}
		for w.odds(20, "taint") {
			device.Taints = append(device.Taints, resourceapi.DeviceTaint{Key: "k", Effect: rapid.SampledFrom([]resourceapi.DeviceTaintEffect{
				resourceapi.DeviceTaintEffectNone, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute, "Unknown",
			}).Draw(w.T, "effect")})
		}
		if counters && w.odds(60, "consumes") {
			consumed := resourceapi.DeviceCounterConsumption{CounterSet: "memory", Counters: map[string]resourceapi.Counter{
				"gb": {Value: resource.MustParse("1")},
			}}
			if w.odds(5, "groups") {
				consumed.CompatibilityGroups = []string{"g"}
			}
			if w.odds(5, "no such counter") {
				consumed.Counters["cores"] = resourceapi.Counter{Value: resource.MustParse("1")}
			}
			device.ConsumesCounters = []resourceapi.DeviceCounterConsumption{consumed}
		}
		if spec.PerDeviceNodeSelection != nil {
			device.NodeName = spec.NodeName
			if device.NodeName == nil {
				device.AllNodes = &yes
			}
		}
		if odd && w.odds(10, "special") {
			w.special(&device)
		}
		spec.Devices = append(spec.Devices, device)
	}
}

// special gives the device something that is not asked for by a class and a number.
func (w *deviceWorld) special(device *resourceapi.Device) {
	yes := true
	switch w.number(4, "how special") {
	case 0:
		device.AllowMultipleAllocations = &yes
	case 1:
		device.BindingConditions, device.BindingFailureConditions = []string{"ready"}, []string{"broken"}
	case 2:
		device.BindsToNode = &yes
	case 3:
		policy := &resourceapi.CapacityRequestPolicy{ValidValues: []resource.Quantity{resource.MustParse("3Gi")}}
		device.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"memory": {Value: resource.MustParse("1Gi"), RequestPolicy: policy},
		}
	case 4:
		device.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("-1")}}
	}
}

func (w *deviceWorld) class(name string) *resourceapi.DeviceClass {
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if w.odds(10, "wrong") {
		class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.nonsense`}}}
	}
	for range w.number(2, "selectors") {
		class.Spec.Selectors = append(class.Spec.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{
			Expression: rapid.SampledFrom([]string{
				`true`,
				`device.driver == "gpu.example.com"`,
				`device.attributes["gpu.example.com"].?model.orValue("") == "x"`,
				`device.attributes["nic.example.com"].?model.orValue("y") == "y"`,
				`!device.allowMultipleAllocations`,
				`"memory" in device.capacity["gpu.example.com"]`,
				`device.driver == "nic.example.com" || device.attributes["gpu.example.com"].model == "x"`,
			}).Draw(w.T, "expression"),
		}})
	}
	return class
}

// change lets the inventory see a change of what there is, and makes it.
func (w *deviceWorld) change(inventory *kube.DeviceInventory) {
	set := func(class *resourceapi.DeviceClass) {
		w.known[class.Name] = class
		inventory.SetClass(class)
	}
	remove := func(name string) {
		w.free += len(w.slices[name].Spec.Devices)
		delete(w.slices, name)
		inventory.RemoveSlice(name)
	}
	switch {
	case len(w.known) < 2 || w.odds(15, "a class"):
		set(w.class(fmt.Sprintf("class%d", w.number(2, "class"))))
	case w.odds(5, "no class"):
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(w.known))).Draw(w.T, "class")
		delete(w.known, name)
		inventory.RemoveClass(name)
	case len(w.slices) > 0 && w.odds(10, "no slice"):
		remove(rapid.SampledFrom(slices.Sorted(maps.Keys(w.slices))).Draw(w.T, "slice"))
	default:
		pool := fmt.Sprintf("pool%d", w.number(2, "pool"))
		renewed := w.odds(90, "renewed")
		for _, name := range slices.Sorted(maps.Keys(w.slices)) {
			if renewed && w.slices[name].Spec.Pool.Name == pool {
				remove(name)
			}
		}
		for _, slice := range rapid.Permutation(w.pool(pool)).Draw(w.T, "order") {
			if before := w.slices[slice.Name]; before != nil {
				w.free += len(before.Spec.Devices)
			}
			w.slices[slice.Name] = slice
			inventory.SetSlice(slice)
		}
	}
}

// deviceClassList is what the allocator knows classes from.
type deviceClassList map[string]*resourceapi.DeviceClass

func (l deviceClassList) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := l[name]; class != nil {
		return class, nil
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclasses"), name)
}

func (l deviceClassList) List() ([]*resourceapi.DeviceClass, error) {
	return slices.Collect(maps.Values(l)), nil
}

// TestInventoryIsTheAllocators: what the inventory counts of a class on a node is what kube-scheduler's allocator gives there:
// all that is free of taints and allocations, and not one more. And what an inventory pushes while slices and classes change is
// in the end what a new one says.
func TestInventoryIsTheAllocators(t *testing.T) {
	expressions := cel.NewCache(20, cel.Features{EnableConsumableCapacity: true})
	counted, uncounted := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := &deviceWorld{T: t, slices: map[string]*resourceapi.ResourceSlice{}, known: map[string]*resourceapi.DeviceClass{}, free: 12}
		pushed := map[string]*kube.NodeDevices{}
		inventory := kube.NewDeviceInventory(func(now *kube.NodeDevices) {
			if before := pushed[now.Node]; before != nil && before.Equal(now) {
				t.Fatalf("pushed twice: %+v", now)
			}
			pushed[now.Node] = now
		})
		for range 5 + w.number(7, "changes") {
			w.change(inventory)
		}
		maps.DeleteFunc(pushed, func(_ string, devices *kube.NodeDevices) bool {
			return len(devices.Devices) == 0 && len(devices.Uncounted) == 0
		})
		names := rapid.Permutation(slices.Sorted(maps.Keys(w.slices))).Draw(t, "order")
		var all []*resourceapi.ResourceSlice
		for _, name := range names {
			all = append(all, w.slices[name])
		}
		found := kube.DevicesOf(all, slices.Collect(maps.Values(w.known)))
		if !maps.EqualFunc(found, pushed, (*kube.NodeDevices).Equal) {
			t.Fatalf("pushed was\n%s\nwant\n%s", lines(pushed), lines(found))
		}
		allocated := w.allocated(all)
		allocator, err := structured.NewAllocator(t.Context(),
			dynamicresources.AllocatorFeatures(feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)),
			structured.AllocatedState{
				AllocatedDevices: allocated, AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
				AggregatedCapacity: structured.NewConsumedCapacityCollection(),
			}, deviceClassList(w.known), all, expressions)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b"} {
			for class := range w.known {
				if uncountedOn(found, name, class) {
					uncounted++
					continue
				}
				free := freeOf(found[name], class, allocated)
				checkAllocator(t, allocator, name, class, free)
				if len(free) > 0 {
					counted++
				}
			}
		}
	})
	t.Logf("%d times devices of a class on a node were counted, %d times they were not", counted, uncounted)
	if !t.Failed() && (counted == 0 || uncounted == 0) {
		t.Error("a case is missing")
	}
}

func (w *deviceWorld) allocated(all []*resourceapi.ResourceSlice) sets.Set[structured.DeviceID] {
	ids := sets.New[structured.DeviceID]()
	for _, slice := range all {
		for _, device := range slice.Spec.Devices {
			if w.odds(20, "allocated") {
				ids.Insert(structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, device.Name))
			}
		}
	}
	return ids
}

func uncountedOn(found map[string]*kube.NodeDevices, node, class string) bool {
	for _, name := range []string{node, ""} {
		if devices := found[name]; devices != nil && devices.Uncounted[class] != "" {
			return true
		}
	}
	return false
}

// freeOf returns the devices of the class that are free of taints and allocations, sorted.
func freeOf(devices *kube.NodeDevices, class string, allocated sets.Set[structured.DeviceID]) []string {
	var free []string
	if devices == nil {
		return nil
	}
	for _, device := range devices.Devices {
		id := structured.MakeDeviceID(device.ID.Driver, device.ID.Pool, device.ID.Device)
		if slices.Contains(device.Classes, class) && !device.Tainted && !allocated.Has(id) {
			free = append(free, device.ID.String())
		}
	}
	slices.Sort(free)
	return free
}

// checkAllocator wants the allocator to give exactly these devices, and no more: to one claim, and to claims of one device each.
func checkAllocator(t *rapid.T, allocator structured.Allocator, nodeName, class string, free []string) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{corev1.LabelHostname: nodeName}}}
	give := func(claims, each int) ([]string, error) {
		var all []*resourceapi.ResourceClaim
		for i := range claims {
			claim := deviceClaim(fmt.Sprintf("claim-%d", i))
			claim.Spec.Devices.Requests[0].Exactly.DeviceClassName, claim.Spec.Devices.Requests[0].Exactly.Count = class, int64(each)
			all = append(all, claim)
		}
		results, err := allocator.Allocate(t.Context(), node, all)
		var given []string
		for _, result := range results {
			for _, device := range result.Devices.Results {
				given = append(given, device.Driver+"/"+device.Pool+"/"+device.Device)
			}
		}
		slices.Sort(given)
		return given, err
	}
	check := func(n int, give func(int) ([]string, error)) {
		if given, err := give(n); n > 0 && !slices.Equal(given, free) {
			t.Fatalf("%d of %s on node %s: the allocator gives %q (%v), want %q", n, class, nodeName, given, err, free)
		}
		if given, _ := give(n + 1); given != nil {
			t.Fatalf("the allocator gives %q of %s on node %s, more than %q", given, class, nodeName, free)
		}
	}
	check(len(free), func(n int) ([]string, error) { return give(1, n) })
	if len(free) < 5 { // it tries each order of the claims
		check(len(free), func(n int) ([]string, error) { return give(n, 1) })
	}
}

// lines shows devices of nodes for people.
func lines(found map[string]*kube.NodeDevices) string {
	var text strings.Builder
	for _, node := range slices.Sorted(maps.Keys(found)) {
		fmt.Fprintf(&text, "%q: %v %q\n", node, found[node].Devices, found[node].Uncounted)
	}
	return text.String()
}

// TestWhyDevicesAreNotCounted: what is said of a class whose devices are no number, and the devices beside them are counted.
func TestWhyDevicesAreNotCounted(t *testing.T) {
	yes := true
	of := func(change func(*resourceapi.Device)) func(*resourceapi.ResourceSlice) {
		return func(slice *resourceapi.ResourceSlice) { change(&slice.Spec.Devices[1]) }
	}
	for name, test := range map[string]struct {
		change     func(*resourceapi.ResourceSlice)
		expression string
		node       string // whose Uncounted it is, a unless it is set to none
		want       string
		counted    int
	}{
		"plain":            {change: func(*resourceapi.ResourceSlice) {}, counted: 2},
		"taint":            {change: of(func(d *resourceapi.Device) { d.Taints = []resourceapi.DeviceTaint{{Effect: "NoSchedule"}} }), counted: 2},
		"one user":         {change: of(func(d *resourceapi.Device) { d.AllowMultipleAllocations = new(bool) }), counted: 2},
		"several users":    {change: of(func(d *resourceapi.Device) { d.AllowMultipleAllocations = &yes }), want: "allows multiple allocations", counted: 1},
		"conditions":       {change: of(func(d *resourceapi.Device) { d.BindingConditions = []string{"x"} }), want: "has binding conditions", counted: 1},
		"failures":         {change: of(func(d *resourceapi.Device) { d.BindingFailureConditions = []string{"x"} }), want: "has binding conditions", counted: 1},
		"binds":            {change: of(func(d *resourceapi.Device) { d.BindsToNode = &yes }), want: "binds to the node", counted: 1},
		"nodes of its own": {change: of(func(d *resourceapi.Device) { d.AllNodes = &yes }), want: "selects nodes itself", counted: 1},
		"allocatable": {
			change: of(func(d *resourceapi.Device) {
				d.NodeAllocatableResources = map[corev1.ResourceName]resourceapi.NodeAllocatableResource{"cpu": {}}
			}), want: "provides allocatable resources of the node", counted: 1,
		},
		"policy": {
			change: of(func(d *resourceapi.Device) {
				d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"m": {RequestPolicy: &resourceapi.CapacityRequestPolicy{}}}
			}), want: "has a capacity with a request policy, or below zero", counted: 1,
		},
		"counters": {
			change: func(slice *resourceapi.ResourceSlice) {
				slice.Spec.Devices[1].ConsumesCounters = []resourceapi.DeviceCounterConsumption{{}}
			}, // of a set that is not there: the pool is invalid
		},
		"all nodes": {
			change: func(slice *resourceapi.ResourceSlice) { slice.Spec.NodeName, slice.Spec.AllNodes = nil, &yes },
			node:   "none", want: "its pool is not of one node alone",
		},
		"no nodes": {
			change: func(slice *resourceapi.ResourceSlice) { slice.Spec.NodeName = nil },
			node:   "none", want: "its pool is not of one node alone",
		},
		"each device": {
			change: func(slice *resourceapi.ResourceSlice) { slice.Spec.PerDeviceNodeSelection = &yes },
			node:   "none", want: "its pool is not of one node alone",
		},
		"not selected": {
			change:     of(func(d *resourceapi.Device) { d.AllowMultipleAllocations = &yes }),
			expression: "!device.allowMultipleAllocations", counted: 1,
		},
		"no expression":    {change: func(slice *resourceapi.ResourceSlice) {}, expression: "none", want: "class c: selector #0: no CEL expression", counted: 2},
		"wrong expression": {change: func(slice *resourceapi.ResourceSlice) {}, expression: "device.x", want: "class c: selector #0: CEL compile error: ", counted: 2},
		"failing expression": {
			change: func(slice *resourceapi.ResourceSlice) {}, expression: `device.attributes["d"].x`,
			want: "class c: selector #0 on device gpu.example.com/a/gpu-0: CEL runtime error: no such key: x", counted: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			slice, class := devices(2), &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
			test.change(slice)
			switch test.expression {
			case "":
			case "none":
				class.Spec.Selectors = []resourceapi.DeviceSelector{{}}
			default:
				class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: test.expression}}}
			}
			found := kube.DevicesOf([]*resourceapi.ResourceSlice{slice}, []*resourceapi.DeviceClass{class})
			node, counted := "a", 0
			if test.node != "" {
				node = ""
			}
			for _, devices := range found {
				counted += len(devices.Devices)
				if devices.Node != node {
					t.Errorf("devices of node %q: %+v", devices.Node, devices)
				}
			}
			why := ""
			if found[node] != nil {
				why = found[node].Uncounted["c"]
			}
			if counted != test.counted || !strings.Contains(why, test.want) || (why == "") != (test.want == "") {
				t.Errorf("%d devices are counted, and %q; want %d, %q", counted, why, test.counted, test.want)
			}
		})
	}
}

// BenchmarkInventory measures the devices of 5,000 nodes of 8, of two drivers and three classes: when all come, when one slice
// changes, and when one class changes.
func BenchmarkInventory(b *testing.B) {
	const nodes = 5000
	class := func(name, expression string) *resourceapi.DeviceClass {
		return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.DeviceClassSpec{
			Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}},
		}}
	}
	classes := []*resourceapi.DeviceClass{
		class("gpu", `device.driver == "gpu.example.com"`),
		class("large", `device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model == "large"`),
		class("nic", `device.driver == "nic.example.com"`),
	}
	var all []*resourceapi.ResourceSlice
	for i := range nodes {
		slice := devices(8)
		slice.Name = fmt.Sprintf("node-%d", i)
		slice.Spec.NodeName, slice.Spec.Pool.Name = &slice.Name, slice.Name
		for j := range slice.Spec.Devices {
			model, id, healthy := []string{"large", "small"}[i%2], fmt.Sprintf("%d-%d", i, j), true
			slice.Spec.Devices[j].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"model": {StringValue: &model}, "uuid": {StringValue: &id}, "healthy": {BoolValue: &healthy},
			}
			slice.Spec.Devices[j].Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}}
		}
		all = append(all, slice)
	}
	fill := func(push func(*kube.NodeDevices)) *kube.DeviceInventory {
		inventory := kube.NewDeviceInventory(push)
		for _, class := range classes {
			inventory.SetClass(class)
		}
		for _, slice := range all {
			inventory.SetSlice(slice)
		}
		return inventory
	}
	b.Run("fill", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			fill(func(*kube.NodeDevices) {})
		}
	})
	tainted := all[0].DeepCopy()
	tainted.Spec.Devices[0].Taints = []resourceapi.DeviceTaint{{Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	pushed := 0
	inventory := fill(func(*kube.NodeDevices) { pushed++ })
	b.Run("slice", func(b *testing.B) {
		b.ReportAllocs()
		pushed = 0
		changes := 0
		for b.Loop() {
			inventory.SetSlice([]*resourceapi.ResourceSlice{tainted, all[0]}[changes%2])
			changes++
		}
		if pushed != changes {
			b.Errorf("%d pushes for %d changes", pushed, changes)
		}
	})
	b.Run("class", func(b *testing.B) {
		b.ReportAllocs()
		other, changes := class("large", `device.attributes["gpu.example.com"].model == "small"`), 0
		for b.Loop() {
			inventory.SetClass([]*resourceapi.DeviceClass{other, classes[1]}[changes%2])
			changes++
		}
	})
}
