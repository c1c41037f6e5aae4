package kube

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// Check returns an error that names the first difference between the view and its snapshot: nodes, the pods on each, what
// they take, and every index. It builds each node again and is meant for tests.
func (v *View) Check() error {
	if v.ahead != nil {
		if err := v.ahead.Check(); err != nil {
			return fmt.Errorf("ahead: %w", err)
		}
	}
	v.refresh()
	snapshot := v.snapshot
	fresh := &View{
		snapshot: snapshot, nodes: map[string]*viewNode{}, claims: map[string]int{}, images: map[string]*image{}, pods: v.pods,
		excludesTerminating: v.excludesTerminating,
	}
	fresh.AddNodes(snapshot.Nodes)
	fresh.refresh()
	for _, list := range []struct {
		name       string
		kept, want []fwk.NodeInfo
	}{
		{"nodes", v.all, fresh.all},
		{"nodes with affinity", v.affine, fresh.affine},
		{"nodes with required anti-affinity", v.repelling, fresh.repelling},
		{"nodes with wide anti-affinity", v.widelyRepelling, fresh.widelyRepelling},
	} {
		if kept, want := nodeNames(list.kept), nodeNames(list.want); !slices.Equal(kept, want) {
			return fmt.Errorf("view: %s: has %v, the snapshot %v", list.name, kept, want)
		}
	}
	if !maps.Equal(v.claims, fresh.claims) {
		return fmt.Errorf("view: claims in use: has %v, the snapshot %v", v.claims, fresh.claims)
	}
	for _, node := range snapshot.Nodes {
		if err := sameNode(v.nodes[node.Name], fresh.nodes[node.Name]); err != nil {
			return fmt.Errorf("view: node %s: %w", node.Name, err)
		}
	}
	return nil
}

// String writes down what the view shows, and of how much it keeps something, in the order in which it keeps things. It is meant
// for tests.
func (v *View) String() string {
	v.refresh()
	var b strings.Builder
	fmt.Fprintln(&b, nodeNames(v.all), nodeNames(v.affine), nodeNames(v.repelling), nodeNames(v.widelyRepelling), v.claims, len(v.images))
	for _, n := range v.all {
		for _, list := range podLists(v.nodes[n.Node().Name]) {
			fmt.Fprint(&b, podUIDs(*list))
		}
		fmt.Fprintln(&b, n.GetRequested(), n.GetNonZeroRequested(), n.GetUsedPorts(), n.GetPVCRefCounts())
		for _, name := range slices.Sorted(maps.Keys(n.GetImageStates())) {
			state := n.GetImageStates()[name]
			fmt.Fprintln(&b, name, state.Size, state.NumNodes)
		}
	}
	return b.String()
}

// Kept returns of how many pods the view keeps what kube-scheduler wants to know. It is meant for tests.
func (v *View) Kept() int { return len(v.pods) }

func sameNode(kept, want *viewNode) error {
	if kept.Node() != want.Node() {
		return fmt.Errorf("the object is version %s, the snapshot's %s", kept.Node().ResourceVersion, want.Node().ResourceVersion)
	}
	wanted := podLists(want)
	for k, list := range podLists(kept) {
		if !slices.Equal(*list, *wanted[k]) {
			return fmt.Errorf("has pods %v, the snapshot %v", podUIDs(*list), podUIDs(*wanted[k]))
		}
	}
	for _, part := range []struct {
		name       string
		kept, want any
	}{
		{"requested", kept.Requested, want.Requested},
		{"requested with defaults", kept.NonZeroRequested, want.NonZeroRequested},
		{"host ports", kept.UsedPorts, want.UsedPorts},
		{"claims", kept.PVCRefCounts, want.PVCRefCounts},
		{"allocatable", kept.Allocatable, want.Allocatable},
		{"images", kept.ImageStates, want.ImageStates},
	} {
		if !reflect.DeepEqual(part.kept, part.want) {
			return fmt.Errorf("%s: has %v, the snapshot %v", part.name, part.kept, part.want)
		}
	}
	return nil
}

func nodeNames(list []fwk.NodeInfo) []string {
	names := make([]string, len(list))
	for i, n := range list {
		names[i] = n.Node().Name
	}
	return names
}

func podUIDs(list []fwk.PodInfo) []types.UID {
	uids := make([]types.UID, len(list))
	for i, pod := range list {
		uids[i] = pod.GetPod().UID
	}
	return uids
}
