package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	discoveryfake "k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

var coschedulingGroups = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}

// foreignServer is an API server that may serve groups of scheduling.x-k8s.io.
type foreignServer struct {
	lock      sync.Mutex
	discovery *discoveryfake.FakeDiscovery
	client    *dynamicfake.FakeDynamicClient
	forbidden bool
	// gone reports that lists and watches are answered with not found; watches is the last watch.
	gone     bool
	watches  *watch.FakeWatcher
	down     error
	asked    int
	events   chan Event
	follower *Follower
}

func newForeignServer() *foreignServer {
	kube := fake.NewClientset()
	f := &foreignServer{
		discovery: kube.Discovery().(*discoveryfake.FakeDiscovery),
		client: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{coschedulingGroups: "PodGroupList"}),
		events: make(chan Event, 1000),
	}
	f.client.PrependReactor("list", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
		f.lock.Lock()
		defer f.lock.Unlock()
		if f.gone {
			return true, nil, apierrors.NewNotFound(coschedulingGroups.GroupResource(), "")
		}
		if f.forbidden {
			return true, nil, apierrors.NewForbidden(coschedulingGroups.GroupResource(), "", errors.New("no role"))
		}
		return false, nil, nil
	})
	f.client.PrependWatchReactor("podgroups", func(clienttesting.Action) (bool, watch.Interface, error) {
		f.lock.Lock()
		defer f.lock.Unlock()
		if f.gone {
			return true, nil, apierrors.NewNotFound(coschedulingGroups.GroupResource(), "")
		}
		f.watches = watch.NewFake()
		return true, f.watches, nil
	})
	f.follower = NewFollower(f, f.client, func(event Event) { f.events <- event })
	f.follower.given = 0
	f.follower.followed = slices.DeleteFunc(f.follower.followed, func(one *followed) bool { return one.Source != model.SourceCoscheduling })
	return f
}

// ServerResourcesForGroupVersion is what discovery answers.
func (f *foreignServer) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.asked++; f.down != nil {
		return nil, f.down
	}
	return f.discovery.ServerResourcesForGroupVersion(version)
}

// ServerGroupsAndResources and the others are not asked.
func (f *foreignServer) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	panic("not asked")
}

func (f *foreignServer) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	panic("not asked")
}

func (f *foreignServer) ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error) {
	panic("not asked")
}

// change changes what the server serves and allows.
func (f *foreignServer) change(served, forbidden bool, down error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.forbidden, f.down, f.discovery.Resources = forbidden, down, nil
	if served {
		f.discovery.Resources = []*metav1.APIResourceList{{
			GroupVersion: "scheduling.x-k8s.io/v1alpha1", APIResources: []metav1.APIResource{{Name: "podgroups"}, {Name: "podgroups/status"}},
		}}
	}
}

// await returns the next event.
func (f *foreignServer) await(t *testing.T) Event {
	t.Helper()
	return <-f.events
}

// reads wants the next event to say how far the objects can be read.
func (f *foreignServer) reads(t *testing.T, want Reading) {
	t.Helper()
	if got, is := f.await(t).(*ReadingChanged); !is || got.Reading != want || got.Source != model.SourceCoscheduling {
		t.Fatalf("%+v instead of reading %v", got, want)
	}
}

func foreignGroup(name string, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "spec": spec}}
	object.SetNamespace("ns")
	object.SetName(name)
	object.SetUID("uid-" + "1")
	return object
}

// TestAForeignKindIsFollowed as it appears, is forbidden and vanishes. Nothing runs beside the looks, so that each is seen alone.
func TestAForeignKindIsFollowed(t *testing.T) {
	f := newForeignServer()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	one := f.follower.followed[0]
	source := f.follower.Sources()[0]
	look := func() { f.follower.look(ctx, one) }
	quiet := func(what string) {
		t.Helper()
		if len(f.events) > 0 {
			t.Fatalf("%s: %+v", what, <-f.events)
		}
	}
	f.change(false, false, errors.New("down"))
	look()
	if quiet("no answer"); source.Ready() == nil || source.HasSynced() {
		t.Error("it is ready, and nothing is known")
	}
	f.change(false, false, nil)
	look()
	f.reads(t, NotServed)
	if source.Ready() != nil {
		t.Error("it waits for what is not served:", source.Ready())
	}
	asked := f.asked
	look()
	if quiet("not served, as before"); f.asked != asked+1 || len(f.client.Actions()) != 0 {
		t.Errorf("a kind that is not served cost %d requests and %v", f.asked-asked, f.client.Actions())
	}
	f.change(true, true, nil)
	look()
	f.reads(t, NotAllowed)

	group := foreignGroup("g", map[string]any{"minMember": int64(3)})
	if _, err := f.client.Resource(coschedulingGroups).Namespace("ns").Create(ctx, group, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.change(true, false, nil)
	look()
	if got, is := f.await(t).(*ForeignSeen); !is || got.Spec.MinMember != 3 || got.GroupKey() != foreignKey("g") {
		t.Fatalf("%+v instead of the group", got)
	}
	f.reads(t, IsRead)
	look()
	quiet("served, as before")

	f.change(false, false, nil)
	look()
	quiet("not served once")
	f.change(true, false, nil)
	look()
	f.change(false, false, nil)
	look()
	quiet("not served once again")
	f.change(false, false, errors.New("down"))
	look()
	f.change(false, false, nil)
	look()
	f.reads(t, NotServed)
	if one.stop != nil {
		t.Error("it is watched still")
	}
	f.change(true, false, nil)
	look()
	if got, is := f.await(t).(*ForeignSeen); !is {
		t.Fatalf("%+v instead of the group", got)
	}
	f.reads(t, IsRead)
	f.follower.Use([]string{"coscheduling"})
	look()
	f.reads(t, NotRead)
	asked = f.asked
	look()
	if quiet("off"); f.asked != asked || one.stop != nil {
		t.Error("a source that is off costs something")
	}
}

// TestAFollowerRuns until its context ends, and looks again when the sources that are off change.
func TestAFollowerRuns(t *testing.T) {
	f := newForeignServer()
	f.change(true, false, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.follower.Run(ctx) }()
	f.reads(t, IsRead)
	f.follower.Use([]string{"coscheduling"})
	f.reads(t, NotRead)
	f.follower.Use(nil)
	f.reads(t, IsRead)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestAKindIsFollowedSoonWhileJobsWait for its objects, and given up soon once the API server says that it does not serve it, not
// at the next of the looks that come once in a while.
func TestAKindIsFollowedSoonWhileJobsWait(t *testing.T) {
	f := newForeignServer()
	f.follower.interval, f.follower.soon = time.Hour, time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.follower.Run(ctx) }()
	f.reads(t, NotServed)
	s := New(Options{SchedulerNames: []string{"tutti"}, Await: f.follower.Await})
	s.Apply(seen(pod("p", ofForeign("g"))))
	snap(t, s, start)
	f.change(true, false, nil)
	f.reads(t, IsRead)

	f.change(false, false, nil)
	f.lock.Lock()
	f.gone = true
	f.lock.Unlock()
	f.watches.Stop() // as the API server does when the kind goes
	f.reads(t, NotServed)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestWhatJobsLackIsTold as it changes: the objects of groups, and the parents of those that lack members.
func TestWhatJobsLackIsTold(t *testing.T) {
	var told [][]model.Source
	s := New(Options{SchedulerNames: []string{"tutti"}, Await: func(sources []model.Source) { told = append(told, sources) }})
	want := func(step string, sources ...model.Source) {
		t.Helper()
		snap(t, s, start)
		if len(told) == 0 || !slices.Equal(told[len(told)-1], sources) {
			t.Errorf("%s: %v was told, want %v", step, told, sources)
		}
	}
	s.Apply(seen(pod("p", ofForeign("g"))))
	want("a pod without its group", model.SourceCoscheduling)
	s.Apply(seen(pod("q", ofForeign("g"))))
	s.Apply(seen(pod("r", ofForeign("h"))))
	want("more of them", model.SourceCoscheduling)
	if len(told) != 1 {
		t.Errorf("told %v, which is the same", told)
	}
	s.Apply(seen(pod("v", ofVolcano("g"))))
	want("one of another source", model.SourceCoscheduling, model.SourceVolcano)
	for _, name := range []string{"p", "q", "v"} {
		s.Apply(gone(pod(name)))
	}
	want("one is left", model.SourceCoscheduling)
	s.Apply(&ForeignSeen{Spec: &sources.Spec{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h", UID: "h"}, Source: model.SourceCoscheduling, MinMember: 1}})
	want("it has its group")
}

// TestTheFirstCycleWaitsForALimitedTime for a source of which nothing is known.
func TestTheFirstCycleWaitsForALimitedTime(t *testing.T) {
	f := newForeignServer()
	f.change(false, false, errors.New("down"))
	f.follower.timeout = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = f.follower.Run(ctx) }()
	if source := f.follower.Sources()[0]; !cache.WaitForCacheSync(ctx.Done(), source.HasSynced) || source.Ready() != nil {
		t.Error("it waits still:", source.Ready())
	}
	if len(f.events) > 0 {
		t.Errorf("and nothing was known: %+v", <-f.events)
	}
}

// TestWhatIsKeptOfAForeignObject when it cannot be read: its identity, and why.
func TestWhatIsKeptOfAForeignObject(t *testing.T) {
	one := newForeignServer().follower.followed[0]
	one.Decode = func(*unstructured.Unstructured) *sources.Spec { panic("planted") }
	kept, err := one.keep(foreignGroup("g", nil))
	if spec, ok := kept.(*sources.Spec); err != nil || !ok || spec.Key() != foreignKey("g") || spec.Contradiction != "it cannot be read: planted" {
		t.Errorf("%+v, %v", kept, err)
	}
}

func foreignKey(name string) model.JobKey {
	return model.JobKey{Namespace: "ns", Name: name, Source: model.SourceCoscheduling}
}
