package framework

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
)

// Factory makes a plugin for one session; its arguments were read and checked before.
type Factory func() Plugin

// Member is one plugin of a tier.
type Member struct {
	New Factory
	// Disabled are the points at which the plugin is not asked; nil means it is asked wherever it has an answer.
	Disabled []config.ExtensionPoint
}

// Tier is plugins of equal standing, in their order.
type Tier []Member

// Profile is what a session runs with: the pipeline of actions and the tiers of plugins.
type Profile struct {
	Actions []Action
	Tiers   []Tier
}

// slots is who is asked what, filled anew for each session. This is the only list of who takes part where.
type slots struct {
	all         []Plugin
	jobOrder    []JobOrderer
	taskOrder   []TaskOrderer
	jobValid    []JobValidator
	jobGate     []JobGate
	nodeFilter  []NodeFilter
	nodeScore   []NodeScorer
	requests    []translator
	binders     []PodBinders
	conflicts   []ConflictEnder
	reserve     []Reserver
	assign      []Assigner
	bind        []Binder
	victims     [][]VictimPicker
	review      []VictimReviewer
	observe     []Observer
	openSession []SessionOpener
	closeSess   []SessionCloser
}

// instance is a plugin of this session and where it is not asked.
type instance struct {
	plugin   Plugin
	disabled []config.ExtensionPoint
}

func (p *Profile) slots() slots {
	tiers := make([][]instance, len(p.Tiers))
	var filled slots
	for i, tier := range p.Tiers {
		for _, member := range tier {
			made := instance{plugin: member.New(), disabled: member.Disabled}
			tiers[i] = append(tiers[i], made)
			filled.all = append(filled.all, made.plugin)
		}
	}
	filled.jobOrder = flat(fill[JobOrderer](tiers, config.JobOrder))
	filled.taskOrder = flat(fill[TaskOrderer](tiers, config.TaskOrder))
	filled.jobValid = flat(fill[JobValidator](tiers, config.JobValid))
	filled.jobGate = flat(fill[JobGate](tiers, config.JobGate))
	filled.nodeFilter = flat(fill[NodeFilter](tiers, config.NodeFilter))
	filled.nodeScore = flat(fill[NodeScorer](tiers, config.NodeScore))
	filled.requests = flat(fill[translator](tiers, config.Requests))
	filled.binders = flat(fill[PodBinders](tiers, ""))
	filled.conflicts = flat(fill[ConflictEnder](tiers, ""))
	filled.reserve = flat(fill[Reserver](tiers, ""))
	filled.assign = flat(fill[Assigner](tiers, ""))
	filled.bind = flat(fill[Binder](tiers, ""))
	filled.victims = fill[VictimPicker](tiers, config.Victims)
	filled.review = flat(fill[VictimReviewer](tiers, ""))
	filled.observe = flat(fill[Observer](tiers, config.Observe))
	filled.openSession = flat(fill[SessionOpener](tiers, ""))
	filled.closeSess = flat(fill[SessionCloser](tiers, ""))
	return filled
}

// fill returns, tier by tier, the plugins that implement T and are not disabled at the point.
func fill[T Plugin](tiers [][]instance, point config.ExtensionPoint) [][]T {
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

func flat[T any](tiers [][]T) []T {
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

// question is one extension point, how its answers combine, and who is asked.
type question struct {
	point config.ExtensionPoint
	rule  string
	asked []string
}

func (s *slots) questions() []question {
	return []question{
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
		{config.Victims, "intersection in the first tier that decides", names(flat(s.victims))},
		{"review", "all must agree on each plan", names(s.review)},
		{config.Observe, "all are told", names(s.observe)},
		{openSession, "all, in tier order", names(s.openSession)},
		{closeSession, "all, in reverse order", names(s.closeSess)},
	}
}

func names[T Plugin](plugins []T) []string {
	all := make([]string, len(plugins))
	for i, plugin := range plugins {
		all[i] = plugin.Name()
	}
	return all
}

// Names returns the names of its actions and plugins, in their order.
func (p *Profile) Names() []string {
	var all []string
	for _, action := range p.Actions {
		all = append(all, action.Name())
	}
	for _, tier := range p.Tiers {
		for _, member := range tier {
			all = append(all, member.New().Name())
		}
	}
	return all
}

// Idle returns the names of the plugins that no question is put to, in tier order: a mistake in the configuration. To be told
// that a session opens and closes is no question: who is told nothing else takes part in nothing.
func (p *Profile) Idle() []string {
	filled := p.slots()
	asked := map[string]bool{}
	for _, question := range filled.questions() {
		if question.point == openSession || question.point == closeSession {
			continue
		}
		for _, name := range question.asked {
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
	actions := make([]string, len(p.Actions))
	for i, action := range p.Actions {
		actions[i] = action.Name()
	}
	fmt.Fprintf(&b, "actions: %s\n\n", strings.Join(actions, ", "))
	filled := p.slots()
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "QUESTION\tASKED, IN ORDER\tCOMBINED")
	for _, question := range filled.questions() {
		asked := strings.Join(question.asked, ", ")
		if asked == "" {
			asked = "-"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", question.point, asked, question.rule)
	}
	_ = table.Flush() // a strings.Builder does not fail
	return b.String()
}
