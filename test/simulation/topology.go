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

// This file is T1, T2, T5, T8 and T11: where members are that share domains, counted from the labels of nodes, and from what
// groups and pods say.

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
	labels, known := labelsOf(level)
	switch {
	case !known || node == nil:
		return ""
	case len(labels) == 0:
		return node.Name
	case node.Labels[labels[len(labels)-1]] == "":
		return ""
	}
	var path []string
	for _, label := range labels {
		path = append(path, node.Labels[label])
	}
	return strings.Join(path, "/")
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

// memberDomain returns the domain in which a member stands: that of its node, and while this has no label of the level the one
// that was written with the bind.
func memberDomain(node *corev1.Node, level, mark string) string {
	at := domainOf(node, level)
	labels, _ := labelsOf(level)
	tree := map[string]string{levelBlock: "fabric", levelRack: "fabric", levelClique: "nvlink"}[level]
	if at != "" || tree == "" {
		return at
	}
	for _, one := range strings.Split(mark, ",") {
		name, path, _ := strings.Cut(one, "=")
		values := strings.Split(path, "/")
		if name == tree && len(values) >= len(labels) && values[len(labels)-1] != "" {
			return strings.Join(values[:len(labels)], "/")
		}
	}
	return ""
}

func covered(entry *v1alpha1.TopologyConstraint, pod *corev1.Pod) bool {
	return len(entry.Roles) == 0 || slices.Contains(entry.Roles, invariants.RoleOf(pod))
}

func required(entry *v1alpha1.TopologyConstraint) bool {
	return entry.Mode != v1alpha1.TopologyPreferred
}

// staysTogether judges where a decision places members that share domains.
func (j *invariantChecker) staysTogether(p *process, decision model.Decision) {
	topology := sharedBy(decision.Job, p.pods(), p.groupOf)
	for _, bind := range decision.Binds {
		p.marks[bind.Pod.UID] = maps.Clone(bind.Place)
	}
	fresh, gets := map[types.UID]string{}, map[types.UID]string{}
	for _, bind := range decision.Binds {
		fresh[bind.Pod.UID] = bind.Node
	}
	for _, nomination := range decision.Nominations {
		if !nomination.Releases() {
			gets[nomination.Pod.UID] = nomination.Node
		}
	}
	for i := range topology {
		entry := &topology[i]
		if _, known := labelsOf(entry.Level); !known {
			if len(fresh)+len(gets) > 0 {
				j.violated("T8", "%s is placed, and there is no level %s", decision.Job, entry.Level)
			}
			continue
		}
		if required(entry) {
			j.sharesDomain(p, decision.Job, entry, topology, fresh)
			j.sharesDomain(p, decision.Job, entry, topology, gets)
			j.reservesInOne(p, decision, entry)
		}
	}
	j.evictsThere(p, decision, topology)
	j.writesPlaces(p, decision, topology)
	j.keepsOrder(p, decision, topology)
}

// sharesDomain is T1: members that are placed share the domain that they must share, with each other and with those that stand.
func (j *invariantChecker) sharesDomain(
	p *process, job model.JobKey, entry *v1alpha1.TopologyConstraint, topology []v1alpha1.TopologyConstraint, fresh map[types.UID]string,
) {
	in := map[int]string{}
	slice, known := p.slices(job, entry, fresh)
	if !known {
		return
	}
	for _, pod := range p.pods() {
		node, placed := fresh[pod.UID]
		if !placed || !covered(entry, pod) {
			continue
		}
		at := domainOf(p.node(node), entry.Level)
		if before, known := in[slice(pod)]; at == "" || known && before != at {
			j.violated("T1", "members of %s must share one %s (slice %d), and %s is placed on %s in %q, another one in %q", job,
				entry.Level, slice(pod), keyOf(pod), node, at, before)
			return
		}
		in[slice(pod)] = at
	}
	standing := p.standing(job, entry, fresh, slice)
	for number, at := range in {
		there := standing[number]
		most := 0
		for _, members := range there {
			most = max(most, members)
		}
		if most > 0 && (there[at] == 0 || there[at] < most && alone(entry, topology)) {
			j.violated("T1", "members of %s must share one %s (slice %d), and some are placed in %q where the others are in %v", job,
				entry.Level, number, at, there)
		}
	}
}

// alone reports whether no other entry decides in which domain most of the members stand.
func alone(entry *v1alpha1.TopologyConstraint, topology []v1alpha1.TopologyConstraint) bool {
	return !slices.ContainsFunc(topology, func(other v1alpha1.TopologyConstraint) bool {
		return required(&other) && other.Level != entry.Level
	})
}

// standing counts in which domains members are that were placed before, by slice.
func (p *process) standing(
	job model.JobKey, entry *v1alpha1.TopologyConstraint, fresh map[types.UID]string, slice func(*corev1.Pod) int,
) map[int]map[string]int {
	in := map[int]map[string]int{}
	for _, pod := range p.pods() {
		if fresh[pod.UID] != "" || !ours(pod) || jobKeyOf(pod) != job || !covered(entry, pod) || !p.isThere(pod) {
			continue
		}
		at := memberDomain(p.node(p.place(pod)), entry.Level, p.markOf(pod, v1alpha1.AnnotationDomain))
		if at == "" || p.node(p.place(pod)) == nil {
			continue
		}
		if in[slice(pod)] == nil {
			in[slice(pod)] = map[string]int{}
		}
		in[slice(pod)][at]++
	}
	return in
}

// isThere reports whether a member is on a node and neither ends nor has ended.
func (p *process) isThere(pod *corev1.Pod) bool {
	return p.place(pod) != "" && !finished(pod) && p.stays(pod, p.place(pod), nil)
}

// slices returns the number of the slice of each member that has a place, zero for all where an entry has none. known is false
// where the pods do not say their indexes.
func (p *process) slices(job model.JobKey, entry *v1alpha1.TopologyConstraint, fresh map[types.UID]string) (of func(*corev1.Pod) int, known bool) {
	if entry.SliceSize == 0 {
		return func(*corev1.Pod) int { return 0 }, true
	}
	index, used := map[types.UID]int{}, map[int]bool{}
	for _, pod := range p.pods() {
		if !ours(pod) || jobKeyOf(pod) != job || !covered(entry, pod) || !p.isThere(pod) && fresh[pod.UID] == "" {
			continue
		}
		number, ok := p.index(pod)
		if !ok || used[number] {
			return nil, false
		}
		index[pod.UID], used[number] = number, true
	}
	return func(pod *corev1.Pod) int { return index[pod.UID] / int(entry.SliceSize) }, true
}

// index returns what the label of a pod says, or what was written with its bind.
func (p *process) index(pod *corev1.Pod) (int, bool) {
	text := pod.Labels[v1alpha1.LabelIndex]
	if text == "" {
		text = p.markOf(pod, v1alpha1.LabelIndex)
	}
	index, err := strconv.Atoi(text)
	return index, err == nil
}

// reservesInOne is T1 of reservations: they are in one domain of the level that all members share.
func (j *invariantChecker) reservesInOne(p *process, decision model.Decision, entry *v1alpha1.TopologyConstraint) {
	if decision.Reservation == nil || entry.SliceSize > 0 || len(entry.Roles) > 0 {
		return
	}
	in := map[string]bool{}
	for _, reserved := range decision.Reservation.Nodes {
		if at := domainOf(p.node(reserved.Node), entry.Level); at != "" {
			in[at] = true
		}
	}
	if len(in) > 1 {
		j.violated("T1", "capacity is reserved for %s, whose members must share one %s, in %v", decision.Job, entry.Level, sortedNames(in))
	}
}

// evictsThere is T2: where all members share a domain, each job that loses pods loses one of them there, unless a limit of the
// queue keeps it waiting, or capacity is held there.
func (j *invariantChecker) evictsThere(p *process, decision model.Decision, topology []v1alpha1.TopologyConstraint) {
	gets := nominatedBy(decision)
	if len(gets) == 0 || slices.ContainsFunc(p.snapshot.Held(), func(hold model.HeldCapacity) bool { return hold.Reserved() && hold.Job != decision.Job }) {
		return
	}
	for i := range topology {
		entry := &topology[i]
		if !required(entry) || entry.SliceSize > 0 || len(entry.Roles) > 0 {
			continue
		}
		there := map[string]bool{}
		for _, nomination := range decision.Nominations {
			there[domainOf(p.node(nomination.Node), entry.Level)] = true
		}
		for _, eviction := range decision.Evictions {
			helps := func(other model.Eviction) bool {
				return other.Job == eviction.Job && there[domainOf(p.node(other.Node), entry.Level)]
			}
			if !slices.ContainsFunc(decision.Evictions, helps) && !j.limitsOnly(p, decision, j.spares(p, decision, eviction.Job)) {
				j.violated("T2", "%s is evicted for %s, whose members are to share one %s of %v, and no pod of its job is there", eviction.Pod,
					decision.Job, entry.Level, sortedNames(there))
			}
		}
	}
}

// writesPlaces is T11 of what is decided: what is written with a bind is where the node is, and which slice it is.
func (j *invariantChecker) writesPlaces(p *process, decision model.Decision, topology []v1alpha1.TopologyConstraint) {
	for _, bind := range decision.Binds {
		pod, want := p.pod(bind.Pod.String()), map[string]string{}
		if pod == nil || p.node(bind.Node) == nil {
			continue
		}
		if domains := domainsOf(p.node(bind.Node)); len(topology) > 0 && domains != "" {
			want[v1alpha1.AnnotationDomain] = domains
		}
		smallest := int32(0)
		for i := range topology {
			if size := topology[i].SliceSize; size > 0 && covered(&topology[i], pod) && (smallest == 0 || size < smallest) {
				smallest = size
			}
		}
		if index, ok := p.index(pod); ok && smallest > 0 {
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
func (j *invariantChecker) keepsOrder(p *process, decision model.Decision, topology []v1alpha1.TopologyConstraint) {
	group := groupFor(decision.Job, p.pods(), p.groupOf)
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
	for _, pod := range p.pods() {
		if ours(pod) && jobKeyOf(pod) == decision.Job && p.isThere(pod) {
			members = append(members, pod)
		}
	}
	if len(members) != len(decision.Binds) || len(members) != decision.MinBinds {
		return
	}
	slices.SortFunc(members, func(a, b *corev1.Pod) int { return p.order(a) - p.order(b) })
	for i, level := range levels {
		entered, seen, last := 0, map[string]bool{}, ""
		for at, pod := range members {
			path := ""
			for _, one := range levels[:i+1] {
				path += " " + domainOf(p.node(p.place(pod)), one)
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

// order is by index, and without one by the number at the end of the name.
func (p *process) order(pod *corev1.Pod) int {
	if index, ok := p.index(pod); ok {
		return index
	}
	number, _ := strconv.Atoi(pod.Name[strings.LastIndex(pod.Name, "-")+1:])
	return number
}
