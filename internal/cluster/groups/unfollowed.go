package groups

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// unfollowed are annotations by which schedulers of other projects start a pod in another way than Tutti does, and what to write
// in their place.
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
}

// Unfollowed says which annotation of a member is not followed, and what to write in its place; empty when there is none.
func Unfollowed(job *model.Job) string {
	for _, task := range job.Tasks {
		for _, known := range unfollowed {
			if _, there := task.Pod.Annotations[known.annotation]; there && (job.Key.IsPod() || !known.alone) {
				return fmt.Sprintf("the annotation %s is not followed: %s", known.annotation, known.instead)
			}
		}
	}
	return ""
}

// UnfollowedAnnotations returns the keys of these annotations.
func UnfollowedAnnotations() (keys []string) {
	for _, known := range unfollowed {
		keys = append(keys, known.annotation)
	}
	return keys
}

// sameUnfollowed reports whether two versions of a pod have the same of these annotations.
func sameUnfollowed(a, b *corev1.Pod) bool {
	for _, known := range unfollowed {
		_, before := a.Annotations[known.annotation]
		if _, after := b.Annotations[known.annotation]; before != after {
			return false
		}
	}
	return true
}
