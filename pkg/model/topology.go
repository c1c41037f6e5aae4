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
	// SliceSize is how many of them share a domain, by their indexes; 0 is all of them.
	SliceSize int32
	// WaitSeconds is for how long the job waits for one domain that it prefers.
	WaitSeconds int32
}

// Covers reports whether the task is one of the members that share the domain.
func (c *TopologyConstraint) Covers(task *Task) bool {
	return c.Roles == nil || slices.Contains(c.Roles, task.Role)
}
