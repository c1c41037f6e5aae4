package allocate

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/place"
)

// This file starts replacements of members that a gang has lost where there is no capacity for all of them. Which of them start
// must not hang on how many exist when a cycle looks: one that exists alone starts alone (gang.Of), and so does each of
// several.

// replaceSome places as many as fit of the members that a gang lacks which was whole, one after the other, each as if it existed
// alone. Of what its group needs the gang goes on to be short, so that later actions evict and reserve for the others. Members
// whose domain is yet to be chosen start together: a single one might choose a domain in which the others have no place. What a
// raised minimum asks for starts as a whole, too.
func (r *cycle) replaceSome(job *model.Job) {
	if started := &job.StartedMinima; started.MinMember > 0 && started.FirstUnmet(job.Tasks, framework.Ready.Counts) == nil {
		return // it has lost none: its minimum was raised
	}
	if r.session.Refusal(job) == nil || !job.Whole || job.Count(place.IsSettledOnNode) == 0 || len(job.Pending()) < 2 {
		return
	}
	ask := r.session.Ask(job, model.Idle)
	if slices.ContainsFunc(job.Pending(), func(task *model.Task) bool { return !place.HasItsDomains(ask, task) }) {
		return
	}
	for slices.ContainsFunc(lackingRoles(job), func(role string) bool { return r.replaceOne(job, role) }) {
	}
}

// lackingRoles returns the roles that have fewer members with capacity than they need, and an empty one when the job lacks
// members that may be of any.
func lackingRoles(job *model.Job) (roles []string) {
	short := int(job.MinMember) - job.Count(framework.Ready.Counts)
	for _, role := range job.Roles {
		if lacks := int(role.MinMember) - countOf(job, role.Name); !role.NotBegun && lacks > 0 {
			roles, short = append(roles, role.Name), short-lacks
		}
	}
	if short > 0 {
		roles = append(roles, "")
	}
	return roles
}

// countOf returns how many members of a role have capacity.
func countOf(job *model.Job, role string) int {
	return job.Count(func(task *model.Task) bool { return task.Role == role && framework.Ready.Counts(task) })
}

// replaceOne places one more member of a role, or of any if that is empty, and reports whether it did. Where pods may be evicted
// for the others it is the one that is the hardest to place.
func (r *cycle) replaceOne(job *model.Job, role string) bool {
	variant := withOneMore(job, role)
	if len(variant.Pending()) == 0 || r.session.ValidateJob(variant) != nil {
		return false
	}
	first := variant
	if r.session.MayPreempt(job) {
		first = job
	}
	trial := place.New(r.session.Ask(first, model.Idle), r.largest, &r.budget)
	return r.place(variant, trial.For(r.session.Ask(variant, model.Idle))) == nil
}

// withOneMore returns the job as one that needs no more than what it has and one more member of a role, or of any if that is
// empty.
func withOneMore(job *model.Job, role string) *model.Job {
	return job.WithMinima(int32(job.Count(framework.Ready.Counts))+1, func(of model.Role) int32 {
		switch has := int32(countOf(job, of.Name)); {
		case of.NotBegun:
			return 0
		case of.Name == role:
			return has + 1
		default:
			return min(of.MinMember, has)
		}
	})
}
