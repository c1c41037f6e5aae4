package cluster

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// Event is what a watch saw: one of the types whose names end in Seen, or ReadingChanged, as a pointer. Each type is in the file
// of its kind. Objects are never changed afterwards.
type Event interface {
	// object returns what the event is about, nil when it is about none, and the name of its kind, for messages; no two kinds have
	// the same name. With gone it was deleted, and is what was seen of it last.
	object() (kind string, object metav1.Object, gone bool)
	// apply takes in an event that is news. ended is the incarnation that it ends, empty when it ends none: only pods are known by
	// their UID.
	apply(s *State, ended types.UID) Effect
}

// GroupEvent is an event that may change what a gang needs: these are taken in during a session, too.
type GroupEvent interface {
	Event
	// GroupKey returns the key of the group, or of the object that owns pods or groups; without a name when it is all of a source.
	GroupKey() model.JobKey
}

// The names of kinds that are also named without an event.
const (
	kindPod, kindNode, kindGroup          = "pod", "node", "PodGroup"
	kindQueue, kindClaim, kindDeviceClass = "Queue", "ResourceClaim", "DeviceClass"
)

// OtherSeen is a change of an object that the state does not hold, but that kube-scheduler's plugins read from its informer, such
// as a claim or a storage class.
type OtherSeen struct{}

func (e *OtherSeen) object() (string, metav1.Object, bool) { return "object", nil, false }
func (e *OtherSeen) apply(*State, types.UID) Effect        { return Effect{Schedule: true} }

// Effect says what an event affects.
type Effect struct {
	// Schedule reports that a scheduling answer may have changed: a cycle is due.
	Schedule bool
	// Report reports that something which a status shows has changed.
	Report bool
}

func (e Effect) merge(other Effect) Effect {
	return Effect{Schedule: e.Schedule || other.Schedule, Report: e.Report || other.Report}
}

// Apply takes in what a watch saw and says what it affects. Events of different objects may come in any order, late and
// repeated ones are recognised.
//
// An event is admitted here, once: it is of the newest incarnation of its name, and newer than what was seen of it. From here it
// goes on to the file of its kind, and does not come back.
//
// Invariant I25: an object that cannot be read costs its own job, and no other.
func (s *State) Apply(event Event) (effect Effect) {
	kind, object, gone := event.object()
	if object == nil {
		return event.apply(s, "")
	}
	id := identityOf(kind, object)
	ended, news := s.incarnations.admit(id, object, gone)
	if !news {
		return Effect{}
	}
	if s.guard.run(id, func() { effect = event.apply(s, ended) }) != nil {
		return Effect{Schedule: true, Report: true}
	}
	return effect
}
