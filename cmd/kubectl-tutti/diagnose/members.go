package diagnose

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// foreign reports whether the pod certainly belongs to another scheduler.
func foreign(pod *corev1.Pod) bool {
	return pod.Spec.SchedulerName == "" || pod.Spec.SchedulerName == corev1.DefaultSchedulerName
}

// standing is how a pod counts towards the minimum of its group.
type standing struct{ exists, bound, running, succeeded bool }

func standingOf(pod *corev1.Pod) standing {
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		return standing{exists: true, bound: true, succeeded: true}
	case pod.Status.Phase == corev1.PodFailed, pod.DeletionTimestamp != nil:
		return standing{}
	case pod.Spec.NodeName != "":
		return standing{exists: true, bound: true, running: pod.Status.Phase == corev1.PodRunning}
	}
	return standing{exists: len(pod.Spec.SchedulingGates) == 0}
}

// countMembers counts the pods of a gang.
func countMembers(g *gang) *Members {
	m := &Members{}
	m.Needs, m.late = g.needs()
	if g.group != nil {
		for _, role := range g.group.Spec.Roles {
			m.Roles = append(m.Roles, Role{Name: role.Name, Needs: int(role.MinMember)})
		}
	}
	for _, pod := range g.pods {
		m.count(pod)
	}
	for _, names := range []*[]string{&m.Waiting, &m.Gated, &m.Failed, &m.Deleting, &m.Foreign} {
		slices.Sort(*names)
	}
	return m
}

// HasNoPods reports whether it is a group that no pod names.
func (a *Diagnosis) HasNoPods() bool {
	m := a.Members
	return m != nil && m.Exist+len(m.Waiting)+len(m.Gated)+len(m.Failed)+len(m.Deleting)+len(m.Foreign) == 0
}

// LacksPods reports whether it is a group of which fewer members exist than it needs.
func (a *Diagnosis) LacksPods() bool { return a.Members != nil && a.Members.Exist < a.Members.Needs }

func (m *Members) count(pod *corev1.Pod) {
	if foreign(pod) {
		m.Foreign = append(m.Foreign, pod.Name)
		return
	}
	s := standingOf(pod)
	m.Exist, m.Bound = m.Exist+one(s.exists), m.Bound+one(s.bound)
	m.Running, m.Succeeded = m.Running+one(s.running), m.Succeeded+one(s.succeeded)
	for i := range m.Roles {
		if role := &m.Roles[i]; role.Name == pod.Labels[v1alpha1.LabelRole] {
			role.Exist, role.Bound = role.Exist+one(s.exists), role.Bound+one(s.bound)
		}
	}
	switch {
	case pod.Status.Phase == corev1.PodFailed:
		m.Failed = append(m.Failed, pod.Name)
	case pod.Status.Phase == corev1.PodSucceeded:
	case pod.DeletionTimestamp != nil:
		m.Deleting = append(m.Deleting, pod.Name)
	case pod.Spec.NodeName == "" && !s.exists:
		m.Gated = append(m.Gated, pod.Name)
	case pod.Spec.NodeName == "":
		m.Waiting = append(m.Waiting, pod.Name)
	}
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
