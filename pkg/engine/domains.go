package engine

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file finds out which nodes are in which domain.

// Domains are the domains of one level, and which nodes are in them. They are valid until the session closes.
//
// Invariant: after update they are what the labels of the nodes say.
type Domains struct {
	// Level is the name of the level.
	Level string
	// tree is the name of the topology, empty for single nodes and the key of a label.
	tree string
	// labels are those of the levels of the tree from the widest to this one, none for single nodes. The values are the path of a
	// domain: two racks of one name in two blocks are two domains.
	labels []string
	// mark is up to where the journal was read.
	mark model.Cursor
	// nodes are those that were looked at; by their positions: path, empty for a node without a value for the level itself, and of,
	// the number of the domain, or -1.
	nodes []*model.Node
	path  []string
	of    []int32
	// paths are the domains in their order, members the indexes of their nodes.
	paths   []string
	members [][]int
	// layout counts how often the domains changed.
	layout uint64
	usage
}

// Len returns how many domains there are.
func (d *Domains) Len() int { return len(d.paths) }

// Of returns the number of the domain that the node is in, in the natural order of their paths; -1 when it is in none.
func (d *Domains) Of(node *model.Node) int { return int(d.of[node.Index]) }

// At returns the same for the node of an index.
func (d *Domains) At(node int) int { return int(d.of[node]) }

// Nodes returns the indexes of the nodes of a domain, which must not be changed; none of one whose labels are gone.
func (d *Domains) Nodes(domain int) []int {
	if domain == d.goneDomain() {
		return nil
	}
	return d.members[domain]
}

// Name returns the name of a domain as messages show it: "rack b1/r3".
func (d *Domains) Name(domain int) string {
	if domain == d.goneDomain() {
		return "a " + d.Level + " whose label no node has any more"
	}
	return d.Level + " " + d.paths[domain]
}

// goneDomain stands for the domain of members whose path no node has any more.
func (d *Domains) goneDomain() int { return len(d.paths) }

// ofMember returns the domain of a task that has this node, -1 for none: that of the node, or, while the node has no label of the
// level, that which was written on the pod with its bind. Programs that label nodes take labels away for some seconds when they
// start again.
func (d *Domains) ofMember(task *model.Task, node *model.Node) int {
	in := d.Of(node)
	if in >= 0 || d.tree == "" {
		return in
	}
	if task.Place == nil {
		return -1
	}
	for _, one := range strings.Split(task.Place.Domains, ",") {
		name, path, _ := strings.Cut(one, "=")
		values := strings.Split(path, "/")
		if name != d.tree || len(values) < len(d.labels) || values[len(d.labels)-1] == "" { // it was in none of this level
			continue
		}
		at, known := slices.BinarySearchFunc(d.paths, strings.Join(values[:len(d.labels)], "/"), model.CompareNatural)
		if !known {
			return d.goneDomain()
		}
		return at
	}
	return -1
}

// Label returns the key of the label whose values are the names of the domains; empty for single nodes.
func (d *Domains) Label() string {
	if len(d.labels) == 0 {
		return ""
	}
	return d.labels[len(d.labels)-1]
}

// Unlabelled returns how many nodes are in no domain.
func (d *Domains) Unlabelled() int {
	n := 0
	for _, domain := range d.of {
		if domain < 0 {
			n++
		}
	}
	return n
}

// update reads the labels of nodes that are new or have changed.
func (d *Domains) update(snapshot *model.Snapshot) {
	if snapshot.Journal.SameNodes(d.mark) {
		return
	}
	same, nodes := len(d.nodes) == len(snapshot.Nodes), snapshot.Nodes
	path, reader := make([]string, len(nodes)), pathReader{labels: d.labels, paths: map[string]string{}}
	before := 0
	for i, node := range nodes {
		for before < len(d.nodes) && d.nodes[before] != node && d.nodes[before].Name < node.Name {
			before++
		}
		if before < len(d.nodes) && d.nodes[before] == node && node.ObjectChanged <= d.mark.Number() {
			path[i] = d.path[before]
		} else {
			path[i] = reader.read(node)
		}
		same = same && path[i] == d.path[i]
	}
	if !same {
		d.number(path)
	}
	d.nodes, d.path, d.mark = slices.Clone(nodes), path, snapshot.Journal.Cursor()
}

// number gives each domain its number.
func (d *Domains) number(path []string) {
	d.of, d.paths = make([]int32, len(path)), nil
	seen := map[string]int32{} // the domains as they are met
	for i, one := range path {
		d.of[i] = -1
		if one == "" {
			continue
		}
		if i > 0 && one == path[i-1] {
			d.of[i] = d.of[i-1]
			continue
		}
		domain, known := seen[one]
		if !known {
			domain = int32(len(d.paths))
			seen[one], d.paths = domain, append(d.paths, one)
		}
		d.of[i] = domain
	}
	slices.SortFunc(d.paths, model.CompareNatural)
	numbers := make([]int32, len(d.paths))
	for i, one := range d.paths {
		numbers[seen[one]] = int32(i)
	}
	d.members = make([][]int, len(d.paths))
	for i, domain := range d.of {
		if domain >= 0 {
			d.of[i] = numbers[domain]
			d.members[d.of[i]] = append(d.members[d.of[i]], i)
		}
	}
	d.layout++
}

// pathReader reads the paths of the domains of nodes, and makes a text of each domain once.
type pathReader struct {
	labels []string
	buffer []byte
	paths  map[string]string
	// last is the path read last: mostly the next node is in the same domain.
	last string
}

// read returns the path of the node's domain; empty when it has no value for the level itself. A value of a label has no slash.
func (r *pathReader) read(node *model.Node) string {
	if len(r.labels) == 0 {
		return node.Name
	}
	r.buffer = r.buffer[:0]
	value := ""
	for i, label := range r.labels {
		if i > 0 {
			r.buffer = append(r.buffer, '/')
		}
		value = node.Object.Labels[label]
		r.buffer = append(r.buffer, value...)
	}
	if value == "" {
		return ""
	}
	if string(r.buffer) == r.last {
		return r.last
	}
	path, known := r.paths[string(r.buffer)]
	if !known {
		path = string(r.buffer)
		r.paths[path] = path
	}
	r.last = path
	return path
}

// levels are the labels of the levels of a configuration, by name, each with those of the wider levels of its tree in front.
type levels map[string][]string

func levelsOf(trees []config.Topology) levels {
	all := levels{config.LevelHost: nil}
	for _, tree := range trees {
		var labels []string
		for _, level := range tree.Levels {
			labels = append(labels, level.Label)
			all[level.Name] = slices.Clone(labels)
		}
	}
	return all
}

// levelsKnown returns the levels of the profile.
func (c *Cache) levelsKnown() levels {
	if c.levels == nil {
		c.levels = levelsOf(c.profile.Topologies)
	}
	return c.levels
}

// labelsOf returns the labels of a level from the widest of its tree on, none for single nodes; ok is false when it is unknown.
// The key of a label is a level, too.
func (c *Cache) labelsOf(level string) (labels []string, ok bool) {
	if labels, ok = c.levelsKnown()[level]; ok {
		return labels, true
	}
	if known := c.domains[level]; known != nil {
		return known.labels, true
	}
	key, isLabel := model.LevelLabel(level)
	return []string{key}, isLabel && len(validation.IsQualifiedName(key)) == 0
}

// maxLabelLevels is for how many levels domains are kept beyond those of the configuration: users name keys of labels.
const maxLabelLevels = 16

// Domains returns the domains of a level; nil when it is unknown.
func (s *Session) Domains(level string) *Domains { return s.cache.domainsOf(s.Snapshot, level) }

func (c *Cache) domainsOf(snapshot *model.Snapshot, level string) *Domains {
	labels, ok := c.labelsOf(level)
	if !ok {
		return nil
	}
	known := c.domains[level]
	if known == nil {
		if c.domains == nil {
			c.domains = map[string]*Domains{}
		}
		if len(c.domains) >= len(c.levels)+maxLabelLevels {
			c.forgetLabels()
		}
		known = &Domains{Level: level, tree: c.treeOf(level), labels: labels}
		c.domains[level] = known
	}
	known.update(snapshot)
	return known
}

// forgetLabels drops the domains of levels that the configuration does not declare, and what fits into them.
func (c *Cache) forgetLabels() {
	maps.DeleteFunc(c.domains, func(name string, _ *Domains) bool {
		_, declared := c.levels[name]
		return !declared
	})
	for _, known := range c.shapes {
		for _, fits := range known.fits {
			if fits != nil {
				fits.sums = nil
			}
		}
	}
}

// treeOf returns the name of the topology that has the level; empty when none has.
func (c *Cache) treeOf(level string) string {
	for _, tree := range c.profile.Topologies {
		if slices.ContainsFunc(tree.Levels, func(one config.Level) bool { return one.Name == level }) {
			return tree.Name
		}
	}
	return ""
}

// LevelsFor returns the levels of all topologies, from the widest of each on; first those of which the job names one, in that
// order.
func (s *Session) LevelsFor(job *model.Job) (levels []*Domains) {
	var names []string
	for i := range job.Topology {
		names = append(names, s.cache.treeOf(job.Topology[i].Level))
	}
	for _, tree := range s.profile.Topologies {
		names = append(names, tree.Name)
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		for _, tree := range s.profile.Topologies {
			for _, level := range tree.Levels {
				if tree.Name == name {
					levels = append(levels, s.Domains(level.Name))
				}
			}
		}
	}
	return levels
}

// LevelsUpTo returns the domains of a level and of the narrower ones of its tree, the narrowest first. Single nodes are a level
// only where they are asked for.
func (s *Session) LevelsUpTo(level string) []*Domains {
	_, below := s.tree(level)
	return append(below, s.Domains(level))
}

// LevelsAbove returns the domains of the wider levels of the level's tree, the narrowest first.
func (s *Session) LevelsAbove(level string) []*Domains {
	above, _ := s.tree(level)
	return above
}

// tree returns the domains of the levels above and below one in its tree, the narrowest first; none when it is in none.
func (s *Session) tree(level string) (above, below []*Domains) {
	for _, tree := range s.profile.Topologies {
		at := slices.IndexFunc(tree.Levels, func(one config.Level) bool { return one.Name == level })
		if at < 0 {
			continue
		}
		for i, one := range slices.Backward(tree.Levels) {
			switch {
			case i > at:
				below = append(below, s.Domains(one.Name))
			case i < at:
				above = append(above, s.Domains(one.Name))
			}
		}
	}
	return above, below
}
