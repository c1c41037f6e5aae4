package kubeframework_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"github.com/tutti-sched/tutti/pkg/cluster/kubeframework"
)

func build(t *testing.T, objects ...runtime.Object) (*kubeframework.Plugins, []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	deps := kubeframework.Deps{Lister: cache.NewEmptySnapshot(), Informers: factory, Client: client}
	plugins, err := kubeframework.New(ctx, deps)
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

// All of these are served by API servers of 1.35; one that is not would never sync there.
func TestOnlyWhatOldServersHaveIsWatched(t *testing.T) {
	_, watched := build(t)
	want := []string{
		"v1.CSIDriver", "v1.CSINode", "v1.CSIStorageCapacity", "v1.DeviceClass", "v1.Namespace", "v1.Node",
		"v1.PersistentVolume", "v1.PersistentVolumeClaim", "v1.Pod", "v1.ResourceClaim", "v1.ResourceSlice", "v1.StorageClass",
		"v1.VolumeAttachment",
	}
	if !slices.Equal(watched, want) {
		t.Errorf("watched are %q, want %q", watched, want)
	}
}

func TestNewNeedsItsDeps(t *testing.T) {
	if _, err := kubeframework.New(context.Background(), kubeframework.Deps{}); err == nil {
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

func claim(name, volume, completed string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	c.Spec.VolumeName = volume
	if completed != "" {
		c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": completed}
	}
	return c
}

func device(name string, allocated bool, by string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	if allocated {
		c.Status.Allocation = &resourceapi.AllocationResult{}
		c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: by, UID: types.UID(by)}}
	}
	return c
}

func TestNeedsPreBind(t *testing.T) {
	plugins, _ := build(t,
		claim("bound", "v", "yes"), claim("chosen", "v", ""), claim("open", "", ""), claim("p-scratch", "v", "yes"),
		device("ours", true, "p"), device("theirs", true, "q"), device("free", false, ""))
	cases := []struct {
		name   string
		claims []string
		change func(*corev1.Pod)
		devs   []string
		want   string
	}{
		{name: "nothing"},
		{name: "bound", claims: []string{"bound"}},
		{name: "one of two not bound", claims: []string{"bound", "open"}, want: "volume claims"},
		{name: "volume chosen, binding not completed", claims: []string{"chosen"}, want: "volume claims"},
		{name: "no such claim", claims: []string{"none"}, want: "volume claims"},
		{name: "ephemeral, bound", change: ephemeral("scratch")},
		{name: "ephemeral, not made yet", change: ephemeral("other"), want: "volume claims"},
		{name: "reserved", devs: []string{"ours"}},
		{name: "reserved for another", devs: []string{"theirs"}, want: "resource claims"},
		{name: "one of two not allocated", devs: []string{"ours", "free"}, want: "resource claims"},
		{name: "no such device claim", devs: []string{"none"}, want: "resource claims"},
		{name: "not made from its template yet", change: templated(nil), want: "resource claims"},
		{name: "template makes none", change: templated(&corev1.PodResourceClaimStatus{Name: "t"})},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "p"}}
			for _, name := range c.claims {
				pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
				}})
			}
			for _, name := range c.devs {
				pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimName: &name})
			}
			if c.change != nil {
				c.change(pod)
			}
			if got := plugins.NeedsPreBind(pod); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q in it", got, c.want)
			}
		})
	}
}

func ephemeral(volume string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{
			Name: volume, VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}},
		}}
	}
}

func templated(status *corev1.PodResourceClaimStatus) func(*corev1.Pod) {
	template := "template"
	return func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "t", ResourceClaimTemplateName: &template}}
		if status != nil {
			p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{*status}
		}
	}
}
