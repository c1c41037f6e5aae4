package kube

import (
	"testing"
	"time"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// TestTheSearchForDevicesHasALimit: kube-scheduler's own, for each node.
func TestTheSearchForDevicesHasALimit(t *testing.T) {
	all, err := arguments()
	if err != nil {
		t.Fatal(err)
	}
	devices, ok := all[names.DynamicResources].(*config.DynamicResourcesArgs)
	if !ok || devices.FilterTimeout == nil || devices.FilterTimeout.Duration != 10*time.Second {
		t.Errorf("the arguments of %s are %+v, want a limit of 10s", names.DynamicResources, all[names.DynamicResources])
	}
}
