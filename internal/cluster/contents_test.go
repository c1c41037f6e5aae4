package cluster

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// notCarried are the fields of a State that a restored one need not have as the first one does, and why.
var notCarried = map[string]string{
	"incarnations.newest":   "compared where it is not of pods: those that are gone are not remembered, the others follow from the records",
	"incarnations.oldest":   "carried over; only thousands of deletions move it, which no history here has",
	"pods.entries":          "its records are compared one by one; the rest is of one snapshot",
	"pods.members":          "follows from the records",
	"pods.uncertain":        "follows from the records",
	"pods.held":             "follows from the records",
	"pods.releasing":        "follows from the records",
	"pods.nominated":        "follows from the records",
	"claims.users":          "follows from the records",
	"claims.holders":        "follows from claims.known",
	"foreign.awaited":       "found as jobs are filled",
	"foreign.told":          "what the follower was told, and a restored state has none",
	"foreign.await":         "a restored state tells no follower",
	"offered.counted":       "follows from the translators",
	"offered.translators":   "those of the profile that reads the restored state",
	"budgets.dirty":         "the next snapshot looks at everything",
	"queues.starts":         "Contents brings queues.lastStart up to date",
	"queues.dirty":          "the next snapshot looks at everything",
	"namespaces.relabelled": "for the journal of one snapshot",
	"leases.dirty":          "the next snapshot looks at everything",
	"leases.atSecond":       "when the snapshot was last given them",
	"said.known":            "lets pods that say the same share memory",
	"said.said":             "as said.known",
	"said.read":             "as said.known",
	"dirty.pods":            "the next snapshot looks at everything",
	"dirty.jobs":            "the next snapshot looks at everything",
	"dirty.nodes":           "the next snapshot looks at everything",
	"guard.malformed":       "what the loop is yet to log",
	"guard.probe":           "for tests",
	"snapshot":              "compared by its text",
	"width":                 "of one snapshot",
	"filled":                "counts what was written to one snapshot",
	"view":                  "of one snapshot",
}

// partsOf lists the fields of a State by path, those of its own structs of this package one by one.
func partsOf(s *State) map[string]reflect.Value {
	found := map[string]reflect.Value{}
	var walk func(path string, value reflect.Value)
	walk = func(path string, value reflect.Value) {
		if kind := value.Type(); kind.Kind() == reflect.Struct && (strings.HasSuffix(kind.PkgPath(), "internal/cluster") || path == "said") {
			for i := range value.NumField() {
				walk(strings.TrimPrefix(path+"."+kind.Field(i).Name, "."), value.Field(i))
			}
			return
		}
		found[path] = value
	}
	walk("", reflect.ValueOf(s).Elem())
	return found
}

// text writes a field down: maps in the order of their keys, and what they hold by what it points to.
func text(value reflect.Value) string {
	if value.Kind() == reflect.Map {
		var lines []string
		for _, key := range value.MapKeys() {
			lines = append(lines, fmt.Sprintf("%+v: %+v", key, value.MapIndex(key)))
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	if value.Kind() == reflect.Pointer {
		return fmt.Sprintf("%+v", value.Elem())
	}
	return fmt.Sprintf("%+v", value)
}

// jobsWith lists the jobs of which something is remembered.
func jobsWith(h *history) string {
	var lines []string
	for _, one := range []any{h.evicted, h.reclaims, h.seenWhole, h.saidLater} {
		for _, key := range reflect.ValueOf(one).MapKeys() {
			lines = append(lines, fmt.Sprintf("%T %v", one, key))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// recordsOf lists the records of the pods by UID.
func recordsOf(s *State) map[types.UID]*podState {
	records := map[types.UID]*podState{}
	for uid, entry := range s.pods.entries {
		if entry.record != nil {
			records[uid] = entry.record
		}
	}
	return records
}

// sameContents compares two states field by field. It takes note of the fields that held something.
func sameContents(t *rapid.T, live, restored *State, held map[string]bool) {
	before, after := partsOf(live), partsOf(restored)
	for path, field := range before {
		if notCarried[path] != "" {
			continue
		}
		held[path] = held[path] || !field.IsZero() && (field.Kind() != reflect.Map || field.Len() > 0)
		same(t, path, text(field), text(after[path]))
	}
	for kind, newest := range live.incarnations.newest {
		if kind != kindPod && !maps.Equal(newest, restored.incarnations.newest[kind]) {
			t.Fatalf("of each %s was seen %v, and restored %v", kind, newest, restored.incarnations.newest[kind])
		}
	}
	if !maps.Equal(recordsOf(live), recordsOf(restored)) {
		t.Fatal("a pod has another record")
	}
}

// episode changes what only memory knows, as a loop does beside sessions.
func episode(t *rapid.T, w *world, s *State, now time.Time) {
	snapshot := s.LastSnapshot()
	if len(snapshot.Jobs) == 0 {
		return
	}
	job := rapid.SampledFrom(snapshot.Jobs).Draw(t, "job")
	switch w.number(3, "episode") {
	case 0:
		s.Assume(model.Decision{Job: job.Key, Reservation: &model.Reservation{
			Since: now, Until: now.Add(time.Hour), Nodes: []model.ReservedNode{{Node: w.name("n", 3), Members: 1}},
		}})
	case 1:
		var victims []model.Eviction
		for _, task := range job.Tasks {
			s.Assume(evict(string(task.UID)))
			victims = append(victims, model.Eviction{Pod: task.PodRef, Job: job.Key})
		}
		s.Reclaimed(victims)
	case 2:
		for _, task := range job.Pending() {
			s.Outdated(task.UID, task.Pod.ResourceVersion)
		}
	case 3:
		for _, task := range job.Pending() {
			decision := bind(string(task.UID), w.name("n", 3))
			decision.LastStart = now
			s.Assume(decision)
		}
	}
}

// lease is a version of the Lease of a node's agent.
func (w *world) lease() Event {
	object := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: isolated.LeasePrefix + w.name("n", 4)}, Spec: coordinationv1.LeaseSpec{
		RenewTime: &metav1.MicroTime{Time: start.Add(time.Duration(w.number(60, "renewed")) * time.Second)}, LeaseDurationSeconds: ptr.To[int32](40),
	}}
	object.UID = types.UID(object.Name)
	return w.stamp(object, func(any) Event { return &LeaseSeen{Lease: object} })
}

// I22: a state that is restored from the contents of another one has the same snapshot, and the same memory, after each step of
// any history, and it goes on as the other one does.
func TestARestoredStateIsTheState(t *testing.T) {
	held := map[string]bool{}
	rapid.Check(t, func(t *rapid.T) {
		w, live := newWorld(t), New(Options{SchedulerNames: []string{"tutti"}, AgentLeases: LeasesWatched})
		w.graces = true
		live.View()
		live.history.saidLater[ns("earlier")] = saidLater{object: "object"} // few histories lead to one
		live.Apply(&ReadingChanged{model.SourceCoscheduling, IsRead})
		now := start
		var twin *State
		for range w.number(60, "steps") {
			events := []Event{w.step()}
			if w.chance(10, "a lease") {
				events = append(events, w.lease())
			}
			for _, event := range events {
				if pod, is := event.(*PodSeen); is { // the name of a pod without a record is not carried over
					last, known := live.incarnations.newest[kindPod][identityOf(kindPod, pod.Pod)]
					if known && live.pods.record(last.uid) == nil {
						twin = nil
					}
				}
				live.Apply(event)
				if twin != nil {
					twin.Apply(event)
				}
			}
			if w.chance(40, "lead") && !live.leading {
				live.Lead()
				twin = nil
			}
			restored := Restore(live.Contents(), nil)
			sameContents(t, live, restored, held)
			now = now.Add(time.Duration(w.number(2000, "passes")) * time.Millisecond)
			if !w.chance(3, "cycle") {
				continue
			}
			want := dump(live.Snapshot(now))
			same(t, "the snapshot of the restored state", want, dump(restored.Snapshot(now)))
			same(t, "the jobs with a history", jobsWith(&live.history), jobsWith(&restored.history))
			if twin != nil {
				same(t, "the snapshot of the one that was restored earlier", want, dump(twin.Snapshot(now)))
			}
			if err := restored.snapshot.Check(); err != nil {
				t.Fatal(err)
			}
			twin = restored
			if w.chance(2, "a session") {
				session(t, w, live, live.Snapshot(now))
				episode(t, w, live, now)
				live.TakeConflicts()
				twin = nil
			}
		}
	})
	if t.Failed() {
		return
	}
	for path := range partsOf(newState()) {
		if notCarried[path] == "" && !held[path] {
			t.Errorf("no history had anything in %s, so that nothing shows whether it is carried over", path)
		}
	}
	for path := range notCarried {
		if _, there := partsOf(newState())[path]; !there {
			t.Errorf("%s is no field of a State", path)
		}
	}
}

// What a question does to its own state is not seen by the one that was asked, nor by another one of the same contents.
func TestRestoredStatesAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, live := newWorld(t), newState()
		w.graces = true
		for range w.number(30, "steps") {
			live.Apply(w.step())
		}
		now := start.Add(time.Minute)
		before := live.Snapshot(now).Digest()
		contents := live.Contents()
		untouched := Restore(contents, nil).Snapshot(now).Digest()
		changed := Restore(contents, nil)
		changed.View()
		for range w.number(30, "other steps") {
			changed.Apply(w.step())
			if w.chance(3, "a session") {
				session(t, w, changed, changed.Snapshot(now))
				episode(t, w, changed, now)
			}
		}
		changed.Configure(nil, time.Second)
		changed.Snapshot(now)
		if after := Restore(contents, nil).Snapshot(now).Digest(); after != untouched || after != before {
			t.Errorf("the contents have changed: %s, then %s, and %s at first", untouched, after, before)
		}
		if after := live.Snapshot(now).Digest(); after != before {
			t.Errorf("the state has changed from %s to %s", before, after)
		}
	})
}

// Another goroutine restores states while the one that owns the first goes on; the race detector judges.
func TestContentsAreReadBesideTheState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, live := newWorld(t), newState()
		w.graces = true
		for range 20 {
			live.Apply(w.step())
		}
		now := start.Add(time.Minute)
		live.Snapshot(now)
		contents, done := live.Contents(), make(chan struct{})
		go func() {
			defer close(done)
			for range 2 {
				s := Restore(contents, nil)
				s.Snapshot(now)
				s.Configure(nil, time.Second)
				s.Snapshot(now)
			}
		}()
		defer func() { <-done }()
		for range 20 {
			live.Apply(w.step())
			session(t, w, live, live.Snapshot(now))
		}
	})
}

// Each map of the contents is another one than that of the state.
func TestContentsShareNoMap(t *testing.T) {
	s := newState(node("n"), pod("p", on("n"), phase("Running"), of("g")), group("g", 1), deviceClass("d0", ""), &kube.NodeDevices{Node: "n"})
	s.schedulers["another"] = true
	s.Snapshot(start)
	before, after := partsOf(s), partsOf(s.Contents().held)
	for path, field := range before {
		if field.Kind() == reflect.Map && path != "schedulers" && notCarried[path] == "" && field.Pointer() == after[path].Pointer() {
			t.Errorf("%s is shared", path)
		}
	}
}

func BenchmarkContents(b *testing.B) {
	for _, nodes := range []int{1000, 5000, 20000} {
		s := crowded(nodes)
		b.Run(fmt.Sprintf("nodes=%d/contents", nodes), func(b *testing.B) {
			for b.Loop() {
				s.Contents()
			}
		})
		b.Run(fmt.Sprintf("nodes=%d/restore", nodes), func(b *testing.B) {
			for b.Loop() {
				Restore(s.Contents(), nil).Snapshot(start)
			}
		})
	}
}
