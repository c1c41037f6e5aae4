package scenario

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// owner reads KIND/UID of a pod's controller.
func owner(w word) (metav1.OwnerReference, error) {
	kind, uid, found := strings.Cut(w.value, "/")
	if !found {
		return metav1.OwnerReference{}, fmt.Errorf("%s: %q is not KIND/UID", w.key, w.value)
	}
	controls := true
	return metav1.OwnerReference{Kind: kind, UID: types.UID(uid), Controller: &controls}, nil
}

// avoid writes down that the node would rather not run the pods of a controller, KIND/UID, as kube-scheduler once read it.
func avoid(node *corev1.Node, w word) error {
	controller, err := owner(w)
	if err != nil {
		return err
	}
	avoids := corev1.AvoidPods{PreferAvoidPods: []corev1.PreferAvoidPodsEntry{
		{PodSignature: corev1.PodSignature{PodController: &controller}},
	}}
	text, err := json.Marshal(avoids)
	if err != nil {
		return fmt.Errorf("%s: %w", w.key, err)
	}
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, corev1.PreferAvoidPodsAnnotationKey, string(text))
	return nil
}
