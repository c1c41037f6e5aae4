// Package sysfs reads which CPUs a machine has, which of them its kernel isolated, and how they belong together: NUMA nodes,
// cores, last-level caches.
//
// It reads files below a given root, so that tests can use a tree of their own. What may be absent on a correct machine
// (isolation, caches, NUMA, ids of dies) is absent in the result; any other unreadable file is an error. It does not decide
// whether the node may be offered; internal/agent does.
package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

// The sources of isolated CPUs, the values of Topology.Source.
const (
	FromKernel   = "isolcpus"
	FromOverride = "override"
)

const (
	cpuDirectory  = "devices/system/cpu"
	nodeDirectory = "devices/system/node"
)

// Machine is what was found. All sets but Named have only online CPUs.
type Machine struct {
	Online, Isolated, NoHzFull isolated.CPUSet
	// Named are the ids that the kernel, or the override, reports as isolated, online or not.
	Named isolated.CPUSet
	// Source is FromKernel or FromOverride.
	Source string
	// Nodes are the NUMA nodes with CPUs, by id, without what is inside of them; a machine without any has one, 0.
	Nodes []isolated.NUMANode
	// Cores are the threads of each physical core, by their lowest id.
	Cores []isolated.CPUSet
	// Caches are groups that share a last-level cache, by their lowest id; empty where the machine does not report them.
	Caches []isolated.CPUSet
}

// Read reads the tree below root, which is /sys on a machine. With an override, its ids are the isolated ones, whatever the
// kernel reports.
func Read(root fs.FS, override *isolated.CPUSet) (*Machine, error) {
	m := &Machine{Source: FromKernel}
	var err error
	if m.Online, err = readSet(root, path.Join(cpuDirectory, "online")); err != nil {
		return nil, err
	}
	if m.Online.Empty() {
		return nil, fmt.Errorf("%s/online: names no CPU", cpuDirectory)
	}
	if m.Named, err = optionalSet(root, path.Join(cpuDirectory, "isolated")); err != nil {
		return nil, err
	}
	if override != nil {
		m.Named, m.Source = *override, FromOverride
	}
	m.Isolated = m.Named.Intersect(m.Online)
	if m.NoHzFull, err = optionalSet(root, path.Join(cpuDirectory, "nohz_full")); err != nil {
		return nil, err
	}
	m.NoHzFull = m.NoHzFull.Intersect(m.Online)
	if m.Nodes, err = readNodes(root, m.Online); err != nil {
		return nil, err
	}
	if m.Cores, err = m.groups(root, "topology/core_cpus_list", "topology/thread_siblings_list"); err != nil {
		return nil, err
	}
	if m.Caches, err = m.groups(root, "cache/index3/shared_cpu_list"); err != nil {
		return nil, err
	}
	m.dropCaches()
	return m, nil
}

// groups returns the sets of CPUs that belong together by the first readable one of the files for each online CPU; a CPU
// without any of the files is alone. Ids of cores, dies and clusters are not used: they are unique within their package only,
// and some kernels print 65535 or 0 for "none"; lists of siblings mean the same everywhere.
func (m *Machine) groups(root fs.FS, files ...string) ([]isolated.CPUSet, error) {
	var groups []isolated.CPUSet
	var seen isolated.CPUSet
	for id := m.Online.Next(0); id >= 0; id = m.Online.Next(id + 1) {
		if seen.Has(id) {
			continue
		}
		group := isolated.NewCPUSet(id)
		for _, file := range files {
			named, err := optionalSet(root, path.Join(cpuDirectory, "cpu"+strconv.Itoa(id), file))
			if err != nil {
				return nil, err
			}
			if named.Has(id) {
				group = named.Intersect(m.Online).Minus(seen)
				break
			}
		}
		seen = seen.Union(group)
		groups = append(groups, group)
	}
	return groups, nil
}

// dropCaches drops last-level caches without meaning: on a machine without such files every CPU is alone, and cores with
// several threads would be split.
func (m *Machine) dropCaches() {
	for _, core := range m.Cores {
		if !slices.ContainsFunc(m.Caches, core.Within) {
			m.Caches = nil
			return
		}
	}
	if len(m.Caches) == m.Online.Len() {
		m.Caches = nil
	}
}

// readNodes returns the NUMA nodes. CPUs that none of them names, all of them on a machine without the directory, are of node
// 0.
func readNodes(root fs.FS, online isolated.CPUSet) ([]isolated.NUMANode, error) {
	entries, err := fs.ReadDir(root, nodeDirectory)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var nodes []isolated.NUMANode
	rest := online
	for _, entry := range entries {
		number, is := strings.CutPrefix(entry.Name(), "node")
		id, err := strconv.ParseUint(number, 10, 31)
		if !is || err != nil {
			continue
		}
		if id >= isolated.Limit {
			return nil, fmt.Errorf("%s/%s: at most %d NUMA nodes are supported", nodeDirectory, entry.Name(), isolated.Limit)
		}
		cpus, err := optionalSet(root, path.Join(nodeDirectory, entry.Name(), "cpulist"))
		if err != nil {
			return nil, err
		}
		if cpus = cpus.Intersect(rest); !cpus.Empty() {
			nodes = append(nodes, isolated.NUMANode{ID: int(id), CPUs: cpus})
			rest = rest.Minus(cpus)
		}
	}
	if !rest.Empty() {
		zero := slices.IndexFunc(nodes, func(n isolated.NUMANode) bool { return n.ID == 0 })
		if zero < 0 {
			nodes, zero = append(nodes, isolated.NUMANode{}), len(nodes)
		}
		nodes[zero].CPUs = nodes[zero].CPUs.Union(rest)
	}
	slices.SortFunc(nodes, func(a, b isolated.NUMANode) int { return a.ID - b.ID })
	return nodes, nil
}

// optionalSet is readSet for a file that need not be there; then the set is empty.
func optionalSet(root fs.FS, name string) (isolated.CPUSet, error) {
	set, err := readSet(root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return isolated.CPUSet{}, nil
	}
	return set, err
}

func readSet(root fs.FS, name string) (isolated.CPUSet, error) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return isolated.CPUSet{}, err
	}
	list := strings.TrimSpace(string(text))
	if list == "(null)" { // what kernels without a tickless CPU print for nohz_full
		return isolated.CPUSet{}, nil
	}
	set, err := isolated.ParseSet(list)
	if err != nil {
		return isolated.CPUSet{}, fmt.Errorf("%s: %w", name, err)
	}
	return set, nil
}
