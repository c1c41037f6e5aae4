package kube

import (
	"fmt"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
)

// WatchDevices has push called with the devices of each node that has any, and whenever they are not what they were, as
// NewDeviceInventory says: on the informers' goroutines and, once, on that of HasSynced, which is true only after all devices
// that were first listed were pushed. Nothing is pushed before the plugins know. Call it before the informers start, once.
func (p *Plugins) WatchDevices(push func(*NodeDevices)) error {
	watch := p.slices
	watch.inventory.mu.Lock()
	watch.inventory.push = push
	watch.inventory.mu.Unlock()
	byClass, err := p.deps.Informers.Resource().V1().DeviceClasses().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    watch.class,
		UpdateFunc: func(_, now any) { watch.class(now) },
		DeleteFunc: func(before any) {
			if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(before); err == nil {
				watch.inventory.RemoveClass(name)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("device classes: %w", err)
	}
	p.inventorySynced = byClass.HasSynced
	return nil
}

// inventoryWatch tells an inventory what the slice tracker and the informer of device classes tell, and then others that it has
// changed. The tracker delivers its events on several goroutines and may do so out of order.
type inventoryWatch struct {
	notifyingCache
	inventory *DeviceInventory
	list      func() ([]*resourceapi.ResourceSlice, error)
	first     sync.Once
	added     map[string]int // how often a slice was added less how often deleted, unless it is 0; the inventory's mutex guards it
}

// watchSlices returns the watch of all slices, with the taints of rules.
func watchSlices(tracker *resourceslicetracker.Tracker) (*inventoryWatch, error) {
	watch := newInventoryWatch(NewDeviceInventory(nil), tracker.ListPatchedResourceSlices)
	tell := func(before, now any) {
		watch.sliceEvent(before, now)
		watch.notify()
	}
	registration, err := tracker.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { tell(nil, now) },
		UpdateFunc: tell,
		DeleteFunc: func(before any) { tell(before, nil) },
	})
	if err != nil {
		return nil, fmt.Errorf("resource slices: %w", err)
	}
	watch.synced = func() bool {
		if !registration.HasSynced() {
			return false
		}
		watch.first.Do(watch.takeAll)
		return true
	}
	return watch, nil
}

func newInventoryWatch(inventory *DeviceInventory, list func() ([]*resourceapi.ResourceSlice, error)) *inventoryWatch {
	return &inventoryWatch{inventory: inventory, list: list, added: map[string]int{}}
}

func (w *inventoryWatch) sliceEvent(before, now any) {
	object := now
	if object == nil {
		object = before
	}
	if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
		w.slice(name, sliceOf(before), sliceOf(now))
	}
}

// slice takes in a change of the slice of the name, from before to now; nil is none. Where the slice was not as before, the
// tracker's own slice is taken: an event is late, or the tracker has exchanged the slice without one, as it does when a rule
// changes that taints no device of it. So it is with an addition that comes after its deletion.
func (w *inventoryWatch) slice(name string, before, now *resourceapi.ResourceSlice) {
	w.inventory.mu.Lock()
	defer w.inventory.mu.Unlock()
	var known *resourceapi.ResourceSlice
	if slice := w.inventory.slices[name]; slice != nil {
		known = slice.ResourceSlice
	}
	late := known != before || before == nil && w.added[name] < 0
	switch {
	case before == nil:
		w.added[name]++
	case now == nil:
		w.added[name]--
	}
	if w.added[name] == 0 {
		delete(w.added, name)
	}
	if late {
		all, err := w.list()
		if err != nil {
			return // a list of what is cached does not fail
		}
		now = nil
		for _, slice := range all {
			if slice.Name == name {
				now = slice
			}
		}
	}
	if known != now {
		w.inventory.replace(name, now)
	}
}

// takeAll takes in what the tracker has and may still be about to deliver.
func (w *inventoryWatch) takeAll() {
	all, err := w.list()
	if err != nil {
		return // a list of what is cached does not fail
	}
	for _, slice := range all {
		w.slice(slice.Name, slice, slice)
	}
}

// sliceOf returns the slice of an event, nil where there is none.
func sliceOf(object any) *resourceapi.ResourceSlice {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	slice, _ := object.(*resourceapi.ResourceSlice)
	return slice
}

func (w *inventoryWatch) class(object any) {
	if class, ok := object.(*resourceapi.DeviceClass); ok {
		w.inventory.SetClass(class)
	}
}
