package simulation

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
	"github.com/tutti-sched/tutti/test/invariants"
)

// This file is what queues are by the objects alone: the tree, the queue of a job, and what it holds.

// tree is the Queues as one party sees them, by name.
type tree map[string]*v1alpha1.Queue

// path is a queue and those above it, as far as they exist. wrong says that no job of it may start, since the way up has no end
// or ends at a queue that does not exist, or since one of them cannot be read.
func (t tree) path(name string) (path []string, wrong, paused bool) {
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
		path = append(path, at)
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

// inner reports whether a queue takes no jobs, since it has others below it which are not wrong.
func (t tree) inner(name string) bool {
	for below, queue := range t {
		if _, wrong, _ := t.path(below); queue.Spec.Parent == name && !wrong {
			return true
		}
	}
	return false
}

// several reports whether there are, with the default one.
func (t tree) several() bool { return len(t) > 1 || len(t) == 1 && t[v1alpha1.DefaultQueue] == nil }

// queueOf is the name of the queue in which a job counts: the one that it names, or the default one where that is not for its
// namespace.
func (o *expectation) queueOf(job model.JobKey) string {
	name := o.namedQueue(job)
	queue := o.queues[name]
	if queue != nil && name != v1alpha1.DefaultQueue && !unreadable(queue) && !admits(queue, o.namespace(job.Namespace)) {
		return v1alpha1.DefaultQueue
	}
	return name
}

// namedQueue is the name of the queue that a job names. All of its pods name the same one.
func (o *expectation) namedQueue(job model.JobKey) string {
	var ofGroup, ofPods, ofNamespace string
	if group := o.group(job); group != nil && !job.IsPod() && !job.IsImplicit() {
		ofGroup = group.Spec.Queue
	}
	for _, pod := range o.pods {
		if ours(pod) && jobKeyOf(pod) == job {
			ofPods = pod.Labels[v1alpha1.LabelQueue]
			break
		}
	}
	if namespace := o.namespace(job.Namespace); namespace != nil {
		ofNamespace = namespace.Labels[v1alpha1.LabelQueue]
	}
	return cmp.Or(ofGroup, ofPods, ofNamespace, v1alpha1.DefaultQueue)
}

// refuses says why no job like this one may start in its queue, whatever it asks for; empty when it may.
func (o *expectation) refuses(job model.JobKey) string {
	if len(o.queues) == 0 {
		return ""
	}
	name := o.namedQueue(job)
	queue := o.queues[name]
	_, wrong, paused := o.queues.path(name)
	switch {
	case queue == nil && name != v1alpha1.DefaultQueue:
		return "does not exist"
	case wrong:
		return "is in error"
	case paused:
		return "is paused"
	case o.queues.inner(name):
		return "has queues below it"
	case queue != nil && name != v1alpha1.DefaultQueue && !admits(queue, o.namespace(job.Namespace)):
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

// held sums up what the jobs of a queue, and of those below it, ask for of which holds is true.
func (o *expectation) held(queue string, holds func(*corev1.Pod) bool) invariants.Amounts {
	sum, inside := invariants.Amounts{}, map[model.JobKey]bool{}
	for _, pod := range o.pods {
		if !ours(pod) || finished(pod) || !holds(pod) {
			continue
		}
		job := jobKeyOf(pod)
		counts, known := inside[job]
		if !known {
			path, _, _ := o.queues.path(o.queueOf(job))
			counts = slices.Contains(path, queue)
			inside[job] = counts
		}
		if counts {
			sum.Add(invariants.RequestOf(pod), 1)
		}
	}
	return sum
}

// above are the queues of a job that have a limit, each with it.
func (o *expectation) above(job model.JobKey) map[string]invariants.Amounts {
	limits := map[string]invariants.Amounts{}
	path, _, _ := o.queues.path(o.queueOf(job))
	for _, name := range path {
		if queue := o.queues[name]; queue != nil && len(queue.Spec.Limit) > 0 {
			limits[name] = invariants.AmountsOf(queue.Spec.Limit)
		}
	}
	return limits
}

// overLimit says which limit is exceeded in something that a pod asks for; empty when none is.
func (o *expectation) overLimit(job model.JobKey, pod *corev1.Pod, holds func(*corev1.Pod) bool) string {
	limits := o.above(job)
	for _, name := range sortedNames(limits) {
		held := o.held(name, holds)
		request := invariants.RequestOf(pod)
		for _, r := range slices.Sorted(maps.Keys(request)) {
			if most, listed := limits[name][r]; listed && request[r] > 0 && held[r] > most {
				return fmt.Sprintf("queue %s holds %d %s, and its limit is %d", name, held[r], r, most)
			}
		}
	}
	return ""
}

// exceeds reports whether so many more pods like this one would exceed a limit.
func (o *expectation) exceeds(job model.JobKey, pod *corev1.Pod, more int) bool {
	limits := o.above(job)
	for name, limit := range limits {
		held := o.held(name, func(pod *corev1.Pod) bool { return o.place(pod) != "" })
		for r, amount := range invariants.RequestOf(pod) {
			if most, listed := limit[r]; listed && amount > 0 && amount > (most-held[r])/int64(more) {
				return true
			}
		}
	}
	return false
}

// hasHeadroom reports whether capacity is kept free for a job below a limit of the job's queue, or of one above it.
func (o *expectation) hasHeadroom(job model.JobKey) bool {
	path, _, _ := o.queues.path(o.queueOf(job))
	return slices.ContainsFunc(path, func(name string) bool { return o.headroom[name] })
}
