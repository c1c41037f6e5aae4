package predicates_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	fwk "k8s.io/kube-scheduler/framework"
	kube "k8s.io/kubernetes/pkg/scheduler/framework"
)

// The probe is a device of its own, on a node that does not exist, whose rule changes after all others: rules are processed
// in order, so that once the probe's is known, all are.
const (
	probe       = "probe"
	probeDriver = "probe.example.com"
)

// probed are the probe's device, its class and a claim to it.
func probed() []runtime.Object {
	node := probe
	return []runtime.Object{
		&resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: probe}, Spec: resourceapi.DeviceClassSpec{
			Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
				Expression: `device.driver == "` + probeDriver + `"`,
			}}},
		}},
		&resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: probe}, Spec: resourceapi.ResourceSliceSpec{
			Driver: probeDriver, NodeName: &node, Devices: []resourceapi.Device{{Name: probe}},
			Pool: resourceapi.ResourcePool{Name: probe, Generation: 1, ResourceSliceCount: 1},
		}},
		deviceClaim(probe, resourceapi.DeviceRequest{Name: "r", Exactly: exact(probe, 1, false)}),
	}
}

// rule taints some devices, or all of them.
func (d random) rule(name string) *resourceapi.DeviceTaintRule {
	driver, pool, device := devicesDriver, d.nodeName(), fmt.Sprint("d", d.IntN(3))
	selector := &resourceapi.DeviceTaintSelector{Driver: &driver}
	switch d.IntN(6) {
	case 0:
	case 1:
		selector.Device = &device
	default:
		selector.Pool = &pool
	}
	return &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.DeviceTaintRuleSpec{
		DeviceSelector: selector,
		Taint: resourceapi.DeviceTaint{
			Key: pick(d, "broken", "broken", "slow"), TimeAdded: &metav1.Time{Time: start},
			Effect: pick(d, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute,
				resourceapi.DeviceTaintEffectNone),
		},
	}}
}

// changeRules adds, deletes and changes rules, the probe's last, and waits until both sides have them.
func (c *contest) changeRules() {
	for i := range 2 {
		if name := fmt.Sprint("rule-", i); c.oneIn(2) {
			c.putRule(name, c.rule(name))
		} else if c.oneIn(2) {
			c.putRule(name, nil)
		}
	}
	pool, free := probe, c.rules[probe] != nil
	var last *resourceapi.DeviceTaintRule
	if !free {
		last = c.rule(probe)
		last.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Pool: &pool}
		last.Spec.Taint.Effect = resourceapi.DeviceTaintEffectNoSchedule
	}
	c.putRule(probe, last)
	seen := func(context.Context) (bool, error) { return c.weProbe() == free && c.theyProbe() == free, nil }
	if err := wait.PollUntilContextCancel(c.t.Context(), time.Millisecond, true, seen); err != nil {
		c.t.Fatal(err)
	}
	c.tellDevices()
	c.tell(otherEvent)
}

// putRule writes a rule, or deletes it when it is nil.
func (c *contest) putRule(name string, rule *resourceapi.DeviceTaintRule) {
	rules, ctx := c.client.ResourceV1().DeviceTaintRules(), context.Background()
	var err error
	switch known := c.rules[name] != nil; {
	case rule == nil && !known:
	case rule == nil:
		err = rules.Delete(ctx, name, metav1.DeleteOptions{})
	case known:
		_, err = rules.Update(ctx, rule, metav1.UpdateOptions{})
	default:
		_, err = rules.Create(ctx, rule, metav1.CreateOptions{})
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.rules[name] = rule
}

// weProbe and theyProbe report whether the probe's device is available to the plugins and to the reference.
func (c *contest) weProbe() bool {
	plugin := c.kube.Plugin("DynamicResources")
	state, pod, node := c.kube.NewState(), newPod(probe, claiming(probe)), kube.NewNodeInfo()
	node.SetNode(newNode(probe))
	_, status := plugin.(fwk.PreFilterPlugin).PreFilter(c.kube.Context(), state, pod, nil)
	return status.IsSuccess() && plugin.(fwk.FilterPlugin).Filter(c.kube.Context(), state, pod, node).IsSuccess()
}

func (c *contest) theyProbe() bool {
	slices, err := c.reference.devices.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, slice := range slices {
		if slice.Name == probe {
			return len(slice.Spec.Devices[0].Taints) == 0
		}
	}
	return false
}

func claiming(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: &name}}
	}
}
