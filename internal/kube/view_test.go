package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

func podNamed(name string, claims ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	for _, claim := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	return pod
}

func nodeNamed(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// TestCheckFindsDifferences spoils one thing at a time of a view that is right.
func TestCheckFindsDifferences(t *testing.T) {
	b := &model.Task{PodRef: model.PodRef{UID: "b"}, Pod: podNamed("b")}
	for name, spoil := range map[string]func(*View){
		"pod missing":  func(v *View) { v.remove(v.nodes["n"], "a") },
		"pod too many": func(v *View) { v.add(v.nodes["n"], v.pod(b)) },
		"claim count":  func(v *View) { v.claims["ns/c"]++ },
		"index list":   func(v *View) { v.affine = v.all },
		"requested":    func(v *View) { v.nodes["n"].Requested.MilliCPU++ },
		"node missing": func(v *View) { v.DropNodes(v.snapshot.Nodes) },
		"old node":     func(v *View) { v.ChangeNode(nodeNamed("n")) },
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := &model.Snapshot{Dimensions: model.NewDimensions()}
			snapshot.SetNodes([]*model.Node{model.NewNode("n", nodeNamed("n"), nil)})
			snapshot.Move(&model.Task{PodRef: model.PodRef{UID: "a"}, Pod: podNamed("a", "c")}, model.Placement{Status: model.Running, Node: "n"})
			view := NewView(snapshot)
			if err := view.Check(); err != nil {
				t.Fatal(err)
			}
			spoil(view)
			if err := view.Check(); err == nil {
				t.Error("no difference found")
			}
		})
	}
}
