package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestAParentOfAnotherName: what a job says does not depend on which object was seen first, whatever their names.
func TestAParentOfAnotherName(t *testing.T) {
	minimum := func(groupFirst bool) int32 {
		group := foreignSpec("g", 1, 3)
		group.OwnerReferences = []metav1.OwnerReference{{Kind: "MPIJob", Name: "j", Controller: new(true)}}
		s := newState(node("n"), pod("w0", ofForeign("g"), inMPIJob("j", "worker")), pod("w1", ofForeign("g"), inMPIJob("j", "worker")))
		if groupFirst {
			s.Apply(seen(group))
			snap(t, s, start)
			s.Apply(seen(mpiJob("j", 2)))
		} else {
			s.Apply(seen(mpiJob("j", 2)))
			snap(t, s, start)
			s.Apply(seen(group))
		}
		return snap(t, s, start).Job(foreignKey("g")).MinMember
	}
	if first, second := minimum(true), minimum(false); first != 2 || second != 2 {
		t.Errorf("minimum %d when the group is seen first, else %d, want 2", first, second)
	}
}

// TestALeaderWorkerSetIsRead for which of its groups' workers are late, whether the pods or it are seen first, and for its own
// groups alone.
func TestALeaderWorkerSetIsRead(t *testing.T) {
	set := &sources.Spec{Source: model.SourceLeaderWorkerSetObject, MinMember: 1, NoGang: true, Roles: []model.Role{{Name: sources.RoleWorker, MinMember: 1, MadeLater: true}}}
	set.Namespace, set.Name, set.UID = "ns", "serve", "set"
	leader := func(name string) *corev1.Pod {
		set, index, _ := strings.Cut(name, "/")
		return pod(set+index, label(sources.LWSGroupKey, "k"+index), label(sources.LWSRevision, "r"), label(sources.LWSName, set), label(sources.LWSGroupIndex, index),
			label(sources.LWSWorkerIndex, "0"), annotation(sources.LWSSize, "4"))
	}
	s := newState(node("n"), leader("serve/0"), leader("serve/1"), leader("serve-0/0"), leader("server/0"), leader("s/0"), pod("serve-x"))
	look := func(when string, late int32) {
		t.Helper()
		for name, want := range map[string]int32{"serve-0/k0": late, "serve-1/k1": late, "serve-0-0/k0": 4, "server-0/k0": 4, "s-0/k0": 4} {
			name, key, _ := strings.Cut(name, "/")
			job := snap(t, s, start).Job(model.JobKey{Namespace: "ns", Name: name, Source: model.SourceLeaderWorkerSet, Owner: types.UID(key + "/r")})
			unread := strings.Contains(job.Warning, "is not read") && strings.Contains(job.Warning, "LeaderReady")
			if job.MinMember != want || unread != (want > 1) {
				t.Errorf("%s: %s has the minimum %d, want %d, and says %q", when, name, job.MinMember, want, job.Warning)
			}
		}
	}
	again := *set
	again.UID = "again"
	look("before", 4)
	for _, c := range []struct {
		when  string
		event Event
		late  int32
	}{
		{"seen", seen(set), 1},
		{"gone", gone(set), 4},
		{"made again", seen(&again), 1},
		{"read", &ReadingChanged{Source: set.Source, Reading: IsRead}, 1},
		{"forbidden", &ReadingChanged{Source: set.Source, Reading: NotAllowed}, 4},
	} {
		if effect := s.Apply(c.event); effect != (Effect{Schedule: true, Report: true}) && c.when != "read" {
			t.Errorf("%s: effect %+v", c.when, effect)
		}
		look(c.when, c.late)
	}
}
