package scenario

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// topologies are those of stories and of random clusters. They change nothing for jobs that name no level, unless the plugin
// topology is configured.
const topologies = `topologies:
- name: fabric
  levels: [{name: block, label: block}, {name: rack, label: rack}]
- name: nvlink
  levels: [{name: clique, label: clique}]
`

// sharedBy returns which members of a job share a domain, as its group says it, and as its pods do where that is not one of ours.
func (s *environment) sharedBy(job model.JobKey) (all []v1alpha1.TopologyConstraint) {
	group := s.groupOfJob(job)
	if group == nil {
		return nil
	}
	for _, shared := range group.Spec.Topology {
		if job.Source == model.SourceNative {
			shared.Level = "label:" + shared.Level
		}
		all = append(all, shared)
	}
	for _, pod := range s.world.pods {
		if s.jobOf(pod) != job || job.Source == model.SourcePodGroup || job.IsPod() || pod.DeletionTimestamp != nil || invariants.Finished(pod) {
			continue
		}
		var said []v1alpha1.TopologyConstraint
		if json.Unmarshal([]byte(pod.Annotations[v1alpha1.AnnotationTopology]), &said) == nil {
			all = append(all, said...)
		}
		label := pod.Annotations[sources.KueueRequired]
		if label != "" && pod.Labels[sources.KueueGivesPlace] == "" && job.Source == model.SourceKueue {
			all = append(all, v1alpha1.TopologyConstraint{Level: "label:" + label})
		}
	}
	return all
}

// sharedDomain reads an entry of spec.topology: LEVEL, LEVEL~ if it is preferred, with @ROLE+ROLE, then :SLICESIZE or
// !WAITSECONDS.
func sharedDomain(entry string) v1alpha1.TopologyConstraint {
	entry, wait, _ := strings.Cut(entry, "!")
	entry, ofLabel := strings.CutPrefix(entry, "label:")
	entry, size, _ := strings.Cut(entry, ":")
	level, roles, some := strings.Cut(entry, "@")
	shared := v1alpha1.TopologyConstraint{Level: strings.TrimSuffix(level, "~"), Mode: v1alpha1.TopologyRequired}
	if level != shared.Level {
		shared.Mode = v1alpha1.TopologyPreferred
	}
	if ofLabel {
		shared.Level = "label:" + shared.Level
	}
	if some {
		shared.Roles = strings.Split(roles, "+")
	}
	shared.SliceSize, shared.WaitSeconds = wholeNumber(size), wholeNumber(wait)
	return shared
}

func wholeNumber(text string) int32 {
	n, _ := strconv.ParseInt(text, 10, 32)
	return int32(n)
}
