package kube_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"github.com/tutti-sched/tutti/internal/kube"
)

// pushes are what was pushed for each node last, and how often.
type pushes struct {
	mu    sync.Mutex
	last  map[string]*kube.NodeDevices
	times int
}

func (p *pushes) push(devices *kube.NodeDevices) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil {
		p.last = map[string]*kube.NodeDevices{}
	}
	p.last[devices.Node] = devices
	p.times++
}

// text shows the last ones: of each device the name, the classes and whether it is tainted.
func (p *pushes) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var lines []string
	for _, node := range []string{"", "a", "b"} {
		devices, ok := p.last[node]
		if !ok {
			continue
		}
		line := fmt.Sprintf("%q:", node)
		for _, device := range devices.Devices {
			line += fmt.Sprintf(" %s %v", device.ID.Device, device.Classes)
			if device.Tainted {
				line += " tainted"
			}
		}
		if len(devices.Uncounted) > 0 {
			line += fmt.Sprintf(" %v", devices.Uncounted)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func (p *pushes) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.times
}

// expect wants the text to be this one soon.
func (p *pushes) expect(t *testing.T, what string, want ...string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return p.text() == strings.Join(want, "\n"), nil
	})
	if err != nil {
		t.Errorf("%s: pushed was\n%s\nwant\n%s", what, p.text(), strings.Join(want, "\n"))
	}
}

// TestWatchDevices: slices, classes and taints of rules come and go, and what changes by them is pushed.
func TestWatchDevices(t *testing.T) {
	for _, rules := range []bool{true, false} {
		t.Run(fmt.Sprintf("rules=%t", rules), func(t *testing.T) { testWatchDevices(t, rules) })
	}
}

func testWatchDevices(t *testing.T, rules bool) {
	client := fake.NewClientset(devices(2), &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}})
	factory := informers.NewSharedInformerFactory(client, 0)
	t.Cleanup(factory.Shutdown)
	plugins, err := kube.New(t.Context(), kube.Deps{
		Lister: cache.NewEmptySnapshot(), Informers: factory, Client: client, NoDeviceTaintRules: !rules,
	})
	if err != nil {
		t.Fatal(err)
	}
	var pushed pushes
	if err := plugins.WatchDevices(pushed.push); err != nil {
		t.Fatal(err)
	}
	if plugins.HasSynced() {
		t.Error("the plugins have synced before the informers started")
	}
	factory.Start(t.Context().Done())
	if !clientcache.WaitForCacheSync(t.Context().Done(), plugins.HasSynced) {
		t.Fatal("the plugins did not sync")
	}
	if got, want := pushed.text(), `"a": gpu-0 [gpu] gpu-1 [gpu]`; got != want {
		t.Errorf("the plugins have synced, pushed was %s, want %s", got, want)
	}
	api := client.ResourceV1()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	first := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "first"}, Spec: resourceapi.DeviceClassSpec{
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: `device.attributes["gpu.example.com"].?index.orValue(-1) == 0`,
		}}},
	}}
	must(api.DeviceClasses().Create(t.Context(), first, metav1.CreateOptions{}))
	slice := devices(2)
	for i := range slice.Spec.Devices {
		index := int64(i)
		slice.Spec.Devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"index": {IntValue: &index}}
	}
	must(api.ResourceSlices().Update(t.Context(), slice, metav1.UpdateOptions{}))
	pushed.expect(t, "another class", `"a": gpu-0 [first gpu] gpu-1 [gpu]`)
	first.Spec.Selectors[0].CEL.Expression = `device.attributes["gpu.example.com"].?index.orValue(-1) == 1`
	must(api.DeviceClasses().Update(t.Context(), first, metav1.UpdateOptions{}))
	pushed.expect(t, "the class is changed", `"a": gpu-0 [gpu] gpu-1 [first gpu]`)
	must(nil, api.DeviceClasses().Delete(t.Context(), "gpu", metav1.DeleteOptions{}))
	pushed.expect(t, "a class is deleted", `"a": gpu-0 [] gpu-1 [first]`)

	if rules {
		device := "gpu-1"
		rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "broken"}, Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: &resourceapi.DeviceTaintSelector{Device: &device},
			Taint:          resourceapi.DeviceTaint{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule},
		}}
		must(api.DeviceTaintRules().Create(t.Context(), rule, metav1.CreateOptions{}))
		pushed.expect(t, "a rule", `"a": gpu-0 [] gpu-1 [first] tainted`)
		must(nil, api.DeviceTaintRules().Delete(t.Context(), "broken", metav1.DeleteOptions{}))
		pushed.expect(t, "no rule", `"a": gpu-0 [] gpu-1 [first]`)
	}

	all := true
	fabric := devices(2)
	fabric.Name, fabric.Spec.Pool.Name, fabric.Spec.NodeName, fabric.Spec.AllNodes = "fabric", "fabric", nil, &all
	must(api.ResourceSlices().Create(t.Context(), fabric, metav1.CreateOptions{}))
	pushed.expect(t, "devices of all nodes", `"a": gpu-0 [] gpu-1 [first]`)
	one := int64(1)
	fabric.Spec.Devices[1].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"index": {IntValue: &one}}
	must(api.ResourceSlices().Update(t.Context(), fabric, metav1.UpdateOptions{}))
	pushed.expect(t, "devices of all nodes in a class",
		`"": map[first:device gpu-1 of pool fabric: its pool is not of one node alone]`, `"a": gpu-0 [] gpu-1 [first]`)
	must(nil, api.ResourceSlices().Delete(t.Context(), "fabric", metav1.DeleteOptions{}))
	pushed.expect(t, "no devices of all nodes", `"":`, `"a": gpu-0 [] gpu-1 [first]`)

	before := pushed.count()
	slice.Labels = map[string]string{"changed": "true"}
	must(api.ResourceSlices().Update(t.Context(), slice, metav1.UpdateOptions{}))
	must(nil, api.ResourceSlices().Delete(t.Context(), slice.Name, metav1.DeleteOptions{}))
	pushed.expect(t, "no devices", `"":`, `"a":`)
	if n := pushed.count() - before; n != 1 {
		t.Errorf("%d pushes, want one", n)
	}
}
