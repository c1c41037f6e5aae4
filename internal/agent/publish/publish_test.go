package publish

import (
	"context"
	"errors"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttest "k8s.io/client-go/testing"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func topology(cpus isolated.CPUSet) *isolated.Topology {
	return &isolated.Topology{
		Version: 1, Source: "isolcpus", Isolated: cpus, Online: isolated.NewCPUSet(0, 1, 2, 3), Mode: isolated.Included, ThreadsPerCore: 1,
		NUMA: []isolated.NUMANode{{CPUs: cpus, Cores: []isolated.CPUSet{cpus}}},
	}
}

func node() *core.Node {
	return &core.Node{
		ObjectMeta: meta.ObjectMeta{Name: "n1", UID: "node-uid", Annotations: map[string]string{"another": "stays"}},
		Status: core.NodeStatus{
			Capacity:    core.ResourceList{core.ResourceCPU: resource.MustParse("4")},
			Allocatable: core.ResourceList{core.ResourceCPU: resource.MustParse("3500m")},
		},
	}
}

// calls returns the requests to the API server since the last call, verbs and resources.
func calls(client *fake.Clientset) []string {
	var all []string
	for _, action := range client.Actions() {
		all = append(all, action.GetVerb()+" "+action.GetResource().Resource)
	}
	client.ClearActions()
	return all
}

func want(t *testing.T, client *fake.Clientset, wanted ...string) {
	t.Helper()
	got := calls(client)
	if len(got) != len(wanted) {
		t.Fatalf("asked %v, want %v", got, wanted)
	}
	for i := range got {
		if got[i] != wanted[i] {
			t.Fatalf("asked %v, want %v", got, wanted)
		}
	}
}

func TestTheAnnotationIsWrittenOnChange(t *testing.T) {
	client := fake.NewClientset(node())
	p := New(client, "n1", "ns", "me")
	read, err := p.Node(t.Context())
	if err != nil || read.Capacity != 4000 || read.Allocatable != 3500 || read.Published != "" {
		t.Fatalf("%+v, %v", read, err)
	}
	published := ""
	write := func(topology *isolated.Topology, generation int64) {
		t.Helper()
		if published, err = p.Topology(t.Context(), published, topology); err != nil {
			t.Fatal(err)
		}
		read, err := p.Node(t.Context())
		if err != nil || read.Published != published {
			t.Fatalf("published %q, believed %q, %v", read.Published, published, err)
		}
		found, err := isolated.ParseTopology(published)
		if err != nil || found.Generation != generation || found.Isolated != topology.Isolated {
			t.Errorf("%s, %v: want generation %d", published, err, generation)
		}
	}
	write(topology(isolated.NewCPUSet(2, 3)), 1)
	want(t, client, "get nodes", "patch nodes", "get nodes")
	write(topology(isolated.NewCPUSet(2, 3)), 1)
	want(t, client, "get nodes")
	write(topology(isolated.NewCPUSet(3)), 2)
	want(t, client, "patch nodes", "get nodes")
	published = "{}" // another writer's
	write(topology(isolated.NewCPUSet(3)), 1)
	kept, err := client.CoreV1().Nodes().Get(t.Context(), "n1", meta.GetOptions{})
	if err != nil || kept.Annotations["another"] != "stays" {
		t.Errorf("%v, %v", kept.Annotations, err)
	}
}

func TestTheLeaseIsRenewed(t *testing.T) {
	client := fake.NewClientset(node())
	p := New(client, "n1", "ns", "me")
	if _, err := p.Node(t.Context()); err != nil {
		t.Fatal(err)
	}
	calls(client)
	renew := func(p *Publisher, at time.Time, holder string, acquired time.Time) {
		t.Helper()
		if err := p.Renew(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		lease, err := client.CoordinationV1().Leases("ns").Get(t.Context(), "isolcpu-n1", meta.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		spec := &lease.Spec
		if *spec.HolderIdentity != holder || !spec.RenewTime.Time.Equal(at) || !spec.AcquireTime.Time.Equal(acquired) ||
			*spec.LeaseDurationSeconds != 40 {
			t.Errorf("%+v", spec)
		}
		if len(lease.OwnerReferences) != 1 || lease.OwnerReferences[0].UID != "node-uid" {
			t.Errorf("owners %+v", lease.OwnerReferences)
		}
	}
	renew(p, start, "me", start)
	renew(p, start.Add(Period), "me", start)
	other := New(client, "n1", "ns", "other")
	if _, err := other.Node(t.Context()); err != nil {
		t.Fatal(err)
	}
	renew(other, start.Add(2*Period), "other", start.Add(2*Period))
}

func TestALeaseThatCouldNotBeWrittenIsReadAgain(t *testing.T) {
	client := fake.NewClientset(node())
	p := New(client, "n1", "ns", "me")
	renew := func() error { return p.Renew(context.Background(), start) }
	if err := renew(); err != nil {
		t.Fatal(err)
	}
	want(t, client, "get leases", "create leases")
	if err := renew(); err != nil {
		t.Fatal(err)
	}
	want(t, client, "update leases")
	broken := true
	client.PrependReactor("update", "leases", func(clienttest.Action) (bool, runtime.Object, error) {
		return broken, nil, errors.New("no")
	})
	if err := renew(); err == nil {
		t.Error("want an error")
	}
	broken = false
	calls(client)
	if err := renew(); err != nil {
		t.Fatal(err)
	}
	want(t, client, "get leases", "update leases")
}

func TestEventsAreNotRepeated(t *testing.T) {
	client := fake.NewClientset(node())
	p := New(client, "n1", "ns", "me")
	note := &PodEvent{Namespace: "jobs", Pod: "worker-0", UID: "u", Reason: "IsolatedCPUsRefused", Message: "container main: no"}
	tell := func(p *Publisher, note *PodEvent, at time.Time) {
		t.Helper()
		if err := p.Event(t.Context(), note, at); err != nil {
			t.Fatal(err)
		}
	}
	tell(p, note, start)
	tell(p, note, start.Add(time.Minute))
	want(t, client, "create events")
	tell(New(client, "n1", "ns", "again"), note, start.Add(time.Minute)) // after a restart: the same name
	want(t, client, "create events")
	tell(p, note, start.Add(time.Hour))
	tell(p, &PodEvent{Reason: "IsolatedCPUsProblem", Message: "static"}, start.Add(time.Hour))
	want(t, client, "create events", "create events")
	pods, err := client.CoreV1().Events("jobs").List(t.Context(), meta.ListOptions{})
	if err != nil || len(pods.Items) != 2 {
		t.Fatalf("%d events of the pod, %v, want 2", len(pods.Items), err)
	}
	if e := pods.Items[0]; e.InvolvedObject.Kind != "Pod" || e.InvolvedObject.Name != "worker-0" || e.InvolvedObject.UID != "u" ||
		e.Type != core.EventTypeWarning || e.Source.Host != "n1" {
		t.Errorf("%+v", e)
	}
	nodes, err := client.CoreV1().Events("default").List(t.Context(), meta.ListOptions{})
	if err != nil || len(nodes.Items) != 1 || nodes.Items[0].InvolvedObject.Kind != "Node" {
		t.Errorf("%+v, %v", nodes.Items, err)
	}
}
