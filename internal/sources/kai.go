package sources

import (
	"fmt"

	"github.com/tutti-sched/tutti/pkg/model"
)

// The annotations of KAI (docs/topology of kai-scheduler/KAI-Scheduler) name a level for all pods of a workload. Without a slash
// it may be the alias of a level, which KAI's Topology explains: it has to be the name of a level here.
const (
	KAIRequired  = "kai.scheduler/topology-required-placement"
	KAIPreferred = "kai.scheduler/topology-preferred-placement"
)

// readKAI reads what is required and what is preferred; both may be. An empty annotation says nothing.
func readKAI(annotations map[string]string) (constraints []model.SaidConstraint, problem string) {
	for _, key := range []string{KAIRequired, KAIPreferred} {
		level := annotations[key]
		if len(level) > maxLevel {
			return nil, fmt.Sprintf("annotation %s is %q, which cannot be a level", key, model.Brief(level, maxQuoted))
		}
		if level != "" {
			constraints = append(constraints, model.SaidConstraint{TopologyConstraint: model.TopologyConstraint{Level: level, Preferred: key == KAIPreferred}, Set: "workload"})
		}
	}
	return constraints, ""
}
