package cluster

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/google/go-cmp/cmp"

	groupfake "github.com/tutti-sched/tutti/apis/client/clientset/versioned/fake"
	"github.com/tutti-sched/tutti/apis/client/informers/externalversions"
)

func TestWatchPushesEverythingBeforeItIsSynced(t *testing.T) {
	full := pod("p")
	full.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	client := fake.NewClientset(full, node("n"), class("c", 5), deviceClass("d", ""), budget("b", "x", 1))
	groupClient := groupfake.NewSimpleClientset(group("g", 1))
	kube, groups := informers.NewSharedInformerFactory(client, 0), externalversions.NewSharedInformerFactory(groupClient, 0)

	events := make(chan Event, 100)
	synced, err := Watch(kube, groups, func(event Event) { events <- event })
	if err != nil {
		t.Fatal(err)
	}
	others, err := WatchOthers(kube, func(event Event) { events <- event })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer func() {
		cancel()
		kube.Shutdown()
		groups.Shutdown()
	}()
	kube.StartWithContext(ctx)
	groups.StartWithContext(ctx)
	for _, source := range append(synced, others...) {
		if !cache.WaitForCacheSync(ctx.Done(), source.HasSynced) || source.Ready() != nil {
			t.Fatalf("not synced: %v", source.Ready())
		}
	}
	s := New(Options{SchedulerNames: []string{"tutti"}})
	for len(events) > 0 {
		s.Apply(<-events)
	}
	if s.Pod("p") == nil || s.Pod("p").ManagedFields != nil || s.nodes["n"] == nil || s.Group(ns("g")) == nil || s.classes["c"].value != 5 ||
		s.devices.classes.objects["d"] == nil || len(s.budgets.known) != 1 {
		t.Errorf("not all that was there has been pushed: %v %v %v %v %v %v", s.pods.entries, s.nodes, s.groups, s.classes, s.devices.classes, s.budgets.known)
	}

	if err := client.CoreV1().Pods("ns").Delete(ctx, "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Apply(<-events)
	if s.Pod("p") != nil {
		t.Error("a deleted pod is still there")
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	if _, err := client.CoreV1().PersistentVolumeClaims("ns").Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if event, is := (<-events).(*OtherSeen); !is {
		t.Errorf("a new claim is %+v", event)
	}
}

func TestMissedDeletion(t *testing.T) {
	var got []Event
	var lock sync.Mutex
	handler := eventHandler(func(event Event) {
		lock.Lock()
		defer lock.Unlock()
		got = append(got, event)
	}, func(pod *corev1.Pod, gone bool) Event { return &PodSeen{pod, gone} })
	p := pod("p")
	handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/p", Obj: p})
	handler.OnDelete("nonsense")
	next := pod("p")
	next.UID = "another"
	handler.OnUpdate(p, next) // the watch was away while p ended and the next one of its name came
	handler.OnUpdate(next, next)
	want := []Event{
		&PodSeen{Pod: p, Gone: true}, &PodSeen{Pod: p, Gone: true}, &PodSeen{Pod: next}, &PodSeen{Pod: next},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestASourceSaysWhyItWaits: which list fails, and why.
func TestASourceSaysWhyItWaits(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("nodes"), "", errors.New("no role"))
	})
	kube, groups := informers.NewSharedInformerFactory(client, 0), externalversions.NewSharedInformerFactory(groupfake.NewSimpleClientset(), 0)
	sources, err := Watch(kube, groups, func(Event) {})
	if err != nil {
		t.Fatal(err)
	}
	if got := sources[1].Ready(); got == nil || got.Error() != "nodes" {
		t.Errorf("before the start: %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer func() { cancel(); kube.Shutdown() }()
	kube.StartWithContext(ctx)
	for !strings.Contains(sources[1].Ready().Error(), "no role") {
		<-time.NewTimer(time.Millisecond).C
	}
	if got := sources[1].Ready(); !strings.HasPrefix(got.Error(), "nodes: ") {
		t.Errorf("it says %q", got)
	}
}
