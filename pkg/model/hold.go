package model

import (
	"cmp"
	"slices"
	"strings"
)

// HeldCapacity is capacity on a node that is held for a job before its members use it: nominated to a member for which others
// were evicted, or reserved for a gang that has waited too long.
type HeldCapacity struct {
	Job JobKey
	// Queue is the job's; nil while there are no queues.
	Queue *Queue
	// Priority is the job's. Jobs of higher priority in its queue ignore the hold, unless it is exclusive; what is nominated only
	// jobs for which pods may be evicted.
	Priority int32
	// Exclusive reports that priorities do not count: the capacity is nominated, and there are several queues. Between queues no
	// priority is compared; and in the job's own, a higher job may have no right to what was freed for this one by a right, would
	// lose it to another queue, and it would be freed again.
	Exclusive bool
	// Continues is the job's.
	Continues bool
	Node      string
	// Pod is the member that the capacity is nominated to; zero when it is reserved.
	Pod     PodRef
	Request Resources
	// LentUntil is until when reserved capacity may be used by other jobs, in seconds since 1970: the job is not expected to
	// start before. Zero is not at all.
	LentUntil int64
}

// CompareHeld orders held capacity by node, job and pod.
func CompareHeld(a, b *HeldCapacity) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), a.Job.Compare(b.Job), cmp.Compare(a.Pod.UID, b.Pod.UID))
}

func equalHeld(a, b HeldCapacity) bool {
	return a.Job == b.Job && a.Queue == b.Queue && a.Priority == b.Priority && a.Exclusive == b.Exclusive && a.Continues == b.Continues && a.Node == b.Node && a.Pod == b.Pod && a.LentUntil == b.LentUntil &&
		a.Request.Equal(b.Request)
}

// Viewpoint is the job for which free capacity is computed. The zero Viewpoint is a job of priority zero without held
// capacity.
type Viewpoint struct {
	Job      JobKey
	Queue    *Queue
	Priority int32
	// EvictsNone reports that no pod may be evicted for the job. It could not have made a place for itself, so that what pods were
	// evicted for is kept from it whichever priorities the jobs have: to it, that capacity is used already.
	EvictsNone bool
	// Continues reports that what is only reserved for jobs of the same priority is not kept from the job, unless these
	// continue, too.
	Continues bool
	// Guaranteed is the first queue, from the job's up, that is within its guarantee with the job: nothing is reserved
	// before that for jobs outside of it. It is nil when there is none.
	Guaranteed *Queue
	// GivesWay has the keys of the jobs of other queues whose reservations give way to the job, each on a line of its own.
	GivesWay string
	// ForVictims reports that pods are evicted for the job, or were. A reservation of another queue then hides at most what is
	// free on its nodes after what is nominated there; what the reservation still lacks does not count as used. Otherwise the job
	// would evict the pods for whose end the reservation waits.
	ForVictims bool
	// EndsBefore is when the job will have ended, in seconds since 1970, if it may use reserved capacity until then; zero if
	// it may not. UnrestrictedViewpoint is for a check whether reserved capacity would suffice, which uses none, and for
	// gangs that complete themselves.
	EndsBefore int64
}

// UnrestrictedViewpoint, as Viewpoint.EndsBefore, makes all reserved capacity visible: the job ends before any reservation
// starts.
const UnrestrictedViewpoint int64 = -1

// ViewpointOf is the viewpoint of the job.
func (s *Snapshot) ViewpointOf(job *Job) Viewpoint {
	return Viewpoint{Job: job.Key, Queue: job.queue, Priority: job.Priority, EvictsNone: !s.EvictsFor(job)}
}

// EvictsFor reports whether pods may be evicted for the job at all: it does not say that it preempts none, and its queue takes
// jobs.
func (s *Snapshot) EvictsFor(job *Job) bool { return !job.NeverPreempts && s.QueueRefusal(job) == nil }

// AppliesTo reports whether the held capacity counts as used for the viewpoint. Between queues priorities are not compared: a
// reservation is kept from all jobs of other queues, but not from what is within a guarantee.
func (h *HeldCapacity) AppliesTo(from Viewpoint) bool {
	switch {
	case h.Job == from.Job || h.isLentTo(from) || h.givesWayTo(from):
		return false
	case h.Exclusive || from.EvictsNone && !h.Reserved():
		return true
	case h.Queue == from.Queue && from.Continues && !h.Continues && h.Reserved():
		return h.Priority > from.Priority
	case h.Queue == from.Queue:
		return h.Priority >= from.Priority
	}
	return from.Guaranteed == nil || h.Queue.IsBelow(from.Guaranteed)
}

func (h *HeldCapacity) isLentTo(to Viewpoint) bool {
	return h.Reserved() && to.EndsBefore != 0 && to.EndsBefore <= h.LentUntil
}

func (h *HeldCapacity) givesWayTo(from Viewpoint) bool {
	return from.GivesWay != "" && h.Reserved() && slices.Contains(strings.Split(from.GivesWay, "\n"), h.Job.String())
}

// Reserved reports whether the capacity is reserved, not nominated.
func (h *HeldCapacity) Reserved() bool { return h.Pod == PodRef{} }

// SetHeld replaces the held capacity, which must be in CompareHeld order and of the snapshot's nodes.
func (s *Snapshot) SetHeld(holds []HeldCapacity) {
	if s.holdsOf == s.Journal.layout && slices.EqualFunc(s.holds, holds, equalHeld) {
		return // so that the journal records no change
	}
	s.holdsOf = s.Journal.layout
	for i := range s.holds {
		s.uncharge(i)
	}
	s.holds, s.kept, s.charged = holds, make([]*Node, len(holds)), make([]Resources, len(holds))
	s.recompute(s.viewer)
	s.Journal.renew(true)
}

// Viewpoint is the viewpoint of the accounting.
func (s *Snapshot) Viewpoint() Viewpoint { return s.viewer }

// Held returns all held capacity in CompareHeld order. It must not be changed.
func (s *Snapshot) Held() []HeldCapacity { return s.holds }

// ReservesOutside reports whether capacity is reserved for a job of another queue than this one.
func (s *Snapshot) ReservesOutside(queue *Queue) bool {
	return slices.ContainsFunc(s.holds, func(hold HeldCapacity) bool { return hold.Reserved() && hold.Queue != queue })
}

// HeldAt returns all held capacity on the node of that name, in CompareHeld order. It must not be changed.
func (s *Snapshot) HeldAt(name string) []HeldCapacity {
	first, _ := slices.BinarySearchFunc(s.holds, name, func(h HeldCapacity, name string) int { return cmp.Compare(h.Node, name) })
	last := first
	for last < len(s.holds) && s.holds[last].Node == name {
		last++
	}
	return s.holds[first:last:last]
}

// HeldOn returns the held capacity that counts as used on the node for the viewpoint, in CompareHeld order.
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

// SetViewpoint makes the accounting show what the viewpoint may use: capacity held for others of the same or higher priority
// counts as used, what is held exclusively, and, where the viewer evicts none, what is nominated. It is no change that a
// statement makes or undoes; the cost is the difference to the previous viewpoint.
func (s *Snapshot) SetViewpoint(viewer Viewpoint) {
	if viewer != s.viewer {
		content, fixed := s.Journal.content, s.Journal.fixed
		s.viewer = viewer
		s.recompute(viewer)
		s.Journal.content, s.Journal.fixed = content, fixed // the content has not changed
	}
}

// EffectiveViewpoint returns the part of the viewpoint that decides which capacity is visible: with equal results, on one
// revision of the snapshot, the accounting is the same.
func (s *Snapshot) EffectiveViewpoint(viewer Viewpoint) Viewpoint {
	if len(s.holds) == 0 {
		return Viewpoint{}
	}
	owner, compared, nominated, reserves, until := false, false, false, false, int64(0)
	for i := range s.holds {
		hold := &s.holds[i]
		reserves = reserves || hold.Reserved()
		owner = owner || hold.Job == viewer.Job
		compared = compared || hold.Queue == nil || hold.Queue == viewer.Queue
		nominated = nominated || !hold.Reserved() && !hold.Exclusive
		if hold.isLentTo(viewer) && (until == 0 || hold.LentUntil < until) {
			until = hold.LentUntil
		}
	}
	if !owner {
		viewer.Job = JobKey{}
	}
	if !compared {
		viewer.Queue, viewer.Priority, viewer.Continues = nil, 0, false
	}
	viewer.EvictsNone, viewer.ForVictims = viewer.EvictsNone && nominated, viewer.ForVictims && reserves
	if viewer.EndsBefore != UnrestrictedViewpoint {
		viewer.EndsBefore = until // when the first of the reservations starts that it may use; the others start later
	}
	return viewer
}

func (s *Snapshot) recompute(viewer Viewpoint) {
	for i := range s.holds {
		hold := &s.holds[i]
		if !hold.AppliesTo(viewer) {
			s.uncharge(i)
			continue
		}
		amount := hold.Request
		if viewer.ForVictims && hold.Reserved() && hold.Queue != viewer.Queue {
			amount = s.present(i)
		}
		if s.kept[i] != nil && !amount.Equal(s.charged[i]) {
			s.uncharge(i)
		}
		s.charge(i, amount)
	}
}

// present returns the part of a reservation that its node has, now or once terminating pods are gone: what is nominated comes
// first, and the reservations before this one.
func (s *Snapshot) present(i int) Resources {
	node := s.Node(s.holds[i].Node)
	if node == nil {
		return nil
	}
	first := i
	for first > 0 && s.holds[first-1].Node == node.Name {
		first--
	}
	present := s.holds[i].Request.Clone()
	for r := range present {
		has := node.Unnominated(r)
		for j := first; j < len(s.holds) && s.holds[j].Node == node.Name; j++ {
			if other := &s.holds[j]; !other.Reserved() {
				has -= other.Request.At(r)
			} else if j < i && s.kept[j] == node {
				has -= s.charged[j].At(r)
			}
		}
		present[r] = max(0, min(present[r], has))
	}
	return present
}

// ReleaseHeld releases what is held for a job, because it has its capacity or no longer needs it.
func (s *Snapshot) ReleaseHeld(job JobKey) {
	s.drop(func(h *HeldCapacity) bool { return h.Job == job })
	s.release(job)
}

// ReleaseNominated releases the capacity that is nominated to members of a job.
func (s *Snapshot) ReleaseNominated(job JobKey) {
	s.drop(func(h *HeldCapacity) bool { return h.Job == job && !h.Reserved() })
	s.release(job)
}

// release takes what is nominated to members of a job off what its queue holds.
func (s *Snapshot) release(key JobKey) {
	job := s.Job(key)
	if job == nil || job.queue == nil {
		return
	}
	for _, task := range job.Tasks {
		if task.Nominated != "" && !task.released {
			task.count(-1)
			task.released = true
			task.count(1)
			s.released = append(s.released, task)
			s.Journal.renew(true)
		}
	}
}

// EndSession makes what was released count in its queues again, since the state has the last word, and ends a viewpoint for
// victims: it depends on what nodes have, which changes until the next session.
func (s *Snapshot) EndSession() {
	if s.ahead = false; s.viewer.ForVictims {
		s.SetViewpoint(Viewpoint{})
	}
	for _, task := range s.released {
		task.count(-1)
		task.released = false
		task.count(1)
		s.Journal.renew(true)
	}
	s.released = nil
}

// Reserve replaces the capacity that is reserved for the job.
func (s *Snapshot) Reserve(job *Job, reservation *Reservation) {
	holds := slices.DeleteFunc(slices.Clone(s.holds), func(h HeldCapacity) bool { return h.Job == job.Key && h.Reserved() })
	holds = append(holds, reservation.Holds(job)...)
	slices.SortFunc(holds, func(a, b HeldCapacity) int { return CompareHeld(&a, &b) })
	s.SetHeld(holds)
}

func (s *Snapshot) drop(ends func(*HeldCapacity) bool) {
	var holds []HeldCapacity
	var kept []*Node
	var charged []Resources
	for i := range s.holds {
		if ends(&s.holds[i]) {
			s.uncharge(i)
			continue
		}
		holds, kept, charged = append(holds, s.holds[i]), append(kept, s.kept[i]), append(charged, s.charged[i])
	}
	if len(holds) < len(s.holds) {
		s.Journal.renew(true)
	}
	s.holds, s.kept, s.charged = holds, kept, charged
}

func (s *Snapshot) charge(i int, amount Resources) {
	if s.kept[i] != nil {
		return
	}
	if node := s.Node(s.holds[i].Node); node != nil {
		s.kept[i], s.charged[i] = node, amount
		node.reserved.Add(amount)
		s.Journal.add(Change{Node: node, Room: true})
	}
}

func (s *Snapshot) uncharge(i int) {
	if node := s.kept[i]; node != nil {
		s.kept[i] = nil
		node.reserved.Sub(s.charged[i])
		s.Journal.add(Change{Node: node, Room: true})
	}
}
