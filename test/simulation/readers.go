package simulation

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/commit"
)

// noteNames takes down the namespace of each job and pod. No name is ever used in two of them.
func (j *invariantChecker) noteNames(o object) {
	switch o := o.(type) {
	case *corev1.Pod:
		j.namespaces[o.Name] = o.Namespace
		if group := groupOf(o); group != "" {
			j.namespaces[group] = o.Namespace
		}
	case *v1alpha1.PodGroup, *unstructured.Unstructured:
		j.namespaces[o.GetName()] = o.GetNamespace()
	}
}

// namesOnlyOwn is Q23: no message names an object of another namespace than that of the object to which it is written; that of a
// Queue, which has none, names no job and no pod.
func (j *invariantChecker) namesOnlyOwn(call commit.Call) {
	reader, messages := messagesOf(call)
	for _, message := range messages {
		for _, word := range strings.FieldsFunc(message, func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-/", r) }) {
			namespace, name, qualified := strings.Cut(word, "/")
			if !qualified {
				namespace, name = "", word
			}
			hidden := (namespace == firstNamespace || namespace == secondNamespace) && namespace != reader
			if of, known := j.namespaces[name]; hidden || known && of != reader {
				j.violated("Q23", "%s tells readers of namespace %q of %s: %q", call.Kind, reader, word, message)
			}
		}
	}
}

// messagesOf returns what a call tells users, and the namespace of the object that says so; empty for a Queue.
func messagesOf(call commit.Call) (namespace string, messages []string) {
	var conditions []metav1.Condition
	switch write := call.Write.(type) {
	case *commit.PodCondition:
		return write.Pod.Namespace, []string{write.Condition.Message}
	case *commit.Event:
		messages = append(messages, write.Note)
		if related := write.Related; related != nil {
			messages = append(messages, related.Namespace+"/"+related.Name)
		}
		return write.Regarding.Namespace, messages
	case *commit.GroupStatus:
		namespace, conditions = write.Namespace, write.Status.Conditions
	case *commit.ForeignStatus:
		if condition := write.Condition; condition != nil {
			messages = append(messages, condition.Message)
		}
		return write.Group.Namespace, messages
	case *commit.QueueStatus:
		conditions = write.Status.Conditions
	}
	for _, condition := range conditions {
		messages = append(messages, condition.Message)
	}
	return namespace, messages
}
