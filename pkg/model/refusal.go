package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Code is the stable, machine-readable reason of a refusal. The condition, the event and the metric show it.
type Code string

// The codes. A code, once released, keeps its meaning.
const (
	// NotEnoughMembers: fewer running, pending or finished members exist than the minimum requires.
	NotEnoughMembers Code = "NotEnoughMembers"
	// InsufficientResources: the nodes that may run a member lack capacity for it.
	InsufficientResources Code = "InsufficientResources"
	// NodesFiltered: selectors, taints, affinity, volumes or the like leave no node for a member.
	NodesFiltered Code = "NodesFiltered"
	// NoDomainFits: no domain of a level that members share has capacity for all of them that must start together.
	NoDomainFits Code = "NoDomainFits"
	// WaitingForDomain: a domain that members prefer to share is waited for, as long as the group says.
	WaitingForDomain Code = "WaitingForDomain"
	// WaitingForVictims: the whole start is nominated to capacity that is being released.
	WaitingForVictims Code = "WaitingForVictims"
	// GroupNotFound: the pod names a PodGroup that does not exist in its namespace.
	GroupNotFound Code = "GroupNotFound"
	// SchedulingGated: members carry scheduling gates.
	SchedulingGated Code = "SchedulingGated"
	// InvalidRequest: a member's resource request is invalid.
	InvalidRequest Code = "InvalidRequest"
	// InvalidGroup: the PodGroup contradicts itself, or a member of an implicit group does not say how many it needs.
	InvalidGroup Code = "InvalidGroup"
	// Reserved: there is capacity, but it is reserved for another job.
	Reserved Code = "Reserved"
	// EvictionRefused: the API server has lately refused to evict the pod.
	EvictionRefused Code = "EvictionRefused"
	// BindFailed: the API server refused a member, or did not answer before the deadline.
	BindFailed Code = "BindFailed"
	// MembersLost: the group has lost members and could not be completed in time, so that it starts again, by its policy; or
	// it has just lost all of them.
	MembersLost Code = "MembersLost"
	// Quarantined: a plugin or an action panicked for the job, which is skipped for some time.
	Quarantined Code = "Quarantined"
	// CycleFailed: a cycle ended before the job's turn, because of a panic.
	CycleFailed Code = "CycleFailed"
	// Paused: the scheduler starts no job that has not begun, since it is paused.
	Paused Code = "Paused"
	// Malformed: an object of the job could not be read.
	Malformed Code = "Malformed"
	// QueueNotFound: the queue of the job does not exist.
	QueueNotFound Code = "QueueNotFound"
	// QueueNotAllowed: the queue does not take jobs of the namespace.
	QueueNotAllowed Code = "QueueNotAllowed"
	// QueueNotLeaf: the queue has queues below it, and takes no jobs itself.
	QueueNotLeaf Code = "QueueNotLeaf"
	// QueueInvalid: the queue, or one above it, has no parent, is in a cycle, too deep in the tree, or cannot be read.
	QueueInvalid Code = "QueueInvalid"
	// QueuePaused: the queue, or one above it, starts no job that has not begun.
	QueuePaused Code = "QueuePaused"
	// QueueLimit: with the job the queue, or one above it, would hold more than its limit.
	QueueLimit Code = "QueueLimit"
)

// Refusal says why a request is refused. It is a value, not an error: nothing went wrong. A nil *Refusal means accepted. The
// receiver must not change it, since many nodes may share it.
type Refusal struct {
	// Plugin is the plugin that refused; empty for the engine itself.
	Plugin string
	// Code is the stable reason.
	Code Code
	// Detail is the object of the reason, in the user's terms: a resource, a taint, a role, a group.
	Detail string
	// Needs and Has are the numbers behind the reason, in the unit of Detail; both are zero when there are none.
	Needs, Has int64
	// Absent reports, for the refusal of a node that lacks the resource Detail, that it has nothing of it at all.
	Absent bool
	// Evictable reports whether an eviction could change the result.
	Evictable bool
	// Until is when the result may be another one although nothing in the cluster changes; zero is never. A result that holds in no
	// other session has the time of its own. No text contains it.
	Until time.Time
	// BlockedByBudgets reports, for the refusal of a whole job, whether pods would be evicted for it if their disruption budgets
	// allowed that.
	BlockedByBudgets bool
	// BlockedByProtected reports, for the refusal of a whole job, whether pods that a guarantee gives it are never evicted.
	BlockedByProtected bool
	// NodeReasons counts, for the refusal of a whole job, the nodes by the reason that refused its first member without a
	// place; most frequent first.
	NodeReasons []NodeReason
	// Unmet is the request, such as "8 nvidia.com/gpu", of each member without a place for the resource that most nodes lack;
	// empty when the requests differ, or when the reason is not capacity. Closest says which node has the smallest shortage:
	// "closest: node n7, missing 3 nvidia.com/gpu", or that no node is large enough; empty when unknown.
	Unmet, Closest string
	// Note is additional information for the user, such as that capacity is reserved; empty when there is none.
	Note string
}

// NodeReason is one count of a refusal: so many nodes refused for this reason.
type NodeReason struct {
	Code   Code
	Detail string
	// Absent reports that they have nothing of the resource Detail; otherwise it is in use on them.
	Absent bool
	Nodes  int
}

// String returns the one sentence that is shown everywhere: "needs 12, 9 would fit (role worker); 31 nodes lack nvidia.com/gpu, 4
// nodes: had untolerated taint gpu=true:NoSchedule; 3 members short of 8 nvidia.com/gpu each; closest: node n7, missing 3
// nvidia.com/gpu". It has up to MaxMessage bytes and no characters that a terminal would obey.
func (r *Refusal) String() string {
	if r == nil {
		return ""
	}
	words := r.summary()
	if short := r.short(); short != "" {
		words += "; " + short
	}
	if r.Note != "" {
		words += "; " + r.Note
	}
	return Clean(words, MaxMessage)
}

// closestNode begins what Closest says of a node.
const closestNode = "closest: node "

// ClosestNode returns the node that Closest names; empty where it names none.
func (r *Refusal) ClosestNode() string {
	rest, names := strings.CutPrefix(r.Closest, closestNode)
	if !names {
		return ""
	}
	name, _, _ := strings.Cut(rest, ",")
	return name
}

// LacksPlace reports whether what the job lacks is nodes: capacity, nodes that match, or a domain with capacity for all.
func (r *Refusal) LacksPlace() bool {
	return r != nil && (r.Code == InsufficientResources || r.Code == NodesFiltered || r.Code == NoDomainFits)
}

// LastsUntilOthersAct reports whether the job waits until something else changes: nodes, other jobs, its members, its group, its
// queue or a pause. All other refusals end by time, or with what the scheduler has begun for the job.
func (r *Refusal) LastsUntilOthersAct() bool {
	if r == nil {
		return false
	}
	switch r.Code {
	case WaitingForDomain, WaitingForVictims, EvictionRefused, BindFailed, MembersLost, Quarantined, CycleFailed:
		return false
	}
	return true
}

// Summary is String without the amounts and without the note.
func (r *Refusal) Summary() string { return Clean(r.summary(), MaxMessage) }

func (r *Refusal) summary() string {
	var b strings.Builder
	b.WriteString(r.lead())
	for i, cause := range r.NodeReasons[:min(len(r.NodeReasons), maxCauses)] {
		if i == 0 {
			b.WriteString("; ")
		} else {
			b.WriteString(", ")
		}
		b.WriteString(cause.String())
	}
	if len(r.NodeReasons) > maxCauses {
		nodes := 0
		for _, cause := range r.NodeReasons[maxCauses:] {
			nodes += cause.Nodes
		}
		fmt.Fprintf(&b, ", and %d nodes for other reasons", nodes)
	}
	return b.String()
}

// maxCauses is how many reasons String contains.
const maxCauses = 6

// short returns the shortage: "3 members short of 8 nvidia.com/gpu each; closest: node n7, missing 3 nvidia.com/gpu".
func (r *Refusal) short() string {
	var words string
	switch missing := r.Needs - r.Has; {
	case r.Unmet == "" || missing <= 0:
		return r.Closest
	case missing == 1:
		words = "1 member short of " + r.Unmet
	default:
		words = fmt.Sprintf("%d members short of %s each", missing, r.Unmet)
	}
	if r.Closest != "" {
		words += "; " + r.Closest
	}
	return words
}

// WithNote returns the refusal with one more note.
func (r *Refusal) WithNote(note string) *Refusal {
	noted := *r
	if noted.Note != "" {
		note = noted.Note + "; " + note
	}
	noted.Note = note
	return &noted
}

func (r *Refusal) lead() string {
	switch r.Code {
	case NotEnoughMembers:
		if r.Needs != 0 {
			return fmt.Sprintf("needs %d, %d exist%s", r.Needs, r.Has, rolePhrase(r.Detail))
		}
	case InsufficientResources, NodesFiltered:
		if r.Needs != 0 {
			return fmt.Sprintf("needs %d, %d would fit%s", r.Needs, r.Has, rolePhrase(r.Detail))
		}
	}
	return r.Detail
}

func rolePhrase(detail string) string {
	if detail == "" {
		return ""
	}
	return " (" + detail + ")"
}

// String returns "31 nodes lack nvidia.com/gpu", "8 nodes have no nvidia.com/gpu" or "4 nodes: untolerated taint {gpu: true}".
func (c NodeReason) String() string {
	nodes, lack := "nodes", "lack"
	if c.Absent {
		lack = "have no"
	}
	switch {
	case c.Nodes == 0:
		return c.Detail
	case c.Nodes == 1 && c.Absent:
		nodes, lack = "node", "has no"
	case c.Nodes == 1:
		nodes, lack = "node", "lacks"
	}
	if c.Code == InsufficientResources && !strings.Contains(c.Detail, " ") { // else it is not only a resource name
		return fmt.Sprintf("%d %s %s %s", c.Nodes, nodes, lack, c.Detail)
	}
	return fmt.Sprintf("%d %s: %s", c.Nodes, nodes, c.Detail)
}

// NodeDiagnosis counts refusals of nodes. The zero NodeDiagnosis is empty and ready.
type NodeDiagnosis struct {
	// counts are the numbers of nodes by reason; that of the key is zero.
	counts map[NodeReason]int
	// evictable is true once a counted refusal is evictable.
	evictable bool
	// until is the soonest Refusal.Until of all.
	until time.Time
	// asks and closest are Refusal.Unmet and Refusal.Closest.
	asks, closest string
}

// Add adds one node's refusal; nil counts nothing.
func (t *NodeDiagnosis) Add(r *Refusal) { t.AddN(r, 1) }

// AddN adds the same refusal of so many nodes; with zero nodes it still is a reason. Nil counts nothing.
func (t *NodeDiagnosis) AddN(r *Refusal, nodes int) {
	if r == nil {
		return
	}
	if t.counts == nil {
		t.counts = map[NodeReason]int{}
	}
	t.counts[NodeReason{Code: r.Code, Detail: r.Detail, Absent: r.Absent}] += nodes
	t.evictable = t.evictable || r.Evictable
	t.until = Sooner(t.until, r.Until)
}

// Merge adds the counts of another diagnosis.
func (t *NodeDiagnosis) Merge(other *NodeDiagnosis) {
	for key, n := range other.counts {
		if t.counts == nil {
			t.counts = map[NodeReason]int{}
		}
		t.counts[key] += n
	}
	t.evictable = t.evictable || other.evictable
	t.until = Sooner(t.until, other.until)
}

// SetShortage sets Refusal.Unmet and Refusal.Closest.
func (t *NodeDiagnosis) SetShortage(asks, closest string) { t.asks, t.closest = asks, closest }

// Evictable reports whether an eviction could change a counted refusal.
func (t *NodeDiagnosis) Evictable() bool { return t.evictable }

// Causes returns the counts, most frequent first, ties by code and detail, those in use first.
func (t *NodeDiagnosis) Causes() []NodeReason {
	causes := make([]NodeReason, 0, len(t.counts))
	for cause, n := range t.counts {
		cause.Nodes = n
		causes = append(causes, cause)
	}
	slices.SortFunc(causes, func(a, b NodeReason) int {
		order := cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Detail, b.Detail))
		if order == 0 && a.Absent != b.Absent {
			order = 1
			if b.Absent {
				order = -1
			}
		}
		return order
	})
	return causes
}

// Refusal returns the refusal of a job that needs so many members and has placed so many: InsufficientResources when capacity
// was lacking on any node, NodesFiltered otherwise. detail names the member without a place.
func (t *NodeDiagnosis) Refusal(needs, has int64, detail string) *Refusal {
	r := &Refusal{
		Code: NodesFiltered, Detail: detail, Needs: needs, Has: has, Evictable: t.evictable, Until: t.until, NodeReasons: t.Causes(),
		Unmet: t.asks, Closest: t.closest,
	}
	for _, cause := range r.NodeReasons {
		if cause.Code == InsufficientResources {
			r.Code = InsufficientResources
		}
	}
	return r
}
