package simulation

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// This file is the invariants of devices, by the claims and slices of the server.

// hasDevices is D1: a pod that is bound has devices of its node for all of its claims, and so has each other pod of the same
// decision that is still there.
func (j *invariantChecker) hasDevices(p *process, call commit.Call) {
	if !j.config.Devices {
		return
	}
	for _, uid := range p.together[call.Pod.UID] {
		node := p.chosen[uid]
		i := slices.IndexFunc(j.server.pods(), func(pod *corev1.Pod) bool { return pod.UID == uid })
		if i < 0 {
			continue
		}
		pod := j.server.pods()[i]
		if waits(pod) || pod.Spec.NodeName == node && pod.DeletionTimestamp == nil && !finished(pod) {
			if lacks := j.lacksDevices(pod, node); lacks != "" {
				j.violated("D1", "%s is bound, and %s %s", call.Pod, keyOf(pod), lacks)
			}
		}
	}
}

// lacksDevices says what of its claims a pod does not have on a node; empty when it has all.
func (j *invariantChecker) lacksDevices(pod *corev1.Pod, node string) string {
	names := namedClaims(pod)
	asks := int64(0)
	for _, name := range []corev1.ResourceName{gpuResource, bigResource, nicResource} {
		amount := pod.Spec.Containers[0].Resources.Requests[name]
		asks += amount.Value()
	}
	for _, name := range j.server.names(kindClaim) {
		if claim := j.server.claim(name); asks > 0 && isMadeFor(claim, pod.UID) {
			names = append(names, name)
			asks -= int64(len(devicesOf(claim)))
		}
	}
	if asks > 0 {
		return "has too few devices for its extended resources"
	}
	for _, name := range names {
		claim := j.server.claim(name)
		switch {
		case claim == nil:
			return "has no claim " + name
		case claim.Status.Allocation == nil || !isReservedFor(claim, pod.UID):
			return "has no devices of claim " + name
		case slices.ContainsFunc(devicesOf(claim), func(id deviceID) bool { return id.pool != node }):
			return "has devices of another node by claim " + name
		case int64(len(devicesOf(claim))) < leastOf(claim):
			return "has too few devices of claim " + name
		}
	}
	return ""
}

// leastOf is how many devices a claim asks for at least.
func leastOf(claim *resourceapi.ResourceClaim) (sum int64) {
	for _, request := range claim.Spec.Devices.Requests {
		if request.Exactly != nil {
			sum += request.Exactly.Count
		} else {
			sum++
		}
	}
	return sum
}

// isGivenOnce is D2: no device is given to two claims.
func (j *invariantChecker) isGivenOnce(changed *resourceapi.ResourceClaim) {
	mine := devicesOf(changed)
	for _, name := range j.server.names(kindClaim) {
		other := j.server.claim(name)
		if other.UID == changed.UID {
			continue
		}
		for _, id := range devicesOf(other) {
			if slices.Contains(mine, id) {
				j.violated("D2", "device %v is given to claims %s and %s", id, keyOf(changed), keyOf(other))
			}
		}
	}
}

// releasesDevices is D4, at rest: each claim with devices has a pod that is on a node, or is ending there.
func (j *invariantChecker) releasesDevices() {
	for _, name := range j.server.names(kindClaim) {
		claim := j.server.claim(name)
		if claim.Status.Allocation == nil {
			continue
		}
		uses := func(pod *corev1.Pod) bool {
			return isReservedFor(claim, pod.UID) && pod.Spec.NodeName != "" && !finished(pod)
		}
		if !slices.ContainsFunc(j.server.pods(), uses) {
			j.violated("D4", "claim %s has devices at rest, and no pod that it is reserved for has a node: %v", name, claim.Status.ReservedFor)
		}
	}
}

// freesEnough is D5: where pods are evicted, there are as many devices on each node as the job is nominated there, when the
// victims and their claims are gone: devices that are tainted or that other pods use, too, do not become free.
func (j *invariantChecker) freesEnough(p *process, decision model.Decision) {
	if !j.config.Devices {
		return
	}
	view, gets, victims := p.counted(), invariants.NominatedBy(decision), invariants.VictimsOf(decision)
	wanted := map[string]map[string]int64{}
	for _, uid := range slices.Sorted(maps.Keys(gets)) {
		for class, n := range view.asksOf(uid) {
			view.addMany(wanted, gets[uid], class, n)
		}
	}
	for _, node := range sortedNames(wanted) {
		free := maps.Clone(view.offers[node])
		for _, pod := range view.pods {
			if p.place(pod) != node || finished(pod) {
				continue
			}
			for class, n := range view.asksOf(pod.UID) {
				if leaves := victims[pod.UID] || pod.DeletionTimestamp != nil || p.evicts(pod); leaves {
					n = view.kept[pod.UID][class]
				}
				if free == nil {
					free = map[string]int64{}
				}
				free[class] -= n
			}
		}
		for _, class := range sortedNames(wanted[node]) {
			if n := wanted[node][class]; n > free[class] {
				j.violated("D5", "pods are evicted for %s, which gets %d devices of %s on %s, where %d become free", decision.Job, n, class, node, free[class])
			}
		}
	}
}

// asksOf is what a pod takes, or asks for, by class.
func (c *deviceCount) asksOf(uid types.UID) map[string]int64 {
	all := maps.Clone(c.charges[uid])
	if all == nil {
		all = map[string]int64{}
	}
	if pod := c.byUID[uid]; pod != nil {
		for _, class := range []string{classGPU, classBig, classNIC} {
			if amount, is := pod.Spec.Containers[0].Resources.Requests[resourceOfClass(class)]; is {
				all[class] += amount.Value()
			}
		}
	}
	return all
}

func (c *deviceCount) addMany(to map[string]map[string]int64, node, class string, n int64) {
	if to[node] == nil {
		to[node] = map[string]int64{}
	}
	to[node][class] += n
}
