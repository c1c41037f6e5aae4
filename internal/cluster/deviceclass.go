package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/tutti-sched/tutti/pkg/model"
)

// deviceClassResources knows which resources device classes provide: a node that reports none of such a resource may have
// devices for it, which kube-scheduler's DynamicResources counts, and the node's accounting does not.
type deviceClassResources struct {
	// resources are those of each class, as positions; classes counts the classes that provide the one at a position.
	resources map[string][]int
	classes   map[int]int
}

// requestsAny reports whether a request names a resource that a class provides.
func (b *deviceClassResources) requestsAny(request model.Resources) bool {
	for i := model.Pods + 1; i < len(request); i++ {
		if request[i] > 0 && b.classes[i] > 0 {
			return true
		}
	}
	return false
}

// addUnreported writes what a node offers of the resources that classes provide and it does not report.
func (b *deviceClassResources) addUnreported(allocatable *model.Resources) {
	for position := range b.classes {
		if allocatable.At(position) == 0 {
			allocatable.Set(position, model.ProvidedByDRA)
		}
	}
}

// minKubeletMinor is the first minor version of Kubernetes 1 whose kubelets prepare devices for extended resources by default.
const minKubeletMinor = 36

// lacksDRAExtendedResources reports whether the node's kubelet would start a pod without the devices that stand for its
// extended resources. One that does not say what it is, is not taken for old.
func lacksDRAExtendedResources(node *corev1.Node) bool {
	kubelet, err := version.ParseGeneric(node.Status.NodeInfo.KubeletVersion)
	return err == nil && kubelet.Major() == 1 && kubelet.Minor() < minKubeletMinor
}

// DeviceClassSeen is a new version of a DeviceClass, or its end.
type DeviceClassSeen struct {
	Class *resourceapi.DeviceClass
	Gone  bool
}

func (e *DeviceClassSeen) object() (string, metav1.Object, bool) {
	return "DeviceClass", e.Class, e.Gone
}

func (e *DeviceClassSeen) apply(s *State, _ types.UID) Effect {
	before := s.devices.resources[e.Class.Name]
	delete(s.devices.resources, e.Class.Name)
	var after []int
	if !e.Gone {
		after = s.resourcesOf(e.Class)
		s.devices.resources[e.Class.Name] = after
		for _, position := range after {
			if s.devices.classes[position]++; s.devices.classes[position] == 1 {
				s.recountAffected(position)
			}
		}
	}
	for _, position := range before {
		if s.devices.classes[position]--; s.devices.classes[position] == 0 {
			delete(s.devices.classes, position)
			s.recountAffected(position)
		}
	}
	s.setOffers(s.names(before), s.names(after))
	return Effect{Schedule: true} // which devices it selects may have changed, too
}

// resourcesOf returns the resources that the class stands for: the one that is made of its name, and the one that it names.
func (s *State) resourcesOf(class *resourceapi.DeviceClass) []int {
	names := []corev1.ResourceName{corev1.ResourceName(resourceapi.ResourceDeviceClassPrefix + class.Name)}
	if class.Spec.ExtendedResourceName != nil {
		names = append(names, corev1.ResourceName(*class.Spec.ExtendedResourceName))
	}
	names = slices.DeleteFunc(names, func(name corev1.ResourceName) bool { return !util.IsDRAExtendedResourceName(name) })
	var positions []int
	for _, name := range names {
		positions = append(positions, s.dimensions.Index(name))
	}
	return positions
}

func (s *State) names(positions []int) (names []corev1.ResourceName) {
	for _, position := range positions {
		names = append(names, s.dimensions.Name(position))
	}
	return names
}

// recountAffected looks again at the nodes and pods that offer or request a resource that a class began or ceased to provide.
func (s *State) recountAffected(position int) {
	for name, node := range s.nodes {
		if offer := node.allocatable.At(position); offer == 0 || offer == model.ProvidedByDRA {
			s.readNodeAgain(name)
		}
	}
	s.readAgain(func(known *podState) bool { return known.task.Request.At(position) > 0 })
}
