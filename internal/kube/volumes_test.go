package kube_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestChoosesVolumes: what leaves no choice between nodes costs no look at all of them.
func TestChoosesVolumes(t *testing.T) {
	tracked := true
	class := func(name string) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: name}
	}
	claim := func(name, class string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
			Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: &class},
		}
	}
	bound := claim("bound", "free")
	bound.Spec.VolumeName, bound.Annotations = "v", map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	volume := func(class string, phase corev1.PersistentVolumePhase) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: class}, Spec: corev1.PersistentVolumeSpec{StorageClassName: class},
			Status: corev1.PersistentVolumeStatus{Phase: phase},
		}
	}
	large := claim("large", "free")
	large.Annotations = map[string]string{"example.com/malformed": "larger than others"}
	devices := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "wide", Namespace: "default", Annotations: large.Annotations}}
	s := newStore(t, large, devices, class("free"), class("taken"), class("tracked"), class("untracked"), bound,
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "tracked"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &tracked}},
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "untracked"}},
		volume("free", corev1.VolumeAvailable), volume("taken", corev1.VolumeBound),
		claim("free", "free"), claim("taken", "taken"), claim("tracked", "tracked"), claim("untracked", "untracked"))
	for name, want := range map[string]bool{
		"free": true, "tracked": true, "taken": false, "untracked": false, "bound": false, "nowhere": false,
	} {
		if got := s.HasVolumeChoice(pod("p", "volume "+name)); got != want {
			t.Errorf("claim %s: %v, want %v", name, got, want)
		}
	}
	if s.HasVolumeChoice(pod("p", "device one")) || !s.HasVolumeChoice(pod("p", "volume bound", "volume free")) {
		t.Error("a pod chooses when one of its volume claims does")
	}
	for claim, want := range map[string]string{
		"volume bound": "", "volume none": "", "volume large": "PersistentVolumeClaim large: larger than others",
		"device wide": "ResourceClaim wide: larger than others",
	} {
		if got := s.TooLarge(pod("p", claim)); got != want {
			t.Errorf("%s: %q, want %q", claim, got, want)
		}
	}
}
