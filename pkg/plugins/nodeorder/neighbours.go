package nodeorder

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// neighbourScores adds the scores that depend on the pods on all nodes: inter-pod affinity and topology spread. Spread
// normalises to 0…100 by its own rule.
func (p *plugin) neighbourScores(
	scores []framework.NodeScore, pod *corev1.Pod, candidates []*model.Node,
) []framework.NodeScore {
	if weight := p.weights.PodAffinity; weight > 0 {
		if s := p.index.AffinityScore(pod, p.weights.PodAffinityHard); s != nil {
			scores = append(scores, framework.NodeScore{
				Name: "podaffinity", Weight: weight, Normalization: framework.NormalizeMinMax, Score: s.Of,
			})
		}
	}
	if weight := p.weights.PodTopologySpread; weight > 0 {
		s := p.index.SpreadScore(pod, candidates)
		if p.spreadSelector != nil && len(pod.Spec.TopologySpreadConstraints) == 0 {
			s = p.index.DefaultSpreadScore(pod, p.spreadSelector(pod), candidates)
		}
		if s != nil {
			scores = append(scores, framework.NodeScore{
				Name: "podtopologyspread", Weight: weight, Normalization: framework.NormalizeNone, Score: s.Of,
			})
		}
	}
	return scores
}
