package framework

import (
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

// View is what a plugin may ask a session. It decides nothing and moves no task. OpenSession and CloseSession are called with it,
// on the session's goroutine, and it is valid until CloseSession has returned. A test of a plugin makes one of its own.
type View interface {
	// Snapshot returns what the session decides about, which a plugin only reads. It follows the statements.
	Snapshot() *model.Snapshot
	// EligibleNodes returns the nodes that pass the NodeOnly filters for the task, by name.
	EligibleNodes(task *model.Task) []*model.Node
	// NamesLevels reports whether the task's job names levels of a topology.
	NamesLevels(task *model.Task) bool
	// Refusal returns why a job waits, nil when no action has refused it.
	Refusal(job *model.Job) *model.Refusal
	// ValidateAlone returns why the job need not be tried, also if other jobs held nothing of the limits of queues; nil when it may
	// be.
	ValidateAlone(job *model.Job) *model.Refusal
	// FitsLimits reports whether what the job asks for fits into the limits of its queues when other jobs hold nothing.
	FitsLimits(job *model.Job) bool
	// FitsEmptyNode reports whether the task fits on a node that has no pods.
	FitsEmptyNode(task *model.Task) bool
	// Until says when the answer that is being given may be another one although nothing happens; zero is never. A refusal says it
	// in its field Until instead.
	Until(at time.Time)
	// SearchCut counts a search for a job that the plugin has ended for lack of time.
	SearchCut()
	// DeviceCountWrong counts a node whose number of devices says that a task finds its devices there, when kube-scheduler's
	// allocator finds none.
	DeviceCountWrong()
	// Uncached reports that the plugin has to compute each answer again: tests compare sessions with one that remembers nothing.
	Uncached() bool
}
