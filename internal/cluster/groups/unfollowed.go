package groups

import (
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
		says := task.Says()
		if job.Key.IsPod() && says.UnfollowedAlone != "" {
			return says.UnfollowedAlone
		}
		if says.Unfollowed != "" {
			return says.Unfollowed
		}
	}
	return ""
}

// readUnfollowed reads which of these annotations a pod has.
func readUnfollowed(pod *corev1.Pod, m *model.Member) {
	for i := range unfollowed {
		known, words := &unfollowed[i], &m.Unfollowed
		if known.alone {
			words = &m.UnfollowedAlone
		}
		if _, there := pod.Annotations[known.annotation]; there && *words == "" {
			*words = "the annotation " + known.annotation + " is not followed: " + known.instead
		}
	}
}

// UnfollowedAnnotations returns the keys of these annotations.
func UnfollowedAnnotations() (keys []string) {
	for _, known := range unfollowed {
		keys = append(keys, known.annotation)
	}
	return keys
}
