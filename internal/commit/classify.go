package commit

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// ErrNotLeading is the reply to a call that was not sent, because the Lease was no longer held.
var ErrNotLeading = errors.New("not leading")

// ErrNotBound and ErrElsewhere are replies to a CallGetPod: the pod has no node, or another one.
var (
	ErrNotBound  = errors.New("the pod has no node")
	ErrElsewhere = errors.New("the pod is on another node")
)

// class is the meaning of an attempt's answer for the next.
type class int8

const (
	// done: it took effect.
	done class = iota
	// rejected: it did not take effect, and may be tried again.
	rejected
	// unknown: it may have taken effect, and may be tried again.
	unknown
	// gone: it did not take effect and never will, the object no longer exists.
	gone
	// refused: it did not take effect, and trying again would not help.
	refused
)

// verdict is one attempt's answer, classified.
type verdict struct {
	class class
	// retryAfter is the server's minimal delay; zero when it gives none.
	retryAfter time.Duration
	// busy reports whether the server is overloaded.
	busy bool
	// leaving reports, for a refusal, whether the pod is terminating.
	leaving bool
	// protected reports, for a refusal, whether disruption budgets forbid the eviction.
	protected bool
	// outdated reports, for a refusal, whether the pod has a newer version than the bind's.
	outdated bool
}

func classify(kind Kind, err error) verdict {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return verdict{class: done}
	case errors.Is(err, ErrNotLeading) || neverSent(err):
		return verdict{class: rejected}
	case errors.Is(err, ErrNotBound) || errors.Is(err, ErrElsewhere):
		return verdict{class: done} // that is an answer, too
	case errors.Is(err, errBinderRefused):
		// As with kube-scheduler the pod is placed again, and the extender with the binder filters nodes again.
		return verdict{class: refused}
	case !errors.As(err, &status):
		return verdict{class: unknown}
	}
	v := verdict{class: refused, protected: kind == CallEvict && apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause)}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		v.retryAfter = time.Duration(seconds) * time.Second
	}
	code := int(status.Status().Code)
	switch {
	case v.protected:
		// The eviction subresource answers 429 also when a disruption budget refuses, which is an answer, not a delay, and 403 where
		// what the budget says cannot be.
	case code == http.StatusTooManyRequests:
		v.class, v.busy = rejected, true
	case code == http.StatusNotFound:
		v.class = gone
	case code == http.StatusUnprocessableEntity && isUIDMismatch(status.Status().Details):
		v.class = gone
	case code == http.StatusConflict:
		v.class, v.leaving = conflict(kind, err)
		v.outdated = v.class == refused && strings.Contains(err.Error(), "ResourceVersion in precondition")
	case code == http.StatusInternalServerError && kind == CallEvict && strings.Contains(err.Error(), multiplePDBs):
		v.protected = true
	case code == http.StatusUnauthorized:
		v.class = rejected // a token that is being rotated
	case code == http.StatusRequestTimeout || code >= http.StatusInternalServerError || code == 0:
		v.class = unknown
	}
	return v
}

// multiplePDBs is the message of the eviction subresource for pods that more than one disruption budget covers; its code is
// that of an internal error.
const multiplePDBs = "more than one PodDisruptionBudget"

// conflict classifies a 409. It is about the UID or, for a bind, about the pod's present state; only the server's message
// distinguishes these, and it differs between a deletion and a bind. A bind also gets a 409 when the store behind the server
// has failed, such as an etcd that is killed or changes its leader: then it may have taken effect. So only known messages are
// a refusal. The binding subresource does not look at the node: a bind to a node that is gone is done, and the garbage collector
// of pods deletes the pod later.
func conflict(kind Kind, err error) (c class, leaving bool) {
	text := err.Error()
	switch {
	case kind == CallEvent && apierrors.IsAlreadyExists(err):
		return done, false // a retry keeps its name, so an earlier attempt has arrived
	case strings.Contains(text, "UID in precondition") || strings.Contains(text, "UID in the precondition"):
		return gone, false
	case kind != CallBind:
		return rejected, false
	case slices.ContainsFunc(isBindConflict(), func(words string) bool { return strings.Contains(text, words) }):
		return refused, strings.Contains(text, terminatingMessages)
	default:
		return unknown, false
	}
}

// terminatingMessages are the messages about a terminating pod.
const terminatingMessages = "is being deleted"

// isBindConflict returns the messages of a 409 by which a server that has read the pod refuses to bind it.
func isBindConflict() []string {
	return []string{"is already assigned to node", terminatingMessages, "has non-empty .spec.schedulingGates", "in precondition", "in the precondition"}
}

// isUIDMismatch reports whether a patch has another UID than the object: the server treats it as an attempt to change it.
func isUIDMismatch(details *metav1.StatusDetails) bool {
	return details != nil && slices.ContainsFunc(details.Causes, func(cause metav1.StatusCause) bool { return cause.Field == "metadata.uid" })
}

// neverSent reports whether the error occurred before the first byte of the request was sent.
func neverSent(err error) bool {
	var op *net.OpError
	return utilnet.IsConnectionRefused(err) || errors.As(err, &op) && op.Op == "dial"
}
