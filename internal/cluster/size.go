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
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file bounds what is kept of one object that users of a namespace write, after what is not read was dropped: see
// strip.go. There is one rule: an object of more than maxSent, or that takes more than maxMemory, is malformed. It loses each
// field that takes more than maxField, and has a mark that says why. A pod with too many rules of placement loses these, and has
// the same mark. What others are decided by is kept: what a pod takes of its node, what a budget covers, which devices a claim
// has. The file runs in the transforms of informers, on their goroutines.

const (
	// maxSent is the most that is kept of an object, in bytes as the API server sends them, and maxMemory the most memory that this
	// may take: an empty element of a list is a few bytes when sent, and hundreds in memory.
	maxSent, maxMemory = 64 << 10, 256 << 10
	// surelySmall is up to what size as sent no object takes as much: a container, the largest element, is at least 8 bytes as sent
	// and 400 in memory.
	surelySmall = maxMemory / 64
	// maxField is the most that is kept of a field of an object that is too large.
	maxField = maxMemory / 64
	// maxNames is how many resources, host ports, volumes and devices are kept of an object that is too large.
	maxNames = 64
)

// annotationMalformed marks an object that is too large, or of which a field could not be decoded, and says why. It is never
// written to the API server; a user who writes it refuses the object.
const annotationMalformed = "internal.tutti.dev/malformed"

// maxMark is the longest text of a mark.
const maxMark = 512

// Malformed says why not all of an object is known; empty when all is that is read.
func Malformed(object metav1.Object) string {
	return model.Brief(object.GetAnnotations()[annotationMalformed], maxMark)
}

// mark marks an object as malformed. The map of its annotations is not changed.
func mark(object metav1.Object, why string) {
	marked := map[string]string{}
	maps.Copy(marked, object.GetAnnotations())
	marked[annotationMalformed] = model.Clean(why, maxMark)
	object.SetAnnotations(marked)
}

// limit takes the large fields out of the metadata, spec and status of an object that is too large, marks it, and reports that
// it did. What the object refers to is not changed.
func limit(object metav1.Object) bool {
	sent := 0 // of our own kinds, which are sent as JSON, memory decides
	if measured, is := object.(interface{ Size() int }); is {
		if sent = measured.Size(); sent <= surelySmall {
			return false // to measure its memory takes four times as long as all else that is done to a pod
		}
	}
	value := reflect.ValueOf(object).Elem()
	memory := memoryBehind(value)
	if sent <= maxSent && memory <= maxMemory {
		return false
	}
	largest, most := "", 0
	for i := range value.NumField() {
		part := value.Field(i)
		for j := range part.NumField() {
			size := memoryBehind(part.Field(j))
			if size > most {
				largest, most = jsonName(value.Type().Field(i))+"."+jsonName(part.Type().Field(j)), size
			}
			if size > maxField {
				part.Field(j).SetZero()
			}
		}
	}
	why := fmt.Sprintf("the scheduler would keep %d bytes of it in memory, %d of them for %s, and keeps at most %d", memory, most, largest, maxMemory)
	if sent > maxSent {
		why = fmt.Sprintf("the scheduler would keep %d bytes of it, most of them for %s, and keeps at most %d", sent, largest, maxSent)
	}
	mark(object, why)
	return true
}

// jsonName returns the name of a field in JSON.
func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
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

// limitRules drops all rules of placement of a pod that has too many: of a pod that waits none is read any more, and one on a
// node goes on taking what it takes.
func limitRules(pod *corev1.Pod) {
	rules := placementRules(&pod.Spec)
	if rules <= maxRules {
		return
	}
	spec := &pod.Spec
	spec.NodeSelector, spec.Affinity, spec.Tolerations, spec.TopologySpreadConstraints = nil, nil, nil, nil
	mark(pod, fmt.Sprintf("it has %d rules of placement: selectors, affinity, spread constraints and tolerations; at most %d are supported", rules, maxRules))
}

// KeptPod returns what is kept of a pod: what StripPod leaves, or less when that is too large, or has too many rules. Of one that
// is too large are kept its job, what it takes of its node as one container, and the fields that are small. The pod itself is not
// changed.
func KeptPod(pod *corev1.Pod) *corev1.Pod {
	kept := StripPod(pod)
	whole := *kept
	if !limit(kept) {
		limitRules(kept)
		return kept
	}
	known, why := identityOfPod(&whole), Malformed(kept)
	maps.DeleteFunc(known.Annotations, func(_, value string) bool { return len(value) > maxField })
	if held, err := isolated.AssignedTo(&whole); err == nil && held != nil {
		short := *held
		short.Containers = nil // of which there may be too many
		known.Annotations[isolated.AssignedAnnotation], _ = short.Text()
	}
	kept.Labels, kept.Annotations, kept.OwnerReferences = known.Labels, known.Annotations, known.OwnerReferences
	mark(kept, why)
	spec, status := &kept.Spec, &kept.Status
	ports, sums := util.GetHostPorts(&whole), requestsOf(&whole, requests)
	names := slices.SortedFunc(maps.Keys(sums), func(a, b corev1.ResourceName) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	for _, name := range names[min(len(names), maxNames):] { // all that every node has are kept
		if strings.Contains(string(name), "/") || len(name) >= maxNames {
			delete(sums, name)
		}
	}
	spec.Containers = []corev1.Container{{
		Name: "all", Ports: ports[:min(len(ports), maxNames)], Resources: corev1.ResourceRequirements{Requests: sums},
	}}
	spec.InitContainers, spec.Overhead, spec.Resources, spec.ResourceClaims = nil, nil, nil, nil
	spec.Volumes = slices.DeleteFunc(slices.Clone(whole.Spec.Volumes[:min(len(whole.Spec.Volumes), maxNames)]), func(one corev1.Volume) bool {
		return memoryBehind(reflect.ValueOf(&one).Elem()) > maxField/2
	})
	known.Status.StartTime, known.Status.Conditions = status.StartTime, status.Conditions
	kept.Status = known.Status
	return kept
}

// maxReservedNodes is how many nodes a reservation may have, as in the API.
const maxReservedNodes = 4096

// stripGroup returns what is read of a PodGroup. Texts of its conditions that are too long are dropped: the next write of the
// status brings them again. Reservations, which the scheduler itself writes, may be larger than other objects. The group itself
// is not changed.
func stripGroup(group *v1alpha1.PodGroup) *v1alpha1.PodGroup {
	kept := &v1alpha1.PodGroup{ObjectMeta: stripMeta(&group.ObjectMeta), Spec: group.Spec, Status: group.Status}
	kept.Generation, kept.OwnerReferences = group.Generation, sources.ShortController(group)
	kept.Labels = group.Labels // by which kubectl tutti status selects
	kept.Status.Conditions, kept.Status.Reservation = slices.Clone(group.Status.Conditions), nil
	for i := range kept.Status.Conditions {
		if condition := &kept.Status.Conditions[i]; len(condition.Message) > maxField {
			condition.Message = ""
		}
	}
	if why := Malformed(group); why != "" { // it was stripped, or decoded in parts, before
		mark(kept, why)
	}
	if conditions := kept.Status.Conditions; limit(kept) { // of which a restart reads type, status and reason
		kept.Status.Conditions = conditions[:min(len(conditions), maxNames)]
		for i := range kept.Status.Conditions {
			kept.Status.Conditions[i].Message = ""
		}
	}
	if held := group.Status.Reservation; held != nil && len(held.Nodes) <= maxReservedNodes {
		kept.Status.Reservation = held
	}
	sources.MarkRemoved(kept, group)
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
	if limit(kept) { // of its selector
		kept.Spec.Selector, kept.Status.DisruptionsAllowed = &metav1.LabelSelector{}, 0
	}
	return kept
}

// stripNamespace returns what is read of a namespace. The namespace itself is not changed.
func stripNamespace(namespace *corev1.Namespace) *corev1.Namespace {
	kept := &corev1.Namespace{ObjectMeta: stripMeta(&namespace.ObjectMeta), Status: corev1.NamespaceStatus{Phase: namespace.Status.Phase}}
	kept.Labels, kept.OwnerReferences = namespace.Labels, nil
	return kept
}

// boundVolumeClaim returns a claim without its managed fields. The scheduler writes claims, so that all else is kept of one that
// is not too large.
func boundVolumeClaim(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	kept := *claim
	kept.ManagedFields = nil
	if limit(&kept) && claim.Annotations[volume.AnnBindCompleted] != "" {
		kept.Annotations[volume.AnnBindCompleted] = "yes"
	}
	return &kept
}

// boundResourceClaim does the same for a claim of devices: of one that is too large the devices are kept that it has.
func boundResourceClaim(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	kept := *claim
	kept.ManagedFields = nil
	given := claim.Status.Allocation
	if !limit(&kept) || given == nil {
		return &kept
	}
	kept.Status.Allocation = &resourceapi.AllocationResult{}
	for _, device := range given.Devices.Results[:min(len(given.Devices.Results), maxNames)] {
		device.Tolerations, device.BindingConditions, device.BindingFailureConditions = nil, nil, nil
		kept.Status.Allocation.Devices.Results = append(kept.Status.Allocation.Devices.Results, device)
	}
	return &kept
}
