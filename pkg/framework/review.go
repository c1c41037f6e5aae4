package framework

import "github.com/tutti-sched/tutti/pkg/model"

// NodeVictims is what a plan of victims would do on one node.
type NodeVictims struct {
	Node *model.Node
	// Members are those of the job that would be nominated to capacity there, in the order in which they are placed.
	Members []*model.Task
	// Victims are those that would leave the node, the most important first; never none.
	Victims []*model.Task
	// Violations is how many pods too many disruption budgets would lose by these victims alone.
	Violations int
}

// VictimRejection is an objection to evictions on one node.
type VictimRejection struct {
	Node *model.Node
	// By names the plugin that objects, as in the user's configuration, and says in brackets what else there is to know.
	By string
}

// PreemptionExtender decides in a plan of victims as a whole, once it is made and before anything of it is decided. Combined:
// all must agree; the first that does not is heard.
type PreemptionExtender interface {
	Plugin
	// ProcessPreemption is asked once about each plan for the preemptor, about the nodes where members would take the capacity of
	// victims, by name. It returns objections, one for a node at most and by name of the nodes, none when the plan may be carried
	// out; or a refusal when no plan may be for now. This and the answers of node filters are the only places where a session may
	// wait for a webhook. What it answers holds for this plan alone and is not kept.
	ProcessPreemption(preemptor *model.Job, proposals []NodeVictims) ([]VictimRejection, *model.Refusal)
}

// TransientFilter is a NodeFilter whose answers may be others in a few seconds although nothing in the cluster has changed,
// since it asks a webhook, or had no more time in this cycle. Combined: one is enough.
type TransientFilter interface {
	NodeFilter
	// IsTransient reports whether such an answer keeps the task from any node. Actions ask before they remember, beyond the
	// session, that the task has no place.
	IsTransient(task *model.Task) bool
}
