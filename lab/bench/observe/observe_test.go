package observe

import (
	"context"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

func TestParseWrites(t *testing.T) {
	writes, err := parseWrites(`# TYPE apiserver_request_total counter
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 7
apiserver_request_total{code="409",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 1
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="binding",verb="POST",version="v1"} 1.5e+03
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1"} 3
apiserver_request_total{code="200",component="apiserver",dry_run="",group="coordination.k8s.io",resource="leases",scope="resource",subresource="",verb="PUT",version="v1"} 9
`)
	if want := map[string]int{"pods": 8, "pods/binding": 1500}; err != nil || !maps.Equal(writes, want) {
		t.Errorf("%v, %v; want %v", writes, err, want)
	}
}

// observer watches two gangs of two.
func observer() *Observer {
	return &Observer{
		gangs: map[string]*Gang{"a": {Minimum: 2}, "b": {Minimum: 2}}, bound: map[types.UID]struct{}{},
	}
}

func bound(gang, uid string) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}
	pod.UID, pod.Labels = types.UID(uid), map[string]string{v1alpha1.LabelPodGroup: gang}
	return pod
}

func TestAGangStartsWithItsMinimum(t *testing.T) {
	o, at := observer(), time.Unix(100, 0)
	second := at.Add(time.Second)
	o.see(at, bound("a", "1"))
	o.see(second, bound("a", "1")) // some other change of the same pod
	if gang := o.Gangs()["a"]; !gang.Partial() || gang.Bound != 1 || !gang.First.Equal(at) || gang.Answered() {
		t.Errorf("with one of two members it is %+v", gang)
	}
	o.see(second, bound("a", "2"))
	if gang := o.Gangs()["a"]; gang.Partial() || !gang.Started.Equal(second) || !gang.Answered() {
		t.Errorf("with both members it is %+v", gang)
	}
	if count, last := o.Bound(); count != 2 || !last.Equal(second) {
		t.Errorf("%d pods bound, the last at %s", count, last)
	}
}

func TestAWaitingGangHasToSayWhy(t *testing.T) {
	o := observer()
	group := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	for reason, answered := range map[string]bool{"": false, "InsufficientResources": true} {
		group.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionFalse, Reason: reason,
		}}
		o.see(time.Unix(1, 0), group)
		if gang := o.Gangs()["b"]; gang.Answered() != answered {
			t.Errorf("reason %q: %+v", reason, gang)
		}
	}
	o.see(time.Unix(2, 0), bound("b", "1"))
	if gang := o.Gangs()["b"]; gang.Answered() {
		t.Error("a partial gang counts as answered because it says why it waits")
	}
}

// TestAWatchThatEndsIsGoneOnWith lets a server end its watch after the first pod.
func TestAWatchThatEndsIsGoneOnWith(t *testing.T) {
	o := observer()
	first, second := watch.NewFakeWithChanSize(1, false), watch.NewFakeWithChanSize(1, false)
	pod := bound("a", "1")
	pod.ResourceVersion = "7"
	first.Add(pod)
	first.Stop()
	second.Add(bound("a", "2"))
	opened := make(chan string, 1)
	from := source{what: "pods", open: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
		opened <- options.ResourceVersion
		return second, nil
	}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		o.follow(ctx, from, "5", first)
		close(ended)
	}()
	if version := <-opened; version != "7" {
		t.Errorf("the second watch begins at version %s", version)
	}
	if err := o.WaitBound(ctx, 2); err != nil {
		t.Error(err)
	}
	cancel()
	second.Stop()
	<-ended
}

func TestWatchesThatBringNothingAndEndAreAnError(t *testing.T) {
	o, opened := observer(), 0
	empty := func() watch.Interface {
		events := watch.NewFake()
		events.Stop()
		return events
	}
	from := source{what: "pods", open: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
		opened++
		return empty(), nil
	}}
	o.follow(t.Context(), from, "5", empty())
	if err := o.WaitBound(t.Context(), 1); err == nil || opened != barren-1 {
		t.Errorf("%d watches more, then error %v", opened, err)
	}
}
