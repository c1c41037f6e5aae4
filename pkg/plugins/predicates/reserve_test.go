package predicates_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// storeroom has volumes of different sizes on both nodes and one for both, devices on both, and more claims than they can
// serve.
func storeroom() []runtime.Object {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	objects := []runtime.Object{
		&storagev1.StorageClass{
			ObjectMeta:  metav1.ObjectMeta{Name: "local"},
			Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &mode,
		},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "made"}, Provisioner: "x.example.com", VolumeBindingMode: &mode},
		&resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}},
	}
	for i, node := range []string{"a", "a", "b", ""} {
		disk := volume(fmt.Sprintf("disk-%d", i), func(v *corev1.PersistentVolume) {
			v.ResourceVersion, v.Spec.ClaimRef, v.Spec.StorageClassName = "1", nil, "local"
			v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
			v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(int64(i+2)<<30, resource.BinarySI)}
			v.Status.Phase = corev1.VolumeAvailable
		})
		if node != "" {
			disk.Spec.NodeAffinity = onlyOn(node)
		}
		objects = append(objects, disk)
	}
	for i, node := range []string{"a", "b"} {
		slice := &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: node, UID: types.UID("slice-" + node), ResourceVersion: "1"},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: "gpu.example.com", NodeName: &node,
				Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
			},
		}
		for n := range i + 1 {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", n)})
		}
		objects = append(objects, slice)
	}
	for i := range 4 {
		objects = append(objects, lateClaim(fmt.Sprintf("data-%d", i), "local"), lateClaim(fmt.Sprintf("made-%d", i), "made"),
			&resourceapi.ResourceClaim{
				ObjectMeta: metav1.ObjectMeta{
					Name: fmt.Sprintf("gpu-%d", i), Namespace: "default", UID: types.UID(fmt.Sprintf("gpu-%d", i)), ResourceVersion: "1",
				},
				Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
					Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
						DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
					},
				}}}},
			})
	}
	return objects
}

func lateClaim(name, class string) *corev1.PersistentVolumeClaim {
	claim := boundClaim(name)
	claim.UID, claim.ResourceVersion = types.UID(name), "1"
	claim.Annotations, claim.Status.Phase = nil, corev1.ClaimPending
	claim.Spec = corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")},
		},
	}
	return claim
}

// users are the tasks of two gangs, with claims of their own and shared ones, also between the gangs.
func users() []*model.Task {
	var tasks []*model.Task
	for i, claims := range []string{
		"data-0", "data-0 gpu-0", "data-1 gpu-0", "gpu-1", "data-0 data-2 gpu-2", "made-0 gpu-3", "made-0", "data-3 made-1", "gpu-2", "",
	} {
		pod := newPod(fmt.Sprintf("p%d", i))
		for _, claim := range strings.Fields(claims) {
			if strings.HasPrefix(claim, "gpu") {
				pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim, ResourceClaimName: &claim})
				continue
			}
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: volumeClaim(claim)})
		}
		task := taskOf(pod)
		task.Job = model.JobKey{Namespace: "default", Name: fmt.Sprintf("gang-%d", i/6)}
		tasks = append(tasks, task)
	}
	return tasks
}

// TestWhatIsTakenBackNeverWas: after tasks are placed and undone in reverse order, every filter has the same results as
// before.
func TestWhatIsTakenBackNeverWas(t *testing.T) {
	w := newWorld(t, storeroom()...)
	objects := []*corev1.Node{newNode("a"), newNode("b")}
	w.view.show(nil, objects)
	nodes := w.snapshot(objects).Nodes
	tasks := users()
	placements := 0
	rapid.Check(t, func(rt *rapid.T) {
		p := w.newPlugin()
		p.(framework.SessionOpener).OpenSession(fixedView{snapshot: w.snapshot(objects)})
		answers := func() string {
			var b strings.Builder
			for _, task := range tasks {
				checks, refused := p.(framework.NodeFilter).PreFilter(task, framework.ClusterWide)
				for _, node := range nodes {
					answer := refused
					for _, check := range checks {
						if answer == nil {
							answer = check(node)
						}
					}
					fmt.Fprintf(&b, "%s on %s: %v\n", task.Name, node.Name, answer)
				}
			}
			return b.String()
		}
		type placed struct {
			task   *model.Task
			before string
		}
		var log []placed
		undo := func() {
			last := log[len(log)-1]
			log = log[:len(log)-1]
			p.(framework.Reserver).Unreserve(last.task)
			if after := answers(); after != last.before {
				rt.Fatalf("with %s taken back:\n%s\ninstead of\n%s", last.task.Name, after, last.before)
			}
		}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			task := rapid.SampledFrom(tasks).Draw(rt, "task")
			is := func(one placed) bool { return one.task == task }
			if rapid.IntRange(0, 3).Draw(rt, "undo") == 0 || slices.ContainsFunc(log, is) {
				if len(log) > 0 {
					undo()
				}
				continue
			}
			before := answers()
			prepare, refusal := p.(framework.Reserver).Reserve(task, rapid.SampledFrom(nodes).Draw(rt, "node"))
			if refusal != nil {
				if after := answers(); after != before {
					rt.Fatalf("a refusal of %s left\n%s\ninstead of\n%s", task.Name, after, before)
				}
				continue
			}
			if prepare != (len(task.Pod.Spec.Volumes)+len(task.Pod.Spec.ResourceClaims) > 0) {
				rt.Fatalf("%s: prepare %t", task.Name, prepare)
			}
			placements++
			log = append(log, placed{task, before})
		}
		for len(log) > 0 {
			undo()
		}
	})
	if placements < 50 {
		t.Errorf("%d placements are no test", placements)
	}
	for _, action := range w.client.Actions() {
		if verb := action.GetVerb(); verb != "list" && verb != "watch" { // as informers eventually do
			t.Errorf("a request was made: %s %s", verb, action.GetResource().Resource)
		}
	}
}

// TestAnswerOfAFilterHoldsForReserve: what every filter passes can be reserved.
func TestAnswerOfAFilterHoldsForReserve(t *testing.T) {
	w := newWorld(t, storeroom()...)
	objects := []*corev1.Node{newNode("a"), newNode("b")}
	w.view.show(nil, objects)
	for _, task := range users() {
		for i, answer := range w.ask(task.Pod, objects) {
			p := w.newPlugin().(framework.Reserver)
			_, refusal := p.Reserve(task, &model.Node{Name: objects[i].Name, Object: objects[i]})
			if (refusal == nil) != (answer == nil) {
				t.Errorf("%s on %s: the filters say %v, setting aside %v", task.Name, objects[i].Name, answer, refusal)
			}
			p.Unreserve(task)
		}
	}
}
