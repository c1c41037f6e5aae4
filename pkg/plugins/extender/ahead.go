package extender

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// excludeTerminating is the check for a task when those who are leaving have left.
func (p *plugin) excludeTerminating(known *extenderResult, task *model.Task) framework.NodeFilterFunc {
	return func(node *model.Node) *model.Refusal {
		if known.transient[node.Index] && (slices.ContainsFunc(node.Tasks, leaving) ||
			task.Nominated == node.Name && p.behind.mayRefuse(podOnNode{task.UID, node.Name}, p.now)) {
			return nil
		}
		return known.rejected[node.Index]
	}
}

func leaving(task *model.Task) bool {
	return task.Status == model.Releasing && !task.TerminationOverdue
}

// stalePods is since when extenders have been in the way of members for whom others have left: who has just left may still stand in
// their books, and others would be evicted elsewhere for nothing. It lives as long as the configuration.
//
// Invariant: only the session's goroutine touches it.
type stalePods struct{ since map[podOnNode]time.Time }

// podOnNode is a pod and the node that was promised to it.
type podOnNode struct {
	pod  types.UID
	node string
}

const (
	// staleWindow is for how long an extender's books may be behind.
	staleWindow = 10 * time.Second
	// forgotten is after how long it is a new visit.
	forgotten = 10 * time.Minute
)

// mayRefuse tells whether the extender may still be in the way.
func (b *stalePods) mayRefuse(v podOnNode, now time.Time) bool {
	since, known := b.since[v]
	if !known || now.Sub(since) >= forgotten {
		maps.DeleteFunc(b.since, func(_ podOnNode, since time.Time) bool { return now.Sub(since) >= forgotten })
		b.since[v], since = now, now
	}
	return now.Sub(since) < staleWindow
}
