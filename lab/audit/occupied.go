package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/tutti-sched/tutti/test/invariants"
)

// Overcommitment is a moment from which on a node held more than it offers.
type Overcommitment struct {
	// Node is the node, Resource what it has too little of.
	Node, Resource string
	// Pod is who came last, with its namespace, and Scheduler who put it there.
	Pod, Scheduler string
	// Other is the pod that another scheduler was the last to put there, empty when there is none; After is how long ago that was,
	// by what was seen or by what the server says, whichever is less.
	Other string
	After time.Duration
}

// String says it in a sentence.
func (o Overcommitment) String() string {
	return fmt.Sprintf("node %s holds too much %s since %s put %s on it, %s after another one put %q there",
		o.Node, o.Resource, o.Scheduler, o.Pod, o.After, o.Other)
}

// occupied is a node with what its pods leave of it, and who came last, by scheduler.
type occupied struct {
	idle invariants.Amounts
	last map[string]arrival
}

// arrival is when a pod was seen to come to a node, and in which second the server says that it was bound, zero when it does
// not.
type arrival struct {
	pod         string
	when, bound time.Time
}

// since is how long after another one it came. The watch may have been delayed in between. So the server's times count where
// they make it less, plus the second to which they are rounded.
func (a arrival) since(other arrival) time.Duration {
	after := a.when.Sub(other.when)
	if !a.bound.IsZero() && !other.bound.IsZero() {
		after = min(after, a.bound.Sub(other.bound)+time.Second)
	}
	return after
}

// boundAt is when the server says that a pod was bound, in whole seconds.
func boundAt(pod *corev1.Pod) time.Time {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// lastBut is the last arrival by another scheduler than this one.
func (o *occupied) lastBut(scheduler string) (last arrival) {
	for by, a := range o.last {
		if by != scheduler && a.when.After(last.when) {
			last = a
		}
	}
	return last
}

// short names a resource of which the node holds too much, empty when there is none.
func (o *occupied) short() string {
	for _, name := range slices.Sorted(maps.Keys(o.idle)) {
		if overdrawn(o.idle, name) {
			return string(name)
		}
	}
	return ""
}

// overdrawn reports whether there is less than nothing of a resource. The devices that a pod requests by the name made of a
// DeviceClass are none of what a node reports: whether there are as many is a matter of the pod's claim.
func overdrawn(idle invariants.Amounts, name corev1.ResourceName) bool {
	return idle[name] < 0 && !strings.HasPrefix(string(name), resourceapi.ResourceDeviceClassPrefix)
}
