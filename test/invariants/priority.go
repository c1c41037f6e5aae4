package invariants

import (
	"slices"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// Standing is how a member counts for the priority of its gang: one that counts more comes before all that count less.
type Standing int

// The standings, each counting more than the next.
const (
	Done    Standing = iota // has succeeded, and needs no more capacity
	Holds                   // holds capacity
	Used                    // is given capacity by the decision that is judged
	Waiting                 // waits without scheduling gates
)

// Ranked is a member as far as the priority of its gang goes.
type Ranked struct {
	Standing Standing
	Role     string
	Priority int32
}

// PriorityOf returns the highest priority at which the members are enough for the gang: those of a standing count only if the
// ones that count more are not enough, and are all of that priority or above. It is the lowest of all when they are not
// enough, and zero without members that live; so it is where group is nil, since what the job needs is not known.
func PriorityOf(group *v1alpha1.PodGroup, members []Ranked) int32 {
	var priorities []int32
	for _, member := range members {
		if member.Standing != Done {
			priorities = append(priorities, member.Priority)
		}
	}
	if len(priorities) == 0 {
		return 0
	}
	slices.Sort(priorities)
	for _, priority := range slices.Backward(priorities) {
		if group == nil {
			break
		}
		enough := enoughFrom(members, priority, group.Spec.MinMember, func(string) bool { return true })
		for _, role := range group.Spec.Roles {
			enough = enough && enoughFrom(members, priority, role.MinMember, func(name string) bool { return name == role.Name })
		}
		if enough {
			return priority
		}
	}
	return priorities[0]
}

func enoughFrom(members []Ranked, priority, minimum int32, counts func(role string) bool) bool {
	has := int32(0)
	for standing := Done; standing <= Waiting; standing++ {
		below := false
		for _, member := range members {
			switch {
			case member.Standing != standing || !counts(member.Role):
			case standing != Done && member.Priority < priority:
				below = true
			default:
				has++
			}
		}
		if has >= minimum || below {
			return has >= minimum
		}
	}
	return false
}
