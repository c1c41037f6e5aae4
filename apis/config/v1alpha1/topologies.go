package v1alpha1

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Topology is a tree of domains, such as racks in blocks: nodes with the same values of the labels of its levels are in one
// domain. Trees need not nest in each other.
type Topology struct {
	Name string
	// Levels are at least one, the widest first.
	Levels []Level
}

// Level is a kind of domain, such as rack.
type Level struct {
	// Name is how jobs name it; it is unique over all trees.
	Name string
	// Label is the key of the node label with the domain's name, which is unique within the domain of the level above.
	Label string
}

const (
	// LevelHost is the level of single nodes. It is the narrowest of each tree, and never listed.
	LevelHost = "host"

	maxTopologies = 8
	maxLevels     = 8
)

// topologies decodes the trees of domains. What it returns is complete only if no error was recorded.
func (d *decoder) topologies(value *yaml.Node) (trees []Topology) {
	if !d.versioned {
		d.errorf(value, "topologies needs, at the top, apiVersion: %s", APIVersion)
		return nil
	}
	items := d.sequence(value, "topologies")
	if len(items) > maxTopologies {
		d.errorf(items[maxTopologies], "there are %d topologies, the most is %d", len(items), maxTopologies)
		return nil
	}
	trees, levels := []Topology{}, map[string]int{} // by name, the line
	for _, item := range items {
		tree := Topology{}
		seen, ok := d.mapping(item, "a topology", []field{
			{"name", func(v *yaml.Node) { tree.Name = d.label(v, "the name of a topology") }},
			{"levels", func(v *yaml.Node) { tree.Levels = d.levels(v, levels) }},
		})
		switch {
		case !ok:
		case !seen["name"]:
			d.errorf(item, "the topology has no name")
		case !seen["levels"]:
			d.errorf(item, "the topology has no levels")
		case tree.Name != "" && slices.ContainsFunc(trees, func(other Topology) bool { return other.Name == tree.Name }):
			d.errorf(item, "topology %s is listed twice", quote(tree.Name))
		}
		trees = append(trees, tree)
	}
	return trees
}

// levels decodes those of one tree, the widest first; names has the lines of all levels before.
func (d *decoder) levels(value *yaml.Node, names map[string]int) (levels []Level) {
	items := d.sequence(value, "levels")
	switch {
	case len(items) == 0 && value.Kind == yaml.SequenceNode:
		d.errorf(value, "the topology has no levels")
	case len(items) > maxLevels:
		d.errorf(items[maxLevels], "the topology has %d levels, the most is %d", len(items), maxLevels)
		return nil
	}
	for _, item := range items {
		level := Level{}
		seen, ok := d.mapping(item, "a level", []field{
			{"name", func(v *yaml.Node) { level.Name = d.levelName(v, names) }},
			{"label", func(v *yaml.Node) { level.Label = d.levelLabel(v, levels) }},
		})
		switch {
		case !ok:
		case !seen["name"]:
			d.errorf(item, "the level has no name")
		case !seen["label"]:
			d.errorf(item, "the level has no label")
		}
		levels = append(levels, level)
	}
	return levels
}

// levelName returns the name of a level, which no other one has.
func (d *decoder) levelName(value *yaml.Node, names map[string]int) string {
	name := d.label(value, "the name of a level")
	switch line, twice := names[name]; {
	case name == "":
	case name == LevelHost:
		d.errorf(value, "level %s is the single node, and need not be listed", quote(name))
	case twice:
		d.errorf(value, "level %s is listed twice; the first time is on line %d", quote(name), line)
	default:
		names[name] = value.Line
	}
	return name
}

// levelLabel returns the label of a level, which no level before in the same tree has.
func (d *decoder) levelLabel(value *yaml.Node, before []Level) string {
	label, ok := d.text(value, "the label of a level")
	if !ok {
		return ""
	}
	if problems := validation.IsQualifiedName(label); len(problems) > 0 {
		d.errorf(value, "the label of a level is %s, which cannot be the key of a label: %s", quote(label), strings.Join(problems, "; "))
	} else if slices.ContainsFunc(before, func(wider Level) bool { return wider.Label == label }) {
		d.errorf(value, "label %s has two levels of one topology", quote(label))
	}
	return label
}

// label returns a DNS label, or the empty string after having recorded that it is none.
func (d *decoder) label(value *yaml.Node, what string) string {
	name, ok := d.text(value, what)
	if !ok {
		return ""
	}
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		d.errorf(value, "%s is %s: %s", what, quote(name), strings.Join(problems, "; "))
		return ""
	}
	return name
}
