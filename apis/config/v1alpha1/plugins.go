package v1alpha1

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// tiers decodes the list of tiers. A plugin may stand in one of them only, once.
func (d *decoder) tiers(value *yaml.Node) []Tier {
	var tiers []Tier
	first := map[string]int{}
	items := d.sequence(value, "tiers")
	if value.Kind == yaml.SequenceNode && len(items) == 0 {
		d.errorf(value, "tiers is empty; without plugins nothing is ordered, filtered or scored")
	}
	for _, item := range items {
		var tier Tier
		seen, ok := d.mapping(item, "a tier", []field{
			{"plugins", func(v *yaml.Node) { tier.Plugins = d.plugins(v, first) }},
		})
		if ok && !seen["plugins"] {
			d.errorf(item, "the tier has no plugins")
		}
		tiers = append(tiers, tier)
	}
	return tiers
}

// plugins decodes the plugins of a tier; first has the line of each plugin that an earlier tier or item configured.
func (d *decoder) plugins(value *yaml.Node, first map[string]int) []Plugin {
	var plugins []Plugin
	items := d.sequence(value, "plugins")
	if value.Kind == yaml.SequenceNode && len(items) == 0 {
		d.errorf(value, "the tier has no plugins")
	}
	for _, item := range items {
		plugin, ok := d.plugin(item)
		if !ok {
			continue
		}
		if line, twice := first[plugin.Name]; twice {
			d.errorf(item, "plugin %s is configured twice; the first time is on line %d", quote(plugin.Name), line)
			continue
		}
		first[plugin.Name] = plugin.Position.Line
		plugins = append(plugins, plugin)
	}
	return plugins
}

// plugin decodes one plugin; it returns false when it has no name to speak of.
func (d *decoder) plugin(item *yaml.Node) (Plugin, bool) {
	var nameNode, argumentsNode *yaml.Node
	plugin := Plugin{Position: d.position(item)}
	fields := []field{
		{"name", func(v *yaml.Node) { nameNode = v }},
		{"arguments", func(v *yaml.Node) { argumentsNode = v }},
		{"disable", func(v *yaml.Node) { d.disable(v, &plugin) }},
	}
	for _, s := range switches() {
		fields = append(fields, field{s.key, func(v *yaml.Node) { d.flip(s, v, &plugin) }})
		fields = append(fields, field{s.formerKey(), func(v *yaml.Node) { d.former(s, v) }})
	}
	for _, key := range slices.Sorted(maps.Keys(volcanos["switch"])) {
		fields = append(fields, field{key, func(v *yaml.Node) { d.checkName(v, "switch", key, nil) }})
	}
	if _, ok := d.mapping(item, "a plugin", fields); !ok {
		return plugin, false
	}
	name, ok := d.name(item, nameNode, "plugin")
	if !ok {
		return plugin, false
	}
	plugin.Name = name
	d.checkName(nameNode, "plugin", name, d.known.Plugins)
	plugin.Arguments = d.arguments(argumentsNode, "plugin "+plain(name), plugin.Position)
	return plugin, true
}

// disable decodes the list of extension points at which a plugin is not asked.
func (d *decoder) disable(value *yaml.Node, plugin *Plugin) {
	if !d.versioned {
		d.errorf(value, "disable needs apiVersion: %s at the top of the file", APIVersion)
	}
	if isNull(value) {
		return
	}
	points := ExtensionPoints()
	var listed []ExtensionPoint
	for _, item := range d.sequence(value, "disable") {
		name, ok := d.text(item, "an extension point")
		point := ExtensionPoint(name)
		switch {
		case !ok:
		case !slices.Contains(points, point):
			hint := DidYouMean(name, points)
			if hint == "" {
				hint = "; there are " + list(points)
			}
			d.errorf(item, "unknown extension point %s%s", quote(name), hint)
		case slices.Contains(listed, point):
			d.errorf(item, "extension point %s is disabled twice", quote(name))
		default:
			listed = append(listed, point)
			plugin.off(point)
		}
	}
}

// off adds an extension point to those that are disabled, in the order of ExtensionPoints, so that two ways of writing
// the same mean the same.
func (p *Plugin) off(point ExtensionPoint) {
	if p.Disabled(point) {
		return
	}
	p.Disable = append(p.Disable, point)
	points := ExtensionPoints()
	slices.SortFunc(p.Disable, func(a, b ExtensionPoint) int {
		return slices.Index(points, a) - slices.Index(points, b)
	})
}

// kubeBatchSwitch is one of kube-batch's keys that switch one function of a plugin off.
type kubeBatchSwitch struct {
	key string

	// point is what false disables; empty if it disables nothing, for the reason given.
	point  ExtensionPoint
	reason string
}

// switches are kube-batch's nine. Two have no counterpart of their own, and translating them into the nearest one would
// switch off more than was asked for.
func switches() []kubeBatchSwitch {
	return []kubeBatchSwitch{
		{key: "enableQueueOrder", point: QueueOrder},
		{key: "enableJobOrder", point: JobOrder},
		{key: "enableTaskOrder", point: TaskOrder},
		{key: "enableJobReady", point: JobGate},
		{key: "enableJobPipelined", reason: "a gang is nominated as a whole or not at all, by the same gate that " +
			"lets it start; enableJobReady: false switches that off"},
		{key: "enablePredicate", point: NodeFilter},
		{key: "enableNodeOrder", point: NodeScore},
		{key: "enablePreemptable", point: Victims},
		{key: "enableReclaimable", reason: "what queues take from each other is judged as a whole, by proportion; to evict no pod of " +
			"another queue take reclaim out of actions"},
	}
}

// flip decodes one of kube-batch's switches.
func (d *decoder) flip(s kubeBatchSwitch, value *yaml.Node, plugin *Plugin) {
	if value.Kind != yaml.ScalarNode || value.ShortTag() != "!!bool" {
		d.errorf(value, "%s must be true or false, not %s", s.key, describe(value))
		return
	}
	var on bool
	if err := value.Decode(&on); err != nil {
		d.errorf(value, "%s must be true or false", s.key)
		return
	}
	switch {
	case on:
		d.warnf(value, "%s: true has no effect: a plugin is asked wherever it has an answer", s.key)
	case s.point == "":
		d.warnf(value, "%s: false has no effect: %s", s.key, s.reason)
	default:
		plugin.off(s.point)
		d.warnf(value, "%s: false is kube-batch's; write disable: [%s]%s", s.key, s.point, d.underVersion())
	}
}

// formerKey is what the switch was called before it was turned round.
func (s kubeBatchSwitch) formerKey() string { return "disable" + strings.TrimPrefix(s.key, "enable") }

// former refuses a switch of kube-batch's first versions. Its last ones ignore it, so that a file with it does not do what it
// says.
func (d *decoder) former(s kubeBatchSwitch, value *yaml.Node) {
	d.errorf(value, "%s is a switch of kube-batch's first versions, which its last ones ignore; for true write %s: false, and for "+
		"false nothing", s.formerKey(), s.key)
}

// underVersion says what disable needs besides, if the file does not have it.
func (d *decoder) underVersion() string {
	if d.versioned {
		return ""
	}
	return fmt.Sprintf(" and, at the top, apiVersion: %s", APIVersion)
}
