package preempt

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/place"
)

// staysNear returns the pods that a plan leaves near members which must be near one: of the pods that satisfy a required
// affinity of a member, the one in each domain that costs most, unless another one there stays in any case.
func (s *search) staysNear() map[*model.Task]bool {
	stays := map[*model.Task]bool{}
	var asked []model.Shape
	for _, member := range s.trial.Members() {
		terms := place.RequiredTerms(member)
		if len(terms) == 0 || slices.Contains(asked, member.Shape) {
			continue
		}
		asked = append(asked, member.Shape)
		var near []*model.Task
		for _, node := range s.session.Snapshot.Nodes {
			for _, task := range node.Tasks {
				if task.Job != s.job.Key && task.Status != model.Releasing && place.Requires(member, task) {
					near = append(near, task)
				}
			}
		}
		s.spend(len(s.session.Snapshot.Nodes) / 8)
		for i := range terms {
			for _, stay := range s.dearestByDomain(near, &terms[i]) { // in any order: they are put in a set
				if stay != nil {
					stays[stay] = true
				}
			}
		}
	}
	return stays
}

// dearestByDomain returns, by the domains of a term, which of the tasks costs most; nil where one of them does not go at all.
func (s *search) dearestByDomain(tasks []*model.Task, term *corev1.PodAffinityTerm) map[string]*model.Task {
	dearest, most := map[string]*model.Task{}, map[string]victimUnit{}
	for _, task := range tasks {
		node := s.session.Snapshot.Node(task.Node)
		if node == nil || node.Object == nil {
			continue
		}
		domain, in := node.Object.Labels[term.TopologyKey]
		from, before := s.pool.of[task], most[domain]
		if before, known := dearest[domain]; !in || known && before == nil {
			continue
		}
		if from == nil {
			dearest[domain] = nil
			continue
		}
		if u := newUnit(from, []*model.Task{task}, !from.singles[task]); dearest[domain] == nil || compareUnits(&u, &before) > 0 {
			dearest[domain], most[domain] = task, u
		}
	}
	return dearest
}
