package nodeorder

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// controllerRef is the controller of pods, as nodes name it in kube-scheduler's annotation preferAvoidPods.
type controllerRef struct {
	kind string
	uid  types.UID
}

// preferAvoidNodes are, by controller, the names of the nodes that avoid its pods.
type preferAvoidNodes map[controllerRef]map[string]bool

// preferAvoidNodesOf reads the annotations of the nodes. An invalid one is ignored, as in kube-scheduler.
func preferAvoidNodesOf(nodes []*model.Node) preferAvoidNodes {
	all := preferAvoidNodes{}
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
			avoided := controllerRef{kind: owner.Kind, uid: owner.UID}
			if all[avoided] == nil {
				all[avoided] = map[string]bool{}
			}
			all[avoided][node.Name] = true
		}
	}
	return all
}

// preferAvoidPodsScore returns the score of nodes that avoid the pod, by its controller; ok is false when no node does, since
// all are equal then.
//
// The scope is global although it reads only node objects: a pod's controller is not part of its shape.
func (p *plugin) preferAvoidPodsScore(pod *corev1.Pod) (score framework.NodeScore, ok bool) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if p.weights.NodePreferAvoidPods == 0 || owner == nil {
		return score, false
	}
	if p.avoiders == nil {
		p.avoiders = preferAvoidNodesOf(p.nodes)
	}
	avoiding := p.avoiders[controllerRef{kind: owner.Kind, uid: owner.UID}]
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
