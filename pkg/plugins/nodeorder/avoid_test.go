package nodeorder_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/nodeorder"
)

func TestAvoidedPods(t *testing.T) {
	const avoidsMine = `{"preferAvoidPods":[{"podSignature":{}},{"podSignature":{"podController":` +
		`{"apiVersion":"batch/v1","kind":"Job","name":"other name","uid":"mine","controller":true}}}]}`
	w := newWorld(t, strategy(config.LeastAllocated))
	annotations := []string{
		"", avoidsMine, strings.Replace(avoidsMine, "mine", "another", 1), strings.Replace(avoidsMine, "Job", "ReplicaSet", 1),
		avoidsMine[1:], "{}",
	}
	var nodes []*model.Node
	for i, text := range annotations {
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: string(rune('a' + i))}}
		if text != "" {
			object.Annotations = map[string]string{"scheduler.alpha.kubernetes.io/preferAvoidPods": text}
		}
		nodes = append(nodes, &model.Node{Name: object.Name, Object: object})
	}
	owned := func(uid types.UID, controller bool) *model.Task {
		owner := metav1.OwnerReference{Kind: "Job", Name: "n", UID: uid, Controller: &controller}
		return &model.Task{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{owner}}}}
	}
	weights := nodeorder.Weights{NodePreferAvoidPods: 1}
	got := w.ours(t, weights, owned("mine", true), nodes)["nodepreferavoidpods"]
	if want := []int64{100, 0, 100, 100, 100, 100}; !slices.Equal(got, want) {
		t.Errorf("the scores are %v, want %v", got, want)
	}
	for name, task := range map[string]*model.Task{
		"of a controller without avoidance": owned("unknown", true), "of an owner that does not control it": owned("mine", false),
		"without an owner": {Pod: &corev1.Pod{}},
	} {
		if got, asked := w.ours(t, weights, task, nodes)["nodepreferavoidpods"]; asked {
			t.Errorf("a pod %s is scored: %v", name, got)
		}
	}
	if got, asked := w.ours(t, nodeorder.Weights{}, owned("mine", true), nodes)["nodepreferavoidpods"]; asked {
		t.Errorf("without a weight a pod is scored: %v", got)
	}
}
