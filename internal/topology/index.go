package topology

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// Namespaces knows the namespaces of the cluster. It is asked on the goroutine of whoever asks the Index.
type Namespaces interface {
	// NamespaceLabels returns the labels of a namespace, not to be changed, and whether it exists.
	NamespaceLabels(name string) (labels map[string]string, exists bool)
}

// limits bound what is kept.
type limits struct {
	// tables is how many questions are kept counted, recent how many pods are recognised by their address.
	tables, recent int
	// known is how many more classes, sets of terms and the like may be kept than twice those that there were after the first
	// session since counting last began; past it, it begins again, with those that the cluster still has use for.
	known int
	// idleSessions is after how many sessions in which nobody asked about labels they are looked at no more.
	idleSessions uint64
}

// Index keeps the counts of one cluster. The goroutine that owns the snapshot owns it; it lives as long as the process.
//
// Invariant: what it answers depends on the snapshot and the namespaces alone, never on what it was asked before.
type Index struct {
	namespaces Namespaces
	limits     limits
	// foresees tells that pods which are about to leave are not counted; ahead is the index that does so, nil until it is
	// asked for.
	foresees bool
	ahead    *Index
	snapshot *model.Snapshot
	// mark is up to where the journal was read.
	mark model.Cursor

	// session counts calls of Follow, counted is the last one in which somebody asked about labels; clock counts questions.
	session, counted, clock uint64
	// indexLabels tells that pods on nodes are told apart by class; stale that everything must be counted anew first.
	indexLabels, stale bool
	// labels are those that some selector names.
	labels []string
	// resets is how often all counts were begun anew.
	resets int
	// known is how much was kept after the first session since counting last began.
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

// Ahead returns the index of the same cluster as it will be without the pods that are about to leave. It follows the snapshot
// that this one follows.
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

// Follow says which snapshot the questions that follow are about; it is called when a session opens. What was counted of the
// same snapshot is kept. Labels of namespaces are taken to be the same until it is called again.
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

// ResetCache makes the next Follow count everything anew.
func (x *Index) ResetCache() { x.ahead, x.stale = nil, true }

func (x *Index) kept() int {
	return len(x.classes) + len(x.terms) + len(x.spreads) + len(x.keys) + len(x.eligible)
}

// begin forgets all counts.
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

// ask brings the counts up to date for a question about the pod, and returns what the pod wants. labels tells that the
// question is about labels, whatever the pod wants.
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

// readLabels learns the labels that waiting pods name, so that nobody needs to be told apart again soon.
func (x *Index) readLabels() {
	for _, job := range x.snapshot.Jobs {
		for _, task := range job.Tasks {
			if task.Status == model.Pending && task.Pod != nil {
				x.learnFrom(task.Pod)
			}
		}
	}
	x.stale = false // nobody was told apart yet
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

// compare brings the slots in line with a list of nodes of which the journal does not tell how it came about: nodes that are
// new or have changed are counted anew.
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
			return // all begins anew, with the labels that are known now
		}
	}
	x.layout++
	x.eachKey(x.place)
}

// place notes the domain of every node by its place in the snapshot.
func (x *Index) place(k *key) {
	k.at = make([]int32, len(x.at))
	for i, at := range x.at {
		if at == noDomain { // a key that first came up while the slots are compared is placed again behind that
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

// podProfile is all that matters about a pod: on a node, and as one that waits.
type podProfile struct {
	kind podKind
	// spreads are nil when the pod has none.
	spreads *spreads
}

// profileOf returns what matters about a pod, from memory if it was asked lately: who is placed and taken away in turn is
// seen again and again.
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

// evictUnused drops the counts that were not asked for in a while, when there are too many.
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
