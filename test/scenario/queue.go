package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
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
				gets.Add(invariants.ChargeOf(pod), 1)
			case !got && s.nodeOf(pod) != "" && !s.leaves(pod) && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed &&
				slices.Contains(s.world.above(s.queueOf(of)), above):
				held.Add(invariants.ChargeOf(pod), 1)
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
