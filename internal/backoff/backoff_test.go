package backoff

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

func all[K comparable](K) bool { return true }

// TestDelaysDouble from the first to the longest, once per delay.
func TestDelaysDouble(t *testing.T) {
	for name, c := range map[string]struct {
		policy Policy
		want   []time.Duration
	}{
		"short first": {Policy{First: 100 * time.Millisecond, Min: time.Second, Max: 5 * time.Second},
			[]time.Duration{100 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second}},
		"no first": {Policy{Min: 10 * time.Second, Max: 30 * time.Second},
			[]time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			b, now := New[string](c.policy), time.Unix(1000, 0)
			for i, want := range c.want {
				b.Fail("a", &model.Refusal{Code: model.BindFailed}, now)
				b.Fail("a", &model.Refusal{Code: model.Quarantined}, now.Add(want/2)) // the same failure
				if got := b.Until("a").Sub(now); got != want || b.Reason("a").Code != model.BindFailed {
					t.Errorf("failure %d: delayed by %s for %v, want %s", i+1, got, b.Reason("a"), want)
				}
				if now = b.Until("a"); b.Delayed("a", now) || !b.Delayed("a", now.Add(-1)) || b.Delayed("b", now.Add(-1)) {
					t.Error("the delay does not end when it says")
				}
			}
			b.Reset("a")
			if b.Fail("a", nil, now); b.Until("a").Sub(now) != c.want[0] {
				t.Error("a failure after a reset is not the first")
			}
		})
	}
}

// TestActiveForgets keys that are gone, and failures that lie longer back than the longest delay; not those that a next failure
// is to be measured by.
func TestActiveForgets(t *testing.T) {
	now := time.Unix(1000, 0)
	b := New[string](Policy{Min: time.Second, Max: 10 * time.Second})
	b.Fail("a", &model.Refusal{Code: model.BindFailed}, now)
	b.Fail("b", nil, now.Add(time.Second))
	reasons, wake := b.Active(now.Add(500*time.Millisecond), all)
	if len(reasons) != 2 || reasons["a"].Code != model.BindFailed || !wake.Equal(now.Add(time.Second)) {
		t.Errorf("active %v until %s", reasons, wake)
	}
	if reasons, wake = b.Active(now.Add(11*time.Second), all); len(reasons) != 0 || !wake.IsZero() || b.Len() != 2 {
		t.Errorf("active %v until %s, %d remembered", reasons, wake, b.Len())
	}
	if b.Active(now.Add(12*time.Second), all); b.Len() != 1 || !b.Until("a").IsZero() {
		t.Errorf("%d remembered after the longest delay", b.Len())
	}
	if b.Active(now, func(key string) bool { return key != "b" }); b.Len() != 0 {
		t.Error("a key is remembered that is gone")
	}
}

// TestApply: what is delayed is shown by job, node and pod; a panic is shown before a bind that failed, and the end of the
// first delay is when to look again.
func TestApply(t *testing.T) {
	now := time.Unix(1000, 0)
	job := &model.Job{Key: model.JobKey{Namespace: "ns", Name: "a"}, UID: "1"}
	snapshot := &model.Snapshot{Jobs: []*model.Job{job}}
	snapshot.AssignIndexes()
	d := NewDelays()
	outcome := &commit.Outcome{Pod: model.PodRef{UID: "p", Name: "p"}, Node: "n1", Refused: true, Message: "no"}
	d.BindFailed(Of(job), outcome, now)
	d.BindFailed(Job{Key: job.Key, UID: "earlier"}, outcome, now)
	d.Evictions.Fail("v", &model.Refusal{Code: model.EvictionRefused}, now)
	exists := func(types.UID) bool { return true }
	if wake := d.Apply(snapshot, exists, now); !wake.Equal(now.Add(100 * time.Millisecond)) {
		t.Errorf("wake at %s", wake)
	}
	const refused = "pod p could not be bound"
	if got := snapshot.JobBackoff[job.Key].String(); got != refused+" to n1: no" {
		t.Errorf("held %q", got)
	}
	if got := snapshot.NodeBackoff[job.Key]["n1"].String(); got != refused+": no" {
		t.Errorf("avoided %q", got)
	}
	if snapshot.BindBackoff["p"] == nil || snapshot.EvictionBackoff["v"] == nil || len(snapshot.BindBackoff)+len(snapshot.EvictionBackoff) != 2 {
		t.Errorf("pods %v, %v", snapshot.BindBackoff, snapshot.EvictionBackoff)
	}
	if d.Len() != 4 {
		t.Errorf("%d remembered; those of an earlier job of the name must not be", d.Len())
	}

	d.Panics.Fail(Of(job), &model.Refusal{Code: model.Quarantined}, now)
	if d.Apply(snapshot, exists, now); snapshot.JobBackoff[job.Key].Code != model.Quarantined {
		t.Errorf("held %v", snapshot.JobBackoff[job.Key])
	}
	if !d.BindSucceeded(Of(job), now) || d.BindSucceeded(Of(job), now) {
		t.Error("a bind that succeeds says once that the job was delayed")
	}
	if d.Apply(snapshot, exists, now); len(snapshot.JobBackoff) != 0 || len(snapshot.NodeBackoff) != 1 {
		t.Errorf("held %v, avoided %v", snapshot.JobBackoff, snapshot.NodeBackoff)
	}
	if d.Apply(snapshot, func(types.UID) bool { return false }, now); len(snapshot.BindBackoff)+len(snapshot.EvictionBackoff) != 0 {
		t.Error("pods are delayed that are gone")
	}
}
