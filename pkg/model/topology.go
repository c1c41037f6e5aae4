package model

import "slices"

// TopologyConstraint says that members of a job share a domain of nodes, such as a rack.
type TopologyConstraint struct {
	// Level is the name of a level, or the key of a node label.
	Level string
	// Preferred reports that they may be in several domains if none has capacity for them.
	Preferred bool
	// Roles are those of the members, sorted; nil when it is all members.
	Roles []string
}

// Covers reports whether the task is one of the members that share the domain.
func (c *TopologyConstraint) Covers(task *Task) bool {
	return c.Roles == nil || slices.Contains(c.Roles, task.Role)
}
