package v1alpha1

import (
	"fmt"
	"slices"
	"strconv"
)

const (
	// APIVersion at the top of a file turns on what kube-batch's grammar does not have.
	APIVersion = "config.tutti.dev/v1alpha1"

	// Kind may stand beside APIVersion; nothing else may.
	Kind = "SchedulerConfiguration"
)

// Configuration is a decoded and validated file. It is never changed after Decode, so that it can be shared.
//
// Invariant: at least one action and one plugin; every name is a known one; no action and no plugin twice.
type Configuration struct {
	// Actions is the pipeline of a cycle, in its order.
	Actions []Action

	// Tiers are asked in their order, and the plugins of a tier in theirs.
	Tiers []Tier

	// Pause holds back all jobs that have not begun.
	Pause bool

	// SourcesOff are the foreign sources of groups that are off, sorted: their marks on pods mean nothing. Each is one of
	// SourceNames.
	SourcesOff []string

	// Topologies are the trees of domains that jobs may name levels of.
	Topologies []Topology
}

// Action is one step of the pipeline.
type Action struct {
	Name      string
	Arguments Arguments
	Position  Position
}

// Tier is a group of plugins; it has at least one.
type Tier struct {
	Plugins []Plugin
}

// Plugin is one plugin and how it takes part.
type Plugin struct {
	Name string

	// Disable lists the extension points at which the plugin is not asked though it has an answer. Each is one of
	// ExtensionPoints, and none stands there twice.
	Disable []ExtensionPoint

	Arguments Arguments
	Position  Position
}

// Disabled says whether the plugin is not to be asked at that extension point.
func (p Plugin) Disabled(point ExtensionPoint) bool {
	return slices.Contains(p.Disable, point)
}

// ExtensionPoint names a question that plugins answer, as it is written after disable.
type ExtensionPoint string

// The extension points.
const (
	QueueOrder ExtensionPoint = "queueOrder"
	JobOrder   ExtensionPoint = "jobOrder"
	TaskOrder  ExtensionPoint = "taskOrder"
	JobValid   ExtensionPoint = "jobValid"
	JobGate    ExtensionPoint = "jobGate"
	NodeFilter ExtensionPoint = "nodeFilter"
	NodeScore  ExtensionPoint = "nodeScore"
	Victims    ExtensionPoint = "victims"
	Observe    ExtensionPoint = "observe"
	Requests   ExtensionPoint = "requests"
)

// ExtensionPoints returns every extension point, in the order in which documentation and --explain-config list them.
func ExtensionPoints() []ExtensionPoint {
	return []ExtensionPoint{
		QueueOrder, JobOrder, TaskOrder, JobValid, JobGate,
		NodeFilter, NodeScore, Victims, Observe, Requests,
	}
}

// Known is what this build of the scheduler has. A name of Volcano's that is not in it is refused with what to write in its
// place, any other as unknown.
type Known struct {
	Actions []string
	Plugins []string
}

// Position is where in which file something is said.
type Position struct {
	// File is the name Decode was given.
	File string

	// Line counts from 1; 0 means that there is no such place.
	Line int
}

// String returns "file:line", or the file alone when there is no line.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return p.File + ":" + strconv.Itoa(p.Line)
}

// Error is one thing that is wrong with a configuration. Decode and Reader.Finish return one or several, joined; use
// Errors to take them apart.
type Error struct {
	Position Position
	Text     string
	// Cause is the error that the text repeats, when the configuration alone is not to blame; nil otherwise.
	Cause error
}

// Error returns "file:line: what is wrong".
func (e *Error) Error() string {
	return locate(e.Position, e.Text)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Warning is something that works and should be written differently.
type Warning struct {
	Position Position
	Text     string
}

// String returns "file:line: what should change".
func (w Warning) String() string {
	return locate(w.Position, w.Text)
}

func locate(at Position, text string) string {
	if at == (Position{}) {
		return text
	}
	return fmt.Sprintf("%s: %s", at, text)
}
