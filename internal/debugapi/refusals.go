package debugapi

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/framework"
)

// ReadRefusals returns what the actions of the last session said of the jobs of that name. The error is the context's, when it
// ends before the loop answers.
func ReadRefusals(ctx context.Context, loop Loop, namespace, name string) (*RefusalList, error) {
	answer := make(chan *RefusalList, 1)
	loop.Inspect(func(shown Inspected) {
		document := refusalsOf(shown.Trail, namespace, name)
		document.At = shown.Snapshot.Now
		answer <- document
	})
	select {
	case document := <-answer:
		document.ListMeta = listMeta("RefusalList", document.At, loop.Leading())
		return document, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func refusalsOf(trail []framework.Step, namespace, name string) *RefusalList {
	document := &RefusalList{Items: []Refusal{}}
	for _, step := range trail {
		if key := step.Job.Key; key.Namespace == namespace && key.Name == name {
			code, reason := step.Describe()
			document.Items = append(document.Items, Refusal{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Job: key.Describe(), Action: step.Action, Code: code, Reason: reason,
			})
		}
	}
	return document
}
