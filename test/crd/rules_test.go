package crd

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"sigs.k8s.io/yaml"
)

// TestRules plays testdata/*.txt, a file for each kind: what the API server says of objects that are created, or updated from
// the last one created. Stored is one that an earlier version of the CRD let in. It uses the API server's own code on the
// generated CRD. Run with -rewrite to record answers.
func TestRules(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		server := newServer(t, strings.TrimSuffix(filepath.Base(path), ".txt"))
		var last map[string]any
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			object := parse(t, d.Input)
			defaulting.Default(object, server.schema)
			var errs field.ErrorList
			switch d.Cmd {
			case "create":
				errs, last = server.validate(object, nil), object
			case "stored":
				last = object
			case "update":
				errs = server.validate(object, last)
			case "defaulted":
				spec, err := yaml.Marshal(object["spec"])
				if err != nil {
					t.Fatal(err)
				}
				return string(spec)
			default:
				d.Fatalf(t, "unknown directive %q", d.Cmd)
			}
			if len(errs) == 0 {
				return "ok"
			}
			var lines []string // sorted, since the API server goes over fields in the order of a map
			for _, err := range errs {
				lines = append(lines, err.Error()+"\n")
			}
			slices.Sort(lines)
			return strings.Join(lines, "")
		})
	})
}

// TestCRDsAreAccepted checks that the API server would take the CRDs themselves: that they are structural, that the rules
// compile and that none may cost too much.
func TestCRDsAreAccepted(t *testing.T) {
	for _, kind := range []string{"podgroups", "queues"} {
		t.Run(kind, func(t *testing.T) { accepted(t, readCRD(t, kind)) })
	}
}

func accepted(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	crd.Status.StoredVersions = []string{"v1alpha1"} // as the API server sets it
	var internal apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, &internal, nil); err != nil {
		t.Fatal(err)
	}
	for _, err := range crdvalidation.ValidateCustomResourceDefinition(context.Background(), &internal) {
		t.Error(err)
	}
}

// TestSamplesAreAccepted checks the PodGroups in the samples that users copy.
func TestSamplesAreAccepted(t *testing.T) {
	server := newServer(t, "podgroups")
	const dir = "../../config/samples"
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	groups := 0
	for _, entry := range entries {
		if entry.IsDir() {
			continue // objects of operators
		}
		text, err := os.ReadFile(dir + "/" + entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split("\n"+string(text), "\n---\n") {
			object := parse(t, document)
			if object["kind"] != "PodGroup" {
				continue
			}
			groups++
			for _, err := range server.validate(object, nil) {
				t.Errorf("%s: %v", entry.Name(), err)
			}
		}
	}
	if groups == 0 {
		t.Error("there is no PodGroup among the samples")
	}
}

// server validates as the API server does.
type server struct {
	schema *structural.Structural
	types  validation.SchemaValidator
	rules  *cel.Validator
}

// newServer returns a server of one kind, which is named in the plural.
func newServer(t *testing.T, kind string) *server {
	t.Helper()
	var props apiextensions.JSONSchemaProps
	external := readCRD(t, kind).Spec.Versions[0].Schema.OpenAPIV3Schema
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(external, &props, nil); err != nil {
		t.Fatal(err)
	}
	schema, err := structural.NewStructural(&props)
	if err != nil {
		t.Fatal(err)
	}
	types, _, err := validation.NewSchemaValidator(&props)
	if err != nil {
		t.Fatal(err)
	}
	return &server{schema: schema, types: types, rules: cel.NewValidator(schema, true, celconfig.PerCallLimit)}
}

// validate returns what is wrong with an object; old is nil on create.
func (s *server) validate(object, old map[string]any) field.ErrorList {
	var errs field.ErrorList
	var before any
	var options []cel.Option
	if old == nil {
		errs = validation.ValidateCustomResource(nil, object, s.types)
	} else {
		both := common.NewCorrelatedObject(object, old, &model.Structural{Structural: s.schema})
		errs = validation.ValidateCustomResourceUpdate(nil, object, old, s.types, validation.WithRatcheting(both))
		before, options = old, append(options, cel.WithRatcheting(both))
	}
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.schema, object)...)
	if len(errs) > 0 {
		return errs
	}
	broken, _ := s.rules.Validate(context.Background(), nil, s.schema, object, before, celconfig.RuntimeCELCostBudget, options...)
	return broken
}

func readCRD(t *testing.T, kind string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text, err := os.ReadFile("../../config/crd/bases/scheduling.tutti.dev_" + kind + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &crd); err != nil {
		t.Fatal(err)
	}
	return &crd
}

// parse returns a YAML document as the API server sees it, with whole numbers as int64.
func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	json, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if string(json) == "null" {
		return nil
	}
	object, _, err := unstructured.UnstructuredJSONScheme.Decode(json, nil, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
