package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// ConflictKind is what is wrong with a bound pod and its isolated CPUs; the label of a metric.
type ConflictKind string

// The kinds of conflicts; the label of a metric. None of them comes from what one scheduler decides.
const (
	// ConflictOverlap: a pod that was bound before holds some of the same CPUs, and keeps them.
	ConflictOverlap ConflictKind = "overlap"
	// ConflictOutside: some are not isolated, or not any more.
	ConflictOutside ConflictKind = "outside-set"
	// ConflictMismatch: what stands on the pod was made for another pod or node, or cannot be read.
	ConflictMismatch ConflictKind = "mismatch"
	// ConflictUnassigned: the pod asks for some, and was bound without any.
	ConflictUnassigned ConflictKind = "unassigned"
	// ConflictResized: the pod has come to ask for more than it holds; the rest is ordinary CPU.
	ConflictResized ConflictKind = "resized"
)

// Conflict is a pod that is on a node with isolated CPUs which it should not have, or without those that it should.
type Conflict struct {
	Kind ConflictKind
	Pod  model.PodRef
	// Job is the pod's; the zero key for one of another scheduler.
	Job    model.JobKey
	Node   string
	Detail string
	// GraceSeconds is the pod's, see model.Task; only of those that ConflictLosers returns.
	GraceSeconds int64
	// IsLoser tells of an overlap that the pod can never have its CPUs: the one that keeps them was bound before, and is not itself
	// kept from them by a third.
	IsLoser bool
}

// conflicts are what was found so far.
type conflicts struct {
	// dirty are the nodes to look at again, found what is known of each node, sorted.
	dirty map[string]struct{}
	found map[string][]Conflict
}

// markNodes marks the nodes of a pod that has to do with isolated CPUs.
func (c *conflicts) markNodes(before, after *podState) {
	for _, r := range []*podState{before, after} {
		if r == nil || r.task.Pod.Spec.NodeName == "" {
			continue
		}
		if assigned(r.task.Pod) || r.task.Asks.Wants() {
			c.dirty[r.task.Pod.Spec.NodeName] = struct{}{}
		}
	}
}

// TakeConflicts returns what has come to be wrong since the last call, by node and in the order in which the pods were bound.
// It costs what has changed about isolated CPUs.
func (s *State) TakeConflicts() []Conflict {
	if len(s.conflicts.dirty) == 0 {
		return nil
	}
	var fresh []Conflict
	for _, name := range slices.Sorted(maps.Keys(s.conflicts.dirty)) {
		before, now := s.conflicts.found[name], s.conflictsOn(name)
		for _, conflict := range now {
			known := func(c Conflict) bool { return c.Pod == conflict.Pod && c.Kind == conflict.Kind }
			if !slices.ContainsFunc(before, known) {
				fresh = append(fresh, conflict)
			}
		}
		if s.conflicts.found[name] = now; len(now) == 0 {
			delete(s.conflicts.found, name)
		}
	}
	s.conflicts.dirty = map[string]struct{}{}
	return fresh
}

// conflictsOn looks at the pods of a node, the first bound first.
func (s *State) conflictsOn(name string) []Conflict {
	node := s.nodes[name]
	if node == nil || s.leases.mode == LeasesUnwatched {
		return nil
	}
	var pods []*podState
	for _, entry := range s.pods.held[name] {
		if entry.record != nil && entry.record.task.Pod.Spec.NodeName == name {
			pods = append(pods, entry.record)
		}
	}
	slices.SortFunc(pods, func(a, b *podState) int {
		return cmp.Or(boundAt(a.task.Pod).Compare(boundAt(b.task.Pod)), cmp.Compare(a.task.UID, b.task.UID))
	})
	owners := map[int]types.UID{}
	names := map[types.UID]string{}
	var kept isolated.CPUSet // the CPUs of the pods that yield to no other pod
	var found []Conflict
	for _, pod := range pods {
		report := func(kind ConflictKind, detail string) {
			found = append(found, Conflict{
				Kind: kind, Pod: pod.task.PodRef, Job: pod.task.Job, Node: name, Detail: model.Clean(detail, model.MaxMessage),
			})
		}
		held, err := isolated.AssignedTo(pod.task.Pod)
		switch {
		case err != nil:
			report(ConflictMismatch, err.Error())
			continue
		case held == nil:
			if pod.task.Asks.Wants() {
				report(ConflictUnassigned, "it asks for isolated CPUs, and was bound without any")
			}
			continue
		}
		names[pod.task.UID] = pod.task.PodRef.String()
		if container, asks := isolated.ResizedBeyond(pod.task.Pod, held); container != "" {
			report(ConflictResized, fmt.Sprintf("its container %s asks for %s, and holds CPUs %s; the rest is ordinary CPU",
				container, asks, held.Containers[container]))
		}
		if outside := held.CPUs.Minus(isolatedOn(node)); !outside.Empty() {
			report(ConflictOutside, fmt.Sprintf("it holds CPUs %s, which are not isolated", outside))
		}
		if both, owner := takeOwnership(owners, held.CPUs, pod.task.UID); !both.Empty() {
			report(ConflictOverlap, fmt.Sprintf("it holds CPUs %s, which pod %s was given before", both, names[owner]))
		}
		if kept.Intersect(held.CPUs).Empty() {
			kept = kept.Union(held.CPUs)
		} else {
			found[len(found)-1].IsLoser = true
		}
	}
	return found
}

// ConflictLosers returns the pods of this scheduler that yield to others and are not being evicted or deleted, as of the last
// TakeConflicts, by node and in the order in which they were bound. System-critical pods are left out, since they are never
// evicted. The cost is proportional to the number of conflicts.
func (s *State) ConflictLosers() []Conflict {
	var yielding []Conflict
	for _, name := range slices.Sorted(maps.Keys(s.conflicts.found)) {
		for _, conflict := range s.conflicts.found[name] {
			r := s.pods.record(conflict.Pod.UID)
			ours := conflict.Job != model.JobKey{}
			if conflict.IsLoser && ours && r != nil && !r.evicted && r.task.Pod.DeletionTimestamp == nil && !r.task.IsSystemCritical() {
				conflict.GraceSeconds = r.task.GraceSeconds
				yielding = append(yielding, conflict)
			}
		}
	}
	return yielding
}

// takeOwnership makes a pod the owner of the CPUs that no pod owns. It returns the others, and the owner of the first of them.
func takeOwnership(owners map[int]types.UID, cpus isolated.CPUSet, by types.UID) (taken isolated.CPUSet, owner types.UID) {
	for id := cpus.Next(0); id >= 0; id = cpus.Next(id + 1) {
		switch first, owned := owners[id]; {
		case !owned:
			owners[id] = by
		case taken.Empty():
			taken, owner = isolated.NewCPUSet(id), first
		default:
			taken = taken.Union(isolated.NewCPUSet(id))
		}
	}
	return taken, owner
}

func isolatedOn(node *nodeState) isolated.CPUSet {
	if node.isolated == nil {
		return isolated.CPUSet{}
	}
	return node.isolated.Isolated
}

// boundAt returns when a pod was bound, which the API server notes in the transaction that binds it. For a pod that was created
// on its node, and so was never bound, it returns when the pod was created.
func boundAt(pod *corev1.Pod) time.Time {
	if c := model.PodScheduled(pod); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return pod.CreationTimestamp.Time
}
