package extender

import (
	"context"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// podBinder is an extender that binds.
type podBinder struct{ remote *extenderClient }

var _ model.PodBinder = podBinder{}

// BinderName returns the extender's URL, without credentials.
func (b podBinder) BinderName() string { return b.remote.name }

// Ignorable reports whether the API server is to bind what the extender does not.
func (b podBinder) Ignorable() bool { return b.remote.options.Ignorable }

// BindPod calls the extender, which answers when the pod is bound or why it is not.
func (b podBinder) BindPod(ctx context.Context, pod model.PodRef, node string) (*model.Refusal, error) {
	result, err := call[extenderv1.ExtenderBindingResult](ctx, b.remote, b.remote.options.BindVerb,
		&extenderv1.ExtenderBindingArgs{PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID, Node: node})
	if err != nil || result.Error == "" {
		return nil, err
	}
	return &model.Refusal{Plugin: Name, Code: model.BindFailed, Detail: plain(result.Error)}, nil
}
