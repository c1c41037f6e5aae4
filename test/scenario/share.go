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
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
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

// checkShared is invariant T1: members which must share a domain do. Those that a cycle has given a node are in one, together
// with most of the members that had one before.
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
		all := s.sharedBy(decision.Job)
		for _, shared := range all {
			if shared.Mode == v1alpha1.TopologyPreferred {
				continue
			}
			if err := s.checkSlices(decision.Job, shared, all, fresh); err != nil {
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

func (s *environment) checkSlices(
	job model.JobKey, shared v1alpha1.TopologyConstraint, all []v1alpha1.TopologyConstraint, fresh map[types.UID]bool,
) error {
	slicesOf, owner := map[int]standing{}, map[int]string{}
	for _, pod := range s.world.pods {
		node := s.world.nodes[s.nodeOf(pod)]
		if s.jobOf(pod) != job || node == nil || pod.DeletionTimestamp != nil || ended(pod) ||
			shared.Roles != nil && !slices.Contains(shared.Roles, s.roleOf(pod)) {
			continue
		}
		slice := 0
		if shared.SliceSize > 0 {
			index, err := s.indexOf(pod)
			if err != nil && fresh[pod.UID] {
				return fmt.Errorf("invariant T1: pod %s must share a %s with a slice, and has no index: %w", pod.Name, shared.Level, err)
			}
			if err != nil {
				continue // it was bound before the entry had slices
			}
			if other := owner[index]; other != "" && fresh[pod.UID] {
				return fmt.Errorf("invariant T1: pods %s and %s have the index %d", pod.Name, other, index)
			}
			owner[index], slice = pod.Name, index/int(shared.SliceSize)
		}
		at, known := slicesOf[slice]
		if !known {
			at = standing{map[string]int{}, map[string]bool{}}
			slicesOf[slice] = at
		}
		if fresh[pod.UID] {
			at.now[placeOf(node, shared.Level)] = true
		} else if place := standsIn(pod, node, shared.Level); place != "" {
			at.before[place]++
		}
	}
	for _, slice := range slices.Sorted(maps.Keys(slicesOf)) {
		if at := slicesOf[slice]; at.now[""] || len(at.now) > 1 {
			return fmt.Errorf("invariant T1: slice %d of %s must share a %s, and is started in %v", slice, job, shared.Level, at.now)
		} else if err := at.followsMost(s.insideWider(job, shared, all, fresh)); err != nil {
			return fmt.Errorf("invariant T1: slice %d of %s must share a %s: %w", slice, job, shared.Level, err)
		}
	}
	return nil
}

// standsIn returns the domain of a member that has had its node before this cycle: while the node has no label, what was written
// on the pod with its bind.
func standsIn(pod *corev1.Pod, node *corev1.Node, level string) string {
	place := placeOf(node, level)
	depth := map[string]int{"block": 1, "rack": 2, "clique": 1}[level]
	for _, one := range strings.Split(pod.Annotations[v1alpha1.AnnotationDomain], ",") {
		tree, path, _ := strings.Cut(one, "=")
		if values := strings.Split(path, "/"); place == "" && (tree == "nvlink") == (level == "clique") && depth > 0 && len(values) >= depth {
			place = strings.Join(values[:depth], "/")
		}
	}
	return place
}

// insideWider returns which domains of an entry have nodes in the domains of most members by entries for at least the same
// members with fewer domains: where entries contradict each other, these decide first. Where they have no such domain all have.
func (s *environment) insideWider(
	job model.JobKey, shared v1alpha1.TopologyConstraint, all []v1alpha1.TopologyConstraint, fresh map[types.UID]bool,
) func(place string) bool {
	places := func(level string) map[string]bool {
		found := map[string]bool{}
		for _, node := range s.world.nodes {
			if place := placeOf(node, level); place != "" {
				found[place] = true
			}
		}
		return found
	}
	var around []func(string) bool
	for _, wider := range all {
		if wider.Mode == v1alpha1.TopologyPreferred || wider.Level == shared.Level || len(places(wider.Level)) >= len(places(shared.Level)) {
			continue
		}
		before := map[string]int{}
		for _, pod := range s.world.pods {
			node := s.world.nodes[s.nodeOf(pod)]
			if s.jobOf(pod) == job && node != nil && !fresh[pod.UID] && pod.DeletionTimestamp == nil && !ended(pod) &&
				(wider.Roles == nil || slices.Contains(wider.Roles, s.roleOf(pod))) {
				before[standsIn(pod, node, wider.Level)]++
			}
		}
		delete(before, "")
		for one, members := range before {
			if members < slices.Max(slices.Collect(maps.Values(before))) {
				continue
			}
			around = append(around, func(place string) bool {
				for _, node := range s.world.nodes {
					if placeOf(node, shared.Level) == place && placeOf(node, wider.Level) == one {
						return true
					}
				}
				return false
			})
		}
	}
	return func(place string) bool {
		return !slices.ContainsFunc(around, func(inside func(string) bool) bool { return !inside(place) })
	}
}

// followsMost holds that new members are where most of the others are, of the domains that count.
func (at standing) followsMost(counts func(place string) bool) error {
	for place := range at.now {
		for other, members := range at.before {
			if members > at.before[place] && counts(other) {
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
		label := pod.Annotations[sources.KueueRequired]
		if label != "" && pod.Labels[sources.KueueGivesPlace] == "" && job.Source == model.SourceKueue {
			all = append(all, v1alpha1.TopologyConstraint{Level: "label:" + label})
		}
	}
	return all
}

// checkVictimsShare is invariant T2: each job that loses pods for a gang whose members must share a domain loses one there at
// least. Where a limit keeps the gang waiting, pods may go that hold no capacity there.
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
				return fmt.Errorf("invariant T2: %s must share a %s, and is nominated to %v", decision.Job, shared.Level, start)
			}
			for job := range inside {
				if !inside[job] {
					return fmt.Errorf("invariant T2: %s must share a %s, is nominated to %v, and %s loses pods elsewhere", decision.Job, shared.Level, start, job)
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
