package predicates

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// filter is one of kube-scheduler's filters, or its replacement.
type filter struct {
	name  string
	scope framework.FilterScope
	// own replaces kube-scheduler's filter, nil when that is called itself: a check, or a refusal when no node can pass, or
	// neither when it does not apply.
	own func(*plugin, *model.Task) (framework.NodeFilterFunc, *model.Refusal)
	// appliesTo reports, cheaply, whether the filter could apply to the task, which keeps plain pods cheap.
	//
	// Invariant: PreFilter would skip every task for which it is false.
	appliesTo func(task *model.Task) bool
	// cannotReject reports, cheaply, whether the filter passes the node for the task; nil when there is no cheap check.
	cannotReject func(p *plugin, task *model.Task, node *model.Node) bool
	// explain returns a more detailed message for a node that the filter has refused; nil, or an empty text, for the filter's
	// own.
	explain func(pod *corev1.Pod, node *corev1.Node) string
	// searches reports that the filter may take long on a node.
	searches bool
	pre      fwk.PreFilterPlugin
	check    fwk.FilterPlugin
}

// wantedFilters are all filters of kube-scheduler but resource fit, in its order, which decides whose message the user reads
// when several refuse.
func wantedFilters() []filter {
	return []filter{
		{name: "NodeUnschedulable", scope: framework.NodeOnly, appliesTo: appliesToAll, cannotReject: isOpen},
		{name: "NodeName", scope: framework.NodeOnly, appliesTo: onPod(namesNode)},
		{name: "TaintToleration", scope: framework.NodeOnly, appliesTo: appliesToAll, cannotReject: isUntainted, explain: taintMessage},
		{name: "NodeAffinity", scope: framework.NodeOnly, appliesTo: onPod(selectsNodes)},
		{name: "NodeDeclaredFeatures", scope: framework.NodeOnly, appliesTo: appliesToAll},

		{name: "NodePorts", scope: framework.NodeWithPods, appliesTo: onPod(hasHostPorts)},

		// These depend on API objects that are not part of a shape, and a claim that only one pod may use can be in use on
		// any node.
		{name: "NodeVolumeLimits", scope: framework.ClusterWide, appliesTo: onPod(hasDisks)},
		{name: "VolumeRestrictions", scope: framework.ClusterWide, appliesTo: onPod(hasDisks)},
		{name: "VolumeBinding", scope: framework.ClusterWide, appliesTo: onPod(hasVolumeClaims)},
		{name: "VolumeZone", scope: framework.ClusterWide, appliesTo: onPod(hasVolumeClaims)},
		{name: "PodTopologySpread", scope: framework.ClusterWide, own: (*plugin).spread},
		{name: "InterPodAffinity", scope: framework.ClusterWide, own: (*plugin).podTopologyFilter},
		{name: "DeviceClasses", scope: framework.ClusterWide, own: (*plugin).rejectWithoutDeviceClass},
		{name: "OldKubelets", scope: framework.ClusterWide, own: (*plugin).rejectOldKubelets},
		{name: "DeviceSelectors", scope: framework.ClusterWide, own: (*plugin).rejectUnselected},
		{name: "PromisedClaims", scope: framework.ClusterWide, own: (*plugin).rejectPromisedClaims},
		{name: "ReservedDevices", scope: framework.ClusterWide, own: (*plugin).rejectReservedDevices},
		{name: "NominatedDevices", scope: framework.ClusterWide, own: (*plugin).rejectBesideNominated},
		{name: "DynamicResources", scope: framework.ClusterWide, appliesTo: wantsDevices, cannotReject: (*plugin).countsDevices, searches: true},
	}
}

func appliesToAll(*model.Task) bool { return true }

func onPod(concerns func(*corev1.Pod) bool) func(*model.Task) bool {
	return func(task *model.Task) bool { return concerns(task.Pod) }
}

// wantsDevices reports whether the task has resource claims, or will have one for extended resources.
func wantsDevices(task *model.Task) bool {
	return task.MayUseDeviceClass || hasResourceClaims(task.Pod)
}

func namesNode(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" }

func selectsNodes(pod *corev1.Pod) bool {
	return len(pod.Spec.NodeSelector) > 0 || pod.Spec.Affinity != nil && pod.Spec.Affinity.NodeAffinity != nil
}

func isOpen(_ *plugin, _ *model.Task, node *model.Node) bool { return !node.Object.Spec.Unschedulable }

func isUntainted(_ *plugin, _ *model.Task, node *model.Node) bool {
	return len(node.Object.Spec.Taints) == 0
}

// taintMessage names the first taint that the pod does not tolerate.
func taintMessage(pod *corev1.Pod, node *corev1.Node) string {
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		tolerated := func(t corev1.Toleration) bool { return t.ToleratesTaint(klog.Logger{}, taint, true) }
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(pod.Spec.Tolerations, tolerated) {
			return "had untolerated taint " + taint.ToString()
		}
	}
	return ""
}

func hasHostPorts(pod *corev1.Pod) bool {
	return anyHostPort(pod.Spec.Containers) || anyHostPort(pod.Spec.InitContainers)
}

func anyHostPort(containers []corev1.Container) bool {
	for i := range containers {
		for j := range containers[i].Ports {
			if containers[i].Ports[j].HostPort > 0 {
				return true
			}
		}
	}
	return false
}

func hasVolumeClaims(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if volume := &pod.Spec.Volumes[i]; volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil {
			return true
		}
	}
	return false
}

// hasDisks reports whether the pod has a volume of any kind but those created on its node, which nearly every pod has.
func hasDisks(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		switch volume := &pod.Spec.Volumes[i]; {
		case volume.Projected != nil, volume.ConfigMap != nil, volume.Secret != nil, volume.DownwardAPI != nil,
			volume.EmptyDir != nil, volume.HostPath != nil:
		default:
			return true
		}
	}
	return false
}

func hasResourceClaims(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0
}
