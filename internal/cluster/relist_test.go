package cluster

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	groupfake "github.com/tutti-sched/tutti/apis/client/clientset/versioned/fake"
	groupinformers "github.com/tutti-sched/tutti/apis/client/informers/externalversions"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// TestRereadKnowsWhatTheWatchHasNotShown, and brings nothing back that is older.
func TestRereadKnowsWhatTheWatchHasNotShown(t *testing.T) {
	bound := pod("p")
	bound.Spec.NodeName, bound.ResourceVersion = "n", "7"
	bound.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	older := pod("q")
	older.ResourceVersion = "3"
	client, groupClient := fake.NewClientset(bound, older), groupfake.NewSimpleClientset(group("g", 3))
	var selected []string
	client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		list := action.(clienttesting.ListActionImpl)
		selected = append(selected, list.ListRestrictions.Fields.String())
		if version := list.ListOptions.ResourceVersion; version != "" {
			t.Errorf("asks for version %q, which need not come from a quorum", version)
		}
		return false, nil, nil
	})

	groupClient.PrependReactor("list", "podgroups", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if version := action.(clienttesting.ListActionImpl).ListOptions.ResourceVersion; version != "" {
			t.Errorf("asks for version %q of the groups", version)
		}
		return false, nil, nil
	})

	s := New(Options{SchedulerNames: []string{"tutti"}})
	s.Apply(&NodeSeen{Node: node("n")})
	stale := pod("p")
	stale.ResourceVersion = "5"
	s.Apply(&PodSeen{Pod: stale})
	newer := pod("q")
	newer.Spec.NodeName, newer.ResourceVersion = "n", "9"
	s.Apply(&PodSeen{Pod: newer})

	if _, err := ListFromQuorum(t.Context(), client, groupClient, []string{"tutti", "two"}, func(event Event) { s.Apply(event) }); err != nil {
		t.Fatal(err)
	}
	if len(selected) != 2 || selected[0] != "spec.schedulerName=tutti" || selected[1] != "spec.schedulerName=two" {
		t.Errorf("selected %q", selected)
	}
	if p := s.Pod("p"); p.Spec.NodeName != "n" || p.ManagedFields != nil {
		t.Errorf("the pod is on %q, managed fields %v", p.Spec.NodeName, p.ManagedFields)
	}
	if s.Pod("q").Spec.NodeName != "n" {
		t.Error("an older pod took the place of the newer one")
	}
	if s.Group(ns("g")) == nil {
		t.Error("the group is not known")
	}
}

// TestRereadIsToldOnlyWhenItIsComplete: a list that breaks off is one that has failed.
func TestRereadIsToldOnlyWhenItIsComplete(t *testing.T) {
	for _, resource := range []string{"pods", "podgroups"} {
		client, groupClient := fake.NewClientset(pod("p")), groupfake.NewSimpleClientset(group("g", 3))
		pages := 0
		breaks := func(clienttesting.Action) (bool, runtime.Object, error) {
			if pages++; pages > 1 {
				return true, nil, errors.New("too old a continue token")
			}
			more := metav1.ListMeta{Continue: "more"}
			if resource == "pods" {
				return true, &corev1.PodList{ListMeta: more, Items: []corev1.Pod{*pod("p")}}, nil
			}
			return true, &v1alpha1.PodGroupList{ListMeta: more, Items: []v1alpha1.PodGroup{*group("g", 3)}}, nil
		}
		client.PrependReactor("list", resource, breaks)
		groupClient.PrependReactor("list", resource, breaks)
		_, err := ListFromQuorum(t.Context(), client, groupClient, []string{"tutti"}, func(Event) {})
		if err == nil || pages != 2 {
			t.Errorf("%s: %v after %d pages", resource, err, pages)
		}
	}
}

// TestWhatNoInformerShowsIsForgotten: a pod that was read past the watch, and was deleted before the informer listed again.
func TestWhatNoInformerShowsIsForgotten(t *testing.T) {
	lister := func(version string, pods ...corev1.Pod) *fake.Clientset {
		client := fake.NewClientset()
		client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: version}, Items: pods}, nil
		})
		return client
	}
	groups := func(version string, items ...v1alpha1.PodGroup) *groupfake.Clientset {
		client := groupfake.NewSimpleClientset()
		client.PrependReactor("list", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &v1alpha1.PodGroupList{ListMeta: metav1.ListMeta{ResourceVersion: version}, Items: items}, nil
		})
		return client
	}
	for version, forgets := range map[string]bool{"9": false, "10": true} {
		s := New(Options{SchedulerNames: []string{"tutti"}})
		push := func(event Event) { s.Apply(event) }
		read, err := ListFromQuorum(t.Context(), lister("10", *pod("p"), *pod("q")), groups("10", *group("g", 3)), []string{"tutti"}, push)
		if err != nil {
			t.Fatal(err)
		}
		factory := informers.NewSharedInformerFactory(lister(version, *pod("q")), 0)
		groupFactory := groupinformers.NewSharedInformerFactory(groups("10"), 0)
		factory.Core().V1().Pods().Informer()
		groupFactory.Scheduling().V1alpha1().PodGroups().Informer()
		ctx, stop := context.WithCancel(t.Context())
		factory.Start(ctx.Done())
		groupFactory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		groupFactory.WaitForCacheSync(ctx.Done())
		gone, done := read.Gone(factory, groupFactory)
		for _, event := range gone {
			push(event)
		}
		if done != forgets || (s.Pod("p") == nil) != forgets || (s.Group(ns("g")) == nil) != forgets || s.Pod("q") == nil {
			t.Errorf("informers at version %s: done is %t, p %v, g %v, q %v", version, done, s.Pod("p"), s.Group(ns("g")), s.Pod("q"))
		}
		stop()
		factory.Shutdown()
		groupFactory.Shutdown()
	}
}
