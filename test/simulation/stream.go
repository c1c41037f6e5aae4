package simulation

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/kube"
)

// watchStream is one informer of a process: a list, then a watch from there on, and a list again when the watch has been lost
// for too long. What it delivers is late, may come twice, and out of order where objects differ; the changes of one object
// always come in their order, though some of them may be left out by a list.
type watchStream struct {
	process *process
	kind    objectKind
	random  rng
	// store is what the process has received, by name. position is up to which change.
	store    map[string]change
	position int
	// listed reports that the first list has been delivered; open that the watch runs; pumping that a delivery is planned.
	listed, open, pumping bool
	// stalled is until when nothing is delivered.
	stalled time.Time
	// reading is what the process received last about a kind of another project.
	reading cluster.Reading
}

// connect lists, after a while, and then watches. A first list may be an old one, as from an API server that lags behind.
func (s *watchStream) connect(delay time.Duration) {
	s.process.after(delay, "list", func() {
		if !s.mayRead() {
			return
		}
		log := s.process.server.log[s.kind]
		position := len(log)
		if stale := s.process.faults().StaleList; s.random.chance(stale) {
			position -= min(position-s.position, s.random.number(0, 20))
		}
		if position > s.position || !s.listed || isForeign(s.kind) && s.reading != cluster.IsRead {
			s.list(position)
		}
		s.say(cluster.IsRead)
		s.forgetWritten()
		s.listed, s.open = true, true
		s.process.synced()
		s.pump()
	})
}

// forgetWritten forgets claims that the process has written and that were gone before it received them.
func (s *watchStream) forgetWritten() {
	if s.kind != kindClaim || s.position == 0 {
		return
	}
	for name, mine := range s.process.wrote {
		if _, known := s.process.told[kindClaim][name]; !known && versionOf(mine) <= s.process.server.log[s.kind][s.position-1].version {
			delete(s.process.wrote, name)
		}
	}
}

// mayRead reports whether the kind can be read. One that cannot is given up: the process receives that, and forgets the objects.
func (s *watchStream) mayRead() bool {
	reading := s.process.server.unread[s.kind]
	if reading == cluster.NotRead {
		return true
	}
	s.open, s.listed = false, true
	clear(s.store)
	clear(s.process.told[s.kind])
	s.say(reading)
	s.process.synced()
	return false
}

// say sends to the process how far the objects of another project can be read.
func (s *watchStream) say(reading cluster.Reading) {
	if isForeign(s.kind) && s.reading != reading {
		s.reading = reading
		s.process.receiveEvent(&cluster.ReadingChanged{Source: sourceOf(s.kind), Reading: reading})
	}
}

// ask looks within a minute, and again and again, whether objects of another project can be read.
func (s *watchStream) ask() {
	s.process.after(s.random.span(time.Second, time.Minute), "ask", func() {
		s.process.whenThawed(func() {
			if s.mayRead() && s.listed && s.reading != cluster.IsRead {
				s.connect(0)
			}
			s.ask()
		})
	})
}

// list brings the store to where the objects were at a position, and tells the process of the difference.
func (s *watchStream) list(position int) {
	all := s.process.server.listAt(s.kind, position)
	var gone []change
	for _, name := range sortedNames(s.store) {
		if !slices.ContainsFunc(all, func(c change) bool { return keyOf(c.object) == name }) {
			gone = append(gone, s.store[name])
		}
	}
	s.position = position
	for _, one := range all {
		s.deliver(one)
	}
	for _, one := range gone { // the last that was seen of it, in the version in which it was
		one.deleted = true
		s.deliver(one)
	}
}

// lose breaks the watch. It goes on where it was after a while, or with a list if that is too long ago by then.
func (s *watchStream) lose(delay time.Duration, expired bool) {
	if !s.open {
		return
	}
	s.open = false
	if expired {
		s.connect(delay)
		return
	}
	s.process.after(delay, "watch", func() {
		if isForeign(s.kind) && s.reading != cluster.IsRead { // it was given up
			return
		}
		s.open = true
		s.pump()
	})
}

// stall holds everything up for a while.
func (s *watchStream) stall(span time.Duration) {
	s.stalled = s.process.queue.now.Add(span)
}

// pump plans the next delivery when there is something to deliver.
func (s *watchStream) pump() {
	if !s.open || s.pumping || s.position >= len(s.process.server.log[s.kind]) {
		return
	}
	s.pumping = true
	delay := s.random.span(time.Millisecond, 8*time.Millisecond)
	if s.random.chance(s.process.faults().SlowWatch) {
		delay = s.random.span(10*time.Millisecond, 3*time.Second)
	}
	delay = max(delay, s.stalled.Sub(s.process.queue.now))
	s.process.after(delay, "deliver", func() {
		s.pumping = false
		switch {
		case !s.open:
		case s.process.frozen():
			s.process.whenThawed(s.pump)
		default:
			s.deliverSome()
			s.pump()
		}
	})
}

// deliverSome delivers what is there, or part of it.
func (s *watchStream) deliverSome() {
	faults := s.process.faults()
	batch := slices.Clone(s.process.server.log[s.kind][s.position:])
	if len(batch) == 0 { // a list has brought it all meanwhile
		return
	}
	if s.random.chance(200) {
		batch = batch[:s.random.number(1, len(batch))]
	}
	s.position += len(batch)
	if s.random.chance(faults.Reorder) {
		s.mix(batch)
	}
	for _, one := range batch {
		s.deliver(one)
		if s.random.chance(faults.Duplicate) {
			s.deliver(one)
		}
	}
}

// mix changes the order of what is about different objects.
func (s *watchStream) mix(batch []change) {
	for i := range batch {
		j := s.random.number(0, i)
		if between := batch[min(i, j) : max(i, j)+1]; !repeats(between) {
			batch[i], batch[j] = batch[j], batch[i]
		}
	}
}

// repeats reports whether two changes are about one name.
func repeats(batch []change) bool {
	seen := map[string]bool{}
	for _, one := range batch {
		if seen[keyOf(one.object)] {
			return true
		}
		seen[keyOf(one.object)] = true
	}
	return false
}

// deliver tells the process of a change, as an informer's handler does: another object of a name is the end of the one before.
func (s *watchStream) deliver(one change) {
	name := keyOf(one.object)
	before, known := s.store[name]
	switch {
	case one.deleted:
		delete(s.store, name)
		if known {
			s.process.onWatchEnd(one)
		}
		return
	case known && before.object.GetUID() != one.object.GetUID():
		before.deleted = true
		s.process.onWatchEnd(before)
	}
	s.store[name] = one
	s.process.onWatchEnd(one)
}

// eventOf is what an informer makes of a change.
func eventOf(one change) cluster.Event {
	switch o := one.object.(type) {
	case *corev1.Pod:
		return &cluster.PodSeen{Pod: cluster.KeptPod(o), Gone: one.deleted}
	case *corev1.Node:
		return &cluster.NodeSeen{Node: cluster.StripNode(o), Gone: one.deleted}
	case *v1alpha1.PodGroup:
		return &cluster.GroupSeen{Group: o, Gone: one.deleted}
	case *policyv1.PodDisruptionBudget:
		return &cluster.BudgetSeen{Budget: o, Gone: one.deleted}
	case *v1alpha1.Queue:
		return &cluster.QueueSeen{Queue: o, Gone: one.deleted}
	case *resourceapi.ResourceClaim:
		return &cluster.ClaimSeen{Claim: o, Gone: one.deleted}
	case *resourceapi.DeviceClass:
		return &cluster.DeviceClassSeen{Class: o, Gone: one.deleted}
	case *corev1.Namespace:
		return &cluster.NamespaceSeen{Namespace: o, Gone: one.deleted}
	default:
		return &cluster.ForeignSeen{Spec: decoded(one.kind, o.(*unstructured.Unstructured)), Gone: one.deleted}
	}
}

// tellOf tells what informers make of a change; of a slice the inventory says which devices its node has then.
func tellOf(one change, inventory *kube.DeviceInventory, push func(cluster.Event)) {
	switch o := one.object.(type) {
	case *resourceapi.ResourceSlice:
		if one.deleted {
			inventory.RemoveSlice(o.Name)
		} else {
			inventory.SetSlice(o)
		}
		return
	case *resourceapi.DeviceClass:
		push(eventOf(one))
		if one.deleted {
			inventory.RemoveClass(o.Name)
		} else {
			inventory.SetClass(o)
		}
		return
	}
	push(eventOf(one))
}

// String names the stream in the trace.
func (s *watchStream) String() string { return fmt.Sprintf("%s/%d", s.process.name, s.kind) }
