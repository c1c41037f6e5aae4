package rehearse

import (
	"encoding/json"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/pkg/model"
)

// submission is the objects that a question creates. Pods are created after the other objects, in each order of the question.
type submission struct {
	*rehearsal
	pods []*corev1.Pod
	// priorities are those of the classes that are created, too.
	priorities map[string]int32
}

func (r *rehearsal) newSubmission() *submission {
	return &submission{rehearsal: r, priorities: map[string]int32{}}
}

// object takes in one object, and says what becomes of it.
func (s *submission) object(text json.RawMessage) (string, error) {
	var kind metav1.PartialObjectMetadata
	if err := json.Unmarshal(text, &kind); err != nil {
		return "", fmt.Errorf("-f: %w", err)
	}
	said := kind.Kind + " " + kind.Namespace + "/" + kind.Name
	if kind.Namespace == "" {
		said = kind.Kind + " " + kind.Name
	}
	if kind.Name == "" {
		return "", fmt.Errorf("-f: %s has no name", kind.Kind)
	}
	meta := kind.ObjectMeta
	meta.UID, meta.CreationTimestamp, meta.ResourceVersion, meta.Generation = types.UID("what-if "+said), s.stage.now(), s.stage.stamp(), 1
	var err error
	decode := func(into any) bool {
		err = json.Unmarshal(text, into)
		return err == nil
	}
	switch kind.Kind {
	case "Pod":
		pod := &corev1.Pod{}
		if decode(pod) {
			pod.ObjectMeta = meta
			s.pods = append(s.pods, pod)
		}
	case "Job":
		job := &batchv1.Job{}
		if decode(job) {
			number := min(ptr.Deref(job.Spec.Parallelism, 1), ptr.Deref(job.Spec.Completions, ptr.Deref(job.Spec.Parallelism, 1)))
			if int(number) > maxPods {
				return "", fmt.Errorf("-f: %s has %d pods: at most %d", said, number, maxPods)
			}
			for i := range number {
				pod := &corev1.Pod{ObjectMeta: *job.Spec.Template.ObjectMeta.DeepCopy(), Spec: *job.Spec.Template.Spec.DeepCopy()}
				pod.Namespace, pod.Name = meta.Namespace, fmt.Sprintf("%s-%d", meta.Name, i)
				pod.UID, pod.CreationTimestamp = types.UID(fmt.Sprintf("%s %d", meta.UID, i)), meta.CreationTimestamp
				pod.OwnerReferences = []metav1.OwnerReference{{
					APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: meta.Name, UID: meta.UID, Controller: ptr.To(true),
				}}
				if ptr.Deref(job.Spec.CompletionMode, "") == batchv1.IndexedCompletion {
					metav1.SetMetaDataLabel(&pod.ObjectMeta, batchv1.JobCompletionIndexAnnotation, fmt.Sprint(i))
				}
				s.pods = append(s.pods, pod)
			}
			return fmt.Sprintf("%s is created; pods: %d", said, number), nil
		}
	case "PodGroup":
		group := &v1alpha1.PodGroup{}
		if !decode(group) {
			break
		}
		if s.state.Group(model.JobKey{Namespace: meta.Namespace, Name: meta.Name}) != nil {
			return "", fmt.Errorf("-f: %s is there already: change it by --set", said)
		}
		group.ObjectMeta, group.Status = meta, v1alpha1.PodGroupStatus{}
		s.stage.groups[model.JobKey{Namespace: meta.Namespace, Name: meta.Name}] = group
		s.stage.mailbox.Event(&cluster.GroupSeen{Group: group})
	case "Queue":
		queue := &v1alpha1.Queue{}
		if !decode(queue) {
			break
		}
		if s.state.Queue(meta.Name) != nil {
			return "", fmt.Errorf("-f: %s is there already: change it by --set", said)
		}
		queue.ObjectMeta, queue.Status = meta, v1alpha1.QueueStatus{}
		s.stage.queues[meta.Name] = queue
		s.stage.mailbox.Event(&cluster.QueueSeen{Queue: queue})
	case "Node":
		node := &corev1.Node{}
		if decode(node) {
			node.ObjectMeta = meta
			s.stage.showNode(node)
		}
	case "PriorityClass":
		class := &schedulingv1.PriorityClass{}
		if decode(class) {
			class.ObjectMeta = meta
			s.priorities[meta.Name] = class.Value
			s.stage.mailbox.Event(&cluster.PriorityClassSeen{Class: class})
		}
	default:
		return "", fmt.Errorf("-f: %s: only Pods, PodGroups, Queues, Nodes, PriorityClasses and Jobs of Kubernetes can be supposed", said)
	}
	if err != nil {
		return "", fmt.Errorf("-f: %s: %w", said, err)
	}
	return said + " is created", nil
}

// create creates the pods, as the API server would admit them.
func (s *submission) create() error {
	if len(s.pods) > maxPods {
		return fmt.Errorf("-f: %d pods: at most %d are supposed together", len(s.pods), maxPods)
	}
	known := map[string]bool{}
	for _, task := range tasksOf(s.state.LastSnapshot()) {
		known[task.PodRef.String()] = true
	}
	for _, pod := range s.pods {
		name := pod.Namespace + "/" + pod.Name
		if known[name] {
			return fmt.Errorf("-f: pod %s is there already", name)
		}
		if known[name] = true; !slices.Contains(s.state.SchedulerNames(), pod.Spec.SchedulerName) {
			return fmt.Errorf("-f: pod %s has the schedulerName %q: want %q", name, pod.Spec.SchedulerName, s.state.SchedulerNames()[0])
		}
		if class := pod.Spec.PriorityClassName; class != "" && pod.Spec.Priority == nil {
			value, there := s.priorities[class]
			if !there {
				if value, there = s.state.PriorityOf(class); !there {
					return fmt.Errorf("-f: pod %s: there is no PriorityClass %q", name, class)
				}
			}
			pod.Spec.Priority = &value
		}
		pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
		s.stage.show(cluster.StripPod(pod))
	}
	return nil
}
