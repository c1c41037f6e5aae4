package cluster

import (
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

// AgentLeases is what is known of the Leases of nodes' agents.
type AgentLeases int8

// The cases.
const (
	// LeasesIgnored: nodes offer the isolated CPUs that they publish, whether or not their agents are there.
	LeasesIgnored AgentLeases = iota
	// LeasesWatched: a node offers them while the Lease of its agent is valid.
	LeasesWatched
	// LeasesUnwatched: no agent is known to enforce them. No node offers any, and what stands on a pod does not count.
	LeasesUnwatched
)

// leases are those of the nodes' agents. A node whose agent lets its Lease expire is given no isolated pods, since no agent
// would enforce their CPUs there. Ordinary pods, and those that run, are not affected.
type leases struct {
	mode AgentLeases
	// until is up to when each node's agent's Lease is valid, offered which nodes have isolated CPUs.
	until   map[string]time.Time
	offered map[string]bool
	// dirty reports that the snapshot may have to show something else; second is when it was last shown.
	dirty    bool
	atSecond int64
}

// trackNode takes note of a node that has isolated CPUs, or has none.
func (l *leases) trackNode(name string, topology *isolated.Topology) {
	if l.mode != LeasesIgnored && l.offered[name] != (topology != nil) {
		l.dirty = true
		if l.offered[name] = topology != nil; topology == nil {
			delete(l.offered, name)
		}
	}
}

// LeaseSeen is a new version of the Lease of a node's agent, or its end.
type LeaseSeen struct {
	Lease *coordinationv1.Lease
	Gone  bool
}

func (e *LeaseSeen) object() (string, metav1.Object, bool) { return "Lease", e.Lease, e.Gone }

// apply records a Lease. A renewal alone changes no decision. A Lease that had expired, or that ends sooner than before, does.
func (e *LeaseSeen) apply(s *State, _ types.UID) Effect {
	name, agents := strings.CutPrefix(e.Lease.Name, isolated.LeasePrefix)
	if !agents || s.leases.mode != LeasesWatched {
		return Effect{}
	}
	before, after := s.leases.until[name], expiryOf(e.Lease)
	if e.Gone {
		after = time.Time{}
	}
	s.leases.until[name] = after
	if after.IsZero() {
		delete(s.leases.until, name)
	}
	node := s.snapshot.Node(name)
	if node == nil || !s.leases.offered[name] || !after.Before(before) && !node.AgentExpired {
		return Effect{}
	}
	s.leases.dirty = true
	return Effect{Schedule: true}
}

// expiryOf returns up to when a Lease holds; zero when it does not say.
func expiryOf(object *coordinationv1.Lease) time.Time {
	if object.Spec.RenewTime == nil || object.Spec.LeaseDurationSeconds == nil {
		return time.Time{}
	}
	return object.Spec.RenewTime.Add(time.Duration(*object.Spec.LeaseDurationSeconds) * time.Second)
}

// isExpired reports whether a node's Lease has expired, in whole seconds.
func (l *leases) isExpired(name string, now time.Time) bool {
	until, known := l.until[name]
	return !known || now.Unix() >= until.Unix()
}

// patchLeases shows which agents are there, and reports whether any has come or gone. Only nodes of which that has changed
// are looked at again.
func (s *State) patchLeases(now time.Time) (changed bool) {
	l := &s.leases
	if len(l.offered) == 0 && !l.dirty || l.atSecond == now.Unix() && !l.dirty {
		return false
	}
	l.atSecond, l.dirty = now.Unix(), false
	for name := range l.offered {
		if node := s.snapshot.Node(name); node != nil && node.AgentExpired != l.isExpired(name, now) {
			node.AgentExpired = !node.AgentExpired
			s.snapshot.NodeChanged(node)
			changed = true
		}
	}
	return changed
}

// nextExpiry returns when the first Lease expires; zero when none does.
func (l *leases) nextExpiry(now time.Time) (first time.Time) {
	for name := range l.offered {
		until, known := l.until[name]
		if at := until.Truncate(time.Second); known && at.Unix() > now.Unix() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}
