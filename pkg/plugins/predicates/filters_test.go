package predicates_test

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tutti-sched/tutti/pkg/model"
)

// filterCase is a pod, nodes "a" and "b", and the filter that refuses: the one under test, on node "b" alone unless both is
// set.
type filterCase struct {
	name      string
	objects   []runtime.Object
	pods      []*corev1.Pod
	b         func(*corev1.Node)
	pod       *corev1.Pod
	reason    string
	evictable bool
	both      bool
}

func TestEachFilterRefuses(t *testing.T) {
	for _, c := range append(podCases(), append(volumeCases(), claimCases()...)...) {
		t.Run(c.name, func(t *testing.T) { c.run(t) })
	}
}

func (c filterCase) run(t *testing.T) {
	w := newWorld(t, c.objects...)
	nodes := []*corev1.Node{newNode("a"), newNode("b")}
	if c.b != nil {
		c.b(nodes[1])
	}
	w.view.show(c.pods, nodes)
	answers := w.ask(c.pod, nodes)
	if !c.both && answers[0] != nil {
		t.Errorf("node a: %v", answers[0])
	}
	want := model.Refusal{Plugin: "predicates", Code: model.NodesFiltered, Detail: c.reason, Evictable: c.evictable}
	for i, answer := range answers {
		if i == 0 && !c.both || c.reason == "" {
			continue
		}
		if answer == nil {
			t.Errorf("node %s: no refusal, want %q", nodes[i].Name, c.reason)
		} else if !reflect.DeepEqual(*answer, want) {
			t.Errorf("node %s: got %+v, want %+v", nodes[i].Name, *answer, want)
		}
	}
	if c.reason == "" && answers[1] != nil {
		t.Errorf("node b: %v, want none", answers[1])
	}
}

func podCases() []filterCase {
	return []filterCase{
		{name: "nothing special", pod: newPod("p")},
		{
			name: "NodeUnschedulable", pod: newPod("p"), reason: "were unschedulable",
			b: func(n *corev1.Node) { n.Spec.Unschedulable = true },
		},
		{name: "NodeName", pod: newPod("p", on("a")), reason: "didn't match the requested node name"},
		{
			name: "TaintToleration", pod: newPod("p"), reason: "had untolerated taint gpu=true:NoSchedule",
			b: func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "gpu", Value: "true", Effect: corev1.TaintEffectNoSchedule}}
			},
		},
		{
			name: "NodeAffinity", reason: "didn't match Pod's node affinity/selector",
			pod: newPod("p", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "a"} }),
		},
		{
			name: "NodeDeclaredFeatures", reason: "didn't match Pod's required features", both: true,
			pod: newPod("p", func(p *corev1.Pod) {
				always := corev1.ContainerRestartPolicyAlways
				p.Spec.Containers[0].RestartPolicy = &always
				p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{
					Action: corev1.ContainerRestartRuleActionRestartAllContainers,
				}}
			}),
		},
		{
			name: "NodePorts", pod: newPod("p", hostPort(80)), evictable: true,
			pods: []*corev1.Pod{newPod("q", on("b"), hostPort(80))}, reason: "didn't have free ports for the requested pod ports",
		},
		{
			name: "PodTopologySpread", pod: newPod("p", spread("q", corev1.LabelHostname)), evictable: true,
			pods: []*corev1.Pod{newPod("q", on("b"))}, reason: "",
		},
		{
			name: "PodTopologySpread with itself", evictable: true,
			pod:  newPod("q2", relabel("q"), spread("q", corev1.LabelHostname)),
			pods: []*corev1.Pod{newPod("q", on("b"))}, reason: "didn't match pod topology spread constraints",
		},
		{
			name: "InterPodAffinity of the pod", pod: newPod("p", apart("q", corev1.LabelHostname)), evictable: true,
			pods: []*corev1.Pod{newPod("q", on("b"))}, reason: "didn't match pod anti-affinity rules",
		},
		{
			name: "InterPodAffinity of a neighbour", pod: newPod("p"), evictable: true,
			pods:   []*corev1.Pod{newPod("q", on("b"), apart("p", corev1.LabelTopologyZone))},
			reason: "didn't satisfy existing pods anti-affinity rules",
		},
	}
}

func relabel(app string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Labels["app"] = app } }

func volumeCases() []filterCase {
	disk := corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "disk"}}
	bound := []runtime.Object{boundClaim("data"), volume("data", nil)}
	one := boundClaim("data")
	one.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	waits := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Provisioner: "csi.example.com"}
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	waits.VolumeBindingMode = &mode
	late := boundClaim("data")
	late.Annotations, late.Spec.VolumeName, late.Spec.StorageClassName = nil, "", &waits.Name
	static := waits.DeepCopy()
	static.Provisioner = "kubernetes.io/no-provisioner"
	now := late.DeepCopy()
	immediate := waits.DeepCopy()
	atOnce := storagev1.VolumeBindingImmediate
	immediate.VolumeBindingMode = &atOnce
	return []filterCase{
		{
			name: "VolumeRestrictions of a disk", pod: newPod("p", volumes(disk)), evictable: true,
			pods: []*corev1.Pod{newPod("q", on("b"), volumes(disk))}, reason: "had no available disk",
		},
		{
			name: "VolumeRestrictions of a claim for one pod", pod: newPod("p", volumes(volumeClaim("data"))), both: true,
			objects: []runtime.Object{one, volume("data", nil)}, evictable: true,
			pods:   []*corev1.Pod{newPod("q", on("b"), volumes(volumeClaim("data")))},
			reason: "unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
		},
		{
			name: "NodeVolumeLimits", pod: newPod("p", volumes(volumeClaim("data"))), evictable: true,
			objects: append(limits(), bound...),
			pods:    []*corev1.Pod{newPod("q", on("b"), volumes(volumeClaim("other")))}, reason: "exceed max volume count",
		},
		{name: "VolumeBinding, all bound", pod: newPod("p", volumes(volumeClaim("data"))), objects: append(drivers(), bound...)},
		{
			name: "VolumeBinding of a volume elsewhere", pod: newPod("p", volumes(volumeClaim("data"))),
			objects: append(drivers(), boundClaim("data"), volume("data", func(v *corev1.PersistentVolume) {
				v.Spec.NodeAffinity = onlyOn("a")
			})),
			reason: "didn't match PersistentVolume's node affinity",
		},
		{
			name: "VolumeBinding of no claim", pod: newPod("p", volumes(volumeClaim("data"))), both: true,
			reason: `persistentvolumeclaim "data" not found`,
		},
		{
			name: "VolumeBinding of a claim bound immediately", pod: newPod("p", volumes(volumeClaim("data"))), both: true,
			objects: []runtime.Object{now, immediate}, reason: "pod has unbound immediate PersistentVolumeClaims",
		},
		{
			name: "VolumeBinding of a claim bound late", pod: newPod("p", volumes(volumeClaim("data"))),
			objects: append(drivers(), late, waits),
		},
		{
			name: "VolumeBinding of a claim bound late to one of no volumes", pod: newPod("p", volumes(volumeClaim("data"))),
			objects: append(drivers(), late, static), both: true, reason: "didn't find available persistent volumes to bind",
		},
		{
			name: "VolumeZone", pod: newPod("p", volumes(volumeClaim("data"))), reason: "had no available volume zone",
			objects: append(drivers(), boundClaim("data"), volume("data", func(v *corev1.PersistentVolume) {
				v.Labels = map[string]string{corev1.LabelTopologyZone: "zone-a"}
			})),
		},
	}
}

func claimCases() []filterCase {
	name := "gpu"
	uses := newPod("p", func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
	})
	free := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: "gpu"}}
	ours := free.DeepCopy()
	ours.Status.Allocation = &resourceapi.AllocationResult{NodeSelector: onlyOn("a").Required}
	theirs := ours.DeepCopy()
	ours.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "p"}}
	theirs.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "q", UID: "q"}}
	return []filterCase{
		{
			name: "DynamicResources", pod: uses, objects: []runtime.Object{ours},
			reason: "resourceclaim not available on the node",
		},
		{name: "DynamicResources of a claim not allocated", pod: uses, objects: []runtime.Object{free}},
		{
			name: "DynamicResources of a claim of another pod", pod: uses, objects: []runtime.Object{theirs},
			reason: "resourceclaim not available on the node",
		},
		{
			name: "DynamicResources of no claim", pod: uses, both: true,
			reason: `could not find ResourceClaim "default/gpu"`,
		},
	}
}

func boundClaim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"},
		},
		Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: name},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
}

func volume(name string, change func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: name},
			},
		},
	}
	if change != nil {
		change(v)
	}
	return v
}

func onlyOn(host string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{host},
		}},
	}}}}
}

// drivers says that both nodes run the CSI driver, without a limit.
func drivers() []runtime.Object { return []runtime.Object{csiNode("a", nil), csiNode("b", nil)} }

// limits says that both nodes take one volume, and makes the one that is there.
func limits() []runtime.Object {
	one := int32(1)
	return []runtime.Object{csiNode("a", &one), csiNode("b", &one), boundClaim("other"), volume("other", nil)}
}

func csiNode(name string, limit *int32) *storagev1.CSINode {
	node := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
	driver := storagev1.CSINodeDriver{Name: "csi.example.com", NodeID: name}
	if limit != nil {
		driver.Allocatable = &storagev1.VolumeNodeResources{Count: limit}
	}
	node.Spec.Drivers = []storagev1.CSINodeDriver{driver}
	return node
}
