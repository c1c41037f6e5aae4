package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// apiPage is the reference of the API, by its path in docs. The whole page is written from the CRDs.
const apiPage = "api.md"

// crds is the folder with the CRDs.
var crds = filepath.Join("config", "crd", "bases")

// api returns the reference of the API: each field of each CRD in a folder, with its type, its range and what it means.
func api(folder string) (string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("no CRD in %s (%v)", folder, err)
	}
	var b strings.Builder
	b.WriteString("# API\n\n<!-- Written by \"make generate\" from config/crd/bases. -->\n\n" +
		"The objects of `scheduling.tutti.dev`, field by field, as the API server checks them. `kubectl explain tpg.spec` shows the same.\n" +
		"[Jobs](jobs.md) and [queues](queues.md) explain them by examples.\n")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("a CRD: %w", err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(text, &crd); err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		for _, version := range crd.Spec.Versions {
			writeKind(&b, &crd.Spec, version.Name, version.Schema.OpenAPIV3Schema)
		}
	}
	return b.String(), nil
}

// writeKind writes the section of one version of a kind.
func writeKind(b *strings.Builder, spec *apiextensionsv1.CustomResourceDefinitionSpec, version string, schema *apiextensionsv1.JSONSchemaProps) {
	fmt.Fprintf(b, "\n## %s\n\n`apiVersion: %s/%s`, %s, short name `%s`. %s\n", spec.Names.Kind, spec.Group, version,
		strings.ToLower(string(spec.Scope)), strings.Join(spec.Names.ShortNames, "`, `"), sentence(schema.Description))
	writeRules(b, schema)
	for _, part := range []string{"spec", "status"} {
		property := schema.Properties[part]
		fmt.Fprintf(b, "\n### %s: %s\n\n%s\n", spec.Names.Kind, part, sentence(property.Description))
		writeRules(b, &property)
		writeFields(b, &property, "")
	}
}

// writeFields writes each field below a path, in the order of names, the required ones first.
func writeFields(b *strings.Builder, schema *apiextensionsv1.JSONSchemaProps, path string) {
	names := slices.Sorted(maps.Keys(schema.Properties))
	slices.SortStableFunc(names, func(x, y string) int {
		return strings.Compare(fmt.Sprint(!slices.Contains(schema.Required, x)), fmt.Sprint(!slices.Contains(schema.Required, y)))
	})
	for _, name := range names {
		property := schema.Properties[name]
		words := []string{typeOf(&property)}
		if slices.Contains(schema.Required, name) {
			words = append(words, "required")
		}
		if property.Default != nil {
			words = append(words, "default `"+strings.Trim(string(property.Default.Raw), `"`)+"`")
		}
		fmt.Fprintf(b, "\n**`%s%s`**: %s. %s\n", path, name, strings.Join(append(words, bounds(&property)...), ", "), sentence(property.Description))
		writeRules(b, &property)
		inner, suffix := &property, "."
		if property.Items != nil {
			inner, suffix = property.Items.Schema, "[]."
		}
		writeFields(b, inner, path+name+suffix)
	}
}

// typeOf is the type of a field, of a list with the type of what is in it.
func typeOf(schema *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case schema.Items != nil:
		return "list of " + typeOf(schema.Items.Schema)
	case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
		return "map to " + typeOf(schema.AdditionalProperties.Schema)
	case schema.XIntOrString:
		return "quantity"
	case schema.Format == "date-time":
		return "time"
	}
	return schema.Type
}

// bounds are the limits that the API server checks of a value.
func bounds(schema *apiextensionsv1.JSONSchemaProps) (all []string) {
	switch {
	case schema.Minimum != nil && schema.Maximum != nil:
		all = append(all, fmt.Sprintf("%.0f to %.0f", *schema.Minimum, *schema.Maximum))
	case schema.Minimum != nil:
		all = append(all, fmt.Sprintf("from %.0f up", *schema.Minimum))
	}
	for _, most := range []struct {
		number *int64
		of     string
	}{{schema.MaxLength, "characters"}, {schema.MaxItems, "entries"}, {schema.MaxProperties, "names"}} {
		if most.number != nil {
			all = append(all, fmt.Sprintf("at most %d %s", *most.number, most.of))
		}
	}
	for i, value := range schema.Enum {
		if i == 0 {
			all = append(all, "one of")
		}
		all[len(all)-1] += " `" + strings.Trim(string(value.Raw), `"`) + "`"
	}
	return all
}

// writeRules writes what the rules of a schema say to a user who breaks them.
func writeRules(b *strings.Builder, schema *apiextensionsv1.JSONSchemaProps) {
	if len(schema.XValidations) == 0 {
		return
	}
	b.WriteString("\nRefused with these messages:\n\n")
	for _, rule := range schema.XValidations {
		fmt.Fprintf(b, "- *%s*\n", rule.Message)
	}
}

// sentence joins the lines of a description, and keeps its paragraphs.
func sentence(description string) string {
	paragraphs := strings.Split(description, "\n\n")
	for i, paragraph := range paragraphs {
		paragraphs[i] = strings.Join(strings.Fields(paragraph), " ")
	}
	return strings.Join(paragraphs, "\n\n")
}
