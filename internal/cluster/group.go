package cluster

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// GroupSeen is a new version of a PodGroup, or its end.
type GroupSeen struct {
	Group *v1alpha1.PodGroup
	Gone  bool
}

// GroupKey returns the key of the group.
func (e *GroupSeen) GroupKey() model.JobKey { return sources.Key(e.Group) }

func (e *GroupSeen) object() (string, metav1.Object, bool) { return kindGroup, e.Group, e.Gone }

// apply keeps the group. What it says is read when its job is filled.
func (e *GroupSeen) apply(s *State, _ types.UID) Effect {
	group := e.Group
	key := sources.Key(group)
	before := s.groups[key]
	s.dirty.addJob(key)
	if e.Gone {
		s.setGroup(key, nil)
		delete(s.reserved, key)
		s.history.forgetGroup(key)
		return Effect{Schedule: true, Report: true}
	}
	s.setGroup(key, group)
	reserved := s.readReservation(key, before, group)
	asks := reserved || before == nil || before.UID != group.UID || !equality.Semantic.DeepEqual(before.Spec, group.Spec) ||
		Malformed(before) != Malformed(group) ||
		(before.Status.DegradedSince == nil) != (group.Status.DegradedSince == nil) ||
		sources.Whole(before) != sources.Whole(group) && s.pods.wait(key) ||
		before.Status.SchedulerName != group.Status.SchedulerName && len(s.others.groups[key]) > 0
	return Effect{Schedule: asks, Report: asks || !equality.Semantic.DeepEqual(before.Status, group.Status)}
}

// setGroup takes note of a PodGroup; nil makes it gone. Pods that are in another job without it change sides as it comes and
// goes.
func (s *State) setGroup(key model.JobKey, group *v1alpha1.PodGroup) {
	existed := s.groups[key] != nil
	if group == nil {
		delete(s.groups, key)
	} else {
		s.groups[key] = group
	}
	if existed != (group != nil) {
		s.readUncertainAgain(key)
	}
}

// readUncertainAgain lets pods change sides that are in the group or in another one, as its object says.
func (s *State) readUncertainAgain(key model.JobKey) (effect Effect) {
	for _, entry := range slices.Collect(maps.Values(s.pods.uncertain[key])) {
		after := *entry.record
		s.membershipOf(&after)
		if !after.finished() {
			after.derivePosition()
		}
		effect = effect.merge(s.put(entry, &after))
	}
	return effect
}
