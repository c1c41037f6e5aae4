package framework

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file keeps members in the domain that they have to share. No configuration may switch that off: a job that says what it
// needs never starts without it.

// unknownLevel refuses a job that names a level which no configuration has; nil when it names none. What is not understood is
// never left out: the job would start where it must not.
func (s *Session) unknownLevel(job *model.Job) *model.Refusal {
	for _, shared := range job.Topology {
		known := s.levels()
		if _, ok := known.labelsOf(shared.Level); ok {
			continue
		}
		names := slices.Sorted(maps.Keys(known))
		return &model.Refusal{Code: model.InvalidGroup, Detail: fmt.Sprintf("topology: there is no level %q; the scheduler knows %s%s",
			model.Brief(shared.Level, maxLevelName), strings.Join(names, ", "), config.DidYouMean(shared.Level, names))}
	}
	return nil
}

// maxLevelName is how much of a name that users wrote a message quotes, in bytes.
const maxLevelName = 63

// domainChecks keep a task in the domains in which members stand that it has to share them with. As long as none stands, it may
// go to any domain.
func (s *Session) domainChecks(task *model.Task) (checks []NodeFilterFunc) {
	job := s.sharing[task.Job]
	if job == nil {
		return nil
	}
	for i := range job.Topology {
		shared := &job.Topology[i]
		if shared.Preferred || !shared.Covers(task) {
			continue
		}
		domains := s.Domains(shared.Level)
		if domains == nil {
			unknown := s.unknownLevel(job)
			return append(checks, func(*model.Node) *model.Refusal { return unknown })
		}
		at := s.sharedDomain(job, shared, domains)
		outside := &model.Refusal{Code: model.NodesFiltered, Detail: "no label of the level " + domains.Level}
		if at >= 0 {
			outside = &model.Refusal{Code: model.NodesFiltered, Detail: "not in " + domains.Name(at) + ", where the other members are"}
		}
		checks = append(checks, func(node *model.Node) *model.Refusal {
			if in := domains.Of(node); in == at && at >= 0 || in >= 0 && at < 0 {
				return nil
			}
			return outside
		})
	}
	return checks
}

// SharedDomain returns the number of the domain in which most of the members stand that share one, the first in order of several;
// -1 when none stands in one. Members that are being deleted do not count.
func (s *Session) SharedDomain(job *model.Job, shared *model.TopologyConstraint) int {
	return s.sharedDomain(job, shared, s.Domains(shared.Level))
}

func (s *Session) sharedDomain(job *model.Job, shared *model.TopologyConstraint, domains *Domains) int {
	if confined := s.Confined(shared); confined >= 0 {
		return confined
	}
	known := s.standing[shared]
	if known == nil {
		known = &memberCount{domains: domains, members: map[int]int{}}
		for _, task := range job.Tasks {
			if shared.Covers(task) {
				known.add(s.Snapshot, task.Placement, 1)
			}
		}
		if s.standing == nil {
			s.standing = map[*model.TopologyConstraint]*memberCount{}
		}
		s.standing[shared] = known
	}
	most := -1
	for domain, members := range known.members {
		if most < 0 || members > known.members[most] || members == known.members[most] && domain < most {
			most = domain
		}
	}
	return most
}

// memberCount is how many members that share a domain stand in each one.
type memberCount struct {
	domains *Domains
	members map[int]int
}

func (c *memberCount) add(snapshot *model.Snapshot, at model.Placement, by int) {
	if !at.Status.HasNode() || at.Status == model.Releasing {
		return
	}
	node := snapshot.Node(at.Node)
	if node == nil || c.domains.Of(node) < 0 {
		return
	}
	domain := c.domains.Of(node)
	if c.members[domain] += by; c.members[domain] == 0 {
		delete(c.members, domain)
	}
}

// moveShared follows the move of a task that shares domains.
func (s *Session) moveShared(task *model.Task, before model.Placement) {
	job := s.sharing[task.Job]
	if job == nil {
		return
	}
	for i := range job.Topology {
		if known := s.standing[&job.Topology[i]]; known != nil && job.Topology[i].Covers(task) {
			known.add(s.Snapshot, before, -1)
			known.add(s.Snapshot, task.Placement, 1)
		}
	}
}

// sharingIn returns the jobs of which members share domains; nil when there are none.
func sharingIn(snapshot *model.Snapshot) (jobs map[model.JobKey]*model.Job) {
	for _, job := range snapshot.Jobs {
		if len(job.Topology) == 0 {
			continue
		}
		if jobs == nil {
			jobs = map[model.JobKey]*model.Job{}
		}
		jobs[job.Key] = job
	}
	return jobs
}
