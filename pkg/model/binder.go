package model

import "context"

// PodBinder binds pods in place of the API server, such as an extender that keeps books of its own. It is asked by
// whoever carries decisions out, many pods at once, never within a session.
type PodBinder interface {
	// BinderName is what Bind.Binder says.
	BinderName() string
	// BindPod binds the pod of that UID to the node, once, and returns soon after ctx is done. A refusal says that the pod is
	// not bound; with an error nobody knows, unless it is one of dialling.
	BindPod(ctx context.Context, pod PodRef, node string) (*Refusal, error)
	// Ignorable tells that the API server is to bind the pod when the binder does not.
	Ignorable() bool
}
