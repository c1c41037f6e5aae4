package model

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// The marks by which a pod says where it is in the topology, as apis/scheduling/v1alpha1 describes them. The annotation with the
// index has the name of the label.
const (
	LabelIndex       = "scheduling.tutti.dev/index"
	AnnotationDomain = "scheduling.tutti.dev/domain"
	AnnotationSlice  = "scheduling.tutti.dev/slice"
)

// indexLabels are those with which controllers number the pods that they make, by kind: training-operator and mpi-operator,
// LeaderWorkerSet, Volcano's Job, StatefulSet.
var indexLabels = []string{
	"training.kubeflow.org/replica-index", "leaderworkerset.sigs.k8s.io/worker-index", "volcano.sh/task-index", "apps.kubernetes.io/pod-index",
}

// jobSetJobIndex is the label with the number of the Job of a JobSet that the pod is of, among those of its role.
const jobSetJobIndex = "jobset.sigs.k8s.io/job-index"

// maxIndex bounds the index of a member: no group has more.
const maxIndex = 1_000_000

// Indexes are the indexes of the members of a job.
type Indexes struct {
	of map[*Task]int
	// Derived reports that some have an index that no label says.
	Derived bool
	// Invalid says which members contradict each other, or have a label that cannot be read; nil when all is well.
	Invalid *Refusal
}

// Of returns the index of a member; ok is false for a member that has failed or is being deleted: another one takes its place.
func (x *Indexes) Of(task *Task) (index int, ok bool) {
	index, ok = x.of[task]
	return index, ok
}

// Numbered returns the indexes of members: what the label scheduling.tutti.dev/index says, else the number that their controller
// has given them, else what was written with their bind; the others take what is free, by the natural order of their names.
func Numbered(members []*Task) *Indexes {
	x := &Indexes{of: make(map[*Task]int, len(members))}
	owner, perJob := map[int]*Task{}, podsPerJob(members)
	var without []*Task
	for _, task := range members {
		if task.Status == Failed || task.Status == Releasing || task.Deleted() {
			continue
		}
		index, ok := x.stated(task, perJob)
		if !ok {
			without, x.Derived = append(without, task), true
			continue
		}
		if other := owner[index]; other != nil && x.Invalid == nil {
			x.Invalid = &Refusal{Code: InvalidGroup, Detail: fmt.Sprintf(
				"topology: pods %s and %s both have the index %d; give them the label %s, or the entry its roles", other.Name, task.Name, index, LabelIndex)}
		}
		owner[index], x.of[task] = task, index
	}
	slices.SortFunc(without, func(a, b *Task) int { return cmp.Or(CompareNatural(a.Name, b.Name), cmp.Compare(a.UID, b.UID)) })
	var open []*Task
	for _, task := range without { // what stands comes first: it is in its slice already
		index, err := strconv.Atoi(task.PlaceMark(LabelIndex))
		if err != nil || index < 0 || index > maxIndex || owner[index] != nil || !task.Status.HasNode() && task.Status != Succeeded {
			open = append(open, task)
			continue
		}
		owner[index], x.of[task] = task, index
	}
	free := 0
	for _, task := range open {
		for owner[free] != nil {
			free++
		}
		owner[free], x.of[task] = task, free
	}
	return x
}

// stated returns the index that labels of the pod say. perJob is how many pods each Job of a JobSet has.
func (x *Indexes) stated(task *Task, perJob map[string]int) (index int, ok bool) {
	if text, is := task.Pod.Labels[LabelIndex]; is {
		index, ok = readIndex(text)
		if !ok && x.Invalid == nil {
			x.Invalid = &Refusal{Code: InvalidGroup, Detail: fmt.Sprintf(
				"topology: label %s of pod %s is %q, it must be a whole number from 0 to %d", LabelIndex, task.Name, Brief(text, maxQuotedIndex), maxIndex)}
		}
		return index, ok
	}
	if index, ok = readIndex(task.Pod.Labels[batchv1.JobCompletionIndexAnnotation]); ok {
		if of, inSet := readIndex(task.Pod.Labels[jobSetJobIndex]); inSet {
			index += of * perJob[task.Role]
		}
		return index, ok
	}
	for _, label := range indexLabels {
		if index, ok = readIndex(task.Pod.Labels[label]); ok {
			return index, ok
		}
	}
	return 0, false
}

const maxQuotedIndex = 32

func readIndex(text string) (index int, ok bool) {
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil && n <= maxIndex
}

// podsPerJob returns by role how many pods a Job of a JobSet has: all of them run at the same time, so that the last one has the
// highest index.
func podsPerJob(members []*Task) map[string]int {
	var pods map[string]int
	for _, task := range members {
		if _, inSet := readIndex(task.Pod.Labels[jobSetJobIndex]); !inSet {
			continue
		}
		if index, ok := readIndex(task.Pod.Labels[batchv1.JobCompletionIndexAnnotation]); ok {
			if pods == nil {
				pods = map[string]int{}
			}
			pods[task.Role] = max(pods[task.Role], index+1)
		}
	}
	return pods
}

// SortByRank sorts members of a job by the index that labels say, and by the natural order of names.
func SortByRank(members []*Task) {
	type ranked struct {
		task         *Task
		ofJob, index int
	}
	all := make([]ranked, len(members))
	for i, task := range members {
		all[i].task = task
		all[i].ofJob, all[i].index = rank(task.Pod)
	}
	slices.SortFunc(all, func(a, b ranked) int {
		if order := cmp.Or(cmp.Compare(a.ofJob, b.ofJob), cmp.Compare(a.index, b.index)); order != 0 {
			return order
		}
		return cmp.Or(CompareNatural(a.task.Name, b.task.Name), cmp.Compare(a.task.UID, b.task.UID))
	})
	for i := range all {
		members[i] = all[i].task
	}
}

// rank returns the number of the pod's Job in its JobSet, and its index; zeros where it has none.
func rank(pod *corev1.Pod) (ofJob, index int) {
	ofJob, _ = readIndex(pod.Labels[jobSetJobIndex])
	for _, label := range rankLabels {
		if index, ok := readIndex(pod.Labels[label]); ok {
			return ofJob, index
		}
	}
	return ofJob, 0
}

// IndexLabels returns the keys of the labels from which the index of a pod is read.
func IndexLabels() []string { return append([]string{jobSetJobIndex}, rankLabels...) }

var rankLabels = append([]string{LabelIndex, batchv1.JobCompletionIndexAnnotation}, indexLabels...)
