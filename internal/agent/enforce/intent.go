package enforce

import (
	"fmt"
	"strings"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

// assignmentIntent is the meaning of a pod's annotations on this node.
type assignmentIntent struct {
	// given is the assignment; nil when there is none, or none that is valid here.
	given *isolated.Assignment
	// why is the reason that it is not valid.
	why *Refusal
	// names are the containers that are to run on isolated CPUs; all is set when no names can be read, so that every
	// container counts.
	names map[string]bool
	all   bool
}

func (i *assignmentIntent) selectsContainer(container string) bool {
	return i.all || i.names[container]
}

// intentOf reads the annotations of a pod. One without any is ordinary. A pod that requests isolated CPUs, or has an invalid
// assignment, is never ordinary: as many containers count as the annotations may name, and all where no name can be read.
func intentOf(node string, pod *Pod) assignmentIntent {
	asked, asks := pod.Annotations[isolated.RequestAnnotation]
	text, assigned := pod.Annotations[isolated.AssignedAnnotation]
	if !asks && !assigned {
		return assignmentIntent{}
	}
	in := assignmentIntent{names: map[string]bool{}}
	if asked = strings.TrimSpace(asked); asked != "true" {
		for name := range strings.SplitSeq(asked, ",") {
			if name = strings.TrimSpace(name); name != "" {
				in.names[name] = true
			}
		}
	}
	given, err := isolated.ParseAssignment(text)
	if assigned && err == nil {
		for name := range given.Containers {
			in.names[name] = true
		}
	}
	switch {
	case !assigned:
		in.why = refuse(Unassigned, "the pod asks for isolated CPUs and was given none: it was not placed by a scheduler that does")
	case err != nil:
		in.why = refuse(Malformed, "%v", err)
	case len(given.Containers) == 0:
		in.why = refuse(Malformed, "the assignment names no container")
	case given.UID != pod.UID:
		in.why = refuse(StaleUID, "the assignment is of pod uid %q, this is %q", given.UID, pod.UID)
	case given.Node != node:
		in.why = refuse(WrongNode, "the assignment is for node %q, this is %q", given.Node, node)
	default:
		in.given = given
		return in
	}
	in.all = asked == "true" || len(in.names) == 0
	return in
}

// Reasons of refusals, as the metric counts them.
const (
	// Unassigned is a pod with a request and no assignment.
	Unassigned = "unassigned"
	// Malformed is an assignment that cannot be read, or that names a container without CPUs.
	Malformed = "malformed"
	// StaleUID is an assignment that was copied from another pod.
	StaleUID = "stale-uid"
	// WrongNode is an assignment for another node.
	WrongNode = "wrong-node"
	// Outside is an assignment with CPUs that are not isolated, or not online.
	Outside = "outside"
	// Overlap is an assignment with CPUs that another pod holds.
	Overlap = "overlap"
	// Closed is a node whose CPUs must not be offered.
	Closed = "closed"
)

// Refusal is why a container may not run on isolated CPUs. It is the error that the runtime returns to the kubelet.
type Refusal struct {
	// Reason is one of the constants.
	Reason string
	// Message explains it, with numbers.
	Message string
	// Idle reports whether the CPUs are held for a pod of which no container runs. It may have ended without an event: see
	// hooks.Link.
	Idle bool
}

// Error is the text of the pod's event.
func (r *Refusal) Error() string { return "isolcpu: " + r.Reason + ": " + r.Message }

func refuse(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
