package groups

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tutti-sched/tutti/pkg/model"
)

// Source is one way in which pods are made members of a job. It reads only what it is given and keeps nothing.
type Source interface {
	// Name is the one that a configuration names it by.
	Name() string
	// Of returns what the marks on a pod say; ok is false when it has none of this source. It is called on the goroutines of
	// informers, too.
	Of(pod *corev1.Pod) (m Membership, ok bool)
	// Watches returns the foreign objects that it reads; nil when pods and our own PodGroups say all.
	Watches() []Watch
	// Marks returns what Of reads of a pod.
	Marks() Marks
}

// Marks are the keys of labels and annotations.
type Marks struct{ Labels, Annotations []string }

// Watch is a kind of foreign objects, and what is kept of them.
type Watch struct {
	// Source is that of the jobs that the objects stand for.
	Source model.Source
	// Resource is what is listed and watched.
	Resource schema.GroupVersionResource
	// Decode returns what is kept of an object. It is called on the informer's goroutine. What has another type than it should is
	// a contradiction.
	Decode func(object *unstructured.Unstructured) *Spec
}

// Spec is all that is kept of a foreign object.
type Spec struct {
	// ObjectMeta is its identity, version and age, and nothing else.
	metav1.ObjectMeta
	Source model.Source
	// MinMember is how many members must start together, at least 1; Roles are the minima of its parts, by name.
	MinMember int32
	Roles     []model.Role
	// PriorityClassName and Queue are those that it names; empty when it names none.
	PriorityClassName, Queue string
	// MinResources are what it wants to be free before the first member starts; nil when it says nothing.
	MinResources corev1.ResourceList
	// Contradiction says which field cannot be read, and why; empty when all is well. Remark says what of it is not followed.
	Contradiction, Remark string
	// Shown is what its status shows, for those who write it; zero of a kind whose status we do not write.
	Shown Shown
}

// Shown is what the status of a foreign object shows.
type Shown struct {
	// HasStatus and HasConditions report that it has a status, and a list of conditions.
	HasStatus, HasConditions bool
	// Phase is as the object's kind names it; empty when it has none.
	Phase string
	// Type, Status, Reason and Message are those of the condition that a scheduler has written last; empty when there is none.
	Type, Status, Reason, Message string
	// At is the position of that condition in the list.
	At int
	// Running, Succeeded and Failed are how many members it counts.
	Running, Succeeded, Failed int32
}

// Identity is what is kept of the metadata of a foreign object.
func Identity(object *unstructured.Unstructured) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		ResourceVersion: object.GetResourceVersion(), CreationTimestamp: object.GetCreationTimestamp(),
	}
}

// Key returns the key of the job that the object stands for.
func (s *Spec) Key() model.JobKey {
	return model.JobKey{Namespace: s.Namespace, Name: s.Name, Source: s.Source}
}

// Refusal is why no member of a group that contradicts itself starts.
func (s *Spec) Refusal() *model.Refusal {
	return &model.Refusal{Code: model.InvalidGroup, Detail: s.Key().Describe() + ": " + s.Contradiction}
}

// Same reports whether two versions say the same: a job is not looked at again for what others write to a status.
func (s *Spec) Same(other *Spec) bool {
	return other != nil && s.UID == other.UID && s.MinMember == other.MinMember && slices.Equal(s.Roles, other.Roles) &&
		s.PriorityClassName == other.PriorityClassName && s.Queue == other.Queue &&
		s.Contradiction == other.Contradiction && s.Remark == other.Remark &&
		equality.Semantic.DeepEqual(s.MinResources, other.MinResources)
}

// Sources are those that are on. The first one that finds a mark on a pod decides: a pod belongs to one job, and marks of two
// sources are never merged.
type Sources []Source

// WritesStatus reports whether the status of the objects of a source is ours to write.
func WritesStatus(source model.Source) bool { return source == model.SourceVolcano }

// Resource returns what the objects of a foreign source are.
func Resource(source model.Source) (resource schema.GroupVersionResource) {
	for _, one := range All() {
		for _, watch := range one.Watches() {
			if watch.Source == source {
				resource = watch.Resource
			}
		}
	}
	return resource
}

// All returns the sources in their order: the word of a user comes before what an operator writes.
func All() Sources { return Sources{own{}, coscheduling{}, volcano{}, kubeBatch{}} }

// Without returns all sources but those that are off, by name.
func Without(off []string) Sources {
	return slices.DeleteFunc(All(), func(source Source) bool { return slices.Contains(off, source.Name()) })
}

// Marks returns what the sources read of a pod.
func (s Sources) Marks() (all Marks) {
	for _, source := range s {
		marks := source.Marks()
		all.Labels, all.Annotations = append(all.Labels, marks.Labels...), append(all.Annotations, marks.Annotations...)
	}
	return all
}

// Of returns what a pod says while all sources are on.
func Of(pod *corev1.Pod) Membership { return All().Of(pod) }

// Of returns what a pod says of the job it belongs to: one of its own when it has no mark.
func (s Sources) Of(pod *corev1.Pod) Membership {
	for _, source := range s {
		if m, ok := source.Of(pod); ok {
			return m
		}
	}
	return alone(pod)
}

func alone(pod *corev1.Pod) Membership {
	return Membership{Job: model.JobKey{Namespace: pod.Namespace, Name: pod.Name, Source: model.SourcePod}}
}
