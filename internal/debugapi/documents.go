package debugapi

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// GroupVersion is the version of the documents. It is no group of the API server.
const GroupVersion = "debug.tutti.dev/v1alpha1"

// ListMeta is what each list says of itself.
type ListMeta struct {
	metav1.TypeMeta `json:",inline"`
	// At is when the list was read from the state of the loop; zero for what the loop is not asked for.
	At time.Time `json:"at,omitzero"`
	// Leading reports whether the scheduler that was asked decides; another replica knows all that is written, but not what the
	// leader is about to write. It runs no cycles, and knows no shares and no order of queues.
	Leading bool `json:"leading"`
}

func listMeta(kind string, at time.Time, leading bool) ListMeta {
	return ListMeta{TypeMeta: metav1.TypeMeta{Kind: kind, APIVersion: GroupVersion}, At: at, Leading: leading}
}

// NodeList is the accounting of all nodes at one moment, sorted by name.
type NodeList struct {
	ListMeta `json:",inline"`
	Items    []Node `json:"items"`
}

// Node is one node and the capacity on it. Amounts that are zero are left out.
type Node struct {
	metav1.ObjectMeta `json:"metadata"`
	// Unschedulable reports that the node is cordoned.
	Unschedulable bool `json:"unschedulable,omitempty"`
	// Refused says why the node takes no pod at all; empty when it may.
	Refused string `json:"refused,omitempty"`
	// Pods is how many pods are on the node, of all schedulers.
	Pods        int                 `json:"pods"`
	Allocatable corev1.ResourceList `json:"allocatable"`
	// Idle is what no pod uses, nominated and reserved capacity included. It is negative where more runs than the node offers.
	Idle corev1.ResourceList `json:"idle"`
	// Releasing is what pods use that are being deleted and will be gone soon.
	Releasing corev1.ResourceList `json:"releasing,omitempty"`
	// Nominated is capacity, idle or releasing, for pods for whom others were evicted; Reserved is capacity for gangs that have
	// waited long.
	Nominated []Kept `json:"nominated,omitempty"`
	Reserved  []Kept `json:"reserved,omitempty"`
	// Uncounted says, by resource, why devices of a DeviceClass are not counted on the node; nil when all are.
	Uncounted map[corev1.ResourceName]string `json:"uncounted,omitempty"`
	// Isolated are the isolated CPUs; nil when the node has none.
	Isolated *Isolated `json:"isolated,omitempty"`
}

// Kept is capacity on a node that is kept for a job.
type Kept struct {
	// Job is the job's namespace and name.
	Job string `json:"job"`
	// Pod is the name of the pod that holds the nomination; empty when it is reserved.
	Pod       string              `json:"pod,omitempty"`
	Resources corev1.ResourceList `json:"resources"`
	// LentUntil is up to when reserved capacity is lent to others; nil when it is not.
	LentUntil *time.Time `json:"lentUntil,omitempty"`
}

// Isolated are the isolated CPUs of a node. Sets are in the kernel's list format, such as 0-3,8.
type Isolated struct {
	CPUs string `json:"cpus"`
	Held string `json:"held"`
	// FreeCPUs are those that no pod holds.
	FreeCPUs string `json:"freeCPUs,omitempty"`
	Total    int    `json:"total"`
	Free     int    `json:"free"`
	// Stale reports that the node's agent does not renew its Lease, so that none of them is assigned.
	Stale bool `json:"stale,omitempty"`
}

// DomainList are the domains of all levels that the configuration declares, at one moment. They are sorted by tree of levels
// and path, so that each comes before those inside of it.
type DomainList struct {
	ListMeta `json:",inline"`
	// Levels are those of all trees, the widest of each first.
	Levels []Level  `json:"levels"`
	Items  []Domain `json:"items"`
}

// Level is one level of a tree.
type Level struct {
	Topology string `json:"topology"`
	Name     string `json:"name"`
	// Unlabelled is how many nodes are in no domain of the level.
	Unlabelled int `json:"unlabelled"`
}

// Domain is one domain and the capacity of its nodes. Amounts that are zero are left out.
type Domain struct {
	// The name is the path of the domain, with the domains around it in front: "b1/r3".
	metav1.ObjectMeta `json:"metadata"`
	Topology          string `json:"topology"`
	Level             string `json:"level"`
	Nodes             int    `json:"nodes"`
	// Used is on how many of them a member of a job holds a device, or anything on a node without devices. A domain with none is
	// whole, any other is in use.
	Used        int                 `json:"used"`
	Allocatable corev1.ResourceList `json:"allocatable"`
	// Idle is what no pod uses, of the nodes that may take a pod.
	Idle corev1.ResourceList `json:"idle"`
}

// QueueList are the queues at one moment, each before those below it; none while there is no Queue object.
type QueueList struct {
	ListMeta `json:",inline"`
	Items    []Queue `json:"items"`
	// Paused says why no job starts, of any queue; empty when they may.
	Paused string `json:"paused,omitempty"`
	// Misplaced are the first jobs that wait and that no queue takes, with the reason.
	Misplaced []string `json:"misplaced,omitempty"`
}

// Queue is one queue. Amounts are those of the queue and of all below it; those that are zero are left out.
type Queue struct {
	metav1.ObjectMeta `json:"metadata"`
	Parent            string `json:"parent,omitempty"`
	Weight            int32  `json:"weight"`
	// Inactive says in one word why no job of the queue starts; empty when they may.
	Inactive string `json:"inactive,omitempty"`
	// Message is the same with what is wrong.
	Message string `json:"message,omitempty"`
	// LastStart is when a job last started in its turn; nil when that is not known.
	LastStart *time.Time `json:"lastStart,omitempty"`
	// Turn is the place of the queue among those with the same parent of which jobs wait, from 1; 0 when none of its own does.
	Turn      int                 `json:"turn,omitempty"`
	Used      corev1.ResourceList `json:"used,omitempty"`
	Demand    corev1.ResourceList `json:"demand,omitempty"`
	Guarantee corev1.ResourceList `json:"guarantee,omitempty"`
	Limit     corev1.ResourceList `json:"limit,omitempty"`
	// Floor is the part of the guarantee, or of the guarantees below, that the queue has a use for. Share is what it can count
	// on of what is contended.
	Floor corev1.ResourceList `json:"floor,omitempty"`
	Share corev1.ResourceList `json:"share,omitempty"`
	// Borrowed is what the queue holds beyond what is guaranteed to it or to those below it, of the resources that are guaranteed to
	// any queue. The plugin proportion computes it in each cycle, as it does the demand, the floor, the share and the
	// levels: without the plugin, and of a scheduler that does not lead, they are empty.
	Borrowed corev1.ResourceList `json:"borrowed,omitempty"`
	// Levels say of the contended resources how far the queue is above its floor, relative to its weight: 1 is at its share. With
	// weight 0, or where only guarantees can be had, they are relative to what there is. The queue stands where its highest level
	// is, of the devices that a job asks for, else of all others.
	Levels map[corev1.ResourceName]float64 `json:"levels,omitempty"`
	// Unmet says why jobs wait that are within the guarantee; empty when there are none.
	Unmet string `json:"unmet,omitempty"`
	// Oversubscribed says that all guarantees together are more than there is; empty where they are not.
	Oversubscribed string `json:"oversubscribed,omitempty"`
	QueueCounts
	// Waiting are the kinds, namespaces and names of its own jobs that wait to start, in the order in which they are tried.
	Waiting []string `json:"waiting,omitempty"`
}

// QueueCounts are how many jobs of a queue, and of all below it, hold capacity and wait, and how many of these for which
// reason.
type QueueCounts struct {
	RunningJobs int32 `json:"runningJobs"`
	WaitingJobs int32 `json:"waitingJobs"`
	// WaitingFor is sorted by reason.
	WaitingFor []v1alpha1.WaitingReason `json:"waitingFor,omitempty"`
	// Asked is what the waiting members of all these jobs request, whether it can be had or not, which the demand leaves out.
	Asked corev1.ResourceList `json:"asked,omitempty"`
}

// CycleList are the last cycles of a scheduler, the latest last.
type CycleList struct {
	ListMeta `json:",inline"`
	// Total is how many cycles there were since the process began.
	Total uint64   `json:"total"`
	Items []*Cycle `json:"items"`
}

// Cycle is what one cycle did, and how long each part of it took. Its name is its number, from 1 on.
type Cycle struct {
	metav1.ObjectMeta `json:"metadata"`

	Start time.Time       `json:"start"`
	Took  metav1.Duration `json:"took"`
	// Parts are in the order in which they began. Together they take as long as the cycle.
	Parts []Part `json:"parts"`
	Jobs  int    `json:"jobs"`
	Nodes int    `json:"nodes"`
	// Waiting is how many jobs the cycle refused.
	Waiting int `json:"waiting"`
	// The numbers of pods that were bound, evicted, nominated, and lost their nomination; and of reservations.
	Binds               int `json:"binds,omitempty"`
	Evictions           int `json:"evictions,omitempty"`
	Nominations         int `json:"nominations,omitempty"`
	NominationsReleased int `json:"nominationsReleased,omitempty"`
	Reservations        int `json:"reservations,omitempty"`
	// Panics is how many panics of plugins and actions were caught.
	Panics int `json:"panics,omitempty"`
	// Decisions are the first of them, job by job; Decided is how many there were.
	Decisions []Decision `json:"decisions,omitempty"`
	Decided   int        `json:"decided,omitempty"`
}

// Part is a part of a cycle.
type Part struct {
	Name string          `json:"name"`
	Took metav1.Duration `json:"took"`
}

// Decision is what a cycle decided for one job; the numbers count pods.
type Decision struct {
	// Job is the job's namespace and name.
	Job                 string `json:"job"`
	Binds               int    `json:"binds,omitempty"`
	Evictions           int    `json:"evictions,omitempty"`
	Nominations         int    `json:"nominations,omitempty"`
	NominationsReleased int    `json:"nominationsReleased,omitempty"`
	// Reserved names the nodes on which capacity was reserved, up to a few; empty when none was.
	Reserved string `json:"reserved,omitempty"`
}

// JobList are jobs: all that the scheduler knows, or those of one namespace, by namespace, name and source.
type JobList struct {
	ListMeta `json:",inline"`
	Items    []Job `json:"items"`
	// SchedulerNames are the values of spec.schedulerName of the pods that the scheduler places; empty where it was not asked.
	SchedulerNames []string `json:"schedulerNames,omitempty"`
	// Notes are what there is to say of the whole list.
	Notes []string `json:"notes,omitempty"`
}

// Job is one PodGroup, another group of pods, or one plain pod.
type Job struct {
	// The name is that of the group, or of the pod. The labels are those of the PodGroup, or of the oldest pod. The owners are the
	// controller of the group's object and those of its pods, each once.
	metav1.ObjectMeta `json:"metadata"`
	// Source is what makes the pods members: PodGroup, "implicit group", pod, or the kind of an object of another project.
	Source   string `json:"source"`
	Priority int32  `json:"priority"`
	// Needs is how many members must start together, 0 where that is not known. Has is how many members count towards it: bound,
	// succeeded, or waiting for a node.
	Needs int32  `json:"needs,omitempty"`
	Has   int32  `json:"has"`
	Roles []Role `json:"roles,omitempty"`
	// Members are in the order in which they are placed.
	Members []Member `json:"members"`

	// Phase is one of those of a PodGroup. It is empty where the pods name a PodGroup that does not exist.
	Phase     v1alpha1.PodGroupPhase `json:"phase,omitempty"`
	Bound     int32                  `json:"bound"`
	Running   int32                  `json:"running"`
	Succeeded int32                  `json:"succeeded,omitempty"`
	Failed    int32                  `json:"failed,omitempty"`
	// Reason is a stable code and Message the words for it; both are empty where no scheduler has said anything yet.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Trail are what the actions of the last cycle said of the job, in order. The last one is the reason.
	Trail []Step `json:"trail,omitempty"`
	Queue string `json:"queue,omitempty"`
	// Turn says where the job is in the order of its queue, and the queue among those beside it. Behind are the jobs of the
	// queue that come right before it.
	Turn   string   `json:"turn,omitempty"`
	Behind []string `json:"behind,omitempty"`
	// WaitingSince is since when the job has had all its members and has waited, DegradedSince since when it has been below its
	// minimum.
	WaitingSince  *metav1.Time `json:"waitingSince,omitempty"`
	DegradedSince *metav1.Time `json:"degradedSince,omitempty"`
	// Evicted says by whom and for whom its members were evicted, and EvictedAt when; empty and nil once its minimum is bound
	// again.
	Evicted   string       `json:"evicted,omitempty"`
	EvictedAt *metav1.Time `json:"evictedAt,omitempty"`
	// Topology is in which domains its members are.
	Topology    []v1alpha1.TopologyStatus `json:"topology,omitempty"`
	Reservation *v1alpha1.Reservation     `json:"reservation,omitempty"`
	// Advice is what would let it start; nil where that is not known.
	Advice *v1alpha1.Advice `json:"advice,omitempty"`
	// Notes are what else there is to say.
	Notes []string `json:"notes,omitempty"`
}

// Role is a part of a job with a minimum of its own.
type Role struct {
	Name  string `json:"name"`
	Needs int32  `json:"needs"`
	Has   int32  `json:"has"`
	Bound int32  `json:"bound"`
}

// Member is one pod of a job.
type Member struct {
	Name  string      `json:"name"`
	Role  string      `json:"role,omitempty"`
	State MemberState `json:"state"`
	// Node is where it runs, Nominated where capacity is kept for it.
	Node      string `json:"node,omitempty"`
	Nominated string `json:"nominated,omitempty"`
	// Message is why it waits, where it has a reason of its own; else it waits with its job.
	Message string `json:"message,omitempty"`
}

// MemberState is how a member stands, in one word.
type MemberState string

// The states of members.
const (
	MemberWaiting   MemberState = "Waiting"
	MemberGated     MemberState = "Gated"
	MemberBound     MemberState = "Bound"
	MemberRunning   MemberState = "Running"
	MemberDeleting  MemberState = "Deleting"
	MemberSucceeded MemberState = "Succeeded"
	MemberFailed    MemberState = "Failed"
)

// Step is what one action said of a job.
type Step struct {
	// Action is the name of an action; "engine" for a job that had no turn, since a panic ended the cycle.
	Action string `json:"action"`
	// Code is the stable code, Reason the text. Where a later action has started the job, Code is empty.
	Code   string `json:"code,omitempty"`
	Reason string `json:"reason"`
}

// ConfigList has the one configuration that a scheduler runs with.
type ConfigList struct {
	ListMeta `json:",inline"`
	Items    []Config `json:"items"`
}

// NewConfigList returns the list of a configuration.
func NewConfigList(config Config, leading bool) *ConfigList {
	config.Name = "scheduler"
	return &ConfigList{ListMeta: listMeta("ConfigList", time.Time{}, leading), Items: []Config{config}}
}

// Config is the configuration that a scheduler runs with.
type Config struct {
	// The name is "scheduler".
	metav1.ObjectMeta `json:"metadata"`
	// Version is that of the scheduler's program, such as "0.1.0 with go1.26.8".
	Version string `json:"version,omitempty"`
	// Paused says why the scheduler is paused, beside what the text says; empty when it is not.
	Paused string `json:"paused,omitempty"`
	// Source is where it came from: "built in", the name of a file, or that of a ConfigMap.
	Source string `json:"source"`
	// Revision tells two contents of one source apart; empty when there is only one.
	Revision string `json:"revision,omitempty"`
	// Since is from when on it has been in use.
	Since time.Time `json:"since"`
	// Text is what was read, as it was written.
	Text string `json:"text"`
	// Refused is the last newer content that is not in use, since it is wrong; nil when there is none.
	Refused *RefusedConfig `json:"refused,omitempty"`
}

// RefusedConfig is a configuration that was not taken.
type RefusedConfig struct {
	Revision string    `json:"revision,omitempty"`
	At       time.Time `json:"at"`
	// Error says everything that is wrong with it, a line each.
	Error string `json:"error"`
}
