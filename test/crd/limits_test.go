package crd

import (
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// unlimited are the fields whose schema is not ours to limit: Kubernetes writes metadata, its type of a condition says nothing of
// the generation, and that of a selector nothing of sizes.
var unlimited = map[string][]string{
	"podgroups": {".apiVersion", ".kind", ".metadata", ".status.conditions[].observedGeneration"},
	"queues": {
		".apiVersion", ".kind", ".metadata", ".status.conditions[].observedGeneration", ".spec.namespaceSelector.matchLabels",
		".spec.namespaceSelector.matchLabels{}", ".spec.namespaceSelector.matchExpressions",
		".spec.namespaceSelector.matchExpressions[].key", ".spec.namespaceSelector.matchExpressions[].operator",
		".spec.namespaceSelector.matchExpressions[].values", ".spec.namespaceSelector.matchExpressions[].values[]",
	},
}

// TestEveryFieldHasALimit: numbers have a least and a most, texts a length, an enumeration or a format, lists and maps a size. So
// an object has a largest size, and the cost of a rule a bound.
func TestEveryFieldHasALimit(t *testing.T) {
	for kind, excepted := range unlimited {
		for _, version := range readCRD(t, kind).Spec.Versions {
			fields := map[string]bool{}
			walk("", version.Schema.OpenAPIV3Schema, func(path string, schema *apiextensionsv1.JSONSchemaProps) {
				fields[path] = true
				if problem := unbounded(schema); problem != "" && !slices.Contains(excepted, path) {
					t.Errorf("%s %s %s: %s", kind, version.Name, path, problem)
				}
			})
			for _, path := range excepted {
				if !fields[path] {
					t.Errorf("%s %s %s: is excepted, and there is no such field", kind, version.Name, path)
				}
			}
		}
	}
}

func walk(path string, schema *apiextensionsv1.JSONSchemaProps, visit func(string, *apiextensionsv1.JSONSchemaProps)) {
	visit(path, schema)
	for name, property := range schema.Properties {
		walk(path+"."+name, &property, visit)
	}
	if schema.Items != nil {
		walk(path+"[]", schema.Items.Schema, visit)
	}
	if schema.AdditionalProperties != nil {
		walk(path+"{}", schema.AdditionalProperties.Schema, visit)
	}
}

// unbounded returns which limit is missing; empty when none is. A quantity is an integer or a text in the pattern of Kubernetes.
func unbounded(schema *apiextensionsv1.JSONSchemaProps) string {
	var missing []string
	need := func(there bool, what string) {
		if !there {
			missing = append(missing, "no "+what)
		}
	}
	switch schema.Type {
	case "integer", "number":
		need(schema.Minimum != nil, "minimum")
		need(schema.Maximum != nil, "maximum")
	case "string":
		need(schema.MaxLength != nil || len(schema.Enum) > 0 || schema.Format != "", "maxLength, enum or format")
	case "array":
		need(schema.MaxItems != nil, "maxItems")
	case "object":
		need(schema.AdditionalProperties == nil || schema.MaxProperties != nil, "maxProperties")
	case "boolean":
	default:
		need(schema.XIntOrString && schema.Pattern != "", "type")
	}
	return strings.Join(missing, ", ")
}
