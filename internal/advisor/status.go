package advisor

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/suggest"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file writes advice as the status of a PodGroup shows it.

// The limits of the API: the lengths of messages in bytes, how many nodes and resources a change names, and how many pods. The
// message of a change says all of it.
const (
	maxMessage       = 2048
	maxChangeMessage = 1024
	maxNodes         = 16
	maxResources     = 64
	maxCount         = 10_000_000
)

// describe returns the advice for a status; nil when there is none.
func describe(found suggest.Suggestions, dimensions *model.ResourceIndex) *v1alpha1.Advice {
	if len(found) == 0 {
		return nil
	}
	advice := &v1alpha1.Advice{Message: model.Clean(found.String(), maxMessage)}
	for _, suggestion := range found {
		var changes []v1alpha1.Change
		for _, change := range suggestion {
			changes = append(changes, changeOf(change, dimensions))
		}
		advice.Alternatives = append(advice.Alternatives, v1alpha1.Suggestion{Changes: changes})
	}
	return advice
}

func changeOf(change *suggest.Change, dimensions *model.ResourceIndex) v1alpha1.Change {
	c := v1alpha1.Change{Kind: kindOf(change.Kind), Message: model.Clean(change.String(), maxChangeMessage)}
	switch change.Kind {
	case suggest.Create, suggest.Ungate, suggest.Provide:
		c.Count = int32(min(change.Members, maxCount))
	case suggest.Free:
		c.Count = int32(len(change.Rooms))
		for _, room := range change.Rooms[:min(len(change.Rooms), maxNodes)] {
			c.Nodes = append(c.Nodes, v1alpha1.NodeChange{Name: room.Node, Resources: firstResources(dimensions.List(room.Amount))})
		}
	case suggest.Uncordon:
		c.Count = int32(len(change.Uncordoned))
		for _, name := range change.Uncordoned[:min(len(change.Uncordoned), maxNodes)] {
			c.Nodes = append(c.Nodes, v1alpha1.NodeChange{Name: name})
		}
	case suggest.Add:
		c.Count, c.Resources = int32(min(change.Nodes, maxCount)), firstResources(change.Request)
	case suggest.RaiseLimit:
		c.Queue, c.Resources = change.Queue, firstResources(change.Request)
	case suggest.LowerMinimum, suggest.RaisePriority:
		c.From, c.To = &change.From, &change.To
	case suggest.LowerRole:
		c.From, c.To = &change.From, &change.To
		for _, role := range change.PerRole {
			c.Role, c.Count = role.Name, min(role.MinMember, maxCount)
		}
	}
	return c
}

// firstResources returns as many resources as the API allows: those without a domain, which every node has, and then by name.
func firstResources(list corev1.ResourceList) corev1.ResourceList {
	if len(list) <= maxResources {
		return list
	}
	domain := func(name corev1.ResourceName) int { return strings.Count(string(name), "/") }
	names := slices.SortedFunc(maps.Keys(list), func(a, b corev1.ResourceName) int {
		return cmp.Or(cmp.Compare(domain(a), domain(b)), cmp.Compare(a, b))
	})
	first := corev1.ResourceList{}
	for _, name := range names[:maxResources] {
		first[name] = list[name]
	}
	return first
}

func kindOf(kind suggest.Kind) v1alpha1.ChangeKind {
	switch kind {
	case suggest.Create:
		return v1alpha1.CreatePods
	case suggest.Ungate:
		return v1alpha1.UngatePods
	case suggest.Drop:
		return v1alpha1.RelaxPods
	case suggest.Free:
		return v1alpha1.FreeCapacity
	case suggest.Uncordon:
		return v1alpha1.UncordonNodes
	case suggest.Add:
		return v1alpha1.AddNodes
	case suggest.AllowPreemption:
		return v1alpha1.AllowPreemption
	case suggest.RaisePriority:
		return v1alpha1.RaisePriority
	case suggest.RaiseLimit:
		return v1alpha1.RaiseLimit
	case suggest.Provide:
		return v1alpha1.ProvideCapacity
	case suggest.Widen:
		return v1alpha1.WidenTopology
	}
	return v1alpha1.LowerMinMember
}
