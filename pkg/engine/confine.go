package engine

import "github.com/tutti-sched/tutti/pkg/model"

// confinement is the domain in which members have to start that share one, as long as none of them has a node; the zero value is
// none.
type confinement struct {
	shared *model.TopologyConstraint
	domain int
}

// Confine keeps the members that share a domain in this one until Unconfine, whichever domain they would choose: a plan of
// victims in one domain is for a start in that one. The number is that of Domains for the level.
func (s *Session) Confine(shared *model.TopologyConstraint, domain int) {
	s.confined = confinement{shared: shared, domain: domain}
}

// Unconfine ends what Confine began.
func (s *Session) Unconfine() { s.confined = confinement{} }

// Confined returns the domain in which Confine keeps members that share one; -1 when it keeps them in none.
func (s *Session) Confined(shared *model.TopologyConstraint) int {
	if s.confined.shared == shared {
		return s.confined.domain
	}
	return -1
}

// confinedChecks returns how many checks of domainChecks hold on all nodes of the domain in which the task is confined.
func (s *Session) confinedChecks(task *model.Task) int {
	if job := s.sharing[task.Job]; job != nil {
		for i := range job.Topology {
			if s.confined.shared == &job.Topology[i] && job.Topology[i].Covers(task) {
				return 1
			}
		}
	}
	return 0
}
