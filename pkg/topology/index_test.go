package topology_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/topology"
)

// spreadReasons returns the reason of each node for a pod that is spread over zones.
func spreadReasons(t *testing.T, index *topology.Index, snapshot *model.Snapshot) string {
	t.Helper()
	pod := benchPod("asks", "job", 0)
	spreadOver(pod, corev1.LabelTopologyZone, corev1.DoNotSchedule)
	f, err := index.Spread(pod)
	if err != nil {
		t.Fatal(err)
	}
	var reasons []topology.Reason
	for _, node := range snapshot.Nodes {
		reasons = append(reasons, f.Check(node))
	}
	return fmt.Sprintf("%d", reasons)
}

func zonedNode(name, zone string) *model.Node {
	node := &corev1.Node{}
	node.Name, node.Labels = name, map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: zone}
	return &model.Node{Name: name, Object: node}
}

func TestTheLeastDomainFollowsPodsAndNodes(t *testing.T) {
	a, b := zonedNode("a", "1"), zonedNode("b", "2")
	snapshot := &model.Snapshot{Dimensions: model.NewDimensions(), Nodes: []*model.Node{a, b}}
	index := topology.New(noNamespaces{})
	index.Follow(snapshot)
	expect := func(when, want string) {
		t.Helper()
		if got := spreadReasons(t, index, snapshot); got != want {
			t.Errorf("%s: the reasons are %s, want %s", when, got, want)
		}
	}
	expect("with no pod there", "[0 0]")
	one, two := benchTask(benchPod("one", "job", 1)), benchTask(benchPod("two", "job", 2))
	nodeCount(snapshot, one, a)
	expect("with one in zone 1", "[1 0]")
	nodeCount(snapshot, two, b)
	expect("with one in each zone", "[0 0]")
	snapshot.SetNodes([]*model.Node{a, b, zonedNode("c", "3")})
	expect("with an empty zone", "[1 1 0]")
	snapshot.SetNodes([]*model.Node{a, b})
	expect("without it", "[0 0]")
	snapshot.Move(one, model.Placement{})
	expect("with one in zone 2", "[0 1]")
	a.Object = zonedNode("a", "2").Object
	snapshot.NodeChanged(a)
	expect("with one zone only", "[0 0]")
	if index.Begun() > 3 { // made, given a snapshot, queried by labels
		t.Errorf("all was begun %d times, want 3", index.Begun())
	}
}

func TestLabelsAreLookedAtOnlyWhenAsked(t *testing.T) {
	snapshot := benchCluster(10, 100)
	index := topology.NewTight(noNamespaces{})
	index.Follow(snapshot)
	plain := benchPod("plain", "job", 0)
	if _, err := index.Affinity(plain); err != nil || index.AffinityScore(plain, 1) != nil || index.Counting() {
		t.Error("a plain pod makes the index look at labels")
	}
	spreadReasons(t, index, snapshot)
	if !index.Counting() {
		t.Fatal("a pod that is spread does not")
	}
	for range 3 {
		index.Follow(snapshot)
		if _, err := index.Affinity(plain); err != nil {
			t.Fatal(err)
		}
	}
	if index.Counting() {
		t.Error("labels are looked at although they were not read for long")
	}
}

func TestNothingIsCountedWithoutAffinity(t *testing.T) {
	snapshot := benchCluster(10, 0)
	index := topology.New(noNamespaces{})
	index.Follow(snapshot)
	pod := benchPod("plain", "job", 0)
	task := benchTask(benchPod("other", "job", 1))
	nodeCount(snapshot, task, snapshot.Nodes[0])
	allocated := testing.AllocsPerRun(100, func() {
		if f, err := index.Affinity(pod); f != nil || err != nil || index.AffinityScore(pod, 1) != nil {
			t.Error("there is something to say")
		}
	})
	if allocated != 0 {
		t.Errorf("asking allocates %v times", allocated)
	}
}

// comeAndGo places pods of one job each and removes them again.
func comeAndGo(t *testing.T, index *topology.Index, snapshot *model.Snapshot, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		pod := benchPod(fmt.Sprint("p", i), fmt.Sprint("job", i), 0)
		requireApart(pod, corev1.LabelHostname)
		if _, err := index.Affinity(pod); err != nil {
			t.Fatal(err)
		}
		task := benchTask(pod)
		nodeCount(snapshot, task, snapshot.Nodes[i%4])
		snapshot.Move(task, model.Placement{})
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	snapshot := benchCluster(4, 0)
	index := topology.NewTight(noNamespaces{})
	index.Follow(snapshot)
	comeAndGo(t, index, snapshot, 0, 50)
	if index.Tables() > 8 || index.Feeds() > 32 {
		t.Errorf("%d tables are kept, and fed by %d", index.Tables(), index.Feeds())
	}
	if index.Recent() > 4 {
		t.Errorf("%d pods are remembered", index.Recent())
	}
	one := index.Kept()
	for i := range 20 {
		index.Follow(snapshot)
		comeAndGo(t, index, snapshot, 50+10*i, 60+10*i)
		if kept := index.Kept(); kept > 3*one {
			t.Fatalf("%d classes, terms and keys are kept of pods that are gone; one session needed %d", kept, one)
		}
	}
	if kept := index.Kept(); kept > one {
		t.Errorf("%d classes, terms and keys are kept after sessions that needed few", kept)
	}
}

// TestManyJobsAreNotCountedAgain: many pending jobs, each with labels and terms of its own, are counted once, not in every
// session.
func TestManyJobsAreNotCountedAgain(t *testing.T) {
	snapshot := benchCluster(4, 0)
	index := topology.NewTight(noNamespaces{})
	ask := func() {
		index.Follow(snapshot)
		comeAndGo(t, index, snapshot, 0, 50)
	}
	ask()
	ask()
	begun := index.Begun()
	ask()
	ask()
	if again := index.Begun() - begun; again > 0 {
		t.Errorf("all was counted restarted %d times", again)
	}
}
