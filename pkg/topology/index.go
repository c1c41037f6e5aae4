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
	// known is how many more classes, sets of terms and the like may be kept than twice those that there were after the first
	// session of the current count. Past it, counting restarts with those that the cluster still uses.
	known int
	// idleSessions is after how many sessions without a query by labels the index stops reading labels.
	idleSessions uint64
}

// Index keeps the counts of one cluster. The goroutine that owns the snapshot owns it; it lives as long as the process.
//
// Invariant: what it answers depends on the snapshot and the namespaces alone, never on earlier queries.
type Index struct {
	namespaces Namespaces
	limits     limits
	// foresees reports whether terminating pods are left out; ahead is the index that does so, nil until it is first used.
	foresees bool
	ahead    *Index
	snapshot *model.Snapshot
	// mark is the position up to which the journal was read.
	mark model.Cursor

	// session counts calls of Follow, counted is the last one in which a query selected by labels; clock counts queries.
	session, counted, clock uint64
	// indexLabels reports whether pods on nodes are distinguished by class; stale whether everything must be counted again
	// first.
	indexLabels, stale bool
	// labels are those that some selector names.
	labels []string
	// resets counts how often counting restarted.
	resets int
	// known is how much was kept after the first session of the current count.
	known int

	slots []nodeEntry
	free  []int32
	// at is the slot of each node by its place in the snapshot. layout counts how often nodes changed.
	at     []int32
	layout uint64

	keys     map[keyName]*key
	perNode  *key
	eligible map[string]*eligibleNodes

	spaces      map[string]*namespace
	classes     map[string]*labelClass
	everyClass  []*labelClass
	classesWith map[labelPair][]*labelClass
	tables      map[countsKey]*domainCounts
	tablesFor   map[labelPair][]*domainCounts
	openTables  []*domainCounts

	terms          map[string]*terms
	termsByLabel   map[labelPair][]existingTerm
	unindexedTerms []existingTerm
	receptions     map[incomingPod]*existingTermCounts
	everyReception []*existingTermCounts
	spreads        map[string]*spreads

	recent  map[*corev1.Pod]podProfile
	scratch []byte
}

// New returns an index that has counted nothing yet.
func New(namespaces Namespaces) *Index {
	x := &Index{namespaces: namespaces, limits: limits{tables: 512, recent: 4096, known: 4096, idleSessions: 128}}
	x.begin()
	return x
}

// Ahead returns the index of the same cluster without its terminating pods. It follows the same snapshot.
func (x *Index) Ahead() *Index {
	if x.ahead == nil {
		x.ahead = New(x.namespaces)
		x.ahead.foresees = true
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
		x.known = x.kept()
	}
	if x.indexLabels && x.session-x.counted > x.limits.idleSessions {
		x.indexLabels, x.stale = false, true
	}
	if kept := x.kept(); x.known > 0 && kept > 2*x.known+x.limits.known {
		x.labels, x.stale = nil, true
	}
	if x.snapshot != snapshot || x.stale || x.relabelled() {
		x.snapshot = snapshot
		x.begin()
	}
}

// ResetCache makes the next Follow count everything again.
func (x *Index) ResetCache() { x.ahead, x.stale = nil, true }

func (x *Index) kept() int {
	return len(x.classes) + len(x.terms) + len(x.spreads) + len(x.keys) + len(x.eligible)
}

// begin drops all counts.
func (x *Index) begin() {
	x.resets++
	x.mark, x.stale, x.known = model.Cursor{}, false, 0
	x.slots, x.free, x.at = nil, nil, nil
	x.keys, x.eligible = map[keyName]*key{}, map[string]*eligibleNodes{}
	x.perNode = &key{perNode: true, numbers: map[string]int32{}}
	x.spaces, x.classes, x.everyClass = map[string]*namespace{}, map[string]*labelClass{}, nil
	x.classesWith = map[labelPair][]*labelClass{}
	x.tables, x.tablesFor, x.openTables = map[countsKey]*domainCounts{}, map[labelPair][]*domainCounts{}, nil
	x.terms = map[string]*terms{}
	x.termsByLabel, x.unindexedTerms = map[labelPair][]existingTerm{}, nil
	x.receptions, x.everyReception = map[incomingPod]*existingTermCounts{}, nil
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

// readLabels records the labels that pending pods name, so that the classes need not change again soon.
func (x *Index) readLabels() {
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
		case change.Room, change.Terminating && x.foresees:
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
			return // all restarts, with the labels that are known now
		}
	}
	x.layout++
	x.eachKey(x.place)
}

// place records the domain of every node by its place in the snapshot.
func (x *Index) place(k *key) {
	k.at = make([]int32, len(x.at))
	for i, at := range x.at {
		if at == noDomain { // a key that first occurs while the slots are compared is placed again after that
			k.at[i] = noDomain
			continue
		}
		k.at[i] = k.of[at]
	}
}

func (x *Index) eachKey(do func(*key)) {
	do(x.perNode)
	for _, k := range x.keys {
		do(k)
	}
}

// key returns the topology key of a label.
func (x *Index) key(label string) *key { return x.keyOf(keyName{label: label}) }

func (x *Index) keyOf(name keyName) *key {
	k := x.keys[name]
	if k == nil {
		k = &key{keyName: name, numbers: map[string]int32{}}
		x.keys[name] = k
		for i := range x.slots {
			k.of = append(k.of, noDomain)
			if x.slots[i].node != nil {
				k.enter(int32(i), x.slots[i].object)
			}
		}
		x.place(k)
	}
	return k
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
	if len(x.tables)+len(x.receptions) <= x.limits.tables {
		return
	}
	var used []uint64
	for _, t := range x.tables {
		used = append(used, t.used)
	}
	for _, r := range x.receptions {
		used = append(used, r.used)
	}
	slices.Sort(used)
	latest := used[len(used)/2]
	for asked, t := range x.tables {
		if t.used < latest {
			x.dropTable(asked, t)
		}
	}
	for _, r := range x.receptions {
		if r.used < latest {
			x.dropCounts(r)
		}
	}
	x.everyReception = slices.DeleteFunc(x.everyReception, func(r *existingTermCounts) bool { return r.used < latest })
}
