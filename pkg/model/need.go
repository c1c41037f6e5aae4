package model

// Role is a named part of a job with a minimum of its own.
type Role struct {
	Name      string
	MinMember int32
	// MadeLater reports whether the role is late: its members are made only when others run.
	MadeLater bool
	// NotBegun reports whether the role is late and has not begun: fewer members than its minimum hold capacity, and no container
	// of one has run. While its minimum is 0, too, its members wait until the job has all else that it needs.
	NotBegun bool
}

// Minima are how many members start together, in all and by role.
type Minima struct {
	MinMember int32
	Roles     []Role
	// Requests is what the members that held capacity requested together when the job had these minima; nil when that is not
	// known.
	Requests Resources
}

// UnmetMinimum is a minimum that is not met.
type UnmetMinimum struct {
	Needs, Has int64
	// Role is the role with the minimum; empty for the job's own.
	Role string
}

// What returns "role worker", or nothing for the job's own minimum.
func (s *UnmetMinimum) What() string {
	if s.Role == "" {
		return ""
	}
	return "role " + s.Role
}

// FirstUnmet returns the first minimum that the counted tasks do not meet, the one of all before the minima of roles; nil when
// all are met.
func (m *Minima) FirstUnmet(tasks []*Task, counts func(*Task) bool) *UnmetMinimum {
	if has := CountOf(tasks, counts); has < int(m.MinMember) {
		return &UnmetMinimum{Needs: int64(m.MinMember), Has: int64(has)}
	}
	for _, role := range m.Roles {
		has := CountOf(tasks, func(task *Task) bool { return task.Role == role.Name && counts(task) })
		if has < int(role.MinMember) {
			return &UnmetMinimum{Needs: int64(role.MinMember), Has: int64(has), Role: role.Name}
		}
	}
	return nil
}

// CountOf returns how many tasks satisfy the condition.
func CountOf(tasks []*Task, condition func(*Task) bool) int {
	n := 0
	for _, task := range tasks {
		if condition(task) {
			n++
		}
	}
	return n
}

// HeldBy returns what those of the tasks request that count towards a minimum and hold capacity.
func HeldBy(tasks []*Task) (held Resources) {
	for _, task := range tasks {
		if task.Status.CountsTowardMinimum() {
			held.Add(task.Request) // nothing of one that has succeeded
		}
	}
	return held
}

// Part is what of a gang starts as a whole: what is made first, or a role that is made later.
type Part struct {
	// Role is empty for what is made first, and for all of a gang.
	Role string
	// Minima are those that the group states.
	Minima
	// Tasks are the members of the part, in CompareTasks order, without those of an earlier attempt or of a deleted object.
	Tasks []*Task
	// Whole reports whether the part has had its minimum bound, and BelowMinimum whether it held capacity and was below its
	// minimum when this was computed; of all of a gang that was whole, binds in flight hold capacity, too.
	Whole, BelowMinimum bool
}

// Count returns how many tasks of the part satisfy the condition.
func (p *Part) Count(condition func(*Task) bool) int { return CountOf(p.Tasks, condition) }

// FirstUnmetMinimum is as Job.FirstUnmetMinimum, of the part.
func (p *Part) FirstUnmetMinimum(counts func(*Task) bool) *UnmetMinimum {
	return p.FirstUnmet(p.Tasks, counts)
}

// Need is what a job needs now to start or to go on as a gang. It is computed as a whole (gang.Of), and no field of one is
// changed afterwards. A variant of a job is a copy with another Need.
type Need struct {
	// MinMember is how many members must start together.
	MinMember int32
	// Roles are the minima of the job's parts, by name; nil when it has none.
	Roles []Role
	// Stated are the minima that its group states while MinMember and Roles are below them, since a gang that was whole lacks
	// members; nil while they are not.
	Stated *Minima
	// Present is the gang without members of an earlier attempt, or of a deleted object of the same name, as its group states
	// it. Such members count in the fields above while they exist: they are about to be deleted.
	Present Part
	// Whole reports whether the gang has had its minimum bound, according to the API; members may have been lost since.
	Whole bool
	// StartedMinima are those that it was whole with, according to the API, and of an implicit group what this process has seen;
	// zero when it was not. LostMembers reports whether it has fewer members than that, so that it has lost some, and the waiting
	// ones ask for no more than those did.
	StartedMinima Minima
	LostMembers   bool
	// BelowMinimum reports whether the gang held capacity and was below the minimum of what is made first when the snapshot was
	// taken.
	BelowMinimum bool
}

// Minima returns how many members must start together now.
func (n *Need) Minima() Minima { return Minima{MinMember: n.MinMember, Roles: n.Roles} }
