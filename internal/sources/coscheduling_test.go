package sources

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestMarksOfSources: our own come first, and a source that is off has no marks.
func TestMarksOfSources(t *testing.T) {
	foreign := model.JobKey{Namespace: "ns", Name: "f", Source: model.SourceCoscheduling}
	ours, lonely := model.JobKey{Namespace: "ns", Name: "g"}, model.JobKey{Namespace: "ns", Name: "p", Source: model.SourcePod}
	for name, c := range map[string]struct {
		labels, annotations map[string]string
		off                 []string
		want                model.JobKey
	}{
		"the label":                     {labels: map[string]string{LabelCoscheduling: "f"}, want: foreign},
		"an empty label":                {labels: map[string]string{LabelCoscheduling: ""}, want: lonely},
		"off":                           {labels: map[string]string{LabelCoscheduling: "f"}, off: []string{"coscheduling"}, want: lonely},
		"our label, too":                {labels: map[string]string{LabelCoscheduling: "f", v1alpha1.LabelPodGroup: "g"}, want: ours},
		"kube-batch's annotation, too":  {labels: map[string]string{LabelCoscheduling: "f"}, annotations: map[string]string{v1alpha1.AnnotationKubeBatchGroup: "g"}, want: foreign},
		"that, and the label off":       {labels: map[string]string{LabelCoscheduling: "f"}, annotations: map[string]string{v1alpha1.AnnotationKubeBatchGroup: "g"}, off: []string{"coscheduling", "volcano"}, want: ours},
		"a label of no source":          {labels: map[string]string{"scheduling.sigs.k8s.io/pod-group": "f"}, want: lonely},
		"our own source cannot be off ": {labels: map[string]string{v1alpha1.LabelPodGroup: "g"}, off: []string{"coscheduling"}, want: ours},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: c.labels, Annotations: c.annotations}}
		if got := Without(c.off).Of(pod); got.Job != c.want || got.Otherwise != nil || got.Malformed != nil {
			t.Errorf("%s: %+v, want %v", name, got, c.want)
		}
	}
}

// TestSourcesHaveTheNamesOfTheConfiguration, but for our own, which are always on.
func TestSourcesHaveTheNamesOfTheConfiguration(t *testing.T) {
	var names []string
	for _, source := range All() {
		if source != own && source != kubeBatch {
			names = append(names, source.Name())
		}
	}
	if want := config.SourceNames(); !slices.Equal(slices.Compact(names), want) {
		t.Errorf("sources %q, and a configuration has %q", names, want)
	}
}

func TestDecodeCoscheduling(t *testing.T) {
	many := map[string]any{}
	for i := range maxResources + 1 {
		many[fmt.Sprint("r", i)] = "1"
	}
	for name, c := range map[string]struct {
		object        map[string]any
		minMember     int32
		resources     int
		contradiction string
	}{
		"a minimum":        {map[string]any{"spec": map[string]any{"minMember": int64(3), "scheduleTimeoutSeconds": "never"}}, 3, 0, ""},
		"none":             {map[string]any{"spec": map[string]any{}}, 1, 0, ""},
		"zero":             {map[string]any{"spec": map[string]any{"minMember": int64(0)}}, 1, 0, ""},
		"no spec":          {map[string]any{}, 1, 0, ""},
		"null":             {map[string]any{"spec": map[string]any{"minMember": nil, "minResources": nil}}, 1, 0, ""},
		"negative":         {map[string]any{"spec": map[string]any{"minMember": int64(-1)}}, 1, 0, "spec.minMember is -1, it must be at least 1"},
		"a text":           {map[string]any{"spec": map[string]any{"minMember": "3"}}, 1, 0, "spec.minMember is a text, it must be a whole number"},
		"a fraction":       {map[string]any{"spec": map[string]any{"minMember": 2.5}}, 1, 0, "spec.minMember is a number, it must be a whole number"},
		"too many":         {map[string]any{"spec": map[string]any{"minMember": int64(1) << 40}}, 1, 0, "spec.minMember is 1099511627776, it must be a number of 32 bits"},
		"another spec":     {map[string]any{"spec": []any{"minMember"}}, 1, 0, "spec is a list, it must be an object"},
		"resources":        {map[string]any{"spec": map[string]any{"minResources": map[string]any{"cpu": "16", "memory": int64(1024)}}}, 1, 2, ""},
		"other resources":  {map[string]any{"spec": map[string]any{"minResources": true}}, 1, 0, "spec.minResources is true or false, it must be a list of amounts by resource"},
		"no amount":        {map[string]any{"spec": map[string]any{"minResources": map[string]any{"cpu": "all"}}}, 1, 0, "spec.minResources.cpu is no amount of a resource"},
		"a long exponent":  {map[string]any{"spec": map[string]any{"minResources": map[string]any{"cpu": "1e99999999"}}}, 1, 0, "spec.minResources.cpu is no amount of a resource"},
		"a small one":      {map[string]any{"spec": map[string]any{"minResources": map[string]any{"cpu": "1E-99999999"}}}, 1, 0, "spec.minResources.cpu is no amount of a resource"},
		"a short exponent": {map[string]any{"spec": map[string]any{"minResources": map[string]any{"cpu": "1e+18", "memory": "1Ei", "disk": "2E"}}}, 1, 3, ""},
		"many":             {map[string]any{"spec": map[string]any{"minResources": many}}, 1, 0, "spec.minResources names 65 resources, at most 64 are supported"},
		"a long name": {map[string]any{"spec": map[string]any{"minResources": map[string]any{strings.Repeat("x", 400): "1"}}}, 1, 0,
			"spec.minResources." + strings.Repeat("x", 40) + "… is no amount of a resource"},
		"the first of two": {map[string]any{"spec": map[string]any{"minMember": true, "minResources": true}}, 1, 0,
			"spec.minMember is true or false, it must be a whole number"},
	} {
		spec := decodeCoscheduling(&unstructured.Unstructured{Object: c.object})
		if spec.MinMember != c.minMember || len(spec.MinResources) != c.resources || spec.Contradiction != c.contradiction || spec.Source != model.SourceCoscheduling {
			t.Errorf("%s: %+v", name, spec)
		}
	}
}

// TestDecodeNeverPanics over any object, and what it returns says a minimum.
func TestDecodeNeverPanics(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		return rapid.Custom(func(t *rapid.T) any {
			switch rapid.IntRange(0, 6-max(0, 2*(depth-2))).Draw(t, "type") {
			case 0:
				return rapid.Int64().Draw(t, "number")
			case 1:
				return rapid.SampledFrom([]string{"", "1", "-5Gi", "x", "\x00"}).Draw(t, "text")
			case 2:
				return rapid.Float64().Draw(t, "fraction")
			case 3:
				return nil
			case 4:
				return []any{value(depth+1).Draw(t, "item")}
			default:
				object := map[string]any{}
				for _, key := range []string{"spec", "metadata", "minMember", "minResources", "minTaskMember", "networkTopology", "conditions", "type", "cpu", "name", "uid", "creationTimestamp"} {
					if rapid.Bool().Draw(t, key) {
						object[key] = value(depth+1).Draw(t, "value")
					}
				}
				return object
			}
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		object := map[string]any{"spec": value(0).Draw(t, "spec"), "metadata": value(0).Draw(t, "metadata"), "status": value(0).Draw(t, "status")}
		for _, source := range All() {
			watch := source.Watch()
			if watch == nil {
				continue
			}
			if spec := watch.Decode(&unstructured.Unstructured{Object: object}); spec.MinMember < 1 || spec.Source != watch.Source {
				t.Fatalf("%+v of %v", spec, object)
			}
		}
	})
}

// TestLongNamesAreNotKept: neither a reference to a controller that is longer than one can be, nor names of roles.
func TestLongNamesAreNotKept(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	for field, source := range map[string]model.Source{"minTaskMember": model.SourceVolcano, "pytorchReplicaSpecs": model.SourcePyTorchJob} {
		value := map[string]any{long: int64(1)}
		if source.OwnsPods() {
			value[long] = map[string]any{}
		}
		watch := WatchOf(source)
		spec := watch.Decode(&unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"ownerReferences": []any{map[string]any{"kind": "JobSet", "name": long, "uid": "u", "controller": true}}},
			"spec":     map[string]any{field: value, "minMember": int64(2)},
		}})
		want := "spec." + field + ": " + strings.Repeat("x", 40) + "… is longer than a name can be"
		if len(spec.OwnerReferences) != 0 || len(spec.Roles) != 0 || spec.Contradiction != want {
			t.Errorf("%s: %d owners, %d roles, %s", field, len(spec.OwnerReferences), len(spec.Roles), model.Brief(spec.Contradiction, 200))
		}
	}
}

// TestSameSpecs: what others write beside it is not another one.
func TestSameSpecs(t *testing.T) {
	object := func(change func(map[string]any)) *Spec {
		o := map[string]any{
			"metadata": map[string]any{"namespace": "ns", "name": "g", "uid": "u", "resourceVersion": "1"},
			"spec":     map[string]any{"minMember": int64(2), "minResources": map[string]any{"cpu": "2"}},
		}
		change(o)
		return decodeCoscheduling(&unstructured.Unstructured{Object: o})
	}
	first := object(func(map[string]any) {})
	for name, c := range map[string]struct {
		change func(map[string]any)
		same   bool
	}{
		"a status": {func(o map[string]any) {
			o["status"], o["metadata"].(map[string]any)["resourceVersion"] = map[string]any{"running": int64(1)}, "2"
		}, true},
		"a timeout":             {func(o map[string]any) { o["spec"].(map[string]any)["scheduleTimeoutSeconds"] = int64(5) }, true},
		"an amount, as written": {func(o map[string]any) { o["spec"].(map[string]any)["minResources"] = map[string]any{"cpu": "2000m"} }, true},
		"a minimum":             {func(o map[string]any) { o["spec"].(map[string]any)["minMember"] = int64(3) }, false},
		"a contradiction":       {func(o map[string]any) { o["spec"].(map[string]any)["minMember"] = "2" }, false},
		"an amount":             {func(o map[string]any) { o["spec"].(map[string]any)["minResources"] = map[string]any{"cpu": "3"} }, false},
		"made again":            {func(o map[string]any) { o["metadata"].(map[string]any)["uid"] = "v" }, false},
	} {
		if got := object(c.change).Same(first); got != c.same {
			t.Errorf("%s: the same %t, want %t", name, got, c.same)
		}
	}
	if first.Same(nil) {
		t.Error("it is the same as none")
	}
}
