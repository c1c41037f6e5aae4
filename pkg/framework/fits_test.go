package framework

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// TestSumsOfForgottenLevelsAreDropped: users name keys of labels, and sums are kept for the levels that the cache has alone.
func TestSumsOfForgottenLevelsAreDropped(t *testing.T) {
	snapshot := &model.Snapshot{
		Dimensions: model.NewDimensions(), Nodes: []*model.Node{{Name: "n1", Object: &corev1.Node{}}},
	}
	profile, cache := &Profile{}, Cache{}
	task := &model.Task{Pod: &corev1.Pod{}, Shape: shapes[0]}
	for i := range 10 * maxLabelLevels {
		session := Open(snapshot, profile, Options{Cache: &cache})
		level := session.Domains(fmt.Sprint("label:k", i))
		session.Fits(task, model.Idle).In(level)
		session.Close()
		for known := range cache.shapes[task.Shape].fits[model.Idle].sums {
			if cache.domains[known.Level] != known {
				t.Fatalf("after %d levels there are sums of %s, which is forgotten", i+1, known.Level)
			}
		}
	}
}
