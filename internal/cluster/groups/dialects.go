package groups

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/json"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file reads the annotations that say which members share a domain.

// The annotations of KAI (docs/topology of kai-scheduler/KAI-Scheduler) name a level for all pods of a workload. Without a slash
// it may be the alias of a level, which KAI's Topology explains: it has to be the name of a level here.
const (
	KAIRequired  = "kai.scheduler/topology-required-placement"
	KAIPreferred = "kai.scheduler/topology-preferred-placement"
)

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

// The limits of the API for spec.topology, and how long a list of other projects, or of ours in an annotation, may be, in bytes.
const (
	maxTopologies  = 8
	maxLevel       = 317
	maxRolesListed = 32
	maxRoleName    = 63
	maxSliceSize   = 100_000
	maxWaitSeconds = 604_800
	maxList        = 32 << 10
)

// readOurs reads the list of spec.topology, as JSON. The rules are those of the CRD.
func readOurs(annotations map[string]string) (constraints []model.SaidConstraint, problem string) {
	text, there := annotations[v1alpha1.AnnotationTopology]
	if !there {
		return nil, ""
	}
	var list []v1alpha1.TopologyConstraint
	if problem = decodeList(text, &list); problem == "" {
		problem = brokenRule(list)
	}
	if problem != "" {
		return nil, fmt.Sprintf("annotation %s: %s", v1alpha1.AnnotationTopology, problem)
	}
	for _, one := range topologyOf(list) {
		constraints = append(constraints, model.SaidConstraint{TopologyConstraint: one})
	}
	return constraints, ""
}

// decodeList decodes a list of JSON strictly.
func decodeList[T any](text string, list *[]T) (problem string) {
	switch {
	case len(text) > maxList:
		return fmt.Sprintf("it has %d bytes, at most %d are supported", len(text), maxList)
	case !strings.HasPrefix(strings.TrimSpace(text), "["):
		return fmt.Sprintf("it is %q, it must be a list in JSON", model.Brief(text, maxQuoted))
	}
	unknown, err := json.UnmarshalStrict([]byte(text), list)
	if err == nil && len(unknown) > 0 {
		err = unknown[0]
	}
	if err != nil {
		return "it cannot be read: " + model.Brief(err.Error(), maxError)
	}
	return ""
}

// maxError is how much of the error of a decoder a message quotes, in bytes: it may quote what users wrote.
const maxError = 120

// brokenRule returns the first rule of spec.topology that a list breaks; empty when it breaks none.
func brokenRule(list []v1alpha1.TopologyConstraint) string {
	if len(list) > maxTopologies {
		return fmt.Sprintf("it has %d entries, at most %d are supported", len(list), maxTopologies)
	}
	for i := range list {
		if rule := brokenRuleOf(&list[i]); rule != "" {
			return fmt.Sprintf("entry %d: %s", i+1, rule)
		}
	}
	all := topologyOf(list)
	for i := range all {
		if contains(all[:i], all[i]) {
			return fmt.Sprintf("entry %d: there is one like it before", i+1)
		}
	}
	return ""
}

func brokenRuleOf(one *v1alpha1.TopologyConstraint) string {
	preferred := one.Mode == v1alpha1.TopologyPreferred
	switch {
	case one.Level == "" || len(one.Level) > maxLevel:
		return fmt.Sprintf("level must have 1 to %d characters", maxLevel)
	case one.Mode != "" && one.Mode != v1alpha1.TopologyRequired && !preferred:
		return fmt.Sprintf("mode is %q, it must be Required or Preferred", model.Brief(string(one.Mode), maxQuoted))
	case one.Roles != nil && len(one.Roles) == 0 || len(one.Roles) > maxRolesListed:
		return fmt.Sprintf("roles must be 1 to %d names, or left out", maxRolesListed)
	case one.SliceSize != 0 && (one.SliceSize < 2 || one.SliceSize > maxSliceSize):
		return fmt.Sprintf("sliceSize is %d, it must be from 2 up to %d", one.SliceSize, maxSliceSize)
	case one.SliceSize != 0 && preferred:
		return "sliceSize needs mode: Required"
	case one.WaitSeconds < 0 || one.WaitSeconds > maxWaitSeconds:
		return fmt.Sprintf("waitSeconds is %d, it must be from 1 up to %d", one.WaitSeconds, maxWaitSeconds)
	case one.WaitSeconds != 0 && !preferred:
		return "waitSeconds needs mode: Preferred"
	}
	for i, role := range one.Roles {
		if role == "" || len(role) > maxRoleName || slices.Contains(one.Roles[:i], role) {
			return fmt.Sprintf("role %q is listed twice, or cannot be a name", model.Brief(role, maxQuoted))
		}
	}
	return ""
}

// readKAI reads what is required and what is preferred; both may be. An empty annotation says nothing.
func readKAI(annotations map[string]string) (constraints []model.SaidConstraint, problem string) {
	for _, key := range []string{KAIRequired, KAIPreferred} {
		level := annotations[key]
		if len(level) > maxLevel {
			return nil, fmt.Sprintf("annotation %s is %q, which cannot be a level", key, model.Brief(level, maxQuoted))
		}
		if level != "" {
			constraints = append(constraints, model.SaidConstraint{TopologyConstraint: model.TopologyConstraint{Level: level, Preferred: key == KAIPreferred}, Set: "workload"})
		}
	}
	return constraints, ""
}

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

// noLabel says of an annotation that it is not the key of a label; empty when it is.
func noLabel(annotation, key string) string {
	if len(validation.IsQualifiedName(key)) == 0 {
		return ""
	}
	return fmt.Sprintf("annotation %s: %q cannot be the key of a label", annotation, model.Brief(key, maxQuoted))
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
