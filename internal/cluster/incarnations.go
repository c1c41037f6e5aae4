package cluster

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxTombstones is how many deleted objects are remembered, so that a late event cannot bring one back. A watch delivers the
// events of one object in order; only events that were delivered twice or held up can be late, and not by so much.
const maxTombstones = 4096

// incarnations remembers the newest incarnation of each object that was seen, and tells stale events from news.
//
// Invariant: what is admitted last for a name is the newest that was offered, in whatever order the offers came.
type incarnations struct {
	// newest has them by kind.
	newest map[string]map[identity]observation
	// tombstones are the deleted ones in newest, a ring in the order of their deletion.
	tombstones []identity
	oldest     int
}

// identity names an object; namespace is empty for one that is in none.
type identity struct {
	kind, namespace, name string
}

func identityOf(kind string, object metav1.Object) identity {
	return identity{kind, object.GetNamespace(), object.GetName()}
}

// forget drops what was seen of the objects of a kind, which will be read from the beginning.
func (l *incarnations) forget(kind string) {
	delete(l.newest, kind)
}

// String returns the object's kind and name, for messages.
func (id identity) String() string {
	if id.namespace == "" {
		return id.kind + " " + id.name
	}
	return id.kind + " " + id.namespace + "/" + id.name
}

type observation struct {
	uid types.UID
	// version orders what the API server said about the name; zero when it cannot be read.
	version uint64
	gone    bool
}

// admit reports whether an event is news, and which incarnation of the name it ends, by deletion or by taking its place; empty
// when none.
func (l *incarnations) admit(id identity, object metav1.Object, deleted bool) (ended types.UID, news bool) {
	now := observation{uid: object.GetUID(), version: revision(object), gone: deleted}
	last, known := l.newest[id.kind][id]
	if known && stale(last, now) {
		return "", false
	}
	lives := known && !last.gone
	if lives && (deleted || last.uid != now.uid) {
		ended = last.uid
	}
	if known {
		now.version = max(now.version, last.version)
	}
	addTo(l.newest, id.kind, id, now)
	if deleted && (!known || lives) {
		l.addTombstone(id)
	}
	return ended, !deleted || lives
}

func stale(last, now observation) bool {
	older := now.version != 0 && last.version != 0 && now.version < last.version
	same := last.uid == now.uid
	switch {
	case same && last.gone:
		return true // a UID never comes back
	case same && now.gone:
		return false // and its end is final, even if its version was guessed from an earlier sighting
	case same:
		return older || now.version != 0 && now.version == last.version
	case now.gone:
		return older || now.version == 0 // without a version, nothing says that the other incarnation came later
	default:
		return older
	}
}

// addTombstone remembers a deleted object and forgets the one that has been remembered longest.
func (l *incarnations) addTombstone(id identity) {
	if len(l.tombstones) < maxTombstones {
		l.tombstones = append(l.tombstones, id)
		return
	}
	if before := l.tombstones[l.oldest]; l.newest[before.kind][before].gone {
		dropFrom(l.newest, before.kind, before)
	}
	l.tombstones[l.oldest] = id
	l.oldest = (l.oldest + 1) % maxTombstones
}

func revision(object metav1.Object) uint64 {
	n, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
