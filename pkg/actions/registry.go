// Package actions lists the built-in actions. It is not a place for code: each action is a package of its own.
package actions

import (
	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/actions/allocate"
	"github.com/tutti-sched/tutti/pkg/actions/backfill"
	"github.com/tutti-sched/tutti/pkg/actions/preempt"
	"github.com/tutti-sched/tutti/pkg/framework"
)

// BuiltIn returns every action a configuration may name.
func BuiltIn() []framework.ActionMaker {
	return []framework.ActionMaker{
		{Name: allocate.Name, Make: func(*config.Reader) (framework.Action, error) { return allocate.New(), nil }},
		{Name: backfill.Name, Make: func(arguments *config.Reader) (framework.Action, error) { return backfill.New(arguments), nil }},
		{Name: preempt.Name, Make: func(arguments *config.Reader) (framework.Action, error) {
			return preempt.New(preempt.ReadArguments(arguments)), nil
		}},
	}
}
