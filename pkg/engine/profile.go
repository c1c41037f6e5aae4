package engine

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/framework"
)

// TierPlugin is one plugin of a tier.
type TierPlugin struct {
	Factory framework.Factory
	// Disabled are the points at which the plugin is not asked; nil means it is asked wherever it has an answer.
	Disabled []config.ExtensionPoint
}

// Tier is plugins of equal standing, in their order.
type Tier []TierPlugin

// Profile is what a session runs with: the pipeline of actions and the tiers of plugins.
type Profile struct {
	Actions []Action
	Tiers   []Tier
	// Paused says why no job is started that has not begun, and no pod evicted; empty while that is not so.
	Paused string
	// SourcesOff are the foreign sources of groups whose marks on pods mean nothing, by the names of the configuration.
	SourcesOff []string
	// Topologies are the trees of domains that jobs may name levels of.
	Topologies []config.Topology
}

// extensionPoints is which plugins each extension point asks, filled again for each session. It is the only such list.
type extensionPoints struct {
	all        []framework.Plugin
	queueOrder []framework.QueueOrderer
	jobOrder   []framework.JobOrderer
	// jobGroups is the first of those that orders by groups, nil without one. jobsMove reports that what is decided may change how
	// another plugin orders jobs or queues.
	jobGroups   framework.GroupJobOrderer
	jobsMove    bool
	taskOrder   []framework.TaskOrderer
	jobValid    []framework.JobValidator
	jobGate     []framework.JobReadiness
	nodeFilter  []framework.NodeFilter
	nodeScore   []framework.NodeScorer
	requests    []translator
	binders     []framework.PodBinderProvider
	conflicts   []framework.CPUConflictPolicy
	callers     []framework.Caller
	reserve     []framework.Reserver
	assign      []framework.CPUAllocator
	bind        []framework.Binder
	victims     [][]framework.VictimFilter
	review      []framework.PreemptionExtender
	reclaim     []framework.Reclaimer
	observe     []framework.EventHandler
	openSession []framework.SessionOpener
	closeSess   []framework.SessionCloser
}

// enabledPlugin is a plugin of this session and where it is not asked.
type enabledPlugin struct {
	plugin   framework.Plugin
	disabled []config.ExtensionPoint
}

func (p *Profile) resolvePoints() extensionPoints {
	tiers := make([][]enabledPlugin, len(p.Tiers))
	var filled extensionPoints
	for i, tier := range p.Tiers {
		for _, member := range tier {
			made := enabledPlugin{plugin: member.Factory(), disabled: member.Disabled}
			tiers[i] = append(tiers[i], made)
			filled.all = append(filled.all, made.plugin)
		}
	}
	filled.queueOrder = flatten(registered[framework.QueueOrderer](tiers, config.QueueOrder))
	filled.jobOrder = flatten(registered[framework.JobOrderer](tiers, config.JobOrder))
	filled.taskOrder = flatten(registered[framework.TaskOrderer](tiers, config.TaskOrder))
	filled.jobValid = flatten(registered[framework.JobValidator](tiers, config.JobValid))
	filled.jobGate = flatten(registered[framework.JobReadiness](tiers, config.JobGate))
	filled.nodeFilter = flatten(registered[framework.NodeFilter](tiers, config.NodeFilter))
	filled.nodeScore = flatten(registered[framework.NodeScorer](tiers, config.NodeScore))
	filled.requests = flatten(registered[translator](tiers, config.Requests))
	filled.binders = flatten(registered[framework.PodBinderProvider](tiers, ""))
	filled.conflicts = flatten(registered[framework.CPUConflictPolicy](tiers, ""))
	filled.callers = flatten(registered[framework.Caller](tiers, ""))
	filled.reserve = flatten(registered[framework.Reserver](tiers, ""))
	filled.assign = flatten(registered[framework.CPUAllocator](tiers, ""))
	filled.bind = flatten(registered[framework.Binder](tiers, ""))
	filled.victims = registered[framework.VictimFilter](tiers, config.Victims)
	filled.review = flatten(registered[framework.PreemptionExtender](tiers, ""))
	filled.reclaim = flatten(registered[framework.Reclaimer](tiers, ""))
	filled.observe = flatten(registered[framework.EventHandler](tiers, config.Observe))
	filled.openSession = flatten(registered[framework.SessionOpener](tiers, ""))
	filled.closeSess = flatten(registered[framework.SessionCloser](tiers, ""))
	filled.findMoving()
	return filled
}

// findMoving finds the plugins whose order changes as a session goes on: those that observe may keep what they order by.
func (s *extensionPoints) findMoving() {
	for _, orderer := range s.jobOrder {
		if groups, ok := orderer.(framework.GroupJobOrderer); ok && s.jobGroups == nil {
			s.jobGroups = groups
			continue
		}
		s.jobsMove = s.jobsMove || observes(s, orderer)
	}
	for _, orderer := range s.queueOrder {
		s.jobsMove = s.jobsMove || observes(s, orderer)
	}
}

func observes(s *extensionPoints, plugin framework.Plugin) bool {
	return slices.ContainsFunc(s.observe, func(observer framework.EventHandler) bool { return observer.Name() == plugin.Name() })
}

// registered returns, tier by tier, the plugins that implement T and are not disabled at the point.
func registered[T framework.Plugin](tiers [][]enabledPlugin, point config.ExtensionPoint) [][]T {
	filled := make([][]T, len(tiers))
	for i, tier := range tiers {
		for _, member := range tier {
			if plugin, ok := member.plugin.(T); ok && !slices.Contains(member.disabled, point) {
				filled[i] = append(filled[i], plugin)
			}
		}
	}
	return filled
}

func flatten[T any](tiers [][]T) []T {
	var all []T
	for _, tier := range tiers {
		all = append(all, tier...)
	}
	return all
}

// The points of SessionOpener and SessionCloser, at which no plugin can be disabled.
const (
	openSession  config.ExtensionPoint = "openSession"
	closeSession config.ExtensionPoint = "closeSession"
)

// pointDescription is one extension point, how its answers combine, and which plugins are asked.
type pointDescription struct {
	point       config.ExtensionPoint
	combination string
	plugins     []string
}

func (s *extensionPoints) pointDescriptions() []pointDescription {
	return []pointDescription{
		{config.QueueOrder, "first non-zero, then the last start", names(s.queueOrder)},
		{config.JobOrder, "first non-zero, then creation time, then UID", names(s.jobOrder)},
		{config.TaskOrder, "first non-zero, then creation time, then UID", names(s.taskOrder)},
		{config.JobValid, "first refusal", names(s.jobValid)},
		{config.JobGate, "all must agree", names(s.jobGate)},
		{config.NodeFilter, "first refusal", names(s.nodeFilter)},
		{config.NodeScore, "sum of weight × score", names(s.nodeScore)},
		{config.Requests, "in tier order, once per pod and node", names(s.requests)},
		{reservePoint, "first refusal", names(s.reserve)},
		{"assign", "first answer", names(s.assign)},
		{"bind", "first that is not empty", names(s.bind)},
		{config.Victims, "intersection in the first tier that decides", names(flatten(s.victims))},
		{"review", "all must agree on each plan", names(s.review)},
		{"reclaim", "first answer", names(s.reclaim)},
		{config.Observe, "all are called", names(s.observe)},
		{openSession, "all, in tier order", names(s.openSession)},
		{closeSession, "all, in reverse order", names(s.closeSess)},
	}
}

func names[T framework.Plugin](plugins []T) []string {
	all := make([]string, len(plugins))
	for i, plugin := range plugins {
		all[i] = plugin.Name()
	}
	return all
}

// Names returns the names of its actions and plugins, in their order.
func (p *Profile) Names() []string {
	all := actionNames(p.Actions)
	for _, tier := range p.Tiers {
		for _, member := range tier {
			all = append(all, member.Factory().Name())
		}
	}
	return all
}

// unusedPlugins returns the names of the plugins that no question is put to, in tier order: a mistake in the configuration.
// OnSessionOpen and OnSessionClose ask nothing: a plugin that implements nothing else takes part in nothing.
func (p *Profile) unusedPlugins() []string {
	filled := p.resolvePoints()
	asked := map[string]bool{}
	for _, question := range filled.pointDescriptions() {
		if question.point == openSession || question.point == closeSession {
			continue
		}
		for _, name := range question.plugins {
			asked[name] = true
		}
	}
	var idle []string
	for _, plugin := range filled.all {
		if !asked[plugin.Name()] {
			idle = append(idle, plugin.Name())
		}
	}
	return idle
}

// Explain returns a table for people: the pipeline, and which plugin answers which question, in the order asked.
func (p *Profile) Explain() string {
	var b strings.Builder
	fmt.Fprintf(&b, "actions: %s\n\n", strings.Join(actionNames(p.Actions), ", "))
	if p.Paused != "" {
		b.WriteString("paused: no job starts that has not begun, and no pod is evicted\n\n")
	}
	if len(p.SourcesOff) > 0 {
		fmt.Fprintf(&b, "sources of groups that are off: %s\n\n", strings.Join(p.SourcesOff, ", "))
	}
	for _, tree := range p.Topologies {
		names := make([]string, len(tree.Levels))
		for i, level := range tree.Levels {
			names[i] = fmt.Sprintf("%s (label %s)", level.Name, level.Label)
		}
		fmt.Fprintf(&b, "topology %s: %s\n\n", tree.Name, strings.Join(names, ", "))
	}
	filled := p.resolvePoints()
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "QUESTION\tASKED, IN ORDER\tCOMBINED")
	for _, question := range filled.pointDescriptions() {
		asked := strings.Join(question.plugins, ", ")
		if asked == "" {
			asked = "-"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", question.point, asked, question.combination)
	}
	_ = table.Flush() // a strings.Builder does not fail
	return b.String()
}
