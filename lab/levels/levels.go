// Package levels makes the nodes of a cluster with blocks, racks and cliques from a file, and what the scheduler's configuration
// says of them. Nodes that are all alike are made by lab/cluster.
package levels

import (
	"errors"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/tutti-sched/tutti/lab/cluster"
)

// Cluster describes nodes in blocks, racks and cliques, as lab/levels.yaml does.
type Cluster struct {
	// Blocks, RacksPerBlock and NodesPerRack are at least 1.
	Blocks        int `json:"blocks"`
	RacksPerBlock int `json:"racksPerBlock"`
	NodesPerRack  int `json:"nodesPerRack"`
	// NodesPerClique is how many nodes, rack by rack, share a clique; 0 is that there are no cliques.
	NodesPerClique int `json:"nodesPerClique"`
	// Capacity is what each node offers.
	Capacity map[string]resource.Quantity `json:"capacity"`
	// Labels are the keys of the labels with the names of the domains.
	Labels Labels `json:"labels"`
}

// Labels are keys of node labels, by level.
type Labels struct {
	Block string `json:"block"`
	Rack  string `json:"rack"`
	// Clique is empty where there are no cliques.
	Clique string `json:"clique"`
}

// Read reads a file. Its error says what is wrong with it.
func Read(path string) (*Cluster, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("levels: %w", err)
	}
	c := &Cluster{}
	if err := errors.Join(yaml.UnmarshalStrict(text, c), c.check()); err != nil {
		return nil, fmt.Errorf("levels of %s: %w", path, err)
	}
	return c, nil
}

func (c *Cluster) check() error {
	var wrong []error
	if min(c.Blocks, c.RacksPerBlock, c.NodesPerRack) < 1 || c.NodesPerClique < 0 {
		wrong = append(wrong, errors.New("blocks, racksPerBlock and nodesPerRack must be at least 1, nodesPerClique at least 0"))
	}
	for _, tree := range c.trees() {
		for _, level := range tree.levels {
			if problems := validation.IsQualifiedName(level.label); len(problems) > 0 {
				wrong = append(wrong, fmt.Errorf("labels.%s %q: %s", level.name, level.label, strings.Join(problems, "; ")))
			}
		}
	}
	return errors.Join(wrong...)
}

// Nodes are the nodes: b1-r1-n1, b1-r1-n2, and so on.
func (c *Cluster) Nodes() (nodes []*corev1.Node) {
	capacity := map[string]string{}
	for name, amount := range c.Capacity {
		capacity[name] = amount.String()
	}
	for block := 1; block <= c.Blocks; block++ {
		for rack := 1; rack <= c.RacksPerBlock; rack++ {
			for number := 1; number <= c.NodesPerRack; number++ {
				labels := map[string]string{c.Labels.Block: fmt.Sprint("b", block), c.Labels.Rack: fmt.Sprint("r", rack)}
				if c.NodesPerClique > 0 {
					labels[c.Labels.Clique] = fmt.Sprint("c", 1+len(nodes)/c.NodesPerClique)
				}
				nodes = append(nodes, cluster.Node(fmt.Sprintf("b%d-r%d-n%d", block, rack, number), capacity, cluster.NodeLabels(labels)))
			}
		}
	}
	return nodes
}

// Configuration is what the scheduler's configuration says of the levels: topologies, as YAML.
func (c *Cluster) Configuration() string {
	var text strings.Builder
	text.WriteString("topologies:\n")
	for _, tree := range c.trees() {
		fmt.Fprintf(&text, "- name: %s\n  levels:\n", tree.name)
		for _, level := range tree.levels {
			fmt.Fprintf(&text, "  - {name: %s, label: %s}\n", level.name, level.label)
		}
	}
	return text.String()
}

// tree is a topology of the configuration; its levels are the widest first.
type tree struct {
	name   string
	levels []level
}

type level struct{ name, label string }

func (c *Cluster) trees() []tree {
	trees := []tree{{"fabric", []level{{"block", c.Labels.Block}, {"rack", c.Labels.Rack}}}}
	if c.NodesPerClique > 0 {
		trees = append(trees, tree{"nvlink", []level{{"clique", c.Labels.Clique}}})
	}
	return trees
}
