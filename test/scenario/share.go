package scenario

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster/groups"
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

// placeOf returns the domain of a level that the node is in, as its labels say it; empty when it is in none.
func placeOf(node *corev1.Node, level string) string {
	if label, ok := strings.CutPrefix(level, "label:"); ok {
		return node.Labels[label]
	}
	switch level {
	case "host":
		return node.Name
	case "rack":
		if rack := node.Labels["rack"]; rack != "" {
			return node.Labels["block"] + "/" + rack
		}
		return ""
	}
	return node.Labels[level]
}

// checkShared holds that members which must share a domain do: those that a cycle has given a node are in one, together with most
// of the members that had one before.
func (s *environment) checkShared(o *outcome) error {
	fresh := map[types.UID]bool{}
	for _, pods := range o.bound() {
		for uid := range pods {
			fresh[uid] = true
		}
	}
	for _, decision := range o.decisions {
		if len(decision.Binds) == 0 {
			continue
		}
		for _, shared := range s.sharedBy(decision.Job) {
			if shared.Mode == v1alpha1.TopologyPreferred {
				continue
			}
			if err := s.checkSlices(decision.Job, shared, fresh); err != nil {
				return err
			}
		}
	}
	return nil
}

// standing is where the members are that must share a domain: how many have a node since earlier cycles, by domain, and in which
// domains a cycle has placed some.
type standing struct {
	before map[string]int
	now    map[string]bool
}

func (s *environment) checkSlices(job model.JobKey, shared v1alpha1.TopologyConstraint, fresh map[types.UID]bool) error {
	slicesOf, owner := map[int]standing{}, map[int]string{}
	for _, pod := range s.world.pods {
		node := s.world.nodes[s.nodeOf(pod)]
		if s.jobOf(pod) != job || node == nil || pod.DeletionTimestamp != nil || ended(pod) ||
			shared.Roles != nil && !slices.Contains(shared.Roles, invariants.RoleOf(pod)) {
			continue
		}
		slice := 0
		if shared.SliceSize > 0 {
			index, err := s.indexOf(pod)
			if err != nil && fresh[pod.UID] {
				return fmt.Errorf("invariant I30: pod %s must share a %s with a slice, and has no index: %w", pod.Name, shared.Level, err)
			}
			if err != nil {
				continue // it was bound before the entry had slices
			}
			if other := owner[index]; other != "" && fresh[pod.UID] {
				return fmt.Errorf("invariant I30: pods %s and %s have the index %d", pod.Name, other, index)
			}
			owner[index], slice = pod.Name, index/int(shared.SliceSize)
		}
		at, known := slicesOf[slice]
		if !known {
			at = standing{map[string]int{}, map[string]bool{}}
			slicesOf[slice] = at
		}
		if place := placeOf(node, shared.Level); fresh[pod.UID] {
			at.now[place] = true
		} else if place != "" {
			at.before[place]++
		}
	}
	for _, slice := range slices.Sorted(maps.Keys(slicesOf)) {
		if at := slicesOf[slice]; at.now[""] || len(at.now) > 1 {
			return fmt.Errorf("invariant I30: slice %d of %s must share a %s, and is started in %v", slice, job, shared.Level, at.now)
		} else if err := at.followsMost(); err != nil {
			return fmt.Errorf("invariant I30: slice %d of %s must share a %s: %w", slice, job, shared.Level, err)
		}
	}
	return nil
}

// followsMost holds that new members are where most of the others are.
func (at standing) followsMost() error {
	for place := range at.now {
		for other, members := range at.before {
			if members > at.before[place] {
				return fmt.Errorf("%d members are in %s, new ones in %s", members, other, place)
			}
		}
	}
	return nil
}

// indexOf returns the index of a member that is bound, as its label or what was written with its bind says.
func (s *environment) indexOf(pod *corev1.Pod) (int, error) {
	text := pod.Labels[v1alpha1.LabelIndex]
	if text == "" {
		text = s.given[pod.UID][v1alpha1.LabelIndex]
	}
	if text == "" {
		text = pod.Annotations[v1alpha1.LabelIndex]
	}
	return strconv.Atoi(text)
}

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
		if s.jobOf(pod) != job || job.Source == model.SourcePodGroup || job.IsPod() || pod.DeletionTimestamp != nil || ended(pod) {
			continue
		}
		var said []v1alpha1.TopologyConstraint
		if json.Unmarshal([]byte(pod.Annotations[v1alpha1.AnnotationTopology]), &said) == nil {
			all = append(all, said...)
		}
		label := pod.Annotations[groups.KueueRequired]
		if label != "" && pod.Labels[groups.KueueGivesPlace] == "" && job.Source == model.SourceKueue {
			all = append(all, v1alpha1.TopologyConstraint{Level: "label:" + label})
		}
	}
	return all
}

// checkVictimsShare holds that each job that loses pods for a gang whose members must share a domain loses one there at least.
// Where a limit keeps the gang waiting, pods may go that hold no capacity there.
func (s *environment) checkVictimsShare(o *outcome) error {
	for _, decision := range o.decisions {
		if len(decision.Evictions) == 0 || s.hasLimit(s.queueOf(decision.Job)) {
			continue
		}
		for _, shared := range s.sharedBy(decision.Job) {
			if shared.Mode == v1alpha1.TopologyPreferred || shared.Roles != nil || shared.SliceSize > 0 {
				continue
			}
			start, inside := map[string]bool{}, map[model.JobKey]bool{}
			for _, nomination := range decision.Nominations {
				if nomination.Node != "" { // else it is taken back
					start[placeOf(s.world.nodes[nomination.Node], shared.Level)] = true
				}
			}
			for _, eviction := range decision.Evictions {
				node := s.world.nodes[s.world.pods[key(eviction.Pod.Namespace, eviction.Pod.Name)].Spec.NodeName]
				inside[eviction.Job] = inside[eviction.Job] || node != nil && start[placeOf(node, shared.Level)]
			}
			if len(start) != 1 || start[""] {
				return fmt.Errorf("invariant I31: %s must share a %s, and is nominated to %v", decision.Job, shared.Level, start)
			}
			for job := range inside {
				if !inside[job] {
					return fmt.Errorf("invariant I31: %s must share a %s, is nominated to %v, and %s loses pods elsewhere", decision.Job, shared.Level, start, job)
				}
			}
		}
	}
	return nil
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
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
