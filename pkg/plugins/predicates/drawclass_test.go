package predicates_test

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tutti-sched/tutti/internal/cluster"
)

// changeClass adds or deletes the other device class, or changes its resource, and waits until all informers have it.
func (c *contest) changeClass() {
	classes, ctx := c.client.ResourceV1().DeviceClasses(), context.Background()
	all, err := classes.List(ctx, metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	i := slices.IndexFunc(all.Items, func(class resourceapi.DeviceClass) bool { return class.Name == "other" })
	switch {
	case i < 0:
		_, err = classes.Create(ctx, c.named(c.otherClass(), ""), metav1.CreateOptions{})
	case c.oneIn(2):
		err = classes.Delete(ctx, "other", metav1.DeleteOptions{})
		gone := all.Items[i].DeepCopy()
		gone.ResourceVersion = c.version()
		c.tell(&cluster.DeviceClassSeen{Class: gone, Gone: true})
	default:
		_, err = classes.Update(ctx, c.named(c.otherClass(), all.Items[i].UID), metav1.UpdateOptions{})
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.follow()
}

// named sets the class's version, and its UID, or a new one.
func (c *contest) named(class *resourceapi.DeviceClass, uid types.UID) *resourceapi.DeviceClass {
	class.ResourceVersion = c.version()
	if class.UID = uid; uid == "" {
		class.UID = types.UID(class.ResourceVersion)
	}
	return class
}

// follow updates the cluster state's device classes, and waits until both sides have the same.
func (c *contest) follow() {
	all, err := c.client.ResourceV1().DeviceClasses().List(context.Background(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	provided := map[corev1.ResourceName]bool{}
	for i := range all.Items {
		class := &all.Items[i]
		c.tell(&cluster.DeviceClassSeen{Class: class})
		provided[implicitResource(class.Name)] = true
		if class.Spec.ExtendedResourceName != nil {
			provided[corev1.ResourceName(*class.Spec.ExtendedResourceName)] = true
		}
	}
	seen := func(context.Context) (bool, error) {
		for _, name := range []corev1.ResourceName{otherResource, implicitResource("other")} {
			theirs := c.reference.devices.DeviceClassResolver().GetDeviceClass(name) != nil
			if c.kube.ByDeviceClass(name) != provided[name] || theirs != provided[name] {
				return false, nil
			}
		}
		return true, nil
	}
	if err := wait.PollUntilContextCancel(c.t.Context(), time.Millisecond, true, seen); err != nil {
		c.t.Fatal(err)
	}
	c.tellDevices()
}
