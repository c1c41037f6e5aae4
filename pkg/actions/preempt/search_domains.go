package preempt

import (
	"cmp"
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// domainVictims are the pods in one domain that may be evicted.
type domainVictims struct {
	domain int
	// victims are in the order of their sources.
	victims []domainVictim
	// least is a lower bound of what a plan costs by which the job starts in this domain.
	least cost
}

// domainVictim is one of them.
type domainVictim struct {
	task *model.Task
	from *victimJob
	node *model.Node
	// priority is the lowest that the highest of a plan with it can be.
	priority int32
}

// searchDomains looks for a plan in each domain of a level in which the job could start, from the one that can cost least on,
// until no other can cost less than the best plan; all is false where the budget is used up before. start is the domain of the
// plan.
//
// Invariant T2: each unit of the plan has a pod in that domain.
func (s *search) searchDomains(shared *model.TopologyConstraint) (best *plan, start engine.Start, all bool) {
	level := s.session.Domains(shared.Level)
	domains := s.possibleDomains(level)
	if len(domains) == 0 {
		return nil, start, true
	}
	inside := s.startingIn(engine.Start{Shared: shared, Domain: domains[0].domain})
	inside.compareMembers()
	all = true
	for i := range domains {
		in := &domains[i]
		if best != nil {
			if least := best.cost(); in.least.compare(&least) >= 0 {
				break
			}
		}
		if all = i == 0 || s.budget > 0; !all {
			break
		}
		one := inside.startingIn(engine.Start{Shared: shared, Domain: in.domain})
		one.pool, one.nodes = s.pool.inDomain(in), level.Nodes(in.domain)
		if found := one.findOnNodes(); found.isCheaperThan(best) {
			best, start = found, one.ask.As.Start
		}
	}
	if best != nil {
		for i := range best.units {
			s.touchedBy = append(s.touchedBy, s.pool.of[best.units[i].tasks[0]])
		}
	}
	return best, start, all
}

// startingIn returns the search for a start in that domain.
func (s *search) startingIn(start engine.Start) *search {
	inside, as := *s, s.ask.As
	as.Start = start
	inside.ask = s.ask.Supposing(as)
	inside.trial = s.trial.For(inside.ask)
	return &inside
}

// possibleDomains returns the domains of a level in which the job could start if all victims there left, those first that can
// cost least.
func (s *search) possibleDomains(level *engine.Domains) []domainVictims {
	domains := make([]domainVictims, level.Len())
	for i := range domains {
		domains[i].domain = i
	}
	for _, victim := range s.pool.victimsOn(s.session.Snapshot) {
		if domain := level.Of(victim.node); domain >= 0 {
			domains[domain].victims = append(domains[domain].victims, victim)
		}
	}
	s.spend(len(s.session.Snapshot.Nodes) / 8)
	needs := s.domainNeeds()
	possible := domains[:0]
	for _, in := range domains {
		var starts bool
		if in.least, starts = s.leastCost(&in, level.Nodes(in.domain), needs); starts {
			possible = append(possible, in)
		}
	}
	slices.SortStableFunc(possible, func(a, b domainVictims) int { return a.least.compare(&b.least) })
	return possible
}

// victimsOn returns the pods of the pool whose nodes are there, in the order of their sources.
func (p *candidateVictims) victimsOn(snapshot *model.Snapshot) (victims []domainVictim) {
	for _, from := range p.sources {
		for _, task := range from.tasks {
			if node := snapshot.Node(task.Node); node != nil {
				victims = append(victims, domainVictim{task: task, from: from, node: node, priority: from.priorityOf(task)})
			}
		}
	}
	return victims
}

// priorityOf returns the lowest priority that a unit with the task has.
func (s *victimJob) priorityOf(task *model.Task) int32 {
	if s.singles[task] {
		return s.priorityAlone(task)
	}
	return s.priority
}

// inDomain returns the pool of what can leave in one domain: single members there, and whole jobs with members there.
func (p *candidateVictims) inDomain(in *domainVictims) *candidateVictims {
	left := &candidateVictims{claim: p.claim}
	for i := 0; i < len(in.victims); {
		from, first := in.victims[i].from, i
		for i < len(in.victims) && in.victims[i].from == from {
			i++
		}
		if i-first < len(from.tasks) {
			from = from.partOf(in.victims[first:i])
		}
		left.sources = append(left.sources, from)
	}
	left.index()
	return left
}

// partOf returns the source of which single members leave only where these are.
func (s *victimJob) partOf(these []domainVictim) *victimJob {
	part := *s
	part.singles, part.tasks = map[*model.Task]bool{}, nil
	for i := range these {
		if task := these[i].task; s.singles[task] {
			part.singles[task] = true
			part.tasks = append(part.tasks, task)
		}
	}
	if s.wholeUnit {
		part.tasks = s.tasks
	}
	return &part
}

// eligible returns the nodes that are searched and could run the task were they empty, by name.
func (s *search) eligible(task *model.Task) []*model.Node {
	all := s.session.EligibleNodes(task)
	if s.nodes == nil {
		return all
	}
	var some []*model.Node
	for _, index := range s.nodes {
		at, is := slices.BinarySearchFunc(all, index, func(node *model.Node, index int) int { return cmp.Compare(node.Index, index) })
		if is {
			some = append(some, all[at])
		}
	}
	return some
}

// bestNodeFor returns the best of the nodes that are searched; nil when the task has no place on any.
func (s *search) bestNodeFor(task *model.Task) *model.Node {
	if s.nodes == nil {
		return s.ask.Best(task, nil)
	}
	return s.ask.BestOf(task, s.nodes)
}
