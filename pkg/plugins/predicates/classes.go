package predicates

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// rejectWithoutDeviceClass rules out the nodes that have no room for the task unless a device class provides what they do not report, when
// no class does any more: DynamicResources learns it before the snapshot does, and then has nothing against any node.
func (p *plugin) rejectWithoutDeviceClass(task *model.Task) (framework.NodeFilterFunc, *model.Refusal) {
	if !task.MayUseDeviceClass {
		return nil, nil
	}
	gone := map[int]corev1.ResourceName{}
	for i := model.Pods + 1; i < len(task.Request); i++ {
		if name := p.snapshot.Dimensions.Name(i); task.Request[i] > 0 && !p.kube.ByDeviceClass(name) {
			gone[i] = name
		}
	}
	if len(gone) == 0 {
		return nil, nil
	}
	return func(node *model.Node) *model.Refusal {
		var lacking corev1.ResourceName
		for i, name := range gone {
			if node.Allocatable.At(i) == model.ProvidedByDRA && (lacking == "" || name < lacking) {
				lacking = name
			}
		}
		if lacking == "" {
			return nil
		}
		return p.refusals.get("lack "+string(lacking)+", which no DeviceClass provides", false)
	}, nil
}
