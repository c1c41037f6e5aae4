package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/demo/release"
	"github.com/tutti-sched/tutti/lab/harness"
)

// claims is a namespace of jobs with volumes and devices, in whichever cluster.
type claims struct {
	*harness.Env
	t  *testing.T
	ns string
}

// TestVolumesAndDevices runs the scheduler with the account and the roles of config/rbac.
func TestVolumesAndDevices(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	home := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: release.Namespace}}
	if err := client.IgnoreAlreadyExists(env.Client.Create(t.Context(), home)); err != nil {
		t.Fatal(err)
	}
	rbac := filepath.Join(root, "config", "rbac", "rbac.yaml")
	if _, err := env.Cluster.Kubectl(t.Context(), "apply", "--server-side", "--filename", rbac); err != nil {
		t.Fatal(err)
	}
	account, err := env.Cluster.KubeconfigFor(t.Context(), release.Namespace, "tutti-scheduler")
	if err != nil {
		t.Fatal(err)
	}
	env.Scheduler(t, harness.SchedulerOptions{Kubeconfig: account})
	playClaims(t, env, func(t *testing.T) string { return env.Namespace(t) })
}

// playClaims runs gangs of all kinds with volumes and devices, each in a namespace of its own, under a scheduler that runs
// already.
func playClaims(t *testing.T, lab *harness.Env, namespace func(t *testing.T) string) {
	lab.Nodes(t, cluster.Nodes("claims", 4, map[string]string{"cpu": "8"})...)
	for _, one := range []struct {
		name string
		run  func(*claims)
	}{
		{"gangs on local volumes", (*claims).localVolumes},
		{"gangs with devices", (*claims).devices},
		{"a gang whose devices are tainted", (*claims).tainted},
		{"gangs with devices by extended resources", (*claims).extended},
		{"a gang that shares a volume and a device", (*claims).shared},
		{"a gang of which one cannot be prepared", (*claims).givenBack},
		{"a gang with an extended resource of which one cannot be prepared", (*claims).extendedGivenBack},
		{"a device kept since a start that a crash ended", (*claims).stranded},
	} {
		t.Run(one.name, func(t *testing.T) { one.run(&claims{Env: lab, t: t, ns: namespace(t)}) })
	}
}

// localVolumes: each member gets a volume of the node it runs on; a gang with too few volumes waits and is given none.
func (c *claims) localVolumes() {
	class := c.class("kubernetes.io/no-provisioner")
	for i := range 4 {
		c.volume(class, fmt.Sprintf("claims-%d", i), corev1.ReadWriteOnce)
	}
	names := []string{"first-0", "first-1", "first-2"}
	for _, name := range names {
		c.volumeClaim(class, name, corev1.ReadWriteOnce)
	}
	c.gang("first", 3, func(p *corev1.Pod) { withVolume(p, p.Name) })
	c.Eventually(c.t, func() error { return c.bound("first", 3) })
	for _, name := range names {
		c.Eventually(c.t, func() error { return c.volumeIsOnNode(name) })
	}

	c.volumeClaim(class, "second-0", corev1.ReadWriteOnce)
	c.volumeClaim(class, "second-1", corev1.ReadWriteOnce)
	gang := c.gang("second", 2, func(p *corev1.Pod) { withVolume(p, p.Name) })
	c.Eventually(c.t, func() error { return c.waits(gang, "find available persistent volumes to bind") })
	c.AfterCycle(c.t, c.Pod(c.ns, "later", oneCPU))
	for _, name := range []string{"second-0", "second-1"} {
		claim := &corev1.PersistentVolumeClaim{}
		if err := c.get(name, claim); err != nil {
			c.t.Fatal(err)
		}
		if claim.Spec.VolumeName != "" || len(claim.Annotations) > 0 {
			c.t.Errorf("claim %s of a gang that waits: volume %q, annotations %v", name, claim.Spec.VolumeName, claim.Annotations)
		}
	}
	if err := c.bound("second", 0); err != nil {
		c.t.Error(err)
	}
	c.volume(class, "claims-0", corev1.ReadWriteOnce) // one more: now there is one for each
	c.Eventually(c.t, func() error { return c.bound("second", 2) })
}

// devices: the controller manager makes the claims; no device is given twice, and a gang with too few waits.
func (c *claims) devices() {
	class := c.deviceClass("claims-0", "claims-1")
	c.template(class)
	c.gang("first", 3, withTemplate)
	c.Eventually(c.t, func() error { return c.bound("first", 3) })
	if err := c.devicesGiven(3); err != nil {
		c.t.Error(err)
	}
	second := c.gang("second", 2, withTemplate)
	c.Eventually(c.t, func() error { return c.waits(second, "short of 1 ") })
	if err := errors.Join(c.bound("second", 0), c.devicesGiven(3)); err != nil {
		c.t.Error(err)
	}
	c.ends("first")
	c.Eventually(c.t, func() error { return c.bound("second", 2) })
	c.Eventually(c.t, func() error { return c.devicesGiven(2) })
}

// tainted: no pod is given a device while a rule taints it; when the rule is deleted, the gang that waits starts.
func (c *claims) tainted() {
	driver := c.ns + ".example.com"
	rule := &resourceapi.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "broken-"},
		Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: &driver},
			Taint:          resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoSchedule},
		},
	}
	served, err := kube.ServesDeviceTaintRules(c.t.Context(), c.Clientset)
	if err != nil {
		c.t.Fatal(err)
	}
	if !served {
		c.t.Skip("this API server serves no device taint rules; the scheduler runs without")
	}
	c.cleanUp(rule)
	c.template(c.deviceClass("claims-0", "claims-1"))
	gang := c.gang("pair", 2, withTemplate)
	c.Eventually(c.t, func() error { return c.waits(gang, "short of 1 ") })
	if err := errors.Join(c.bound("pair", 0), c.devicesGiven(0)); err != nil {
		c.t.Error(err)
	}
	if err := c.Client.Delete(c.t.Context(), rule); err != nil {
		c.t.Fatal(err)
	}
	c.Eventually(c.t, func() error { return errors.Join(c.bound("pair", 2), c.devicesGiven(2)) })
}

// extended: members request devices as they do capacity; the scheduler makes a claim for each bound member, and for no other.
func (c *claims) extended() {
	class := c.deviceClass("claims-0", "claims-1")
	ask := withExtended(class)
	c.gang("first", 3, ask)
	c.Eventually(c.t, func() error { return errors.Join(c.bound("first", 3), c.devicesGiven(3)) })
	pod := &corev1.Pod{}
	if err := c.get("first-0", pod); err != nil {
		c.t.Fatal(err)
	}
	kept := &resourceapi.DeviceClass{} // an older API server keeps neither field
	if err := c.Client.Get(c.t.Context(), client.ObjectKey{Name: class}, kept); err != nil {
		c.t.Fatal(err)
	}
	status := pod.Status.ExtendedResourceClaimStatus
	if kept.Spec.ExtendedResourceName != nil && (status == nil || len(status.RequestMappings) != 1) {
		c.t.Errorf("the kubelet reads %+v, want one request", status)
	}
	second := c.gang("second", 2, ask)
	c.Eventually(c.t, func() error { return c.waits(second, "short of 1 ") })
	if err := errors.Join(c.bound("second", 0), c.devicesGiven(3)); err != nil {
		c.t.Error(err)
	}
	c.ends("first")
	c.Eventually(c.t, func() error { return errors.Join(c.bound("second", 2), c.devicesGiven(2)) })
}

// extendedGivenBack: when a member can never be bound, the claim that was made for another one is deleted.
func (c *claims) extendedGivenBack() {
	class := c.class("example.com/absent")
	c.volumeClaim(class, "never", corev1.ReadWriteOnce)
	ask := withExtended(c.deviceClass("claims-3"))
	c.gang("pair", 2, func(p *corev1.Pod) {
		if p.Name == "pair-0" {
			withVolume(p, "never")
		} else {
			ask(p)
		}
	})
	c.Eventually(c.t, func() error { return c.devicesGiven(1) })
	if err := c.Client.Delete(c.t.Context(), c.Pod(c.ns, "pair-0"), client.GracePeriodSeconds(0)); err != nil {
		c.t.Fatal(err)
	}
	c.Eventually(c.t, func() error {
		var list resourceapi.ResourceClaimList
		err := c.Client.List(c.t.Context(), &list, client.InNamespace(c.ns))
		if err == nil && len(list.Items) > 0 {
			return fmt.Errorf("claim %s is left", list.Items[0].Name)
		}
		return err
	})
	if err := c.bound("pair", 0); err != nil {
		c.t.Error(err)
	}
}

// shared: all members use the one volume and the one device that a claim of each kind stands for.
func (c *claims) shared() {
	class := c.class("kubernetes.io/no-provisioner")
	c.volume(class, "claims-2", corev1.ReadWriteMany)
	c.volumeClaim(class, "data", corev1.ReadWriteMany)
	devices := c.deviceClass("claims-2")
	c.Create(c.t, &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: "gpu"}, Spec: oneOf(devices),
	})
	name := "gpu"
	c.gang("all", 3, func(p *corev1.Pod) {
		withVolume(p, "data")
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
	})
	c.Eventually(c.t, func() error { return c.bound("all", 3) })
	claim := &resourceapi.ResourceClaim{}
	if err := c.get("gpu", claim); err != nil {
		c.t.Fatal(err)
	}
	if len(claim.Status.ReservedFor) != 3 {
		c.t.Errorf("the claim is reserved for %v, want all three members", claim.Status.ReservedFor)
	}
}

// givenBack: while no provisioner makes one member's volume, no member is bound; when that one is deleted, the others' devices
// are free.
func (c *claims) givenBack() {
	class := c.class("example.com/absent")
	c.volumeClaim(class, "never", corev1.ReadWriteOnce)
	c.template(c.deviceClass("claims-3"))
	c.gang("pair", 2, func(p *corev1.Pod) {
		if p.Name == "pair-0" {
			withVolume(p, "never")
		} else {
			withTemplate(p)
		}
	})
	c.Eventually(c.t, func() error {
		claim := &corev1.PersistentVolumeClaim{}
		if err := c.get("never", claim); err != nil {
			return err
		}
		if claim.Annotations["volume.kubernetes.io/selected-node"] == "" {
			return errors.New("no provisioner was asked to make the volume")
		}
		return c.devicesGiven(1)
	})
	if err := c.bound("pair", 0); err != nil {
		c.t.Error(err)
	}
	gone := c.Pod(c.ns, "pair-0")
	if err := c.Client.Delete(c.t.Context(), gone, client.GracePeriodSeconds(0)); err != nil {
		c.t.Fatal(err)
	}
	c.Eventually(c.t, func() error { return c.devicesGiven(0) })
	if err := c.bound("pair", 0); err != nil {
		c.t.Error(err)
	}
}

// stranded: a pod has a device on a node where it cannot run; it gets another one, elsewhere.
func (c *claims) stranded() {
	driver := c.ns + ".example.com"
	class := c.deviceClass("claims-0", "claims-1")
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: "gpu"}, Spec: oneOf(class)}
	pod := c.Pod(c.ns, "p", oneCPU, func(p *corev1.Pod) {
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "claims-1"}
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim.Name}}
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
	})
	c.Create(c.t, claim, pod)
	claim.Status.Allocation = &resourceapi.AllocationResult{
		Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{
			Request: "gpu", Driver: driver, Pool: "claims-0", Device: "gpu-0",
		}}},
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{
				Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"claims-0"},
			}},
		}}},
	}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	if err := c.Client.Status().Update(c.t.Context(), claim); err != nil {
		c.t.Fatal(err)
	}
	before := client.MergeFrom(pod.DeepCopy())
	pod.Spec.SchedulingGates = nil
	if err := c.Client.Patch(c.t.Context(), pod, before); err != nil {
		c.t.Fatal(err)
	}
	c.Eventually(c.t, func() error {
		if err := errors.Join(c.get("p", pod), c.get("gpu", claim)); err != nil {
			return err
		}
		if claim.Status.Allocation == nil || claim.Status.Allocation.Devices.Results[0].Pool != pod.Spec.NodeName {
			return fmt.Errorf("the pod is on %q, its claim %+v", pod.Spec.NodeName, claim.Status)
		}
		return nil
	})
}

func (c *claims) get(name string, into client.Object) error {
	return c.Client.Get(c.t.Context(), client.ObjectKey{Namespace: c.ns, Name: name}, into)
}

// cleanUp deletes what is in no namespace.
func (c *claims) cleanUp(object client.Object) {
	c.Create(c.t, object)
	c.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := client.IgnoreNotFound(c.Client.Delete(ctx, object)); err != nil {
			c.t.Error(err)
		}
	})
}

func (c *claims) class(provisioner string) string {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "late-"}, Provisioner: provisioner, VolumeBindingMode: &mode,
	}
	c.cleanUp(class)
	return class.Name
}

func (c *claims) volume(class, node string, mode corev1.PersistentVolumeAccessMode) {
	c.cleanUp(disk(class, node, mode))
}

// disk is a volume of a node.
func disk(class, node string, mode corev1.PersistentVolumeAccessMode) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "disk-"},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{mode},
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/disk"}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
				}}}},
			}},
		},
	}
}

func (c *claims) volumeClaim(class, name string, mode corev1.PersistentVolumeAccessMode) {
	c.Create(c.t, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{mode},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	})
}

// deviceClass makes a class of devices of which each of the nodes has two.
func (c *claims) deviceClass(nodes ...string) string {
	class := c.emptyDeviceClass()
	for _, node := range nodes {
		c.cleanUp(c.slice(node, 2))
	}
	return class
}

// emptyDeviceClass makes a class of the devices of the namespace's own driver.
func (c *claims) emptyDeviceClass() string {
	driver := c.ns + ".example.com"
	provides := driver + "/gpu"
	class := &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "gpu-"},
		Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: &provides, Selectors: []resourceapi.DeviceSelector{{
			CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver)},
		}}},
	}
	c.cleanUp(class)
	return class.Name
}

// slice has so many devices of a node, with the names gpu-0, gpu-1 and so on. Their pool has the node's name.
func (c *claims) slice(node string, devices int) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "gpu-"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: c.ns + ".example.com", NodeName: &node,
			Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for i := range devices {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", i)})
	}
	return slice
}

func oneOf(class string) resourceapi.ResourceClaimSpec {
	return resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
		Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
		},
	}}}}
}

func (c *claims) template(class string) {
	c.Create(c.t, &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: "gpu"},
		Spec:       resourceapi.ResourceClaimTemplateSpec{Spec: oneOf(class)},
	})
}

func withTemplate(p *corev1.Pod) {
	name := "gpu"
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &name}}
}

// withExtended asks for one device of the class by the resource that it provides by its name.
func withExtended(class string) harness.PodOption {
	return func(p *corev1.Pod) {
		resources, name := &p.Spec.Containers[0].Resources, corev1.ResourceName(resourceapi.ResourceDeviceClassPrefix+class)
		one := corev1.ResourceList{name: resource.MustParse("1")}
		resources.Limits = one
		if resources.Requests == nil {
			resources.Requests = corev1.ResourceList{}
		}
		resources.Requests[name] = one[name]
	}
}

func withVolume(p *corev1.Pod, claim string) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}})
}

// gang makes a group and its members.
func (c *claims) gang(name string, n int, option harness.PodOption) *v1alpha1.PodGroup {
	g := group(c.ns, name, int32(n))
	c.Create(c.t, g)
	c.Create(c.t, members(c.ns, name, "", n, option)...)
	return g
}

// bound is nil when so many members of the group have a node.
func (c *claims) bound(group string, want int) error {
	pods, err := c.Pods(c.t.Context(), c.ns, client.MatchingLabels{v1alpha1.LabelPodGroup: group})
	if err != nil {
		return err
	}
	bound := 0
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			bound++
		}
	}
	if bound != want {
		return fmt.Errorf("%d members of %s are bound, want %d", bound, group, want)
	}
	return nil
}

// waits is nil when the group waits and this is among the causes; which of them decides about the reason is the other pods'
// doing, too.
func (c *claims) waits(group *v1alpha1.PodGroup, why string) error {
	if err := c.get(group.Name, group); err != nil {
		return err
	}
	condition := meta.FindStatusCondition(group.Status.Conditions, v1alpha1.ConditionScheduled)
	if condition == nil || condition.Status != metav1.ConditionFalse || !strings.Contains(condition.Message, why) {
		return fmt.Errorf("condition %+v, want False because %q", condition, why)
	}
	return nil
}

// ends deletes a gang's pods immediately.
func (c *claims) ends(gang string) {
	c.t.Helper()
	members := client.MatchingLabels{v1alpha1.LabelPodGroup: gang}
	err := c.Client.DeleteAllOf(c.t.Context(), &corev1.Pod{}, client.InNamespace(c.ns), members, client.GracePeriodSeconds(0))
	if err != nil {
		c.t.Fatal(err)
	}
}

// volumeIsOnNode is nil when the claim of the pod of that name is bound to a volume of the pod's node.
func (c *claims) volumeIsOnNode(name string) error {
	pod, claim, volume := &corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	if err := errors.Join(c.get(name, pod), c.get(name, claim)); err != nil {
		return err
	}
	if claim.Status.Phase != corev1.ClaimBound {
		return fmt.Errorf("claim %s is %s", name, claim.Status.Phase)
	}
	if err := c.Client.Get(c.t.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, volume); err != nil {
		return err
	}
	host := volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
	if pod.Spec.NodeName != host {
		return fmt.Errorf("pod %s is on %s, its volume on %s", name, pod.Spec.NodeName, host)
	}
	return nil
}

// devicesGiven is nil when so many claims of the namespace are allocated, each reserved for its own pod, no device twice and
// each on the node of the pod, if that has one.
func (c *claims) devicesGiven(want int) error {
	var list resourceapi.ResourceClaimList
	if err := c.Client.List(c.t.Context(), &list, client.InNamespace(c.ns)); err != nil {
		return err
	}
	given := map[string]string{}
	for _, claim := range list.Items {
		if claim.Status.Allocation == nil {
			continue
		}
		result := claim.Status.Allocation.Devices.Results[0]
		device := result.Pool + "/" + result.Device
		if other := given[device]; other != "" {
			return fmt.Errorf("device %s is given to %s and to %s", device, other, claim.Name)
		}
		given[device] = claim.Name
		if len(claim.Status.ReservedFor) != 1 || claim.Status.ReservedFor[0].UID != claim.OwnerReferences[0].UID {
			return fmt.Errorf("claim %s of %v is reserved for %v", claim.Name, claim.OwnerReferences, claim.Status.ReservedFor)
		}
		pod := &corev1.Pod{}
		if err := c.get(claim.Status.ReservedFor[0].Name, pod); err != nil {
			return err
		}
		if pod.Spec.NodeName != "" && pod.Spec.NodeName != result.Pool {
			return fmt.Errorf("pod %s is on %s, its device on %s", pod.Name, pod.Spec.NodeName, result.Pool)
		}
	}
	if len(given) != want {
		return fmt.Errorf("%d claims are allocated, want %d", len(given), want)
	}
	return nil
}
