package cluster

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

func named(scheduler string) func(*v1alpha1.PodGroup) {
	return func(g *v1alpha1.PodGroup) { g.Spec.SchedulerName = scheduler }
}

func writtenBy(scheduler string) func(*v1alpha1.PodGroup) {
	return func(g *v1alpha1.PodGroup) { g.Status.SchedulerName = scheduler }
}

func was(phase v1alpha1.PodGroupPhase) func(*v1alpha1.PodGroup) {
	return func(g *v1alpha1.PodGroup) { g.Status.Phase = phase }
}

// TestAGroupHasOneScheduler: two states with different scheduler names see the same objects. At most one of them has the group,
// and would write its status; a member of the other says why it waits.
func TestAGroupHasOneScheduler(t *testing.T) {
	old, young := created(start), created(start.Add(time.Minute))
	for name, c := range map[string]struct {
		objects []any
		// owner is the scheduler that has the group, waits why the members of the other one wait.
		owner, waits string
	}{
		"no member yet":                 {[]any{group("g", 2)}, "tutti", ""},
		"no member yet, but it says so": {[]any{group("g", 2, named("other"))}, "other", ""},
		"a member of one":               {[]any{group("g", 2), pod("a", of("g"))}, "tutti", ""},
		"a member of the other":         {[]any{group("g", 2), pod("a", of("g"), by("other"))}, "other", ""},
		"a bound member of the other":   {[]any{group("g", 2), pod("a", of("g"), by("other"), on("n"))}, "other", ""},
		"a finished member":             {[]any{group("g", 2), pod("a", of("g"), by("other"), on("n"), phase("Succeeded"))}, "other", ""},
		"pods of kube-scheduler":        {[]any{group("g", 2), pod("a", of("g"), by("default-scheduler"))}, "tutti", ""},
		"an older pod of kube-scheduler": {
			[]any{group("g", 2), pod("a", of("g"), young), pod("b", of("g"), by("default-scheduler"), old)}, "tutti", "",
		},
		"an older pod of kube-scheduler, and the writer has no member": {
			[]any{group("g", 2, writtenBy("tutti")), pod("a", of("g"), by("other"), young), pod("b", of("g"), by("default-scheduler"), old)}, "other", "",
		},
		"members of a third": {[]any{group("g", 2), pod("a", of("g"), by("third"))}, "", ""},
		"members of both": {
			[]any{group("g", 2), pod("a", of("g"), young), pod("b", of("g"), by("other"), old)}, "other",
			`PodGroup "g" has the schedulerName "other" of its oldest member "b", its member "a" has "tutti"`,
		},
		"members of both, named": {
			[]any{group("g", 2, named("tutti")), pod("a", of("g"), young), pod("b", of("g"), by("other"), old)}, "tutti",
			`PodGroup "g" has the schedulerName "tutti", its member "b" has "other"`,
		},
		"members of both, by the annotation": {
			[]any{group("g", 2), pod("a", annotation(v1alpha1.AnnotationKubeBatchGroup, "g"), old), pod("b", of("g"), by("other"), young)}, "tutti",
			`PodGroup "g" has the schedulerName "tutti" of its oldest member "a", its member "b" has "other"`,
		},
		"named for a third": {
			[]any{group("g", 2, named("third")), pod("a", of("g"))}, "", `PodGroup "g" has the schedulerName "third", its member "a" has "tutti"`,
		},
		"all members are gone":                                 {[]any{group("g", 2, writtenBy("tutti"))}, "tutti", ""},
		"all members are gone, before status.schedulerName":    {[]any{group("g", 2, was(v1alpha1.PodGroupRunning))}, "tutti", ""},
		"ended, and named":                                     {[]any{group("g", 2, was(v1alpha1.PodGroupFailed), named("other"))}, "other", ""},
		"another one's come, before status.schedulerName":      {[]any{group("g", 2, was(v1alpha1.PodGroupFailed)), pod("b", of("g"), by("other"))}, "other", ""},
		"an older pod of a third has ended":                    {[]any{group("g", 2), pod("a", of("g"), young), pod("b", of("g"), by("default-scheduler"), old, phase("Succeeded"))}, "tutti", ""},
		"an older pod of a third comes to a group with status": {[]any{group("g", 2, writtenBy("tutti")), pod("a", of("g"), young), pod("b", of("g"), by("default-scheduler"), old)}, "tutti", ""},
		"a pod of a third, and all members have ended":         {[]any{group("g", 2, writtenBy("tutti")), pod("a", of("g"), old, phase("Failed")), pod("b", of("g"), by("default-scheduler"), young)}, "tutti", ""},
		"an older pod of the other comes to a group with status": {
			[]any{group("g", 2, writtenBy("tutti")), pod("a", of("g"), young), pod("b", of("g"), by("other"), old)}, "tutti",
			`PodGroup "g" has the schedulerName "tutti" of its status, its member "b" has "other"`,
		},
		"members of both, before status.schedulerName": {
			[]any{group("g", 2, was(v1alpha1.PodGroupRunning)), pod("a", of("g"), young), pod("b", of("g"), by("other"), old)}, "other",
			`PodGroup "g" has the schedulerName "other" of its oldest member "b", its member "a" has "tutti"`,
		},
		"members of both have ended": {
			[]any{group("g", 2), pod("a", of("g"), young, phase("Failed")), pod("b", of("g"), by("other"), old, phase("Failed"))}, "other",
			`PodGroup "g" has the schedulerName "other" of its oldest member "b", its member "a" has "tutti"`,
		},
		"another one's come after a word about no pods":             {[]any{group("g", 2, writtenBy("tutti"), was(v1alpha1.PodGroupPending)), pod("b", of("g"), by("other"))}, "other", ""},
		"pods of kube-scheduler come in the place of another one's": {[]any{group("g", 2, writtenBy("other")), pod("b", of("g"), by("default-scheduler"))}, "other", ""},
		"another one's come in their place":                         {[]any{group("g", 2, writtenBy("tutti")), pod("b", of("g"), by("other"))}, "other", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, scheduler := range []string{"tutti", "other"} {
				s := New(Options{SchedulerNames: []string{scheduler}})
				for _, object := range c.objects {
					s.Apply(seen(object))
				}
				job := snap(t, s, start).Job(ns("g"))
				if has := job != nil && job.HasGroup; has != (scheduler == c.owner) {
					t.Errorf("%s has the group: %t, want it of %q", scheduler, has, c.owner)
				}
				if job != nil && !job.HasGroup && (job.Invalid == nil || job.Invalid.Code != model.InvalidGroup || job.Invalid.Detail != c.waits) {
					t.Errorf("%s refuses its members since %v, want %s", scheduler, job.Invalid, c.waits)
				}
			}
		})
	}
}

// TestOtherMembersOfAGroupWithoutAnObjectAreNamed, too: such as the leader of a LeaderWorkerSet whose template was forgotten.
func TestOtherMembersOfAGroupWithoutAnObjectAreNamed(t *testing.T) {
	const want = `pods with another schedulerName are no members: "leader" has "other"`
	for name, in := range map[string]podOption{
		"LeaderWorkerSet": func(p *corev1.Pod) { label(sources.LWSGroupKey, "k")(p); annotation(sources.LWSSize, "3")(p) },
		"Kueue":           func(p *corev1.Pod) { label(sources.KueueGroup, "k")(p); annotation(sources.KueueTotal, "3")(p) },
		"ours":            func(p *corev1.Pod) { of("k")(p); annotation(v1alpha1.AnnotationMinMember, "3")(p) },
	} {
		s := newState(pod("a", in), pod("b", in))
		if job := snap(t, s, start).Jobs[0]; job.Warning != "" {
			t.Errorf("%s: warning %q", name, job.Warning)
		}
		if effect := s.Apply(seen(pod("leader", in, by("other")))); !effect.Report {
			t.Errorf("%s: effect %+v", name, effect)
		}
		if job := snap(t, s, start).Jobs[0]; job.Warning != want {
			t.Errorf("%s: warning %q, want %q", name, job.Warning, want)
		}
		s.Apply(gone(pod("leader")))
		if job := snap(t, s, start).Jobs[0]; job.Warning != "" {
			t.Errorf("%s, without it: warning %q", name, job.Warning)
		}
	}
}

// TestOtherMembersAreNamed: a group says which pods name it and are no members, since another scheduler has them.
func TestOtherMembersAreNamed(t *testing.T) {
	s := newState(group("g", 2), pod("a", of("g")), pod("c", of("g"), by("a\x1bb"), created(start.Add(2*time.Minute))),
		pod("b", of("g"), by("default-scheduler"), created(start.Add(time.Minute))))
	if got, want := snap(t, s, start).Job(ns("g")).Warning, `pods with another schedulerName are no members: "b" has "default-scheduler", and 1 more`; got != want {
		t.Errorf("warning %q, want %q", got, want)
	}
	s.Apply(gone(pod("b")))
	if got, want := snap(t, s, start).Job(ns("g")).Warning, `pods with another schedulerName are no members: "c" has "a\x1bb"`; got != want {
		t.Errorf("warning %q, want %q", got, want)
	}
	s.Apply(gone(pod("c")))
	if got := snap(t, s, start).Job(ns("g")).Warning; got != "" {
		t.Errorf("warning %q after they have gone", got)
	}
}

// TestAGroupChangesItsScheduler: as members come and go, and as the group names one.
func TestAGroupChangesItsScheduler(t *testing.T) {
	s := newState(group("g", 1), pod("b", of("g"), by("other"), created(start)), pod("a", of("g"), created(start.Add(time.Minute))))
	has := func() bool { return snap(t, s, start).Job(ns("g")).HasGroup }
	if has() {
		t.Fatal("a group is taken from the scheduler of its oldest member")
	}
	if effect := s.Apply(gone(pod("b"))); !effect.Schedule || !effect.Report || !has() {
		t.Errorf("the other member is gone, and the group is not taken: %+v", effect)
	}
	if effect := s.Apply(seen(pod("b", of("g"), by("other"), uid("b2"), created(start)))); !effect.Schedule || has() {
		t.Errorf("another one is older, and the group is kept: %+v", effect)
	}
	if s.Apply(seen(group("g", 1, named("tutti"), func(g *v1alpha1.PodGroup) { g.ResourceVersion = "9" }))); !has() {
		t.Error("the group names us, and is not taken")
	}
}

// TestARunningGroupKeepsItsScheduler as older pods of another scheduler come with its label, run, end and go: members that come
// meanwhile are placed.
func TestARunningGroupKeepsItsScheduler(t *testing.T) {
	s := newState(group("g", 1), pod("a", of("g"), on("n"), phase("Running"), created(start.Add(time.Minute))))
	s.Apply(seen(group("g", 1, writtenBy("tutti"), func(g *v1alpha1.PodGroup) { g.ResourceVersion = "9" })))
	for _, helper := range []any{
		pod("helper", of("g"), by("default-scheduler"), on("n"), phase("Running"), created(start)),
		pod("helper", of("g"), by("default-scheduler"), on("n"), phase("Succeeded"), created(start)),
	} {
		s.Apply(seen(helper))
		if job := snap(t, s, start).Job(ns("g")); !job.HasGroup || job.Invalid != nil {
			t.Errorf("the group is taken away by a pod of another scheduler: %v", job.Invalid)
		}
	}
	s.Apply(gone(pod("a", of("g"))))
	effect := s.Apply(seen(group("g", 1, func(g *v1alpha1.PodGroup) { g.ResourceVersion = "10" })))
	if job := snap(t, s, start).Job(ns("g")); job == nil || !strings.Contains(job.Warning, `"helper" has "default-scheduler"`) {
		t.Errorf("the group is not told of its pods, which are kube-scheduler's: %+v, %+v", job, effect)
	}
	s.Apply(gone(pod("helper")))
	s.Apply(seen(pod("later", of("g"), by("third"), created(start))))
	if snap(t, s, start).Job(ns("g")) != nil {
		t.Error("the group without a status is kept, while another scheduler's pod is all that names it")
	}
}

// TestReservationsOfOthersDoNotCount: what is reserved for a group of another scheduler holds no capacity here.
func TestReservationsOfOthersDoNotCount(t *testing.T) {
	g := group("g", 1, named("other"))
	g.Status.Reservation = reservationOf("n", 1)
	s := newState(node("n"), g, pod("a", of("g")))
	if snapshot := snap(t, s, start); snapshot.Job(ns("g")).Reservation != nil || len(snapshot.Held()) > 0 {
		t.Errorf("reserved: %+v, held: %+v", snapshot.Job(ns("g")).Reservation, snapshot.Held())
	}
}
