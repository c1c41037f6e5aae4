package levels

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestRead reads the file that comes with the lab.
func TestRead(t *testing.T) {
	c, err := Read(filepath.Join("..", "levels.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[string]*corev1.Node{}
	for _, node := range c.Nodes() {
		nodes[node.Name] = node
	}
	if len(nodes) != 16 {
		t.Errorf("%d nodes, want 16", len(nodes))
	}
	for name, want := range map[string][3]string{
		"b1-r1-n1": {"b1", "r1", "c1"}, "b1-r1-n2": {"b1", "r1", "c1"}, "b1-r1-n3": {"b1", "r1", "c2"},
		"b2-r1-n1": {"b2", "r1", "c5"}, "b2-r2-n4": {"b2", "r2", "c8"},
	} {
		node := nodes[name]
		if node == nil {
			t.Errorf("there is no node %s", name)
			continue
		}
		got := [3]string{node.Labels["topology.example.com/block"], node.Labels["topology.example.com/rack"], node.Labels["nvidia.com/gpu.clique"]}
		if gpus := node.Status.Capacity["nvidia.com/gpu"]; got != want || gpus.Value() != 8 {
			t.Errorf("node %s is in %v and has %s GPUs, want %v and 8", name, got, gpus.String(), want)
		}
	}
	const want = `topologies:
- name: fabric
  levels:
  - {name: block, label: topology.example.com/block}
  - {name: rack, label: topology.example.com/rack}
- name: nvlink
  levels:
  - {name: clique, label: nvidia.com/gpu.clique}
`
	if got := c.Configuration(); got != want {
		t.Errorf("the configuration is\n%s\nwant\n%s", got, want)
	}
}

// TestReadSaysWhatIsWrong: and without cliques there is no topology of them.
func TestReadSaysWhatIsWrong(t *testing.T) {
	const right = "blocks: 1\nracksPerBlock: 1\nnodesPerRack: 2\ncapacity: {cpu: 2}\nlabels: {block: a/block, rack: a/rack}\n"
	for _, change := range []struct{ old, new, want string }{
		{"", "", ""},
		{"racksPerBlock: 1", "racks: 1", `unknown field "racks"`},
		{"racksPerBlock: 1", "racksPerBlock: 0", "at least 1"},
		{"nodesPerRack: 2", "nodesPerRack: 2\nnodesPerClique: 2", `labels.clique ""`},
		{"{cpu: 2}", "{cpu: two}", "quantities must match"},
		{"a/rack", "a/b/rack", `labels.rack "a/b/rack"`},
	} {
		file := filepath.Join(t.TempDir(), "levels.yaml")
		if err := os.WriteFile(file, []byte(strings.Replace(right, change.old, change.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Read(file)
		switch {
		case change.want == "":
			if err != nil || len(c.Nodes()) != 2 || strings.Contains(c.Configuration(), "clique") {
				t.Errorf("levels without cliques: %+v, %v", c, err)
			}
		case err == nil || !strings.Contains(err.Error(), change.want):
			t.Errorf("%s instead of %s: %v, want %s", change.new, change.old, err, change.want)
		}
	}
}
