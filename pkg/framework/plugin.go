package framework

import (
	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/argument"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Factory makes a plugin for one session; its arguments were read and checked before.
type Factory func() Plugin

// Registration is a plugin or an action that a configuration may name, and what makes it.
type Registration[T any] struct {
	Name string
	// Summary is what it says or does, in half a sentence, and Arguments all that it reads.
	Summary   string
	Arguments argument.List
	// New reads the arguments, once per configuration. Arguments that are no good are the reader's to report; an error says that
	// nothing can be built at all.
	New func(arguments *config.Reader) (T, error)
}

// PluginRegistration is a plugin that a configuration may name.
type PluginRegistration = Registration[Factory]

// Refusals are those of nodes by one plugin in one session, each made once and shared between the nodes. The zero Refusals are
// ready.
type Refusals struct {
	made map[refusalKey]*model.Refusal
}

type refusalKey struct {
	code      model.Code
	detail    string
	evictable bool
}

// Get returns the refusal by the plugin of that name with this code and text.
func (r *Refusals) Get(plugin string, code model.Code, detail string, evictable bool) *model.Refusal {
	key := refusalKey{code, detail, evictable}
	refusal := r.made[key]
	if refusal == nil {
		if r.made == nil {
			r.made = map[refusalKey]*model.Refusal{}
		}
		refusal = &model.Refusal{Plugin: plugin, Code: code, Detail: detail, Evictable: evictable}
		r.made[key] = refusal
	}
	return refusal
}

// CodeMisuse is the code of a refusal that only a bug in an action can cause.
const CodeMisuse model.Code = "Misuse"
