package inprocess

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

func TestSameWorkloadSameObjects(t *testing.T) {
	for _, kind := range Kinds() {
		w := Workload{Kind: kind, Nodes: 20, Existing: 120, Pending: 130, GangSize: 50}
		var text [2]string
		for i := range text {
			o := w.Objects()
			for _, node := range o.Nodes { // a heartbeat is the only time of day in it
				node.Status.Conditions = nil
			}
			b, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			text[i] = string(b)
		}
		if text[0] != text[1] {
			t.Errorf("%s: two goes give different objects", kind)
		}
	}
}

func TestWorkloadHasTheSizesAskedFor(t *testing.T) {
	w := Workload{Kind: Identical, Nodes: 20, Existing: 120, Pending: 130, GangSize: 50}
	o := w.Objects()
	if len(o.Nodes) != 20 || len(o.Existing.Pods) != 120 || len(o.Pending.Pods) != 130 {
		t.Errorf("%d nodes, %d existing, %d pending", len(o.Nodes), len(o.Existing.Pods), len(o.Pending.Pods))
	}
	if groups := o.Pending.Groups; len(groups) != w.Gangs() || len(groups) != 3 || groups[2].Spec.MinMember != 30 {
		t.Errorf("%d gangs that wait, the last of %d", len(groups), groups[len(groups)-1].Spec.MinMember)
	}
	members := map[string]int32{}
	others := 0
	for _, pod := range o.Existing.Pods {
		if pod.Spec.NodeName == "" || pod.Status.Phase != corev1.PodRunning {
			t.Fatalf("%s does not run", pod.Name)
		}
		if pod.Spec.SchedulerName == corev1.DefaultSchedulerName {
			others++
			continue
		}
		members[pod.Labels[v1alpha1.LabelPodGroup]]++
	}
	for _, group := range o.Existing.Groups {
		if members[group.Name] != group.Spec.MinMember {
			t.Errorf("%s needs %d and has %d", group.Name, group.Spec.MinMember, members[group.Name])
		}
	}
	if others != 50 || len(o.Existing.Groups) != 2 {
		t.Errorf("%d pods of another scheduler, %d gangs of ours", others, len(o.Existing.Groups))
	}
}

func TestShapesComeInShortRuns(t *testing.T) {
	o := Workload{Kind: Shapes, Nodes: 1, Pending: 20_000, GangSize: 50}.Objects()
	seen, runs, last := map[string]int{}, 0, ""
	for _, pod := range o.Pending.Pods {
		text, err := json.Marshal(pod.Spec.Containers[0].Resources.Requests)
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != last {
			runs++
		}
		last = string(text)
		seen[last]++
	}
	if length := 20_000 / float64(runs); len(seen) != manyShapes || length < 1.3 || length > 1.4 {
		t.Errorf("%d shapes in runs of %.2f; want %d in runs of %.2f", len(seen), length, manyShapes, runLength)
	}
}

func TestHopelessGangsHaveRoomForSomeMembers(t *testing.T) {
	o := Workload{Kind: Hopeless, Nodes: 20, Pending: 80, GangSize: 8}.Objects()
	offered := map[string]int64{}
	for _, node := range o.Nodes {
		if amount, ok := node.Status.Allocatable[rare]; ok {
			offered[node.Name] = amount.Value()
		}
	}
	asked := 0
	for _, pod := range o.Pending.Pods[:8] {
		if amount := pod.Spec.Containers[0].Resources.Requests[rare]; amount.Value() == 1 {
			asked++
		}
	}
	if len(offered) != rareNodes || asked != 8 || len(o.Pending.Groups) != 10+startable {
		t.Errorf("%v offer what %d members ask for; %d gangs", offered, asked, len(o.Pending.Groups))
	}
	if first, last := o.Pending.Groups[0], o.Pending.Groups[10]; !first.CreationTimestamp.Before(&last.CreationTimestamp) {
		t.Error("those that start are not younger")
	}
}

func TestLevelsCrossEachOther(t *testing.T) {
	o := Workload{Kind: WholeNodes, Nodes: 10_000, Pending: 1, GangSize: 1, Topology: Labelled}.Objects()
	racks, cliques, crossing := map[string]int{}, map[string]int{}, map[string]bool{}
	first := map[string]string{}
	for _, node := range o.Nodes {
		rack := node.Labels[levelPrefix+blockLevel] + "/" + node.Labels[levelPrefix+rackLevel]
		clique := node.Labels[levelPrefix+cliqueLevel]
		racks[rack]++
		cliques[clique]++
		if first[clique] == "" {
			first[clique] = rack
		}
		if first[clique] != rack {
			crossing[clique] = true
		}
	}
	if len(racks) != 500 || racks["b9/r49"] != 20 || len(cliques) != 556 || cliques["c0"] != 18 || len(crossing) < 400 {
		t.Errorf("%d racks, %d cliques, %d of them across racks", len(racks), len(cliques), len(crossing))
	}
}
