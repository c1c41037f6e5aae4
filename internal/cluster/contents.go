package cluster

import (
	"maps"
	"slices"
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

// Contents is what a State holds at one moment: what it has read of each object, and what it has assumed and seen. It never
// changes, and any goroutine may read it.
type Contents struct {
	// At is when the last snapshot was taken.
	At time.Time
	// held is a state with what is carried over, without what follows from it: indexes, snapshot and view.
	held *State
	// pods are what is known of each pod, in no order.
	pods []*podState
}

// Contents returns what the state holds. It costs a list of pointers: what they point to is never changed, only replaced. The
// goroutine that owns the state calls it.
func (s *State) Contents() *Contents {
	s.queues.noteStarts() // they name queues of the snapshot
	c := &Contents{At: s.snapshot.Now, held: New(Options{}), pods: make([]*podState, 0, len(s.pods.entries))}
	c.held.carry(s)
	for _, entry := range s.pods.entries {
		if entry.record != nil {
			c.pods = append(c.pods, entry.record)
		}
	}
	return c
}

// Restore returns a state that holds the contents, for another goroutine than the one that owns the first; several states may be
// made of the same contents. The translators are the profile's that is to read them; with the ones of the first state the next
// snapshot is the same, and so is the effect of each event, except for pods that concern no job and no node: their names are not
// kept. It tells no follower what it awaits.
func Restore(contents *Contents, translators []model.RequestTranslator) *State {
	s := New(Options{})
	s.carry(contents.held)
	s.offered.translate(translators)
	s.snapshot.Dimensions, s.snapshot.Now = s.dimensions, contents.At
	s.derive(contents.pods)
	return s
}

// carry takes over what does not follow from anything else. Maps are its own, what they hold is shared.
func (s *State) carry(from *State) {
	s.schedulers, s.sources, s.maxGrace, s.leading, s.second = from.schedulers, from.sources, from.maxGrace, from.leading, from.second
	s.dimensions = from.dimensions.Clone()
	s.incarnations.tombstones, s.incarnations.oldest = slices.Clone(from.incarnations.tombstones), from.incarnations.oldest
	for kind, newest := range from.incarnations.newest {
		if kind != kindPod { // of which there are many, and each has its record
			s.incarnations.newest[kind] = maps.Clone(newest)
		}
	}
	s.nodes, s.groups, s.classes, s.reserved = maps.Clone(from.nodes), maps.Clone(from.groups), maps.Clone(from.classes), maps.Clone(from.reserved)
	s.foreign.specs, s.foreign.readings, s.foreign.news = maps.Clone(from.foreign.specs), maps.Clone(from.foreign.readings), maps.Clone(from.foreign.news)
	s.others.pods = maps.Clone(from.others.pods)
	s.history = history{
		evicted: maps.Clone(from.history.evicted), reclaims: maps.Clone(from.history.reclaims), seenWhole: maps.Clone(from.history.seenWhole),
		saidLater: maps.Clone(from.history.saidLater),
	}
	s.claims.known, s.claims.unbound = maps.Clone(from.claims.known), maps.Clone(from.claims.unbound)
	s.claims.dirty, s.claims.charges = maps.Clone(from.claims.dirty), maps.Clone(from.claims.charges)
	s.devices.classes = deviceClasses{
		objects: maps.Clone(from.devices.classes.objects), positions: maps.Clone(from.devices.classes.positions), at: maps.Clone(from.devices.classes.at),
	}
	s.devices.nodes, s.devices.dirty = maps.Clone(from.devices.nodes), maps.Clone(from.devices.dirty)
	s.offered.sources, s.offered.reported = maps.Clone(from.offered.sources), maps.Clone(from.offered.reported)
	s.budgets.known = maps.Clone(from.budgets.known)
	s.queues.objects, s.queues.lastStart, s.queues.inherits = maps.Clone(from.queues.objects), maps.Clone(from.queues.lastStart), from.queues.inherits
	s.namespaces.labels = maps.Clone(from.namespaces.labels)
	s.leases.mode, s.leases.until, s.leases.offered = from.leases.mode, maps.Clone(from.leases.until), maps.Clone(from.leases.offered)
	s.conflicts = conflicts{dirty: maps.Clone(from.conflicts.dirty), found: maps.Clone(from.conflicts.found)}
	s.dirty.jobs = maps.Clone(from.dirty.jobs) // among them those that are gone, of which something is to be forgotten
}

// derive works out what follows from what was carried over: the indexes, and that the next snapshot has to look at everything.
// Nothing is read again.
func (s *State) derive(pods []*podState) {
	for _, record := range pods {
		entry := &podEntry{uid: record.task.UID}
		s.pods.entries[entry.uid] = entry
		s.pods.put(entry, record)
		pod := record.task.Pod
		addTo(s.incarnations.newest, kindPod, identityOf(kindPod, pod), observation{uid: pod.UID, version: revision(pod)})
		if record.devices != nil {
			for _, name := range record.devices.claims {
				addTo(s.claims.users, name, entry.uid, entry)
			}
		}
	}
	for key, spec := range s.foreign.specs {
		s.foreign.set(key, spec)
	}
	for uid, pod := range s.others.pods {
		for _, group := range pod.keys() {
			addTo(s.others.groups, group, uid, pod)
		}
	}
	charges := maps.Clone(s.claims.charges)
	for _, claim := range s.claims.known {
		s.claims.hold(claim, true)
	}
	s.claims.charges = charges // nothing of them has changed
	for _, seen := range s.devices.nodes {
		s.devices.count(seen, 1)
	}
	gone := slices.Collect(maps.Keys(s.dirty.jobs))
	second := s.second
	s.Rebuild()
	s.second = second
	for _, key := range gone {
		s.dirty.addJob(key)
	}
}
