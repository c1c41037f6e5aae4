package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// sample is one file of config/samples, where it is tried, and what comes of it.
type sample struct {
	file  string
	nodes []*corev1.Node
	// bound is how many pods are bound in the end, by the beginning of their names.
	bound map[string]int
	// first is how many are to be bound of what has the label sample=first, before the rest is applied.
	first int
	// again is how many pods their Jobs create again after an eviction, by the beginning of their names.
	again map[string]int
	// waits is the reason by which each of these groups waits in the end.
	waits map[string]string
	// reserved names the group that has capacity reserved in the end.
	reserved string
	// annotations are those of Tutti, without its prefix, that all pods have in the end.
	annotations []string
}

func samples(t *testing.T) []sample {
	four := map[string]string{"cpu": "4", "memory": "8Gi"}
	return []sample{
		{file: "besteffort.yaml", nodes: cluster.Nodes("sample-besteffort", 1, four), bound: map[string]int{"besteffort-": 3}},
		{file: "gang.yaml", nodes: cluster.Nodes("sample-gang", 2, four), bound: map[string]int{"training-": 4}},
		{file: "implicit.yaml", nodes: cluster.Nodes("sample-implicit", 2, four), bound: map[string]int{"implicit-": 4}},
		{file: "isolated.yaml", nodes: quietNodes(t, "sample-isolated", 1), bound: map[string]int{"realtime-": 2}},
		{file: "mpi.yaml", nodes: cluster.Nodes("sample-mpi", 4, four), bound: map[string]int{"mpi-launcher-": 1, "mpi-worker-": 6}},
		{ // two gangs, and capacity for one: the first is evicted for the second
			file: "priorities.yaml", nodes: cluster.Nodes("sample-priorities", 3, map[string]string{"cpu": "2", "memory": "8Gi"}),
			first: 3, bound: map[string]int{"urgent-": 3, "patient-": 0}, again: map[string]int{"patient-": 3},
			waits: map[string]string{"patient": "InsufficientResources"},
		},
		{ // four workers and GPUs for three: the last one is beyond the minimum and waits
			file: "pytorch.yaml", nodes: cluster.Nodes("sample-pytorch", 3, map[string]string{"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"}),
			bound: map[string]int{"pytorch-": 3},
		},
		{
			file: "reservation.yaml", nodes: cluster.Nodes("sample-reservation", 3, four),
			first: 4, bound: map[string]int{"small-": 4, "large-": 0},
			waits: map[string]string{"large": "InsufficientResources"}, reserved: "large",
		},
		{file: "topology.yaml", nodes: readLevels(t).Nodes(), bound: map[string]int{"ring-": 8}, annotations: []string{"domain", "slice", "index"}},
	}
}

// TestSamples applies every file of config/samples, strictly, where there is capacity for it, or as much as it is about, and
// sees that what comes of it is what the file says.
func TestSamples(t *testing.T) {
	all := samples(t)
	folder := filepath.Join(rootFolder(t), "config", "samples")
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if name != "kustomization.yaml" && !slices.ContainsFunc(all, func(s sample) bool { return s.file == name }) {
			t.Errorf("%s is not tried", name)
		}
	}
	configuration := filepath.Join(t.TempDir(), "scheduler.yaml")
	text := "apiVersion: config.tutti.dev/v1alpha1\nactions: \"allocate, backfill, preempt\"\n" + readLevels(t).Configuration() +
		"configurations:\n- name: backfill\n  arguments: {reserveAfter: 2s, reserveShare: 100}\n" +
		"tiers:\n- plugins:\n  - name: priority\n  - name: gang\n  - name: conformance\n" +
		"- plugins:\n  - name: predicates\n  - name: nodeorder\n  - name: isolcpu\n"
	if err := os.WriteFile(configuration, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env.Scheduler(t, harness.SchedulerOptions{Args: []string{"--config=" + configuration, "--isolated-cpus-without-agents"}})
	for _, s := range all {
		t.Run(s.file, func(t *testing.T) { s.try(t, filepath.Join(folder, s.file)) })
	}
}

func (s *sample) try(t *testing.T, file string) {
	env.Nodes(t, s.nodes...)
	ns := env.Namespace(t)
	lasting := lastingCopy(t, file)
	apply := func(args ...string) {
		t.Helper()
		args = append([]string{"apply", "--validate=strict", "--namespace", ns, "--filename", lasting}, args...)
		if out, err := env.Cluster.Kubectl(t.Context(), args...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	t.Cleanup(func() {
		for _, class := range []string{"batch-urgent", "batch-patient"} {
			object := &unstructured.Unstructured{}
			object.SetAPIVersion("scheduling.k8s.io/v1")
			object.SetKind("PriorityClass")
			object.SetName(class)
			_ = env.Client.Delete(context.Background(), object) // most samples have none
		}
	})
	if s.first > 0 {
		if strings.Contains(s.file, "priorities") {
			applyClasses(t, lasting)
		}
		apply("--selector", "sample=first")
		env.Eventually(t, func() error { return boundOf(t, ns, "", s.first) })
	}
	apply()
	if len(s.again) > 0 {
		env.Eventually(t, func() error { return s.boundAsItSays(t, ns) })
		// The Job controller counts the evictions as failures, and waits 10 s after the first, twice as long after each further one:
		// 40 s after three.
		env.Eventually(t, func() error { return s.createdAgain(t, ns) })
	}
	env.Eventually(t, func() error { return s.asItSays(t, ns) })
}

// boundAsItSays is nil when as many pods are bound as the sample says.
func (s *sample) boundAsItSays(t *testing.T, ns string) error {
	var wrong []error
	for prefix, want := range s.bound {
		wrong = append(wrong, boundOf(t, ns, prefix, want))
	}
	return errors.Join(wrong...)
}

// createdAgain is nil when the pods that come again after an eviction are there.
func (s *sample) createdAgain(t *testing.T, ns string) error {
	pods, err := env.Pods(t.Context(), ns)
	if err != nil {
		return err
	}
	for prefix, want := range s.again {
		waiting := 0
		for i := range pods {
			if strings.HasPrefix(pods[i].Name, prefix) && pods[i].Spec.NodeName == "" {
				waiting++
			}
		}
		if waiting != want {
			return fmt.Errorf("%d pods %s* wait for a node, want %d", waiting, prefix, want)
		}
	}
	return nil
}

// asItSays is nil when everything is as the sample says.
func (s *sample) asItSays(t *testing.T, ns string) error {
	wrong := []error{s.boundAsItSays(t, ns)}
	for name, reason := range s.waits {
		wrong = append(wrong, waits(t, group(ns, name, 0), reason))
	}
	if s.reserved != "" {
		large := group(ns, s.reserved, 0)
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(large), large); err != nil {
			return err
		}
		if r := large.Status.Reservation; r == nil || r.ExpectedStart == nil {
			wrong = append(wrong, fmt.Errorf("reservation %+v, want one with an expected start", r))
		}
	}
	pods, err := env.Pods(t.Context(), ns)
	for i := range pods {
		for _, name := range s.annotations {
			if pods[i].Annotations["scheduling.tutti.dev/"+name] == "" {
				wrong = append(wrong, fmt.Errorf("pod %s has no annotation %s", pods[i].Name, name))
			}
		}
	}
	return errors.Join(append(wrong, err)...)
}

// applyClasses applies the priority classes of a file.
func applyClasses(t *testing.T, file string) {
	t.Helper()
	for _, object := range objectsOf(t, file) {
		if object.GetKind() == "PriorityClass" {
			env.Create(t, object)
		}
	}
}

// lastingCopy writes a copy of a file whose pods run until they are deleted.
func lastingCopy(t *testing.T, file string) string {
	t.Helper()
	var text bytes.Buffer
	for _, object := range objectsOf(t, file) {
		if object.GetKind() == "Job" {
			annotations, _, err := unstructured.NestedStringMap(object.Object, "spec", "template", "metadata", "annotations")
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[cluster.RunFor] = "1h"
			err = errors.Join(err, unstructured.SetNestedStringMap(object.Object, annotations, "spec", "template", "metadata", "annotations"))
			if err != nil {
				t.Fatal(err)
			}
		}
		written, err := sigsyaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "---\n%s", written)
	}
	lasting := filepath.Join(t.TempDir(), filepath.Base(file))
	if err := os.WriteFile(lasting, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return lasting
}

func objectsOf(t *testing.T, file string) (objects []*unstructured.Unstructured) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		objects = append(objects, object)
	}
}

func rootFolder(t *testing.T) string {
	t.Helper()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// TestImplicitGroup starts a batch/v1 Job that says its minimum in its template, whole, and tells on its pods what it waits
// for. A PodGroup that comes takes its place.
func TestImplicitGroup(t *testing.T) {
	env.Nodes(t, cluster.Nodes("implicit", 1, map[string]string{"cpu": "2", "memory": "8Gi"})...)
	env.Scheduler(t, harness.SchedulerOptions{})
	ns := env.Namespace(t)
	saying := func(minMember string) harness.PodOption {
		return harness.PodAnnotations(map[string]string{"scheduling.tutti.dev/min-member": minMember})
	}
	env.Create(t, members(ns, "own", "", 3, saying("3"))...)
	env.Eventually(t, func() error {
		pods, err := env.Pods(t.Context(), ns)
		if err != nil {
			return err
		}
		marked := 0
		for i := range pods {
			for _, condition := range pods[i].Status.Conditions {
				if condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable {
					marked++
				}
			}
		}
		if marked != 3 {
			return fmt.Errorf("%d pods have the condition", marked)
		}
		return boundOf(t, ns, "own-", 0)
	})
	env.Create(t, group(ns, "own", 2))
	env.Eventually(t, func() error { return boundOf(t, ns, "own-", 2) })
	started := group(ns, "own", 0)
	env.Eventually(t, func() error { return inGroupPhase(t, started, "Running") })
}
