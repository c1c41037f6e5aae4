package invariants

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is what queues are by the objects alone: the tree, the queue of a job, and what it holds.

// Tree is the Queues as one party sees them, by name.
type Tree map[string]*v1alpha1.Queue

// mostLevels is how many queues there may be from one up to the top.
const mostLevels = 8

// Path is a queue and those above it, as far as they exist. wrong says that no job of it may start, since the way up has no end
// or ends at a queue that does not exist, since there are too many, or since one of them cannot be read.
func (t Tree) Path(name string) (path []string, wrong, paused bool) {
	for at := name; at != ""; at = t[at].Spec.Parent {
		queue := t[at]
		switch {
		case slices.Contains(path, at):
			return path, true, paused
		case queue == nil && at == v1alpha1.DefaultQueue:
			return append(path, at), wrong, paused
		case queue == nil:
			return path, true, paused
		}
		if path = append(path, at); len(path) > mostLevels {
			return path, true, paused
		}
		paused = paused || queue.Spec.Paused
		wrong = wrong || unreadable(queue)
	}
	return path, wrong, paused
}

// unreadable reports whether a queue has a negative amount.
func unreadable(queue *v1alpha1.Queue) bool {
	for _, list := range []corev1.ResourceList{queue.Spec.Guarantee, queue.Spec.Limit} {
		for _, amount := range list {
			if amount.Sign() < 0 {
				return true
			}
		}
	}
	return false
}

// Inner reports whether a queue takes no jobs, since it has others below it which are not wrong.
func (t Tree) Inner(name string) bool {
	for below, queue := range t {
		if _, wrong, _ := t.Path(below); queue.Spec.Parent == name && !wrong {
			return true
		}
	}
	return false
}

// Several reports whether there are, with the default one.
func (t Tree) Several() bool { return len(t) > 1 || len(t) == 1 && t[v1alpha1.DefaultQueue] == nil }

// QueueOf is the name of the queue in which a job counts: the one that it names, or the default one where that is not for its
// namespace.
func (v *View) QueueOf(job model.JobKey) string {
	name := v.namedQueue(job)
	queue := v.Queues[name]
	if queue != nil && name != v1alpha1.DefaultQueue && !unreadable(queue) && !admits(queue, v.namespace(job.Namespace)) {
		return v1alpha1.DefaultQueue
	}
	return name
}

// namedQueue is the name of the queue that a job names. Its oldest pod says it.
func (v *View) namedQueue(job model.JobKey) string {
	var ofGroup, ofPods, ofNamespace string
	if group := v.Group(job); group != nil && !job.IsPod() && !job.IsImplicit() {
		ofGroup = group.Spec.Queue
	}
	var oldest *corev1.Pod
	for _, pod := range v.Pods {
		if Ours(pod) && v.JobOf(pod) == job && (oldest == nil || isOlder(pod, oldest)) {
			oldest, ofPods = pod, pod.Labels[v1alpha1.LabelQueue]
		}
	}
	if namespace := v.namespace(job.Namespace); namespace != nil {
		ofNamespace = namespace.Labels[v1alpha1.LabelQueue]
	}
	return cmp.Or(ofGroup, ofPods, ofNamespace, v1alpha1.DefaultQueue)
}

func isOlder(a, b *corev1.Pod) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID)) < 0
}

func (v *View) namespace(name string) *corev1.Namespace {
	if v.Namespace == nil {
		return nil
	}
	return v.Namespace(name)
}

// Refuses says why no job of its queue may start; empty when it may.
func (v *View) Refuses(job model.JobKey) string {
	if len(v.Queues) == 0 {
		return ""
	}
	name := v.namedQueue(job)
	queue := v.Queues[name]
	_, wrong, paused := v.Queues.Path(name)
	switch {
	case queue == nil && name != v1alpha1.DefaultQueue:
		return "does not exist"
	case wrong:
		return "is in error"
	case paused:
		return "is paused"
	case v.Queues.Inner(name):
		return "has queues below it"
	case queue != nil && name != v1alpha1.DefaultQueue && !admits(queue, v.namespace(job.Namespace)):
		return "is not for its namespace"
	}
	return ""
}

func admits(queue *v1alpha1.Queue, namespace *corev1.Namespace) bool {
	var has labels.Set
	if namespace != nil {
		has = namespace.Labels
	}
	if queue.Spec.NamespaceSelector == nil {
		return has[v1alpha1.LabelQueue] == queue.Name
	}
	selector, err := metav1.LabelSelectorAsSelector(queue.Spec.NamespaceSelector)
	return err == nil && selector.Matches(has)
}

// Held sums up what the jobs of a queue, and of those below it, ask for of which holds is true.
func (v *View) Held(queue string, holds func(*corev1.Pod) bool) Amounts {
	sum, inside := Amounts{}, map[model.JobKey]bool{}
	for _, pod := range v.Pods {
		if !Ours(pod) || Finished(pod) || !holds(pod) {
			continue
		}
		job := v.JobOf(pod)
		counts, known := inside[job]
		if !known {
			path, _, _ := v.Queues.Path(v.QueueOf(job))
			counts = slices.Contains(path, queue)
			inside[job] = counts
		}
		if counts {
			sum.Add(v.charge(pod), 1)
		}
	}
	return sum
}

// Limits are the queues of a job that have a limit, each with it.
func (v *View) Limits(job model.JobKey) map[string]Amounts {
	limits := map[string]Amounts{}
	path, _, _ := v.Queues.Path(v.QueueOf(job))
	for _, name := range path {
		if queue := v.Queues[name]; queue != nil && len(queue.Spec.Limit) > 0 {
			limits[name] = AmountsOf(queue.Spec.Limit)
		}
	}
	return limits
}

// OverLimit says which limit is exceeded in something that a pod asks for; empty when none is.
func (v *View) OverLimit(job model.JobKey, pod *corev1.Pod, holds func(*corev1.Pod) bool) string {
	limits := v.Limits(job)
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		held := v.Held(name, holds)
		request := v.charge(pod)
		for _, r := range slices.Sorted(maps.Keys(request)) {
			if most, listed := limits[name][r]; listed && request[r] > 0 && held[r] > most {
				return fmt.Sprintf("queue %s holds %d %s, and its limit is %d", name, held[r], r, most)
			}
		}
	}
	return ""
}

// Exceeds reports whether so many more pods like this one would exceed a limit.
func (v *View) Exceeds(job model.JobKey, pod *corev1.Pod, more int) bool {
	limits := v.Limits(job)
	for name, limit := range limits {
		held := v.Held(name, func(pod *corev1.Pod) bool { return v.Place(pod) != "" })
		for r, amount := range v.charge(pod) {
			if most, listed := limit[r]; listed && amount > 0 && amount > (most-held[r])/int64(more) {
				return true
			}
		}
	}
	return false
}

// ChargeOf is what a pod counts for in its queue; the CPU of one with isolated CPUs is another resource.
func ChargeOf(pod *corev1.Pod) Amounts {
	request := RequestOf(pod)
	if _, wants := pod.Annotations[isolatedCPUs]; wants {
		delete(request, corev1.ResourceCPU)
	}
	return request
}

func (v *View) charge(pod *corev1.Pod) Amounts {
	charge := ChargeOf(pod)
	if v.Kept != nil {
		charge.Add(v.Kept(pod), 1)
	}
	return charge
}

// heedsQueues is Q5, Q14 and Q15: no start exceeds a limit, with terminating pods and nominations; none is in a queue that
// starts nothing; a queue in error loses nothing; pods go by a right where they are of another queue, and only there.
func (v *View) heedsQueues(decision model.Decision) {
	if decision.Job == (model.JobKey{}) || len(v.Queues) == 0 {
		return
	}
	mine := v.QueueOf(decision.Job)
	for _, eviction := range decision.Evictions {
		theirs := v.QueueOf(eviction.Job)
		foreign := v.TakesOthers && eviction.Job == (model.JobKey{}) // a pod of another scheduler is in no queue
		if crosses := theirs != mine && !foreign; crosses != (eviction.Right != "") {
			v.Violated("Q15", "%s of queue %s is evicted for %s of queue %s by right %q", eviction.Pod, theirs, decision.Job, mine, eviction.Right)
		}
		if _, wrong, _ := v.Queues.Path(theirs); wrong && theirs != mine {
			v.Violated("Q14", "%s is evicted for %s, and its queue %s is in error", eviction.Pod, decision.Job, theirs)
		}
	}
	if why := v.Refuses(decision.Job); why != "" && len(decision.Evictions) > 0 {
		v.Violated("Q14", "pods are evicted for %s, whose queue %s %s", decision.Job, mine, why)
	} else if why != "" && len(decision.Binds) > 0 && !v.hasBegun(decision) {
		v.Violated("Q14", "%s is started, and its queue %s %s", decision.Job, mine, why)
	}
	for _, bind := range decision.Binds {
		pod := v.Pod(bind.Pod)
		holds := func(pod *corev1.Pod) bool { return v.Place(pod) != "" || v.NominatedTo(pod) != "" }
		if pod == nil {
			continue
		}
		if over := v.OverLimit(decision.Job, pod, holds); over != "" {
			v.Violated("Q5", "%s is bound for %s: %s", bind.Pod, decision.Job, over)
		}
	}
	victims, gets := VictimsOf(decision), NominatedBy(decision)
	for _, nomination := range decision.Nominations {
		pod := v.Pod(nomination.Pod)
		holds := func(pod *corev1.Pod) bool {
			return v.Stays(pod, v.Place(pod), victims) && v.Place(pod) != "" || v.NominatedTo(pod) != "" || gets[pod.UID] != ""
		}
		if pod == nil || nomination.Releases() {
			continue
		}
		if over := v.OverLimit(decision.Job, pod, holds); over != "" {
			v.Violated("Q5", "capacity is nominated to %s of %s: %s", nomination.Pod, decision.Job, over)
		}
	}
}

// hasBegun reports whether a job may be completed although its queue starts nothing: it has members, fewer than it needs or
// needed; or its queue is paused, and pods were evicted for it.
func (v *View) hasBegun(decision model.Decision) bool {
	fresh := BoundBy(decision)
	if _, wrong, paused := v.Queues.Path(v.QueueOf(decision.Job)); paused && !wrong {
		for _, bind := range decision.Binds {
			if pod := v.Pod(bind.Pod); pod != nil && cmp.Or(v.Nominated(pod), pod.Status.NominatedNodeName) != "" {
				return true
			}
		}
	}
	group, parts := v.Group(decision.Job), v.Parts(decision.Job)
	if group == nil || len(parts) == 0 {
		return false
	}
	var m Members
	for i := range parts {
		parts[i].count(&m, except(v.Place, fresh))
	}
	needed := group.DeepCopy()
	needed.Spec.MinMember = max(group.Spec.MinMember, group.Status.StartedMinMember, v.Begun(decision.Job))
	return m.All > 0 && m.Unmet(needed) != ""
}
