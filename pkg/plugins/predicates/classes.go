package predicates

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// rejectWithoutDeviceClass rejects nodes without capacity for the task unless a device class provides the resources that they
// do not report, for the time when the class is deleted already: DynamicResources sees this before the snapshot does, and
// then rejects no node.
func (p *plugin) rejectWithoutDeviceClass(task *model.Task) (framework.NodeFilterFunc, *model.Refusal) {
	if !task.MayUseDeviceClass {
		return nil, nil
	}
	gone := map[int]corev1.ResourceName{}
	for i := model.Pods + 1; i < len(task.Request); i++ {
		if name := p.session.Snapshot.Dimensions.Name(i); task.Request[i] > 0 && !p.kube.ByDeviceClass(name) {
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
