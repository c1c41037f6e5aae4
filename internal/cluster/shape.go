package cluster

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/tutti-sched/tutti/pkg/model"
)

// shapeOf writes down everything about a task that a static or local question about a node reads: whether the node, with the
// pods on it, may run it, and how much it is liked. Of the task it reads the request and the pod. Claims are in it because the
// zone of their volumes is asked for; labels, name and namespace are not, except those of the claims.
func shapeOf(dimensions *model.ResourceIndex, task *model.Task) model.Shape {
	var b strings.Builder
	pod := task.Pod
	b.WriteString(requestText(dimensions, task))
	supposed := nonZeroDefaultsOf(pod)
	writePart(&b, "supposed", supposed, supposed != model.NonZeroDefaults{})
	policies, _ := task.Asks.Policies()
	writePart(&b, "isolated", policies, task.Asks.Wants())
	spec := &pod.Spec
	writePart(&b, "node", spec.NodeName, spec.NodeName != "")
	writePart(&b, "selector", spec.NodeSelector, len(spec.NodeSelector) > 0)
	if spec.Affinity != nil {
		writePart(&b, "affinity", spec.Affinity.NodeAffinity, spec.Affinity.NodeAffinity != nil)
	}
	writePart(&b, "tolerations", spec.Tolerations, len(spec.Tolerations) > 0)
	writePart(&b, "images", images(spec), true)
	writePart(&b, "os", spec.OS, spec.OS != nil)
	ports := hostPorts(pod)
	writePart(&b, "ports", ports, len(ports) > 0)
	claims := claimNames(dimensions, task)
	writePart(&b, "claims", claims, len(claims) > 0)
	features := requiredFeatures(spec)
	writePart(&b, "features", features, len(features) > 0)
	text := b.String()
	if len(text) > maxShape {
		text = fmt.Sprintf("sha256 %x", sha256.Sum256([]byte(text)))
	}
	return unique.Make(text)
}

// maxShape is how long the text of a shape is kept, which repeats what its pod has: of a longer one its hash stands for it.
const maxShape = 2 << 10

// requestText lists what a task requests by name, so that it does not matter which resource was met first, or whether a node has
// offered it.
func requestText(dimensions *model.ResourceIndex, task *model.Task) string {
	lines := make([]string, 0, len(task.Request)+len(task.Unoffered))
	for i, amount := range task.Request {
		if amount != 0 && i != model.Unoffered {
			lines = append(lines, fmt.Sprintf("%s=%d", dimensions.Name(i), amount))
		}
	}
	for name, amount := range task.Unoffered {
		lines = append(lines, fmt.Sprintf("%s=%d", name, amount.Value()))
	}
	slices.Sort(lines)
	return strings.Join(lines, " ")
}

func writePart(b *strings.Builder, name string, value any, there bool) {
	if !there {
		return
	}
	text, err := json.Marshal(value)
	if err != nil {
		text = fmt.Appendf(nil, "%q", fmt.Sprint(value)) // no API type fails to marshal; a shape must not be lost if one does
	}
	b.WriteString(" ")
	b.WriteString(name)
	b.WriteString("=")
	b.Write(text)
}

func images(spec *corev1.PodSpec) []string {
	names := make([]string, 0, len(spec.Containers)+len(spec.InitContainers))
	for i := range spec.Containers {
		names = append(names, spec.Containers[i].Image)
	}
	for i := range spec.InitContainers {
		names = append(names, spec.InitContainers[i].Image)
	}
	for i := range spec.Volumes {
		if image := spec.Volumes[i].Image; image != nil {
			names = append(names, image.Reference)
		}
	}
	slices.Sort(names)
	return names
}

// hostPorts lists the ports of the node that the pod takes: those of containers that run as long as it does, and none of
// an init container that ends, as kube-scheduler counts them.
func hostPorts(pod *corev1.Pod) []string {
	taken := util.GetHostPorts(pod)
	ports := make([]string, len(taken))
	for i, port := range taken {
		ports[i] = fmt.Sprintf("%s/%s/%d", port.HostIP, port.Protocol, port.HostPort)
	}
	slices.Sort(ports)
	return ports
}

// volumeClaims names the persistent volume claims of a pod.
func volumeClaims(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		switch {
		case volume.PersistentVolumeClaim != nil:
			names = append(names, pod.Namespace+"/"+volume.PersistentVolumeClaim.ClaimName)
		case volume.Ephemeral != nil:
			names = append(names, pod.Namespace+"/"+pod.Name+"-"+volume.Name)
		}
	}
	return names
}

// claimNames names the persistent volume claims of a pod, and the pod itself when the request does not say all that it asks of
// devices, so that no other pod asks in the same way. Else the part of the request that is by claims is named, and the selectors.
func claimNames(dimensions *model.ResourceIndex, task *model.Task) []string {
	names := volumeClaims(task.Pod)
	if task.SearchesDevices() {
		names = append(names, "pod "+string(task.Pod.UID))
	} else if task.Devices != nil {
		for i, amount := range task.Devices.Claimed {
			if amount != 0 {
				names = append(names, fmt.Sprintf("%s=%d", dimensions.Name(i), amount))
			}
		}
		for _, selectors := range task.Devices.Selectors {
			names = append(names, selectors.String())
		}
	}
	slices.Sort(names)
	return names
}

// anyVersion is older than every kubelet, so that no feature is left out because all kubelets have it.
var anyVersion = version.MajorMinor(0, 0)

// requiredFeatures names what the pod needs a node to declare.
func requiredFeatures(spec *corev1.PodSpec) []string {
	set, err := nodedeclaredfeatures.DefaultFramework.InferForPodScheduling(
		&nodedeclaredfeatures.PodInfo{Spec: spec}, anyVersion)
	if err != nil || set.IsEmpty() {
		return nil
	}
	names, err := nodedeclaredfeatures.DefaultFramework.Unmap(set)
	if err != nil {
		return nil
	}
	return names
}
