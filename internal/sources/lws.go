package sources

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/gang"
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

// leaderWorkerSet is a group of a LeaderWorkerSet: its leader and workers, of one revision of the template. The pods say all but
// one thing, for which the object is read: whether the workers are made only when the leader is ready (startupPolicy in
// pkg/controllers/pod_controller.go of kubernetes-sigs/lws).
var leaderWorkerSet = &Source{
	name: "leaderworkerset", of: ofLeaderWorkerSet, roleOf: roleOfLeaderWorkerSet,
	marks: Marks{
		Labels:      []string{LWSGroupKey, LWSRevision, LWSName, LWSGroupIndex},
		Annotations: []string{LWSSize, LWSExclusiveTopology},
		Index:       LWSWorkerIndex,
	},
	member: func(pod *corev1.Pod, m *model.Member) { // whichever mark names its group
		if pod.Labels[LWSGroupKey] != "" {
			m.Set = pod.Labels[LWSName]
			_, m.Exclusive = pod.Annotations[LWSExclusiveTopology]
		}
	},
	watch: &Watch{
		Source:   model.SourceLeaderWorkerSetObject,
		Resource: schema.GroupVersionResource{Group: "leaderworkerset.x-k8s.io", Version: "v1", Resource: "leaderworkersets"},
		Setting: "; with startupPolicy: LeaderReady turn the source leaderworkerset off, or set " +
			"gangSchedulingManagement.schedulerProvider: volcano in the configuration of LeaderWorkerSet",
		Decode: func(object *unstructured.Unstructured) *Spec {
			f := fields{object: object.Object}
			spec := &Spec{ObjectMeta: Identity(object), Source: model.SourceLeaderWorkerSetObject, MinMember: 1, NoGang: true}
			if f.text("spec", "startupPolicy") == "LeaderReady" {
				spec.Roles = []model.Role{{Name: RoleWorker, MinMember: 1, MadeLater: true}}
			}
			size := int64(f.integerOr(1, "spec", "leaderWorkerTemplate", "size"))
			spec.addLater(RoleWorker, size-1, f.value("spec", "leaderWorkerTemplate", "workerTemplate"))
			return spec
		},
	},
}

// ofLeaderWorkerSet names a group by its LeaderWorkerSet and its index, as users know it.
func ofLeaderWorkerSet(pod *corev1.Pod) (Membership, bool) {
	group := pod.Labels[LWSGroupKey]
	if group == "" {
		return Membership{}, false
	}
	m := Membership{Role: roleOfLeaderWorkerSet(pod), Job: model.JobKey{
		Namespace: pod.Namespace, Name: group, Source: model.SourceLeaderWorkerSet,
		Owner: types.UID(group + "/" + pod.Labels[LWSRevision]),
	}}
	if set, index := pod.Labels[LWSName], pod.Labels[LWSGroupIndex]; set != "" && index != "" {
		m.Job.Name = set + "-" + index
	}
	m.readMinimum(pod, LWSSize)
	return m, true
}

// SetOf returns the key of the LeaderWorkerSet that a group is of, by the group's name; ok is false for other jobs.
func SetOf(job model.JobKey) (set model.JobKey, ok bool) {
	if job.Source != model.SourceLeaderWorkerSet {
		return set, false
	}
	at := strings.LastIndexByte(job.Name, '-')
	if at < 0 {
		return set, false
	}
	return model.JobKey{Namespace: job.Namespace, Name: job.Name[:at], Source: model.SourceLeaderWorkerSetObject}, true
}

// workersAreLate reports whether the job is a group of a LeaderWorkerSet whose workers are made once the leader has a node, or is
// ready. set is what the LeaderWorkerSet says. While that is not known, it was so where the leader has a node and there are no
// workers, or it runs and none of them has a node.
func workersAreLate(job *model.Job, set *Spec) bool {
	if job.Key.Source != model.SourceLeaderWorkerSet {
		return false
	}
	if isExclusive(job) {
		return true
	}
	leads, runs, workers, placed := false, false, false, false
	for _, task := range job.Tasks {
		switch task.Role {
		case RoleLeader:
			leads, runs = gang.HasNode(task), gang.HasNode(task) && task.Started
		case RoleWorker:
			workers, placed = true, placed || gang.HasNode(task)
		}
	}
	if set != nil {
		return set.HasLate()
	}
	return leads && !workers || runs && !placed
}

// isExclusive reports whether the job is of pods of a LeaderWorkerSet of which one says that the workers are made once the leader
// has a node, whichever mark names their group.
func isExclusive(job *model.Job) bool {
	return slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return task.Says().Exclusive })
}

// lateWorkers are the roles of a group of a LeaderWorkerSet whose workers are made later.
func lateWorkers(minMember int32) []model.Role {
	return []model.Role{{Name: RoleWorker, MinMember: minMember - 1, MadeLater: true}}
}

// roleOfLeaderWorkerSet returns the role of a pod of a LeaderWorkerSet; empty when it is of none.
func roleOfLeaderWorkerSet(pod *corev1.Pod) string {
	switch {
	case pod.Labels[LWSGroupKey] == "":
		return ""
	case pod.Labels[LWSWorkerIndex] == "0":
		return RoleLeader
	}
	return RoleWorker
}
