package model

import corev1 "k8s.io/api/core/v1"

// RequestTranslator changes what a pod asks for and what a node offers before anything is compared, such as charging
// isolated CPUs to a dimension of their own. The live state calls its translators in tier order, once, when a pod or a
// node enters it or changes; not inside a session.
type RequestTranslator interface {
	// TranslateRequest changes the request in place; a refusal holds the task alone.
	TranslateRequest(dimensions *ResourceIndex, pod *corev1.Pod, request *Resources) *Refusal
	// TranslateCapacity changes the allocatable in place; a refusal keeps every task off the node.
	TranslateCapacity(dimensions *ResourceIndex, node *corev1.Node, allocatable *Resources) *Refusal
}
