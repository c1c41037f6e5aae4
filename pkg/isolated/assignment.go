package isolated

import (
	"encoding/json"
	"fmt"
)

// Assignment is the isolated CPUs of a pod, as JSON in AssignedAnnotation.
type Assignment struct {
	// Version is 1.
	Version int `json:"v"`
	// Node and UID are the node and the pod it was made for; it is invalid for others.
	Node string `json:"node"`
	UID  string `json:"uid"`
	// CPUs are all ids that the pod holds.
	CPUs CPUSet `json:"cpus"`
	// NUMA are the NUMA nodes of the CPUs.
	NUMA CPUSet `json:"numa"`
	// Containers are the ids of each container that was selected; those of application containers and sidecars are disjoint.
	Containers map[string]CPUSet `json:"containers"`
	// Generation is the generation of the topology it was made from.
	Generation int64 `json:"gen"`
}

// ParseAssignment reads AssignedAnnotation and checks that the containers' ids are among the pod's. The caller checks that it
// is for this pod and node.
func ParseAssignment(text string) (*Assignment, error) {
	a := &Assignment{}
	if err := json.Unmarshal([]byte(text), a); err != nil {
		return nil, fmt.Errorf("%s: %w", AssignedAnnotation, err)
	}
	if a.Version != 1 {
		return nil, fmt.Errorf("%s: version %d: only 1 is known", AssignedAnnotation, a.Version)
	}
	if a.CPUs.Empty() {
		return nil, fmt.Errorf("%s: no CPUs", AssignedAnnotation)
	}
	for name, cpus := range a.Containers {
		if !cpus.Within(a.CPUs) {
			return nil, fmt.Errorf("%s: container %s: CPUs %s are not the pod's", AssignedAnnotation, name, cpus.Minus(a.CPUs))
		}
	}
	return a, nil
}

// Within returns the assignment less the ids outside of a set; nil when none is left, the assignment itself when none is outside.
func (a *Assignment) Within(set CPUSet) *Assignment {
	if a.CPUs.Within(set) {
		return a
	}
	within := *a
	if within.CPUs = a.CPUs.Intersect(set); within.CPUs.Empty() {
		return nil
	}
	within.Containers = make(map[string]CPUSet, len(a.Containers))
	for name, cpus := range a.Containers {
		within.Containers[name] = cpus.Intersect(set)
	}
	return &within
}

// Text returns the annotation's value; equal assignments have equal text.
func (a *Assignment) Text() (string, error) {
	text, err := json.Marshal(a)
	return string(text), err
}
