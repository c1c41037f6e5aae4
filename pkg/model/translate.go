package model

import corev1 "k8s.io/api/core/v1"

// RequestTranslator changes a pod's request and a node's allocatable before they are compared, for example to charge isolated
// CPUs to a dimension of their own. The cluster state calls its translators in tier order, once, when a pod or a node is
// added or changes; not inside a session.
type RequestTranslator interface {
	// Counts names the resources that the translator reads or writes: they get positions before any pod or node is translated.
	Counts() []corev1.ResourceName
	// TranslateRequest changes the request in place; a refusal keeps only this task from being scheduled. Of the task are known its
	// Pod, what it asks of isolated CPUs, and, when the pod is bound, those that it holds.
	TranslateRequest(dimensions *ResourceIndex, task *Task, request *Resources) *Refusal
	// TranslateCapacity changes the allocatable in place; a refusal keeps every task off the node.
	TranslateCapacity(dimensions *ResourceIndex, node *corev1.Node, allocatable *Resources) *Refusal
}
