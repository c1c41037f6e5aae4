package groups

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file works out which members share a domain where annotations say it, of pods and of objects that own them. All that is
// said holds together. What cannot be read, or is not the same on two members, refuses the job: it would start where it must
// not.

// dialect is annotations by which pods say which members share a domain.
type dialect struct {
	annotations []string
	// ofGroup reports that they are about the whole group; else they are about the members of the pod's role.
	ofGroup bool
	// isDone reports that what a pod says has been done already; nil is never.
	isDone func(pod *corev1.Pod) bool
	// read returns what they say; problem names the one that cannot be read, empty when all can.
	read func(annotations map[string]string) (constraints []constraint, problem string)
}

// constraint is that members of a role share a domain. Two roles with the same constraint that name the same set of roles share
// one domain; an empty name is that of no set.
type constraint struct {
	model.TopologyConstraint
	set string
}

var dialects = [...]dialect{
	{annotations: []string{v1alpha1.AnnotationTopology}, ofGroup: true, read: readOurs},
	{annotations: []string{KAIRequired, KAIPreferred}, read: readKAI},
	{
		annotations: []string{KueueRequired, KueuePreferred, KueueSlice, KueueSliceSize, KueueSlices, KueueRoles}, read: readKueue,
		isDone: func(pod *corev1.Pod) bool { return pod.Labels[KueueGivesPlace] == "true" },
	},
}

// TopologyAnnotations returns the keys of the annotations that are read of pods that have not ended.
func TopologyAnnotations() (all []string) {
	for i := range dialects {
		all = append(all, dialects[i].annotations...)
	}
	return all
}

// Unmarked reports whether no label and no annotation of a pod says more of its job than which one it is, and its role: neither
// which attempt of it the pod is of, nor which members share a domain.
func Unmarked(pod *corev1.Pod) bool {
	for key := range pod.Labels {
		if key == jobSetUID || key == jobSetAttempt {
			return false
		}
	}
	for key := range pod.Annotations {
		if slices.Contains(topologyAnnotations, key) {
			return false
		}
	}
	return true
}

var topologyAnnotations = TopologyAnnotations()

// sameTopology reports whether two versions of a pod say the same of which members share a domain.
func sameTopology(a, b *corev1.Pod) bool {
	for i := range dialects {
		if d := &dialects[i]; d.isUsedBy(a) != d.isUsedBy(b) || d.isUsedBy(a) && d.difference(a, b) != "" {
			return false
		}
	}
	return true
}

func (d *dialect) isUsedBy(pod *corev1.Pod) bool {
	if len(pod.Annotations) == 0 || d.isDone != nil && d.isDone(pod) {
		return false
	}
	return slices.ContainsFunc(d.annotations, func(key string) bool { _, ok := pod.Annotations[key]; return ok })
}

// difference returns the first annotation that is not the same on two pods; empty when there is none.
func (d *dialect) difference(a, b *corev1.Pod) string {
	for _, key := range d.annotations {
		value, ok := a.Annotations[key]
		if other, there := b.Annotations[key]; value != other || ok != there {
			return key
		}
	}
	return ""
}

// fillTopology writes which members share a domain: as the object of the group says it, nil when it says nothing, and as members
// say it. named are the roles that the group has by its object: one whose members are made later, or are gone, may have none now.
func fillTopology(job *model.Job, stated []model.TopologyConstraint, named []model.Role) {
	job.Topology = slices.Clone(stated)
	if len(stated) == 0 && !slices.ContainsFunc(job.Tasks, saysTopology) {
		return
	}
	roles, problem := rolesIn(job, named), ""
	for i := range dialects {
		said, wrong := dialects[i].saidIn(job, roles)
		problem = cmp.Or(problem, wrong)
		for _, one := range said {
			if !contains(job.Topology, one) {
				job.Topology = append(job.Topology, one)
			}
		}
	}
	for _, shared := range job.Topology {
		for _, role := range shared.Roles {
			if !job.Whole && !slices.Contains(roles, role) { // members of one that has run may be gone
				problem = cmp.Or(problem, fmt.Sprintf("annotation %s: role %q is none of the group's roles", v1alpha1.AnnotationTopology, role))
			}
		}
	}
	if problem != "" && job.Invalid == nil {
		job.Invalid = &model.Refusal{Code: model.InvalidGroup, Detail: problem}
	}
}

func contains(topology []model.TopologyConstraint, one model.TopologyConstraint) bool {
	return slices.ContainsFunc(topology, func(other model.TopologyConstraint) bool { return reflect.DeepEqual(one, other) })
}

// saysTopology reports whether a member that has not ended says which members share a domain.
func saysTopology(task *model.Task) bool {
	return !task.Unmarked && lives(task) && slices.ContainsFunc(dialects[:], func(d dialect) bool { return d.isUsedBy(task.Pod) })
}

func lives(task *model.Task) bool {
	return task.Pod != nil && (task.Status == model.Pending || task.Status.HasNode()) && task.Status != model.Releasing && !task.Deleted()
}

// rolesIn returns the names of the roles of a job: those that its object names, and those of its members, of which one may be
// empty.
func rolesIn(job *model.Job, named []model.Role) []string {
	names := map[string]bool{}
	for _, role := range named {
		names[role.Name] = true
	}
	for _, task := range job.Tasks {
		names[task.Role] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// saidIn returns what the members of a job say: of the group, or of each role, the oldest that says anything. Members that say
// nothing are as the others.
func (d *dialect) saidIn(job *model.Job, roles []string) (all []model.TopologyConstraint, problem string) {
	oldest := map[string]*model.Task{} // by role
	for _, task := range job.Tasks {
		if !lives(task) || !d.isUsedBy(task.Pod) {
			continue
		}
		role := task.Role
		if d.ofGroup {
			role = ""
		}
		if first := oldest[role]; first == nil {
			oldest[role] = task
		} else if key := d.difference(first.Pod, task.Pod); key != "" {
			return nil, fmt.Sprintf("annotation %s of pod %s is not that of pod %s, which is older", key, task.PodRef, first.PodRef)
		}
	}
	var constraints []constraint
	for _, role := range slices.Sorted(maps.Keys(oldest)) {
		read, problem := d.read(oldest[role].Pod.Annotations)
		if problem != "" {
			return nil, fmt.Sprintf("pod %s: %s", oldest[role].PodRef, problem)
		}
		for _, one := range read {
			if !d.ofGroup {
				one.Roles = []string{role}
			}
			constraints = addConstraint(constraints, one)
		}
	}
	for _, one := range constraints {
		if !d.ofGroup && len(one.Roles) == len(roles) {
			one.Roles = nil
		}
		all = append(all, one.TopologyConstraint)
	}
	return all, ""
}

// addConstraint adds a constraint, or its role to that of the same set.
func addConstraint(constraints []constraint, one constraint) []constraint {
	for i := range constraints {
		other := &constraints[i]
		if one.set != "" && other.set == one.set && other.Level == one.Level && other.Preferred == one.Preferred && other.SliceSize == one.SliceSize {
			other.Roles = append(other.Roles, one.Roles...)
			return constraints
		}
	}
	return append(constraints, one)
}

// readTopology reads what stands on an object that owns pods about all of them: in our annotation, and in those of KAI.
func (s *Spec) readTopology(f *fields, annotations map[string]string) {
	for i := range dialects[:2] {
		constraints, problem := dialects[i].read(annotations)
		if problem != "" {
			f.contradict("%s", problem)
		}
		for _, one := range constraints {
			s.Topology = append(s.Topology, one.TopologyConstraint)
		}
	}
}
