package simulation

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// This file is T5 and T11, and what groups and pods say of domains.

// sharedBy returns which members of a job share domains, as its PodGroup or its pods say it; none for a plain pod.
func sharedBy(job model.JobKey, pods []*corev1.Pod, named func(model.JobKey) *v1alpha1.PodGroup) (topology []v1alpha1.TopologyConstraint) {
	switch {
	case job.IsPod():
		return nil
	case job.Source == model.SourcePodGroup:
		if group := named(job); group != nil {
			return group.Spec.Topology
		}
		return nil
	}
	for _, pod := range pods {
		if text := pod.Annotations[v1alpha1.AnnotationTopology]; text != "" && jobKeyOf(pod) == job {
			_ = json.Unmarshal([]byte(text), &topology) // the simulator's own
			return topology
		}
	}
	return nil
}

// domainOf returns the path of the domain of a level that a node is in; empty when it is in none.
func domainOf(node *corev1.Node, level string) string {
	labels := invariants.View{Level: labelsOf}
	return labels.DomainOf(node, level)
}

// domainsOf is what is written with a bind to a node: its narrowest domain in each tree.
func domainsOf(node *corev1.Node) string {
	var all []string
	for _, tree := range []struct {
		name   string
		levels []string
	}{{"fabric", []string{levelRack, levelBlock}}, {"nvlink", []string{levelClique}}} {
		for _, level := range tree.levels {
			if path := domainOf(node, level); path != "" {
				all = append(all, tree.name+"="+path)
				break
			}
		}
	}
	return strings.Join(all, ",")
}

// markOf returns an annotation that was written with the bind of a pod, or is about to be.
func (p *process) markOf(pod *corev1.Pod, key string) string {
	if pod.Spec.NodeName == "" && p.state.Assumed(pod.UID) {
		return p.marks[pod.UID][key]
	}
	return pod.Annotations[key]
}

// writesPlaces is T11 of what is decided: what is written with a bind is where the node is, and which slice it is.
func (j *invariantChecker) writesPlaces(told *expectation, decision model.Decision, topology []v1alpha1.TopologyConstraint) {
	for _, bind := range decision.Binds {
		pod, node, want := told.Pod(bind.Pod), told.Node(bind.Node), map[string]string{}
		if pod == nil || node == nil {
			continue
		}
		if domains := domainsOf(node); len(topology) > 0 && domains != "" {
			want[v1alpha1.AnnotationDomain] = domains
		}
		smallest := int32(0)
		for i := range topology {
			if size := topology[i].SliceSize; size > 0 && invariants.Covered(&topology[i], decision.Job, pod) && (smallest == 0 || size < smallest) {
				smallest = size
			}
		}
		if index, ok := told.Index(pod); ok && smallest > 0 {
			want[v1alpha1.LabelIndex], want[v1alpha1.AnnotationSlice] = fmt.Sprint(index), fmt.Sprint(index/int(smallest))
		}
		if !maps.Equal(bind.Place, want) || smallest > 0 && want[v1alpha1.LabelIndex] == "" {
			j.violated("T11", "with the bind of %s to %s %v is written, and it is in %v", bind.Pod, bind.Node, bind.Place, want)
		}
	}
}

// hasPlace is T11 of what came of it: a pod that is bound has what was decided.
func (j *invariantChecker) hasPlace(p *process, uid types.UID, pod *corev1.Pod) {
	for key, value := range p.marks[uid] {
		if pod != nil && pod.UID == uid && pod.Annotations[key] != value {
			j.violated("T11", "pod %s is bound with %s %q, and %q was decided", keyOf(pod), key, pod.Annotations[key], value)
		}
	}
}

// keepsOrder is T5: where all members of a gang start together, from each one to the next by index another domain is entered as
// seldom as possible, of the tree that the gang names first and of single nodes. Gangs in slices and with unlike members are not
// looked at.
func (j *invariantChecker) keepsOrder(told *expectation, decision model.Decision, topology []v1alpha1.TopologyConstraint) {
	group := told.Group(decision.Job)
	if len(topology) == 0 || len(decision.Binds) == 0 || group == nil || len(group.Spec.Roles) > 0 || j.isMixed(decision.Job) {
		return
	}
	levels := []string{levelBlock, levelRack, config.LevelHost}
	switch {
	case slices.ContainsFunc(topology, func(entry v1alpha1.TopologyConstraint) bool { return entry.SliceSize > 0 }):
		return
	case topology[0].Level == levelClique:
		levels = []string{levelClique, config.LevelHost}
	case topology[0].Level != levelBlock && topology[0].Level != levelRack:
		return
	}
	var members []*corev1.Pod
	for _, pod := range told.Pods {
		if ours(pod) && jobKeyOf(pod) == decision.Job && told.IsThere(pod) {
			members = append(members, pod)
		}
	}
	if len(members) != len(decision.Binds) || len(members) != decision.MinBinds {
		return
	}
	slices.SortFunc(members, func(a, b *corev1.Pod) int { return orderOf(told, a) - orderOf(told, b) })
	for i, level := range levels {
		entered, seen, last := 0, map[string]bool{}, ""
		for at, pod := range members {
			path := ""
			for _, one := range levels[:i+1] {
				path += " " + told.DomainOf(told.Node(told.Place(pod)), one)
			}
			if at == 0 || path != last {
				entered++
			}
			seen[path], last = true, path
		}
		if entered != len(seen) {
			j.violated("T5", "the members of %s enter a %s %d times, of which there are %d", decision.Job, level, entered, len(seen))
			return
		}
	}
}

// orderOf is by index, and without one by the number at the end of the name.
func orderOf(told *expectation, pod *corev1.Pod) int {
	if index, ok := told.Index(pod); ok {
		return index
	}
	number, _ := strconv.Atoi(pod.Name[strings.LastIndex(pod.Name, "-")+1:])
	return number
}
