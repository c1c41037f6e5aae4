package model

import (
	"slices"
	"strings"
)

// TopologyConstraint says that members of a job share a domain of nodes, such as a rack.
type TopologyConstraint struct {
	// Level is the name of a level, or that of a node label, see LabelLevel.
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

// Nests reports whether the slices of two entries fit into each other: the sizes divide, or no member is in both.
func (c *TopologyConstraint) Nests(other *TopologyConstraint) bool {
	if c.SliceSize == 0 || other.SliceSize == 0 || c.SliceSize%other.SliceSize == 0 || other.SliceSize%c.SliceSize == 0 {
		return true
	}
	return !c.HasMembersOf(other)
}

// HasMembersOf reports whether some members may be covered by both entries.
func (c *TopologyConstraint) HasMembersOf(other *TopologyConstraint) bool {
	return c.Roles == nil || other.Roles == nil || slices.ContainsFunc(c.Roles, func(role string) bool { return slices.Contains(other.Roles, role) })
}

// IncludesAll reports whether members that share a domain by another entry all share one by this entry, too.
func (c *TopologyConstraint) IncludesAll(other *TopologyConstraint) bool {
	if c.Preferred || c.SliceSize > 0 && (other.SliceSize == 0 || c.SliceSize < other.SliceSize) {
		return false
	}
	return c.Roles == nil || other.Roles != nil && !slices.ContainsFunc(other.Roles, func(role string) bool { return !slices.Contains(c.Roles, role) })
}

// labelPrefix is in front of the key of a label that could be the name of a level.
const labelPrefix = "label:"

// LabelLevel returns the level whose domains are the nodes with the same value of a label, by its key: the key itself if it has a
// prefix, which no name of a level has.
func LabelLevel(key string) string {
	if strings.Contains(key, "/") {
		return key
	}
	return labelPrefix + key
}

// LevelLabel returns the key of the label whose values are the domains of a level, which may be no valid one; ok is false when
// the level is named.
func LevelLabel(level string) (key string, ok bool) {
	if key, ok = strings.CutPrefix(level, labelPrefix); ok {
		return key, true
	}
	return level, strings.Contains(level, "/")
}
