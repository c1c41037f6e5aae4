package isolated

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// This file reads the annotations of a pod. It is called where a pod is read, and what it returns is passed on.

// Asked is what a pod asks of isolated CPUs, by its annotations and its containers. The nil Asked asks for nothing.
type Asked struct {
	// wants reports whether the pod wants isolated CPUs, even if its request is invalid.
	wants    bool
	policies Policies
	// required are the NRI plugins that the user requires.
	required []string
	request  *Request
	// unclear, unread and invalid say why policies, required and request are not known; nil when they are.
	unclear, unread, invalid error
}

// AskedBy reads what a pod asks of isolated CPUs; nil when none of its annotations says anything of them.
func AskedBy(pod *corev1.Pod) *Asked {
	said := false
	for _, key := range []string{RequestAnnotation, SMTAnnotation, NUMAAnnotation, RequiredPluginsAnnotation} {
		_, there := pod.Annotations[key]
		said = said || there
	}
	if !said {
		return nil
	}
	text, wants := pod.Annotations[RequestAnnotation]
	a := &Asked{wants: wants}
	a.policies, a.unclear = policiesOf(pod.Annotations)
	if given := pod.Annotations[RequiredPluginsAnnotation]; given != "" {
		if err := json.Unmarshal([]byte(given), &a.required); err != nil {
			a.unread = fmt.Errorf("%s: %w", RequiredPluginsAnnotation, err)
		}
	}
	if wants {
		a.request, a.invalid = a.parse(text, &pod.Spec)
	}
	return a
}

// Wants reports whether the pod wants isolated CPUs, even if its request is invalid.
func (a *Asked) Wants() bool { return a != nil && a.wants }

// Policies returns how the pod's CPUs are to be chosen; ok is false when that cannot be read.
func (a *Asked) Policies() (policies Policies, ok bool) {
	if a == nil {
		return Policies{SMT: PreferFullCore, NUMA: NUMAPreferred}, true
	}
	return a.policies, a.unclear == nil
}

// Request returns how the request of the pod is divided between the pools; nil when it does not want isolated CPUs. The error is
// for the user: what is invalid, and in which container. Such a pod must never be treated as an ordinary one.
func (a *Asked) Request() (*Request, error) {
	if a == nil {
		return nil, nil
	}
	return a.request, a.invalid
}

// AssignedTo returns the ids that a bound pod holds by its annotation, nil when it has none or is not bound. The error says
// that the annotation is invalid: it cannot be read, or was made for another pod or node.
func AssignedTo(pod *corev1.Pod) (*Assignment, error) {
	text, there := pod.Annotations[AssignedAnnotation]
	if !there || pod.Spec.NodeName == "" {
		return nil, nil
	}
	a, err := ParseAssignment(text)
	switch {
	case err != nil:
		return nil, err
	case a.UID != string(pod.UID) || a.Node != pod.Spec.NodeName:
		return nil, fmt.Errorf("%s is of pod %.64q on node %.64q", AssignedAnnotation, a.UID, a.Node)
	}
	if err := a.checkContainers(&pod.Spec); err != nil {
		return nil, err
	}
	return a, nil
}
