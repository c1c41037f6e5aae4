package sources

import (
	"cmp"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tutti-sched/tutti/pkg/model"
)

// The label, or annotation, that names a pod's group to Kueue, and annotations beside it.
const (
	KueueGroup         = "kueue.x-k8s.io/pod-group-name"
	KueueTotal         = "kueue.x-k8s.io/pod-group-total-count"
	KueueServing       = "kueue.x-k8s.io/pod-group-serving"
	KueueFastAdmission = "kueue.x-k8s.io/pod-group-fast-admission"
)

// kueue is a group of pods that Kueue admits together. Those of a group that serves, and of one that may be admitted before
// all of its pods exist, need not start together.
var kueue = &Source{
	name: "kueue", of: ofKueue,
	marks: Marks{Labels: []string{KueueGroup}, Annotations: []string{KueueGroup, KueueTotal, KueueServing, KueueFastAdmission}},
}

func ofKueue(pod *corev1.Pod) (Membership, bool) {
	name := cmp.Or(pod.Labels[KueueGroup], pod.Annotations[KueueGroup])
	if name == "" || pod.Annotations[KueueServing] == "true" || pod.Annotations[KueueFastAdmission] == "true" {
		return Membership{}, false
	}
	if len(name) > validation.DNS1123SubdomainMaxLength {
		m := alone(pod)
		m.Malformed = &model.Refusal{Code: model.InvalidGroup, Detail: fmt.Sprintf(
			"annotation %s is %q, which cannot be a name", KueueGroup, model.Brief(name, maxQuoted))}
		return m, true
	}
	m := Membership{Job: model.JobKey{Namespace: pod.Namespace, Name: name, Source: model.SourceKueue}}
	m.readMinimum(pod, KueueTotal)
	return m, true
}

// The annotations of Kueue (apis/kueue/v1beta2/topology_types.go of kubernetes-sigs/kueue) name keys of labels for the pods of
// one template; templates that name the same KueueRoles share one domain.
const (
	KueueRequired  = "kueue.x-k8s.io/podset-required-topology"
	KueuePreferred = "kueue.x-k8s.io/podset-preferred-topology"
	KueueSlice     = "kueue.x-k8s.io/podset-slice-required-topology"
	KueueSliceSize = "kueue.x-k8s.io/podset-slice-size"
	KueueSlices    = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
	KueueRoles     = "kueue.x-k8s.io/podset-group-name"

	// KueueGivesPlace is the label of pods that Kueue has given a place by these annotations: a node selector says which, of each
	// pod maybe another one.
	KueueGivesPlace = "kueue.x-k8s.io/tas"
)

// readKueue reads one level for all pods of the template, which is required or preferred, and levels of slices. What Kueue's
// webhooks refuse is refused here: without Kueue nothing else does.
func readKueue(annotations map[string]string) (constraints []model.SaidConstraint, problem string) {
	for _, two := range [][2]string{
		{KueueRequired, KueuePreferred}, {KueueSlices, KueueSlice}, {KueueSlices, KueueSliceSize}, {KueueRoles, KueueSlice}, {KueueRoles, KueueSlices},
	} {
		_, one := annotations[two[0]]
		if _, other := annotations[two[1]]; one && other {
			return nil, fmt.Sprintf("there may be one of the annotations %s and %s", two[0], two[1])
		}
	}
	for _, annotation := range []string{KueueRequired, KueuePreferred} {
		key, there := annotations[annotation]
		if !there {
			continue
		}
		if problem = noLabel(annotation, key); problem != "" {
			return nil, problem
		}
		shared := model.TopologyConstraint{Level: model.LabelLevel(key), Preferred: annotation == KueuePreferred}
		constraints = append(constraints, model.SaidConstraint{TopologyConstraint: shared, Set: annotations[KueueRoles]})
	}
	ofSlices, problem := readKueueSlices(annotations)
	return append(constraints, ofSlices...), problem
}

// slice is a level of slices of Kueue.
type slice struct {
	Topology string `json:"topology"`
	Size     int64  `json:"size"`
}

// readKueueSlices reads one level of slices, or a list of them. Slices of one pod need nothing: each of their domains has one
// pod.
func readKueueSlices(annotations map[string]string) (constraints []model.SaidConstraint, problem string) {
	list, annotation := []slice{}, KueueSlices
	size, sized := annotations[KueueSliceSize]
	key, sliced := annotations[KueueSlice]
	if sized != sliced {
		return nil, fmt.Sprintf("the annotations %s and %s need each other", KueueSlice, KueueSliceSize)
	}
	if sized {
		n, _ := strconv.ParseInt(size, 10, 64)
		if list, annotation = []slice{{key, n}}, KueueSlice; n < 1 {
			return nil, noMinimum(KueueSliceSize, size).Detail
		}
	} else if text, there := annotations[KueueSlices]; there {
		if problem = decodeList(text, &list); problem != "" {
			return nil, fmt.Sprintf("annotation %s: %s", annotation, problem)
		}
	}
	if len(list) > maxTopologies {
		return nil, fmt.Sprintf("annotation %s: it has %d entries, at most %d are supported", annotation, len(list), maxTopologies)
	}
	for _, one := range list {
		if problem = noLabel(annotation, one.Topology); problem != "" {
			return nil, problem
		}
		if one.Size < 1 || one.Size > maxSliceSize {
			return nil, fmt.Sprintf("annotation %s: the size of a slice is %d, it must be from 1 up to %d", annotation, one.Size, maxSliceSize)
		}
		if one.Size > 1 {
			constraints = append(constraints, model.SaidConstraint{TopologyConstraint: model.TopologyConstraint{Level: model.LabelLevel(one.Topology), SliceSize: int32(one.Size)}})
		}
	}
	return constraints, ""
}
