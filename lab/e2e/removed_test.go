package e2e

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// TestWhatAnEarlierVersionStored: a PodGroup was stored under a CRD with fields that this one does not have. The API server drops
// them, and still says who wrote them; an event says what to write. The advice of the status is emptied.
func TestWhatAnEarlierVersionStored(t *testing.T) {
	ns := env.Namespace(t)
	env.Nodes(t, cluster.Nodes("stored", 1, map[string]string{"cpu": "8"})...)
	old := untyped("PodGroup", ns, "old", map[string]any{"minMember": int64(2), "onMemberLoss": "Restart", "memberLossTimeoutSeconds": int64(60)})
	t.Run("stored", func(t *testing.T) {
		loosen(t, "podgroups.scheduling.tutti.dev")
		env.Eventually(t, func() error {
			stored := old.DeepCopy()
			if err := env.Client.Create(t.Context(), stored); err != nil {
				return err
			}
			if _, kept, _ := unstructured.NestedFieldNoCopy(stored.Object, "spec", "onMemberLoss"); !kept {
				return fmt.Errorf("stored %v; deleted: %v", stored.Object["spec"], env.Client.Delete(t.Context(), stored))
			}
			return nil
		})
	})
	env.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(old), old); err != nil {
			return err
		}
		if spec := fmt.Sprint(old.Object["spec"]); strings.Contains(spec, "emberLoss") {
			return fmt.Errorf("the API server does not drop what the CRD does not have: %s", spec)
		}
		return nil
	})
	advice := []byte(`{"status":{"phase":"Pending","advice":{"message":"add 1 node with 1 cpu"}}}`)
	if err := env.Client.Status().Patch(t.Context(), old, client.RawPatch(types.MergePatchType, advice)); err != nil {
		t.Fatal(err)
	}
	env.Scheduler(t, harness.SchedulerOptions{})
	env.Eventually(t, func() error { return hasEvent(t, ns, "PodGroup", "old", "FieldRemoved") })
	env.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(old), old); err != nil {
			return err
		}
		status := fmt.Sprint(old.Object["status"])
		if strings.Contains(status, "advice") || !strings.Contains(status, "NotEnoughMembers") {
			return fmt.Errorf("the status is %s", status)
		}
		return nil
	})
	env.Create(t, members(ns, "old", "", 2)...)
	env.Eventually(t, func() error { return boundOf(t, ns, "old", 2) })
}
