package sources

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
	read func(annotations map[string]string) (constraints []model.SaidConstraint, problem string)
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

// saidBy returns what a pod says in a dialect; it has nothing written when that is nothing.
func (d *dialect) saidBy(pod *corev1.Pod) (said model.SaidBy) {
	if d.isDone != nil && d.isDone(pod) {
		return said
	}
	for _, key := range d.annotations {
		if value, ok := pod.Annotations[key]; ok {
			if said.Written == nil {
				said.Written = map[string]string{}
			}
			said.Written[key] = value
		}
	}
	return said
}

// difference returns the first annotation that two pods do not say the same in; empty when there is none.
func (d *dialect) difference(a, b map[string]string) string {
	for _, key := range d.annotations {
		value, ok := a[key]
		if other, there := b[key]; value != other || ok != there {
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
		said, wrong := dialects[i].saidIn(job, roles, func(task *model.Task) model.SaidBy { return task.Says().Topology.By[i] })
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
	return task.Says().Topology != nil && lives(task)
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
func (d *dialect) saidIn(job *model.Job, roles []string, says func(task *model.Task) model.SaidBy) (all []model.TopologyConstraint, problem string) {
	oldest := map[string]*model.Task{} // by role
	for _, task := range job.Tasks {
		if !saysTopology(task) || says(task).Written == nil {
			continue
		}
		role := task.Role
		if d.ofGroup {
			role = ""
		}
		if first := oldest[role]; first == nil {
			oldest[role] = task
		} else if first.Says().Topology == task.Says().Topology {
			continue
		} else if key := d.difference(says(first).Written, says(task).Written); key != "" {
			return nil, fmt.Sprintf("annotation %s of pod %s is not that of pod %s, which is older", key, task.PodRef, first.PodRef)
		}
	}
	var constraints []model.SaidConstraint
	for _, role := range slices.Sorted(maps.Keys(oldest)) {
		said := says(oldest[role])
		if said.Problem != "" {
			return nil, fmt.Sprintf("pod %s: %s", oldest[role].PodRef, said.Problem)
		}
		for _, one := range said.Constraints {
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
func addConstraint(constraints []model.SaidConstraint, one model.SaidConstraint) []model.SaidConstraint {
	for i := range constraints {
		other := &constraints[i]
		if one.Set != "" && other.Set == one.Set && other.Level == one.Level && other.Preferred == one.Preferred && other.SliceSize == one.SliceSize {
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
