package sysfs

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

// Topology returns the machine's part of what is published: everything but the generation, the boot, the mode, the kubelet
// and the problems.
func (m *Machine) Topology() *isolated.Topology {
	t := &isolated.Topology{
		Version: 1, Source: m.Source, Isolated: m.Isolated, Online: m.Online, NoHzFull: m.NoHzFull, ThreadsPerCore: 1,
		NUMA: []isolated.NUMANode{},
	}
	for _, core := range m.Cores {
		t.ThreadsPerCore = max(t.ThreadsPerCore, core.Len())
	}
	for _, node := range m.Nodes {
		cpus := node.CPUs.Intersect(m.Isolated)
		if cpus.Empty() {
			continue
		}
		t.NUMA = append(t.NUMA, isolated.NUMANode{
			ID: node.ID, CPUs: cpus, Cores: within(m.Cores, cpus), LLC: within(m.Caches, cpus),
		})
	}
	return t
}

// within returns what of the groups is in the set, in the order of their lowest id there.
func within(groups []isolated.CPUSet, set isolated.CPUSet) []isolated.CPUSet {
	var in []isolated.CPUSet
	for id := set.Next(0); id >= 0; id = set.Next(id + 1) {
		for _, group := range groups {
			if part := group.Intersect(set); part.Next(0) == id {
				in = append(in, part)
			}
		}
	}
	return in
}

// Warnings describe, for the operator, what disturbs isolated CPUs or is probably a mistake. None of it keeps a node from
// being offered. proc is the machine's /proc, for interrupts; nil leaves them out.
func (m *Machine) Warnings(proc fs.FS) []string {
	var warnings []string
	if gone := m.Named.Minus(m.Online); !gone.Empty() {
		warnings = append(warnings, fmt.Sprintf("isolated CPUs %s are not online", gone))
	}
	for _, core := range m.Cores {
		if in := core.Intersect(m.Isolated); !in.Empty() && in != core {
			warnings = append(warnings, fmt.Sprintf(
				"CPUs %s are isolated, CPUs %s of the same core are not and will disturb them", in, core.Minus(in)))
		}
	}
	if proc == nil || m.Isolated.Empty() {
		return warnings
	}
	text, err := fs.ReadFile(proc, "irq/default_smp_affinity")
	if err != nil {
		return warnings // not every kernel lets every user read it
	}
	affinity, err := parseMask(string(text))
	if both := affinity.Intersect(m.Isolated); err == nil && !both.Empty() {
		warnings = append(warnings, fmt.Sprintf("interrupts may go to isolated CPUs %s: see irqaffinity=", both))
	}
	return warnings
}

// parseMask reads the kernel's masks: groups of 32 bits in hexadecimal, the highest first.
func parseMask(text string) (isolated.CPUSet, error) {
	var set isolated.CPUSet
	groups := strings.Split(strings.TrimSpace(text), ",")
	for i, group := range groups {
		bits, err := strconv.ParseUint(group, 16, 32)
		if err != nil {
			return isolated.CPUSet{}, fmt.Errorf("mask %q: %w", text, err)
		}
		first := 32 * (len(groups) - 1 - i)
		if first >= isolated.Limit {
			continue
		}
		set[first/64] |= bits << (first % 64)
	}
	return set, nil
}
