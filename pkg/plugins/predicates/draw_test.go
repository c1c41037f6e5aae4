package predicates_test

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// random draws random objects; the same seed draws the same ones.
type random struct{ *rand.Rand }

// oneIn is true once in n times.
func (d random) oneIn(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d random, choices ...T) T { return choices[d.IntN(len(choices))] }

// maxNodes is how many nodes there are at most; everything that names one names these.
const maxNodes = 8

func nodeName(i int) string { return fmt.Sprint("n", i) }

func (d random) nodeName() string { return nodeName(d.IntN(maxNodes)) }

func (d random) zone() string { return fmt.Sprint("z", d.IntN(3)) }

func (d random) app() string { return pick(d, "x", "y", "z") }

// topology draws a key of domains: each node, three zones, racks that some nodes lack.
func (d random) topology() string {
	return pick(d, corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyZone, "rack")
}

const gpu corev1.ResourceName = "nvidia.com/gpu"

var declared = []string{"RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport", "VolumeBindMountOptions"}

// node draws a node; most are feasible for most pods.
func (d random) node(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{
		corev1.LabelHostname: name, corev1.LabelTopologyZone: d.zone(), "disk": pick(d, "ssd", "hdd"),
		"cores": pick(d, "8", "16", "32", "many"),
	}}}
	if d.oneIn(10) {
		delete(n.Labels, corev1.LabelTopologyZone)
	}
	if !d.oneIn(3) {
		n.Labels["rack"] = pick(d, "r0", "r1", "r2", "r3")
	}
	for _, taint := range []corev1.Taint{
		{Key: "gpu", Value: pick(d, "0", "1"), Effect: corev1.TaintEffectNoSchedule},
		{Key: "level", Value: pick(d, "1", "5", "9"), Effect: corev1.TaintEffectNoExecute},
		{Key: "soft", Value: "1", Effect: corev1.TaintEffectPreferNoSchedule},
		{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule},
	} {
		if d.oneIn(24) {
			n.Spec.Taints = append(n.Spec.Taints, taint)
		}
	}
	if n.Spec.Unschedulable = d.oneIn(14); n.Spec.Unschedulable && d.oneIn(2) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	for _, feature := range declared {
		if d.oneIn(2) {
			n.Status.DeclaredFeatures = append(n.Status.DeclaredFeatures, feature)
		}
	}
	if d.oneIn(3) {
		n.Status.Images = []corev1.ContainerImage{{Names: []string{"image"}, SizeBytes: d.Int64N(1 << 30)}}
	}
	if !d.oneIn(30) {
		n.Status.Allocatable = d.allocatable()
	}
	return n
}

func (d random) allocatable() corev1.ResourceList {
	return amounts(
		"cpu", pick(d, "4", "8", "16", "1500m"), "memory", pick(d, "4Gi", "8Gi", "16Gi"),
		"pods", pick(d, "3", "5", "110", "110", "110"), "ephemeral-storage", pick(d, "10Gi", "10Gi", "1Gi", ""),
		string(gpu), pick(d, "4", "2", "0", ""), "hugepages-2Mi", pick(d, "64Mi", "8Mi", ""),
		"example.com/fpga", pick(d, "1", "2", ""),
		string(classResource), pick(d, "2", "0", "", "", ""), string(otherResource), pick(d, "1", "", "", "", ""))
}

// amounts reads names and amounts in turn; an empty amount is none.
func amounts(words ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(words); i += 2 {
		if words[i+1] != "" {
			list[corev1.ResourceName(words[i])] = resource.MustParse(words[i+1])
		}
	}
	return list
}

// requests draws a container's requests: small, and now and then a rare resource.
func (d random) requests() corev1.ResourceList {
	return amounts("cpu", pick(d, "", "100m", "500m", "1"), "memory", pick(d, "", "128Mi", "1Gi"))
}
