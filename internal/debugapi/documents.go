package debugapi

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Nodes is the accounting of all nodes at one moment.
type Nodes struct {
	// At is when they were read.
	At time.Time `json:"at"`
	// Leading reports whether the scheduler that was asked decides; another replica knows all that is written, but not what the
	// leader is about to write.
	Leading bool `json:"leading"`
	// Nodes are sorted by name.
	Nodes []Node `json:"nodes"`
}

// Node is one node and the capacity on it. Amounts that are zero are left out.
type Node struct {
	Name string `json:"name"`
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
	CPUs  string `json:"cpus"`
	Held  string `json:"held"`
	Total int    `json:"total"`
	Free  int    `json:"free"`
	// Stale reports that the node's agent does not renew its Lease, so that none of them is assigned.
	Stale bool `json:"stale,omitempty"`
}

// Topologies are the domains of all levels that the configuration declares, at one moment.
type Topologies struct {
	At time.Time `json:"at"`
	// Leading is that of Nodes.
	Leading    bool       `json:"leading"`
	Topologies []Topology `json:"topologies"`
}

// Topology is one tree of levels, the widest first.
type Topology struct {
	Name   string          `json:"name"`
	Levels []TopologyLevel `json:"levels"`
}

// TopologyLevel is one level and its domains.
type TopologyLevel struct {
	Name string `json:"name"`
	// Unlabelled is how many nodes are in no domain of the level.
	Unlabelled int `json:"unlabelled"`
	// Domains are in the natural order of their paths.
	Domains []TopologyDomain `json:"domains"`
}

// TopologyDomain is one domain and the capacity of its nodes. Amounts that are zero are left out.
type TopologyDomain struct {
	// Path names the domain, with the domains around it in front: "b1/r3".
	Path  string `json:"path"`
	Nodes int    `json:"nodes"`
	// Used is on how many of them a member of a job holds a device, or anything on a node without devices. A domain with none is
	// whole, any other is broken.
	Used        int                 `json:"used"`
	Allocatable corev1.ResourceList `json:"allocatable"`
	// Idle is what no pod uses, of the nodes that may take a pod.
	Idle corev1.ResourceList `json:"idle"`
}

// Queues are the queues at one moment; none while there is no Queue object.
type Queues struct {
	At time.Time `json:"at"`
	// Leading is that of Nodes. Another replica knows no shares, and no order.
	Leading bool `json:"leading"`
	// Queues are sorted by name.
	Queues []Queue `json:"queues"`
}

// Queue is one queue. Amounts are those of the queue and of all below it; those that are zero are left out.
type Queue struct {
	Name   string `json:"name"`
	Parent string `json:"parent,omitempty"`
	Weight int32  `json:"weight"`
	// Inactive says in one word why no job of the queue starts; empty when they may.
	Inactive string `json:"inactive,omitempty"`
	// LastStart is when a job last started in its turn; nil when that is not known.
	LastStart *time.Time `json:"lastStart,omitempty"`
	// Turn is the place of the queue among those with the same parent of which jobs wait, from 1; 0 when none of its own does.
	Turn      int                 `json:"turn,omitempty"`
	Used      corev1.ResourceList `json:"used,omitempty"`
	Demand    corev1.ResourceList `json:"demand,omitempty"`
	Guarantee corev1.ResourceList `json:"guarantee,omitempty"`
	Limit     corev1.ResourceList `json:"limit,omitempty"`
	// Floor is the part of the guarantee, or of the guarantees below, that the queue has a use for. Share is what it can count on of
	// what is contended.
	Floor corev1.ResourceList `json:"floor,omitempty"`
	Share corev1.ResourceList `json:"share,omitempty"`
	// Levels say of the contended resources how far the queue is above its floor, relative to its weight: 1 is at its share. With
	// weight 0, or where only guarantees can be had, they are relative to what there is. The queue stands where its highest level
	// is, of the devices that a job asks for, else of all others.
	Levels map[corev1.ResourceName]float64 `json:"levels,omitempty"`
	// Unmet says why jobs wait that are within the guarantee; empty when there are none.
	Unmet string `json:"unmet,omitempty"`
	QueueCounts
	// Waiting are the kinds, namespaces and names of its own jobs that wait to start, in the order in which they are tried.
	Waiting []string `json:"waiting,omitempty"`
}

// QueueCounts are how many jobs of a queue, and of all below it, hold capacity and wait, and how many of these for which reason.
type QueueCounts struct {
	RunningJobs int32 `json:"runningJobs"`
	WaitingJobs int32 `json:"waitingJobs"`
	// WaitingFor is sorted by reason.
	WaitingFor []WaitingReason `json:"waitingFor,omitempty"`
	// Asked is what the waiting members of all these jobs request, whether it can be had or not, which the demand leaves out.
	Asked corev1.ResourceList `json:"asked,omitempty"`
}

// WaitingReason is how many jobs wait for one reason.
type WaitingReason struct {
	Reason string `json:"reason"`
	Jobs   int32  `json:"jobs"`
}

// Cycles are the last cycles of a scheduler.
type Cycles struct {
	Leading bool `json:"leading"`
	// Total is how many cycles there were since the process began.
	Total uint64 `json:"total"`
	// Cycles are the last of them, the latest first.
	Cycles []*Cycle `json:"cycles"`
}

// Cycle is what one cycle did, and how long each part of it took.
type Cycle struct {
	// Number counts from 1.
	Number uint64          `json:"number"`
	Start  time.Time       `json:"start"`
	Took   metav1.Duration `json:"took"`
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

// Refusals are what the actions of the last session said of the jobs of one name: a PodGroup, implicit groups, a pod.
type Refusals struct {
	Leading bool `json:"leading"`
	// Refusals are in the order in which they were recorded, so that the last one of a job is the reason that its users read.
	// There are none for a job that started at the first try, or does not exist.
	Refusals []Refusal `json:"refusals"`
}

// Refusal is why a job was not started.
type Refusal struct {
	// Job is its kind, namespace and name.
	Job string `json:"job"`
	// Action is the name of an action; "engine" for a job that had no turn, since a panic ended the cycle.
	Action string `json:"action"`
	// Code is the stable code, Reason the text. Where a later action has started the job, Code is empty.
	Code   string `json:"code,omitempty"`
	Reason string `json:"reason"`
}

// Config is the configuration that a scheduler runs with.
type Config struct {
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
