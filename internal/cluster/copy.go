package cluster

import (
	"maps"
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

// Copy is the cluster at one moment, for sessions on another goroutine that decide nothing.
type Copy struct {
	Snapshot   *model.Snapshot
	namespaces map[string]map[string]string
}

// Copy returns a copy of what the state knows now. The caller owns it.
func (s *State) Copy(now time.Time) *Copy {
	return &Copy{Snapshot: s.Snapshot(now).Copy(), namespaces: maps.Clone(s.namespaces)}
}

// Replica is a copy as kube-scheduler's plugins read it: the view of its nodes and pods, and the labels of namespaces. One
// goroutine at a time owns it, with the sessions on the copy.
type Replica struct {
	*View
	namespaces map[string]map[string]string
}

// NewReplica returns a replica of an empty cluster.
func NewReplica() *Replica { return &Replica{View: newView(&model.Snapshot{})} }

// Follow shows another copy from now on.
func (r *Replica) Follow(copied *Copy) {
	r.View, r.namespaces = newView(copied.Snapshot), copied.namespaces
}

// NamespaceLabels returns what State.NamespaceLabels returned when the copy was made.
func (r *Replica) NamespaceLabels(name string) (labels map[string]string, exists bool) {
	labels, exists = r.namespaces[name]
	return labels, exists
}
