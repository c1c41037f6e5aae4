package predicates_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// wishDisks are volumes that the pod itself defines: two writers cannot share one, and readers can share some.
func wishDisks(d dice, p *corev1.Pod) {
	disk := pick(d,
		corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: pick(d, "d1", "d2")}},
		corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "d", ReadOnly: d.oneIn(2)}},
		corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{IQN: "iqn", TargetPortal: "t", ReadOnly: d.oneIn(2)}},
		corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{
			CephMonitors: []string{pick(d, "m1", "m2"), "m3"}, RBDImage: "i", RBDPool: "p", ReadOnly: d.oneIn(2),
		}},
		corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	)
	addVolume(p, disk)
}

func addVolume(p *corev1.Pod, source corev1.VolumeSource) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", len(p.Spec.Volumes)), VolumeSource: source})
}

// claimNames are the claims; of those with a number, two of each.
var claimNames = []string{
	"pinned-0", "pinned-1", "zoned-0", "zoned-1", "csi-0", "csi-1", "csi-2", "csi-3", "csi-4", "csi-5", "must-0", "alone-0",
	"alone-1", "static-0", "static-1", "late", "late-zoned", "late-known", "late-huge", "lost", "going", "now", "adrift", "none",
}

func wishClaims(d dice, p *corev1.Pod) {
	if d.oneIn(10) {
		addVolume(p, volumeClaim(claimNames[d.IntN(len(claimNames))]))
		return
	}
	if !d.oneIn(4) {
		p.Namespace = "default"
	}
	// Those that only some nodes can serve are drawn more often.
	for range 1 + d.IntN(2) {
		addVolume(p, volumeClaim(claimNames[d.IntN(19)]))
	}
}

// wishScratch is a volume whose claim is created with the pod: not there yet, or another pod's.
func wishScratch(d dice, p *corev1.Pod) {
	if d.oneIn(4) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{
			Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}},
		})
	}
}

// scratchers are pods whose volumes are created and deleted with them: one whose claim is bound, one whose claim waits for a
// node, and one whose claim is another pod's.
func (d dice) scratchers() (pods []*corev1.Pod, claims []runtime.Object) {
	for i, name := range []string{"own-bound", "own-late", "own-none"} {
		pod := d.pod(name, "", i%2)
		pod.Namespace = "default"
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}},
		})
		claim := boundClaim(name + "-scratch")
		if name == "own-late" {
			claim = d.openClaim(claim.Name, "late-zoned", "1Gi")
		}
		if name != "own-none" {
			claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}
		}
		pods, claims = append(pods, pod), append(claims, claim, volume(claim.Name, func(v *corev1.PersistentVolume) {
			v.Spec.NodeAffinity = d.onlyOn(d.nodeName(), d.nodeName(), d.nodeName())
		}))
	}
	return pods, claims
}

// storage draws classes, volumes, claims, drivers and attached volumes, for pods of namespace default.
func (d dice) storage() []runtime.Object {
	objects := d.classes()
	for i := range 2 {
		at := nodeName(i)
		objects = append(objects,
			boundClaim(fmt.Sprint("pinned-", i)), volume(fmt.Sprint("pinned-", i), func(v *corev1.PersistentVolume) {
				v.Spec.NodeAffinity = d.onlyOn(d.nodeName(), d.nodeName(), at)
			}),
			boundClaim(fmt.Sprint("zoned-", i)), volume(fmt.Sprint("zoned-", i), func(v *corev1.PersistentVolume) {
				v.Labels = map[string]string{
					pick(d, corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone): pick(d, "z0", "z1__z2", "z2"),
				}
			}),
			alone(boundClaim(fmt.Sprint("alone-", i))), volume(fmt.Sprint("alone-", i), nil),
			d.openClaim(fmt.Sprint("static-", i), "static", pick(d, "1Gi", "3Gi")),
		)
	}
	for i := range 6 {
		objects = append(objects, boundClaim(fmt.Sprint("csi-", i)), volume(fmt.Sprint("csi-", i), nil))
	}
	objects = append(objects,
		boundClaim("must-0"), volume("must-0", func(v *corev1.PersistentVolume) { v.Spec.CSI.Driver = "must.example.com" }),
		d.openClaim("late", "late", "1Gi"), d.openClaim("late-zoned", "late-zoned", "1Gi"),
		d.openClaim("late-known", "late-known", "1Gi"), d.openClaim("late-huge", "late-known", "1Ti"),
		d.openClaim("now", "now", "1Gi"), boundClaim("adrift"),
	)
	lost, going := boundClaim("lost"), boundClaim("going")
	lost.Status.Phase = corev1.ClaimLost
	going.DeletionTimestamp, going.Finalizers = &metav1.Time{Time: start}, []string{"a/b"}
	objects = append(objects, lost, going, volume("going", nil))
	for i := range maxNodes {
		objects = append(objects, volume(fmt.Sprint("local-", i), d.local(i)))
	}
	return append(objects, d.attachments()...)
}

// local is a volume on one node that waits for a claim.
func (d dice) local(i int) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef, v.Spec.StorageClassName = nil, "static"
		v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/d"}}
		v.Spec.NodeAffinity = d.onlyOn(nodeName(i))
		v.Spec.Capacity = amounts("storage", pick(d, "1Gi", "2Gi", "5Gi"))
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		v.Status.Phase = pick(d, corev1.VolumeAvailable, corev1.VolumeAvailable, corev1.VolumePending)
	}
}

func (d dice) onlyOn(hosts ...string) *corev1.VolumeNodeAffinity {
	affinity := onlyOn("")
	affinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = hosts
	return affinity
}

func alone(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	return claim
}

// openClaim has no volume yet.
func (d dice) openClaim(name, class, size string) *corev1.PersistentVolumeClaim {
	claim := boundClaim(name)
	claim.Annotations, claim.Status.Phase = nil, corev1.ClaimPending
	claim.Spec = corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: amounts("storage", size)},
	}
	return claim
}

func (d dice) classes() []runtime.Object {
	late, now := storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate
	yes := true
	class := func(name, provisioner string, mode *storagev1.VolumeBindingMode) *storagev1.StorageClass {
		return &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: mode,
		}
	}
	zoned := class("late-zoned", "csi.example.com", &late)
	zoned.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
		{Key: corev1.LabelTopologyZone, Values: []string{d.zone(), d.zone()}},
	}}}
	capacity := func(zone, size string) *storagev1.CSIStorageCapacity {
		list := amounts("storage", size)["storage"]
		return &storagev1.CSIStorageCapacity{
			ObjectMeta: metav1.ObjectMeta{Name: "in-" + zone, Namespace: "default"}, StorageClassName: "late-known",
			NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelTopologyZone: zone}}, Capacity: &list,
		}
	}
	return []runtime.Object{
		class("now", "csi.example.com", &now), class("late", "csi.example.com", &late),
		class("static", "kubernetes.io/no-provisioner", &late), zoned, class("late-known", "known.example.com", &late),
		capacity("z0", "10Gi"), capacity("z1", pick(d, "1Mi", "10Gi")),
		&storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: "known.example.com"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &yes},
		},
		&storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: "must.example.com"},
			Spec:       storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: &yes},
		},
	}
}

// attachments are the drivers on each node, their limits, and the attached volumes.
func (d dice) attachments() []runtime.Object {
	var objects []runtime.Object
	for i := range maxNodes {
		if d.oneIn(8) {
			continue
		}
		limit := int32(1 + d.IntN(3))
		node := csiNode(nodeName(i), &limit)
		if d.oneIn(3) {
			node = csiNode(nodeName(i), nil)
		}
		if d.oneIn(2) {
			node.Spec.Drivers = append(node.Spec.Drivers, storagev1.CSINodeDriver{Name: "must.example.com", NodeID: node.Name})
		}
		one := int32(1)
		node.Spec.Drivers = append(node.Spec.Drivers, storagev1.CSINodeDriver{
			Name: "ebs.csi.aws.com", NodeID: node.Name, Allocatable: &storagev1.VolumeNodeResources{Count: &one},
		})
		objects = append(objects, node)
		if name := "csi-5"; d.oneIn(4) {
			objects = append(objects, &storagev1.VolumeAttachment{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("at-", i)},
				Spec: storagev1.VolumeAttachmentSpec{
					Attacher: "csi.example.com", NodeName: nodeName(i), Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name},
				},
			})
		}
	}
	return objects
}
