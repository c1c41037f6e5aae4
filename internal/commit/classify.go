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

// ErrNotLeading is the reply to a call that was not sent, because the Lease did not hold any more when its turn came.
var ErrNotLeading = errors.New("not leading")

// ErrNotBound and ErrElsewhere are replies to a CallGetPod: the pod has no node, or another one.
var (
	ErrNotBound  = errors.New("the pod has no node")
	ErrElsewhere = errors.New("the pod is on another node")
)

// class is what the answer to an attempt means for the next.
type class int8

const (
	// done: it took effect.
	done class = iota
	// rejected: it did not take effect, and may be tried again.
	rejected
	// unknown: it may have taken effect, and may be tried again.
	unknown
	// gone: it did not take effect and never will, the object is not there any more.
	gone
	// refused: it did not take effect, and trying again would not help.
	refused
)

// verdict is one attempt's answer, read.
type verdict struct {
	class class
	// retryAfter is how long the server asks to wait at least; zero when it does not say.
	retryAfter time.Duration
	// busy tells that the server has more to do than it can.
	busy bool
	// leaving tells of a refusal that the pod is being deleted.
	leaving bool
	// outdated tells of a refusal that the pod is not in the version any more that was to be bound.
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
		// As with kube-scheduler the pod is placed anew, and whoever filters nodes for its binder is asked again.
		return verdict{class: refused}
	case !errors.As(err, &status):
		return verdict{class: unknown}
	}
	v := verdict{class: refused}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		v.retryAfter = time.Duration(seconds) * time.Second
	}
	code := int(status.Status().Code)
	switch {
	case code == http.StatusTooManyRequests:
		// The eviction subresource answers 429 also when a disruption budget says no: that is an answer, not a delay.
		if kind != CallEvict || !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
			v.class, v.busy = rejected, true
		}
	case code == http.StatusNotFound:
		v.class = gone
	case code == http.StatusUnprocessableEntity && isUIDMismatch(status.Status().Details):
		v.class = gone
	case code == http.StatusConflict:
		v.class, v.leaving = conflict(kind, err)
		v.outdated = v.class == refused && strings.Contains(err.Error(), "ResourceVersion in precondition")
	case code == http.StatusInternalServerError && kind == CallEvict && strings.Contains(err.Error(), multiplePDBs):
	case code == http.StatusUnauthorized:
		v.class = rejected // a token that is being rotated
	case code == http.StatusRequestTimeout || code >= http.StatusInternalServerError || code == 0:
		v.class = unknown
	}
	return v
}

// multiplePDBs is how the eviction subresource says, with a code that looks like a fault of its own, that it does not evict
// pods which more than one disruption budget covers.
const multiplePDBs = "more than one PodDisruptionBudget"

// conflict reads a 409. It is about the UID or, for a bind, about what the pod is by now; the server tells these apart by its words
// alone, which for a deletion are others than for a bind. A bind is also answered so when the store behind the server has failed, as
// etcd does that is killed or changes its leader: then it may have taken effect. So only words that are known are a refusal.
func conflict(kind Kind, err error) (c class, leaving bool) {
	text := err.Error()
	switch {
	case kind == CallEvent && apierrors.IsAlreadyExists(err):
		return done, false // a retry keeps its name, so an attempt before it has arrived
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

// terminatingMessages are those about a pod that is being deleted.
const terminatingMessages = "is being deleted"

// isBindConflict are the words of a 409 by which a server that has looked at the pod does not bind it.
func isBindConflict() []string {
	return []string{"is already assigned to node", terminatingMessages, "has non-empty .spec.schedulingGates", "in precondition", "in the precondition"}
}

// isUIDMismatch tells of a patch that names another UID than the object has: the server takes it for an attempt to change it.
func isUIDMismatch(details *metav1.StatusDetails) bool {
	return details != nil && slices.ContainsFunc(details.Causes, func(cause metav1.StatusCause) bool { return cause.Field == "metadata.uid" })
}

// neverSent tells of errors that come before the first byte of the request is out.
func neverSent(err error) bool {
	var op *net.OpError
	return utilnet.IsConnectionRefused(err) || errors.As(err, &op) && op.Op == "dial"
}
