package model

import (
	"cmp"
	"slices"
)

// HeldCapacity is room on a node that is kept for a job although nobody of it is there yet: promised to a member for whom others
// were evicted, or reserved for a gang that has waited too long.
type HeldCapacity struct {
	Job JobKey
	// Priority is the job's. Whoever has a higher one takes no notice of the hold.
	Priority int32
	Node     string
	// Pod is the member that the room was promised to; zero when the room is reserved.
	Pod     PodRef
	Request Resources
	// LentUntil is up to when reserved room is lent, in seconds since 1970: its owner is not expected to start before. Zero lends
	// nothing.
	LentUntil int64
}

// CompareHeld orders holds by node, job and pod.
func CompareHeld(a, b *HeldCapacity) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), a.Job.Compare(b.Job), cmp.Compare(a.Pod.UID, b.Pod.UID))
}

func equalHeld(a, b HeldCapacity) bool {
	return a.Job == b.Job && a.Priority == b.Priority && a.Node == b.Node && a.Pod == b.Pod && a.LentUntil == b.LentUntil &&
		a.Request.Equal(b.Request)
}

// Viewpoint is who looks for room. The zero Viewer stands for a job of priority zero without holds of its own.
type Viewpoint struct {
	Job      JobKey
	Priority int32
	// EndsBefore is when the viewer will be gone again, in seconds since 1970, if it may borrow reserved room; zero if it may not.
	// Onlooker is for who wants to know whether reserved room would do, and takes none, and for gangs that complete themselves.
	EndsBefore int64
}

// UnrestrictedViewpoint is gone before it comes, as Viewer.Gone: no reserved room is kept from it.
const UnrestrictedViewpoint int64 = -1

// ViewpointOf is who looks for room when the job does.
func ViewpointOf(job *Job) Viewpoint { return Viewpoint{Job: job.Key, Priority: job.Priority} }

// appliesTo tells whether the viewer must take the hold's room as taken.
func (h *HeldCapacity) appliesTo(from Viewpoint) bool {
	return h.Job != from.Job && h.Priority >= from.Priority && !h.isLentTo(from)
}

func (h *HeldCapacity) isLentTo(to Viewpoint) bool {
	return h.Reserved() && to.EndsBefore != 0 && to.EndsBefore <= h.LentUntil
}

// Reserved tells that the room is reserved, not promised to somebody for whom others were evicted.
func (h *HeldCapacity) Reserved() bool { return h.Pod == PodRef{} }

// SetHeld replaces the holds, which must be in CompareHeld order and of the snapshot's nodes.
func (s *Snapshot) SetHeld(holds []HeldCapacity) {
	if s.holdsOf == s.Journal.layout && slices.EqualFunc(s.holds, holds, equalHeld) {
		return // so that the journal does not tell of changes that are none
	}
	s.holdsOf = s.Journal.layout
	for i := range s.holds {
		s.uncharge(i)
	}
	s.holds, s.kept = holds, make([]*Node, len(holds))
	s.recompute(s.viewer)
	s.Journal.renew(true)
}

// Viewpoint is for whom the books are shown.
func (s *Snapshot) Viewpoint() Viewpoint { return s.viewer }

// Held returns the holds in CompareHeld order, never to be changed.
func (s *Snapshot) Held() []HeldCapacity { return s.holds }

// HeldOn returns the holds that stand on the node's books for the viewer, in CompareHeld order.
func (s *Snapshot) HeldOn(node *Node) []*HeldCapacity {
	if len(s.holds) == 0 {
		return nil
	}
	var kept []*HeldCapacity
	for i := range s.holds {
		if s.kept[i] == node {
			kept = append(kept, &s.holds[i])
		}
	}
	return kept
}

// SetViewpoint makes the books show what the viewer may use: holds of others of the same or higher priority count as taken. It is no
// change that a statement makes or undoes; it costs what differs from the viewer before.
func (s *Snapshot) SetViewpoint(viewer Viewpoint) {
	if viewer != s.viewer {
		content, fixed := s.Journal.content, s.Journal.fixed
		s.viewer = viewer
		s.recompute(viewer)
		s.Journal.content, s.Journal.fixed = content, fixed // what there is has not changed
	}
}

// EffectiveViewpoint returns what of the viewer decides about the room that it sees: with one of them, on one revision of the snapshot,
// everything looks the same.
func (s *Snapshot) EffectiveViewpoint(viewer Viewpoint) Viewpoint {
	if len(s.holds) == 0 {
		return Viewpoint{}
	}
	owner, until := false, int64(0)
	for i := range s.holds {
		hold := &s.holds[i]
		owner = owner || hold.Job == viewer.Job
		if hold.isLentTo(viewer) && (until == 0 || hold.LentUntil < until) {
			until = hold.LentUntil
		}
	}
	if !owner {
		viewer.Job = JobKey{}
	}
	if viewer.EndsBefore != UnrestrictedViewpoint {
		viewer.EndsBefore = until // that is when the first of the rooms is needed which it may use; the others are needed later
	}
	return viewer
}

func (s *Snapshot) recompute(viewer Viewpoint) {
	for i := range s.holds {
		if s.holds[i].appliesTo(viewer) {
			s.charge(i)
		} else {
			s.uncharge(i)
		}
	}
}

// ReleaseHeld ends the holds of a job, because it has its room or does without.
func (s *Snapshot) ReleaseHeld(job JobKey) {
	s.drop(func(h *HeldCapacity) bool { return h.Job == job })
}

// ReleaseNominated ends those of a job that were promised to its members.
func (s *Snapshot) ReleaseNominated(job JobKey) {
	s.drop(func(h *HeldCapacity) bool { return h.Job == job && !h.Reserved() })
}

// Reserve puts a reservation in the place of what is reserved for the job.
func (s *Snapshot) Reserve(job *Job, reservation *Reservation) {
	holds := slices.DeleteFunc(slices.Clone(s.holds), func(h HeldCapacity) bool { return h.Job == job.Key && h.Reserved() })
	holds = append(holds, reservation.Holds(job)...)
	slices.SortFunc(holds, func(a, b HeldCapacity) int { return CompareHeld(&a, &b) })
	s.SetHeld(holds)
}

func (s *Snapshot) drop(ends func(*HeldCapacity) bool) {
	var holds []HeldCapacity
	var kept []*Node
	for i := range s.holds {
		if ends(&s.holds[i]) {
			s.uncharge(i)
			continue
		}
		holds, kept = append(holds, s.holds[i]), append(kept, s.kept[i])
	}
	if len(holds) < len(s.holds) {
		s.Journal.renew(true)
	}
	s.holds, s.kept = holds, kept
}

func (s *Snapshot) charge(i int) {
	if s.kept[i] != nil {
		return
	}
	if node := s.Node(s.holds[i].Node); node != nil {
		s.kept[i] = node
		node.Reserved.Add(s.holds[i].Request)
		s.Journal.add(Change{Node: node, Room: true})
	}
}

func (s *Snapshot) uncharge(i int) {
	if node := s.kept[i]; node != nil {
		s.kept[i] = nil
		node.Reserved.Sub(s.holds[i].Request)
		s.Journal.add(Change{Node: node, Room: true})
	}
}
