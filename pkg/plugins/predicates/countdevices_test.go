package predicates_test

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/kube"
)

// This file tells the cluster state of devices and claims, and says where the numbers of devices differ from what
// kube-scheduler's allocator says, by intent. Everywhere else they must agree.

// tellDevices tells the devices of all nodes, with the taints that the reference sees, when they may have changed.
func (c *contest) tellDevices() {
	tracked, err := c.reference.devices.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		c.t.Fatal(err)
	}
	all, err := c.client.ResourceV1().DeviceClasses().List(context.Background(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	var classes []*resourceapi.DeviceClass
	for i := range all.Items {
		classes = append(classes, &all.Items[i])
	}
	now := kube.DevicesOf(tracked, classes)
	for node := range c.devicesOf {
		if now[node] == nil {
			c.tell(&cluster.DevicesSeen{Devices: &kube.NodeDevices{Node: node}})
		}
	}
	for _, devices := range now {
		c.tell(&cluster.DevicesSeen{Devices: devices})
	}
	c.devicesOf = now
}

// tellClaims tells the claims, which never change.
func (c *contest) tellClaims() {
	all, err := c.client.ResourceV1().ResourceClaims(metav1.NamespaceAll).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	c.claims = map[string]*resourceapi.ResourceClaim{}
	for i := range all.Items {
		claim := all.Items[i].DeepCopy()
		claim.ResourceVersion = c.version()
		c.claims[claim.Namespace+"/"+claim.Name] = claim
		c.tell(&cluster.ClaimSeen{Claim: claim})
	}
}

// withoutDevices takes from a pod that is placed what it has of devices, except what its node reports: the API server has no
// claim that would say which devices these are, so that the allocator would not know of them.
func (c *contest) withoutDevices(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.ResourceClaims, pod.Status.ResourceClaimStatuses = nil, nil
	offers := c.nodes[pod.Spec.NodeName].Status.Allocatable
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for name := range containers[i].Resources.Requests {
				if amount := offers[name]; isOfClass(name) && amount.IsZero() {
					delete(containers[i].Resources.Requests, name)
				}
			}
		}
	}
	return pod
}

// classNames are the resources that stand for devices of each class.
func classNames() map[string][]corev1.ResourceName {
	return map[string][]corev1.ResourceName{
		"gpu": {classResource, implicitResource("gpu")}, "other": {otherResource, implicitResource("other")},
	}
}

func isOfClass(name corev1.ResourceName) bool {
	for _, names := range classNames() {
		if slices.Contains(names, name) {
			return true
		}
	}
	return false
}

// requestsOf returns which resources of classes the pod requests.
func requestsOf(pod *corev1.Pod) (names []corev1.ResourceName) {
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for name, amount := range container.Resources.Requests {
			if isOfClass(name) && !amount.IsZero() {
				names = append(names, name)
			}
		}
	}
	return names
}

// claimed returns the names of the claims of a pod.
func claimed(pod *corev1.Pod) (names []string) {
	for _, entry := range pod.Spec.ResourceClaims {
		if entry.ResourceClaimName != nil {
			names = append(names, pod.Namespace+"/"+*entry.ResourceClaimName)
		}
	}
	for _, status := range pod.Status.ResourceClaimStatuses {
		if status.ResourceClaimName != nil {
			names = append(names, pod.Namespace+"/"+*status.ResourceClaimName)
		}
	}
	return names
}

// reportsOther reports whether the node reports, as a device plugin does, the resource of a class of which the pod asks for
// devices of ResourceSlices: by a claim, or by the other name. Both are counted as what the node reports, which a node should not
// have together. A request for devices of the inner class counts in the class around it, too.
func (c *contest) reportsOther(pod *corev1.Pod, node *corev1.Node) bool {
	asks := requestsOf(pod)
	inner := slices.ContainsFunc(classNames()["other"], func(name corev1.ResourceName) bool { return slices.Contains(asks, name) })
	for class, names := range classNames() {
		byClaim := slices.ContainsFunc(claimed(pod), func(name string) bool {
			return c.claims[name] != nil && strings.Contains(c.claims[name].Spec.String(), "DeviceClassName:"+class+",")
		})
		for i, name := range names {
			if amount := node.Status.Allocatable[name]; !amount.IsZero() && (byClaim || slices.Contains(asks, names[1-i]) || inner && class == "gpu") {
				return true
			}
		}
	}
	return false
}

// heldUnseen reports whether a pod that was placed on the node when it reported a resource of a class holds it now that the node
// does not: it is counted among the devices of the class, of which the allocator knows nothing.
func (c *contest) heldUnseen(node *corev1.Node) bool {
	for _, pod := range c.placed {
		for _, name := range requestsOf(pod) {
			if amount := node.Status.Allocatable[name]; pod.Spec.NodeName == node.Name && amount.IsZero() {
				return true
			}
		}
	}
	return false
}

// reservedElsewise reports whether a pod that a gang has placed on the node before holds devices there that its request does not
// say: those of a claim that others name, too, or devices that may be of an inner class. The allocator decides when devices are
// reserved.
func (c *contest) reservedElsewise(node *corev1.Node, placed []*corev1.Pod) bool {
	return slices.ContainsFunc(placed, func(pod *corev1.Pod) bool {
		return c.placed[pod.Name] == nil && pod.Spec.NodeName == node.Name && len(claimed(pod))+len(requestsOf(pod)) > 0
	})
}

// asksForInner reports whether the pod asks for devices of the inner class by a resource, and for others of the class around it:
// what is requested by a resource is counted in its own class only.
func asksForInner(pod *corev1.Pod) bool {
	asks := requestsOf(pod)
	return len(asks)+len(claimed(pod)) > 1 && slices.ContainsFunc(asks, func(name corev1.ResourceName) bool {
		return slices.Contains(classNames()["other"], name)
	})
}

// differByIntent changes kube-scheduler's verdict where ours may differ. In the reason, where the number of devices says first
// that there are too few, or selectors that there are none; in the answer, where one side counts devices that the other one does
// not know.
func (c *contest) differByIntent(pod *corev1.Pod, node *corev1.Node, placed []*corev1.Pod, v *verdict, ours bool) {
	if len(claimed(pod))+len(requestsOf(pod)) == 0 {
		return
	}
	var lacks []string
	for _, names := range classNames() {
		for _, name := range names {
			lacks = append(lacks, "lacks "+string(name))
		}
	}
	lacks = append(lacks, "have no device of DeviceClass gpu that satisfies the selectors of the claim")
	byDevices := v.by["DynamicResources"] != nil
	otherwise := c.heldUnseen(node) || c.reportsOther(pod, node) || slices.ContainsFunc(placed, func(other *corev1.Pod) bool {
		return other.Spec.NodeName == node.Name && c.reportsOther(other, node)
	})
	switch {
	case byDevices && ours && len(v.by) == 1 && (c.reservedElsewise(node, placed) || asksForInner(pod)):
		v.by, c.score.tolerated = nil, c.score.tolerated+1
	case len(v.by) == 0 && !ours && otherwise:
		v.by, c.score.tolerated = map[string][]string{"NodeResourcesFit": lacks}, c.score.tolerated+1
	case byDevices:
		v.by["DynamicResources"] = slices.Concat(v.by["DynamicResources"], lacks)
	case len(v.by) > 0 && otherwise:
		v.by["NodeResourcesFit"] = slices.Concat(v.by["NodeResourcesFit"], lacks)
	case v.by["NodeResourcesFit"] != nil: // by one of the two names of the class
		v.by["NodeResourcesFit"] = slices.Concat(v.by["NodeResourcesFit"], lacks)
	}
}
