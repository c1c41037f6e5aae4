package debugapi

import (
	"context"

	"github.com/tutti-sched/tutti/pkg/framework"
)

// ReadRefusals returns what the actions of the last session said of the jobs of that name. The error is the context's, when it
// ends before the loop answers.
func ReadRefusals(ctx context.Context, loop Loop, namespace, name string) (*Refusals, error) {
	answer := make(chan *Refusals, 1)
	loop.Inspect(func(shown Inspected) { answer <- refusalsOf(shown.Trail, namespace, name) })
	select {
	case document := <-answer:
		document.Leading = loop.Leading()
		return document, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func refusalsOf(trail []framework.Step, namespace, name string) *Refusals {
	document := &Refusals{Refusals: []Refusal{}}
	for _, step := range trail {
		if key := step.Job.Key; key.Namespace == namespace && key.Name == name {
			code, reason := step.Describe()
			document.Refusals = append(document.Refusals, Refusal{Job: key.Describe(), Action: step.Action, Code: code, Reason: reason})
		}
	}
	return document
}
