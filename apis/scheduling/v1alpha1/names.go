package v1alpha1

const (
	// LabelPodGroup on a pod names the PodGroup, in the pod's own namespace, that the pod is a member of.
	LabelPodGroup = "scheduling.tutti.dev/pod-group"

	// LabelRole on a member names its role (spec.roles[].name). A member without it, or with a name the group does not
	// list, counts for spec.minMember only.
	LabelRole = "scheduling.tutti.dev/role"

	// LabelIndex on a member is its index in the group, from 0 up: members with neighbouring indexes are near each other, and slices
	// are counted by it. Members without it have the index that their controller has given them, or their place in the order of
	// names. The annotation of the same name is written on a member with its bind, where an entry of spec.topology has a sliceSize.
	LabelIndex = "scheduling.tutti.dev/index"

	// AnnotationDomain is written on a member with its bind, where the group has a topology: the domain of its node in each topology
	// of the configuration, as fabric=b1/r3,nvlink=c7.
	AnnotationDomain = "scheduling.tutti.dev/domain"

	// AnnotationSlice is written on a member with its bind, where an entry of spec.topology has a sliceSize: the number of its
	// slice, from 0 up, of the smallest slices that it is in.
	AnnotationSlice = "scheduling.tutti.dev/slice"

	// LabelQueue on a pod names the Queue of its job, unless its PodGroup does so in spec.queue; the oldest member's counts. On a
	// namespace it names the Queue of the jobs that say nothing themselves, and lets them use it where the Queue has no
	// namespaceSelector.
	LabelQueue = "scheduling.tutti.dev/queue"

	// AnnotationMinMember on a pod that names a group says how many members must start together, from 1 up, while there is no
	// PodGroup of that name: the pods with one controller that name the same group then are an implicit group. Where members
	// disagree, the highest counts. A PodGroup of the name, as soon as there is one, takes its place.
	AnnotationMinMember = "scheduling.tutti.dev/min-member"

	// AnnotationTopology on a member of a group that has no PodGroup of Tutti's says which members share a domain of nodes: a list
	// as in spec.topology of a PodGroup, as JSON. All members that have it must have the same one.
	AnnotationTopology = "scheduling.tutti.dev/topology"

	// AnnotationCycle on an event of the scheduler is the number of the cycle that led to it, as the scheduler's log has it. It
	// counts from 1 in each process.
	AnnotationCycle = "scheduling.tutti.dev/cycle"

	// AnnotationJob is written on a pod with its bind, where other marks than Tutti's name its group: the job that it was bound for,
	// as namespace/name/kind, a space, and how many binds the job needed then. A start that was interrupted is known by it after a
	// restart; a pod of such a group without it was not bound for the group, and is never deleted as a part of its start. A pod that
	// an extender binds has none.
	AnnotationJob = "scheduling.tutti.dev/job"

	// AnnotationKubeBatchGroup is kube-batch's way to say what LabelPodGroup says, accepted so that its jobs run
	// unchanged. LabelPodGroup wins where a pod carries both.
	AnnotationKubeBatchGroup = "scheduling.k8s.io/group-name"
)

// DefaultQueue is the Queue of jobs for which nothing names one. It exists without an object, and is open to all namespaces.
const DefaultQueue = "default"

// The types of conditions.
const (
	// ConditionScheduled says whether the gang has been started: True in one write as soon as the minimum is bound, False with a
	// reason and numbers while it waits, and back to False only when the last bound member is gone.
	ConditionScheduled = "Scheduled"

	// ConditionDegraded says whether a gang that was started has fewer members than its minimum. It is absent until that is so
	// for the first time.
	ConditionDegraded = "Degraded"

	// ConditionReserved says whether capacity is reserved for the gang. It is absent until that is so for the first time.
	ConditionReserved = "Reserved"

	// ConditionEvicted says whether members of the gang were evicted and its minimum has not been bound again since. Its reason says
	// by what. It is absent until that is so for the first time.
	ConditionEvicted = "Evicted"

	// ConditionActive says on a Queue whether its jobs start.
	ConditionActive = "Active"

	// ConditionGuaranteeMet says on a Queue whether its jobs within its guarantee run.
	ConditionGuaranteeMet = "GuaranteeMet"
)

// The reasons of ConditionEvicted while it is True.
const (
	// EvictedByPriority: for a job of the same queue with a higher priority.
	EvictedByPriority = "ByPriority"
	// EvictedByShare and EvictedByGuarantee: for a job of another queue, by the fair share or the guarantee of that queue.
	EvictedByShare     = "ByShare"
	EvictedByGuarantee = "ByGuarantee"
	// EvictedByUser: another client than the scheduler has evicted them, as kubectl drain does.
	EvictedByUser = "ByUser"
)
