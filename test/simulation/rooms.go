package simulation

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// This file counts for how many members of a job there is capacity where they may be together: T4 and T7 are that jobs which
// share domains start where they can (I16, I18), and what is said of those that cannot.

// together is what the judge knows of where members of a job may be.
type together struct {
	// required are the entries that all members must share a domain by; size is that of slices, zero without.
	required []v1alpha1.TopologyConstraint
	size     int64
	// prefers reports that the job only prefers domains.
	prefers bool
}

// togetherOf returns what a job says. judged is false where it cannot be counted simply: slices beside another entry, entries
// for roles, levels that are not known, and a domain that is waited for.
func (o *expectation) togetherOf(job model.JobKey) (t together, judged bool) {
	for _, entry := range o.Shares(job) {
		_, _, known := labelsOf(entry.Level)
		if !known || entry.WaitSeconds > 0 && !o.hasWaited(job, entry.WaitSeconds) {
			return t, false
		}
		if t.prefers = true; !invariants.IsRequired(&entry) {
			continue
		}
		if len(entry.Roles) > 0 {
			return t, false
		}
		t.size = max(t.size, int64(entry.SliceSize))
		t.required = append(t.required, entry)
	}
	t.prefers = t.prefers && len(t.required) == 0
	return t, t.size == 0 || len(t.required) == 1 && o.isRegular(job)
}

// hasWaited reports whether a group has waited for so long, since it had the members that it needs, and the scheduler has had a
// cycle since then.
func (o *expectation) hasWaited(job model.JobKey, seconds int32) bool {
	if job.Source != model.SourcePodGroup {
		return false
	}
	group := o.Group(job)
	if group == nil || group.Status.QueuedSince == nil {
		return false
	}
	since := group.Status.QueuedSince.Time
	if group.CreationTimestamp.After(since) {
		since = group.CreationTimestamp.Time
	}
	return o.now.Sub(since) > time.Duration(seconds)*time.Second+period
}

// isRegular reports whether the slices of a job are whole ones, but for the last: no member has a place yet or has ended, and
// none has an index of its own.
func (o *expectation) isRegular(job model.JobKey) bool {
	return !slices.ContainsFunc(o.Pods, func(pod *corev1.Pod) bool {
		return jobKeyOf(pod) == job && (!waits(pod) || o.Place(pod) != "" || pod.Labels[v1alpha1.LabelIndex] != "")
	})
}

// roomFor returns for how many pods like this one the nodes have capacity now, where they may be together with the members that
// stand; of a job in slices whether there is enough for so many.
func (o *expectation) roomFor(pod *corev1.Pod, needs int) (room int, judged bool) {
	return o.roomIn(pod, needs, func(node *corev1.Node) int64 {
		free := invariants.Free(node, o.Pods, func(other *corev1.Pod) bool { return o.Place(other) == node.Name })
		return free.Slots(invariants.RequestOf(pod))
	})
}

// roomIn does that with another count of what a node has capacity for.
func (o *expectation) roomIn(pod *corev1.Pod, needs int, slots func(*corev1.Node) int64) (room int, judged bool) {
	job := jobKeyOf(pod)
	if o.searched[pod.UID] {
		return 0, false
	}
	t, judged := o.togetherOf(job)
	if !judged {
		return 0, false
	}
	only, judged := o.standsIn(job, &t)
	if !judged {
		return 0, false
	}
	sums := map[string]int64{}
	for _, node := range o.Nodes {
		if at, inside := t.domains(node); inside && (only == "" || at == only) && invariants.Takes(node, pod) {
			sums[at] += min(1000, slots(o.withoutSetAside(node)))
		}
	}
	if t.size > 0 {
		return t.inSlices(sums, int64(needs)), true
	}
	for _, one := range sums {
		room = max(room, int(one))
	}
	return room, true
}

// withoutSetAside returns the node with the devices that are set aside taken off.
func (o *expectation) withoutSetAside(node *corev1.Node) *corev1.Node {
	if len(o.setAside[node.Name]) == 0 {
		return node
	}
	less := *node
	less.Status.Allocatable = maps.Clone(node.Status.Allocatable)
	for class, n := range o.setAside[node.Name] {
		amount := less.Status.Allocatable[resourceOfClass(class)]
		amount.Sub(*resource.NewQuantity(n, resource.DecimalSI))
		less.Status.Allocatable[resourceOfClass(class)] = amount
	}
	return &less
}

// domains returns the domains of a node by all entries; inside is false for a node that is in none by one of them.
func (t *together) domains(node *corev1.Node) (at string, inside bool) {
	for i := range t.required {
		one := domainOf(node, t.required[i].Level)
		if one == "" {
			return "", false
		}
		at += one + " "
	}
	return at, true
}

// standsIn returns the domains in which all members are that have a place; empty when none has. judged is false where they are
// in several, or in none.
func (o *expectation) standsIn(job model.JobKey, t *together) (only string, judged bool) {
	if len(t.required) == 0 {
		return "", true
	}
	for _, pod := range o.Pods {
		if jobKeyOf(pod) != job || o.Place(pod) == "" || finished(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		i := slices.IndexFunc(o.Nodes, func(node *corev1.Node) bool { return node.Name == o.Place(pod) })
		if i < 0 {
			return "", false
		}
		at, inside := t.domains(o.Nodes[i])
		if !inside || only != "" && only != at {
			return "", false
		}
		only = at
	}
	return only, true
}

// inSlices returns so many as are needed if slices of them fit into the domains, else none. The last slice may be smaller: it
// goes where it takes the place of no whole one, if there is such a domain.
func (t *together) inSlices(sums map[string]int64, needs int64) int {
	whole, last, sum := needs/t.size, needs%t.size, int64(0)
	for _, one := range sums {
		sum += one / t.size
	}
	for _, one := range sums {
		if one >= last && sum-(one/t.size-(one-last)/t.size) >= whole {
			return int(needs)
		}
	}
	return 0
}

// saysDomains is T4 at rest, where no capacity is held: a group of which it is said that it fits no domain does not, and the
// first domain that is named has capacity for as many as it says.
func (j *invariantChecker) saysDomains(p *process) {
	if len(p.state.Snapshot(p.clock.Now()).Held()) > 0 {
		return
	}
	in := j.inFact()
	for _, name := range j.server.names(kindGroup) {
		group := j.server.group(name)
		condition := meta.FindStatusCondition(group.Status.Conditions, v1alpha1.ConditionScheduled)
		if condition == nil || condition.Reason != string(model.NoDomainFits) {
			continue
		}
		i := slices.IndexFunc(in.Pods, func(pod *corev1.Pod) bool {
			return jobKeyOf(pod) == model.JobKey{Namespace: group.Namespace, Name: group.Name} && waits(pod)
		})
		if i < 0 {
			continue
		}
		needs, room, judged := int(group.Spec.MinMember), 0, false
		if t, simple := in.togetherOf(jobKeyOf(in.Pods[i])); simple && t.size == 0 && len(t.required) == 1 {
			room, judged = in.roomFor(in.Pods[i], needs)
		}
		if said, ok := firstCapacity(condition.Message); judged && (room >= needs || ok && said != room) {
			j.violated("T4", "the message of group %s is %q, and the best %s has capacity for %d", name, condition.Message, group.Spec.Topology[0].Level, room)
		}
	}
}

// firstCapacity returns for how many members a message says that the first domain has capacity.
func firstCapacity(message string) (members int, ok bool) {
	_, rest, found := strings.Cut(message, "has capacity for ")
	if !found {
		return 0, false
	}
	text := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	members, err := strconv.Atoi(text)
	return members, err == nil
}
