package place

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// member is a pod with an app and a number, with anti-affinity to those of its app.
func member(app string, number int) *model.Task {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app, "number": fmt.Sprint(number)}}}
	pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, TopologyKey: "rack",
		}},
	}}
	return &model.Task{Pod: pod}
}

// Members are distinguished by their terms and the terms that select them, not by the numbers that their controller gives
// them.
func TestKinds(t *testing.T) {
	var members []*model.Task
	for i := range 20 {
		members = append(members, member("a", i))
	}
	if kinds := newKinds(members).first(members); len(kinds) != 1 {
		t.Errorf("%d kinds of members that differ in their numbers alone", len(kinds))
	}
	silent := member("b", 0)
	silent.Pod.Spec.Affinity = nil
	named := member("a", 0)
	named.Pod.Spec.Affinity = nil
	members = append(members, silent, named, member("b", 1))
	if kinds := newKinds(members).first(members); len(kinds) != 4 {
		t.Errorf("%d kinds, want 4: a and b, speaking and silent", len(kinds))
	}
}

func TestReaches(t *testing.T) {
	byLabels := func(pairs ...string) *metav1.LabelSelector {
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			selector.MatchLabels[pairs[i]] = pairs[i+1]
		}
		return selector
	}
	for _, test := range []struct {
		name          string
		term          corev1.PodAffinityTerm
		surely, maybe bool
	}{
		{"its own", corev1.PodAffinityTerm{}, true, true},
		{"named", corev1.PodAffinityTerm{Namespaces: []string{"x", "own"}}, true, true},
		{"another one", corev1.PodAffinityTerm{Namespaces: []string{"x"}}, false, false},
		{"all", corev1.PodAffinityTerm{NamespaceSelector: byLabels()}, true, true},
		{"by name", corev1.PodAffinityTerm{NamespaceSelector: byLabels(corev1.LabelMetadataName, "own")}, true, true},
		{"another name", corev1.PodAffinityTerm{NamespaceSelector: byLabels(corev1.LabelMetadataName, "x")}, false, false},
		{"by a label", corev1.PodAffinityTerm{NamespaceSelector: byLabels("team", "a")}, false, true},
		{"by a label and another name", corev1.PodAffinityTerm{
			NamespaceSelector: byLabels("team", "a", corev1.LabelMetadataName, "x"),
		}, false, false},
		{"named beside a selector", corev1.PodAffinityTerm{
			NamespaceSelector: byLabels("team", "a"), Namespaces: []string{"own"},
		}, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := coversNamespace(&test.term, "own", certain); got != test.surely {
				t.Errorf("surely: %t", got)
			}
			if got := coversNamespace(&test.term, "own", possible); got != test.maybe {
				t.Errorf("maybe: %t", got)
			}
		})
	}
}
