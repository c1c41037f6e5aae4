package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// This file has queues, and counts on the player's own account, from the objects alone, what each holds.

func newQueue(words []word) (*v1alpha1.Queue, error) {
	queue := &v1alpha1.Queue{}
	for _, w := range words {
		var err error
		switch w.key {
		case "parent":
			queue.Spec.Parent = w.value
		case "weight":
			var weight int32
			weight, err = number(w)
			queue.Spec.Weight = &weight
		case "guarantee":
			queue.Spec.Guarantee, err = amounts(w)
		case "limit":
			queue.Spec.Limit, err = amounts(w)
		case "selector": // * is all namespaces
			queue.Spec.NamespaceSelector = &metav1.LabelSelector{}
			if w.value != "*" {
				queue.Spec.NamespaceSelector.MatchLabels, err = pairs(w.value)
			}
		case "paused":
			queue.Spec.Paused = true
		case "age":
		default:
			err = fmt.Errorf("a queue has no %q", w.key)
		}
		if err != nil {
			return nil, err
		}
	}
	return queue, nil
}

// amounts reads cpu:4,nvidia.com/gpu:8.
func amounts(w word) (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	for _, one := range strings.Split(w.value, ",") {
		name, quantity, _ := strings.Cut(one, ":")
		if err := amount(list, word{name, quantity}); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (w *world) setQueue(queue *v1alpha1.Queue, one line) error {
	w.cycle++
	if err := w.stamp(queue, known(w.queues[one.name]), one); err != nil {
		return err
	}
	if before := w.queues[one.name]; before != nil {
		queue.Status = before.Status
	}
	w.queues[one.name] = queue
	w.tell(&cluster.QueueSeen{Queue: queue})
	return nil
}

// writeQueues writes what a scheduler that takes over reads of the status of queues.
func (s *environment) writeQueues() {
	snapshot := s.state.Snapshot(s.world.now)
	for _, name := range slices.Sorted(maps.Keys(s.world.queues)) {
		before, known := s.world.queues[name], snapshot.Queue(name)
		if known == nil || known.LastStart.IsZero() || before.Status.LastStart != nil && before.Status.LastStart.Equal(&metav1.MicroTime{Time: known.LastStart}) {
			continue
		}
		queue := before.DeepCopy()
		queue.Status.LastStart = &metav1.MicroTime{Time: known.LastStart}
		s.world.replaceQueue(queue)
	}
}

// queueOf returns the name of a job's queue as the objects are now.
func (s *environment) queueOf(job model.JobKey) string {
	var ofGroup string
	if group := s.groupOfJob(job); group != nil {
		ofGroup = group.Spec.Queue
	}
	var oldest *corev1.Pod
	for _, pod := range s.world.pods {
		if s.jobOf(pod) == job && (oldest == nil || olderPod(pod, oldest)) {
			oldest = pod
		}
	}
	var ofPod, ofNamespace string
	if oldest != nil {
		ofPod = oldest.Labels[v1alpha1.LabelQueue]
	}
	if namespace := s.world.namespaces[job.Namespace]; namespace != nil {
		ofNamespace = namespace.Labels[v1alpha1.LabelQueue]
	}
	name := cmp.Or(ofGroup, ofPod, ofNamespace, v1alpha1.DefaultQueue)
	if queue := s.world.queues[name]; queue != nil && !s.admits(queue, job.Namespace) {
		return v1alpha1.DefaultQueue
	}
	return name
}

// admits reports whether a queue takes jobs of a namespace, as is judged of one whose selector can be read.
func (s *environment) admits(queue *v1alpha1.Queue, namespace string) bool {
	var has labels.Set
	if object := s.world.namespaces[namespace]; object != nil {
		has = object.Labels
	}
	if queue.Spec.NamespaceSelector == nil || queue.Name == v1alpha1.DefaultQueue {
		return queue.Name == v1alpha1.DefaultQueue || has[v1alpha1.LabelQueue] == queue.Name
	}
	selector, err := metav1.LabelSelectorAsSelector(queue.Spec.NamespaceSelector)
	return err != nil || selector.Matches(has)
}

// severalQueues reports whether there are, with the one that exists without an object.
func (s *environment) severalQueues() bool {
	return len(s.world.queues) > 1 || len(s.world.queues) == 1 && s.world.queues[v1alpha1.DefaultQueue] == nil
}

func olderPod(a, b *corev1.Pod) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID)) < 0
}

// above returns the names of the queue and of those above it, up to the first that does not exist.
func (w *world) above(name string) (names []string) {
	for name != "" && !slices.Contains(names, name) && (w.queues[name] != nil || name == v1alpha1.DefaultQueue) {
		names = append(names, name)
		if w.queues[name] == nil {
			break
		}
		name = w.queues[name].Spec.Parent
	}
	return names
}

// hasLimit reports whether a queue or one above it has a limit.
func (s *environment) hasLimit(queue string) bool {
	return slices.ContainsFunc(s.world.above(queue), func(name string) bool {
		return s.world.queues[name] != nil && len(s.world.queues[name].Spec.Limit) > 0
	})
}

// isGuaranteed reports whether what the job got in this cycle fits the guarantee of its queue, or of one above it but not above
// others, beside what that held before: of each resource that the guarantee lists, and of one at least.
func (s *environment) isGuaranteed(o *outcome, job *model.Job, queue string, others []string) bool {
	fresh := map[types.UID]bool{}
	for _, pods := range o.bound() {
		maps.Copy(fresh, pods)
	}
	return slices.ContainsFunc(s.world.above(queue), func(above string) bool {
		if slices.Contains(others, above) || s.world.queues[above] == nil {
			return false
		}
		held, gets := invariants.Amounts{}, invariants.Amounts{}
		for _, pod := range s.world.pods {
			of := s.jobOf(pod)
			switch got := fresh[pod.UID] || s.nominated[pod.UID] != "" && s.nodeOf(pod) == ""; {
			case got && of == job.Key:
				gets.Add(chargeOf(pod), 1)
			case !got && s.nodeOf(pod) != "" && !s.leaves(pod) && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed &&
				slices.Contains(s.world.above(s.queueOf(of)), above):
				held.Add(chargeOf(pod), 1)
			}
		}
		fits := false
		for r, amount := range invariants.AmountsOf(s.world.queues[above].Spec.Guarantee) {
			if gets[r] > 0 && gets[r]+held[r] > amount {
				return false
			}
			fits = fits || gets[r] > 0
		}
		return fits
	})
}

// checkQueues is invariants Q5 and Q15: a queue in which pods were bound holds no more than its limit of what they ask for,
// pods that are terminating and capacity that is nominated included, and pods are evicted for jobs of their own queue.
func (s *environment) checkQueues(o *outcome) error {
	if len(s.world.queues) == 0 {
		return nil
	}
	held := map[string]invariants.Amounts{}
	for _, pod := range s.world.pods {
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		nominated, fresh := s.nominated[pod.UID]
		if !fresh {
			nominated = pod.Status.NominatedNodeName
		}
		holds := s.nodeOf(pod) != "" || nominated != "" && pod.DeletionTimestamp == nil
		if pod.Spec.SchedulerName != "tutti" || ended || !holds || s.ending[pod.UID] && pod.DeletionTimestamp == nil {
			continue // what is nominated in the place of those that were evicted in this cycle came after the binds
		}
		for _, name := range s.world.above(s.queueOf(s.jobOf(pod))) {
			if held[name] == nil {
				held[name] = invariants.Amounts{}
			}
			held[name].Add(chargeOf(pod), 1)
		}
	}
	for _, decision := range o.decisions {
		queue := s.queueOf(decision.Job)
		for _, eviction := range decision.Evictions {
			across := eviction.Job != (model.JobKey{}) && decision.Job != (model.JobKey{}) && s.queueOf(eviction.Job) != queue
			if across != (decision.Right() != "") {
				return fmt.Errorf("invariant Q15: pod %s of %s is evicted for %s by right %q", eviction.Pod, eviction.Job, decision.Job, decision.Right())
			}
		}
		if len(decision.Binds) == 0 {
			continue
		}
		job := o.snapshot.Job(decision.Job)
		begun := job.LostMembers || o.snapshot.Begun[decision.Job].MinMember > 0 // what has begun is completed in any queue
		if s.world.queues[queue] == nil && queue != v1alpha1.DefaultQueue && !begun {
			return fmt.Errorf("%s is started in queue %q, which does not exist", decision.Job, queue)
		}
		for _, bind := range decision.Binds {
			if err := s.checkLimit(s.world.above(queue), held, bind.Pod); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkLimit looks at the queues of one pod that was bound.
func (s *environment) checkLimit(names []string, held map[string]invariants.Amounts, bound model.PodRef) error {
	for _, name := range names {
		if s.world.queues[name] == nil {
			continue
		}
		limit := invariants.AmountsOf(s.world.queues[name].Spec.Limit)
		for resource, amount := range chargeOf(s.world.pods[key(bound.Namespace, bound.Name)]) {
			if most, listed := limit[resource]; listed && amount > 0 && held[name][resource] > most {
				return fmt.Errorf("invariant Q5: queue %s holds %d %s with %s, its limit is %d", name, held[name][resource], resource, bound, most)
			}
		}
	}
	return nil
}

// chargeOf returns what a pod counts for; the CPU of one with isolated CPUs is another resource.
func chargeOf(pod *corev1.Pod) invariants.Amounts {
	request := invariants.RequestOf(pod)
	if _, wants := pod.Annotations[isolated.RequestAnnotation]; wants {
		delete(request, corev1.ResourceCPU)
	}
	return request
}

// guarantees says of each queue with a guarantee whether it is met.
func (s *environment) guarantees() string {
	var b strings.Builder
	for _, queue := range s.state.Snapshot(s.world.now).Queues {
		switch unmet := queue.Unmet; {
		case len(queue.Guarantee) == 0:
		case unmet == nil && queue.Oversubscribed != "":
			fmt.Fprintf(&b, "%s: met; %s\n", queue.Name, queue.Oversubscribed)
		case unmet == nil:
			fmt.Fprintf(&b, "%s: met\n", queue.Name)
		default:
			fmt.Fprintf(&b, "%s: %s: %s\n", queue.Name, unmet.Reason, unmet.Message)
		}
	}
	return b.String()
}
