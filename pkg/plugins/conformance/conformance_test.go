package conformance

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestPodsOfTheSystemStay: one of them protects its whole unit.
func TestPodsOfTheSystemStay(t *testing.T) {
	pod := func(namespace, class string) *model.Task {
		return &model.Task{
			PodRef: model.PodRef{Namespace: namespace}, Pod: &corev1.Pod{Spec: corev1.PodSpec{PriorityClassName: class}},
		}
	}
	plain := pod("default", "low")
	for _, c := range []struct {
		tasks []*model.Task
		stays bool
	}{
		{[]*model.Task{plain}, false},
		{[]*model.Task{plain, pod("kube-system", "")}, true},
		{[]*model.Task{pod("default", "system-cluster-critical")}, true},
		{[]*model.Task{pod("default", "system-node-critical"), plain}, true},
		{[]*model.Task{pod("kube-system-like", "system")}, false},
	} {
		picked, decided := plugin{}.FilterVictims(nil, []framework.EvictionUnit{{Tasks: c.tasks}})
		if !decided || (len(picked) == 0) != c.stays {
			t.Errorf("%v of class %q: picked %d, decided %v", c.tasks[0], c.tasks[0].Pod.Spec.PriorityClassName, len(picked), decided)
		}
	}
}
