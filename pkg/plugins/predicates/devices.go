package predicates

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file says where the number of devices of a node says whether a task finds its devices there, so that kube-scheduler's
// allocator has to be asked for the chosen node only.

// countsDevices reports whether the numbers of a node say whether it has the devices of a task. They do not where devices cannot
// be counted, where the selectors of its claims select some devices of a class and not others, and where a device plugin reports
// the resource and the task asks for devices of ResourceSlices.
func (p *plugin) countsDevices(task *model.Task, node *model.Node) bool {
	return !task.SearchesDevices() && !p.disagreed[node] && p.isCounted(task, node) && !selectsSome(task, node)
}

// isCounted reports whether the devices of a node that a task asks for are counted, and are those of ResourceSlices where it asks
// for these.
func (p *plugin) isCounted(task *model.Task, node *model.Node) bool {
	for i := model.Pods + 1; i < len(task.Request); i++ {
		if task.Request[i] > 0 && node.Allocatable().At(i) == model.ProvidedByDRA {
			return false
		}
		if (own(task, i) < task.Request[i] || asksByClass(task.Pod)) && p.reports(node, i) {
			return false
		}
	}
	return true
}

// selectsSome reports whether the selectors of a claim of the task select some of the node's devices of a class and not others.
func selectsSome(task *model.Task, node *model.Node) bool {
	if task.Devices == nil || node.Devices == nil {
		return false
	}
	return slices.ContainsFunc(task.Devices.Selectors, func(by model.DeviceSelectors) bool {
		some, all := node.Devices.Select(by)
		return some && !all
	})
}

// rejectUnselected rejects nodes without a device that satisfies the selectors of a claim. Devices in use count, too, so that no
// eviction would help. The first question about a node evaluates the expressions, in the time that the job has for searches.
func (p *plugin) rejectUnselected(task *model.Task) (framework.NodeFilterFunc, *model.Refusal) {
	if task.Devices == nil || len(task.Devices.Selectors) == 0 || task.SearchesDevices() {
		return nil, nil
	}
	return func(node *model.Node) *model.Refusal {
		if node.Devices == nil || !p.isCounted(task, node) {
			return nil
		}
		missing := ""
		evaluate := func(context.Context) {
			for _, by := range task.Devices.Selectors {
				if some, _ := node.Devices.Select(by); !some && missing == "" {
					missing = by.Class
				}
			}
		}
		if cut := p.search(task, evaluate); cut != nil {
			return cut
		}
		if missing == "" {
			return nil
		}
		return p.refusals.get("have no device of DeviceClass "+missing+" that satisfies the selectors of the claim", false)
	}, nil
}

// own returns how much of a resource the task requests itself, without what it asks for by claims.
func own(task *model.Task, position int) int64 {
	if task.Devices == nil {
		return task.Request[position]
	}
	return task.Request[position] - task.Devices.Claimed.At(position)
}

// asksByClass reports whether the pod requests a resource that is made of the name of a class, which no device plugin reports. It
// is counted as the resource that the class provides, which one may report (KEP-5004).
func asksByClass(pod *corev1.Pod) bool {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for name := range containers[i].Resources.Requests {
				if strings.HasPrefix(string(name), resourceapi.ResourceDeviceClassPrefix) {
					return true
				}
			}
		}
	}
	return false
}

// reports reports whether a node itself says that it has more than nothing of a resource.
func (p *plugin) reports(node *model.Node, position int) bool {
	amount := node.Object.Status.Allocatable[p.view.Snapshot().Dimensions.Name(position)]
	return !amount.IsZero()
}

// needsSearch reports whether there is a node for which the allocator has to be asked before the task is placed there.
func (p *plugin) needsSearch(task *model.Task) bool {
	if !wantsDevices(task) {
		return false
	}
	if task.SearchesDevices() || len(p.disagreed) > 0 || task.Devices != nil && len(task.Devices.Selectors) > 0 {
		return true
	}
	if p.searched == nil {
		p.searched = map[int]bool{}
	}
	for i := model.Pods + 1; i < len(task.Request); i++ {
		if task.Request[i] == 0 {
			continue
		}
		some, known := p.searched[i]
		if !known {
			for _, node := range p.view.Snapshot().Nodes {
				if some = node.Allocatable().At(i) == model.ProvidedByDRA || p.reports(node, i); some {
					break
				}
			}
			p.searched[i] = some
		}
		if some {
			return true
		}
	}
	return false
}

// rejectReservedDevices rejects nodes with devices that are reserved or nominated for others, where a claim of the task asks for
// devices of their class in a way that is not in its request: it could be given those.
func (p *plugin) rejectReservedDevices(task *model.Task) (framework.NodeFilterFunc, *model.Refusal) {
	if task.Devices == nil || len(task.Devices.Uncounted) == 0 {
		return nil, nil
	}
	return func(node *model.Node) *model.Refusal {
		for _, position := range task.Devices.Uncounted {
			if node.IsKept(position) {
				return p.refusals.get("have devices of "+string(p.view.Snapshot().Dimensions.Name(position))+" that are reserved", false)
			}
		}
		return nil
	}, nil
}

// rejectPromisedClaims rejects nodes where the devices of a claim of the task are about to become free, since all pods there that
// use the claim terminate, and devices of their class are nominated to others, or reserved. With the task the claim would keep
// them, and pods would have been evicted in vain.
func (p *plugin) rejectPromisedClaims(task *model.Task) (framework.NodeFilterFunc, *model.Refusal) {
	named := func(claim corev1.PodResourceClaim) bool { return claim.ResourceClaimName != nil }
	if !slices.ContainsFunc(task.Pod.Spec.ResourceClaims, named) {
		return nil, nil
	}
	return func(node *model.Node) *model.Refusal {
		promised := ""
		for _, other := range node.Tasks {
			switch {
			case !task.SharesClaim(other):
			case other.Status != model.Releasing:
				return nil
			case other.Devices != nil:
				for i, amount := range other.Devices.Claimed {
					if amount > 0 && node.IsKept(i) {
						promised = string(p.view.Snapshot().Dimensions.Name(i))
					}
				}
			}
		}
		if promised == "" {
			return nil
		}
		return p.refusals.get("have devices of "+promised+" that become free for others when the claim's pods end", false)
	}, nil
}

// rejectOldKubelets rejects nodes whose kubelets would start the task without the devices that stand for its extended resources.
func (p *plugin) rejectOldKubelets(task *model.Task) (framework.NodeFilterFunc, *model.Refusal) {
	if !task.MayUseDeviceClass || !p.hasOldKubelets() {
		return nil, nil
	}
	return func(node *model.Node) *model.Refusal {
		if !node.OldKubelet {
			return nil
		}
		for i := model.Pods + 1; i < len(task.Request); i++ {
			if name := p.view.Snapshot().Dimensions.Name(i); own(task, i) > 0 && !p.reports(node, i) && p.kube.ByDeviceClass(name) {
				return p.refusals.get("run a kubelet older than 1.36, which starts pods without the devices for "+string(name), false)
			}
		}
		return nil
	}, nil
}

// hasOldKubelets reports whether any node has one. It looks once in a session.
func (p *plugin) hasOldKubelets() bool {
	if p.oldKubelets == nil {
		p.oldKubelets = new(slices.ContainsFunc(p.view.Snapshot().Nodes, func(node *model.Node) bool { return node.OldKubelet }))
	}
	return *p.oldKubelets
}
