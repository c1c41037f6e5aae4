package sources

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/json"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file reads the annotations that say which members share a domain.

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

// noLabel says of an annotation that it is not the key of a label; empty when it is.
func noLabel(annotation, key string) string {
	if len(validation.IsQualifiedName(key)) == 0 {
		return ""
	}
	return fmt.Sprintf("annotation %s: %q cannot be the key of a label", annotation, model.Brief(key, maxQuoted))
}
