package diagnose

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
	"github.com/tutti-sched/tutti/internal/sources"
)

// TestAnswers plays testdata: "cluster" has the objects of one namespace, as YAML; "why NAME" and "why kind=pod NAME" print
// the diagnosis.
func TestAnswers(t *testing.T) {
	now := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		namespace := &Namespace{Name: "ml"}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "cluster":
				namespace = read(t, d.Input)
				return ""
			case "why":
				var kind string
				d.MaybeScanArgs(t, "kind", &kind)
				name := d.CmdArgs[len(d.CmdArgs)-1].Key
				found, err := Diagnose(namespace, Kind(kind), name)
				if err != nil {
					return "error: " + err.Error()
				}
				var out bytes.Buffer
				found.Write(printer.New(&out, func(string) string { return "" }), now)
				return out.String()
			}
			t.Fatalf("unknown command %q", d.Cmd)
			return ""
		})
	})
}

// read decodes YAML documents. A pod has the scheduler's name unless it has another.
func read(t *testing.T, text string) *Namespace {
	t.Helper()
	namespace := &Namespace{Name: "ml"}
	for document := range strings.SplitSeq(text, "---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatal(err)
		}
		var err error
		if kind.APIVersion == "scheduling.x-k8s.io/v1alpha1" {
			object := &unstructured.Unstructured{}
			text, converted := yaml.YAMLToJSON([]byte(document))
			if err := errors.Join(converted, object.UnmarshalJSON(text)); err != nil {
				t.Fatal(err)
			}
			for _, source := range sources.All() {
				for _, watch := range source.Watches() {
					if watch.Resource.Group == object.GroupVersionKind().Group {
						namespace.Foreign = append(namespace.Foreign, watch.Decode(object))
					}
				}
			}
			continue
		}
		switch kind.Kind {
		case "PodGroup":
			var group v1alpha1.PodGroup
			err = yaml.UnmarshalStrict([]byte(document), &group)
			namespace.Groups = append(namespace.Groups, group)
		case "Pod":
			var pod corev1.Pod
			err = yaml.UnmarshalStrict([]byte(document), &pod)
			if pod.Spec.SchedulerName == "" {
				pod.Spec.SchedulerName = "tutti"
			}
			namespace.Pods = append(namespace.Pods, pod)
		default:
			t.Fatalf("kind %q in\n%s", kind.Kind, document)
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
	}
	return namespace
}

func TestNearest(t *testing.T) {
	names := []string{"train", "train-2", "infer", "a"}
	for name, want := range map[string]string{
		"trian": "train", "trains": "train", "train2": "train", "Infer": "infer", "something": "", "b": "", "train": "", "": "",
	} {
		if got := Nearest(name, names); got != want {
			t.Errorf("nearest to %q is %q, want %q", name, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"ab", "ba", 1}, {"abc", "axc", 1}, {"abc", "abcd", 1}, {"kitten", "sitting", 3}, {"abcd", "badc", 2}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("from %q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
		if got := distance(c.b, c.a); got != c.want {
			t.Errorf("from %q to %q: %d, want %d", c.b, c.a, got, c.want)
		}
	}
}

func TestOverview(t *testing.T) {
	namespace := read(t, `{kind: PodGroup, metadata: {namespace: ml, name: train}, spec: {minMember: 3}, status: {phase: Running, members: 3, placed: 3, running: 3, succeeded: 0, failed: 0}}
---
{kind: PodGroup, metadata: {namespace: ml, name: big}, spec: {minMember: 9}, status: {phase: Pending, members: 9, placed: 0, running: 0, succeeded: 0, failed: 0, conditions: [{type: Scheduled, status: "False", reason: InsufficientResources, message: "needs 9", lastTransitionTime: null}]}}
---
{kind: Pod, metadata: {namespace: ml, name: big-0, labels: {scheduling.tutti.dev/pod-group: big}}}
---
{kind: Pod, metadata: {namespace: ml, name: lost-0, labels: {scheduling.tutti.dev/pod-group: lost}}}
---
{kind: Pod, metadata: {namespace: ml, name: lost-1, labels: {scheduling.tutti.dev/pod-group: lost}}}
---
{kind: Pod, metadata: {namespace: ml, name: alone}}
---
{kind: Pod, metadata: {namespace: ml, name: placed}, spec: {nodeName: n1, containers: []}}
---
{kind: Pod, metadata: {namespace: ml, name: other}, spec: {schedulerName: default-scheduler, containers: []}}
---
{kind: PodGroup, metadata: {namespace: a, name: done}, spec: {minMember: 1}, status: {phase: Succeeded, members: 1, placed: 1, running: 0, succeeded: 1, failed: 0}}`)
	o := Collect(namespace.Groups, namespace.Pods, []string{"tutti"})
	var got []string
	for _, job := range o.Jobs {
		got = append(got, strings.Join([]string{job.Namespace, job.Kind, job.Name, job.Phase, job.Reason}, " "))
	}
	want := []string{"a PodGroup done Succeeded ", "ml Pod alone Pending ", "ml PodGroup big Pending InsufficientResources",
		"ml PodGroup lost  ", "ml PodGroup train Running "}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("jobs\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if o.Jobs[3].Members != 2 {
		t.Errorf("the lost group has %d members, want 2", o.Jobs[3].Members)
	}
	if len(o.Namespaces) != 2 || o.Namespaces[0] != (Totals{Namespace: "a", Jobs: 1, Ended: 1}) ||
		o.Namespaces[1] != (Totals{Namespace: "ml", Jobs: 4, Waiting: 3, Running: 1}) {
		t.Errorf("totals %+v", o.Namespaces)
	}
}
