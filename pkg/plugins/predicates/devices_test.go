package predicates_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestOldKubeletHasNoDevices: a kubelet before 1.36 starts a pod without the devices that stand for an extended resource; it
// prepares those of a claim, and those that its node reports.
func TestOldKubeletHasNoDevices(t *testing.T) {
	provides := string(gpu)
	w := newWorld(t, &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: &provides}})
	for _, want := range []bool{true, false} {
		for how, passes := range map[string]bool{"extended": want, "claim": true, "reported": true} {
			node := newNode("a", func(*corev1.Node) {})
			if how == "reported" {
				node.Status.Allocatable = corev1.ResourceList{gpu: resource.MustParse("1")}
			}
			nodes := []*corev1.Node{node}
			w.view.show(nil, nodes)
			snapshot, task := w.snapshot(nodes), taskOf(newPod("p"))
			snapshot.Nodes[0].OldKubelet = !want
			position := snapshot.Dimensions.Index(gpu)
			task.Request.Set(position, 1)
			if task.MayUseDeviceClass = how != "claim"; how == "claim" {
				task.Devices = &model.Devices{Claimed: task.Request}
			}
			plugin := w.newPlugin().(framework.NodeFilter)
			plugin.(framework.SessionOpener).OpenSession(fixedView{snapshot: snapshot})
			checks, refused := plugin.PreFilter(task, framework.ClusterWide)
			for _, check := range checks {
				if refused == nil {
					refused = check(snapshot.Nodes[0])
				}
			}
			if (refused == nil) != passes {
				t.Errorf("old %t, %s: %v", !want, how, refused)
			}
		}
	}
}
