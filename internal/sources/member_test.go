package sources

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestMembersAreShared: pods that say the same have one Member, a pod that says nothing has none, and the number of those that
// are kept is bounded.
func TestMembersAreShared(t *testing.T) {
	of := func(labels, annotations map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations}}
	}
	rack := map[string]string{v1alpha1.AnnotationTopology: `[{"level":"rack"}]`}
	attempt := func(n string) map[string]string {
		return map[string]string{jobSetName: "s", jobSetUID: "u", jobSetAttempt: n}
	}
	var said Members
	if got := said.Of(of(map[string]string{"app": "x"}, map[string]string{"note": "y"})); got != nil {
		t.Errorf("a pod without marks says %+v", got)
	}
	first := said.Of(of(attempt("1"), rack))
	if n, ok := first.Made.Attempt.Get(); n != 1 || !ok || first.Made.UID != "u" || first.Made.Name != "s" || len(first.Topology.By) != len(dialects) {
		t.Errorf("a pod of the attempt 1 says %+v", first)
	}
	if said.Of(of(attempt("1"), rack)) != first {
		t.Error("two pods that say the same have two members")
	}
	if other := said.Of(of(attempt("2"), rack)); other == first || other.Topology != first.Topology {
		t.Error("pods of two attempts do not share what they share")
	}
	known, topologies := len(said.known), len(said.said)
	long := map[string]string{v1alpha1.AnnotationTopology: `[{"level":"rack"}` + strings.Repeat(" ", maxSharedText) + "]"}
	if large := said.Of(of(nil, long)); large.Topology == nil || len(said.known) != known || len(said.said) != topologies {
		t.Error("a long annotation is kept beyond its pod")
	}
	for i := range maxShared {
		said.Of(of(map[string]string{v1alpha1.LabelQueue: string(rune(i + 1))}, nil))
	}
	if len(said.known) > maxShared {
		t.Errorf("%d members are kept", len(said.known))
	}
}

// TestRanks: the numbers that labels give a pod, and a label that is no number.
func TestRanks(t *testing.T) {
	const completion = "batch.kubernetes.io/job-completion-index"
	n := model.NumberOf
	for _, c := range []struct {
		labels map[string]string
		want   model.Ranks
		wrong  string
	}{
		{map[string]string{}, model.Ranks{}, ""},
		{map[string]string{model.LabelIndex: "0"}, model.Ranks{Own: n(0)}, ""},
		{map[string]string{model.LabelIndex: "one", completion: "3"}, model.Ranks{Own: model.Unreadable, InJob: n(3)}, "one"},
		{map[string]string{model.LabelIndex: ""}, model.Ranks{Own: model.Unreadable}, ""},
		{map[string]string{model.LabelIndex: "1000001"}, model.Ranks{Own: model.Unreadable}, "1000001"},
		{map[string]string{completion: "2", jobSetJobIndex: "1"}, model.Ranks{InJob: n(2), OfJob: n(1)}, ""},
		{map[string]string{"apps.kubernetes.io/pod-index": "9", LWSWorkerIndex: "4"}, model.Ranks{Other: n(4)}, ""},
		{map[string]string{"apps.kubernetes.io/pod-index": "9", "volcano.sh/task-index": "x"}, model.Ranks{Other: n(9)}, ""},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: c.labels}}
		task := &model.Task{Member: (&Members{}).Of(pod)}
		if got := Ranks(pod); got != c.want || task.Says().WrongIndex != c.wrong {
			t.Errorf("%v: %+v, %q is wrong, want %+v, %q", c.labels, got, task.Says().WrongIndex, c.want, c.wrong)
		}
	}
}

// TestBoundWith reads of a pod for which job it was bound, and counts for that job alone, and where others mark the group.
func TestBoundWith(t *testing.T) {
	job := model.JobKey{Namespace: "ns", Name: "g", Source: model.SourceVolcano}
	for _, c := range []struct {
		text string
		job  model.JobKey
		n    int
		ok   bool
	}{
		{job.String() + " 4", job, 4, true},
		{job.String() + " 0", job, 0, true},
		{job.String() + "x 4", job, -1, false},
		{job.String(), job, -1, false},
		{job.String() + " four", job, -1, false},
		{"", job, -1, false},
		{"ns/g 4", model.JobKey{Namespace: "ns", Name: "g"}, -1, false},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationJob: c.text}}}
		if n, ok := BoundWith(pod, c.job).Get(); ok != c.ok || ok && n != c.n {
			t.Errorf("%q of %s: %d, %t, want %d, %t", c.text, c.job, n, ok, c.n, c.ok)
		}
	}
}
