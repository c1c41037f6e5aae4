package cluster

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// podEntry is the place of one pod: what is known about it, and what the snapshot shows of it.
type podEntry struct {
	uid types.UID
	// record is nil when the pod is gone and the snapshot still shows it.
	record *podState
	// task is nil while no snapshot has shown it.
	task *model.Task
	// dirty reports that the next snapshot has to look at it.
	dirty bool
}

// identity names the pod, for messages.
func (e *podEntry) identity() identity {
	id := identity{kind: kindPod, name: string(e.uid)}
	if e.record != nil {
		id.namespace, id.name = e.record.task.Namespace, e.record.task.Name
	}
	return id
}

// pods are those that concern us, with indexes over them.
type pods struct {
	entries map[types.UID]*podEntry
	// members has them by job, uncertain by the groups that they are in or not as the object says, held by node.
	members   map[model.JobKey]map[types.UID]*podEntry
	uncertain map[model.JobKey]map[types.UID]*podEntry
	held      map[string]map[types.UID]*podEntry
	// releasing are being deleted, and a nomination was written for those that are nominated.
	releasing map[types.UID]*podEntry
	nominated map[types.UID]*podEntry
	// binds is how many are assumed.
	binds int
}

func newPods() pods {
	return pods{
		entries: map[types.UID]*podEntry{}, members: map[model.JobKey]map[types.UID]*podEntry{},
		uncertain: map[model.JobKey]map[types.UID]*podEntry{}, held: map[string]map[types.UID]*podEntry{},
		releasing: map[types.UID]*podEntry{}, nominated: map[types.UID]*podEntry{},
	}
}

// find returns the place and the record of a pod; both are nil when it is not known, the record when it is gone.
func (p *pods) find(uid types.UID) (*podEntry, *podState) {
	if entry := p.entries[uid]; entry != nil {
		return entry, entry.record
	}
	return nil, nil
}

func (p *pods) record(uid types.UID) *podState {
	_, record := p.find(uid)
	return record
}

// wait reports whether a member of the job has no node.
func (p *pods) wait(job model.JobKey) bool {
	for _, entry := range p.members[job] {
		if entry.record.task.Status == model.Pending {
			return true
		}
	}
	return false
}

// put replaces what is known of a pod, nil makes it gone, and says what that affects. It keeps the indexes, and marks what the
// next snapshot has to look at.
func (s *State) put(entry *podEntry, after *podState) Effect {
	before := entry.record
	s.conflicts.markNodes(before, after)
	s.followClaims(entry, before, after)
	s.pods.put(entry, after)
	s.dirty.addPod(entry)
	effect, refill := s.compare(before, after)
	for _, r := range []*podState{before, after} {
		if refill && r != nil && r.task.Job != (model.JobKey{}) {
			s.dirty.addJob(r.task.Job)
		}
	}
	return effect
}

// binds is 1 where a bind of the pod is assumed, else 0.
func (r *podState) binds() int {
	if r == nil || r.bind == "" {
		return 0
	}
	return 1
}

// indexKeys are where the indexes have a pod. A zero key is nowhere. ours, native and owner are the groups that it is in as their
// objects say.
type indexKeys struct {
	job                  model.JobKey
	ours, native, owner  model.JobKey
	node                 string
	releasing, nominated bool
}

func placesOf(r *podState) indexKeys {
	if r == nil {
		return indexKeys{}
	}
	t := &r.task
	p := indexKeys{
		job: t.Job, node: t.Node,
		releasing: t.Status.Occupies() && t.Pod.DeletionTimestamp != nil, nominated: t.Nominated != "",
	}
	for m := range r.membership.All() {
		switch {
		case m.Otherwise == nil:
		case m.Job.Source.OwnsPods():
			p.owner = m.Job
		case m.Job.IsForeign():
			p.native = m.Job
		default:
			p.ours = m.Job
		}
	}
	return p
}

// put replaces what is known of a pod, and moves it in the indexes. Most changes of a pod leave it where it is in most of them,
// and those are not touched.
func (p *pods) put(entry *podEntry, after *podState) {
	from, to := placesOf(entry.record), placesOf(after)
	p.binds += after.binds() - entry.record.binds()
	entry.record = after
	reindex(p.members, entry, from.job, to.job)
	reindex(p.uncertain, entry, from.ours, to.ours)
	reindex(p.uncertain, entry, from.native, to.native)
	reindex(p.uncertain, entry, from.owner, to.owner)
	reindex(p.held, entry, from.node, to.node)
	if from.nominated != to.nominated {
		updateIndex(p.nominated, entry, to.nominated)
	}
	if from.releasing != to.releasing {
		if updateIndex(p.releasing, entry, to.releasing); len(p.releasing) == 0 {
			p.releasing = map[types.UID]*podEntry{} // a map that was large is slow to walk indefinitely
		}
	}
}

func reindex[K comparable](index map[K]map[types.UID]*podEntry, entry *podEntry, from, to K) {
	var nowhere K
	if from == to {
		return
	}
	if from != nowhere {
		dropFrom(index, from, entry.uid)
	}
	if to != nowhere {
		addTo(index, to, entry.uid, entry)
	}
}

// addTo adds a value to a map of maps.
func addTo[K, E comparable, V any](index map[K]map[E]V, key K, element E, value V) {
	if index[key] == nil {
		index[key] = map[E]V{}
	}
	index[key][element] = value
}

// dropFrom deletes a value from a map of maps, and the map that had nothing else.
func dropFrom[K, E comparable, V any](index map[K]map[E]V, key K, element E) {
	if delete(index[key], element); len(index[key]) == 0 {
		delete(index, key)
	}
}

func updateIndex(pods map[types.UID]*podEntry, entry *podEntry, in bool) {
	if in {
		pods[entry.uid] = entry
	} else {
		delete(pods, entry.uid)
	}
}
