package cluster

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// graveyard is how many deleted objects are remembered, so that a late event cannot bring one back. A watch delivers the
// events of one object in order; only events that were delivered twice or held up can be late, and not by so much.
const graveyard = 4096

// ledger remembers the newest incarnation of each object that was seen, and tells stale events from news.
//
// Invariant: what is admitted last for a name is the newest that was offered, in whatever order the offers came.
type ledger struct {
	seen map[identity]sighting
	// graves are the deleted ones in seen, a ring in the order of burial.
	graves []identity
	oldest int
}

type identity struct {
	kind            Kind
	namespace, name string
}

type sighting struct {
	uid types.UID
	// version orders what the API server said about the name; zero when it cannot be read.
	version uint64
	gone    bool
}

func newLedger() ledger { return ledger{seen: map[identity]sighting{}} }

// admit tells whether an event is news, and which living incarnation of the name, if any, it updates, replaces or ends.
func (l *ledger) admit(kind Kind, object metav1.Object, deleted bool) (living types.UID, ok bool) {
	id := identity{kind, object.GetNamespace(), object.GetName()}
	now := sighting{uid: object.GetUID(), version: revision(object), gone: deleted}
	last, known := l.seen[id]
	if known && !last.gone {
		living = last.uid
	}
	if known && stale(last, now) {
		return living, false
	}
	if known {
		now.version = max(now.version, last.version)
	}
	l.seen[id] = now
	if deleted && (!known || !last.gone) {
		l.bury(id)
	}
	return living, !deleted || living != ""
}

func stale(last, now sighting) bool {
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

// bury remembers a deleted object and forgets the one that has been remembered longest.
func (l *ledger) bury(id identity) {
	if len(l.graves) < graveyard {
		l.graves = append(l.graves, id)
		return
	}
	if before := l.graves[l.oldest]; l.seen[before].gone {
		delete(l.seen, before)
	}
	l.graves[l.oldest] = id
	l.oldest = (l.oldest + 1) % graveyard
}

func revision(object metav1.Object) uint64 {
	n, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
