package engine

import (
	"github.com/tutti-sched/tutti/pkg/model"
)

// Step is one refusal that a session recorded, with the action that gave it. The last step of a job is the reason that users
// read.
type Step struct {
	// Action is the name of the action, Engine where none gave the refusal.
	Action string
	Job    *model.Job
	// Refusal is nil where the action took back what was recorded before, since the job does not wait any more.
	Refusal *model.Refusal
}

// Describe returns the code and the reason.
func (s *Step) Describe() (code, reason string) {
	if s.Refusal == nil {
		return "", "does not wait any more"
	}
	return string(s.Refusal.Code), s.Refusal.String()
}

// Plugin returns the plugin that refused the job as a whole; empty when nodes were refused, or the step is no refusal.
func (s *Step) Plugin() string {
	if s.Refusal == nil {
		return ""
	}
	return s.Refusal.Plugin
}

// Trail returns the refusals of the last session that was run, in the order in which they were recorded. It is valid until the
// next one. A session that would repeat the last one is not run and leaves the trail as it is.
func (c *Cache) Trail() []Step { return c.trail }

// clearTrail begins the trail of a cycle; the memory of the last one is used again.
func (c *Cache) clearTrail() {
	clear(c.trail)
	c.trail = c.trail[:0]
}

// addStep adds a refusal to the trail.
func (s *Session) addStep(job *model.Job, refusal *model.Refusal) {
	step := Step{Action: Engine, Job: job, Refusal: refusal}
	if s.pipeline.part < len(s.profile.Actions) {
		step.Action = s.profile.Actions[s.pipeline.part].Name()
	}
	s.cache.trail = append(s.cache.trail, step)
}
