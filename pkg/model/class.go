package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unique"
)

// Class is what decides where and when a job may start, whatever its name: the equivalence class of jobs of which no member
// has a node. Two jobs of one class get the same answer as long as their members depend only on nodes and the capacity on
// them. It is compared in full. The zero Class is that of jobs without a class.
type Class struct {
	// Members are the shapes of the members and, unless Uniform, their number, roles and minima, and the job's topology.
	Members unique.Handle[string]
	// Uniform reports whether the members are interchangeable: all of one shape, without roles and topology. Members is the shape
	// then.
	Uniform bool
	// Terms reports whether members have terms about other pods or objects. A job with terms may wait for another reason than a
	// job without.
	Terms bool
	// MinMember is how many members must start together.
	MinMember int32
	// Queue is the name of the job's queue; zero while there are no queues. It decides which pods may be evicted for the job, and
	// not where it may be placed: what a limit has a part in holds for one job alone.
	Queue unique.Handle[string]
	// Priority is the job's; NeverPreempts reports whether the job may evict nothing.
	Priority      int32
	NeverPreempts bool
}

// ClassOf returns the class of a job with its members, the zero Class when a member is not simply pending. A job whose
// members differ, and of which one has terms about other pods or objects, has no class: its placement depends on names and
// labels.
func ClassOf(job *Job, hasTerms func(*Task) bool) (class Class) {
	if len(job.Tasks) == 0 {
		return class
	}
	first, terms := job.Tasks[0], false
	uniform := len(job.Roles) == 0 && len(job.Topology) == 0
	for _, task := range job.Tasks {
		if task.Status != Pending || task.SchedulingGated || task.Invalid != nil {
			return class
		}
		uniform = uniform && task.Role == "" && task.Shape == first.Shape
		terms = terms || hasTerms(task)
	}
	if terms && !uniform {
		return class
	}
	class = Class{
		Members: first.Shape, Uniform: uniform, Terms: terms, MinMember: job.MinMember, Priority: job.Priority, NeverPreempts: job.NeverPreempts,
	}
	if !uniform {
		class.Members = unique.Make(describeMembers(job))
	}
	return class
}

// Placement returns the part of the class that decides where members may be placed, and whether at all.
func (c Class) Placement() Class {
	return Class{Members: c.Members, Uniform: c.Uniform, Terms: c.Terms, MinMember: c.MinMember}
}

// describeMembers writes the minima of roles, the topology and the members in their order, runs of equal members together.
func describeMembers(job *Job) string {
	var b strings.Builder
	number := func(n int64) { b.WriteString(strconv.FormatInt(n, 10)) }
	for _, role := range job.Roles {
		b.WriteString(strconv.Quote(role.Name))
		number(int64(role.MinMember))
	}
	for _, shared := range job.Topology {
		fmt.Fprintf(&b, "%q %v %q %d %d\n", shared.Level, shared.Preferred, shared.Roles, shared.SliceSize, shared.WaitSeconds)
		if shared.SliceSize > 0 {
			describeIndexes(&b, job, &shared)
		}
	}
	count := int64(0)
	for i, task := range job.Tasks {
		count++
		if i+1 < len(job.Tasks) {
			next := job.Tasks[i+1]
			if next.Shape == task.Shape && next.Role == task.Role && next.Priority == task.Priority {
				continue
			}
		}
		b.WriteByte('\n')
		number(count)
		b.WriteString(strconv.Quote(task.Role))
		number(int64(task.Priority))
		b.WriteByte(' ')
		b.WriteString(task.Shape.Value())
		count = 0
	}
	return b.String()
}

// describeIndexes writes the indexes of the members that an entry with slices covers, in their order; of those that follow each
// other the first.
func describeIndexes(b *strings.Builder, job *Job, shared *TopologyConstraint) {
	members := slices.DeleteFunc(slices.Clone(job.Tasks), func(task *Task) bool { return !shared.Covers(task) })
	indexes, next := Numbered(members), 0
	for i, task := range members {
		index, _ := indexes.Of(task)
		if index != next {
			fmt.Fprintf(b, "%d: %d\n", i, index)
		}
		next = index + 1
	}
}
