package model

import "context"

// PodBinder binds pods in place of the API server, such as an extender with an accounting of its own. The committer calls it,
// many pods concurrently, never within a session.
type PodBinder interface {
	// BinderName is the value of Bind.Binder.
	BinderName() string
	// BindPod binds the pod of that UID to the node, once, and returns soon after ctx is done. A refusal says that the pod is
	// not bound; with an error it is unknown, unless dialling failed.
	BindPod(ctx context.Context, pod PodRef, node string) (*Refusal, error)
	// Ignorable reports whether the API server is to bind the pod when the binder does not.
	Ignorable() bool
}
