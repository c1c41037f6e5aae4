package sources

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Source is one way in which pods are made members of a job. Its functions read only what they are given. They are called on the
// goroutines of informers, too.
type Source struct {
	name  string
	marks Marks
	// of returns what the marks on a pod say; ok is false when it has none of this source.
	of func(pod *corev1.Pod) (m Membership, ok bool)
	// watch is the kind of foreign objects that it reads; nil when pods and our own PodGroups say all.
	watch *Watch
	// member reads what marks say of a pod beside which group it is in, of each pod: another mark may name the group, and the source
	// may be off. nil reads nothing.
	member func(pod *corev1.Pod, m *model.Member)
	// roleOf returns the role of a pod in a group object that another source reads; empty when it has none. nil of a source whose
	// roles are not late.
	roleOf func(pod *corev1.Pod) string
}

// Name returns the one that a configuration names it by.
func (s *Source) Name() string { return s.name }

// Watch returns the kind of foreign objects that it reads; nil when it reads none.
func (s *Source) Watch() *Watch { return s.watch }

// Of returns what the marks on a pod say; ok is false when it has none of this source. A pod of a group object of its operator
// has our role, or that of the first source that knows one, where the marks of this one name none.
func (s *Source) Of(pod *corev1.Pod) (m Membership, ok bool) {
	m, ok = s.of(pod)
	for one := &m; ok && one != nil; one = one.Otherwise {
		if !one.Job.IsForeign() || one.Job.Source.OwnsPods() {
			continue
		}
		one.Role = cmp.Or(one.Role, pod.Labels[v1alpha1.LabelRole])
		for i := 0; i < len(all) && one.Role == ""; i++ {
			if all[i].roleOf != nil {
				one.Role = all[i].roleOf(pod)
			}
		}
	}
	return m, ok
}

// Marks are the keys of labels and annotations.
type Marks struct {
	Labels, Annotations []string
	// Index is the label with the number of a pod among those of its role; empty when there is none.
	Index string
}

// Watch is a kind of foreign objects, and what is kept of them.
type Watch struct {
	// Source is that of the jobs that the objects stand for.
	Source model.Source
	// Resource is what is listed and watched.
	Resource schema.GroupVersionResource
	// Decode returns what is kept of an object. It is called on the informer's goroutine. What has another type than it should is
	// a contradiction.
	Decode func(object *unstructured.Unstructured) *Spec
	// Owns reports whether a reference is one to such an object, which owns groups and says which of their roles are late; nil
	// reports none.
	Owns func(owner *metav1.OwnerReference) bool
	// Setting is how users say what such an object would say, while it is not read, as the end of a message; empty when they cannot.
	Setting string
	// Lacking says of a job of such an object that lacks members how its wait ends if these are not made again; nil says nothing.
	Lacking func(job *model.Job) string
	// AfterOwn reports that the mark which names such an object means a PodGroup of ours first, and IsBuiltIn that the API server
	// itself has the kind.
	AfterOwn, IsBuiltIn bool
	// Status returns what the status of an object is to show: a function of what it says, of its live job, nil without members, and
	// of why that waits, nil when it was not refused. It is nil of a kind whose status is not ours to write.
	Status func(spec *Spec, job *model.Job, refusal *model.Refusal) Shown
	// Subresource reports that the status is one, and HasTransitionIDs that each transition of a condition has an identifier.
	Subresource, HasTransitionIDs bool
}

// Spec is all that is kept of a foreign object.
type Spec struct {
	// ObjectMeta is its identity, version, generation, age and controller, and nothing else.
	metav1.ObjectMeta
	Source model.Source
	// MinMember is how many members must start together, at least 1; Roles are the minima of its parts, by name.
	MinMember int32
	Roles     []model.Role
	// Topology says which members share a domain, as the object says it; nil when it says nothing.
	Topology []model.TopologyConstraint
	// Later is what it says of members that are made later, by role, as far as that can be read.
	Later []Later
	// Done are the roles of which the object says that all members have succeeded. Left is how many members have still to succeed,
	// zero when it does not say.
	Done []string
	Left int32
	// PriorityClassName and Queue are those that it names; empty when it names none.
	PriorityClassName, Queue string
	// NoGang reports that it is no gang: its pods are in what their other marks say. NeverPreempts reports that it wants no pod
	// evicted for it, EndsTogether that its members may be evicted only together.
	NoGang, NeverPreempts, EndsTogether bool
	// Exclusive reports that most members are made only when others have a node, so that there is no moment at which all exist: a
	// group of the object is no gang, either.
	Exclusive bool
	// MinResources are what it wants to be free before the first member starts, by name; nil when it says nothing.
	MinResources []Amount
	// Contradiction says which field cannot be read, and why; empty when all is well. Remark says what of it is not followed.
	Contradiction, Remark string
	// Shown is what its status shows, which decides what is written to it; zero of a kind whose status we do not write.
	Shown Shown
}

// Amount is how much of a resource. A list of them takes a fifth of the memory of a map.
type Amount struct {
	Name     corev1.ResourceName
	Quantity resource.Quantity
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

// minimumIsBound is the message of a group that has started.
const minimumIsBound = "the minimum is bound"

// say sets the condition, with a message and notes to it.
func (s *Shown) say(kind string, status corev1.ConditionStatus, reason string, message ...string) {
	said := slices.DeleteFunc(message, func(part string) bool { return part == "" })
	s.Type, s.Status, s.Reason, s.Message = kind, string(status), reason, model.Clean(strings.Join(said, "; "), MaxMessage)
}

// Wanted returns what the status of the object is to show, as Watch.Status.
func (s *Spec) Wanted(job *model.Job, refusal *model.Refusal) Shown {
	return WatchOf(s.Source).Status(s, job, refusal)
}

// Identity is what is kept of the metadata of a foreign object.
func Identity(object *unstructured.Unstructured) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		ResourceVersion: object.GetResourceVersion(), CreationTimestamp: object.GetCreationTimestamp(), Generation: object.GetGeneration(),
		OwnerReferences: ShortController(object),
	}
}

// maxReference is the most that is kept of a reference to an owner, in bytes: more than a name, a kind and a version can have.
const maxReference = 1 << 10

// ShortController returns the controller among the owners of an object; none when the reference is longer than one can be.
func ShortController(object metav1.Object) []metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil || len(owner.Name)+len(owner.Kind)+len(owner.APIVersion)+len(owner.UID) > maxReference {
		return nil
	}
	return []metav1.OwnerReference{*owner}
}

// Parent returns the key of the job of the object that controls a group object and says which roles are late; ok is false when
// there is none.
func (s *Spec) Parent() (key model.JobKey, ok bool) {
	if s.Source.OwnsPods() {
		return key, false
	}
	for i := range s.OwnerReferences {
		for source := range watchOf {
			if owns := watchOf[source].Owns; owns != nil && owns(&s.OwnerReferences[i]) {
				return model.JobKey{Namespace: s.Namespace, Name: s.OwnerReferences[i].Name, Source: model.Source(source)}, true
			}
		}
	}
	return key, false
}

// WithLate returns the spec with the late roles of its parent, which may be nil, and those that are done. A group that needs
// fewer than the parent has is not of all its roles: a JobSet may have a group for each.
func (s *Spec) WithLate(parent *Spec) *Spec {
	if parent != nil && parent.Exclusive && s.MinMember > 1 {
		all := *s
		all.MinMember, all.Roles, all.Remark = 1, nil, parent.Remark
		return &all
	}
	if parent == nil || s.MinMember < parent.MinMember || len(parent.Done) == 0 && !parent.HasLate() {
		return s
	}
	all := *s
	all.Roles = slices.Clone(s.Roles)
	all.Done = parent.Done
	for _, role := range parent.Roles {
		if known := slices.IndexFunc(all.Roles, func(own model.Role) bool { return own.Name == role.Name }); known >= 0 {
			all.Roles[known].MadeLater = role.MadeLater
		} else if role.MadeLater || slices.Contains(parent.Done, role.Name) {
			all.Roles = append(all.Roles, role)
		}
	}
	all.sortRoles()
	return &all
}

// HasLate reports whether members of the group are made only when others run.
func (s *Spec) HasLate() bool {
	return slices.ContainsFunc(s.Roles, func(role model.Role) bool { return role.MadeLater })
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
	if other == nil {
		return false
	}
	said := func(spec Spec) Spec {
		spec.ObjectMeta = metav1.ObjectMeta{UID: spec.UID, OwnerReferences: spec.OwnerReferences}
		spec.Shown = Shown{}
		return spec
	}
	return equality.Semantic.DeepEqual(said(*s), said(*other))
}

// Sources are those that are on. The first one that finds a mark on a pod decides: a pod belongs to one job, and marks of two
// sources are never merged.
type Sources []*Source

// WritesStatus reports whether the status of the objects of a source is ours to write.
func WritesStatus(source model.Source) bool {
	return watchOf[source].Status != nil
}

// All returns the sources in their order. The mark that a user writes comes first, then the field of the API, then labels and
// annotations that name an object, then the marks of operators that have none: those of the operator that made the pods, and
// those that Kueue adds. Objects that own pods come last.
func All() Sources { return slices.Clone(all) }

var all = Sources{
	own, native, coscheduling, volcano, kubeBatch, leaderWorkerSet, kueue,
	jobSet, mpiJob, pyTorchJob, tfJob, xgBoostJob, paddleJob, jaxJob, rayCluster, indexedJob,
}

// watchOf are the watches of all sources, by the source of the jobs.
var watchOf = watchesOf(all)

func watchesOf(sources Sources) (of [model.LastSource + 1]Watch) {
	for _, source := range sources {
		if source.watch != nil {
			of[source.watch.Source] = *source.watch
		}
	}
	return of
}

// Without returns all sources but those that are off, by name.
func Without(off []string) Sources {
	return slices.DeleteFunc(All(), func(source *Source) bool { return slices.Contains(off, source.name) })
}

// Marks returns what the sources read of a pod.
func (s Sources) Marks() (all Marks) {
	for _, source := range s {
		marks := source.marks
		all.Labels, all.Annotations = append(all.Labels, marks.Labels...), append(all.Annotations, marks.Annotations...)
		if marks.Index != "" {
			all.Labels = append(all.Labels, marks.Index)
		}
	}
	return all
}

// byDefault are the sources that are on by default.
var byDefault = Without(config.SourcesOffByDefault())

// Of returns what a pod says by the sources that are on by default.
func Of(pod *corev1.Pod) Membership { return byDefault.Of(pod) }

// Of returns what a pod says of the job it belongs to: one of its own when it has no mark. A PodGroup or a Job of Kubernetes may
// be no gang, and the marks of the sources after it hold then.
func (s Sources) Of(pod *corev1.Pod) Membership {
	for i, source := range s {
		m, ok := source.Of(pod)
		if !ok {
			continue
		}
		if m.Job.Source == model.SourceNative || m.Job.Source == model.SourceJob {
			rest := s[i+1:].Of(pod)
			m.Otherwise = &rest
		}
		return m
	}
	return alone(pod)
}

// PassedOver returns the groups that marks of a pod name and that it is not in: for each mark the last one that it may mean. job
// is the one that it is in.
func (s Sources) PassedOver(pod *corev1.Pod, job model.JobKey) (others []model.JobKey) {
	met := []model.JobKey{}
	for _, source := range s {
		m, ok := source.Of(pod)
		if !ok || slices.Contains(met, m.Job) {
			continue // the second source of the same mark
		}
		met = append(met, m.Job)
		last, isIn := m.Job, false
		for one := range m.All() {
			last, isIn = one.Job, isIn || one.Job == job
		}
		if !isIn && !last.IsPod() {
			others = append(others, last)
		}
	}
	return others
}

func alone(pod *corev1.Pod) Membership {
	return Membership{Job: model.JobKey{Namespace: pod.Namespace, Name: pod.Name, Source: model.SourcePod}}
}

// WatchOf returns the objects that stand for jobs of a source; the zero Watch when none do, or our own.
func WatchOf(source model.Source) Watch { return watchOf[source] }
