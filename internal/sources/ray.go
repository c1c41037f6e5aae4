package sources

import (
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// rayCluster is a RayCluster of KubeRay (ray-operator/controllers/ray/utils): its head and the workers of all groups, of each
// no fewer and no more than it says; with the autoscaler as many as each group has at least.
var rayCluster = owned{
	name: "raycluster", kind: model.SourceRayCluster, job: "ray.io/cluster", role: "ray.io/group",
	resource: schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayclusters"},
	is:       isOfRayCluster,
	// A RayJob that is tried again, or resumed, makes a RayCluster of another name, whose pods are in the same group
	// (getAppPodGroupName in controllers/ray/batchscheduler/volcano of KubeRay).
	member: func(pod *corev1.Pod, m *model.Member) {
		m.Renamed = strings.HasPrefix(pod.Annotations[v1alpha1.AnnotationKubeBatchGroup], "ray-") && isOfRayCluster(pod)
	},
	decode: func(f *fields, spec *Spec) {
		autoscales := f.value("spec", "enableInTreeAutoscaling") == true
		spec.addRole(f, model.Role{Name: "headgroup"}, 1)
		for _, group := range f.list("spec", "workerGroupSpecs") {
			least, most := group.integer("minReplicas"), group.integerOr(math.MaxInt32, "maxReplicas")
			n := min(max(group.integerOr(least, "replicas"), least), most)
			if autoscales {
				n = min(least, most)
			}
			if group.value("suspend") != true {
				spec.addRole(f, model.Role{Name: group.text("groupName")}, int64(n)*int64(max(1, group.integer("numOfHosts"))))
			}
		}
		spec.sortRoles()
	},
}.source()

func isOfRayCluster(pod *corev1.Pod) bool {
	controller := metav1.GetControllerOfNoCopy(pod)
	return controller != nil && controller.Kind == "RayCluster"
}
