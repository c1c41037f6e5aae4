package v1alpha1

import (
	"go.yaml.in/yaml/v3"
)

// This file walks YAML nodes: each function checks that a node is of the kind that is wanted and records an error if
// not. Anchors and aliases are refused, so that a file says what it means where it means it.

// field is a key that a mapping may have, and what to do with its value.
type field struct {
	key  string
	read func(value *yaml.Node)
}

func nothing(*yaml.Node) {}

// mapping hands each value of a mapping to its field, in the order of the file. It records keys that are unknown or
// stand there twice; of those the first counts. It returns the keys seen, and false when the node is no mapping.
func (d *decoder) mapping(node *yaml.Node, what string, fields []field) (map[string]bool, bool) {
	if node.Kind != yaml.MappingNode {
		d.errorf(node, "%s must be a mapping of keys to values, not %s", what, describe(node))
		return nil, false
	}
	keys, byKey := make([]string, len(fields)), map[string]func(*yaml.Node){}
	for i, f := range fields {
		keys[i], byKey[f.key] = f.key, f.read
	}
	seen := map[string]bool{}
	d.pairs(node, what, func(key, value *yaml.Node) {
		read, known := byKey[key.Value]
		if !known {
			d.errorf(key, "unknown key %s in %s%s", quote(key.Value), what, DidYouMean(key.Value, keys))
			return
		}
		seen[key.Value] = true
		read(value)
	})
	return seen, true
}

// pairs calls with each key and value of a mapping, in the order of the file, and records keys that are no plain words
// or stand there twice.
func (d *decoder) pairs(node *yaml.Node, what string, visit func(key, value *yaml.Node)) {
	first := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			d.errorf(key, "a key of %s must be a word, not %s", what, describe(key))
			continue
		}
		if line, twice := first[key.Value]; twice {
			d.errorf(key, "key %s stands twice in %s; the first time is on line %d", quote(key.Value), what, line)
			continue
		}
		first[key.Value] = key.Line
		visit(key, value)
	}
}

// sequence returns the items of a list, or nil after having recorded that it is none.
func (d *decoder) sequence(node *yaml.Node, what string) []*yaml.Node {
	if node.Kind != yaml.SequenceNode {
		d.errorf(node, "%s must be a list, not %s", what, describe(node))
		return nil
	}
	return node.Content
}

// text returns a string, or false after having recorded that it is none.
func (d *decoder) text(node *yaml.Node, what string) (string, bool) {
	if node.Kind != yaml.ScalarNode || node.ShortTag() != "!!str" {
		d.errorf(node, "%s must be a string, not %s", what, describe(node))
		return "", false
	}
	return node.Value, true
}

// name returns the name of an action or plugin, or false after having recorded that it is missing, empty or no string.
// The value is nil when the item has no such key.
func (d *decoder) name(item, value *yaml.Node, noun string) (string, bool) {
	if value == nil {
		d.errorf(item, "the %s has no name", noun)
		return "", false
	}
	name, ok := d.text(value, "the name of the "+noun)
	if ok && name == "" {
		d.errorf(value, "the name of the %s is empty", noun)
		return "", false
	}
	return name, ok
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// describe says what a node is, as a message about its type ends.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias (aliases are not supported; write the value out)"
	case yaml.ScalarNode:
	default:
		return "nothing"
	}
	switch n.ShortTag() {
	case "!!null":
		return "empty"
	case "!!bool":
		return "true or false"
	case "!!int", "!!float":
		return "a number"
	case "!!str":
		return "a string"
	default:
		return "a value tagged " + quote(n.ShortTag())
	}
}
