// Package actions lists the built-in actions. It is not a place for code: each action is a package of its own.
package actions

import (
	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/actions/allocate"
	"github.com/tutti-sched/tutti/pkg/actions/backfill"
	"github.com/tutti-sched/tutti/pkg/actions/preempt"
	"github.com/tutti-sched/tutti/pkg/actions/reclaim"
	"github.com/tutti-sched/tutti/pkg/engine"
)

// BuiltIn returns every action a configuration may name.
func BuiltIn() []engine.ActionRegistration {
	return []engine.ActionRegistration{
		{
			Name:    allocate.Name,
			Summary: "starts jobs whose minimum fits as a whole, in the order of the plugins; then places surplus members one by one",
			New:     func(*config.Reader) (engine.Action, error) { return allocate.New(), nil },
		},
		{
			Name:      backfill.Name,
			Summary:   "keeps large gangs from starving, by reservations, and lets short jobs run around them",
			Arguments: backfill.Arguments(),
			New:       func(arguments *config.Reader) (engine.Action, error) { return backfill.New(arguments), nil },
		},
		{
			Name:      reclaim.Name,
			Summary:   "evicts pods of other queues where a job has a right to their capacity, and can then start as a whole",
			Arguments: reclaim.Arguments(),
			New: func(arguments *config.Reader) (engine.Action, error) {
				return reclaim.New(reclaim.ReadArguments(arguments)), nil
			},
		},
		{
			Name:      preempt.Name,
			Summary:   "evicts pods of lower priority where a job can then start as a whole",
			Arguments: preempt.Arguments(),
			New: func(arguments *config.Reader) (engine.Action, error) {
				return preempt.New(preempt.ReadArguments(arguments)), nil
			},
		},
	}
}
