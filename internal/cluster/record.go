package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Record is a part of the contents as a file has it: an object as the state keeps it, with what is assumed of it, or what no
// object of these kinds says. Exactly one field is set.
type Record struct {
	Memory      *Memory                    `json:"memory,omitempty"`
	DeviceClass *resourceapi.DeviceClass   `json:"deviceClass,omitempty"`
	Devices     *kube.NodeDevices          `json:"devices,omitempty"`
	Claim       *resourceapi.ResourceClaim `json:"claim,omitempty"`
	Queue       *v1alpha1.Queue            `json:"queue,omitempty"`
	Node        *NodeRecord                `json:"node,omitempty"`
	Group       *v1alpha1.PodGroup         `json:"group,omitempty"`
	Foreign     *sources.Spec              `json:"foreign,omitempty"`
	Pod         *PodRecord                 `json:"pod,omitempty"`
}

// NodeRecord is a node. Refused says why no more than its name is known; nil when all is.
type NodeRecord struct {
	Object  *corev1.Node   `json:"object"`
	Refused *model.Refusal `json:"refused,omitempty"`
}

// PodRecord is a pod, and what is assumed of it.
type PodRecord struct {
	Object       *corev1.Pod          `json:"object"`
	Bind         string               `json:"bind,omitempty"`
	AssignedCPUs *isolated.Assignment `json:"assignedCPUs,omitempty"`
	Place        *model.Place         `json:"place,omitempty"`
	Evicted      bool                 `json:"evicted,omitempty"`
	Prolonged    bool                 `json:"prolonged,omitempty"`
	Outdated     bool                 `json:"outdated,omitempty"`
	Nomination   *string              `json:"nomination,omitempty"`
	Nominated    string               `json:"nominated,omitempty"`
	Attempted    string               `json:"attempted,omitempty"`
	Stayed       time.Time            `json:"stayed,omitzero"`
	// Request is what it is charged where the object does not say that: with a bind in flight, or when it could not be read; nil
	// when the object says it. Own is that without claims, nil when it has none, and Unoffered what it requests of resources that no
	// node offers; Shape and MayUseDeviceClass are those of the task. Unread is what was read of a pod that could not be read; nil
	// of the others.
	Request   model.Resources     `json:"request,omitempty"`
	Own       model.Resources     `json:"own,omitempty"`
	Unoffered corev1.ResourceList `json:"unoffered,omitempty"`
	Shape     string              `json:"shape,omitempty"`
	Unread    *UnreadPod          `json:"unread,omitempty"`

	MayUseDeviceClass bool `json:"mayUseDeviceClass,omitempty"`
}

// UnreadPod is what was read of a pod before that failed, and is not in what is kept of the object.
type UnreadPod struct {
	Refusal      *model.Refusal `json:"refusal"`
	Priority     int32          `json:"priority,omitempty"`
	GraceSeconds int64          `json:"graceSeconds"`
	Started      bool           `json:"started,omitempty"`
	Ranks        model.Ranks    `json:"ranks"`
}

// Memory is what the state knows by no object that a Record has. Amounts are by position in Dimensions, and nothing is in the
// order of a map. It comes first.
type Memory struct {
	At               time.Time                      `json:"at"`
	Second           int64                          `json:"second"`
	Dimensions       []corev1.ResourceName          `json:"dimensions"`
	Schedulers       []string                       `json:"schedulers"`
	Sources          []string                       `json:"sources"`
	MaxGrace         time.Duration                  `json:"maxGrace"`
	AgentLeases      AgentLeases                    `json:"agentLeases,omitempty"`
	Leading          bool                           `json:"leading,omitempty"`
	InheritsStarts   bool                           `json:"inheritsStarts,omitempty"`
	PriorityClasses  map[string]PriorityClassRecord `json:"priorityClasses,omitempty"`
	Namespaces       map[string]map[string]string   `json:"namespaces,omitempty"`
	Budgets          []BudgetRecord                 `json:"budgets,omitempty"`
	Leases           map[string]time.Time           `json:"leases,omitempty"`
	Readings         map[model.Source]Reading       `json:"readings,omitempty"`
	Others           []OtherRecord                  `json:"others,omitempty"`
	Unbound          []types.UID                    `json:"unbound,omitempty"`
	LastStarts       map[string]time.Time           `json:"lastStarts,omitempty"`
	Reserved         []OfJob[ReservationRecord]     `json:"reserved,omitempty"`
	Evicted          []OfJob[bool]                  `json:"evicted,omitempty"`
	Reclaims         []OfJob[int32]                 `json:"reclaims,omitempty"`
	SeenWhole        []OfJob[model.Minima]          `json:"seenWhole,omitempty"`
	SaidLater        []OfJob[LaterRecord]           `json:"saidLater,omitempty"`
	News             []OfJob[bool]                  `json:"news,omitempty"`
	Changed          []OfJob[bool]                  `json:"changed,omitempty"`
	Conflicts        map[string][]Conflict          `json:"conflicts,omitempty"`
	ChangedConflicts []string                       `json:"changedConflicts,omitempty"`
}

// OfJob is something about a job.
type OfJob[V any] struct {
	Job   model.JobKey `json:"job"`
	Value V            `json:"value"`
}

// PriorityClassRecord is what is known of a PriorityClass.
type PriorityClassRecord struct {
	Value         int32 `json:"value"`
	NeverPreempts bool  `json:"neverPreempts,omitempty"`
}

// BudgetRecord is a disruption budget. Selector is nil when it selects nothing.
type BudgetRecord struct {
	Namespace       string  `json:"namespace"`
	Name            string  `json:"name"`
	Selector        *string `json:"selector"`
	Allowed         int32   `json:"allowed"`
	ReleasesUnready bool    `json:"releasesUnready,omitempty"`
}

// OtherRecord is a pod of another scheduler that names groups. Created is in seconds since 1970.
type OtherRecord struct {
	Pod       types.UID       `json:"pod"`
	Groups    [3]model.JobKey `json:"groups"`
	Created   int64           `json:"created"`
	UID       types.UID       `json:"uid"`
	Name      string          `json:"name"`
	Scheduler string          `json:"scheduler"`
	Ended     int8            `json:"ended,omitempty"`
}

// ReservationRecord is what is reserved for a group; Reservation is nil when an end of it is assumed.
type ReservationRecord struct {
	Reservation *model.Reservation    `json:"reservation"`
	Shown       *v1alpha1.Reservation `json:"shown"`
	Assumed     bool                  `json:"assumed,omitempty"`
}

// LaterRecord is what an object said of members that are made later.
type LaterRecord struct {
	Object types.UID       `json:"object"`
	Later  []sources.Later `json:"later,omitempty"`
}

// Records writes the contents down, the memory first, then each kind of object in the order of its names. The names of what is
// gone are not in it: no event comes late to a file. Any goroutine may call it; what records point to is never changed.
func (c *Contents) Records() []Record {
	s := c.held
	records := []Record{{Memory: c.memory()}}
	for _, class := range inOrder(s.devices.classes.objects, cmp.Compare) {
		records = append(records, Record{DeviceClass: class})
	}
	for _, devices := range inOrder(s.devices.nodes, cmp.Compare) {
		records = append(records, Record{Devices: devices})
	}
	for _, claim := range inOrder(s.claims.known, compareNames) {
		records = append(records, Record{Claim: claim.object})
	}
	for _, queue := range inOrder(s.queues.objects, cmp.Compare) {
		records = append(records, Record{Queue: queue.object})
	}
	for _, node := range inOrder(s.nodes, cmp.Compare) {
		record := &NodeRecord{Object: node.object}
		if node.unreadable {
			record.Refused = node.refused
		}
		records = append(records, Record{Node: record})
	}
	for _, group := range inOrder(s.groups, model.JobKey.Compare) {
		records = append(records, Record{Group: group})
	}
	for _, spec := range inOrder(s.foreign.specs, model.JobKey.Compare) {
		records = append(records, Record{Foreign: spec})
	}
	pods := slices.SortedFunc(slices.Values(c.pods), func(a, b *podState) int {
		return cmp.Or(cmp.Compare(a.task.Namespace, b.task.Namespace), cmp.Compare(a.task.Name, b.task.Name), cmp.Compare(a.task.UID, b.task.UID))
	})
	for _, pod := range pods {
		records = append(records, Record{Pod: pod.record()})
	}
	return records
}

// inOrder lists what a map holds, by its keys.
func inOrder[K comparable, V any](of map[K]V, compare func(a, b K) int) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, key := range slices.SortedFunc(maps.Keys(of), compare) {
			if !yield(key, of[key]) {
				return
			}
		}
	}
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// ofJobs lists what is known of jobs.
func ofJobs[V, W any](of map[model.JobKey]V, write func(V) W) (list []OfJob[W]) {
	for job, value := range inOrder(of, model.JobKey.Compare) {
		list = append(list, OfJob[W]{job, write(value)})
	}
	return list
}

// fill puts what was listed into the map.
func fill[V, W any](of map[model.JobKey]V, list []OfJob[W], read func(W) V) {
	for _, one := range list {
		of[one.Job] = read(one.Value)
	}
}

func itself[V any](value V) V { return value }

func present(struct{}) bool { return true }

// record writes down what is known of a pod.
func (r *podState) record() *PodRecord {
	record := &PodRecord{
		Object: r.task.Pod, Bind: r.bind, AssignedCPUs: r.assignedCPUs, Evicted: r.evicted, Prolonged: r.prolonged, Outdated: r.awaitsNewerVersion,
		Nomination: r.nomination, Nominated: r.nominated, Attempted: r.attempted, Stayed: r.stayed,
	}
	if r.bind != "" || r.unreadable() {
		record.Place = r.task.Place
	}
	if t := &r.task; r.unreadable() {
		record.Unread = &UnreadPod{r.invalid, t.Priority, t.GraceSeconds, t.Started, t.Ranks}
	}
	if r.unreadable() || r.chargedAtBind() {
		record.Request, record.Unoffered, record.Shape = r.task.Request, r.unoffered, r.task.Shape.Value()
		record.MayUseDeviceClass = r.task.MayUseDeviceClass
		if r.devices != nil {
			record.Own = r.devices.own
		}
	}
	return record
}

// readRecord reads a pod again, and assumes of it what was assumed.
func (s *State) readRecord(record *PodRecord) {
	s.Apply(&PodSeen{Pod: record.Object})
	s.change(record.Object.UID, func(r *podState) bool { return !r.finished() }, func(r *podState) {
		r.bind, r.assignedCPUs, r.evicted, r.prolonged, r.awaitsNewerVersion = record.Bind, record.AssignedCPUs, record.Evicted, record.Prolonged, record.Outdated
		r.nomination, r.nominated, r.attempted, r.stayed = record.Nomination, record.Nominated, record.Attempted, record.Stayed
		t, unread := &r.task, record.Unread
		if unread != nil {
			r.keepIdentity(nil, unread.Refusal)
			t.Priority, t.GraceSeconds, t.Started, t.Ranks = unread.Priority, unread.GraceSeconds, unread.Started, unread.Ranks
		}
		if r.bind != "" || unread != nil {
			t.Place = record.Place
		}
		if record.Request != nil { // by what it said when that was found out, and not by what it says now
			devices := podDevices{own: record.Own}
			if r.devices != nil {
				devices.claims, devices.made, devices.missing = r.devices.claims, r.devices.made, r.devices.missing
			}
			if t.Request, t.Shape, r.devices, t.Devices = record.Request, unique.Make(record.Shape), nil, nil; record.Own != nil {
				r.devices = &devices
			}
			if r.unoffered, t.Unoffered = record.Unoffered, nil; r.invalid == nil {
				t.Unoffered = r.unoffered
			}
			t.MayUseDeviceClass = record.MayUseDeviceClass
		}
	})
}

// memory writes down what no other record has.
func (c *Contents) memory() *Memory {
	s := c.held
	m := &Memory{
		At: c.At.UTC(), Second: s.second, Schedulers: s.SchedulerNames(), MaxGrace: s.maxGrace, AgentLeases: s.leases.mode,
		Leading: s.leading, InheritsStarts: s.queues.inherits, Namespaces: s.namespaces.labels, Leases: s.leases.until, Readings: s.foreign.readings,
		Unbound: slices.Sorted(maps.Keys(s.claims.unbound)), LastStarts: s.queues.lastStart, PriorityClasses: map[string]PriorityClassRecord{},
		Reserved: ofJobs(s.reserved, func(r *groupReservation) ReservationRecord {
			return ReservationRecord{r.reservation, r.parsed, r.assumed}
		}),
		Evicted: ofJobs(s.history.evicted, itself), Reclaims: ofJobs(s.history.reclaims, itself), SeenWhole: ofJobs(s.history.seenWhole, itself),
		SaidLater: ofJobs(s.history.saidLater, func(l saidLater) LaterRecord { return LaterRecord{l.object, l.later} }),
		News:      ofJobs(s.foreign.news, itself), Changed: ofJobs(s.dirty.jobs, present),
		Conflicts: s.conflicts.found, ChangedConflicts: slices.Sorted(maps.Keys(s.conflicts.dirty)),
	}
	for i := range s.dimensions.Len() {
		m.Dimensions = append(m.Dimensions, s.dimensions.Name(i))
	}
	for _, source := range s.sources {
		m.Sources = append(m.Sources, source.Name())
	}
	for name, class := range s.classes {
		m.PriorityClasses[name] = PriorityClassRecord{class.value, class.neverPreempts}
	}
	for _, budget := range inOrder(s.budgets.known, compareNames) {
		record := BudgetRecord{budget.Namespace, budget.Name, nil, budget.Allowed, budget.ReleasesUnready}
		if text := budget.Selector.String(); text != "" || budget.Selector.Empty() {
			record.Selector = &text
		}
		m.Budgets = append(m.Budgets, record)
	}
	for uid, other := range inOrder(s.others.pods, cmp.Compare) {
		m.Others = append(m.Others, OtherRecord{uid, other.groups, other.created, other.uid, other.name, other.scheduler, other.ended})
	}
	return m
}

// begin returns a state without the objects of records, to which they are to be applied.
func (m *Memory) begin(translators []model.RequestTranslator) (*State, error) {
	s := New(Options{SchedulerNames: m.Schedulers, AgentLeases: m.AgentLeases, Translators: translators})
	for i, name := range m.Dimensions {
		if i >= s.dimensions.Len() {
			s.dimensions.Index(name)
		}
		if s.dimensions.Name(i) != name {
			return nil, fmt.Errorf("resource %q has another position in this version", name)
		}
	}
	var off []string
	for _, source := range s.sources {
		if !slices.Contains(m.Sources, source.Name()) {
			off = append(off, source.Name())
		}
	}
	s.sources, s.maxGrace = sources.Without(off), m.MaxGrace
	maps.Copy(s.namespaces.labels, m.Namespaces)
	maps.Copy(s.leases.until, m.Leases)
	maps.Copy(s.foreign.readings, m.Readings)
	for name, class := range m.PriorityClasses {
		s.classes[name] = priorityClass{class.Value, class.NeverPreempts}
	}
	for _, budget := range m.Budgets {
		selector := labels.Nothing()
		if budget.Selector != nil {
			var err error
			if selector, err = labels.Parse(*budget.Selector); err != nil {
				return nil, fmt.Errorf("disruption budget %s/%s: %w", budget.Namespace, budget.Name, err)
			}
		}
		s.budgets.known[types.NamespacedName{Namespace: budget.Namespace, Name: budget.Name}] = model.Budget{
			Namespace: budget.Namespace, Name: budget.Name, Selector: selector, Allowed: budget.Allowed, ReleasesUnready: budget.ReleasesUnready,
		}
	}
	return s, nil
}

// end lets the state remember what the objects, which were applied meanwhile, do not say.
func (m *Memory) end(s *State) {
	s.snapshot.Now, s.second, s.leading, s.queues.inherits = m.At, m.Second, m.Leading, m.InheritsStarts
	s.queues.lastStart, s.reserved, s.foreign.news = map[string]time.Time{}, map[model.JobKey]*groupReservation{}, map[model.JobKey]bool{}
	maps.Copy(s.queues.lastStart, m.LastStarts)
	s.others.pods = map[types.UID]member{}
	for _, other := range m.Others {
		s.others.pods[other.Pod] = member{other.Groups, other.Created, other.UID, other.Name, other.Scheduler, other.Ended}
	}
	for _, uid := range m.Unbound {
		s.claims.unbound[uid] = struct{}{}
	}
	fill(s.reserved, m.Reserved, func(r ReservationRecord) *groupReservation {
		return &groupReservation{r.Reservation, r.Shown, r.Assumed}
	})
	fill(s.history.evicted, m.Evicted, itself)
	fill(s.history.reclaims, m.Reclaims, itself)
	fill(s.history.seenWhole, m.SeenWhole, itself)
	fill(s.history.saidLater, m.SaidLater, func(l LaterRecord) saidLater { return saidLater{l.Object, l.Later} })
	fill(s.foreign.news, m.News, itself)
	fill(s.dirty.jobs, m.Changed, func(bool) struct{} { return struct{}{} })
	s.conflicts = conflicts{dirty: map[string]struct{}{}, found: map[string][]Conflict{}}
	maps.Copy(s.conflicts.found, m.Conflicts)
	for _, node := range m.ChangedConflicts {
		s.conflicts.dirty[node] = struct{}{}
	}
}

// Load reads contents that were written down. Pods and nodes are read again, with the translators, which are to be those of the
// profile by which the state read them. An error says what is wrong with the records.
func Load(records []Record, translators []model.RequestTranslator) (*Contents, error) {
	var memory *Memory
	var s *State
	for _, record := range records {
		if (s == nil) != (record.Memory != nil) {
			return nil, errors.New("the memory of the scheduler is to come first, and once")
		}
		switch {
		case record.Memory != nil:
			memory = record.Memory
			var err error
			if s, err = memory.begin(translators); err != nil {
				return nil, err
			}
		case record.DeviceClass != nil:
			s.Apply(&DeviceClassSeen{Class: record.DeviceClass})
		case record.Devices != nil:
			s.Apply(&DevicesSeen{record.Devices})
		case record.Claim != nil:
			s.Apply(&ClaimSeen{Claim: record.Claim})
		case record.Queue != nil:
			s.Apply(&QueueSeen{Queue: record.Queue})
		case record.Node != nil:
			s.Apply(&NodeSeen{Node: record.Node.Object})
			if record.Node.Refused != nil {
				s.nodes[record.Node.Object.Name] = &nodeState{object: record.Node.Object, refused: record.Node.Refused, unreadable: true}
			}
		case record.Group != nil:
			s.Apply(&GroupSeen{Group: record.Group})
		case record.Foreign != nil:
			s.Apply(&ForeignSeen{Spec: record.Foreign})
		case record.Pod != nil:
			s.readRecord(record.Pod)
		default:
			return nil, errors.New("a record is empty")
		}
	}
	if s == nil {
		return nil, errors.New("there is no memory of the scheduler")
	}
	memory.end(s)
	return s.Contents(), nil
}
