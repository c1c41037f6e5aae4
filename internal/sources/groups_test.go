package sources

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

func TestOf(t *testing.T) {
	for name, c := range map[string]struct {
		labels, annotations map[string]string
		want                model.JobKey
	}{
		"alone":       {nil, nil, model.JobKey{Namespace: "ns", Name: "p", Source: model.SourcePod}},
		"label":       {map[string]string{v1alpha1.LabelPodGroup: "g"}, nil, model.JobKey{Namespace: "ns", Name: "g"}},
		"empty label": {map[string]string{v1alpha1.LabelPodGroup: ""}, nil, model.JobKey{Namespace: "ns", Name: "p", Source: model.SourcePod}},
		"annotation":  {nil, map[string]string{v1alpha1.AnnotationKubeBatchGroup: "g"}, model.JobKey{Namespace: "ns", Name: "g"}},
		"both": {map[string]string{v1alpha1.LabelPodGroup: "g"}, map[string]string{v1alpha1.AnnotationKubeBatchGroup: "x"},
			model.JobKey{Namespace: "ns", Name: "g"}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: c.labels, Annotations: c.annotations}}
			if got := Without([]string{"volcano"}).Of(pod); got != (Membership{Job: c.want}) {
				t.Errorf("job %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestTheNameOfAGroupIsAValueOfALabel: another one is no name, and the pod waits alone.
func TestTheNameOfAGroupIsAValueOfALabel(t *testing.T) {
	for name, shown := range map[string]string{
		"other/gang": `"other/gang"`, "a\x1b[2Jb": `"a\x1b[2Jb"`, " g": `" g"`, strings.Repeat("g", 1<<18): `"` + strings.Repeat("g", 40) + `…"`,
	} {
		got := Of(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Annotations: map[string]string{
			v1alpha1.AnnotationKubeBatchGroup: name, v1alpha1.AnnotationMinMember: "3"}}})
		want := "pod ns/p: annotation scheduling.k8s.io/group-name is " + shown + ", which cannot be the value of a label"
		if !got.Job.IsPod() || got.Otherwise != nil || got.Malformed == nil || got.Malformed.Code != model.InvalidGroup || got.Malformed.Detail != want {
			t.Errorf("%.20q: %+v, %v", name, got, got.Malformed)
		}
	}
}

func TestOfImplicitGroups(t *testing.T) {
	group := model.JobKey{Namespace: "ns", Name: "g"}
	implicit := func(owner types.UID) model.JobKey {
		return model.JobKey{Namespace: "ns", Name: "g", Source: model.SourceImplicit, Owner: owner}
	}
	otherwise := func(owner types.UID, minMember int32) Membership {
		return Membership{Job: group, Otherwise: &Membership{Job: implicit(owner), MinMember: minMember}}
	}
	for name, c := range map[string]struct {
		written string
		owners  []metav1.OwnerReference
		want    Membership
		problem string
	}{
		"of a controller": {"3", []metav1.OwnerReference{{UID: "other"}, {UID: "u", Controller: new(true)}}, otherwise("u", 3), ""},
		"of unowned":      {"1", nil, otherwise("", 1), ""},
		"not controlled":  {"1", []metav1.OwnerReference{{UID: "other"}}, otherwise("", 1), ""},
		"none":            {"0", nil, otherwise("", 0), `annotation scheduling.tutti.dev/min-member is "0", it must be a whole number from 1 up`},
		"words":           {"all", nil, otherwise("", 0), `annotation scheduling.tutti.dev/min-member is "all", it must be a whole number from 1 up`},
		"too many":        {"2147483648", nil, otherwise("", 0), `annotation scheduling.tutti.dev/min-member is "2147483648", it must be a whole number from 1 up`},
		"empty":           {"", nil, otherwise("", 0), `annotation scheduling.tutti.dev/min-member is "", it must be a whole number from 1 up`},
		"a book":          {strings.Repeat("é", 1000), nil, otherwise("", 0), `annotation scheduling.tutti.dev/min-member is "` + strings.Repeat("é", 20) + `…", it must be a whole number from 1 up`},
	} {
		t.Run(name, func(t *testing.T) {
			got := Of(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "p", OwnerReferences: c.owners, Labels: map[string]string{v1alpha1.LabelPodGroup: "g"},
				Annotations: map[string]string{v1alpha1.AnnotationMinMember: c.written},
			}})
			if malformed := got.Implicit().Malformed; malformed.String() != c.problem || got.Malformed != nil {
				t.Errorf("problem %q, want %q", malformed, c.problem)
			}
			got.Otherwise.Malformed = nil
			if got.Job != c.want.Job || *got.Otherwise != *c.want.Otherwise {
				t.Errorf("got %+v, %+v, want %+v, %+v", got, got.Otherwise, c.want, c.want.Otherwise)
			}
		})
	}
	alone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "p", Annotations: map[string]string{v1alpha1.AnnotationMinMember: "2"},
	}}
	if got := Of(alone); got != (Membership{Job: model.JobKey{Namespace: "ns", Name: "p", Source: model.SourcePod}}) {
		t.Errorf("the annotation alone makes %+v", got)
	}
}

// TestWaitingSinceIsNotBeforeTheMembers: a forged status makes no group wait longer than it can have waited.
func TestWaitingSinceIsNotBeforeTheMembers(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 1, 5, 8, minute, 0, 0, time.UTC) }
	member := func(minute int, status model.Status) *model.Task {
		return &model.Task{Created: at(minute), Placement: model.Placement{Status: status}}
	}
	worker := member(30, model.Pending)
	worker.Role = "worker"
	for name, c := range map[string]struct {
		says, want int
		members    []*model.Task
		roles      []v1alpha1.Role
	}{
		"as it says":             {says: 40, want: 40, members: []*model.Task{member(10, model.Pending), member(20, model.Pending)}},
		"before the group":       {says: 1, want: 5},
		"before its members":     {says: 1, want: 20, members: []*model.Task{member(10, model.Pending), member(20, model.Pending)}},
		"surplus does not count": {says: 21, want: 21, members: []*model.Task{member(10, model.Pending), member(20, model.Pending), member(30, model.Pending)}},
		"who failed is none":     {says: 1, want: 30, members: []*model.Task{member(10, model.Failed), member(20, model.Pending), member(30, model.Pending)}},
		"before those of a role": {
			says: 1, want: 30, members: []*model.Task{member(10, model.Pending), member(20, model.Pending), worker},
			roles: []v1alpha1.Role{{Name: "worker", MinMember: 1}},
		},
	} {
		group := &v1alpha1.PodGroup{Spec: v1alpha1.PodGroupSpec{MinMember: 2, Roles: c.roles}}
		group.CreationTimestamp = metav1.NewTime(at(5))
		says := metav1.NewTime(at(c.says))
		group.Status.WaitingSince = &says
		job := &model.Job{Tasks: c.members}
		if Fill(job, group, model.Minima{}, true); !job.WaitingSince.Equal(at(c.want)) {
			t.Errorf("%s: since %v, want minute %d", name, job.WaitingSince, c.want)
		}
	}
}

// TestAnEvictionIsNotOverWhileTheMinimumCannotBeDecoded: the group keeps its age in the queue, as another one that was evicted.
// As many members as it was whole with are needed, or all.
func TestAnEvictionIsNotOverWhileTheMinimumCannotBeDecoded(t *testing.T) {
	for name, c := range map[string]struct {
		started int32
		bound   int
		evicted bool
	}{
		"none is bound":                    {0, 0, true},
		"some are bound":                   {0, 2, true},
		"all are bound":                    {0, 3, false},
		"as many are bound as were needed": {2, 2, false},
		"fewer are bound than were needed": {2, 1, true},
	} {
		job := &model.Job{Recorded: model.Recorded{Evicted: true}}
		for i := range 3 {
			status := model.Pending
			if i < c.bound {
				status = model.Bound
			}
			job.Tasks = append(job.Tasks, &model.Task{Placement: model.Placement{Status: status}})
		}
		group := &v1alpha1.PodGroup{Status: v1alpha1.PodGroupStatus{StartedMinMember: c.started}}
		if Fill(job, group, model.Minima{}, false); job.Evicted != c.evicted {
			t.Errorf("%s: evicted %v", name, job.Evicted)
		}
	}
}

// BenchmarkOf reads the marks of a pod that has none, but many labels.
func BenchmarkOf(b *testing.B) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: map[string]string{}, Annotations: map[string]string{"a": "b"}}}
	for i := range 10 {
		pod.Labels[strings.Repeat("l", i+1)] = "v"
	}
	b.ReportAllocs()
	for b.Loop() {
		Of(pod)
	}
}
