package model

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Source is what makes pods members of a job: an object that they name, or what they say themselves.
type Source int8

// The sources.
const (
	// SourcePodGroup is a PodGroup of ours.
	SourcePodGroup Source = iota
	// SourcePod is a pod that is a job of its own.
	SourcePod
	// SourceImplicit is the annotations of pods, which need no object.
	SourceImplicit
	// SourceLeaderWorkerSet is the marks of LeaderWorkerSet on pods, and SourceKueue those of Kueue: these need no object, too.
	SourceLeaderWorkerSet
	SourceKueue
	// SourceCoscheduling is a PodGroup of scheduling.x-k8s.io; this source and those after it are foreign.
	SourceCoscheduling
	// SourceVolcano is a PodGroup of scheduling.volcano.sh.
	SourceVolcano
	// SourceNative is a PodGroup of scheduling.k8s.io, Kubernetes' own.
	SourceNative
	// These own pods, and need no group object: OwnsPods goes by the order of the constants.
	SourceJobSet
	SourceMPIJob
	SourcePyTorchJob
	SourceTFJob
	SourceXGBoostJob
	SourcePaddleJob
	SourceJAXJob
	SourceRayCluster
	SourceJob
	// SourceLeaderWorkerSetObject owns the groups of SourceLeaderWorkerSet. It is no job itself.
	SourceLeaderWorkerSetObject
)

// kinds are those of the sources. They stand in annotations of pods, so that none may change.
var kinds = [...]string{
	"PodGroup", "pod", "implicit group", "LeaderWorkerSet group", "Kueue pod group",
	"PodGroup.scheduling.x-k8s.io", "PodGroup.scheduling.volcano.sh", "PodGroup.scheduling.k8s.io",
	"JobSet", "MPIJob", "PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "RayCluster", "Job", "LeaderWorkerSet",
}

// LastSource is the last of the sources.
const LastSource = Source(len(kinds) - 1)

// Kind returns the kind of what stands for a job of the source, as messages name it.
func (s Source) Kind() string { return kinds[s] }

// OwnsPods reports whether a job of the source is an object that owns pods, and may own groups, too.
func (s Source) OwnsPods() bool { return s >= SourceJobSet }

// JobKey names a job. Its zero Source is that of a PodGroup of ours.
type JobKey struct {
	Namespace string
	// Name is that of the group, as its members name it, or of the only pod.
	Name   string
	Source Source
	// Owner tells apart two implicit groups of a name: the UID of the controller, empty when the pods have none, or the key and
	// revision of a group of a LeaderWorkerSet. It is empty for other sources.
	Owner types.UID
}

// IsPod reports whether the job is one plain pod.
func (k JobKey) IsPod() bool { return k.Source == SourcePod }

// IsImplicit reports whether the job is an implicit group: its pods say all, and it has no object.
func (k JobKey) IsImplicit() bool { return k.Source >= SourceImplicit && k.Source < SourceCoscheduling }

// IsForeign reports whether the job is a group that stands in an object of another project.
func (k JobKey) IsForeign() bool { return k.Source >= SourceCoscheduling }

// MarkedByOthers reports whether the job is a group that pods name by marks of other projects.
func (k JobKey) MarkedByOthers() bool { return k.Source > SourceImplicit }

// String returns namespace/name, with an Owner namespace/name/owner, and for a group whose marks are not ours with its kind at
// the end.
func (k JobKey) String() string {
	text := k.Namespace + "/" + k.Name
	if k.Owner != "" {
		text += "/" + string(k.Owner)
	}
	if k.MarkedByOthers() {
		text += "/" + k.Source.Kind()
	}
	return text
}

// Describe returns the kind and name: "PodGroup ns/name", "implicit group ns/name" or "pod ns/name".
func (k JobKey) Describe() string { return k.Source.Kind() + " " + k.Namespace + "/" + k.Name }

// DescribeTo returns the same for users of a namespace, and of a job of another one no name, which is not disclosed to them.
func (k JobKey) DescribeTo(namespace string) string {
	if k.Namespace != namespace {
		return "a job of another namespace"
	}
	return k.Describe()
}

// Compare orders keys by namespace, name, source and owner.
func (k JobKey) Compare(other JobKey) int {
	if order := strings.Compare(k.Namespace, other.Namespace); order != 0 {
		return order
	}
	if order := strings.Compare(k.Name, other.Name); order != 0 {
		return order
	}
	return cmp.Or(cmp.Compare(k.Source, other.Source), cmp.Compare(k.Owner, other.Owner))
}

// Job is the tasks of one PodGroup, of one implicit group, or one plain pod.
type Job struct {
	Key JobKey
	// UID is the group's, the single pod's, or that of the controller of an implicit group; empty while the group does not exist,
	// and of an implicit group without a controller.
	UID types.UID
	// Priority decides the job's turn, for which jobs it is evicted and which are evicted for it, see SetPriority; PriorityOf is
	// that of its members beyond the minimum.
	Priority int32
	// Need is what the job needs now to start or to go on.
	Need
	// Recorded is what the status of the group's object keeps of the job through a restart.
	Recorded
	// Topology says which members share a domain of nodes; all of it holds together. Nil when none do.
	Topology []TopologyConstraint
	Created  time.Time
	// QueuedSince is since when the job has had the members it needs, an eviction or undo by the scheduler not counted; while it
	// lacks some, since when it exists.
	QueuedSince time.Time
	// BegunSince is since when the gang was in the queue when it first started, while nothing of it waits but members that its object
	// says are made later; zero otherwise. Continues reports whether others of them hold capacity, too.
	BegunSince time.Time
	Continues  bool
	// NeverPreempts reports whether no pod may be evicted for the job: its group or one of its pods has preemptionPolicy:
	// Never.
	NeverPreempts bool
	// EndsTogether reports whether members may be evicted only together, also those beyond the minimum.
	EndsTogether bool
	// Tasks are all tasks of the job, in CompareTasks order.
	Tasks []*Task
	// HasGroup reports whether a PodGroup of Tutti's own stands for the job; false for a single pod, for an implicit group, for the
	// object of another project, and for a group that does not exist.
	HasGroup bool
	// ExpectedRunSeconds is how long the group is expected to run from the start of its first member; nil when that is not known.
	ExpectedRunSeconds *int64
	// ClassPriority is the value of the group's priority class; nil when it names none or one that does not exist.
	ClassPriority *int32
	// Warning is a note to the user besides the refusal, such as a priority class that is ignored; empty when there is none.
	Warning string
	// Invalid says why the job as a whole cannot be scheduled, whatever the cluster; nil when it can.
	Invalid *Refusal
	// Reservation is the capacity reserved for the job; nil when none is.
	Reservation *Reservation
	// Queue is the name of the job's queue, whether that exists or not; empty while there are no queues. RefusedBy is the name of the
	// queue that the job names and that does not take jobs of its namespace; empty when there is none. Such a job does not start, and
	// what runs of it counts in the default queue: nothing that a user names makes another team's queue fuller.
	Queue, RefusedBy string

	// NothingPending reports whether there was nothing to decide when the snapshot was taken: no pod of the job waits for a
	// node, and the job has its minimum or has ended. False is always safe.
	NothingPending bool
	// Class is the job's class while none of its members has a node; zero otherwise.
	Class Class
	// Version differs between two states of the job, apart from a session's changes to its tasks. Zero is unknown.
	Version uint64

	// queue is that of the name; nil when there is none.
	queue *Queue
}

// Recorded is what a status keeps of a job: see v1alpha1.PodGroupStatus.
type Recorded struct {
	// Evicted reports whether the scheduler has deleted members of the group, or decided to, and its minimum is not bound again.
	Evicted bool
	// Reclaims is how often all of the group was evicted for jobs of other queues, since it last ended.
	Reclaims int32
	// StatusFinished reports whether the group's object says that it has succeeded or failed; members that came since are not
	// counted.
	StatusFinished bool
	// WaitingSince is since when the group has waited for capacity with all that it needs; zero when it does not.
	WaitingSince time.Time
	// OverrunSince is since when the group is known to have run for longer than ExpectedRunSeconds, in this run or an earlier one;
	// zero when it is not.
	OverrunSince time.Time
	// GaveUp is when the job's last reservation was given up because the job had not started in time; zero when it was not.
	GaveUp time.Time
}

// WithMinima returns a copy of the job with another minimum, and other minima of its roles: a variant to ask about.
func (j *Job) WithMinima(minMember int32, ofRole func(Role) int32) *Job {
	variant := *j
	variant.Need.MinMember, variant.Need.Roles = minMember, slices.Clone(j.Roles)
	for i := range variant.Need.Roles {
		variant.Need.Roles[i].MinMember = ofRole(j.Roles[i])
	}
	return &variant
}

// IsSchedulableGroup reports whether the job is a group that can start: its object exists, or it needs none.
func (j *Job) IsSchedulableGroup() bool {
	return j.HasGroup || j.Key.IsImplicit() || j.Key.IsForeign() && j.UID != ""
}

// Count returns how many tasks satisfy the condition.
func (j *Job) Count(condition func(*Task) bool) int { return CountOf(j.Tasks, condition) }

// Finished reports whether the job has succeeded or failed: it has had members, and all of them have ended. New members make
// it pending again.
func (j *Job) Finished() bool {
	done := j.Count(func(t *Task) bool { return t.Status == Succeeded || t.Status == Failed })
	if len(j.Tasks) > 0 {
		return done == len(j.Tasks)
	}
	return j.StatusFinished
}

// FirstUnmetMinimum returns the first minimum that the counted tasks do not meet, the job's own before those of its roles;
// nil when all are met.
func (j *Job) FirstUnmetMinimum(counts func(*Task) bool) *UnmetMinimum {
	minima := j.Minima()
	return minima.FirstUnmet(j.Tasks, counts)
}

// InRoleNotBegun reports whether the task is in a late role that has not begun.
func (j *Job) InRoleNotBegun(task *Task) bool {
	return slices.ContainsFunc(j.Roles, func(role Role) bool { return role.NotBegun && role.Name == task.Role })
}

// HeldRole returns a late role that has not begun and has no minimum, of which a member waits; empty when there is none.
func (j *Job) HeldRole() string {
	for _, role := range j.Roles {
		waits := func(task *Task) bool { return task.Status == Pending && task.Role == role.Name }
		if role.NotBegun && role.MinMember == 0 && slices.ContainsFunc(j.Tasks, waits) {
			return role.Name
		}
	}
	return ""
}

// Pending returns the tasks that need a node, in CompareTasks order: pending, not gated, and not in a late role that has not
// begun and has no minimum.
func (j *Job) Pending() []*Task {
	var waiting []*Task
	for _, task := range j.Tasks {
		held := func(role Role) bool { return role.NotBegun && role.MinMember == 0 && role.Name == task.Role }
		if task.Status == Pending && !task.SchedulingGated && !slices.ContainsFunc(j.Roles, held) {
			waiting = append(waiting, task)
		}
	}
	return waiting
}

// CompareJobs orders jobs by age, creation, UID and key: the last criterion of every job order, so that it is total. Before the
// age comes that a job holds capacity which is idle without the members that wait.
func CompareJobs(a, b *Job) int {
	if a.Continues != b.Continues {
		if a.Continues {
			return -1
		}
		return 1
	}
	if order := a.inTurnSince().Compare(b.inTurnSince()); order != 0 {
		return order
	}
	if order := a.Created.Compare(b.Created); order != 0 {
		return order
	}
	return cmp.Or(cmp.Compare(a.UID, b.UID), a.Key.Compare(b.Key))
}

// inTurnSince is the age by which the job is ordered.
func (j *Job) inTurnSince() time.Time {
	if !j.BegunSince.IsZero() {
		return j.BegunSince
	}
	return j.QueuedSince
}
