package topology

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// Namespaces returns the namespaces of the cluster. The Index calls it on the goroutine of its own caller.
type Namespaces interface {
	// NamespaceLabels returns the labels of a namespace, not to be changed, and whether it exists.
	NamespaceLabels(name string) (labels map[string]string, exists bool)
}

// limits bound what is kept.
type limits struct {
	// tables is how many tables are kept, recent how many pods are recognised by their address.
	tables, recent int
	// known is how much more of classes, sets of terms and the like may be kept than twice what was in use when that was last
	// looked at. Past it, counting restarts with those that the cluster still uses.
	known int
	// idleSessions is after how many sessions without a query by labels the index stops reading labels, and how often it looks at
	// what of its classes and terms is in use.
	idleSessions uint64
}

// Index keeps the counts of one cluster. The goroutine that owns the snapshot owns it; it lives as long as the process.
//
// Invariant: what it answers depends on the snapshot and the namespaces alone, never on earlier queries.
type Index struct {
	namespaces Namespaces
	limits     limits
	// withoutTerminating reports whether terminating pods are left out; ahead is the index that does so, nil until it is first used.
	withoutTerminating bool
	ahead              *Index
	snapshot           *model.Snapshot
	// mark is the position up to which the journal was read.
	mark model.Cursor

	// session counts calls of Follow, counted is the last one in which a query selected by labels; clock counts queries.
	session, counted, clock uint64
	// indexLabels reports whether pods on nodes are distinguished by class; stale whether everything must be counted again
	// first.
	indexLabels, stale bool
	// newOnNode reports whether counting restarts because a pod on a node names a label that was new.
	newOnNode bool
	// labels are those that some selector names; numbers has the place of each in the list.
	labels  []string
	numbers map[string]int
	// named is where namedLabels writes.
	named []namedLabel
	// resets counts how often counting restarted.
	resets int
	// kept is how much of classes, sets of terms and the like is kept, by weight; known how much of that was in use when it was last
	// looked at, zero before the first session of the current count has ended.
	kept, known int

	slots []nodeEntry
	free  []int32
	// at is the slot of each node by its place in the snapshot. layout counts how often nodes changed.
	at     []int32
	layout uint64

	keys    map[keyName]*key
	perNode *key
	// nowhere is every key that no node has as a label, and nothing every table by it. nodeLabels has the labels that nodes have, or
	// have had since counting began, and false for one that none has and that a pod named as a key; nil until one is looked for.
	//
	// Invariant: when a node gets a label that is false here, counting restarts.
	nowhere    *key
	nothing    *domainCounts
	nodeLabels map[string]bool
	eligible   map[string]*eligibleNodes

	spaces      map[string]*namespace
	classes     map[string]*labelClass
	everyClass  []*labelClass
	classesWith map[labelPair][]*labelClass
	tables      map[countsKey]*domainCounts
	tablesFor   map[labelPair][]*domainCounts
	openTables  []*domainCounts

	terms           map[string]*terms
	termsByLabel    map[labelPair][]existingTerm
	unindexedTerms  []existingTerm
	termCounts      map[incomingPod]*existingTermCounts
	everyTermCounts []*existingTermCounts
	spreads         map[string]*spreads

	recent  map[*corev1.Pod]podProfile
	scratch []byte
}

// New returns an index that has counted nothing yet.
func New(namespaces Namespaces) *Index {
	x := &Index{namespaces: namespaces, numbers: map[string]int{}, limits: limits{tables: 512, recent: 4096, known: 4096, idleSessions: 128}}
	x.begin()
	return x
}

// Ahead returns the index of the same cluster without its terminating pods. It follows the same snapshot.
func (x *Index) Ahead() *Index {
	if x.ahead == nil {
		x.ahead = New(x.namespaces)
		x.ahead.withoutTerminating = true
		if x.snapshot != nil {
			x.ahead.Follow(x.snapshot)
		}
	}
	return x.ahead
}

// Follow sets the snapshot for the queries that follow; it is called when a session opens. Counts of the same snapshot are
// kept. Labels of namespaces are assumed constant until the next call.
func (x *Index) Follow(snapshot *model.Snapshot) {
	snapshot.AssignIndexes()
	if x.ahead != nil {
		x.ahead.Follow(snapshot)
	}
	x.session++
	if x.known == 0 {
		x.known = x.kept
	} else if x.session%x.limits.idleSessions == 0 {
		x.known = max(1, x.inUse())
		x.recent = map[*corev1.Pod]podProfile{} // or it holds pods that are gone, and those that are here do not count as asked for
	}
	if x.indexLabels && x.session-x.counted > x.limits.idleSessions {
		x.indexLabels, x.stale = false, true
	}
	if x.known > 0 && x.kept > 2*x.known+x.limits.known {
		x.labels, x.numbers, x.stale = nil, map[string]int{}, true
	}
	if x.snapshot != snapshot || x.stale || x.relabelled() {
		x.snapshot = snapshot
		x.begin()
	}
}

// ResetCache makes the next Follow count everything again.
func (x *Index) ResetCache() { x.ahead, x.stale = nil, true }

// weight is how much something counts that is kept under a text: large terms count as many small ones.
func weight(id string) int { return 1 + len(id)>>10 }

// inUse returns how much of what is kept is of pods on nodes, or was asked for recently.
func (x *Index) inUse() (kept int) {
	kept = len(x.keys)
	of := func(id string, used uint64, holders ...podCounts) {
		on := func(p podCounts) bool { return len(p.places) > 0 }
		if x.session-used <= x.limits.idleSessions || slices.ContainsFunc(holders, on) {
			kept += weight(id)
		}
	}
	for id, c := range x.classes {
		of(id, c.used, c.present, c.leaving)
	}
	for id, t := range x.terms {
		of(id, t.used, t.holders)
	}
	for id, s := range x.spreads {
		of(id, s.used)
	}
	for id, a := range x.eligible {
		of(id, a.used)
	}
	return kept
}

// begin drops all counts.
func (x *Index) begin() {
	x.resets++
	x.mark, x.stale, x.kept, x.known = model.Cursor{}, false, 0, 0
	x.slots, x.free, x.at = nil, nil, nil
	x.keys, x.eligible = map[keyName]*key{}, map[string]*eligibleNodes{}
	x.perNode = &key{perNode: true, numbers: map[string]int32{}}
	x.nowhere, x.nodeLabels = &key{nowhere: true}, nil
	x.nothing = &domainCounts{key: x.nowhere}
	x.spaces, x.classes, x.everyClass = map[string]*namespace{}, map[string]*labelClass{}, nil
	x.classesWith = map[labelPair][]*labelClass{}
	x.tables, x.tablesFor, x.openTables = map[countsKey]*domainCounts{}, map[labelPair][]*domainCounts{}, nil
	x.terms = map[string]*terms{}
	x.termsByLabel, x.unindexedTerms = map[labelPair][]existingTerm{}, nil
	x.termCounts, x.everyTermCounts = map[incomingPod]*existingTermCounts{}, nil
	x.spreads = map[string]*spreads{}
	x.recent = map[*corev1.Pod]podProfile{}
}

// ask updates the counts for a query about the pod, and returns the pod's profile. labels reports whether the query selects
// by labels, whatever the pod's profile.
func (x *Index) ask(pod *corev1.Pod, labels bool) podProfile {
	x.clock++
	if labels || hasPodAffinity(pod) || len(pod.Spec.TopologySpreadConstraints) > 0 {
		x.counted = x.session
		x.stale = x.stale || !x.indexLabels
		x.indexLabels = true
	}
	for {
		if x.stale {
			x.begin()
			x.learnFrom(pod)
		}
		x.catchUp()
		asked := x.profileOf(pod)
		if x.stale {
			continue
		}
		x.evictUnused()
		return asked
	}
}

// readLabels records the labels that pending pods name, so that the classes need not change again soon, and those that terms of
// pods on nodes name, if one of these was new before.
func (x *Index) readLabels() {
	if x.newOnNode {
		x.newOnNode = false
		x.learnFromNodes()
	}
	for _, job := range x.snapshot.Jobs {
		for _, task := range job.Tasks {
			if task.Status == model.Pending && task.Pod != nil {
				x.learnFrom(task.Pod)
			}
		}
	}
	x.stale = false // no class exists yet
}

// catchUp reads the journal.
func (x *Index) catchUp() {
	journal := &x.snapshot.Journal
	changes, ok := journal.Since(x.mark)
	if !ok {
		if len(x.slots) == 0 {
			x.readLabels()
		}
		x.compare()
	}
	for i := range changes {
		change := &changes[i]
		at := x.at[change.Node.Index]
		switch {
		case change.Room, change.Terminating && x.withoutTerminating:
		case change.Pod == nil:
			x.renew(at)
		case change.Added:
			x.addTally(at, x.profileOf(change.Pod).kind, 1)
		default:
			x.addTally(at, x.profileOf(change.Pod).kind, -1)
		}
	}
	x.mark = journal.Cursor()
}

// compare matches the slots with a list of nodes whose changes the journal does not have: nodes that are new or have changed
// are counted again.
func (x *Index) compare() {
	nodes := x.snapshot.Nodes
	x.at = slices.Repeat([]int32{noDomain}, len(nodes))
	for i := range x.slots {
		node := x.slots[i].node
		switch {
		case node == nil:
		case node.Index < len(nodes) && nodes[node.Index] == node:
			x.at[node.Index] = int32(i)
			if node.Changed > x.mark.Number() {
				x.recount(int32(i))
			}
		default:
			x.removeNode(int32(i))
		}
	}
	for _, node := range nodes {
		if x.at[node.Index] == noDomain {
			x.at[node.Index] = x.addNode(node)
		}
		if x.stale {
			x.newOnNode = true
			return // all restarts, with the labels that all pods on nodes name: those of other nodes may be new, too
		}
	}
	x.layout++
	x.eachKey(x.place)
}

// podProfile is all that matters about a pod, on a node or pending.
type podProfile struct {
	kind podKind
	// spreads are nil when the pod has none.
	spreads *spreads
}

// profileOf returns the profile of a pod, cached if it was used lately: a simulation places and removes the same pods again
// and again.
func (x *Index) profileOf(pod *corev1.Pod) podProfile {
	if !x.indexLabels && !hasPodAffinity(pod) && len(pod.Spec.TopologySpreadConstraints) == 0 {
		return podProfile{}
	}
	known, ok := x.recent[pod]
	if !ok {
		known = podProfile{kind: x.classify(pod), spreads: x.spreadsOf(pod)}
		if len(x.recent) >= x.limits.recent {
			x.recent = map[*corev1.Pod]podProfile{}
		}
		x.recent[pod] = known
	}
	return known
}

func (x *Index) classify(pod *corev1.Pod) podKind {
	k := podKind{terms: x.termsOf(pod)}
	if x.indexLabels {
		k.class, k.leaving = x.classOf(pod), pod.DeletionTimestamp != nil
	}
	return k
}

// evictUnused drops the counts that were not queried lately, when there are too many.
func (x *Index) evictUnused() {
	if len(x.tables)+len(x.termCounts) <= x.limits.tables {
		return
	}
	var used []uint64
	for _, t := range x.tables {
		used = append(used, t.used)
	}
	for _, r := range x.termCounts {
		used = append(used, r.used)
	}
	slices.Sort(used)
	latest := used[len(used)/2]
	for asked, t := range x.tables {
		if t.used < latest {
			x.dropTable(asked, t)
		}
	}
	for _, r := range x.termCounts {
		if r.used < latest {
			x.dropCounts(r)
		}
	}
	x.everyTermCounts = slices.DeleteFunc(x.everyTermCounts, func(r *existingTermCounts) bool { return r.used < latest })
}
