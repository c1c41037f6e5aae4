package kube_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"github.com/tutti-sched/tutti/internal/kube"
)

func build(t *testing.T, change ...func(*kube.Deps)) (*kube.Plugins, []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	deps := kube.Deps{Lister: cache.NewEmptySnapshot(), Informers: factory, Client: client}
	for _, c := range change {
		c(&deps)
	}
	plugins, err := kube.New(ctx, deps)
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	var watched []string
	for kind := range factory.WaitForCacheSync(ctx.Done()) {
		watched = append(watched, strings.TrimPrefix(kind.String(), "*"))
	}
	if !clientcache.WaitForCacheSync(ctx.Done(), plugins.HasSynced) {
		t.Fatal("the plugins did not sync")
	}
	slices.Sort(watched)
	return plugins, watched
}

// All of the first are served by API servers of 1.35; one that is not would never sync there.
func TestOnlyWhatOldServersHaveIsWatched(t *testing.T) {
	_, watched := build(t, func(deps *kube.Deps) { deps.NoDeviceTaintRules = true })
	want := []string{
		"v1.CSIDriver", "v1.CSINode", "v1.CSIStorageCapacity", "v1.DeviceClass", "v1.Namespace", "v1.Node",
		"v1.PersistentVolume", "v1.PersistentVolumeClaim", "v1.Pod", "v1.ResourceClaim", "v1.ResourceSlice", "v1.StorageClass",
		"v1.VolumeAttachment",
	}
	if !slices.Equal(watched, want) {
		t.Errorf("watched are %q, want %q", watched, want)
	}
	if _, watched := build(t); !slices.Contains(watched, "v1.DeviceTaintRule") {
		t.Errorf("watched are %q, want device taint rules, too, where they are served", watched)
	}
}

func TestNewNeedsItsDeps(t *testing.T) {
	if _, err := kube.New(context.Background(), kube.Deps{}); err == nil {
		t.Error("no error without a lister, informers and a client")
	}
}

func TestPluginThatIsNotBuilt(t *testing.T) {
	plugins, _ := build(t)
	for _, name := range []string{"NodeResourcesFit", "GangScheduling", "nonsense"} {
		if plugin := plugins.Plugin(name); plugin != nil {
			t.Errorf("%s is built", name)
		}
	}
}
