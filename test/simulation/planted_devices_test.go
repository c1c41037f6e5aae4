package simulation

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/kube"
)

// misreadClaims lets the scheduler read something else in the claims than what they say.
func misreadClaims(alter func(*resourceapi.ResourceClaim)) FaultInjection {
	return hide(func(event *cluster.ClaimSeen) bool {
		event.Claim = event.Claim.DeepCopy()
		alter(event.Claim)
		return false
	})
}

// misreadDevices lets it read other devices of nodes.
func misreadDevices(alter func(*kube.Device)) FaultInjection {
	return hide(func(event *cluster.DevicesSeen) bool {
		seen := kube.NodeDevices{Node: event.Devices.Node, Devices: slices.Clone(event.Devices.Devices), Uncounted: event.Devices.Uncounted}
		for i := range seen.Devices {
			alter(&seen.Devices[i])
		}
		event.Devices = &seen
		return false
	})
}

// preparesNothing takes pods for prepared of which only some, or none, are.
func preparesNothing(which func(commit.Call) bool) FaultInjection {
	return FaultInjection{Prepare: func(p *process, call commit.Call) bool {
		return call.Kind == commit.CallPrepare && which(call)
	}}
}

// givesTwice lets the allocator forget the devices that other claims have.
func givesTwice(p *process) {
	for _, h := range p.reserved {
		for i := range h.grants {
			for j := range h.grants[i].results {
				h.grants[i].results[j].Device = "d0"
			}
		}
	}
}

// evictsForTainted evicts a pod whose devices are tainted for one that asks for devices there.
func evictsForTainted() FaultInjection {
	return evictPair(func(p *process, running, waiting *corev1.Pod) bool {
		view := p.counted()
		node := running.Spec.NodeName
		kept, asks := view.kept[running.UID][classGPU], view.asksOf(waiting.UID)[classGPU]
		return *running.Spec.Priority < *waiting.Spec.Priority && kept > 0 && asks > view.offers[node][classGPU]-kept
	})
}

// plantedDeviceBugs are bugs about devices that a scheduler may have, each with the invariant that it breaks.
func plantedDeviceBugs() []planted {
	calm := &Faults{}
	return []planted{
		{"a pod is bound before its claims are written", "D1", Config{Faults: calm, Sabotage: preparesNothing(func(commit.Call) bool { return true })}},
		{"one member of a gang is bound before its claims are written", "D1", Config{Faults: calm, Sabotage: preparesNothing(func(call commit.Call) bool {
			return strings.HasSuffix(call.Pod.Name, "7")
		})}},
		{"the allocator gives what others have", "D2", Config{Faults: calm, Sabotage: FaultInjection{Rogue: givesTwice}}},
		{"devices are idle as soon as pods are gone", "D3", Config{Faults: calm, Sabotage: misreadClaims(func(claim *resourceapi.ResourceClaim) {
			claim.Status = resourceapi.ResourceClaimStatus{}
		})}},
		{"devices of an inner class are not counted in the outer one", "D3", Config{Faults: calm, Sabotage: misreadDevices(func(device *kube.Device) {
			if slices.Contains(device.Classes, classBig) {
				device.Classes = []string{classBig}
			}
		})}},
		{"two devices are read as one", "Q5", Config{Seed: 35, Faults: calm, Queues: true, Sabotage: misreadClaims(func(claim *resourceapi.ResourceClaim) {
			for _, request := range claim.Spec.Devices.Requests {
				if request.Exactly != nil {
					request.Exactly.Count = 1
				}
			}
			claim.Status = resourceapi.ResourceClaimStatus{}
		})}},
		{"devices of a start that came to nothing are kept", "D4", Config{Faults: &Faults{Calls: 200}, Sabotage: FaultInjection{Prepare: func(_ *process, call commit.Call) bool {
			return call.Kind == commit.CallRelease
		}}}},
		{"pods go for tainted devices", "D5", Config{Faults: calm, Sabotage: evictsForTainted()}},
		{"taints are not read", "D3", Config{Faults: calm, Sabotage: misreadDevices(func(device *kube.Device) { device.Tainted = false })}},
	}
}

func TestPlantedBugsAboutDevicesAreCaught(t *testing.T) {
	catchPlanted(t, plantedDeviceBugs, func(c *Config) { c.Devices = true })
}
