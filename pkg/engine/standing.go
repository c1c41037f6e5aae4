package engine

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file says in which domains members are. It is for what is shown of a job; nothing is decided by it.

// Standing is in which domains of a level the members are that share one.
type Standing struct {
	job     *model.Job
	shared  *model.TopologyConstraint
	domains *Domains
	// in are the domains, in their order; members are those that are in one.
	in      []int
	members []*model.Task
	nodes   []*model.Node
}

// StandingOf returns in which domains those members are that the constraint covers, that have a node and that count; nil when the
// level is not known. It is called between sessions, and what it returns is valid until the next one.
func StandingOf(
	snapshot *model.Snapshot, profile *Profile, cache *Cache, job *model.Job, shared *model.TopologyConstraint, counts func(*model.Task) bool,
) *Standing {
	cache.begin(profile, snapshot)
	snapshot.AssignIndexes()
	domains := cache.domainsOf(snapshot, shared.Level)
	if domains == nil {
		return nil
	}
	s := &Standing{job: job, shared: shared, domains: domains, nodes: snapshot.Nodes}
	seen := map[int]bool{}
	for _, task := range job.Tasks {
		if !task.Status.HasNode() || !shared.Covers(task) || !counts(task) {
			continue
		}
		node := snapshot.Node(task.Node)
		if node == nil {
			continue
		}
		in := domains.ofMember(task, node)
		if in < 0 || in == domains.goneDomain() {
			continue
		}
		s.members = append(s.members, task)
		if !seen[in] {
			seen[in] = true
			s.in = append(s.in, in)
		}
	}
	slices.Sort(s.in)
	return s
}

// Members returns how many members are in a domain.
func (s *Standing) Members() int { return len(s.members) }

// Len returns in how many domains they are.
func (s *Standing) Len() int { return len(s.in) }

// Paths returns the paths of the first of the domains, such as "b1/r3", in natural order; nil when there are none.
func (s *Standing) Paths(most int) (paths []string) {
	for _, in := range s.in[:min(len(s.in), most)] {
		paths = append(paths, s.domains.paths[in])
	}
	return paths
}

// maxRequests is for how many different requests of members Least counts.
const maxRequests = 16

// alike are members with one request.
type alike struct {
	request model.Resources
	members int64
	// slices are how many of them are in each slice, by its number.
	slices map[int]int64
}

// Least returns a lower bound of how many domains the members would need in an empty cluster of these nodes, at most as many as
// they are in. Of the members with one request it takes the domains that hold most by what nodes offer, until these hold as many,
// and as many slices of a size. The bound is the largest of those of all requests: members with other requests take nothing from
// each other, and whether a node is for such pods at all is not asked.
func (s *Standing) Least() (least int) {
	kinds := s.kinds()
	for i := range kinds {
		one := &kinds[i]
		holds := s.domains.holds(s.nodes, one.request)
		least = max(least, fewestFor(holds, one.members, 1))
		sizes := slices.Sorted(maps.Values(one.slices))
		for _, size := range slices.Compact(slices.Clone(sizes)) {
			smaller, _ := slices.BinarySearch(sizes, size)
			least = max(least, fewestFor(holds, int64(len(sizes)-smaller), size))
		}
	}
	return min(least, len(s.in))
}

// kinds returns the members by their requests.
func (s *Standing) kinds() (kinds []alike) {
	indexes := &model.Indexes{}
	if s.shared.SliceSize > 0 {
		indexes = model.Numbered(slices.DeleteFunc(slices.Clone(s.job.Tasks), func(task *model.Task) bool { return !s.shared.Covers(task) }))
	}
	for _, task := range s.members {
		i := slices.IndexFunc(kinds, func(one alike) bool { return one.request.Equal(task.Request) })
		if i < 0 && len(kinds) == maxRequests {
			continue
		}
		if i < 0 {
			i = len(kinds)
			kinds = append(kinds, alike{request: task.Request, slices: map[int]int64{}})
		}
		kinds[i].members++
		if index, ok := indexes.Of(task); ok {
			kinds[i].slices[index/int(s.shared.SliceSize)]++
		}
	}
	return kinds
}

// holds returns how many such requests each domain holds, by what the nodes offer, the most first.
func (d *Domains) holds(nodes []*model.Node, request model.Resources) []int64 {
	holds := make([]int64, len(d.paths))
	for domain, list := range d.members {
		for _, node := range list {
			holds[domain] = min(holds[domain]+nodes[node].Allocatable().Copies(request), model.MaxAmount)
		}
	}
	slices.SortFunc(holds, func(a, b int64) int { return cmp.Compare(b, a) })
	return holds
}

// fewestFor returns how many domains hold so many slices of a size at least; all when they do not.
func fewestFor(holds []int64, count, size int64) (few int) {
	for few < len(holds) && count > 0 {
		count -= holds[few] / size
		few++
	}
	return few
}
