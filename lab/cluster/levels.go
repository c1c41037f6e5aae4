package cluster

import (
	"errors"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// Levels describe nodes in blocks, racks and cliques, as lab/levels.yaml does.
type Levels struct {
	// Blocks, RacksPerBlock and NodesPerRack are at least 1.
	Blocks        int `json:"blocks"`
	RacksPerBlock int `json:"racksPerBlock"`
	NodesPerRack  int `json:"nodesPerRack"`
	// NodesPerClique is how many nodes, rack by rack, share a clique; 0 is that there are no cliques.
	NodesPerClique int `json:"nodesPerClique"`
	// Capacity is what each node offers.
	Capacity map[string]resource.Quantity `json:"capacity"`
	// Labels are the keys of the labels with the names of the domains.
	Labels LevelLabels `json:"labels"`
}

// LevelLabels are keys of node labels, by level.
type LevelLabels struct {
	Block string `json:"block"`
	Rack  string `json:"rack"`
	// Clique is empty where there are no cliques.
	Clique string `json:"clique"`
}

// ReadLevels reads a file. Its error says what is wrong with it.
func ReadLevels(path string) (*Levels, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("levels: %w", err)
	}
	l := &Levels{}
	if err := errors.Join(yaml.UnmarshalStrict(text, l), l.check()); err != nil {
		return nil, fmt.Errorf("levels of %s: %w", path, err)
	}
	return l, nil
}

func (l *Levels) check() error {
	var wrong []error
	if min(l.Blocks, l.RacksPerBlock, l.NodesPerRack) < 1 || l.NodesPerClique < 0 {
		wrong = append(wrong, errors.New("blocks, racksPerBlock and nodesPerRack must be at least 1, nodesPerClique at least 0"))
	}
	for _, tree := range l.trees() {
		for _, level := range tree.levels {
			if problems := validation.IsQualifiedName(level.label); len(problems) > 0 {
				wrong = append(wrong, fmt.Errorf("labels.%s %q: %s", level.name, level.label, strings.Join(problems, "; ")))
			}
		}
	}
	return errors.Join(wrong...)
}

// Nodes are the nodes: b1-r1-n1, b1-r1-n2, and so on.
func (l *Levels) Nodes() (nodes []*corev1.Node) {
	capacity := map[string]string{}
	for name, amount := range l.Capacity {
		capacity[name] = amount.String()
	}
	for block := 1; block <= l.Blocks; block++ {
		for rack := 1; rack <= l.RacksPerBlock; rack++ {
			for number := 1; number <= l.NodesPerRack; number++ {
				labels := map[string]string{l.Labels.Block: fmt.Sprint("b", block), l.Labels.Rack: fmt.Sprint("r", rack)}
				if l.NodesPerClique > 0 {
					labels[l.Labels.Clique] = fmt.Sprint("c", 1+len(nodes)/l.NodesPerClique)
				}
				nodes = append(nodes, Node(fmt.Sprintf("b%d-r%d-n%d", block, rack, number), capacity, NodeLabels(labels)))
			}
		}
	}
	return nodes
}

// Configuration is what the scheduler's configuration says of the levels: topologies, as YAML.
func (l *Levels) Configuration() string {
	var text strings.Builder
	text.WriteString("topologies:\n")
	for _, tree := range l.trees() {
		fmt.Fprintf(&text, "- name: %s\n  levels:\n", tree.name)
		for _, level := range tree.levels {
			fmt.Fprintf(&text, "  - {name: %s, label: %s}\n", level.name, level.label)
		}
	}
	return text.String()
}

// levelTree is a topology of the configuration; its levels are the widest first.
type levelTree struct {
	name   string
	levels []namedLevel
}

type namedLevel struct{ name, label string }

func (l *Levels) trees() []levelTree {
	trees := []levelTree{{"fabric", []namedLevel{{"block", l.Labels.Block}, {"rack", l.Labels.Rack}}}}
	if l.NodesPerClique > 0 {
		trees = append(trees, levelTree{"nvlink", []namedLevel{{"clique", l.Labels.Clique}}})
	}
	return trees
}
