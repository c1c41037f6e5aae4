package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// loosen lets the API server store anything in the specs of a kind of ours, until the test ends.
func loosen(t *testing.T, crd string) {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("apiextensions.k8s.io/v1")
	object.SetKind("CustomResourceDefinition")
	if err := env.Client.Get(t.Context(), client.ObjectKey{Name: crd}, object); err != nil {
		t.Fatal(err)
	}
	before := object.DeepCopy()
	versions, _, err := unstructured.NestedSlice(object.Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range versions {
		unstructured.RemoveNestedField(version.(map[string]any), "selectableFields")
		unstructured.RemoveNestedField(version.(map[string]any), "schema", "openAPIV3Schema", "x-kubernetes-validations")
		err = errors.Join(err, unstructured.SetNestedMap(version.(map[string]any), map[string]any{"x-kubernetes-preserve-unknown-fields": true},
			"schema", "openAPIV3Schema", "properties", "spec"))
	}
	if err = errors.Join(err, unstructured.SetNestedSlice(object.Object, versions, "spec", "versions"), env.Client.Update(t.Context(), object)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
			if err := env.Client.Get(ctx, client.ObjectKey{Name: crd}, object); err != nil {
				return false, err
			}
			object.Object["spec"] = before.Object["spec"]
			err := env.Client.Update(ctx, object)
			return err == nil, nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// untyped is an object of ours with a spec that no type holds.
func untyped(kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetAPIVersion(v1alpha1.SchemeGroupVersion.String())
	object.SetKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// explains is nil when the condition of an object has that reason and these words. It reads the object without its type.
func explains(t *testing.T, object *unstructured.Unstructured, kind, reason, words string) error {
	t.Helper()
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, one := range conditions {
		if c := one.(map[string]any); c["type"] == kind && c["reason"] == reason && strings.Contains(fmt.Sprint(c["message"]), words) {
			return nil
		}
	}
	return errors.Join(err, fmt.Errorf("%s %s says %v, want %s %s", object.GetKind(), object.GetName(), conditions, reason, words))
}

// patchSpec changes the spec of an object by a merge patch, as soon as the API server lets it.
func patchSpec(t *testing.T, object client.Object, spec string) {
	t.Helper()
	env.Eventually(t, func() error {
		return env.Client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"spec":`+spec+`}`)))
	})
}

// TestOneObjectThatCannotBeDecodedStopsOnlyItself: a Queue and a PodGroup with a field of another type than it should have, which
// come while the scheduler runs, and are there when the next one starts.
func TestOneObjectThatCannotBeDecodedStopsOnlyItself(t *testing.T) {
	ns := env.Namespace(t)
	env.Nodes(t, cluster.Nodes("undecodable", 2, map[string]string{"cpu": "8"})...)
	createQueues(t, queueOf("undecodable-bad", "8"), queueOf("undecodable-fine", "8"))
	scheduler := env.Scheduler(t, harness.SchedulerOptions{})
	gangIn(t, ns, "undecodable-bad", "runs", 2)
	env.Eventually(t, func() error { return boundOf(t, ns, "runs", 2) })
	before := uidsIn(t, ns)

	loosen(t, "queues.scheduling.tutti.dev")
	loosen(t, "podgroups.scheduling.tutti.dev")
	queue := untyped("Queue", "", "undecodable-bad", nil)
	patchSpec(t, queue, `{"limit":{"nvidia.com/gpu":"eight"}}`)
	broken := untyped("PodGroup", ns, "broken", map[string]any{"minMember": "two"})
	env.Eventually(t, func() error { return env.Client.Create(t.Context(), broken.DeepCopy()) })
	env.Create(t, members(ns, "broken", "", 2)...)
	later := gangIn(t, ns, "undecodable-bad", "later", 1)
	stops := func(when string) {
		t.Helper()
		env.Eventually(t, func() error {
			return explains(t, queue, v1alpha1.ConditionActive, "Invalid", `spec.limit[nvidia.com/gpu] is "eight", it must be an amount of a resource`)
		})
		env.Eventually(t, func() error {
			return explains(t, broken, v1alpha1.ConditionScheduled, "Malformed", `spec.minMember is "two", it must be a whole number`)
		})
		env.Eventually(t, func() error { return waits(t, later, "QueueInvalid") })
		gangIn(t, ns, "undecodable-fine", when, 2)
		env.Eventually(t, func() error { return boundOf(t, ns, when, 2) })
	}
	stops("while-it-runs")
	scheduler.Kill()
	env.Scheduler(t, harness.SchedulerOptions{})
	stops("after-a-restart")

	patchSpec(t, queue, `{"limit":{"nvidia.com/gpu":null}}`)
	patchSpec(t, broken, `{"minMember":2}`)
	env.Eventually(t, func() error { return boundOf(t, ns, "later", 1) })
	env.Eventually(t, func() error { return boundOf(t, ns, "broken", 2) })
	after := uidsIn(t, ns)
	for uid, name := range before {
		if after[uid] != name {
			t.Errorf("pod %s is gone", name)
		}
	}
}
