package nodeorder

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// controller is who owns pods, as nodes name it in kube-scheduler's annotation preferAvoidPods.
type controller struct {
	kind string
	uid  types.UID
}

// avoiders are, by controller, the names of the nodes that would rather not run its pods.
type avoiders map[controller]map[string]bool

// avoidersAmong reads the annotations of the nodes. One that is no good counts as none, as it did for kube-scheduler.
func avoidersAmong(nodes []*model.Node) avoiders {
	all := avoiders{}
	for _, node := range nodes {
		text, ok := node.Object.Annotations[corev1.PreferAvoidPodsAnnotationKey]
		if !ok {
			continue
		}
		var avoids corev1.AvoidPods
		if json.Unmarshal([]byte(text), &avoids) != nil {
			continue
		}
		for i := range avoids.PreferAvoidPods {
			owner := avoids.PreferAvoidPods[i].PodSignature.PodController
			if owner == nil {
				continue
			}
			avoided := controller{kind: owner.Kind, uid: owner.UID}
			if all[avoided] == nil {
				all[avoided] = map[string]bool{}
			}
			all[avoided][node.Name] = true
		}
	}
	return all
}

// avoidScore returns the score of nodes that would rather not run the pod, by its controller; ok is false when there is no
// such node, since all are equal then.
//
// The score is global although it reads node objects alone: a pod's controller is not part of its shape.
func (p *plugin) avoidScore(pod *corev1.Pod) (score framework.NodeScore, ok bool) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if p.weights.NodePreferAvoidPods == 0 || owner == nil {
		return score, false
	}
	if p.avoiders == nil {
		p.avoiders = avoidersAmong(p.nodes)
	}
	avoiding := p.avoiders[controller{kind: owner.Kind, uid: owner.UID}]
	if len(avoiding) == 0 {
		return score, false
	}
	raw := func(node *model.Node) int64 {
		if avoiding[node.Name] {
			return 0
		}
		return full
	}
	return framework.NodeScore{Name: "nodepreferavoidpods", Weight: p.weights.NodePreferAvoidPods, Score: raw}, true
}
