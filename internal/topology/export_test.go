package topology

// NewTight returns an index that keeps next to nothing, so that all it does to keep little happens all the time.
func NewTight(namespaces Namespaces) *Index {
	x := New(namespaces)
	x.limits = limits{tables: 3, recent: 4, known: 5, idleSessions: 1}
	return x
}

// Counting tells whether labels of pods are looked at.
func (x *Index) Counting() bool { return x.indexLabels }

// Tables returns how many tables and receptions are counted.
func (x *Index) Tables() int { return len(x.tables) + len(x.receptions) }

// Feeds returns how many tables the classes and terms feed.
func (x *Index) Feeds() int {
	feeds := 0
	for _, c := range x.everyClass {
		feeds += len(c.present.feeds) + len(c.leaving.feeds)
	}
	for _, t := range x.terms {
		feeds += len(t.holders.feeds)
	}
	return feeds
}

// Kept returns how many classes, sets of terms and the like are kept.
func (x *Index) Kept() int { return x.kept() }

// Begun returns how often all counts were begun anew.
func (x *Index) Begun() int { return x.resets }

// Recent returns how many pods are recognised by their address.
func (x *Index) Recent() int { return len(x.recent) }
