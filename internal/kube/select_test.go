package kube_test

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestSelect: whether expressions select some, all or none of a node's devices of a class, and of no other class.
func TestSelect(t *testing.T) {
	node := "n"
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
	}}
	for i, model := range []string{"small", "big", "big"} {
		device := resourceapi.Device{
			Name: fmt.Sprint("d", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &model}},
		}
		if model == "big" {
			device.Attributes["fast"] = resourceapi.DeviceAttribute{BoolValue: new(true)}
		}
		slice.Spec.Devices = append(slice.Spec.Devices, device)
	}
	class := func(name, expression string) *resourceapi.DeviceClass {
		return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.DeviceClassSpec{
			Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}},
		}}
	}
	const isBig, isSmall = `device.attributes["gpu.example.com"].model == "big"`, `device.attributes["gpu.example.com"].model == "small"`
	found := kube.DevicesOf([]*resourceapi.ResourceSlice{slice},
		[]*resourceapi.DeviceClass{class("gpu", `device.driver == "gpu.example.com"`), class("big", isBig), class("none", "false")})[node]
	for _, test := range []struct {
		class       string
		expressions []string
		some, all   bool
	}{
		{"gpu", []string{isBig}, true, false},
		{"big", []string{isBig}, true, true},
		{"big", []string{isSmall}, false, false},
		{"gpu", []string{isSmall, isBig}, false, false},
		{"gpu", []string{`device.driver == "gpu.example.com"`, `"model" in device.attributes["gpu.example.com"]`}, true, true},
		{"big", []string{`device.attributes["gpu.example.com"].fast`}, true, true},
		{"gpu", []string{`device.attributes["gpu.example.com"].fast`}, true, false}, // fails for one
		{"big", []string{`device.nonsense`}, true, false},                           // does not compile
		{"none", []string{isBig}, false, false},
		{"other", []string{isBig}, false, false},
	} {
		for range 2 { // the second answer is a kept one
			if some, all := found.Select(model.NewDeviceSelectors(test.class, test.expressions)); some != test.some || all != test.all {
				t.Errorf("class %s, %q: some %t, all %t; want %t, %t", test.class, test.expressions, some, all, test.some, test.all)
			}
		}
	}
	for i := range 200 { // more than are kept
		some, all := found.Select(model.NewDeviceSelectors("gpu", []string{fmt.Sprintf("%d < 100", i)}))
		if want := i < 100; some != want || all != want {
			t.Errorf("expression %d: some %t, all %t", i, some, all)
		}
	}
}
