package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file says which scheduler a PodGroup belongs to: the one that it names, that has written its status while it has
// members, or that of its oldest member. Several schedulers see the same objects and come to the same answer, so that one of
// them at most writes the status of a group.

// maxName is how much of the name of another scheduler is kept, in bytes: more than ours can have.
const maxName = 300

// maxQuoted is how much of a user's text a message quotes, in bytes.
const maxQuoted = 40

// member is a pod that names a group.
type member struct {
	// groups are the group that it names, and those that it is in while that does not exist; zero where there is none.
	groups [3]model.JobKey
	// created is in seconds since 1970.
	created   int64
	uid       types.UID
	name      string
	scheduler string
	// ended is 1 for a pod that has succeeded or failed.
	ended int8
}

func memberOf(named [3]model.JobKey, pod *corev1.Pod) member {
	m := member{named, pod.CreationTimestamp.Unix(), pod.UID, pod.Name, model.Brief(pod.Spec.SchedulerName, maxName), 0}
	if terminal(pod) {
		m.ended = 1
	}
	return m
}

// keys returns the groups that there are.
func (m *member) keys() []model.JobKey {
	n := 0
	for n < len(m.groups) && m.groups[n] != (model.JobKey{}) {
		n++
	}
	return m.groups[:n]
}

// compare puts those that live before those that have ended, and the older ones first.
func (m member) compare(other member) int {
	return cmp.Or(cmp.Compare(m.ended, other.ended), cmp.Compare(m.created, other.created), cmp.Compare(m.uid, other.uid))
}

// others are the pods of other schedulers that name a group, by UID, and by group and UID.
type others struct {
	pods   map[types.UID]member
	groups map[model.JobKey]map[types.UID]member
}

// followOther follows a pod of another scheduler that names a group, from its creation to its deletion; nil is a pod that is
// gone.
func (s *State) followOther(uid types.UID, pod *corev1.Pod) (effect Effect) {
	before, known := s.others.pods[uid]
	after := member{}
	if pod != nil && !s.schedulers[pod.Spec.SchedulerName] {
		if membership := s.sources.Of(pod); !membership.Job.IsPod() {
			var named [3]model.JobKey
			i := 0
			for one := range membership.All() {
				if !one.Job.IsPod() {
					named[i] = one.Job
					i++
				}
			}
			after = memberOf(named, pod)
		}
	}
	if before == after {
		return effect
	}
	if known {
		delete(s.others.pods, uid)
		for _, key := range before.keys() {
			dropFrom(s.others.groups, key, uid)
		}
	}
	if after != (member{}) {
		s.others.pods[uid] = after
		for _, key := range after.keys() {
			addTo(s.others.groups, key, uid, after)
		}
	}
	for _, key := range slices.Concat(before.keys(), after.keys()) {
		if group := s.groups[key]; group != nil {
			s.dirty.addJob(key)
			effect = effect.merge(Effect{Schedule: group.Spec.SchedulerName == "", Report: true})
		}
		effect = effect.merge(s.newsOf(key))
		if (s.foreign.specs[key] != nil || key.IsImplicit()) && len(s.pods.members[key]) > 0 {
			s.dirty.addJob(key)
			effect.Report = true
		}
	}
	return effect
}

// oldest returns the oldest of the pods of other schedulers that name the group, of those that live if any does; zero when there
// is none.
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
	if group.Spec.SchedulerName == "" && len(s.pods.members[key]) > 0 && len(s.others.groups[key]) == 0 {
		return group // it has members, and all are ours
	}
	if owner := s.ownerOf(group); !s.schedulers[owner.scheduler] {
		return nil
	}
	return group
}

// owner is which scheduler has a group, and by what: its spec, its status or its oldest member.
type owner struct {
	scheduler string
	by        string
}

// ownerOf returns the scheduler that a PodGroup belongs to: the one that it names; the one that has written its status, while
// it has a member of that scheduler; that of its oldest member, living ones first; and when it has none, sources.Writer, or else
// sources.DefaultScheduler, which says that it has none. Pods of kube-scheduler are no members of a group of Tutti's: one that
// has no other pods has none.
//
// Invariant: the answer depends on the objects alone, and not on which scheduler asks.
func (s *State) ownerOf(group *v1alpha1.PodGroup) owner {
	if group.Spec.SchedulerName != "" {
		return owner{group.Spec.SchedulerName, ""}
	}
	key, writer := sources.Key(group), group.Status.SchedulerName
	first, holds := member{}, false
	count := func(one member) {
		holds = holds || one.scheduler == writer
		if one.scheduler != corev1.DefaultSchedulerName && (first == (member{}) || one.compare(first) < 0) {
			first = one
		}
	}
	for _, other := range s.others.groups[key] {
		count(other)
	}
	for _, entry := range s.pods.members[key] {
		count(memberOf([3]model.JobKey{key}, entry.record.task.Pod))
	}
	if holds || first == (member{}) {
		return owner{cmp.Or(sources.Writer(&group.Status), sources.DefaultScheduler), " of its status"}
	}
	return owner{first.scheduler, fmt.Sprintf(" of its oldest member %q", first.name)}
}

// otherScheduler is why a member of ours waits whose group belongs to another scheduler.
func (s *State) otherScheduler(group *v1alpha1.PodGroup, task *model.Task) *model.Refusal {
	owner := s.ownerOf(group)
	return &model.Refusal{Code: model.InvalidGroup, Detail: fmt.Sprintf("PodGroup %q has the schedulerName %q%s, its member %q has %q",
		group.Name, model.Brief(owner.scheduler, maxQuoted), owner.by, task.Name, model.Brief(task.Pod.Spec.SchedulerName, maxQuoted))}
}
