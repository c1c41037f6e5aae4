package kube

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// TestInventoryWatchOutOfOrder: the tracker delivers changes of one slice in any order, and what it has is known in the end.
func TestInventoryWatchOutOfOrder(t *testing.T) {
	node := "a"
	versions := []*resourceapi.ResourceSlice{nil}
	for _, device := range []string{"one", "two", "three"} {
		versions = append(versions, &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "slice"}, Spec: resourceapi.ResourceSliceSpec{
				Driver: "gpu.example.com", NodeName: &node, Pool: resourceapi.ResourcePool{Name: "a", ResourceSliceCount: 1},
				Devices: []resourceapi.Device{{Name: device}},
			},
		})
	}
	versions = append(versions, nil)
	for last := 1; last < len(versions); last++ {
		for _, order := range [][]int{{1, 2, 3, 4}, {4, 3, 2, 1}, {2, 1, 4, 3}, {3, 1, 4, 2}, {1, 3, 2, 4}} {
			has := ""
			inventory := NewDeviceInventory(func(devices *NodeDevices) {
				has = ""
				if len(devices.Devices) > 0 {
					has = devices.Devices[0].ID.Device
				}
			})
			want, stored := "", []*resourceapi.ResourceSlice(nil)
			if versions[last] != nil {
				want, stored = versions[last].Spec.Devices[0].Name, versions[last:last+1]
			}
			watch := newInventoryWatch(inventory, func() ([]*resourceapi.ResourceSlice, error) { return stored, nil })
			for _, event := range order {
				switch {
				case event > last:
				case event == 1:
					watch.sliceEvent(nil, versions[1])
				case versions[event] == nil:
					watch.sliceEvent(cache.DeletedFinalStateUnknown{Key: "slice", Obj: versions[event-1]}, nil)
				default:
					watch.sliceEvent(versions[event-1], versions[event])
				}
			}
			if has != want {
				t.Errorf("after %d changes in order %v the device is %q, want %q", last, order, has, want)
			}
			if len(watch.added) != len(stored) {
				t.Errorf("after %d changes in order %v of the slice is known %v", last, order, watch.added)
			}
			if stored != nil { // none was delivered
				has = ""
				other := newInventoryWatch(NewDeviceInventory(inventory.push), watch.list)
				if other.takeAll(); has != want {
					t.Errorf("all that the tracker has is %q, want %q", has, want)
				}
			}
		}
	}
}

// TestInventoryWatchHeldUp: any one event comes after any later one, of a slice that is deleted and made again, and of which the
// tracker has another object with the same content now and then, without an event. What it has is known after the last event, and
// nothing is kept of a slice that is gone.
func TestInventoryWatchHeldUp(t *testing.T) {
	type event struct{ before, now *resourceapi.ResourceSlice }
	node := "a"
	next := func(device string) *resourceapi.ResourceSlice {
		return &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "slice"}, Spec: resourceapi.ResourceSliceSpec{
				Driver: "gpu.example.com", NodeName: &node, Pool: resourceapi.ResourcePool{Name: "a", ResourceSliceCount: 1},
				Devices: []resourceapi.Device{{Name: device}},
			},
		}
	}
	var events []event
	var stored []*resourceapi.ResourceSlice // the tracker's after each event
	var last *resourceapi.ResourceSlice
	for _, device := range []string{"one", "two", "three", "", "four", "five", "", "six"} {
		before := last
		if last = nil; device != "" {
			last = next(device)
		}
		events = append(events, event{before, last})
		if device == "two" || device == "five" {
			last = last.DeepCopy()
		}
		stored = append(stored, last)
	}
	for end := range events {
		for held := range end + 1 {
			for after := held; after <= end; after++ {
				has, want := "", ""
				inventory := NewDeviceInventory(func(devices *NodeDevices) {
					has = ""
					if len(devices.Devices) > 0 {
						has = devices.Devices[0].ID.Device
					}
				})
				at := 0
				watch := newInventoryWatch(inventory, func() ([]*resourceapi.ResourceSlice, error) {
					if stored[at] == nil {
						return nil, nil
					}
					return stored[at : at+1], nil
				})
				if stored[end] != nil {
					want = stored[end].Spec.Devices[0].Name
				}
				for i, one := range events[:end+1] {
					if at = i; i != held {
						watch.slice("slice", one.before, one.now)
					}
					if i == after {
						watch.slice("slice", events[held].before, events[held].now)
					}
				}
				if has != want || (len(watch.added) > 0) != (want != "") {
					t.Errorf("of %d events number %d comes after %d: the device is %q, want %q; known is %v", end+1, held, after, has, want, watch.added)
				}
			}
		}
	}
}

// TestSlicesForANodeAreReadAtAnyTime: while selectors of classes are evaluated for all devices, a reservation reads those of its
// node.
func TestSlicesForANodeAreReadAtAnyTime(t *testing.T) {
	node, read := "a", 0
	var inventory *DeviceInventory
	inventory = NewDeviceInventory(func(*NodeDevices) { read = len(inventory.slicesFor(node)) })
	for _, name := range []string{"one", "two"} {
		inventory.SetSlice(&resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceSliceSpec{
				Driver: "gpu.example.com", NodeName: &node, Pool: resourceapi.ResourcePool{Name: name, ResourceSliceCount: 1},
				Devices: []resourceapi.Device{{Name: "device"}},
			},
		})
	}
	read = 0
	if inventory.SetClass(&resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}); read != 2 {
		t.Errorf("%d slices were read, want two", read)
	}
}
