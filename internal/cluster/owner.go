package cluster

import (
	"cmp"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster/groups"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file says which scheduler a PodGroup belongs to: the one that it names, or that of its oldest member. Several schedulers
// see the same objects and come to the same answer, so that one of them at most writes the status of a group.

// maxName is how much of the name of another scheduler is kept, in bytes: more than ours can have.
const maxName = 300

// maxQuoted is how much of a user's text a message quotes, in bytes.
const maxQuoted = 40

// member is a pod that names a group.
type member struct {
	group model.JobKey
	// created is in seconds since 1970.
	created   int64
	uid       types.UID
	name      string
	scheduler string
}

func (m member) compare(other member) int {
	return cmp.Or(cmp.Compare(m.created, other.created), cmp.Compare(m.uid, other.uid))
}

// others are the pods of other schedulers that name a group, by UID, and by group and UID.
type others struct {
	pods   map[types.UID]member
	groups map[model.JobKey]map[types.UID]member
}

func newOthers() others {
	return others{pods: map[types.UID]member{}, groups: map[model.JobKey]map[types.UID]member{}}
}

// followOther follows a pod of another scheduler that names a group, from its creation to its deletion; nil is a pod that is
// gone.
func (s *State) followOther(uid types.UID, pod *corev1.Pod) (effect Effect) {
	before, known := s.others.pods[uid]
	after := member{}
	if pod != nil && !s.schedulers[pod.Spec.SchedulerName] {
		if key := groups.Of(pod).Job; !key.IsPod {
			after = member{key, pod.CreationTimestamp.Unix(), uid, pod.Name, model.Brief(pod.Spec.SchedulerName, maxName)}
		}
	}
	if before == after {
		return effect
	}
	if known {
		delete(s.others.pods, uid)
		if delete(s.others.groups[before.group], uid); len(s.others.groups[before.group]) == 0 {
			delete(s.others.groups, before.group)
		}
	}
	if after != (member{}) {
		s.others.pods[uid] = after
		if s.others.groups[after.group] == nil {
			s.others.groups[after.group] = map[types.UID]member{}
		}
		s.others.groups[after.group][uid] = after
	}
	for _, key := range []model.JobKey{before.group, after.group} {
		if group := s.groups[key]; group != nil {
			s.dirtyJobs[key] = struct{}{}
			effect = effect.merge(Effect{Schedule: group.Spec.SchedulerName == "", Report: true})
		}
	}
	return effect
}

// oldest returns the oldest of the pods of other schedulers that name the group, zero when there is none.
func (o *others) oldest(group model.JobKey) (oldest member) {
	for other := range maps.Values(o.groups[group]) {
		if oldest == (member{}) || other.compare(oldest) < 0 {
			oldest = other
		}
	}
	return oldest
}

// warning names the pods of other schedulers that name the group; empty when there is none.
func (o *others) warning(group model.JobKey) string {
	one := o.oldest(group)
	if one == (member{}) {
		return ""
	}
	words := fmt.Sprintf("pods with another schedulerName are no members: %q has %q", one.name, model.Brief(one.scheduler, maxQuoted))
	if more := len(o.groups[group]) - 1; more > 0 {
		words += fmt.Sprintf(", and %d more", more)
	}
	return words
}

// ownGroup returns the PodGroup of a job if it belongs to one of our schedulers, else nil.
func (s *State) ownGroup(key model.JobKey) *v1alpha1.PodGroup {
	group := s.groups[key]
	if group == nil {
		return nil
	}
	if name, _ := s.schedulerOf(group); !s.schedulers[name] {
		return nil
	}
	return group
}

// schedulerOf returns the scheduler that a PodGroup belongs to: the one that it names, or that of its oldest member, or, when it
// has none, the one that has written its status. It is empty when there is none of these. oldest is the name of the member by
// which it was found, empty when it was not found by one.
func (s *State) schedulerOf(group *v1alpha1.PodGroup) (scheduler, oldest string) {
	if group.Spec.SchedulerName != "" {
		return group.Spec.SchedulerName, ""
	}
	key := groups.Key(group)
	first := s.others.oldest(key)
	for _, entry := range s.members[key] {
		pod := entry.record.task.Pod
		one := member{key, pod.CreationTimestamp.Unix(), pod.UID, pod.Name, pod.Spec.SchedulerName}
		if first == (member{}) || one.compare(first) < 0 {
			first = one
		}
	}
	if first == (member{}) {
		return group.Status.SchedulerName, ""
	}
	return first.scheduler, first.name
}

// otherScheduler is why a member of ours waits whose group belongs to another scheduler.
func (s *State) otherScheduler(group *v1alpha1.PodGroup, task *model.Task) *model.Refusal {
	scheduler, oldest := s.schedulerOf(group)
	by := ""
	if oldest != "" {
		by = fmt.Sprintf(" of its oldest member %q", oldest)
	}
	return &model.Refusal{Code: model.InvalidGroup, Detail: fmt.Sprintf("PodGroup %q has the schedulerName %q%s, its member %q has %q",
		group.Name, model.Brief(scheduler, maxQuoted), by, task.Name, model.Brief(task.Pod.Spec.SchedulerName, maxQuoted))}
}

func isEmpty(text string) bool { return text == "" }
