package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/component-helpers/storage/volume"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file bounds what is kept of one object that users of a namespace write, after what is not read was dropped: see
// strip.go. Of an object that is larger only its identity is kept, what it takes of a node, and a mark that says why. A pod
// with too many rules of placement keeps all but these, and has the same mark. It runs in the transforms of informers, on
// their goroutines.

const (
	// maxKept is the most that is kept of an object, in bytes as the API server sends them.
	maxKept = 64 << 10
	// maxMemory is the most memory that this may take: an empty element of a list is a few bytes when sent, and hundreds in memory.
	maxMemory = 4 * maxKept
	// surelySmall is up to what size as sent no object takes as much: a container, the largest element, is at least 8 bytes as sent
	// and 400 in memory.
	surelySmall = maxMemory / 64
	// maxNames is how many resources, host ports and volumes are kept of a pod that is too large.
	maxNames = 64
)

// annotationTooLarge marks what is kept of an object that is too large, and says how large it is. It is never written to the API
// server; a user who writes it refuses the object.
const annotationTooLarge = "internal.tutti.dev/too-large"

// tooLarge says how large an object is of which size bytes would be kept, and where; empty when that is within the limits.
func tooLarge(object metav1.Object, size int) string {
	if size <= surelySmall {
		return ""
	}
	value := reflect.ValueOf(object).Elem()
	if size <= maxKept && memoryBehind(value) <= maxMemory {
		return ""
	}
	field, most := "", 0
	for part, prefix := range map[string]string{"ObjectMeta": "metadata", "Spec": "spec", "Status": "status"} {
		whole := value.FieldByName(part)
		for i := range whole.NumField() {
			name, _, _ := strings.Cut(whole.Type().Field(i).Tag.Get("json"), ",")
			name = prefix + "." + name
			if memory := memoryBehind(whole.Field(i)); memory > most || memory == most && name < field {
				field, most = name, memory
			}
		}
	}
	return fmt.Sprintf("the scheduler would keep %d bytes of it, most of them for %s, which take %d of memory; at most %d, and %d of memory, are supported",
		size, field, most, maxKept, maxMemory)
}

// memoryBehind returns about how many bytes of memory a value refers to, beside its own.
func memoryBehind(v reflect.Value) (bytes int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Pointer:
		if !v.IsNil() {
			bytes = int(v.Type().Elem().Size()) + memoryBehind(v.Elem())
		}
	case reflect.Slice:
		bytes = v.Len() * int(v.Type().Elem().Size())
		for i := range v.Len() {
			bytes += memoryBehind(v.Index(i))
		}
	case reflect.Map:
		for entry := v.MapRange(); entry.Next(); {
			bytes += 2*int(v.Type().Key().Size()+v.Type().Elem().Size()) + memoryBehind(entry.Key()) + memoryBehind(entry.Value())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				bytes += memoryBehind(v.Field(i))
			}
		}
	}
	return bytes
}

// TooLarge says why only the identity of an object is kept; empty when all is kept that is read.
func TooLarge(object metav1.Object) string {
	return model.Brief(object.GetAnnotations()[annotationTooLarge], maxMark)
}

// maxMark is the longest text of a mark.
const maxMark = 512

// keptIdentity is the metadata of an object that is too large.
func keptIdentity(meta *metav1.ObjectMeta, why string) metav1.ObjectMeta {
	kept := stripMeta(meta)
	kept.Generation, kept.OwnerReferences = meta.Generation, sources.ShortController(meta)
	kept.Annotations = map[string]string{annotationTooLarge: why}
	return kept
}

// limitRules drops all rules of placement of a pod that has too many: of a pod that waits none is read any more, and one on a
// node goes on taking what it takes.
func limitRules(pod *corev1.Pod) {
	rules := placementRules(&pod.Spec)
	if rules <= maxRules {
		return
	}
	spec := &pod.Spec
	spec.NodeSelector, spec.Affinity, spec.Tolerations, spec.TopologySpreadConstraints = nil, nil, nil, nil
	pod.Annotations = maps.Clone(pod.Annotations)
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, annotationTooLarge, fmt.Sprintf(
		"it has %d rules of placement: selectors, affinity, spread constraints and tolerations; at most %d are supported", rules, maxRules))
}

// KeptPod returns what is kept of a pod: what StripPod leaves, or less when that is too large, or has too many rules. The pod
// itself is not changed.
func KeptPod(pod *corev1.Pod) *corev1.Pod {
	pod = StripPod(pod)
	why := tooLarge(pod, pod.Size())
	if why == "" {
		limitRules(pod)
		return pod
	}
	kept := identityOfPod(pod)
	own := keptIdentity(&pod.ObjectMeta, why)
	for key, value := range kept.Annotations {
		if len(value) <= maxKept/8 {
			own.Annotations[key] = value
		}
	}
	own.DeletionGracePeriodSeconds, own.Labels = pod.DeletionGracePeriodSeconds, kept.Labels
	kept.ObjectMeta = own
	if held, err := isolated.AssignedTo(pod); err == nil && held != nil {
		whole := *held
		whole.Containers = nil // of which there may be too many
		own.Annotations[isolated.AssignedAnnotation], _ = whole.Text()
	}
	spec := &pod.Spec
	kept.Spec.Priority, kept.Spec.PreemptionPolicy = spec.Priority, spec.PreemptionPolicy
	kept.Spec.PriorityClassName, kept.Spec.ActiveDeadlineSeconds = spec.PriorityClassName, spec.ActiveDeadlineSeconds
	kept.Spec.TerminationGracePeriodSeconds, kept.Spec.RestartPolicy = spec.TerminationGracePeriodSeconds, spec.RestartPolicy
	if len(spec.SchedulingGates) > 0 {
		kept.Spec.SchedulingGates = spec.SchedulingGates[:1]
	}
	kept.Spec.Containers = []corev1.Container{{Name: "all", Ports: firstHostPorts(spec),
		Resources: corev1.ResourceRequirements{Requests: firstResources(requestsOf(pod, requests))}}}
	kept.Spec.Volumes = slices.Clone(spec.Volumes[:min(len(spec.Volumes), maxNames)])
	kept.Status.StartTime = pod.Status.StartTime
	if shown := model.PodScheduled(pod); shown != nil {
		scheduled := *shown
		scheduled.Message = model.Brief(scheduled.Message, maxKept/8)
		kept.Status.Conditions = []corev1.PodCondition{scheduled}
	}
	return kept
}

// firstResources returns the resources that every node has, and of the others up to maxNames: those with the shortest names.
func firstResources(list corev1.ResourceList) corev1.ResourceList {
	kept := corev1.ResourceList{}
	names := slices.SortedFunc(maps.Keys(list), func(a, b corev1.ResourceName) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	for _, name := range names {
		if native := !strings.Contains(string(name), "/"); native && len(name) < maxNames || len(kept) < maxNames {
			kept[name] = list[name]
		}
	}
	return kept
}

// firstHostPorts returns the ports of the node that a pod takes, up to maxNames.
func firstHostPorts(spec *corev1.PodSpec) (ports []corev1.ContainerPort) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for _, port := range containers[i].Ports {
				if port.HostPort > 0 && len(ports) < maxNames {
					port.Name = ""
					ports = append(ports, port)
				}
			}
		}
	}
	return ports
}

// stripGroup returns what is read of a PodGroup. One that is too large keeps its minimum and that it has started. Texts of a
// status that is too large are dropped: the next write of the status brings them again. The group itself is not changed.
func stripGroup(group *v1alpha1.PodGroup) *v1alpha1.PodGroup {
	kept := &v1alpha1.PodGroup{ObjectMeta: stripMeta(&group.ObjectMeta), Spec: group.Spec, Status: group.Status}
	kept.Generation, kept.OwnerReferences = group.Generation, sources.ShortController(group)
	if memoryBehind(reflect.ValueOf(&group.Labels).Elem()) <= maxKept/8 { // by which kubectl tutti status selects
		kept.Labels = group.Labels
	}
	for _, mark := range []string{annotationTooLarge, annotationUndecodable} { // it was stripped, or decoded in parts, before
		if why := group.Annotations[mark]; why != "" {
			metav1.SetMetaDataAnnotation(&kept.ObjectMeta, mark, why)
		}
	}
	if size := memoryBehind(reflect.ValueOf(&kept.Status).Elem()); size > maxKept {
		kept.Status = essentialStatus(&group.Status)
	}
	if size := memoryBehind(reflect.ValueOf(&kept.Spec).Elem()); size > maxKept {
		kept.ObjectMeta = keptIdentity(&kept.ObjectMeta, tooLarge(kept, size))
		kept.Spec = v1alpha1.PodGroupSpec{MinMember: group.Spec.MinMember, PreemptionPolicy: group.Spec.PreemptionPolicy}
		if len(group.Spec.SchedulerName) <= validation.DNS1123SubdomainMaxLength {
			kept.Spec.SchedulerName = group.Spec.SchedulerName
		}
		if len(group.Spec.Queue) <= validation.DNS1123SubdomainMaxLength {
			kept.Spec.Queue = group.Spec.Queue
		}
	}
	sources.MarkRemoved(kept, group)
	return kept
}

// maxReservedNodes is how many nodes a reservation may have, as in the API.
const maxReservedNodes = 4096

// essentialStatus is a status without its texts.
func essentialStatus(status *v1alpha1.PodGroupStatus) v1alpha1.PodGroupStatus {
	kept := *status
	kept.Advice, kept.Conditions = nil, nil
	for _, c := range status.Conditions[:min(len(status.Conditions), maxNames)] {
		if len(c.Type)+len(c.Reason) < maxKept/maxNames {
			c.Message = ""
			kept.Conditions = append(kept.Conditions, c)
		}
	}
	if r := status.Reservation; r != nil && len(r.Nodes) > maxReservedNodes {
		kept.Reservation = nil
	}
	return kept
}

// maxDisrupted is of how many pods a budget may say that they are evicted and not gone yet: with more the API server evicts none
// (MaxDisruptedPodSize in kubernetes/pkg/registry/core/pod/storage/eviction.go).
const maxDisrupted = 2000

// stripBudget returns what is read of a disruption budget. One that is too large covers all pods of its namespace, and allows
// none to be evicted. The budget itself is not changed.
func stripBudget(budget *policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudget {
	kept := &policyv1.PodDisruptionBudget{ObjectMeta: stripMeta(&budget.ObjectMeta)}
	kept.Generation, kept.OwnerReferences, kept.Spec.Selector = budget.Generation, nil, budget.Spec.Selector
	kept.Spec.UnhealthyPodEvictionPolicy = budget.Spec.UnhealthyPodEvictionPolicy
	kept.Status.ObservedGeneration, kept.Status.DisruptionsAllowed = budget.Status.ObservedGeneration, budget.Status.DisruptionsAllowed
	kept.Status.CurrentHealthy, kept.Status.DesiredHealthy = budget.Status.CurrentHealthy, budget.Status.DesiredHealthy
	if len(budget.Status.DisruptedPods) > maxDisrupted {
		kept.Status.DisruptionsAllowed = 0
	}
	if tooLarge(kept, kept.Size()) != "" {
		kept.Spec = policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}}
		kept.Status = policyv1.PodDisruptionBudgetStatus{}
	}
	return kept
}

// stripNamespace returns what is read of a namespace. The namespace itself is not changed.
func stripNamespace(namespace *corev1.Namespace) *corev1.Namespace {
	kept := &corev1.Namespace{ObjectMeta: stripMeta(&namespace.ObjectMeta), Status: corev1.NamespaceStatus{Phase: namespace.Status.Phase}}
	kept.Labels, kept.OwnerReferences = namespace.Labels, nil
	return kept
}

// boundVolumeClaim returns a claim without its managed fields. The scheduler writes claims, so that all else is kept, or, of a
// claim that is too large, what is read of it where pods use it already.
func boundVolumeClaim(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	kept := *claim
	kept.ManagedFields = nil
	why := tooLarge(&kept, kept.Size())
	if why == "" {
		return &kept
	}
	kept.ObjectMeta = keptIdentity(&claim.ObjectMeta, why)
	if claim.Annotations[volume.AnnBindCompleted] != "" {
		kept.Annotations[volume.AnnBindCompleted] = "yes"
	}
	kept.Spec = corev1.PersistentVolumeClaimSpec{
		AccessModes: claim.Spec.AccessModes[:min(len(claim.Spec.AccessModes), maxNames)], VolumeName: claim.Spec.VolumeName,
		StorageClassName: claim.Spec.StorageClassName, VolumeMode: claim.Spec.VolumeMode,
	}
	kept.Status = corev1.PersistentVolumeClaimStatus{Phase: claim.Status.Phase}
	return &kept
}

// boundResourceClaim does the same for a claim of devices: of one that is too large the devices are kept that it has.
func boundResourceClaim(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	kept := *claim
	kept.ManagedFields = nil
	why := tooLarge(&kept, kept.Size())
	if why == "" {
		return &kept
	}
	kept.ObjectMeta, kept.Spec = keptIdentity(&claim.ObjectMeta, why), resourceapi.ResourceClaimSpec{}
	kept.Status = resourceapi.ResourceClaimStatus{}
	if given := claim.Status.Allocation; given != nil {
		kept.Status.Allocation = &resourceapi.AllocationResult{}
		for _, device := range given.Devices.Results[:min(len(given.Devices.Results), maxNames)] {
			device.Tolerations, device.BindingConditions, device.BindingFailureConditions = nil, nil, nil
			kept.Status.Allocation.Devices.Results = append(kept.Status.Allocation.Devices.Results, device)
		}
	}
	return &kept
}
