package invariants

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is T1, T2 and T8: where members are that share domains, counted from the labels of nodes, and from what groups and
// pods say.

// DomainOf returns the path of the domain of a level that a node is in; empty when it is in none.
func (v *View) DomainOf(node *corev1.Node, level string) string {
	_, labels, known := v.Level(level)
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

// memberDomain returns the domain in which a member stands: that of its node, and while this has no label of the level the one
// that was written with the bind.
func (v *View) memberDomain(pod *corev1.Pod, node *corev1.Node, level string) string {
	at := v.DomainOf(node, level)
	tree, labels, _ := v.Level(level)
	if at != "" || tree == "" {
		return at
	}
	for _, one := range strings.Split(v.Mark(pod, v1alpha1.AnnotationDomain), ",") {
		name, path, _ := strings.Cut(one, "=")
		values := strings.Split(path, "/")
		if name == tree && len(values) >= len(labels) && values[len(labels)-1] != "" {
			return strings.Join(values[:len(labels)], "/")
		}
	}
	return ""
}

// Covered reports whether a pod of a job is one of the members that share a domain by an entry.
func Covered(entry *v1alpha1.TopologyConstraint, job model.JobKey, pod *corev1.Pod) bool {
	return len(entry.Roles) == 0 || slices.Contains(entry.Roles, roleIn(job, pod))
}

// IsRequired reports whether members must share the domain, and not only prefer to.
func IsRequired(entry *v1alpha1.TopologyConstraint) bool {
	return entry.Mode != v1alpha1.TopologyPreferred
}

// IsThere reports whether a member is on a node and neither ends nor has ended.
func (v *View) IsThere(pod *corev1.Pod) bool {
	return v.Place(pod) != "" && !Finished(pod) && v.Stays(pod, v.Place(pod), nil)
}

// Index returns what the label of a pod says, or what was written with its bind.
func (v *View) Index(pod *corev1.Pod) (int, bool) {
	text := pod.Labels[v1alpha1.LabelIndex]
	if text == "" {
		text = v.Mark(pod, v1alpha1.LabelIndex)
	}
	index, err := strconv.Atoi(text)
	return index, err == nil
}

// staysTogether judges where a decision places members that share domains.
func (v *View) staysTogether(decision model.Decision) {
	topology := v.Shares(decision.Job)
	fresh, gets := BoundBy(decision), NominatedBy(decision)
	for i := range topology {
		entry := &topology[i]
		if _, _, known := v.Level(entry.Level); !known {
			if len(fresh)+len(gets) > 0 {
				v.Violated("T8", "%s is placed, and there is no level %s", decision.Job, entry.Level)
			}
			continue
		}
		if IsRequired(entry) {
			v.sharesDomain(decision.Job, entry, topology, fresh)
			v.sharesDomain(decision.Job, entry, topology, gets)
			v.reservesInOne(decision, entry)
		}
	}
	if len(decision.Evictions) > 0 && len(gets) > 0 {
		v.evictsThere(decision, topology)
	}
}

// sharesDomain is T1: members that are placed share the domain that they must share, with each other and with most of those that
// stand.
func (v *View) sharesDomain(job model.JobKey, entry *v1alpha1.TopologyConstraint, topology []v1alpha1.TopologyConstraint, fresh map[types.UID]string) {
	in := map[int]string{}
	slice, known := v.slicesOf(job, entry, fresh)
	if !known || len(fresh) == 0 {
		return
	}
	for _, pod := range v.Pods {
		node, placed := fresh[pod.UID]
		if !placed || !Covered(entry, job, pod) {
			continue
		}
		at := v.DomainOf(v.Node(node), entry.Level)
		if before, known := in[slice(pod)]; at == "" || known && before != at {
			v.Violated("T1", "members of %s must share one %s (slice %d), and %s/%s is placed on %s in %q, another one in %q", job,
				entry.Level, slice(pod), pod.Namespace, pod.Name, node, at, before)
			return
		}
		in[slice(pod)] = at
	}
	standing := v.standing(job, entry, fresh, slice)
	inside := v.insideWider(job, entry, topology, fresh)
	for number, at := range in {
		for other, members := range standing[number] {
			if members > standing[number][at] && inside(other) {
				v.Violated("T1", "members of %s must share one %s (slice %d), and some are placed in %q where the others are in %v", job,
					entry.Level, number, at, standing[number])
				break
			}
		}
	}
}

// standing counts in which domains members are that were placed before, by slice.
func (v *View) standing(
	job model.JobKey, entry *v1alpha1.TopologyConstraint, fresh map[types.UID]string, slice func(*corev1.Pod) int,
) map[int]map[string]int {
	in := map[int]map[string]int{}
	for _, pod := range v.Pods {
		if fresh[pod.UID] != "" || !Ours(pod) || v.JobOf(pod) != job || !Covered(entry, job, pod) || !v.IsThere(pod) {
			continue
		}
		node := v.Node(v.Place(pod))
		if node == nil {
			continue
		}
		if at := v.memberDomain(pod, node, entry.Level); at != "" {
			if in[slice(pod)] == nil {
				in[slice(pod)] = map[string]int{}
			}
			in[slice(pod)][at]++
		}
	}
	return in
}

// insideWider returns which domains of an entry have nodes in the domains of most members by entries with fewer domains: where
// entries contradict each other, these decide first. Where they have no such domain all have.
func (v *View) insideWider(
	job model.JobKey, entry *v1alpha1.TopologyConstraint, topology []v1alpha1.TopologyConstraint, fresh map[types.UID]string,
) func(place string) bool {
	domains := func(level string) map[string]bool {
		found := map[string]bool{}
		for _, node := range v.Nodes {
			if at := v.DomainOf(node, level); at != "" {
				found[at] = true
			}
		}
		return found
	}
	var around []func(string) bool
	for i := range topology {
		wider := &topology[i]
		if !IsRequired(wider) || wider.Level == entry.Level || len(domains(wider.Level)) >= len(domains(entry.Level)) {
			continue
		}
		all := v.standing(job, wider, fresh, func(*corev1.Pod) int { return 0 })[0]
		for one, members := range all {
			if members < slices.Max(slices.Collect(maps.Values(all))) {
				continue
			}
			around = append(around, func(place string) bool {
				return slices.ContainsFunc(v.Nodes, func(node *corev1.Node) bool {
					return v.DomainOf(node, entry.Level) == place && v.DomainOf(node, wider.Level) == one
				})
			})
		}
	}
	return func(place string) bool {
		return !slices.ContainsFunc(around, func(inside func(string) bool) bool { return !inside(place) })
	}
}

// slicesOf returns the number of the slice of each member that has a place, zero for all where an entry has none. known is false
// where the pods do not say their indexes. It is T1, too, that a member which is bound has an index of its own.
func (v *View) slicesOf(job model.JobKey, entry *v1alpha1.TopologyConstraint, fresh map[types.UID]string) (of func(*corev1.Pod) int, known bool) {
	if entry.SliceSize == 0 {
		return func(*corev1.Pod) int { return 0 }, true
	}
	index, used := map[types.UID]int{}, map[int]bool{}
	for _, pod := range v.Pods {
		if !Ours(pod) || v.JobOf(pod) != job || !Covered(entry, job, pod) || !v.IsThere(pod) && fresh[pod.UID] == "" {
			continue
		}
		number, ok := v.Index(pod)
		if fresh[pod.UID] != "" && v.Place(pod) != "" && (!ok || used[number]) {
			v.Violated("T1", "pod %s/%s must share one %s with a slice, and has no index of its own", pod.Namespace, pod.Name, entry.Level)
		}
		if ok && used[number] || !ok && fresh[pod.UID] != "" {
			return nil, false
		}
		if ok { // else it was bound before the entry had slices
			index[pod.UID], used[number] = number, true
		}
	}
	return func(pod *corev1.Pod) int {
		if number, known := index[pod.UID]; known {
			return number / int(entry.SliceSize)
		}
		return -1
	}, true
}

// reservesInOne is T1 of reservations: they are in one domain of the level that all members share.
func (v *View) reservesInOne(decision model.Decision, entry *v1alpha1.TopologyConstraint) {
	if decision.Reservation == nil || entry.SliceSize > 0 || len(entry.Roles) > 0 {
		return
	}
	in := map[string]bool{}
	for _, reserved := range decision.Reservation.Nodes {
		if at := v.DomainOf(v.Node(reserved.Node), entry.Level); at != "" {
			in[at] = true
		}
	}
	if len(in) > 1 {
		v.Violated("T1", "capacity is reserved for %s, whose members must share one %s, in %v", decision.Job, entry.Level, slices.Sorted(maps.Keys(in)))
	}
}

// evictsThere is T2: where all members share a domain, each job that loses pods loses one of them there, unless it may lose them
// elsewhere.
func (v *View) evictsThere(decision model.Decision, topology []v1alpha1.TopologyConstraint) {
	for i := range topology {
		entry := &topology[i]
		if !IsRequired(entry) || entry.SliceSize > 0 || len(entry.Roles) > 0 {
			continue
		}
		there := map[string]bool{}
		for _, nomination := range decision.Nominations {
			if !nomination.Releases() {
				there[v.DomainOf(v.Node(nomination.Node), entry.Level)] = true
			}
		}
		for _, eviction := range decision.Evictions {
			helps := func(other model.Eviction) bool {
				return other.Job == eviction.Job && there[v.DomainOf(v.Node(other.Node), entry.Level)]
			}
			if !slices.ContainsFunc(decision.Evictions, helps) && !v.Elsewhere(decision, eviction.Job) {
				v.Violated("T2", "%s is evicted for %s, whose members are to share one %s of %v, and no pod of its job is there", eviction.Pod,
					decision.Job, entry.Level, slices.Sorted(maps.Keys(there)))
			}
		}
	}
}
