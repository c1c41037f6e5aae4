package framework

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Point names an extension point in the configuration and in explanations.
type Point string

// The extension points that a configuration may switch off for one plugin.
const (
	PointQueueOrder Point = "queueOrder"
	PointJobOrder   Point = "jobOrder"
	PointTaskOrder  Point = "taskOrder"
	PointJobValid   Point = "jobValid"
	PointQueueLimit Point = "queueLimit"
	PointJobGate    Point = "jobGate"
	PointNodeFilter Point = "nodeFilter"
	PointNodeScore  Point = "nodeScore"
	PointVictims    Point = "victims"
	PointObserve    Point = "observe"
)

// Factory makes a plugin for one session; its arguments were read and checked before.
type Factory func() Plugin

// Member is one plugin of a tier.
type Member struct {
	New Factory
	// Disabled are the points at which the plugin is not asked; nil means it is asked at all it implements.
	Disabled []Point
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
	queueOrder  []QueueOrderer
	jobOrder    []JobOrderer
	taskOrder   []TaskOrderer
	jobValid    []JobValidator
	queueLimit  []QueueLimiter
	jobGate     []JobGate
	nodeFilter  []NodeFilter
	nodeScore   []NodeScorer
	victims     [][]VictimPicker
	observe     []Observer
	openSession []SessionOpener
	closeSess   []SessionCloser
}

// instance is a plugin of this session and where it is not asked.
type instance struct {
	plugin   Plugin
	disabled map[Point]bool
}

func (p *Profile) slots() slots {
	tiers := make([][]instance, len(p.Tiers))
	var filled slots
	for i, tier := range p.Tiers {
		for _, member := range tier {
			made := instance{plugin: member.New(), disabled: map[Point]bool{}}
			for _, point := range member.Disabled {
				made.disabled[point] = true
			}
			tiers[i] = append(tiers[i], made)
			filled.all = append(filled.all, made.plugin)
		}
	}
	filled.queueOrder = flat(fill[QueueOrderer](tiers, PointQueueOrder))
	filled.jobOrder = flat(fill[JobOrderer](tiers, PointJobOrder))
	filled.taskOrder = flat(fill[TaskOrderer](tiers, PointTaskOrder))
	filled.jobValid = flat(fill[JobValidator](tiers, PointJobValid))
	filled.queueLimit = flat(fill[QueueLimiter](tiers, PointQueueLimit))
	filled.jobGate = flat(fill[JobGate](tiers, PointJobGate))
	filled.nodeFilter = flat(fill[NodeFilter](tiers, PointNodeFilter))
	filled.nodeScore = flat(fill[NodeScorer](tiers, PointNodeScore))
	filled.victims = fill[VictimPicker](tiers, PointVictims)
	filled.observe = flat(fill[Observer](tiers, PointObserve))
	filled.openSession = flat(fill[SessionOpener](tiers, ""))
	filled.closeSess = flat(fill[SessionCloser](tiers, ""))
	return filled
}

// fill returns, tier by tier, the plugins that implement T and are not disabled at the point.
func fill[T Plugin](tiers [][]instance, point Point) [][]T {
	filled := make([][]T, len(tiers))
	for i, tier := range tiers {
		for _, member := range tier {
			if plugin, ok := member.plugin.(T); ok && !member.disabled[point] {
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

// question is one extension point, how its answers combine, and who is asked.
type question struct {
	point Point
	rule  string
	asked []string
}

func (s *slots) questions() []question {
	return []question{
		{PointQueueOrder, "first non-zero, then creation time, then UID", names(s.queueOrder)},
		{PointJobOrder, "first non-zero, then creation time, then UID", names(s.jobOrder)},
		{PointTaskOrder, "first non-zero, then creation time, then UID", names(s.taskOrder)},
		{PointJobValid, "first refusal", names(s.jobValid)},
		{PointQueueLimit, "first refusal", names(s.queueLimit)},
		{PointJobGate, "all must agree", names(s.jobGate)},
		{PointNodeFilter, "first refusal", names(s.nodeFilter)},
		{PointNodeScore, "sum of weight × score", names(s.nodeScore)},
		{PointVictims, "intersection in the first tier that decides", names(flat(s.victims))},
		{PointObserve, "all are told", names(s.observe)},
		{"openSession", "all, in tier order", names(s.openSession)},
		{"closeSession", "all, in reverse order", names(s.closeSess)},
	}
}

func names[T Plugin](plugins []T) []string {
	all := make([]string, len(plugins))
	for i, plugin := range plugins {
		all[i] = plugin.Name()
	}
	return all
}

// Idle returns the names of the plugins that no question is put to, in tier order: a mistake in the configuration.
func (p *Profile) Idle() []string {
	filled := p.slots()
	asked := map[string]bool{}
	for _, question := range filled.questions() {
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
