package groups

import (
	"cmp"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tutti-sched/tutti/pkg/model"
)

// The labels and annotations that LeaderWorkerSet puts on its pods.
const (
	LWSGroupKey          = "leaderworkerset.sigs.k8s.io/group-key"
	LWSRevision          = "leaderworkerset.sigs.k8s.io/template-revision-hash"
	LWSName              = "leaderworkerset.sigs.k8s.io/name"
	LWSGroupIndex        = "leaderworkerset.sigs.k8s.io/group-index"
	LWSWorkerIndex       = "leaderworkerset.sigs.k8s.io/worker-index"
	LWSSize              = "leaderworkerset.sigs.k8s.io/size"
	LWSExclusiveTopology = "leaderworkerset.sigs.k8s.io/exclusive-topology"
)

// The roles of the pods of a LeaderWorkerSet.
const (
	RoleLeader = "leader"
	RoleWorker = "worker"
)

// leaderWorkerSet is a group of a LeaderWorkerSet: its leader and workers, of one revision of the template.
type leaderWorkerSet struct{}

func (leaderWorkerSet) Name() string     { return "leaderworkerset" }
func (leaderWorkerSet) Watches() []Watch { return nil }

func (leaderWorkerSet) Marks() Marks {
	return Marks{
		Labels:      []string{LWSGroupKey, LWSRevision, LWSName, LWSGroupIndex, LWSWorkerIndex},
		Annotations: []string{LWSSize, LWSExclusiveTopology},
	}
}

// Of names a group as its users do.
func (leaderWorkerSet) Of(pod *corev1.Pod) (Membership, bool) {
	group := pod.Labels[LWSGroupKey]
	if group == "" {
		return Membership{}, false
	}
	m := Membership{Role: RoleWorker, Job: model.JobKey{
		Namespace: pod.Namespace, Name: group, Source: model.SourceLeaderWorkerSet,
		Owner: types.UID(group + "/" + pod.Labels[LWSRevision]),
	}}
	if set, index := pod.Labels[LWSName], pod.Labels[LWSGroupIndex]; set != "" && index != "" {
		m.Job.Name = set + "-" + index
	}
	m.readMinimum(pod, LWSSize)
	if pod.Labels[LWSWorkerIndex] == "0" {
		m.Role = RoleLeader
	}
	return m, true
}

// workersAreLate reports whether the task is of a group of a LeaderWorkerSet whose workers are made once the leader has a node.
func workersAreLate(task *model.Task) bool {
	_, exclusive := task.Pod.Annotations[LWSExclusiveTopology]
	return exclusive && task.Job.Source == model.SourceLeaderWorkerSet
}

// The label, or annotation, that names a pod's group to Kueue, and annotations beside it.
const (
	KueueGroup         = "kueue.x-k8s.io/pod-group-name"
	KueueTotal         = "kueue.x-k8s.io/pod-group-total-count"
	KueueServing       = "kueue.x-k8s.io/pod-group-serving"
	KueueFastAdmission = "kueue.x-k8s.io/pod-group-fast-admission"
)

// kueue is a group of pods that Kueue admits together. Those of a group that serves, and of one that may be admitted before
// all of its pods exist, need not start together.
type kueue struct{}

func (kueue) Name() string     { return "kueue" }
func (kueue) Watches() []Watch { return nil }

func (kueue) Marks() Marks {
	return Marks{Labels: []string{KueueGroup}, Annotations: []string{KueueGroup, KueueTotal, KueueServing, KueueFastAdmission}}
}

func (kueue) Of(pod *corev1.Pod) (Membership, bool) {
	name := cmp.Or(pod.Labels[KueueGroup], pod.Annotations[KueueGroup])
	if name == "" || pod.Annotations[KueueServing] == "true" || pod.Annotations[KueueFastAdmission] == "true" {
		return Membership{}, false
	}
	if len(name) > validation.DNS1123SubdomainMaxLength {
		m := alone(pod)
		m.Malformed = &model.Refusal{Code: model.InvalidGroup, Detail: fmt.Sprintf(
			"annotation %s is %q, which cannot be a name", KueueGroup, model.Brief(name, maxQuoted))}
		return m, true
	}
	m := Membership{Job: model.JobKey{Namespace: pod.Namespace, Name: name, Source: model.SourceKueue}}
	m.readMinimum(pod, KueueTotal)
	return m, true
}

// readMinimum reads how many members the group needs. Without that the pod waits: it would start alone.
func (m *Membership) readMinimum(pod *corev1.Pod, annotation string) {
	value := pod.Annotations[annotation]
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 1 || len(value) > validation.LabelValueMaxLength {
		m.Malformed = noMinimum(annotation, value)
		return
	}
	m.MinMember = int32(n)
}
