package model

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// total checks that an order is antisymmetric and transitive, and that distinct things are not equal.
func total[T any](t *rapid.T, compare func(a, b T) int, same func(a, b T) bool, a, b, c T) {
	if sign(compare(a, b)) != -sign(compare(b, a)) {
		t.Fatalf("antisymmetry: %v %v: %d and %d", a, b, compare(a, b), compare(b, a))
	}
	if compare(a, b) <= 0 && compare(b, c) <= 0 && compare(a, c) > 0 {
		t.Fatalf("transitivity: %v %v %v", a, b, c)
	}
	if (compare(a, b) == 0) != same(a, b) {
		t.Fatalf("%v and %v: %d", a, b, compare(a, b))
	}
}

func sign(order int) int { return min(1, max(-1, order)) }

func few(t *rapid.T, what string) string {
	return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, what)
}

func soon(t *rapid.T) time.Time { return time.Unix(rapid.Int64Range(0, 2).Draw(t, "created"), 0) }

func someJob(t *rapid.T) *Job {
	kind := rapid.IntRange(0, int(LastSource)).Draw(t, "kind")
	key := JobKey{Namespace: few(t, "namespace"), Name: few(t, "name"), Source: Source(kind)}
	if key.IsImplicit() {
		key.Owner = types.UID(rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "owner"))
	}
	return &Job{Key: key, UID: types.UID(rapid.SampledFrom([]string{"", "u", "v"}).Draw(t, "uid")), Created: soon(t), QueuedSince: soon(t)}
}

// TestJobOrderIsTotal includes groups that do not exist, which have no UID to distinguish them.
func TestJobOrderIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total(t, CompareJobs, func(a, b *Job) bool {
			return a.Key == b.Key && a.UID == b.UID && a.Created.Equal(b.Created) && a.QueuedSince.Equal(b.QueuedSince)
		},
			someJob(t), someJob(t), someJob(t))
	})
}

func TestKeyOrderIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total(t, JobKey.Compare, func(a, b JobKey) bool { return a == b }, someJob(t).Key, someJob(t).Key, someJob(t).Key)
	})
}

func TestTaskOrderIsTotal(t *testing.T) {
	some := func(t *rapid.T) *Task {
		return &Task{PodRef: PodRef{UID: types.UID(few(t, "uid"))}, Created: soon(t)}
	}
	rapid.Check(t, func(t *rapid.T) {
		total(t, CompareTasks, func(a, b *Task) bool { return a.UID == b.UID && a.Created.Equal(b.Created) },
			some(t), some(t), some(t))
	})
}

// TestStatusClasses lists the statuses once more, independently of the order of the constants.
func TestStatusClasses(t *testing.T) {
	for status, want := range map[Status]struct{ holds, onNode, counts bool }{
		Pending:   {false, false, false},
		Pipelined: {false, true, false},
		Allocated: {true, true, true},
		Binding:   {true, true, true},
		Bound:     {true, true, true},
		Running:   {true, true, true},
		Releasing: {true, true, false},
		Succeeded: {false, false, true},
		Failed:    {false, false, false},
	} {
		if status.Occupies() != want.holds || status.HasNode() != want.onNode || status.CountsTowardMinimum() != want.counts {
			t.Errorf("%s: holds %v, on node %v, counts %v; want %+v",
				status, status.Occupies(), status.HasNode(), status.CountsTowardMinimum(), want)
		}
	}
}
