package cluster

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// notWritten are the fields of a State that one need not have which was read from records, beside those that no restored state
// has, and why.
var notWritten = map[string]string{
	"incarnations.newest":     "versions of objects that are gone are not written: no event comes late to a file",
	"incarnations.tombstones": "as incarnations.newest",
	"claims.dirty":            "the next snapshot looks at everything",
	"claims.charges":          "the next snapshot looks at everything",
	"devices.dirty":           "the next snapshot looks at everything",
	"conflicts.dirty":         "compared before the snapshot, which looks at all pods with devices again",
	"queues.inherits":         "compared before the snapshot, which ends it",
	"dimensions":              "its names are compared by those of the memory; an order of its own is one of no amounts",
}

// written passes contents through the text of their records.
func written(t *rapid.T, contents *Contents) *Contents {
	var records []Record
	for _, record := range contents.Records() {
		text, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		var read Record
		decoder := json.NewDecoder(strings.NewReader(string(text)))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&read); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		records = append(records, read)
	}
	read, err := Load(records, nil)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// deeply compares what is behind pointers, too, as far as objects of the API distinguish it.
var deeply = cmp.Options{
	cmp.Exporter(func(reflect.Type) bool { return true }), cmpopts.EquateEmpty(),
	cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 }),
	cmp.Comparer(func(a, b *sources.Source) bool { return a == b }),
	cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) }),
	cmp.Comparer(func(a, b metav1.Time) bool { return a.Time.Equal(b.Time) }),
}

// I22: a state that was read from the records of another one has the same snapshot, and the same memory, after each step of any
// history. Each field of a record held something in one of the histories.
func TestAWrittenStateIsTheState(t *testing.T) {
	held, used := map[string]bool{}, map[string]bool{}
	history := func(t *rapid.T) {
		w, live := newWorld(t), New(Options{SchedulerNames: []string{"tutti"}, AgentLeases: LeasesWatched})
		w.graces = true
		live.history.saidLater[ns("earlier")] = saidLater{object: "object", later: []sources.Later{{Role: "worker", Members: 2}}}
		live.Apply(&ReadingChanged{model.SourceCoscheduling, IsRead})
		var off []string
		if w.chance(2, "a source is off") {
			off = append(off, "volcano")
		}
		live.Configure(nil, time.Duration(w.number(9, "grace")+1)*time.Second, off...)
		now := start
		if w.chance(2, "what histories have seldom") {
			live.Apply(&PodSeen{Pod: pod("prolonged", on("n0"), uid("prolonged"), func(p *corev1.Pod) {
				p.DeletionGracePeriodSeconds, p.DeletionTimestamp = new(int64(3600)), &metav1.Time{Time: start.Add(time.Hour)}
			})})
			live.Apply(&PodSeen{Pod: pod("other", by("other"), of("g0"), phase("Failed"))})
			live.Apply(&PodSeen{Pod: pod("attempted", revised(1))})
			reads := 0
			live.guard.probe = func(identity) {
				if reads++; reads == 2 {
					panic("a defect")
				}
			}
			live.Apply(&PodSeen{Pod: pod("unread", on("n0"), phase("Running"), func(p *corev1.Pod) { p.Generation = 1 })})
			live.guard.probe = nil
			live.Lead()
			live.Snapshot(now)
			live.Assume(nomination("attempted", "n0"))
			live.ForgetNomination("attempted")
			now = now.Add(time.Minute)
		}
		for range w.number(40, "steps") {
			event := w.step()
			if pod, is := event.(*PodSeen); is && pod.Pod.DeletionGracePeriodSeconds != nil && w.chance(2, "an hour of grace") {
				pod.Pod.DeletionGracePeriodSeconds = new(int64(3600))
				pod.Pod.DeletionTimestamp = &metav1.Time{Time: start.Add(time.Hour)}
			}
			if live.guard.probe = nil; w.chance(15, "unreadable") {
				reads := 0
				live.guard.probe = func(identity) { // not over the event, but over what is read of it
					if reads++; reads > 1 {
						panic("a defect")
					}
				}
			}
			live.Apply(event)
			live.guard.probe = nil
			if w.chance(10, "a lease") {
				live.Apply(w.lease())
			}
			if w.chance(40, "lead") && !live.leading {
				live.Lead()
			}
			if w.chance(20, "configure") {
				live.Configure(nil, time.Duration(w.number(9, "grace"))*time.Second, off...)
			}
			if !w.chance(4, "cycle") {
				continue
			}
			now = now.Add(time.Duration(w.number(40_000, "passes")) * time.Millisecond)
			if w.chance(2, "a session") {
				live.View()
				session(t, w, live, live.Snapshot(now))
				episode(t, w, live, now)
				bindWithCPUs(t, w, live)
				live.TakeConflicts()
			}
			if w.chance(10, "lead before a snapshot") && !live.leading {
				live.Lead()
			}
			contents := live.Contents()
			read := written(t, contents)
			if read.At != contents.At.UTC() {
				t.Fatalf("it is of %s, and was of %s", read.At, contents.At)
			}
			for _, record := range contents.Records() {
				use("", reflect.ValueOf(record), used)
			}
			want, got := Restore(contents, nil), Restore(read, nil)
			if !maps.Equal(want.conflicts.dirty, got.conflicts.dirty) {
				t.Fatalf("conflicts are to be looked for on %v, and not on %v", want.conflicts.dirty, got.conflicts.dirty)
			}
			if want.queues.inherits != got.queues.inherits {
				t.Fatal("one inherits starts, and the other does not")
			}
			same(t, "the snapshot of the state that was read", dump(want.Snapshot(now)), dump(got.Snapshot(now)))
			sameText(t, want, got, held)
		}
	}
	for range 4 {
		rapid.Check(t, history)
	}
	if t.Failed() {
		return
	}
	for path := range partsOf(newState()) {
		if notCarried[path]+notWritten[path] == "" && !held[path] {
			t.Errorf("no history had anything in %s, so that nothing shows whether it is written", path)
		}
	}
	for path, has := range used {
		if !has {
			t.Errorf("no history had anything in %s", path)
		}
	}
}

// bindWithCPUs assumes a bind with isolated CPUs, and with a place in the topology.
func bindWithCPUs(t *rapid.T, w *world, s *State) {
	var waiting []*model.Task
	for _, job := range s.LastSnapshot().Jobs {
		waiting = append(waiting, job.Pending()...)
	}
	if len(waiting) == 0 {
		return
	}
	task := rapid.SampledFrom(waiting).Draw(t, "given")
	decision := bind(string(task.UID), w.name("n", 3))
	decision.Binds[0].Place = map[string]string{model.AnnotationDomain: "zone=z1", model.LabelIndex: "3"}
	decision.Binds[0].Isolated = &model.Isolation{Assignment: &isolated.Assignment{
		Version: 1, Node: decision.Binds[0].Node, UID: string(task.UID), CPUs: isolated.NewCPUSet(8, 9),
	}}
	s.Assume(decision)
}

// use takes note of the fields of records that hold something, down to the types of other packages.
func use(path string, value reflect.Value, used map[string]bool) {
	kind := value.Type()
	switch {
	case kind.Kind() == reflect.Pointer && strings.HasSuffix(kind.Elem().PkgPath(), "internal/cluster"):
		if !value.IsNil() {
			use(path, value.Elem(), used)
		}
	case kind.Kind() == reflect.Struct && strings.HasSuffix(kind.PkgPath(), "internal/cluster"):
		for i := range kind.NumField() {
			use(path+"."+kind.Field(i).Name, value.Field(i), used)
		}
	case kind.Kind() == reflect.Slice && kind.Elem().Kind() == reflect.Struct && strings.HasSuffix(kind.Elem().PkgPath(), "internal/cluster"):
		used[path] = used[path] || value.Len() > 0
		for i := range value.Len() {
			use(path+"[]", value.Index(i), used)
		}
	default:
		used[path] = used[path] || !value.IsZero()
	}
}

// sameText compares two states field by field, and what is behind each pointer.
func sameText(t *rapid.T, want, got *State, held map[string]bool) {
	before, after := partsOf(want), partsOf(got)
	for path, field := range before {
		if notCarried[path]+notWritten[path] != "" {
			continue
		}
		held[path] = held[path] || !field.IsZero() && (field.Kind() != reflect.Map || field.Len() > 0)
		if difference := cmp.Diff(exposed(field), exposed(after[path]), deeply); difference != "" {
			t.Fatalf("%s (-want +got):\n%s", path, difference)
		}
	}
	records, read := recordsOf(want), recordsOf(got)
	if difference := cmp.Diff(records, read, deeply); difference != "" {
		t.Fatalf("the records of pods (-want +got):\n%s", difference)
	}
}

// exposed returns what a field holds that is not exported.
func exposed(field reflect.Value) any {
	return reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem().Interface()
}
