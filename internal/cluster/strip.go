package cluster

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// marks are what sources read of pods, further is what else annotations of those that have not ended say of their jobs. indexes
// are the labels with the index of a pod: that of one that has succeeded is not free for another one.
var (
	marks   = sources.All().Marks()
	further = slices.Concat(sources.TopologyAnnotations(), sources.UnfollowedAnnotations())
	indexes = sources.IndexLabels()
)

// StripPod returns what the state and kube-scheduler's plugins read of a pod, and nothing else: a cluster has many. A
// finished pod keeps name, UID, group, role, index, owner and phase, that it was deleted before, and when it ended. The pod
// itself is not changed. It is for the transform of an informer and safe for concurrent use.
func StripPod(pod *corev1.Pod) *corev1.Pod {
	if terminal(pod) {
		return stripFinished(pod)
	}
	meta := stripMeta(&pod.ObjectMeta)
	meta.Generation = pod.Generation
	meta.DeletionGracePeriodSeconds = pod.DeletionGracePeriodSeconds
	meta.Labels = pod.Labels
	meta.Annotations = keepAnnotations(pod.Annotations)
	if pod.Spec.NodeName == "" {
		meta.Annotations = truncateAnnotations(pod.Annotations)
	}
	spec := &pod.Spec
	return &corev1.Pod{
		ObjectMeta: meta,
		Spec: corev1.PodSpec{
			NodeName: spec.NodeName, SchedulerName: spec.SchedulerName,
			SchedulingGates: spec.SchedulingGates, SchedulingGroup: spec.SchedulingGroup,
			Priority: spec.Priority, PriorityClassName: spec.PriorityClassName, PreemptionPolicy: spec.PreemptionPolicy,
			NodeSelector: spec.NodeSelector, Affinity: spec.Affinity, Tolerations: spec.Tolerations,
			TopologySpreadConstraints: spec.TopologySpreadConstraints,
			OS:                        spec.OS, RuntimeClassName: spec.RuntimeClassName,
			HostNetwork: spec.HostNetwork, HostUsers: spec.HostUsers,
			ActiveDeadlineSeconds: spec.ActiveDeadlineSeconds,
			RestartPolicy:         spec.RestartPolicy, TerminationGracePeriodSeconds: spec.TerminationGracePeriodSeconds,
			Overhead: spec.Overhead, Resources: wholeUnits(spec.Resources), ResourceClaims: spec.ResourceClaims,
			Containers: stripContainers(spec.Containers), InitContainers: stripContainers(spec.InitContainers),
			Volumes: stripVolumes(spec.Volumes),
		},
		Status: stripStatus(&pod.Status, nominatedNode(pod)),
	}
}

// StripNode returns a node without its managed fields. The node itself is not changed.
func StripNode(node *corev1.Node) *corev1.Node {
	stripped := *node
	stripped.ManagedFields = nil
	return &stripped
}

// stripFinished keeps so little of a pod that it is small whatever users write: no quota of pods counts those that have ended.
// What is dropped of the texts could not be read as what it should be.
func stripFinished(pod *corev1.Pod) *corev1.Pod {
	meta := stripMeta(&pod.ObjectMeta)
	meta.OwnerReferences = sources.ShortController(&pod.ObjectMeta)
	for _, key := range slices.Concat(marks.Labels, indexes) {
		if value, ok := pod.Labels[key]; ok {
			metav1.SetMetaDataLabel(&meta, key, value)
		}
	}
	for _, key := range append(slices.Clip(marks.Annotations), model.LabelIndex) {
		if value, ok := pod.Annotations[key]; ok && len(value) <= validation.DNS1123SubdomainMaxLength {
			metav1.SetMetaDataAnnotation(&meta, key, value)
		}
	}
	if minimum, ok := pod.Annotations[v1alpha1.AnnotationMinMember]; ok {
		membership := sources.All().Of(pod)
		if implicit := membership.Implicit(); implicit != nil && implicit.Job.Source == model.SourceImplicit && implicit.MinMember > 0 && len(minimum) > validation.LabelValueMaxLength {
			minimum = strconv.Itoa(int(implicit.MinMember)) // of a number with very many zeros in front
		}
		metav1.SetMetaDataAnnotation(&meta, v1alpha1.AnnotationMinMember, model.Brief(minimum, validation.LabelValueMaxLength))
	}
	stripped := &corev1.Pod{
		ObjectMeta: meta,
		Spec:       corev1.PodSpec{SchedulerName: model.Brief(pod.Spec.SchedulerName, maxName), SchedulingGroup: pod.Spec.SchedulingGroup},
		Status:     corev1.PodStatus{Phase: pod.Status.Phase},
	}
	if isDeletedAlive(pod) {
		stripped.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: disruption(pod)}}
	}
	sources.KeepEnd(stripped, pod)
	return stripped
}

// disruption returns why a pod ends, as its condition says, in one word of those that the API server and schedulers write.
func disruption(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget && len(condition.Reason) <= validation.LabelValueMaxLength {
			return condition.Reason
		}
	}
	return ""
}

func stripMeta(meta *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID, ResourceVersion: meta.ResourceVersion,
		CreationTimestamp: meta.CreationTimestamp, DeletionTimestamp: meta.DeletionTimestamp,
		OwnerReferences: meta.OwnerReferences,
	}
}

func keepAnnotations(annotations map[string]string) map[string]string {
	var kept map[string]string
	for key, value := range annotations {
		if isOwnAnnotation(key) || slices.Contains(marks.Annotations, key) || slices.Contains(further, key) {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}

// truncateAnnotations keeps what an extender may read of a pod that waits: all but the copy of the manifest that kubectl
// leaves.
func truncateAnnotations(annotations map[string]string) map[string]string {
	if _, there := annotations[corev1.LastAppliedConfigAnnotation]; !there {
		return annotations
	}
	kept := maps.Clone(annotations)
	delete(kept, corev1.LastAppliedConfigAnnotation)
	return kept
}

// stripContainers keeps what a container needs of a node. Rules for restarts and mount options are needs, too: not every
// kubelet can serve them.
func stripContainers(containers []corev1.Container) []corev1.Container {
	if len(containers) == 0 {
		return nil
	}
	stripped := make([]corev1.Container, len(containers))
	for i := range containers {
		c := &containers[i]
		stripped[i] = corev1.Container{
			Name: c.Name, Image: c.Image, Ports: c.Ports, Resources: c.Resources, ResizePolicy: c.ResizePolicy,
			RestartPolicy: c.RestartPolicy, RestartPolicyRules: c.RestartPolicyRules,
		}
		for j := range c.VolumeMounts {
			if len(c.VolumeMounts[j].BindMountOptions) > 0 {
				stripped[i].VolumeMounts = append(stripped[i].VolumeMounts, c.VolumeMounts[j])
			}
		}
	}
	return stripped
}

// stripVolumes drops the volumes that any node can make by itself.
func stripVolumes(volumes []corev1.Volume) []corev1.Volume {
	var kept []corev1.Volume
	for i := range volumes {
		s := &volumes[i].VolumeSource
		if s.ConfigMap == nil && s.Secret == nil && s.Projected == nil && s.DownwardAPI == nil && s.EmptyDir == nil &&
			s.HostPath == nil {
			kept = append(kept, volumes[i])
		}
	}
	return kept
}

func stripStatus(status *corev1.PodStatus, nominated string) corev1.PodStatus {
	stripped := corev1.PodStatus{
		Phase: status.Phase, StartTime: status.StartTime, NominatedNodeName: nominated,
		Resize: status.Resize, Resources: wholeUnits(status.Resources), AllocatedResources: plainList(status.AllocatedResources),
		ResourceClaimStatuses:                status.ResourceClaimStatuses,
		ExtendedResourceClaimStatus:          status.ExtendedResourceClaimStatus,
		NodeAllocatableResourceClaimStatuses: status.NodeAllocatableResourceClaimStatuses,
		ContainerStatuses:                    stripContainerStatuses(status.ContainerStatuses),
		InitContainerStatuses:                stripInitStatuses(status),
	}
	if model.IsReady(status) {
		stripped.Reason = model.ReasonReady
	}
	for i := range status.Conditions {
		switch status.Conditions[i].Type {
		case corev1.PodScheduled, corev1.DisruptionTarget, corev1.PodResizePending:
			stripped.Conditions = append(stripped.Conditions, status.Conditions[i])
		}
	}
	return stripped
}

// stripInitStatuses keeps of init containers what is kept of others, and of a pod that does not run yet which of them have
// started: the end of the pod ends their work.
func stripInitStatuses(status *corev1.PodStatus) []corev1.ContainerStatus {
	kept := stripContainerStatuses(status.InitContainerStatuses)
	if status.Phase != corev1.PodPending {
		return kept
	}
	for i := range status.InitContainerStatuses {
		one := &status.InitContainerStatuses[i]
		if !mayHaveSideEffects(one) {
			continue
		}
		same := func(other corev1.ContainerStatus) bool { return other.Name == one.Name }
		at := slices.IndexFunc(kept, same)
		if at < 0 {
			kept, at = append(kept, corev1.ContainerStatus{Name: one.Name}), len(kept)
		}
		started := true
		kept[at].Started = &started
	}
	return kept
}

// stripContainerStatuses keeps what running containers were granted, which counts while a resize is under way.
func stripContainerStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for i := range statuses {
		if s := &statuses[i]; s.Resources != nil || s.AllocatedResources != nil {
			kept = append(kept, corev1.ContainerStatus{
				Name: s.Name, Resources: s.Resources, AllocatedResources: s.AllocatedResources,
			})
		}
	}
	return kept
}

// wholeUnits writes the resources of a pod as a whole in whole units. kube-scheduler adds the overhead to them in place, which
// would change an amount such as 1.5Gi, whose number is kept behind a pointer, with every look at the pod.
func wholeUnits(resources *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if resources == nil {
		return nil
	}
	stripped := *resources
	stripped.Requests = plainList(resources.Requests)
	return &stripped
}

func plainList(list corev1.ResourceList) corev1.ResourceList {
	if list == nil {
		return nil
	}
	stripped := make(corev1.ResourceList, len(list))
	for name, quantity := range list {
		stripped[name] = quantity
		if quantity.CmpInt64(quantity.Value()) == 0 {
			stripped[name] = *resource.NewQuantity(quantity.Value(), quantity.Format)
		}
	}
	return stripped
}
