package extender

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// excludeTerminating is the filter for a task when terminating pods are gone.
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

// stalePods is since when extenders have refused nodes to members for which pods were evicted: an extender's accounting may
// still contain a pod that is just gone, and other pods would be evicted on another node without need. It lives as long as
// the configuration.
//
// Invariant: only the session's goroutine uses it.
type stalePods struct{ since map[podOnNode]time.Time }

// podOnNode is a pod and the node that it is nominated to.
type podOnNode struct {
	pod  types.UID
	node string
}

const (
	// staleWindow is for how long an extender's accounting may be stale.
	staleWindow = 10 * time.Second
	// forgotten is after how long a refusal counts as a new one.
	forgotten = 10 * time.Minute
)

// mayRefuse reports whether the refusal may come from a stale accounting.
func (b *stalePods) mayRefuse(v podOnNode, now time.Time) bool {
	since, known := b.since[v]
	if !known || now.Sub(since) >= forgotten {
		maps.DeleteFunc(b.since, func(_ podOnNode, since time.Time) bool { return now.Sub(since) >= forgotten })
		b.since[v], since = now, now
	}
	return now.Sub(since) < staleWindow
}
