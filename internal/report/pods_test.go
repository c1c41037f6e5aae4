package report

import (
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// TestOnlyARefusalAboutCapacityIsUnschedulable: for that reason of a pod autoscalers add nodes, which helps no job that waits for
// something else. The page for operators says which those are; hack/house wants each code there. Each member that waits has the
// reason, with a PodGroup and without one.
func TestOnlyARefusalAboutCapacityIsUnschedulable(t *testing.T) {
	page, err := os.ReadFile("../../docs/autoscaling.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([A-Z][A-Za-z]+)` \\| (yes|no)").FindAllStringSubmatch(string(page), -1)
	if len(rows) < 20 {
		t.Fatalf("the table has only %q", rows)
	}
	d := newDesk()
	for _, row := range rows {
		code, want := row[1], row[1]
		if row[2] == "yes" {
			want = corev1.PodReasonUnschedulable
		}
		key := d.gang("a", code, 2, model.Code(code))
		without := d.gang("b", code, 1, model.Code(code))
		job := d.jobs[len(d.jobs)-1]
		job.HasGroup, job.Key.Source = false, model.SourceImplicit
		d.refusals[job.Key] = d.refusals[without]
		d.after(time.Minute)
		for member := range 2 {
			if got, want := d.reason(key, member), code+" "+want; got != want {
				t.Errorf("member %d says %q, want %q", member, got, want)
			}
		}
		if pod := model.PodScheduled(job.Tasks[0].Pod); pod == nil || pod.Status != corev1.ConditionFalse || pod.Reason != want {
			t.Errorf("the pod of a job without a PodGroup says %+v, want %s", pod, want)
		}
	}
}

// TestAllOfAGangIsUnschedulableWithinAWindow, also one of the largest size that is measured whose members lacked others before:
// an autoscaler that sees a part of them adds nodes for a part. What is said of them later is bounded as before.
func TestAllOfAGangIsUnschedulableWithinAWindow(t *testing.T) {
	const members = mostUrgent
	d := newDesk()
	key := d.gang("a", "g", members, model.NotEnoughMembers)
	marked := func() (count int) {
		for member := range members {
			pod := model.PodScheduled(d.pods[types.UID(fmt.Sprint("a/g-", member))].Pod)
			if pod != nil && pod.Reason == corev1.PodReasonUnschedulable {
				count++
			}
		}
		return count
	}
	d.after(0)
	d.says(key, model.InsufficientResources)
	d.after(budgetWindow)
	if got := marked(); got != members {
		t.Errorf("%d of %d pods are marked within %s", got, members, budgetWindow)
	}
	d.says(key, model.QueueLimit)
	d.after(budgetWindow)
	if got := marked(); got != members-mostRepeated {
		t.Errorf("%d pods are marked, want %d: other reasons have the smaller budget", got, members-mostRepeated)
	}
}
