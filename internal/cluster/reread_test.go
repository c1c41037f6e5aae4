package cluster

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	groupfake "github.com/tutti-sched/tutti/pkg/generated/clientset/versioned/fake"
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
	s.Apply(Event{Kind: KindNode, Node: node("n")})
	stale := pod("p")
	stale.ResourceVersion = "5"
	s.Apply(Event{Kind: KindPod, Pod: stale})
	newer := pod("q")
	newer.Spec.NodeName, newer.ResourceVersion = "n", "9"
	s.Apply(Event{Kind: KindPod, Pod: newer})

	if err := ListFromQuorum(t.Context(), client, groupClient, []string{"tutti", "two"}, func(event Event) { s.Apply(event) }); err != nil {
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
		err := ListFromQuorum(t.Context(), client, groupClient, []string{"tutti"}, func(Event) {})
		if err == nil || pages != 2 {
			t.Errorf("%s: %v after %d pages", resource, err, pages)
		}
	}
}
