package rehearse

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/sources"
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
	case "PodGroup":
		group := &v1alpha1.PodGroup{}
		if !decode(group) {
			break
		}
		group.ObjectMeta, group.Status = meta, v1alpha1.PodGroupStatus{}
		return said + " is created", s.group(group, said)
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
		return s.expand(text, said, &meta)
	}
	if err != nil {
		return "", fmt.Errorf("-f: %s: %w", said, err)
	}
	return said + " is created", nil
}

// expand takes in an object with pod templates: its pods, and the gang that they are together.
func (s *submission) expand(text json.RawMessage, said string, meta *metav1.ObjectMeta) (string, error) {
	pods, gang, err := sources.Expand(text, meta, maxPods)
	if err != nil {
		return "", fmt.Errorf("-f: %s: %w", said, err)
	}
	s.pods = append(s.pods, pods...)
	created := fmt.Sprintf("%s is created; pods: %d", said, len(pods))
	if gang == nil {
		return created, nil
	}
	for _, pod := range pods {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, v1alpha1.LabelPodGroup, meta.Name)
	}
	created += fmt.Sprintf(", of which %d start together; what its operator does otherwise is not known", gang.MinMember)
	return created, s.group(&v1alpha1.PodGroup{ObjectMeta: *meta, Spec: *gang}, said)
}

// group creates a PodGroup that is not there yet.
func (s *submission) group(group *v1alpha1.PodGroup, said string) error {
	key := model.JobKey{Namespace: group.Namespace, Name: group.Name}
	if s.state.Group(key) != nil || s.stage.groups[key] != nil {
		return fmt.Errorf("-f: %s is there already: change it by --set", said)
	}
	s.stage.groups[key] = group
	s.stage.mailbox.Event(&cluster.GroupSeen{Group: group})
	return nil
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
		requestLimits(pod)
		pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
		s.stage.show(cluster.StripPod(pod))
	}
	return nil
}

// requestLimits lets containers request what only their limits name, as the API server does (SetDefaults_Pod in
// pkg/apis/core/v1/defaults.go of Kubernetes).
func requestLimits(pod *corev1.Pod) {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			resources := &containers[i].Resources
			for name, limit := range resources.Limits {
				if _, stated := resources.Requests[name]; !stated {
					if resources.Requests == nil {
						resources.Requests = corev1.ResourceList{}
					}
					resources.Requests[name] = limit
				}
			}
		}
	}
}
