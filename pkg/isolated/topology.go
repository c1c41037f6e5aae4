package isolated

import (
	"encoding/json"
	"fmt"
)

// Topology is a node's CPU topology as published by the agent, as JSON in TopologyAnnotation.
type Topology struct {
	// Version is 1.
	Version int `json:"v"`
	// Generation grows by one with each change of the content.
	Generation int64 `json:"gen"`
	// BootID is the kernel's. Ids that were assigned before it changed are still held, but may no longer be isolated.
	BootID string `json:"bootID,omitempty"`
	// Source says what isolated the CPUs: "isolcpus", or "override" for a list from the agent's command line.
	Source string `json:"source"`
	// Isolated are the CPUs that are isolated and online.
	Isolated CPUSet `json:"isolated"`
	Online   CPUSet `json:"online"`
	// NoHzFull are those without a tick. It is informational, not required.
	NoHzFull CPUSet `json:"nohzFull,omitzero"`
	// Mode reports whether the node's allocatable CPU counts the isolated ones.
	Mode Mode `json:"mode"`
	// ThreadsPerCore is 1 without SMT.
	ThreadsPerCore int        `json:"threadsPerCore"`
	NUMA           []NUMANode `json:"numa"`
	Kubelet        Kubelet    `json:"kubelet"`
	// Problems are the reasons why the node must not be offered, as text; empty when it may be.
	Problems []string `json:"problems,omitempty"`
}

// NUMANode lists the isolated CPUs of one NUMA node.
type NUMANode struct {
	ID   int    `json:"id"`
	CPUs CPUSet `json:"cpus"`
	// Cores are sets of threads of one physical core, by their lowest id. Threads that are not isolated are not listed.
	Cores []CPUSet `json:"cores"`
	// LLC are groups that share a last-level cache, by their lowest id.
	LLC []CPUSet `json:"llc,omitempty"`
}

// Kubelet is the agent's findings about the kubelet.
type Kubelet struct {
	CPUManagerPolicy string `json:"cpuManagerPolicy,omitempty"`
}

// Mode says how a node's allocatable CPU relates to its isolated ones.
type Mode string

const (
	// Included: allocatable counts isolated CPUs; ordinary CPU is the rest.
	Included Mode = "included"
	// Excluded: allocatable counts only ordinary CPUs; the kubelet admits no more than it, isolated or not.
	Excluded Mode = "excluded"
)

// ParseTopology reads TopologyAnnotation and checks what the scheduler relies on: the version, a known mode, that NUMA nodes
// have distinct numbers, that their CPUs are disjoint and together exactly the isolated ones, and likewise the cores within
// each. Unknown fields are ignored, so that an agent may be newer than the scheduler.
func ParseTopology(text string) (*Topology, error) {
	t := &Topology{}
	if err := json.Unmarshal([]byte(text), t); err != nil {
		return nil, fmt.Errorf("%s: %w", TopologyAnnotation, err)
	}
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", TopologyAnnotation, err)
	}
	return t, nil
}

func (t *Topology) check() error {
	switch {
	case t.Version != 1:
		return fmt.Errorf("version %d: only 1 is known", t.Version)
	case t.Mode != Included && t.Mode != Excluded:
		return fmt.Errorf("mode %q: neither %q nor %q", t.Mode, Included, Excluded)
	case t.ThreadsPerCore < 1 || t.ThreadsPerCore > Limit:
		return fmt.Errorf("threadsPerCore %d: neither 1 nor up to %d", t.ThreadsPerCore, Limit)
	case !t.Isolated.Within(t.Online):
		return fmt.Errorf("isolated %s: %s are not online", t.Isolated, t.Isolated.Minus(t.Online))
	}
	var all, numbers CPUSet
	for i := range t.NUMA {
		node := &t.NUMA[i]
		switch {
		case node.ID < 0 || node.ID >= Limit:
			return fmt.Errorf("numa %d: neither 0 nor below %d", node.ID, Limit)
		case numbers.Has(node.ID):
			return fmt.Errorf("numa %d: named twice", node.ID)
		}
		numbers = numbers.Union(NewCPUSet(node.ID))
		if both := all.Intersect(node.CPUs); !both.Empty() {
			return fmt.Errorf("numa %d: CPUs %s are of another NUMA node, too", node.ID, both)
		}
		all = all.Union(node.CPUs)
		if err := partition(node.CPUs, node.Cores); err != nil {
			return fmt.Errorf("numa %d: cores: %w", node.ID, err)
		}
		if len(node.LLC) > 0 {
			if err := partition(node.CPUs, node.LLC); err != nil {
				return fmt.Errorf("numa %d: llc: %w", node.ID, err)
			}
		}
	}
	if all != t.Isolated {
		return fmt.Errorf("isolated %s: NUMA nodes have %s", t.Isolated, all)
	}
	return nil
}

// partition returns an error when the parts overlap or do not cover the whole.
func partition(whole CPUSet, parts []CPUSet) error {
	var all CPUSet
	for _, part := range parts {
		if both := all.Intersect(part); !both.Empty() {
			return fmt.Errorf("CPUs %s are named twice", both)
		}
		all = all.Union(part)
	}
	if all != whole {
		return fmt.Errorf("have %s of %s", all, whole)
	}
	return nil
}

// NUMAOf returns the numbers of the NUMA nodes of the ids.
func (t *Topology) NUMAOf(ids CPUSet) CPUSet {
	var numa CPUSet
	for i := range t.NUMA {
		if !t.NUMA[i].CPUs.Intersect(ids).Empty() {
			numa = numa.Union(NewCPUSet(t.NUMA[i].ID))
		}
	}
	return numa
}

// Text returns the annotation's value.
func (t *Topology) Text() (string, error) {
	text, err := json.Marshal(t)
	return string(text), err
}
