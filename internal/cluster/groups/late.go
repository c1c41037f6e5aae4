package groups

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is about roles whose members are made only when others run, or have succeeded: a launcher that waits for its workers,
// a Job that depends on another. Before its first member exists such a role counts nothing, or the gang would wait for what waits
// for it. From then on it counts in full: its members start together, once the gang has all else that it needs.
//
// Invariant: no member of a late role starts before all of its members exist that the role needs.

// countLate leaves out of the minima the late roles without a member, and marks as late only those of which none has a node.
func countLate(job *model.Job) {
	var counted []model.Role
	for _, role := range job.Roles {
		member := func(task *model.Task) bool { return task.Role == role.Name && task.Status != model.Failed }
		if role.Late && !slices.ContainsFunc(job.Tasks, member) {
			job.MinMember = max(1, job.MinMember-role.MinMember)
			continue
		}
		role.MadeLater = role.Late
		begun := func(task *model.Task) bool {
			return member(task) && (hasNode(task) || task.Status.CountsTowardMinimum())
		}
		role.Late = role.Late && !slices.ContainsFunc(job.Tasks, begun)
		counted = append(counted, role)
	}
	job.Roles = counted
}

// countDone counts of roles that are done only the members that are there: those that have succeeded may be deleted, are not
// replaced, and must not be waited for. A role with a member that has not ended is not done: it has begun again.
func countDone(job *model.Job, done []string) {
	if len(done) == 0 {
		return
	}
	var counted []model.Role
	for _, role := range job.Roles {
		lives := func(task *model.Task) bool {
			return task.Role == role.Name && task.Status != model.Succeeded && task.Status != model.Failed
		}
		if slices.Contains(done, role.Name) && !slices.ContainsFunc(job.Tasks, lives) {
			has := int32(job.Count(func(task *model.Task) bool { return task.Role == role.Name && task.Status == model.Succeeded }))
			job.MinMember = max(1, job.MinMember-max(0, role.MinMember-has))
			if role.MinMember = min(role.MinMember, has); has == 0 {
				continue
			}
		}
		counted = append(counted, role)
	}
	job.Roles = counted
}

// countLeft lets no more members be needed than have still to succeed, beside those that have and are there: others may be
// deleted, and are not replaced. Those of an object of the same name before it, whose UID their controller has, count for none of
// these. left is zero when the object does not say.
func countLeft(job *model.Job, left int32) {
	if left == 0 {
		return
	}
	has, before := int32(0), int32(0)
	for _, task := range job.Tasks {
		switch controller := metav1.GetControllerOfNoCopy(task.Pod); {
		case task.Status != model.Succeeded:
		case controller == nil || controller.UID == job.UID:
			has++
		default:
			before++
		}
	}
	job.MinMember = min(job.MinMember, left+has) + before
}

// WithoutLate returns the job without its late roles: itself when it has none.
func WithoutLate(job *model.Job) *model.Job {
	return without(job, func(role model.Role) bool { return role.Late })
}

// First returns the job without the roles that are made later, begun or not: what was started together at first. What is made
// later and has begun in part is completed, and nothing is undone for it.
func First(job *model.Job) *model.Job {
	return without(job, func(role model.Role) bool { return role.MadeLater })
}

func without(job *model.Job, is func(model.Role) bool) *model.Job {
	if !slices.ContainsFunc(job.Roles, is) {
		return job
	}
	begun := *job
	begun.Roles = nil
	for _, role := range job.Roles {
		if is(role) {
			begun.MinMember = max(1, begun.MinMember-role.MinMember)
		} else {
			begun.Roles = append(begun.Roles, role)
		}
	}
	return &begun
}

// holdLate lets the members of late roles wait, and the minima do without them.
func holdLate(job *model.Job) {
	job.MinMember = WithoutLate(job).MinMember
	job.Roles = slices.Clone(job.Roles)
	for i := range job.Roles {
		if job.Roles[i].Late {
			job.Roles[i].MinMember = 0
		}
	}
}

func isLate(role model.Role) bool { return role.Late }

// HasLate reports whether members of the group are made only when others run.
func (s *Spec) HasLate() bool { return slices.ContainsFunc(s.Roles, isLate) }
