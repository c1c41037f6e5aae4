package engine

import "github.com/tutti-sched/tutti/pkg/model"

// This file shows the declared levels and their domains to readers between sessions. Nothing is decided by it.

// Tree is a tree of levels that the configuration declares.
type Tree struct {
	// Name is that of the topology.
	Name string
	// Levels are the domains of each level, the widest first.
	Levels []*Domains
}

// Trees returns the trees of the configuration; none where none is declared. It is called between sessions, and what it returns
// is valid until the next one.
func Trees(snapshot *model.Snapshot, profile *Profile, cache *Cache) (trees []Tree) {
	for i := range profile.Topologies {
		if i == 0 {
			cache.begin(profile, snapshot)
			snapshot.AssignIndexes()
		}
		tree := Tree{Name: profile.Topologies[i].Name}
		for _, level := range profile.Topologies[i].Levels {
			tree.Levels = append(tree.Levels, cache.domainsOf(snapshot, level.Name))
		}
		trees = append(trees, tree)
	}
	return trees
}

// Path returns the path of a domain, such as "b1/r3".
func (d *Domains) Path(domain int) string { return d.paths[domain] }

// UsedNodes returns, by the number of the domain, on how many of its nodes a member of a job holds a device, or anything on a
// node without devices. A domain is whole where that is none, else broken. The slice must not be changed. It costs what has
// changed since it was asked for.
func (d *Domains) UsedNodes(snapshot *model.Snapshot) []int {
	d.updateUsed(snapshot)
	return d.usedNodes
}
