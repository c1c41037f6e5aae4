package v1alpha1

const (
	// LabelPodGroup on a pod names the PodGroup, in the pod's own namespace, that the pod is a member of.
	LabelPodGroup = "scheduling.tutti.dev/pod-group"

	// LabelRole on a member names its role (spec.roles[].name). A member without it, or with a name the group does not
	// list, counts for spec.minMember only.
	LabelRole = "scheduling.tutti.dev/role"

	// AnnotationMinMember on a pod that names a group says how many members must start together, from 1 up, while there is no
	// PodGroup of that name: the pods with one controller that name the same group then are an implicit group. Where members
	// disagree, the highest counts. A PodGroup of the name, as soon as there is one, takes its place.
	AnnotationMinMember = "scheduling.tutti.dev/min-member"

	// AnnotationKubeBatchGroup is kube-batch's way to say what LabelPodGroup says, accepted so that its jobs run
	// unchanged. LabelPodGroup wins where a pod carries both.
	AnnotationKubeBatchGroup = "scheduling.k8s.io/group-name"
)

// ConditionScheduled is the type of the condition that says whether the gang has been started: True in one write as
// soon as the minimum is bound, False with a reason and numbers while it waits, and back to False only when no member
// is bound any more.
const ConditionScheduled = "Scheduled"
