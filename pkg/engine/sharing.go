package engine

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file keeps members in the domain that they have to share. No configuration may switch that off: a job that says what it
// needs never starts without it.

// jobDomains are the members that share domains.
type jobDomains struct {
	// jobs have members that share domains, by key; nil when there are none.
	jobs map[model.JobKey]*model.Job
	// sharers are the members that entries of topologies cover, for those that were asked for.
	sharers map[*model.TopologyConstraint]*sharers
}

// invalidTopology refuses a job that names a level which no configuration has, or slices that do not fit into each other; nil
// when all is well. What is not understood is never left out: the job would start where it must not.
func (s *Session) invalidTopology(job *model.Job) *model.Refusal {
	for i := range job.Topology {
		shared := &job.Topology[i]
		if _, ok := s.cache.labelsOf(shared.Level); !ok {
			names := slices.Sorted(maps.Keys(s.cache.levelsKnown()))
			return &model.Refusal{Code: model.InvalidGroup, Detail: fmt.Sprintf("topology: there is no level %q; the scheduler knows %s%s",
				model.Brief(shared.Level, maxLevelName), strings.Join(names, ", "), config.DidYouMean(shared.Level, names))}
		}
		for j := range job.Topology[:i] {
			if other := &job.Topology[j]; !shared.Nests(other) {
				return &model.Refusal{Code: model.InvalidGroup, Detail: fmt.Sprintf("topology: slices of %d in one %s and of %d in one %s: one size must be a multiple of the other",
					other.SliceSize, model.Brief(other.Level, maxLevelName), shared.SliceSize, model.Brief(shared.Level, maxLevelName))}
			}
		}
	}
	return nil
}

// maxLevelName is how much of a name that users wrote a message quotes, in bytes.
const maxLevelName = 63

// domainChecks keep a task in the domains in which members stand that it has to share them with. As long as none stands, it may
// go to any domain.
func (a *Ask) domainChecks(task *model.Task) (checks []framework.NodeFilterFunc) {
	s, lostMarks := a.session, a.As.LostMarks
	job := s.domains.jobs[task.Job]
	if job == nil {
		return nil
	}
	for i := range job.Topology {
		shared := &job.Topology[i]
		if shared.Preferred || !shared.Covers(task) {
			continue
		}
		members := s.sharers(job, shared)
		if members.invalid != nil {
			return append(checks, func(*model.Node) *model.Refusal { return members.invalid })
		}
		slice := members.slice(task)
		at, domains := a.SharedDomain(shared, slice), members.domains
		var outside *model.Refusal // made once a node needs it
		checks = append(checks, func(node *model.Node) *model.Refusal {
			if in := domains.Of(node); in == at && at >= 0 || in >= 0 && at < 0 || in < 0 && lostMarks && s.isKeptFor(task, job, node) {
				return nil
			}
			if outside == nil {
				outside = members.outside(at, slice)
			}
			return outside
		})
	}
	return checks
}

// outside is the refusal of a node that is not in the domain in which members of a slice stand, -1 where none does.
func (m *sharers) outside(at, slice int) *model.Refusal {
	refusal := &model.Refusal{Code: model.NodesFiltered, Detail: "no label of the level " + m.domains.Level}
	switch {
	case at >= 0 && m.indexes != nil:
		refusal.Detail = fmt.Sprintf("not in %s, where the other members of slice %d are", m.domains.Name(at), slice)
	case at >= 0:
		refusal.Detail = "not in " + m.domains.Name(at) + ", where the other members are"
	}
	return refusal
}

// NamesLevels reports whether the task's job names levels of a topology.
func (s *Session) NamesLevels(task *model.Task) bool { return s.domains.jobs[task.Job] != nil }

// isKeptFor reports whether the node is nominated to the task, or reserved for its job.
func (s *Session) isKeptFor(task *model.Task, job *model.Job, node *model.Node) bool {
	if task.Nominated == node.Name {
		return true
	}
	held, _ := s.Reservation(job)
	return held != nil && slices.ContainsFunc(held.Nodes, func(reserved model.ReservedNode) bool { return reserved.Node == node.Name })
}

// startChecks returns how many of domainChecks hold on all nodes of the domain in which the task is supposed to start.
func (a *Ask) startChecks(task *model.Task) int {
	if job := a.session.domains.jobs[task.Job]; job != nil {
		for i := range job.Topology {
			if a.As.Start.Shared == &job.Topology[i] && job.Topology[i].Covers(task) {
				return 1
			}
		}
	}
	return 0
}

// SharedDomain returns the number of the domain in which most of the members stand that share one, the first in order of several;
// -1 when none stands in one, and where the level is unknown. slice is which of the members are meant, 0 when they are in no
// slices. Members that are being deleted do not count; a member whose eviction the API server has not accepted yet does, since it
// stays if the eviction is refused.
//
// Where entries contradict each other, as after an edit, the one with the fewest domains decides first: those of the others are
// looked for inside of its domain.
func (a Ask) SharedDomain(shared *model.TopologyConstraint, slice int) int {
	s, job := a.session, a.Job
	if a.As.Start.Shared == shared {
		return a.As.Start.Domain
	}
	members := s.sharers(job, shared)
	if members.invalid != nil {
		return -1
	}
	var around []settledDomain
	for i := range job.Topology {
		wider := &job.Topology[i]
		if wider == shared || !wider.IncludesAll(shared) {
			continue
		}
		of := s.sharers(job, wider)
		if of.invalid != nil || of.domains.Len() >= members.domains.Len() {
			continue
		}
		if at := a.SharedDomain(wider, of.slice(members.first[slice])); at >= 0 {
			around = append(around, settledDomain{of.domains, at})
		}
	}
	return members.domain(slice, around)
}

// settledDomain is a domain in which members stand.
type settledDomain struct {
	domains *Domains
	at      int
}

// meets reports whether any node of a domain of another level is in this one; one whose labels are gone meets all.
func (d settledDomain) meets(level *Domains, domain int) bool {
	return domain == level.goneDomain() || d.at == d.domains.goneDomain() || slices.ContainsFunc(level.members[domain], func(node int) bool { return int(d.domains.of[node]) == d.at })
}

// Index returns the index of a task among the members that an entry with slices covers; ok is false for a task that has none, and
// where the entry has no slices.
func (s *Session) Index(job *model.Job, shared *model.TopologyConstraint, task *model.Task) (index int, ok bool) {
	members := s.sharers(job, shared)
	if members.indexes == nil {
		return 0, false
	}
	return members.indexes.Of(task)
}

// InvalidSlices returns why no slices can be formed of the members; nil when they can, and when the entry has none.
func (s *Session) InvalidSlices(job *model.Job, shared *model.TopologyConstraint) *model.Refusal {
	return s.sharers(job, shared).invalid
}

// sharers are the members of a job that an entry of its topology covers.
type sharers struct {
	// invalid is why no domain is known for them: the level is unknown, or they cannot be numbered; nil otherwise.
	invalid *model.Refusal
	domains *Domains
	// indexes are those of the members, nil where all of them share one domain; size is how many a slice has.
	indexes *model.Indexes
	size    int
	// first is the first member of each slice: entries for other members number theirs in another way.
	first map[int]*model.Task
	// standing is how many members stand in each domain, by slice.
	standing map[int]map[int]int
}

// sharers returns the members that an entry covers, as the session stands.
func (s *Session) sharers(job *model.Job, shared *model.TopologyConstraint) *sharers {
	known := s.domains.sharers[shared]
	if known != nil {
		return known
	}
	known = &sharers{domains: s.Domains(shared.Level), first: map[int]*model.Task{}, standing: map[int]map[int]int{}}
	if s.domains.sharers == nil {
		s.domains.sharers = map[*model.TopologyConstraint]*sharers{}
	}
	s.domains.sharers[shared] = known
	if known.domains == nil {
		known.invalid = s.invalidTopology(job)
		return known
	}
	members := slices.DeleteFunc(slices.Clone(job.Tasks), func(task *model.Task) bool { return !shared.Covers(task) })
	if shared.SliceSize > 0 {
		known.indexes, known.size = model.Numbered(members), int(shared.SliceSize)
		if known.invalid = known.indexes.Invalid; known.invalid == nil && known.indexes.Derived {
			known.invalid = numberedTwice(job, shared)
		}
	}
	for _, task := range members {
		if slice := known.slice(task); known.first[slice] == nil {
			known.first[slice] = task
		}
		known.add(s.Snapshot, task, task.Placement, 1)
	}
	return known
}

// numberedTwice refuses members without an index in slices of two entries for different roles: each would give them another
// index, and one is written on the pod; nil when all is well.
func numberedTwice(job *model.Job, shared *model.TopologyConstraint) *model.Refusal {
	for i := range job.Topology {
		other := &job.Topology[i]
		if other.SliceSize > 0 && other.HasMembersOf(shared) && !slices.Equal(other.Roles, shared.Roles) {
			return &model.Refusal{Code: model.InvalidGroup, Detail: fmt.Sprintf(
				"topology: members are in slices of %d in one %s and of %d in one %s; give these entries the same roles, or all pods the label %s",
				shared.SliceSize, model.Brief(shared.Level, maxLevelName), other.SliceSize, model.Brief(other.Level, maxLevelName), model.LabelIndex)}
		}
	}
	return nil
}

// slice returns the number of the task's slice; 0 where all members share one domain, -1 for a task that has no index.
func (m *sharers) slice(task *model.Task) int {
	if m.indexes == nil {
		return 0
	}
	if index, ok := m.indexes.Of(task); ok {
		return index / m.size
	}
	return -1
}

// domain returns the domain in which most members of the slice stand, of those that meet others; -1 when none does.
func (m *sharers) domain(slice int, around []settledDomain) int {
	most, standing := -1, m.standing[slice]
	for domain, members := range standing {
		better := most < 0 || members > standing[most] || members == standing[most] && domain < most
		if better && !slices.ContainsFunc(around, func(other settledDomain) bool { return !other.meets(m.domains, domain) }) {
			most = domain
		}
	}
	return most
}

// add counts a member that stands at a place, or no longer does.
func (m *sharers) add(snapshot *model.Snapshot, task *model.Task, at model.Placement, by int) {
	if !at.Status.HasNode() || task.Deleted() { // also with a grace so long that it counts as running
		return
	}
	node := snapshot.Node(at.Node)
	if node == nil {
		return
	}
	domain, slice := m.domains.ofMember(task, node), m.slice(task)
	if domain < 0 {
		return
	}
	if m.standing[slice] == nil {
		m.standing[slice] = map[int]int{}
	}
	if m.standing[slice][domain] += by; m.standing[slice][domain] == 0 {
		delete(m.standing[slice], domain)
	}
}

// placeOf returns the annotations that say in which domains a placed task is, and in which slice; nil where its job has no
// topology.
func (s *Session) placeOf(task *model.Task) map[string]string {
	job := s.domains.jobs[task.Job]
	if job == nil {
		return nil
	}
	place := map[string]string{}
	if domains := s.domainsOf(s.Snapshot.Node(task.Node)); domains != "" {
		place[model.AnnotationDomain] = domains
	}
	smallest := 0
	for i := range job.Topology {
		shared := &job.Topology[i]
		if shared.SliceSize == 0 || !shared.Covers(task) || smallest > 0 && int(shared.SliceSize) >= smallest {
			continue
		}
		members := s.sharers(job, shared)
		if slice := members.slice(task); slice >= 0 && members.indexes != nil {
			index, _ := members.indexes.Of(task)
			place[model.AnnotationSlice], place[model.LabelIndex] = strconv.Itoa(slice), strconv.Itoa(index)
			smallest = members.size
		}
	}
	return place
}

// domainsOf returns the node's domain in each topology of the configuration, as fabric=b1/r3,nvlink=c7.
func (s *Session) domainsOf(node *model.Node) string {
	var buffer [128]byte
	all := buffer[:0]
	for _, tree := range s.profile.Topologies {
		for _, level := range slices.Backward(tree.Levels) {
			domains := s.Domains(level.Name)
			at := domains.Of(node)
			if at < 0 {
				continue
			}
			if len(all) > 0 {
				all = append(all, ',')
			}
			all = append(append(append(all, tree.Name...), '='), domains.paths[at]...)
			break
		}
	}
	return string(all)
}

// moveShared follows the move of a task that shares domains.
func (s *Session) moveShared(task *model.Task, before model.Placement) {
	job := s.domains.jobs[task.Job]
	if job == nil {
		return
	}
	for i := range job.Topology {
		if known := s.domains.sharers[&job.Topology[i]]; known != nil && known.domains != nil && job.Topology[i].Covers(task) {
			known.add(s.Snapshot, task, before, -1)
			known.add(s.Snapshot, task, task.Placement, 1)
		}
	}
}

// sharingIn returns the jobs of which members share domains; nil when there are none.
func sharingIn(snapshot *model.Snapshot) (jobs map[model.JobKey]*model.Job) {
	shares := func(job *model.Job) bool { return len(job.Topology) > 0 }
	count := 0
	for _, job := range snapshot.Jobs {
		if shares(job) {
			count++
		}
	}
	if count == 0 {
		return nil
	}
	jobs = make(map[model.JobKey]*model.Job, count)
	for _, job := range snapshot.Jobs {
		if shares(job) {
			jobs[job.Key] = job
		}
	}
	return jobs
}
