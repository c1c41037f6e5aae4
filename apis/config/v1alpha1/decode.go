package v1alpha1

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Decode reads a configuration from the text of a file; the name of the file appears in messages and in positions. It
// returns either a configuration, with what should be written differently in it, or an error that joins everything
// that is wrong with the file, each with its line; see Errors. Warnings come with both.
func Decode(file string, data []byte, known Known) (*Configuration, []Warning, error) {
	config, warnings, err := DecodePart(file, data, known)
	if err != nil {
		return nil, warnings, err
	}
	return config, warnings, nil
}

// DecodePart is Decode, but also returns what could be read of a file in which something is wrong, for callers that
// check more of it. It holds names that are not known; it is nil when the file is no mapping.
func DecodePart(file string, data []byte, known Known) (*Configuration, []Warning, error) {
	d := &decoder{file: file, known: known}
	root := d.parse(data)
	if root == nil {
		return nil, nil, join(d.errs)
	}
	config := d.configuration(root)
	return config, d.warnings, join(d.errs)
}

// decoder collects what is found while a file is walked. It never stops at an error, so that all are reported.
type decoder struct {
	file     string
	known    Known
	errs     []*Error
	warnings []Warning

	// versioned says that the file has our apiVersion.
	versioned bool
}

// parse returns the root of the only document in the text, or nil after having recorded why there is none.
func (d *decoder) parse(data []byte) *yaml.Node {
	reader := yaml.NewDecoder(bytes.NewReader(data))
	var document, next yaml.Node
	switch err := reader.Decode(&document); {
	case errors.Is(err, io.EOF):
		d.errorAtLine(1, "the configuration is empty")
		return nil
	case err != nil:
		d.syntaxError(err)
		return nil
	}
	switch err := reader.Decode(&next); {
	case err == nil:
		d.errorf(&next, "a second YAML document begins here; a configuration is one document")
		return nil
	case !errors.Is(err, io.EOF):
		d.syntaxError(err)
		return nil
	}
	if len(document.Content) != 1 || isNull(document.Content[0]) {
		d.errorAtLine(1, "the configuration is empty")
		return nil
	}
	return document.Content[0]
}

// configuration decodes the root. What it returns is complete only if no error was recorded.
func (d *decoder) configuration(root *yaml.Node) *Configuration {
	d.version(root)
	config := &Configuration{SourcesOff: SourcesOffByDefault()}
	arguments := map[string]actionArguments{}
	seen, ok := d.mapping(root, "the configuration", []field{
		{"apiVersion", nothing}, {"kind", nothing}, // read by version, before everything else
		{"actions", func(v *yaml.Node) { config.Actions = d.actions(v) }},
		{"tiers", func(v *yaml.Node) { config.Tiers = d.tiers(v) }},
		{"pause", func(v *yaml.Node) { config.Pause = d.pause(v) }},
		{"sources", func(v *yaml.Node) { config.SourcesOff = d.sources(v) }},
		{"topologies", func(v *yaml.Node) { config.Topologies = d.topologies(v) }},
		{"configurations", func(v *yaml.Node) { arguments = d.actionArguments(v) }},
	})
	if !ok {
		return nil
	}
	if !seen["actions"] {
		d.errorf(root, `actions is missing; say for example actions: "allocate"`)
	}
	if !seen["tiers"] {
		d.errorf(root, "tiers is missing; without plugins nothing is ordered, filtered or scored")
	}
	d.handOut(arguments, config.Actions)
	return config
}

// version finds out whether the file has our apiVersion, wherever in the file it stands.
func (d *decoder) version(root *yaml.Node) {
	if root.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		value := root.Content[i+1]
		switch root.Content[i].Value {
		case "apiVersion":
			d.versioned = true // also when it is a wrong one: one error is enough
			if version, ok := d.text(value, "apiVersion"); ok && version != APIVersion {
				d.errorf(value, "unknown apiVersion %s; the one there is: %s", quote(version), APIVersion)
			}
		case "kind":
			if kind, ok := d.text(value, "kind"); ok && kind != Kind {
				d.errorf(value, "unknown kind %s; the one there is: %s", quote(kind), Kind)
			}
		}
	}
}

// pause decodes whether the scheduler starts nothing.
func (d *decoder) pause(value *yaml.Node) bool {
	if !d.versioned {
		d.errorf(value, "pause needs, at the top, apiVersion: %s", APIVersion)
		return false
	}
	paused, _ := d.boolean(value, "pause")
	return paused
}

// actions decodes kube-batch's one string of names between commas.
func (d *decoder) actions(value *yaml.Node) []Action {
	if value.Kind == yaml.SequenceNode {
		d.errorf(value, `actions must be one string with commas between the names, such as "allocate, backfill", not a list`)
		return nil
	}
	text, ok := d.text(value, "actions")
	if !ok {
		return nil
	}
	if strings.TrimSpace(text) == "" {
		d.errorf(value, `actions is empty; say for example actions: "allocate"`)
		return nil
	}
	var actions []Action
	for _, name := range strings.Split(text, ",") {
		name = strings.TrimSpace(name)
		switch {
		case name == "":
			d.errorf(value, "actions has a comma too many: an action without a name")
		case slices.ContainsFunc(actions, func(a Action) bool { return a.Name == name }):
			d.errorf(value, "action %s is listed twice", quote(name))
		default:
			d.checkName(value, "action", name, d.known.Actions)
			at := d.position(value)
			actions = append(actions, Action{Name: name, Arguments: noArguments("action "+plain(name), at), Position: at})
		}
	}
	return actions
}

// actionArguments are the arguments of one action before it is known whether the action runs.
type actionArguments struct {
	arguments Arguments
	at        *yaml.Node
}

// actionArguments decodes Volcano's list of arguments for actions, by name of the action.
func (d *decoder) actionArguments(value *yaml.Node) map[string]actionArguments {
	all := map[string]actionArguments{}
	if isNull(value) {
		return all
	}
	for _, item := range d.sequence(value, "configurations") {
		var nameNode, argumentsNode *yaml.Node
		_, ok := d.mapping(item, "the configuration of an action", []field{
			{"name", func(v *yaml.Node) { nameNode = v }},
			{"arguments", func(v *yaml.Node) { argumentsNode = v }},
		})
		if !ok {
			continue
		}
		name, ok := d.name(item, nameNode, "action")
		if !ok {
			continue
		}
		arguments := d.arguments(argumentsNode, "action "+plain(name), d.position(item))
		if first, twice := all[name]; twice {
			d.errorf(nameNode, "action %s is configured twice; the first time is on line %d", quote(name), first.at.Line)
			continue
		}
		d.checkName(nameNode, "action", name, d.known.Actions)
		all[name] = actionArguments{arguments: arguments, at: nameNode}
	}
	return all
}

// handOut gives the actions their arguments and warns of arguments that no action reads.
func (d *decoder) handOut(all map[string]actionArguments, actions []Action) {
	for i := range actions {
		if given, ok := all[actions[i].Name]; ok {
			actions[i].Arguments = given.arguments
			delete(all, actions[i].Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains(d.known.Actions, name) {
			continue // refused already
		}
		d.warnf(all[name].at, "the configuration of action %s has no effect: the action is not in actions", quote(name))
	}
	slices.SortStableFunc(d.warnings, func(a, b Warning) int { return a.Position.Line - b.Position.Line })
}

// checkName records an error unless the name is a known one. Of a name of Volcano's it says what to write in its place.
func (d *decoder) checkName(at *yaml.Node, noun, name string, known []string) {
	if slices.Contains(known, name) {
		return
	}
	if instead, is := volcanos[noun][name]; is {
		d.errorf(at, "%s %s is Volcano's: take it out; %s", noun, quote(name), instead)
		return
	}
	sorted := slices.Sorted(slices.Values(known))
	hint := DidYouMean(name, sorted)
	if hint == "" {
		hint = "; this version has " + list(sorted)
	}
	d.errorf(at, "unknown %s %s%s", noun, quote(name), hint)
}

// syntaxError records what the YAML parser did not understand, with its line moved to the front.
func (d *decoder) syntaxError(err error) {
	text, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if m := regexp.MustCompile(`^line (\d+): (?s)(.*)$`).FindStringSubmatch(text); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			line, text = n, m[2]
		}
	}
	d.errorAtLine(line, "not valid YAML: "+text)
}

func (d *decoder) position(n *yaml.Node) Position { return Position{File: d.file, Line: n.Line} }

func (d *decoder) errorf(at *yaml.Node, format string, args ...any) {
	d.errorAtLine(at.Line, fmt.Sprintf(format, args...))
}

func (d *decoder) errorAtLine(line int, text string) {
	d.errs = append(d.errs, &Error{Position: Position{File: d.file, Line: line}, Text: text})
}

func (d *decoder) warnf(at *yaml.Node, format string, args ...any) {
	d.warnings = append(d.warnings, Warning{Position: d.position(at), Text: fmt.Sprintf(format, args...)})
}
