package invariants

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// View is a cluster as one party sees it, when a decision has been made: all there is, or what one process has received, with the
// effect of its decisions so far. Its methods judge decisions. What a party knows in its own way, it says with functions.
type View struct {
	// Pods and Nodes are in the order of their names.
	Pods    []*corev1.Pod
	Nodes   []*corev1.Node
	Budgets []*policyv1.PodDisruptionBudget
	// Queues are all Queues; Namespace is nil where none is watched.
	Queues    Tree
	Namespace func(name string) *corev1.Namespace
	// JobOf is the job of a pod. Group is what the object of a job says, or its pods in the place of one; nil when neither says
	// anything. Parts are what of a gang starts as a whole. Shares are the domains that members of a job share.
	JobOf  func(pod *corev1.Pod) model.JobKey
	Group  func(job model.JobKey) *v1alpha1.PodGroup
	Parts  func(job model.JobKey) []Part
	Shares func(job model.JobKey) []v1alpha1.TopologyConstraint
	// Place is where a pod is or is about to be, Nominated where capacity is nominated to it; both are empty when nowhere. Leaves
	// reports that its eviction was decided.
	Place, Nominated func(pod *corev1.Pod) string
	Leaves           func(pod *corev1.Pod) bool
	// Keeps reports whether capacity on a node is kept for a pod that waits, beside what is to be bound.
	Keeps func(pod *corev1.Pod, node string) bool
	// Mark is an annotation that was written with the bind of a pod, or is about to be.
	Mark func(pod *corev1.Pod, key string) string
	// Level returns the labels of a level, from the widest of its tree on; none for single nodes.
	Level func(level string) (tree string, labels []string, known bool)
	// Class is the value of a PriorityClass, as far as it is known.
	Class func(name string) (value int32, known bool)
	// Begun is the minimum with which a start was decided that may not be complete; zero is none.
	Begun func(job model.JobKey) int32
	// Overstays reports whether a pod may be evicted for a job of its own priority. Elsewhere reports whether pods of a job may be
	// evicted where the decision's job gets no capacity, as for a limit.
	Overstays func(pod *corev1.Pod, beneficiary model.JobKey) bool
	Elsewhere func(decision model.Decision, victim model.JobKey) bool
	// Kept is what the queue of a pod is charged for beside what the pod takes from its node: devices that do not become free when
	// the pod leaves, such as tainted ones. nil is nothing.
	Kept func(pod *corev1.Pod) Amounts
	// TakesOthers reports that the configuration lets pods of other schedulers be evicted.
	TakesOthers bool
	// Uncounted reports that a resource is not counted by what the node offers; nil is none.
	Uncounted func(node *corev1.Node, name corev1.ResourceName) bool
	// Violated receives what is broken.
	Violated func(invariant, format string, words ...any)
}

// schedulerName is the scheduler whose decisions are judged.
const schedulerName = "tutti"

// Ours reports whether a pod is one that the scheduler places.
func Ours(pod *corev1.Pod) bool { return pod.Spec.SchedulerName == schedulerName }

// Finished reports whether a pod has ended.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Waits reports whether a pod wants a node.
func Waits(pod *corev1.Pod) bool {
	return Ours(pod) && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !Finished(pod)
}

// Pod returns the pod that a decision is about; nil when there is none of its UID.
func (v *View) Pod(ref model.PodRef) *corev1.Pod {
	i := slices.IndexFunc(v.Pods, func(pod *corev1.Pod) bool {
		return pod.UID == ref.UID && pod.Name == ref.Name && pod.Namespace == ref.Namespace
	})
	if i < 0 {
		return nil
	}
	return v.Pods[i]
}

// Node returns the node of a name, nil when there is none.
func (v *View) Node(name string) *corev1.Node {
	i := slices.IndexFunc(v.Nodes, func(node *corev1.Node) bool { return node.Name == name })
	if i < 0 {
		return nil
	}
	return v.Nodes[i]
}

// Stays reports whether a pod is on a node, is not terminating there, and is not one of the victims.
func (v *View) Stays(pod *corev1.Pod, node string, victims map[types.UID]bool) bool {
	return v.Place(pod) == node && pod.DeletionTimestamp == nil && !victims[pod.UID] && !v.Leaves(pod)
}

// NominatedTo is where capacity is nominated to a pod that waits.
func (v *View) NominatedTo(pod *corev1.Pod) string {
	if !Waits(pod) || v.Place(pod) != "" {
		return ""
	}
	return v.Nominated(pod)
}

// lacks returns the resources of which a node has too little, as far as the pod asks for them and the node counts them.
func (v *View) lacks(node *corev1.Node, free Amounts, pod *corev1.Pod) []corev1.ResourceName {
	return slices.DeleteFunc(free.Lacks(pod), func(name corev1.ResourceName) bool { return v.Uncounted != nil && v.Uncounted(node, name) })
}

// VictimsOf returns the UIDs of those a decision evicts.
func VictimsOf(decision model.Decision) map[types.UID]bool {
	victims := map[types.UID]bool{}
	for _, eviction := range decision.Evictions {
		victims[eviction.Pod.UID] = true
	}
	return victims
}

// NominatedBy are the pods to which a decision nominates capacity, with the nodes, BoundBy those that it binds.
func NominatedBy(decision model.Decision) map[types.UID]string {
	pods := map[types.UID]string{}
	for _, nomination := range decision.Nominations {
		if !nomination.Releases() {
			pods[nomination.Pod.UID] = nomination.Node
		}
	}
	return pods
}

// BoundBy are the pods that a decision binds, with their nodes.
func BoundBy(decision model.Decision) map[types.UID]string {
	pods := map[types.UID]string{}
	for _, bind := range decision.Binds {
		pods[bind.Pod.UID] = bind.Node
	}
	return pods
}

// Judge holds a decision to what can be judged of it by the objects alone, I1 and nominations aside.
func (v *View) Judge(decision model.Decision) {
	v.staysInItsNamespace(decision)
	v.fitsTheNodes(decision)
	v.choosesEligibleNodes(decision)
	v.checkReservedRespected(decision)
	v.heedsQueues(decision)
	v.staysTogether(decision)
	if len(decision.Evictions) > 0 {
		v.evictsTheLower(decision)
		v.leavesWholeGangs(decision)
		v.keepsBudgets(decision)
	}
}

// fitsTheNodes is I3, by what the party knows: what is on a node with the decision asks for no more than it offers.
func (v *View) fitsTheNodes(decision model.Decision) {
	for _, bind := range decision.Binds {
		pod, node := v.Pod(bind.Pod), v.Node(bind.Node)
		if pod == nil || node == nil {
			v.Violated("I4", "pod %s is bound to %s, and one of them does not exist", bind.Pod, bind.Node)
			continue
		}
		free := Free(node, v.Pods, func(other *corev1.Pod) bool { return v.Place(other) == node.Name })
		if lacks := v.lacks(node, free, pod); len(lacks) > 0 {
			v.Violated("I3", "node %s has %d too little of %s with %s", node.Name, -free[lacks[0]], lacks[0], bind.Pod)
		}
	}
}

// choosesEligibleNodes is I4: nodes are there, take pods, and are among those that the pod may go to.
func (v *View) choosesEligibleNodes(decision model.Decision) {
	for _, bind := range decision.Binds {
		pod, node := v.Pod(bind.Pod), v.Node(bind.Node)
		if pod != nil && node != nil && !Takes(node, pod) {
			v.Violated("I4", "pod %s is bound to %s, which is not for it", bind.Pod, bind.Node)
		}
		if pod != nil && len(pod.Spec.SchedulingGates) > 0 {
			v.Violated("I4", "pod %s is bound, and its gates are closed", bind.Pod)
		}
	}
}

// checkReservedRespected is I15: who is bound leaves the capacity alone that is kept for other jobs of its priority or above. It
// is Q13 where there are several queues: then the priority does not matter.
func (v *View) checkReservedRespected(decision model.Decision) {
	for _, bind := range decision.Binds {
		pod, node := v.Pod(bind.Pod), v.Node(bind.Node)
		if pod == nil || node == nil {
			continue
		}
		kept := v.keptFrom(decision, node.Name)
		if len(kept) == 0 {
			continue
		}
		free := Free(node, v.Pods, func(other *corev1.Pod) bool { return kept[other.UID] || v.Stays(other, node.Name, nil) })
		if lacks := v.lacks(node, free, pod); len(lacks) > 0 {
			v.Violated("I15", "pod %s is bound to %s, where %s is kept for %v", bind.Pod, bind.Node, lacks, slices.Sorted(maps.Keys(kept)))
		}
	}
}

// CheckNominated is I15, too: no capacity is nominated twice. Where a pod is nominated there is as much once the victims have
// left, beside what is kept for other jobs. A nomination is to a node that exists, which is I4.
func (v *View) CheckNominated(decision model.Decision) {
	victims, gets := VictimsOf(decision), NominatedBy(decision)
	for _, nomination := range decision.Nominations {
		pod, node := v.Pod(nomination.Pod), v.Node(nomination.Node)
		if pod == nil || nomination.Releases() {
			continue
		}
		if node == nil {
			v.Violated("I4", "pod %s is nominated to %s, which does not exist", nomination.Pod, nomination.Node)
			continue
		}
		kept := v.keptFrom(decision, node.Name)
		free := Free(node, v.Pods, func(other *corev1.Pod) bool {
			return kept[other.UID] || gets[other.UID] == node.Name || v.Stays(other, node.Name, victims)
		})
		if lacks := v.lacks(node, free, pod); len(lacks) > 0 {
			v.Violated("I15", "pod %s holds %v on %s by its nomination, and so do others: %v", nomination.Pod, lacks, node.Name, slices.Sorted(maps.Keys(kept)))
		}
	}
}

// keptFrom are the pods of other jobs for which capacity on a node is kept from the job of a decision.
func (v *View) keptFrom(decision model.Decision, node string) map[types.UID]bool {
	kept := map[types.UID]bool{}
	used := BoundBy(decision)
	maps.Copy(used, NominatedBy(decision))
	for _, other := range v.Pods {
		if job := v.JobOf(other); Waits(other) && job != decision.Job && v.Keeps(other, node) &&
			(v.Queues.Several() || v.PriorityOf(job, nil) >= v.priorityOf(decision.Job, used, v.Leaves)) {
			kept[other.UID] = true
		}
	}
	return kept
}
