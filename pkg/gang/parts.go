package gang

import (
	"iter"
	"slices"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is about roles whose members are made only when others run, or have succeeded: a launcher that waits for its workers,
// a Job that depends on another. Before its first member exists such a role counts nothing, or the gang would wait for what waits
// for it. From then on it counts in full: its members start together, once the gang has all else that it needs.
//
// A gang with such roles has parts: what is made first, and each of these roles. Each part starts as a whole. A JobSet with a
// step `prepare` of 2 pods and a step `work` of 3, which begins when `prepare` is ready, needs
//
//	before the first pod of `work` exists            2: `work` counts nothing
//	from its first pod on, while `prepare` is there  5; `work` has begun when 3 of its pods have nodes
//	when a pod of `prepare` is lost meanwhile        2: it is replaced first, `work` waits with the minimum 0
//	when the pods of `prepare` have succeeded, gone  3: the status of the JobSet says that they have
//
// Invariant: no member of a late role starts before all of its members exist that the role needs.

// withLate leaves out of the minima the late roles without a member, and marks those that have not begun.
func withLate(minima model.Minima, members []*model.Task) model.Minima {
	if !slices.ContainsFunc(minima.Roles, madeLater) {
		return minima
	}
	counted := model.Minima{MinMember: minima.MinMember}
	for _, role := range minima.Roles {
		member := func(task *model.Task) bool {
			return task.Role == role.Name && task.Status != model.Failed && task.Status != model.Releasing
		}
		if role.MadeLater && !slices.ContainsFunc(members, member) {
			counted.MinMember = max(1, counted.MinMember-role.MinMember)
			continue
		}
		if role.MadeLater { // it has begun when all that it needs have a node, or a container of it has run
			part := later(role, members)
			role.NotBegun = !part.Whole && part.FirstUnmetMinimum((*model.Task).CountsTowardMinimum) != nil
		}
		counted.Roles = append(counted.Roles, role)
	}
	return counted
}

// Parts returns the parts of a gang, the first one first, and then each role that is made later and has a member. A gang without
// such roles is its only part.
func Parts(all *model.Part) iter.Seq[model.Part] {
	return func(yield func(model.Part) bool) {
		first := *all
		if slices.ContainsFunc(all.Roles, madeLater) {
			first.Minima, first.Tasks = First(all.Minima, all.Tasks)
			first.BelowMinimum = IsBelow(&first.Minima, first.Tasks)
		}
		if !yield(first) {
			return
		}
		for _, role := range all.Roles {
			if role.MadeLater && !yield(later(role, all.Tasks)) {
				return
			}
		}
	}
}

// later returns the part of a role that is made later.
func later(role model.Role, members []*model.Task) model.Part {
	part := model.Part{Role: role.Name, Minima: model.Minima{MinMember: role.MinMember}}
	part.Tasks = selected(members, func(task *model.Task) bool { return task.Role == role.Name })
	part.Whole = hasStarted(part.Tasks) || slices.ContainsFunc(part.Tasks, model.Succeeded.Is)
	part.BelowMinimum = IsBelow(&part.Minima, part.Tasks)
	return part
}

// First returns the minima and the members of what is made first: the same when nothing is made later.
func First(minima model.Minima, members []*model.Task) (model.Minima, []*model.Task) {
	return without(minima, members, madeLater)
}

func notBegun(role model.Role) bool  { return role.NotBegun }
func madeLater(role model.Role) bool { return role.MadeLater }

// without returns the minima without such roles, and the members without those in them.
func without(minima model.Minima, members []*model.Task, is func(model.Role) bool) (model.Minima, []*model.Task) {
	if !slices.ContainsFunc(minima.Roles, is) {
		return minima, members
	}
	rest := model.Minima{MinMember: minima.MinMember}
	for _, role := range minima.Roles {
		if is(role) {
			rest.MinMember = max(1, rest.MinMember-role.MinMember)
		} else {
			rest.Roles = append(rest.Roles, role)
		}
	}
	return rest, selected(members, func(task *model.Task) bool { return !isIn(minima.Roles, task, is) })
}

// isIn reports whether a task is in such a role.
func isIn(roles []model.Role, task *model.Task, is func(model.Role) bool) bool {
	return slices.ContainsFunc(roles, func(role model.Role) bool { return role.Name == task.Role && is(role) })
}

func selected(tasks []*model.Task, is func(*model.Task) bool) []*model.Task {
	return slices.DeleteFunc(slices.Clone(tasks), func(task *model.Task) bool { return !is(task) })
}
