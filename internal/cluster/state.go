package cluster

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Options is what a State is made with.
type Options struct {
	// SchedulerNames are the spec.schedulerName values of our pods.
	SchedulerNames []string
	// Dimensions are shared with every vector of the snapshots; nil makes new ones.
	Dimensions *model.ResourceIndex
	// Translators change requests and capacities, in this order.
	Translators []model.RequestTranslator
	// AgentLeases is what is known of the Leases of nodes' agents.
	AgentLeases AgentLeases
	// Await is called with the sources of objects that jobs lack, sorted, when these are others than before; it must not block. nil
	// is not called.
	Await func(sources []model.Source)
}

// State is the cluster as the watches tell it, with the effect of our own decisions on top.
//
// It is not safe for concurrent use: one goroutine owns it, and the snapshots that it hands out.
//
// Invariant: what it holds depends on the newest object of each name and on the assumptions, never on the order in which
// events came.
type State struct {
	schedulers map[string]bool
	dimensions *model.ResourceIndex
	// sources say which job a pod belongs to.
	sources sources.Sources
	// maxGrace is how long a pod that is being deleted may take at most before it is overdue.
	maxGrace time.Duration
	// leading reports that this process decides, so that no other nominates nodes.
	leading bool

	incarnations incarnations
	pods         pods
	nodes        map[string]*nodeState
	groups       map[model.JobKey]*v1alpha1.PodGroup
	foreign      foreign
	others       others
	history      history
	classes      map[string]priorityClass
	claims       claims
	devices      devices
	// offered are the resources that nodes and device classes offer.
	offered offered
	// reserved is the capacity kept for groups that have waited for long.
	reserved   map[model.JobKey]*groupReservation
	budgets    budgets
	queues     queues
	namespaces namespaces
	// leases are those of nodes' agents, conflicts the pods that hold the same isolated CPUs.
	leases    leases
	conflicts conflicts
	// said is what pods say of their groups.
	said sources.Members

	dirty changes
	guard guard

	// What the last snapshot was made of.
	snapshot *model.Snapshot
	width    int
	second   int64
	// filled counts how often a job of the snapshot was written.
	filled uint64
	view   *kube.View
}

// New returns the state of an empty cluster.
func New(options Options) *State {
	dimensions := options.Dimensions
	if dimensions == nil {
		dimensions = model.NewDimensions()
	}
	s := &State{
		schedulers: map[string]bool{}, dimensions: dimensions, sources: sources.All(), maxGrace: model.DefaultMaxGrace,
		incarnations: incarnations{newest: map[string]map[identity]observation{}}, pods: newPods(), nodes: map[string]*nodeState{},
		groups: map[model.JobKey]*v1alpha1.PodGroup{},
		foreign: foreign{
			specs: map[model.JobKey]*sources.Spec{}, readings: map[model.Source]Reading{}, news: map[model.JobKey]bool{},
			children: map[model.JobKey]map[model.JobKey]bool{}, awaited: map[model.JobKey]model.Source{}, await: options.Await,
		},
		others: others{pods: map[types.UID]member{}, groups: map[model.JobKey]map[types.UID]member{}},
		history: history{
			evicted: map[model.JobKey]bool{}, reclaims: map[model.JobKey]int32{}, seenWhole: map[model.JobKey]model.Minima{},
			saidLater: map[model.JobKey]saidLater{},
		},
		classes: map[string]priorityClass{},
		claims: claims{
			known: map[types.NamespacedName]*claimState{}, users: map[types.NamespacedName]map[types.UID]*podEntry{},
			of: map[types.UID]map[types.NamespacedName]struct{}{}, unbound: map[types.UID]struct{}{}, holders: map[kube.DeviceID][]*claimState{},
			dirty: map[types.NamespacedName]struct{}{}, charges: map[types.UID]struct{}{},
		},
		devices: devices{
			classes: deviceClasses{objects: map[string]*resourceapi.DeviceClass{}},
			nodes:   map[string]*kube.NodeDevices{}, pools: map[poolID]map[string]struct{}{}, both: map[[2]string]int{},
			dirty: map[string]struct{}{},
		},
		offered:    offered{sources: map[corev1.ResourceName]int{}, reported: map[corev1.ResourceName]int{}, counted: map[corev1.ResourceName]bool{}},
		reserved:   map[model.JobKey]*groupReservation{},
		budgets:    budgets{known: map[types.NamespacedName]model.Budget{}},
		queues:     queues{objects: map[string]*queueState{}, lastStart: map[string]time.Time{}},
		namespaces: namespaces{labels: map[string]map[string]string{}},
		leases:     leases{mode: options.AgentLeases, until: map[string]time.Time{}, offered: map[string]bool{}},
		conflicts:  conflicts{dirty: map[string]struct{}{}, found: map[string][]Conflict{}},
		dirty:      newChanges(), snapshot: &model.Snapshot{Dimensions: dimensions},
	}
	for _, name := range options.SchedulerNames {
		s.schedulers[name] = true
	}
	s.offered.translate(options.Translators)
	return s
}

// Lead takes note that this process decides from now on: what stands on pods and groups is taken over, with the starts that the
// last leader has not written to the status of a queue, and nominations that others write from now on mean nothing.
func (s *State) Lead() { s.leading, s.queues.inherits = true, true }

// Configure replaces the translators, how long pods may take to end, at least a second, and which foreign sources are off, and
// reads every pod and node again; the next snapshot shows it.
func (s *State) Configure(translators []model.RequestTranslator, maxGrace time.Duration, sourcesOff ...string) {
	s.offered.translate(translators)
	s.maxGrace, s.sources = maxGrace, sources.Without(sourcesOff)
	for name := range s.nodes {
		s.readNodeAgain(name)
	}
	s.readAgain(func(*podState) bool { return true })
	s.readNaming(nil)
	s.queues.dirty = true // what another profile has computed of them is over
}

// Group returns the PodGroup of a job, never to be changed; nil when there is none. It may be that of another scheduler: then the
// job has no group (Job.HasGroup).
func (s *State) Group(key model.JobKey) *v1alpha1.PodGroup { return s.groups[key] }

// Foreign returns what the foreign object of a job says, never to be changed; nil when it is not known.
func (s *State) Foreign(key model.JobKey) *sources.Spec { return s.foreign.spec(key) }

// ReadFrom reports whether what a job needs is read from an object that satisfies is: that of its group, the PodGroup of ours
// that takes the place of it, or the object of its operator that says which members are made later.
func (s *State) ReadFrom(job model.JobKey, is func(object model.JobKey) bool) bool {
	if is(job) {
		return true
	}
	if replacement, ok := sources.Replacement(job); ok && is(replacement) {
		return true
	}
	parent, ok := s.foreign.parentOf(job)
	return ok && is(parent)
}

// SchedulerNames returns the names of the schedulers whose pods are ours, sorted.
func (s *State) SchedulerNames() []string { return slices.Sorted(maps.Keys(s.schedulers)) }

// Queue returns the Queue object of that name, never to be changed; nil when there is none.
func (s *State) Queue(name string) *v1alpha1.Queue {
	if known := s.queues.objects[name]; known != nil {
		return known.object
	}
	return nil
}

// Job returns a job as the last snapshot shows it, nil when it does not: for callers that may see the last cycle's state.
func (s *State) Job(key model.JobKey) *model.Job { return s.snapshot.Job(key) }

// Pod returns the stripped pod of that UID, never to be changed; nil when the state does not hold it.
func (s *State) Pod(uid types.UID) *corev1.Pod {
	if record := s.pods.record(uid); record != nil {
		return record.task.Pod
	}
	return nil
}

// JobOf returns the job that a pod belongs to; zero when the state does not hold the pod, or it is in none.
func (s *State) JobOf(uid types.UID) model.JobKey {
	if record := s.pods.record(uid); record != nil {
		return record.task.Job
	}
	return model.JobKey{}
}

// PriorityOf returns the value of a PriorityClass; ok is false when there is none of that name.
func (s *State) PriorityOf(class string) (value int32, ok bool) {
	known, ok := s.classes[class]
	return known.value, ok
}

// NextWake returns when time alone will change the next snapshot; false when it will not.
func (s *State) NextWake(now time.Time) (time.Time, bool) {
	var next time.Time
	for _, entry := range s.pods.releasing {
		at := entry.record.stuckAt(s.maxGrace)
		if entry.record.prolonged {
			at = entry.record.prolongedUntil(s.maxGrace)
		}
		if at.Unix() > now.Unix() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if at := s.leases.nextExpiry(now); !at.IsZero() && (next.IsZero() || at.Before(next)) {
		next = at
	}
	return next, !next.IsZero()
}
