package cluster

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/tutti-sched/tutti/pkg/model"
)

// deviceClasses are the DeviceClasses there are. Each has one position in the vectors of requests and nodes, whose name is the
// extended resource that the class provides, else the one that is made of the name of the class. So pods that ask for devices
// by a claim, by either resource, or from a device plugin of the same name, are counted together.
type deviceClasses struct {
	objects map[string]*resourceapi.DeviceClass
	// positions are by class, at are the classes by position.
	positions map[string]int
	at        map[int]string
}

// requestsAny reports whether a request names a resource that a class provides.
func (d *deviceClasses) requestsAny(request model.Resources) bool {
	for i := model.Pods + 1; i < len(request); i++ {
		if _, provided := d.at[i]; provided && request[i] > 0 {
			return true
		}
	}
	return false
}

// DeviceClassSeen is a new version of a DeviceClass, or its end.
type DeviceClassSeen struct {
	Class *resourceapi.DeviceClass
	Gone  bool
}

func (e *DeviceClassSeen) object() (string, metav1.Object, bool) {
	return kindDeviceClass, e.Class, e.Gone
}

func (e *DeviceClassSeen) apply(s *State, _ types.UID) Effect {
	var before, after []corev1.ResourceName
	if known := s.devices.classes.objects[e.Class.Name]; known != nil {
		before = namesOf(known)
	}
	delete(s.devices.classes.objects, e.Class.Name)
	if !e.Gone {
		after, s.devices.classes.objects[e.Class.Name] = namesOf(e.Class), e.Class
	}
	s.placeClasses()
	s.setOffers(before, after)
	return Effect{Schedule: true} // which devices it selects may have changed, too
}

// setReported replaces what one node reports. Where a resource of a class begins or ceases to be reported by nodes, devices are
// counted again: see chargeOuter.
func (s *State) setReported(before, after []corev1.ResourceName) {
	count := func(name corev1.ResourceName, by int) {
		was := s.offered.reported[name]
		if s.offered.reported[name] += by; s.offered.reported[name] == 0 {
			delete(s.offered.reported, name)
		}
		position, _ := s.dimensions.Find(name)
		if _, provided := s.devices.classes.at[position]; provided && min(was, was+by) == 0 {
			s.devices.dirty[""] = struct{}{}
		}
	}
	for _, name := range after {
		count(name, 1)
	}
	for _, name := range before {
		count(name, -1)
	}
}

// implicitName is the extended resource that is made of the name of a class (KEP-5004).
func implicitName(class string) corev1.ResourceName {
	return corev1.ResourceName(resourceapi.ResourceDeviceClassPrefix + class)
}

// namesOf returns the resources that stand for devices of the class: the one that is made of its name, and the one that it names.
func namesOf(class *resourceapi.DeviceClass) []corev1.ResourceName {
	names := []corev1.ResourceName{implicitName(class.Name)}
	if named := class.Spec.ExtendedResourceName; named != nil && util.IsDRAExtendedResourceName(corev1.ResourceName(*named)) {
		names = append(names, corev1.ResourceName(*named))
	}
	return names
}

// placeClasses gives each class its position, and reads again what is counted at a position that is another class's now. Of the
// classes that name one resource the newest provides it, and of equally old ones the first by name (extendedresourcecache in
// k8s.io/dynamic-resource-allocation/deviceclass).
func (s *State) placeClasses() {
	provider := map[corev1.ResourceName]*resourceapi.DeviceClass{}
	for _, class := range s.devices.classes.objects {
		for _, name := range namesOf(class)[1:] {
			if other := provider[name]; other == nil || cmp.Or(
				class.CreationTimestamp.Compare(other.CreationTimestamp.Time), cmp.Compare(other.Name, class.Name)) > 0 {
				provider[name] = class
			}
		}
	}
	before := s.devices.classes.positions
	s.devices.classes.positions, s.devices.classes.at = map[string]int{}, map[int]string{}
	for _, name := range slices.Sorted(maps.Keys(s.devices.classes.objects)) {
		resource := implicitName(name)
		for _, named := range namesOf(s.devices.classes.objects[name])[1:] {
			if provider[named].Name == name {
				resource = named
			}
		}
		s.dimensions.Alias(implicitName(name), resource)
		position := s.dimensions.Index(resource)
		s.devices.classes.positions[name], s.devices.classes.at[position] = position, name
	}
	moved := map[int]bool{}
	for name, position := range before {
		if now, there := s.devices.classes.positions[name]; !there || now != position {
			moved[position] = true
		}
		if s.devices.classes.objects[name] == nil {
			s.dimensions.Alias(implicitName(name), implicitName(name))
		}
	}
	for name, position := range s.devices.classes.positions {
		if was, there := before[name]; !there || was != position {
			moved[position] = true
		}
	}
	if len(moved) == 0 {
		return
	}
	s.queues.dirty = s.queues.dirty || s.queues.any() // their limits may name the resource that has another position now
	s.readReservationsAgain()
	s.devices.dirty[""] = struct{}{} // a pod that holds devices of a claim that it does not name has nothing of a class that was not there
	for name := range s.nodes {
		s.readNodeAgain(name)
	}
	s.readAgain(func(known *podState) bool {
		for position := range moved {
			if known.task.Request.At(position) > 0 {
				return true
			}
		}
		return known.devices != nil
	})
}
