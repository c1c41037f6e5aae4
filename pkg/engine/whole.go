package engine

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file knows which domains are whole: no member of any job holds a device in them, or anything on nodes without devices. The
// others are broken.

// usage is what is used in the domains of a level.
//
// Invariant: after updateUsed it is what counting again would give.
type usage struct {
	// used reports of which nodes a member of a job holds something, usedNodes how many these are in each domain, as of usedMark;
	// for the domains of usedLayout.
	used       []bool
	usedNodes  []int
	usedMark   model.Cursor
	usedLayout uint64
	// turns counts how often a domain turned whole or broken, or all were counted again. turned are those that turned last, in
	// order.
	turns  uint64
	turned []int32
}

// minTurned is how many turns are kept at least, of few domains. A reader that is further behind looks at all nodes.
const minTurned = 1 << 10

// updateUsed counts the nodes of which a member of a job holds something: those that have changed again.
func (d *Domains) updateUsed(snapshot *model.Snapshot) {
	changes, ok := snapshot.Journal.Since(d.usedMark)
	if !ok || d.usedLayout != d.layout || len(changes) >= len(snapshot.Nodes) {
		d.used, d.usedNodes = make([]bool, len(snapshot.Nodes)), make([]int, len(d.paths))
		for _, node := range snapshot.Nodes {
			d.setUsed(snapshot.Dimensions, node)
		}
		d.turns, d.turned = d.turns+1, d.turned[:0] // any of them may have turned
		changes = nil
	}
	for i := range changes {
		if node := changes[i].Node; !changes[i].Added || !d.used[node.Index] { // a pod more leaves a node in use
			d.setUsed(snapshot.Dimensions, node)
		}
	}
	d.usedMark, d.usedLayout = snapshot.Journal.Cursor(), d.layout
}

func (d *Domains) setUsed(dimensions *model.ResourceIndex, node *model.Node) {
	used, domain := isUsed(dimensions, node), d.of[node.Index]
	if used == d.used[node.Index] {
		return
	}
	d.used[node.Index] = used
	if domain < 0 {
		return
	}
	before := d.usedNodes[domain]
	if used {
		d.usedNodes[domain]++
	} else {
		d.usedNodes[domain]--
	}
	if before == 0 || d.usedNodes[domain] == 0 {
		d.turn(domain)
	}
}

// turn records that a domain has turned whole or broken.
func (d *Domains) turn(domain int32) {
	if most := max(minTurned, len(d.paths)); len(d.turned) >= 2*most {
		d.turned = d.turned[:copy(d.turned, d.turned[most:])]
	}
	d.turns++
	d.turned = append(d.turned, domain)
}

// turnedSince returns the domains that turned after that turn, in order; ok is false when any may have turned.
func (d *Domains) turnedSince(turn uint64) (domains []int32, ok bool) {
	behind := d.turns - turn
	if behind > uint64(len(d.turned)) {
		return nil, false
	}
	return d.turned[uint64(len(d.turned))-behind:], true
}

// isWhole reports whether the node of that index is in a domain of the level that is whole.
func (d *Domains) isWhole(node int) bool {
	domain := d.of[node]
	return domain >= 0 && d.usedNodes[domain] == 0
}

// pointsPerLevel are the points of one level in a score of BrokenDomains: each level is a score of its own, of 0 or 100.
const pointsPerLevel = 100

// declaredLevels returns the levels of the configuration.
func (s *Session) declaredLevels() (levels []*Domains) {
	for _, tree := range s.profile.Topologies {
		for _, level := range tree.Levels {
			levels = append(levels, s.Domains(level.Name))
		}
	}
	return levels
}

// followedLevel is a level on whose whole domains the sums of a ranking depend.
type followedLevel struct {
	level *Domains
	// points are what a node in no whole domain has more.
	points int64
	// broken are by domain what the sums contain, as of that turn.
	broken []bool
	turn   uint64
}

// pointsOf returns what the node of that index has. Domains are numbered again with node objects alone, after which all nodes are
// ranked again.
func (f *followedLevel) pointsOf(node int) int64 {
	if domain := f.level.of[node]; domain >= 0 && !f.broken[domain] {
		return 0
	}
	return f.points
}

// reset takes which domains are broken as it is now.
func (f *followedLevel) reset() {
	f.broken = make([]bool, f.level.Len())
	for domain := range f.broken {
		f.broken[domain] = f.level.usedNodes[domain] > 0
	}
	f.turn = f.level.turns
}

// follow changes the sums of the nodes in domains that have turned; it returns false when that may be all of them.
func (f *followedLevel) follow(sums *winnerTree) bool {
	turned, ok := f.level.turnedSince(f.turn)
	for _, domain := range turned {
		broken := f.level.usedNodes[domain] > 0
		if broken == f.broken[domain] {
			continue
		}
		by := f.points
		if f.broken[domain] = broken; !broken {
			by = -by
		}
		for _, node := range f.level.members[domain] {
			if sum := sums.at(node); sum != infeasible {
				sums.set(node, sum+by)
			}
		}
	}
	f.turn = f.level.turns
	return ok
}

// Whole returns a function, valid until the next statement, that says how many of the domains that one of the level is in are
// whole, by level of the tree from the widest to its own: 1 or 0 each.
func (s *Session) Whole(level *Domains) func(domain int) []int {
	levels, _ := s.tree(level.Level)
	slices.Reverse(levels)
	levels = append(levels, level)
	for _, one := range levels {
		one.updateUsed(s.Snapshot)
	}
	return func(domain int) []int {
		whole := make([]int, len(levels))
		for i, one := range levels {
			if one.isWhole(level.members[domain][0]) {
				whole[i] = 1
			}
		}
		return whole
	}
}

// isUsed reports whether a member of a job holds a device of the node, or anything of a node without devices.
func isUsed(dimensions *model.ResourceIndex, node *model.Node) bool {
	devices := false
	for position, offered := range node.Allocatable() {
		if position > model.Unoffered && offered > 0 && isDevice(dimensions.Name(position)) {
			if devices = true; node.Used(position) > 0 {
				return true
			}
		}
	}
	return !devices && slices.ContainsFunc(node.Tasks, func(task *model.Task) bool { return task.Job != model.JobKey{} })
}

// isDevice reports whether what a name stands for is a device: memory in large pages is none, nor are isolated CPUs.
func isDevice(name corev1.ResourceName) bool {
	return strings.Contains(string(name), "/") && name != isolated.Resource
}
