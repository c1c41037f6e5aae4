package model

import (
	"cmp"
	"slices"
)

// Hold is room on a node that is kept for a job although nobody of it is there yet: promised to a member for whom others
// were evicted, or reserved for a gang that has waited too long.
type Hold struct {
	Job JobKey
	// Priority is the job's. Whoever has a higher one takes no notice of the hold.
	Priority int32
	Node     string
	// Pod is the member that the room was promised to; zero when the room is reserved.
	Pod     PodRef
	Request Resources
	// Until is up to when reserved room is lent, in seconds since 1970: its owner is not expected to start before. Zero lends
	// nothing.
	Until int64
}

// CompareHolds orders holds by node, job and pod.
func CompareHolds(a, b *Hold) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), a.Job.Compare(b.Job), cmp.Compare(a.Pod.UID, b.Pod.UID))
}

func equalHolds(a, b Hold) bool {
	return a.Job == b.Job && a.Priority == b.Priority && a.Node == b.Node && a.Pod == b.Pod && a.Until == b.Until &&
		a.Request.Equal(b.Request)
}

// Viewer is who looks for room. The zero Viewer stands for a job of priority zero without holds of its own.
type Viewer struct {
	Job      JobKey
	Priority int32
	// Gone is when the viewer will be gone again, in seconds since 1970, if it may borrow reserved room; zero if it may not.
	// Onlooker is for who wants to know whether reserved room would do, and takes none, and for gangs that complete themselves.
	Gone int64
}

// Onlooker is gone before it comes, as Viewer.Gone: no reserved room is kept from it.
const Onlooker int64 = -1

// ViewerOf is who looks for room when the job does.
func ViewerOf(job *Job) Viewer { return Viewer{Job: job.Key, Priority: job.Priority} }

// hides tells whether the viewer must take the hold's room as taken.
func (h *Hold) hides(from Viewer) bool {
	return h.Job != from.Job && h.Priority >= from.Priority && !h.lends(from)
}

func (h *Hold) lends(to Viewer) bool { return h.Reserved() && to.Gone != 0 && to.Gone <= h.Until }

// Reserved tells that the room is reserved, not promised to somebody for whom others were evicted.
func (h *Hold) Reserved() bool { return h.Pod == PodRef{} }

// SetHolds replaces the holds, which must be in CompareHolds order and of the snapshot's nodes.
func (s *Snapshot) SetHolds(holds []Hold) {
	if s.holdsOf == s.Journal.layout && slices.EqualFunc(s.holds, holds, equalHolds) {
		return // so that the journal does not tell of changes that are none
	}
	s.holdsOf = s.Journal.layout
	for i := range s.holds {
		s.unkeep(i)
	}
	s.holds, s.kept = holds, make([]*Node, len(holds))
	s.show(s.viewer)
	s.Journal.renew(true)
}

// Viewer is for whom the books are shown.
func (s *Snapshot) Viewer() Viewer { return s.viewer }

// Holds returns the holds in CompareHolds order, never to be changed.
func (s *Snapshot) Holds() []Hold { return s.holds }

// KeptOn returns the holds that stand on the node's books for the viewer, in CompareHolds order.
func (s *Snapshot) KeptOn(node *Node) []*Hold {
	if len(s.holds) == 0 {
		return nil
	}
	var kept []*Hold
	for i := range s.holds {
		if s.kept[i] == node {
			kept = append(kept, &s.holds[i])
		}
	}
	return kept
}

// See makes the books show what the viewer may use: holds of others of the same or higher priority count as taken. It is no
// change that a statement makes or undoes; it costs what differs from the viewer before.
func (s *Snapshot) See(viewer Viewer) {
	if viewer != s.viewer {
		content, fixed := s.Journal.content, s.Journal.fixed
		s.viewer = viewer
		s.show(viewer)
		s.Journal.content, s.Journal.fixed = content, fixed // what there is has not changed
	}
}

// Viewpoint returns what of the viewer decides about the room that it sees: with one Viewpoint, on one revision of the snapshot,
// everything looks the same.
func (s *Snapshot) Viewpoint(viewer Viewer) Viewer {
	if len(s.holds) == 0 {
		return Viewer{}
	}
	owner, until := false, int64(0)
	for i := range s.holds {
		hold := &s.holds[i]
		owner = owner || hold.Job == viewer.Job
		if hold.lends(viewer) && (until == 0 || hold.Until < until) {
			until = hold.Until
		}
	}
	if !owner {
		viewer.Job = JobKey{}
	}
	if viewer.Gone != Onlooker {
		viewer.Gone = until // that is when the first of the rooms is needed which it may use; the others are needed later
	}
	return viewer
}

func (s *Snapshot) show(viewer Viewer) {
	for i := range s.holds {
		if s.holds[i].hides(viewer) {
			s.keep(i)
		} else {
			s.unkeep(i)
		}
	}
}

// DropHolds ends the holds of a job, because it has its room or does without.
func (s *Snapshot) DropHolds(job JobKey) {
	s.drop(func(h *Hold) bool { return h.Job == job })
}

// DropPromised ends those of a job that were promised to its members.
func (s *Snapshot) DropPromised(job JobKey) {
	s.drop(func(h *Hold) bool { return h.Job == job && !h.Reserved() })
}

// Reserve puts a reservation in the place of what is reserved for the job.
func (s *Snapshot) Reserve(job *Job, reservation *Reservation) {
	holds := slices.DeleteFunc(slices.Clone(s.holds), func(h Hold) bool { return h.Job == job.Key && h.Reserved() })
	holds = append(holds, reservation.Holds(job)...)
	slices.SortFunc(holds, func(a, b Hold) int { return CompareHolds(&a, &b) })
	s.SetHolds(holds)
}

func (s *Snapshot) drop(ends func(*Hold) bool) {
	var holds []Hold
	var kept []*Node
	for i := range s.holds {
		if ends(&s.holds[i]) {
			s.unkeep(i)
			continue
		}
		holds, kept = append(holds, s.holds[i]), append(kept, s.kept[i])
	}
	if len(holds) < len(s.holds) {
		s.Journal.renew(true)
	}
	s.holds, s.kept = holds, kept
}

func (s *Snapshot) keep(i int) {
	if s.kept[i] != nil {
		return
	}
	if node := s.Node(s.holds[i].Node); node != nil {
		s.kept[i] = node
		node.Kept.Add(s.holds[i].Request)
		s.Journal.add(Change{Node: node, Room: true})
	}
}

func (s *Snapshot) unkeep(i int) {
	if node := s.kept[i]; node != nil {
		s.kept[i] = nil
		node.Kept.Sub(s.holds[i].Request)
		s.Journal.add(Change{Node: node, Room: true})
	}
}
