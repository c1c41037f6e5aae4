package topology

// NewTight returns an index with minimal limits, so that it evicts all the time.
func NewTight(namespaces Namespaces) *Index {
	x := New(namespaces)
	x.limits = limits{tables: 3, recent: 4, known: 5, idleSessions: 1}
	return x
}

// Counting reports whether labels of pods are read.
func (x *Index) Counting() bool { return x.indexLabels }

// Tables returns the number of tables and counts of terms.
func (x *Index) Tables() int { return len(x.tables) + len(x.termCounts) }

// Feeds returns the number of subscriptions of classes and terms.
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
func (x *Index) Kept() int { return x.kept }

// Keys returns the number of topology keys.
func (x *Index) Keys() int { return len(x.keys) }

// Begun returns how often counting restarted.
func (x *Index) Begun() int { return x.resets }

// Recent returns how many pods are recognised by their address.
func (x *Index) Recent() int { return len(x.recent) }
