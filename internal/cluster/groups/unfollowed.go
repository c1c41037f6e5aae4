package groups

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// unfollowed are annotations by which schedulers of other projects start a pod in another way than Tutti does, or that
// Tutti reads as labels alone, and what to write in their place.
var unfollowed = []struct {
	annotation, instead string
	// alone reports that it means something only on a pod that is in no group.
	alone bool
}{
	// Volcano's controller makes a PodGroup with this minimum for the pods of one Deployment or StatefulSet.
	{"scheduling.volcano.sh/group-min-member", "the pod starts alone; for a gang name a group and set " + v1alpha1.AnnotationMinMember, true},
	// KAI's, for a part of the time or the memory of a GPU.
	{"gpu-fraction", "the pod gets whole GPUs, as many as it requests", false},
	{"gpu-memory", "the pod gets whole GPUs, as many as it requests", false},
	// Tutti's own labels.
	{v1alpha1.LabelPodGroup, ownMarks, false},
	{v1alpha1.LabelRole, ownMarks, false},
	{v1alpha1.LabelQueue, ownMarks, false},
}

// ourDomain begins the keys of Tutti's own labels and annotations. Of a pod, ownLabels are read as labels and some others as
// annotations.
const ourDomain = "scheduling.tutti.dev/"

var ownLabels = []string{v1alpha1.LabelPodGroup, v1alpha1.LabelRole, v1alpha1.LabelIndex, v1alpha1.LabelQueue}

const ownMarks = "it is not one that is read: labels pod-group, role, index and queue, annotations min-member and topology"

// Unfollowed says which mark of a member is not followed, and what to write in its place; empty when there is none: an annotation
// of another project, or a key of Tutti's that is misspelt, or is a label where an annotation is read, or the other way round.
func Unfollowed(job *model.Job) string {
	for _, task := range job.Tasks {
		for _, known := range unfollowed {
			if _, there := task.Pod.Annotations[known.annotation]; there && (job.Key.IsPod() || !known.alone) {
				return fmt.Sprintf("the annotation %s is not followed: %s", known.annotation, known.instead)
			}
		}
		if label := unknownLabel(task.Pod); label != "" {
			return fmt.Sprintf("the label %s is not followed: %s", label, ownMarks)
		}
	}
	return ""
}

// unknownLabel returns the first label of a pod whose key is in our domain and is not one that is read; empty when there is none.
func unknownLabel(pod *corev1.Pod) (first string) {
	for key := range pod.Labels {
		if strings.HasPrefix(key, ourDomain) && !slices.Contains(ownLabels, key) && (first == "" || key < first) {
			first = key
		}
	}
	return first
}

// UnfollowedAnnotations returns the keys of these annotations.
func UnfollowedAnnotations() (keys []string) {
	for _, known := range unfollowed {
		keys = append(keys, known.annotation)
	}
	return keys
}

// sameUnfollowed reports whether two versions of a pod have the same of these marks.
func sameUnfollowed(a, b *corev1.Pod) bool {
	for _, known := range unfollowed {
		_, before := a.Annotations[known.annotation]
		if _, after := b.Annotations[known.annotation]; before != after {
			return false
		}
	}
	return unknownLabel(a) == unknownLabel(b)
}
