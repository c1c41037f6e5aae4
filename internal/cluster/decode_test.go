package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/tutti-sched/tutti/apis/client/clientset/versioned"
	"github.com/tutti-sched/tutti/apis/client/informers/externalversions"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// looseServer is an API server whose schemas of PodGroups and Queues take anything. It serves lists, and a watch for each kind.
type looseServer struct {
	*httptest.Server
	lock    sync.Mutex
	version int
	objects map[string]map[string]string // by resource and name, as JSON
	watches map[string]chan string
	uids    map[string]int
}

func newLooseServer(t *testing.T) *looseServer {
	t.Helper()
	s := &looseServer{
		version: 1, objects: map[string]map[string]string{"podgroups": {}, "queues": {}},
		watches: map[string]chan string{"podgroups": make(chan string, 100), "queues": make(chan string, 100)},
		uids:    map[string]int{},
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

// ServeHTTP lists, or watches from then on. It does not stream lists: the client then asks for one.
func (s *looseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"no lists in a stream"}`)
		return
	}
	if r.URL.Query().Get("watch") == "" {
		s.lock.Lock()
		defer s.lock.Unlock()
		items := []string{}
		for _, text := range s.objects[resource] {
			items = append(items, text)
		}
		kind := map[string]string{"podgroups": "PodGroupList", "queues": "QueueList"}[resource]
		fmt.Fprintf(w, `{"kind":%q,"apiVersion":"scheduling.tutti.dev/v1alpha1","metadata":{"resourceVersion":"%d"},"items":[%s]}`,
			kind, s.version, strings.Join(items, ","))
		return
	}
	w.(http.Flusher).Flush()
	for {
		select {
		case event := <-s.watches[resource]:
			fmt.Fprintln(w, event)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// set stores an object of which the spec, and what else is said, are JSON, and shows it to the watch when there is one.
func (s *looseServer) set(resource, name, rest string, event string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.version++
	kind, namespace := "PodGroup", `"namespace":"ns",`
	if resource == "queues" {
		kind, namespace = "Queue", ""
	}
	text := fmt.Sprintf(`{"kind":%q,"apiVersion":"scheduling.tutti.dev/v1alpha1","metadata":{%s"name":%q,"uid":"uid-%d","resourceVersion":"%d","generation":%d},%s}`,
		kind, namespace, name, s.uids[resource+name], s.version, s.version, rest)
	if s.objects[resource][name] = text; event == "DELETED" {
		delete(s.objects[resource], name)
		s.uids[resource+name]++
	}
	if event != "" {
		s.watches[resource] <- fmt.Sprintf(`{"type":%q,"object":%s}`, event, text)
	}
}

func (s *looseServer) client(t *testing.T) *versioned.Clientset {
	t.Helper()
	client, err := NewGroupClient(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// follow starts the informers of a process, and returns its state and a function that applies the next event about an object.
func (s *looseServer) follow(t *testing.T) (*State, func(name string)) {
	t.Helper()
	kube, groups := informers.NewSharedInformerFactory(fake.NewClientset(), 0), externalversions.NewSharedInformerFactory(s.client(t), 0)
	events := make(chan Event, 100)
	push := func(event Event) { events <- event }
	sources, err := Watch(kube, groups, push)
	if err != nil {
		t.Fatal(err)
	}
	queues, err := WatchQueues(groups, push)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); s.CloseClientConnections(); kube.Shutdown(); groups.Shutdown() })
	kube.StartWithContext(ctx)
	groups.StartWithContext(ctx)
	timeout := time.NewTimer(time.Minute)
	t.Cleanup(func() { timeout.Stop() })
	for _, source := range append(sources, queues...) {
		for source.Ready() != nil {
			select {
			case <-time.NewTimer(time.Millisecond).C:
			case <-timeout.C:
				t.Fatal("not ready: ", source.Ready())
			}
		}
	}
	state := newState(node("n"))
	for len(events) > 0 {
		state.Apply(<-events)
	}
	return state, func(name string) {
		t.Helper()
		for {
			select {
			case event := <-events:
				state.Apply(event)
				if _, object, _ := event.object(); object.GetName() == name {
					return
				}
			case <-timeout.C:
				t.Fatal("no event about ", name)
			}
		}
	}
}

// badFields are values of another type than the field has, with what is said of them.
var badFields = map[string]map[string]string{
	"podgroups": {
		`"spec":{"minMember":"four"}`: `spec.minMember is "four", it must be a whole number of 32 bits`,
		`"spec":{"minMember":4e9}`:    `spec.minMember is 4e9, it must be a whole number of 32 bits`,
		`"spec":{"minMember":2,"roles":[{"name":"a","minMember":1},{"name":"b","minMember":"1"}]}`: `spec.roles[1].minMember is "1", it must be a whole number of 32 bits`,
		`"spec":{"minMember":2,"queue":5}`:                                                                      `spec.queue is 5, it must be a text`,
		`"spec":{"minMember":2,"topology":{"level":"rack"}}`:                                                    `spec.topology is {"level":"rack"}, it must be a list`,
		`"spec":{"minMember":2,"memberLoss":"Restart"}`:                                                         `spec.memberLoss is "Restart", it must be an object`,
		`"spec":["minMember"]`:                                                                                  `spec is ["minMember"], it must be an object`,
		`"spec":{"minMember":2},"status":{"members":"2"}`:                                                       `status.members is "2", it must be a whole number of 32 bits`,
		`"spec":{"minMember":2},"status":{"waitingSince":"yesterday"}`:                                          `status.waitingSince is "yesterday", it must be a time`,
		`"spec":{"minMember":2},"status":{"startedRequests":{"cpu":"2 of them"}}`:                               `status.startedRequests[cpu] is "2 of them", it must be an amount of a resource`,
		`"spec":{"minMember":2,"preemptionPolicy":false,"priorityClassName":true}`:                              `spec.priorityClassName is true, it must be a text`,
		`"spec":{"minMember":2,"queue":"` + strings.Repeat("x", 10) + `","expectedRunSeconds":"an \u001bhour"}`: `spec.expectedRunSeconds is "an \u001bhour", it must be a whole number of 64 bits`,
	},
	"queues": {
		`"spec":{"limit":{"nvidia.com/gpu":"eight"}}`:          `spec.limit[nvidia.com/gpu] is "eight", it must be an amount of a resource`,
		`"spec":{"limit":"none"}`:                              `spec.limit is "none", it must be an object`,
		`"spec":{"guarantee":{"cpu":true}}`:                    `spec.guarantee[cpu] is true, it must be an amount of a resource`,
		`"spec":{"weight":"heavy"}`:                            `spec.weight is "heavy", it must be a whole number of 32 bits`,
		`"spec":{"paused":"no"}`:                               `spec.paused is "no", it must be true or false`,
		`"spec":{"parent":{"name":"research"}}`:                `spec.parent is {"name":"research"}, it must be a text`,
		`"spec":{"namespaceSelector":{"matchLabels":{"a":1}}}`: `spec.namespaceSelector.matchLabels[a] is 1, it must be a text`,
		`"spec":{"namespaceSelector":"all"}`:                   `spec.namespaceSelector is "all", it must be an object`,
		`"spec":{},"status":{"conditions":{"type":"Active"}}`:  `status.conditions is {"type":"Active"}, it must be a list`,
		`"spec":{},"status":{"lastStart":"2026-01-01 00:00"}`:  `status.lastStart is "2026-01-01 00:00", it must be a time`,
		`"spec":"a\nb"`:                                        `spec is "a\nb", it must be an object`,
	},
}

// TestAnObjectThatCannotBeDecodedCostsItAlone at the start of a process: the informers become ready with all the others, and the
// object says which of its fields cannot be decoded. It is no different for one that comes later, and is over once it is mended.
func TestAnObjectThatCannotBeDecodedCostsItAlone(t *testing.T) {
	server := newLooseServer(t)
	bad := map[string]string{} // what is said by resource and name
	for resource, values := range badFields {
		for rest, want := range values {
			name := fmt.Sprintf("bad-%d", len(bad))
			server.set(resource, name, rest, "")
			bad[resource+"/"+name] = want
		}
	}
	server.set("podgroups", "fine", `"spec":{"minMember":2}`, "")
	server.set("queues", "fine", `"spec":{"limit":{"cpu":"4"}}`, "")
	state, next := server.follow(t)
	for at, want := range bad {
		resource, name, _ := strings.Cut(at, "/")
		if got := said(t, state, resource, name); got != want {
			t.Errorf("%s: %q, want %q", at, got, want)
		}
	}
	for _, resource := range []string{"podgroups", "queues"} {
		if got := said(t, state, resource, "fine"); got != "" {
			t.Errorf("%s that is fine: %q", resource, got)
		}
		if resource == "podgroups" && state.Group(ns("fine")).Spec.MinMember != 2 {
			t.Errorf("the group that is fine is %+v", state.Group(ns("fine")))
		}
	}
	for resource, values := range badFields {
		for rest, want := range values {
			server.set(resource, "fine", rest, "MODIFIED")
			if next("fine"); said(t, state, resource, "fine") != want {
				t.Errorf("changed to %s: %q, want %q", rest, said(t, state, resource, "fine"), want)
			}
			server.set(resource, "fine", `"spec":{"minMember":2}`, "MODIFIED")
			if next("fine"); said(t, state, resource, "fine") != "" {
				t.Errorf("mended, and %q", said(t, state, resource, "fine"))
			}
			server.set(resource, "fine", rest, "MODIFIED")
			next("fine")
			server.set(resource, "fine", rest, "DELETED")
			next("fine")
			if state.Group(ns("fine")) != nil && resource == "podgroups" || state.Queue("fine") != nil && resource == "queues" {
				t.Errorf("deleted, and there: %s", rest)
			}
			server.set(resource, "fine", `"spec":{"minMember":2}`, "ADDED")
			next("fine")
		}
	}
	read, err := ListFromQuorum(t.Context(), fake.NewClientset(), server.client(t), nil, func(Event) {})
	if err != nil || len(read.groups.uids) != len(badFields["podgroups"])+1 {
		t.Errorf("the list of a takeover: %+v, %v", read, err)
	}
	if serves, err := ServesQueues(t.Context(), server.client(t)); err != nil || !serves {
		t.Errorf("are queues served: %v, %v", serves, err)
	}
}

// said returns what the state has to say of an object that cannot be decoded.
func said(t *testing.T, state *State, resource, name string) string {
	t.Helper()
	var object metav1.Object
	if group := state.Group(ns(name)); resource == "podgroups" && group != nil {
		object = group
	} else if queue := state.Queue(name); resource == "queues" && queue != nil {
		object = queue
	} else {
		t.Fatalf("%s %s is not there", resource, name)
	}
	return Malformed(object)
}

// TestWhatCannotBeDecodedOfAGroupHoldsItsJobBack, and what runs of it keeps its minimum.
func TestWhatCannotBeDecodedOfAGroupHoldsItsJobBack(t *testing.T) {
	server := newLooseServer(t)
	server.set("podgroups", "g", `"spec":{"minMember":"4"},"status":{"startedMinMember":3,"phase":"Running"}`, "")
	server.set("podgroups", "new", `"spec":{"minMember":"4"}`, "")
	state, next := server.follow(t)
	for _, p := range []*corev1.Pod{pod("a", of("g"), on("n")), pod("b", of("g")), pod("c", of("new")), pod("d", of("new")), pod("e")} {
		state.Apply(seen(p))
	}
	snapshot := snap(t, state, start)
	for name, minimum := range map[string]int32{"g": 3, "new": 2} {
		job, want := snapshot.Job(ns(name)), `PodGroup ns/`+name+` could not be read: spec.minMember is "4", it must be a whole number of 32 bits`
		if job.Invalid == nil || job.Invalid.Code != model.Malformed || job.Invalid.Detail != want || job.MinMember != minimum {
			t.Errorf("%s needs %d, %v", name, job.MinMember, job.Invalid)
		}
	}
	if e := taskIn(snapshot, "e"); e.Invalid != nil || snapshot.Job(e.Job).Invalid != nil {
		t.Error("another job is refused")
	}
	server.set("podgroups", "new", `"spec":{"minMember":2}`, "MODIFIED")
	if next("new"); snap(t, state, start).Job(ns("new")).Invalid != nil {
		t.Error("it is mended, and refused")
	}
	server.set("podgroups", "lost", `"spec":{"minMember":4},"status":{"conditions":"all is well"}`, "ADDED")
	next("lost")
	for _, name := range []string{"h", "i"} {
		state.Apply(seen(pod(name, of("lost"), on("n"))))
	}
	if job := snap(t, state, start).Job(ns("lost")); job.Invalid == nil || job.BelowMinimum {
		t.Errorf("whether it was whole cannot be read: refused with %v, to be undone: %v", job.Invalid, job.BelowMinimum)
	}
	if again := stripGroup(state.Group(ns("g"))); Malformed(again) == "" {
		t.Error("the mark is lost where a group is stripped again")
	}
}

// TestAQueueThatCannotBeDecodedStartsNothing, nor do those below it. What else it says counts, also once that alone is mended
// which could not be decoded.
func TestAQueueThatCannotBeDecodedStartsNothing(t *testing.T) {
	server := newLooseServer(t)
	server.set("queues", "all", `"spec":{}`, "")
	server.set("queues", "bad", `"spec":{"parent":"all","limit":{"cpu":"4","nvidia.com/gpu":"eight"}}`, "")
	server.set("queues", "below", `"spec":{"parent":"bad"}`, "")
	server.set("queues", "fine", `"spec":{"parent":"all"}`, "")
	state, next := server.follow(t)
	why := func(name string) string {
		queue := snap(t, state, start).Queue(name)
		if queue.Invalid == nil {
			return ""
		}
		return queue.Inactive + ": " + queue.Invalid.Detail
	}
	want := `Invalid: queue "bad" cannot be read: spec.limit[nvidia.com/gpu] is "eight", it must be an amount of a resource`
	if why("bad") != want || why("below") != want || why("fine") != "" || why("all") != "" {
		t.Errorf("bad: %s\nbelow: %s\nfine: %s\nall: %s", why("bad"), why("below"), why("fine"), why("all"))
	}
	if above := state.snapshot.Queue("bad").Above(); above == nil || above.Name != "all" {
		t.Errorf("what it holds counts in %v", above)
	}
	server.set("queues", "bad", `"spec":{"parent":"all","limit":{"cpu":"4"}}`, "MODIFIED") // which is what could be decoded of it
	if next("bad"); why("bad") != "" || why("below") != "" {
		t.Errorf("mended: %s, %s", why("bad"), why("below"))
	}
}

// TestOtherAnswersStillFail: what is no JSON, or has no name, is an error of the request.
func TestOtherAnswersStillFail(t *testing.T) {
	for _, answer := range []string{
		`{"kind":"QueueList","apiVersion":"scheduling.tutti.dev/v1alpha1","items":[{"spec":{"weight":"x"}}]}`,
		`{"kind":"QueueList","apiVersion":"scheduling.tutti.dev/v1alpha1","items":"none"}`,
		`{"kind":"QueueList","apiVersion":"scheduling.tutti.dev/v1alpha1","items":[`,
		`{"kind":"Other","apiVersion":"example.com/v1"}`,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, answer)
		}))
		client, err := NewGroupClient(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		if list, err := client.SchedulingV1alpha1().Queues().List(t.Context(), metav1.ListOptions{}); err == nil {
			t.Errorf("%s is %+v", answer, list)
		}
		server.Close()
	}
}

// groupList is a list of so many PodGroups as the API server sends it; bad is how many of them cannot be decoded.
func groupList(count, bad int) []byte {
	list := v1alpha1.PodGroupList{TypeMeta: metav1.TypeMeta{Kind: "PodGroupList", APIVersion: v1alpha1.SchemeGroupVersion.String()}}
	for i := range count {
		one := group(fmt.Sprint("group-", i), 8)
		one.TypeMeta = metav1.TypeMeta{Kind: "PodGroup", APIVersion: v1alpha1.SchemeGroupVersion.String()}
		one.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(
			`{"f:spec":{".":{},"f:minMember":{},"f:priorityClassName":{}}}`)}}
		one.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionTrue, Message: "the minimum of 8 is bound"}}
		list.Items = append(list.Items, *one)
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	return []byte(strings.Replace(string(text), `"minMember":8`, `"minMember":"8"`, bad))
}

// BenchmarkGroupList compares the list of 10,000 PodGroups with that of a client that fails with the first one that cannot be
// decoded.
func BenchmarkGroupList(b *testing.B) {
	for _, bad := range []int{0, 1} {
		text := groupList(10_000, bad)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(text)
		}))
		defer server.Close()
		plain, err := versioned.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
		if err != nil {
			b.Fatal(err)
		}
		tolerant, err := NewGroupClient(&rest.Config{Host: server.URL, QPS: -1})
		if err != nil {
			b.Fatal(err)
		}
		for round := range 3 { // other programs are as busy with one as with the other
			for name, client := range map[string]*versioned.Clientset{"plain": plain, "tolerant": tolerant} {
				if bad > 0 && name == "plain" {
					continue
				}
				b.Run(fmt.Sprintf("%s/bad=%d/%d", name, bad, round), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						list, err := client.SchedulingV1alpha1().PodGroups("").List(b.Context(), metav1.ListOptions{})
						if err != nil || len(list.Items) != 10_000 {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
