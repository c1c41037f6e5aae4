package cluster

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

func TestStatusComesFromThePod(t *testing.T) {
	now := start.Add(time.Hour)
	for name, c := range map[string]struct {
		pod   *corev1.Pod
		want  model.Placement
		idle  int64 // thousandths of the ten CPUs of node n
		gone  bool
		gated bool
		stuck bool
	}{
		"pending":                 {pod: pod("p"), want: model.Placement{Status: model.Pending}, idle: 10000},
		"gated":                   {pod: pod("p", gated), want: model.Placement{Status: model.Pending}, idle: 10000, gated: true},
		"bound":                   {pod: pod("p", on("n")), want: model.Placement{Status: model.Bound, Node: "n"}, idle: 9000},
		"running":                 {pod: pod("p", on("n"), phase("Running")), want: model.Placement{Status: model.Running, Node: "n"}, idle: 9000},
		"terminating":             {pod: pod("p", on("n"), deleting(now)), want: model.Placement{Status: model.Releasing, Node: "n"}, idle: 9000},
		"overdue by 29 s":         {pod: pod("p", on("n"), deleting(now.Add(-29*time.Second))), want: model.Placement{Status: model.Releasing, Node: "n"}, idle: 9000},
		"overdue by 30 s":         {pod: pod("p", on("n"), deleting(now.Add(-30*time.Second))), want: model.Placement{Status: model.Releasing, Node: "n"}, idle: 9000, stuck: true},
		"succeeded":               {pod: pod("p", on("n"), phase("Succeeded")), want: model.Placement{Status: model.Succeeded}, idle: 10000},
		"failed":                  {pod: pod("p", on("n"), phase("Failed"), deleting(now)), want: model.Placement{Status: model.Failed}, idle: 10000},
		"deleted before it began": {pod: pod("p", deleting(now)), gone: true, idle: 10000},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := snap(t, newState(node("n"), c.pod), now)
			if idle := snapshot.Node("n").Idle(model.CPU); idle != c.idle {
				t.Errorf("idle CPU is %d, want %d", idle, c.idle)
			}
			task := taskIn(snapshot, "p")
			if task == nil || c.gone {
				if (task == nil) != c.gone {
					t.Errorf("task is %v, want it gone: %t", task, c.gone)
				}
				return
			}
			if task.Placement != c.want || task.SchedulingGated != c.gated || task.TerminationOverdue != c.stuck {
				t.Errorf("got %v gated=%t stuck=%t, want %v %t %t", task.Placement, task.SchedulingGated, task.TerminationOverdue, c.want, c.gated, c.stuck)
			}
		})
	}
}

func TestEveryPodTakesRoomOnlyOursHaveJobs(t *testing.T) {
	s := newState(node("n"),
		pod("ours", on("n")), pod("theirs", on("n"), by("other"), of("g"), phase("Running")),
		pod("waiting", by("other")), pod("done", on("n"), by("other"), phase("Succeeded")))
	snapshot := snap(t, s, start)
	if s.Pod("waiting") != nil || s.Pod("done") != nil {
		t.Error("pods of another scheduler that take no capacity are kept")
	}
	if got := snapshot.Node("n").Idle(model.CPU); got != 8000 {
		t.Errorf("idle CPU is %d, want 8000", got)
	}
	if got := snapshot.Node("n").Idle(model.Pods); got != 108 {
		t.Errorf("idle pod slots are %d, want 108", got)
	}
	var keys []model.JobKey
	for _, job := range snapshot.Jobs {
		keys = append(keys, job.Key)
	}
	if diff := cmp.Diff([]model.JobKey{alone("ours")}, keys); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
	if key := taskIn(snapshot, "theirs").Job; key != (model.JobKey{}) {
		t.Errorf("a pod of another scheduler has job %v", key)
	}
}

func TestMembershipOfGroups(t *testing.T) {
	elsewhere := pod("elsewhere", of("g"))
	elsewhere.Namespace = "other"
	snapshot := snap(t, newState(group("g", 2), group("empty", 1, named("tutti")),
		pod("a", of("g"), label(v1alpha1.LabelRole, "worker")), pod("b", annotation(v1alpha1.AnnotationKubeBatchGroup, "g")),
		pod("both", of("g"), annotation(v1alpha1.AnnotationKubeBatchGroup, "x")), elsewhere, pod("g")), start)

	job := snapshot.Job(ns("g"))
	var members []string
	for _, task := range job.Tasks {
		members = append(members, task.Name+task.Role)
	}
	if diff := cmp.Diff([]string{"aworker", "b", "both"}, members); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	if job.UID != "group-g" || job.MinMember != 2 || job.Invalid != nil || !job.HasGroup {
		t.Errorf("job is %+v", job)
	}
	if job := snapshot.Job(ns("empty")); job == nil || len(job.Tasks) != 0 || !job.HasGroup {
		t.Errorf("a group without pods is %+v", job)
	}
	if job := snapshot.Job(model.JobKey{Namespace: "other", Name: "g"}); job == nil || job.Invalid == nil || job.HasGroup {
		t.Errorf("a group of another namespace was joined: %+v", job)
	}
	if job := snapshot.Job(alone("g")); job == nil || job.MinMember != 1 || job.UID != "g" {
		t.Errorf("a single pod with a group's name is %+v", job)
	}
}

func TestGroupComesAndGoes(t *testing.T) {
	s := newState(node("n"), pod("new", of("g"), created(start.Add(time.Minute))), pod("old", of("g"), on("n"), phase("Running")))
	job := snap(t, s, start).Job(ns("g"))
	want := &model.Refusal{Code: model.GroupNotFound, Detail: `PodGroup "g" does not exist in this namespace`}
	if diff := cmp.Diff(want, job.Invalid); diff != "" {
		t.Errorf("refusal without group (-want +got):\n%s", diff)
	}
	if !job.Created.Equal(start) || job.UID != "" || job.MinMember != 2 {
		t.Errorf("job without group is %+v", job)
	}

	effect := s.Apply(seen(group("g", 1)))
	if job := snap(t, s, start).Job(ns("g")); job.Invalid != nil || job.MinMember != 1 || !effect.Schedule {
		t.Errorf("job with its group is %+v, effect %+v", job, effect)
	}

	effect = s.Apply(gone(group("g", 1)))
	snapshot := snap(t, s, start)
	if diff := cmp.Diff(want, snapshot.Job(ns("g")).Invalid); diff != "" || !effect.Schedule {
		t.Errorf("refusal after the group went, effect %+v (-want +got):\n%s", effect, diff)
	}
	if idle := snapshot.Node("n").Idle(model.CPU); idle != 9000 {
		t.Errorf("idle CPU is %d: the running member left the accounting with its group", idle)
	}

	s.Apply(gone(pod("new")))
	s.Apply(gone(pod("old")))
	if job := snap(t, s, start).Job(ns("g")); job != nil {
		t.Errorf("a job without group and members is still there: %+v", job)
	}
}

func TestInvalidGroups(t *testing.T) {
	roles := func(roles ...v1alpha1.Role) func(*v1alpha1.PodGroup) {
		return func(g *v1alpha1.PodGroup) { g.Spec.Roles = roles }
	}
	for name, c := range map[string]struct {
		group *v1alpha1.PodGroup
		want  string
	}{
		"fine":             {group("g", 3, roles(v1alpha1.Role{Name: "b", MinMember: 2}, v1alpha1.Role{Name: "a", MinMember: 1})), ""},
		"no minimum":       {group("g", 0), "minMember is 0, it must be at least 1"},
		"role overflow":    {group("g", 2, roles(v1alpha1.Role{Name: "a", MinMember: 1<<31 - 1}, v1alpha1.Role{Name: "b", MinMember: 1<<31 - 1})), "the roles need 4294967294 members together, which is more than minMember: 2"},
		"role without one": {group("g", 2, roles(v1alpha1.Role{Name: "a"})), `minMember of role "a" is 0, it must be at least 1`},
		"role twice":       {group("g", 2, roles(v1alpha1.Role{Name: "a", MinMember: 1}, v1alpha1.Role{Name: "a", MinMember: 1})), `role "a" is listed twice`},
	} {
		t.Run(name, func(t *testing.T) {
			job := snap(t, newState(c.group, pod("a", of("g"))), start).Job(ns("g"))
			if job.Invalid.String() != c.want || c.want != "" && job.Invalid.Code != model.InvalidGroup {
				t.Errorf("refused %+v, want %q", job.Invalid, c.want)
			}
			if c.want == "" && (job.Roles[0].Name != "a" || job.Roles[1].Name != "b") {
				t.Errorf("roles are not sorted: %v", job.Roles)
			}
		})
	}
}

func TestPriorityOfJobs(t *testing.T) {
	for name, c := range map[string]struct {
		objects []any
		want    int32
		class   bool
	}{
		"class below its pods": {[]any{group("g", 1, className("c")), class("c", 5), pod("a", of("g"), priority(9))}, 5, true},
		"class above its pods": {[]any{group("g", 1, className("c")), class("c", 50), pod("a", of("g"), priority(9)), pod("b", of("g"), priority(7))}, 9, true},
		"class below zero":     {[]any{group("g", 1, className("c")), class("c", -5), pod("a", of("g"))}, -5, true},
		"no class":             {[]any{group("g", 1), pod("a", of("g"), priority(-9)), pod("b", of("g"), priority(-7))}, -7, false},
		"unknown class":        {[]any{group("g", 1, className("c")), pod("a", of("g"), priority(9))}, 9, false},
		"finished pods do not count": {[]any{group("g", 1, className("c")), class("c", 5),
			pod("a", of("g"), priority(9), phase("Succeeded")), pod("b", of("g"), priority(3))}, 3, true},
		"no pods": {[]any{group("g", 1, className("c"), named("tutti")), class("c", 5)}, 5, true},
	} {
		t.Run(name, func(t *testing.T) {
			job := snap(t, newState(c.objects...), start).Job(ns("g"))
			if job.Priority != c.want || (job.ClassPriority != nil) != c.class {
				t.Errorf("priority %d, class %v, want %d, class known %t", job.Priority, job.ClassPriority, c.want, c.class)
			}
		})
	}
}

func TestPriorityClassComesAndGoes(t *testing.T) {
	foreign := volcanoSpec("g", 1, "")
	foreign.PriorityClassName = "c"
	for _, s := range []*State{
		newState(group("g", 1, className("c")), pod("a", of("g"), priority(9))), newState(foreign, pod("a", ofVolcano("g"), priority(9))),
	} {
		snap(t, s, start)
		for _, step := range []struct {
			event    Event
			want     int32
			schedule bool
		}{
			{seen(class("c", 5)), 5, true}, {seen(class("c", 5)), 5, false}, {seen(class("other", 1)), 5, false},
			{seen(class("c", 4)), 4, true}, {gone(class("c", 4)), 9, true},
		} {
			effect := s.Apply(step.event)
			if job := snap(t, s, start).Jobs[0]; job.Priority != step.want || effect.Schedule != step.schedule {
				t.Errorf("%s after %+v: priority %d, effect %+v, want %d %t", job.Key, step.event, job.Priority, effect, step.want, step.schedule)
			}
		}
	}
}

func TestFinishedMembersStayReduced(t *testing.T) {
	whole := pod("a", of("g"), label(v1alpha1.LabelRole, "worker"), priority(5), gated, phase("Succeeded"), on("n"))
	for name, p := range map[string]*corev1.Pod{"whole": whole, "stripped": StripPod(whole)} {
		t.Run(name, func(t *testing.T) {
			s := newState(group("g", 1, named("tutti")), node("n"), pod("a", of("g"), on("n"), phase("Running")))
			snap(t, s, start)
			s.Apply(seen(p))
			snapshot := snap(t, s, start)
			task := snapshot.Job(ns("g")).Tasks[0]
			if task.Status != model.Succeeded || task.Role != "worker" || task.Priority != 0 || task.Request != nil || task.SchedulingGated {
				t.Errorf("finished member is %+v", task)
			}
			if idle := snapshot.Node("n").Idle(model.CPU); idle != 10000 || s.view.Kept() != 0 {
				t.Errorf("idle CPU is %d, the view keeps %d pods", idle, s.view.Kept())
			}
			s.Apply(gone(p))
			if tasks := snap(t, s, start).Job(ns("g")).Tasks; len(tasks) != 0 {
				t.Errorf("tasks after the pod went: %v", tasks)
			}
		})
	}
}

func TestMalformedRequestsHurtTheirOwnTaskOnly(t *testing.T) {
	snapshot := snap(t, newState(node("n"), node("m"), pod("good"),
		pod("huge", asking("memory", "8Ei"), on("n")), pod("waits", asking("nvidia.com/gpu", "9E"))), start)
	waits := taskIn(snapshot, "waits")
	want := "pod ns/waits requests 9E of nvidia.com/gpu, which is not an amount that can be counted"
	if waits.Invalid == nil || waits.Invalid.Code != model.InvalidRequest || waits.Invalid.String() != want {
		t.Errorf("refused %+v, want %q", waits.Invalid, want)
	}
	if idle := snapshot.Node("n").Idle(model.Memory); idle != 10<<30-model.MaxAmount {
		t.Errorf("idle memory beside a pod that cannot be counted is %d", idle)
	}
	if taskIn(snapshot, "good").Invalid != nil || snapshot.Node("m").Invalid != nil {
		t.Error("others are refused, too")
	}
}

func TestNextWake(t *testing.T) {
	now := start.Add(500 * time.Millisecond)
	s := newState(node("n"), pod("a", on("n"), deleting(start)), pod("b", on("n"), deleting(start.Add(-20*time.Second))),
		pod("c", on("n"), deleting(start.Add(-time.Hour))))
	for _, want := range []time.Time{start.Add(10 * time.Second), start.Add(30 * time.Second)} {
		wake, ok := s.NextWake(now)
		if !ok || !wake.Equal(want) {
			t.Fatalf("at %s: next wake %s %t, want %s", now, wake, ok, want)
		}
		before := dump(snap(t, s, wake.Add(-time.Millisecond)))
		if after := dump(snap(t, s, wake)); after == before {
			t.Errorf("nothing changed at %s", wake)
		}
		now = wake
	}
	if wake, ok := s.NextWake(now); ok {
		t.Errorf("woken at %s for nothing", wake)
	}
	snapshot := snap(t, s, now)
	if releasing := snapshot.Node("n").Amounts().Releasing.At(model.CPU); releasing != 0 {
		t.Errorf("%d releasing although all are stuck", releasing)
	}
	snapshot = snap(t, s, start) // a clock that jumps back moves an expiry and breaks nothing
	if releasing := snapshot.Node("n").Amounts().Releasing.At(model.CPU); releasing != 2000 {
		t.Errorf("%d releasing after the clock jumped back, want 2000", releasing)
	}
}

func TestAClassThatDoesNotCountIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		objects []any
		want    string
	}{
		"counts":      {[]any{group("g", 1, className("c")), class("c", 5), pod("a", of("g"), priority(9))}, ""},
		"too high":    {[]any{group("g", 1, className("c")), class("c", 50), pod("a", of("g"), priority(9))}, `PriorityClass "c" (50) counts as 9, the priority of the pods`},
		"unknown":     {[]any{group("g", 1, className("c")), pod("a", of("g"), priority(9))}, `PriorityClass "c" does not exist; the priority is that of the pods: 9`},
		"none at all": {[]any{group("g", 1), pod("a", of("g"), priority(9))}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if job := snap(t, newState(c.objects...), start).Job(ns("g")); job.Warning != c.want {
				t.Errorf("remark %q, want %q", job.Warning, c.want)
			}
		})
	}
}

// TestAPodIsStuckThirtySecondsAfterItsGraceOrTheLongest, counted from when it was deleted, whatever grace it was deleted with.
func TestAPodIsStuckThirtySecondsAfterItsGraceOrTheLongest(t *testing.T) {
	const year = 31_536_000
	for name, c := range map[string]struct {
		grace int64
		most  time.Duration
		want  time.Duration
	}{
		"no grace":              {0, 5 * time.Minute, 30 * time.Second},
		"the usual grace":       {30, 5 * time.Minute, time.Minute},
		"the longest":           {300, 5 * time.Minute, 330 * time.Second},
		"a year":                {year, 5 * time.Minute, 330 * time.Second},
		"more than can be said": {1 << 62, 5 * time.Minute, 330 * time.Second},
		"a shorter limit":       {30, 10 * time.Second, 40 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(node("n"))
			s.Configure(nil, c.most)
			leaving := pod("p", on("n"), deleting(start.Add(time.Duration(c.grace)*time.Second)))
			leaving.DeletionGracePeriodSeconds = &c.grace
			s.Apply(&PodSeen{Pod: leaving})
			snap(t, s, start)
			if wake, ok := s.NextWake(start); !ok || wake.Sub(start) != c.want {
				t.Errorf("it is stuck %s after its deletion, want %s", wake.Sub(start), c.want)
			}
			counts := func(at time.Duration) bool { return taskIn(snap(t, s, start.Add(at)), "p").ReleasesResources() }
			if !counts(c.want-time.Second) || counts(c.want) {
				t.Error("the snapshot says otherwise")
			}
		})
	}
}

// TestThePodsGraceIsItsOwnUpToTheLongest, and follows a change of that.
func TestThePodsGraceIsItsOwnUpToTheLongest(t *testing.T) {
	hour, none := int64(3600), int64(0)
	s := newState(node("n"), pod("usual", on("n")),
		pod("long", on("n"), func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &hour }),
		pod("none", on("n"), func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &none }))
	for most, want := range map[time.Duration][]int64{5 * time.Minute: {30, 300, 0}, 10 * time.Second: {10, 10, 0}, 2 * time.Hour: {30, 3600, 0}} {
		s.Configure(nil, most)
		snapshot := snap(t, s, start)
		for i, name := range []string{"usual", "long", "none"} {
			if got := taskIn(snapshot, name).GraceSeconds; got != want[i] {
				t.Errorf("with at most %s, %s has %d s, want %d", most, name, got, want[i])
			}
		}
	}
}

// TestAPodThatIsBeingDeletedHasASecond where its own grace is none: without a grace the API server leaves the deletion as it is.
func TestAPodThatIsBeingDeletedHasASecond(t *testing.T) {
	none, year := int64(0), int64(365*24*3600)
	leaving := pod("p", on("n"), phase("Running"), deleting(start.Add(time.Duration(year)*time.Second)))
	leaving.Spec.TerminationGracePeriodSeconds, leaving.DeletionGracePeriodSeconds = &none, &year
	if got := taskIn(snap(t, newState(node("n"), leaving), start), "p").GraceSeconds; got != 1 {
		t.Errorf("it has %d s, want 1", got)
	}
}

// TestADeletionThatTakesTooLongIsShortened: a pod that is stuck, and that its deletion gives longer than the limit, counts as
// one that runs. Once it is evicted its capacity is counted on, while the API server shows the old grace and the new one; a
// refused eviction is taken back.
func TestADeletionThatTakesTooLongIsShortened(t *testing.T) {
	for name, grace := range map[string]int64{"a year": 365 * 24 * 3600, "more than can be counted": 10_000_000_000} {
		t.Run(name, func(t *testing.T) {
			began := func(version string, grace int64) *PodSeen {
				leaving := pod("p", on("n"), phase("Running"), deleting(start.Add(time.Duration(grace)*time.Second)))
				leaving.ResourceVersion, leaving.DeletionGracePeriodSeconds = version, &grace
				return &PodSeen{Pod: leaving}
			}
			s := newState(node("n"), pod("p", on("n"), phase("Running")))
			s.Apply(began("1000", grace))
			expect := func(what string, at time.Duration, status model.Status, overdue bool) {
				t.Helper()
				if task := taskIn(snap(t, s, start.Add(at)), "p"); task.Status != status || task.TerminationOverdue != overdue {
					t.Errorf("%s: %s, overdue=%t", what, task.Status, task.TerminationOverdue)
				}
			}
			const limit = 5*time.Minute + 30*time.Second
			expect("at first", limit-time.Second, model.Releasing, false)
			if wake, ok := s.NextWake(start.Add(limit - time.Second)); !ok || !wake.Equal(start.Add(limit)) {
				t.Errorf("next wake %s %t", wake, ok)
			}
			expect("beyond the limit", limit, model.Running, false)
			evict := model.Decision{Evictions: []model.Eviction{{Pod: taskIn(s.snapshot, "p").PodRef}}}
			s.Assume(evict)
			expect("evicted", limit, model.Releasing, false)
			s.ForgetEviction("p")
			expect("refused", limit, model.Running, false)
			s.Assume(evict)
			s.Apply(began("1001", grace)) // the kubelet writes its status
			expect("evicted again", limit, model.Releasing, false)
			shortened := began("1002", 1)
			deleting(start.Add(limit))(shortened.Pod) // its grace has passed, and the API server gives it a second
			s.Apply(shortened)
			expect("shortened", limit+30*time.Second, model.Releasing, false)
			expect("stays all the same", limit+31*time.Second, model.Releasing, true)
		})
	}
	s := newState(node("n"), pod("p", on("n"), phase("Running")))
	grace := int64(600)
	leaving := pod("p", on("n"), phase("Running"), deleting(start.Add(10*time.Minute)))
	leaving.ResourceVersion, leaving.DeletionGracePeriodSeconds = "1000", &grace
	s.Apply(&PodSeen{Pod: leaving})
	s.Configure(nil, time.Minute)
	for at, want := range map[time.Duration]model.Status{
		80 * time.Second: model.Releasing, 90 * time.Second: model.Running, 539 * time.Second: model.Running, 540 * time.Second: model.Releasing,
	} {
		if task := taskIn(snap(t, s, start.Add(at)), "p"); task.Status != want || task.TerminationOverdue != (at == 540*time.Second) {
			t.Errorf("after %s: %s, overdue=%t", at, task.Status, task.TerminationOverdue)
		}
	}
	if snap(t, s, start.Add(100*time.Second)); s.pods.entries["p"].record.prolonged {
		if wake, ok := s.NextWake(start.Add(100 * time.Second)); !ok || !wake.Equal(start.Add(540*time.Second)) {
			t.Errorf("next wake %s %t", wake, ok)
		}
	}
}

// TestAClockAheadTakesNoPodForStuck who was seen to stay a moment ago, however long ago the API server's clock says that it
// should have ended.
func TestAClockAheadTakesNoPodForStuck(t *testing.T) {
	s := newState(node("n"), pod("p", on("n")))
	now := start.Add(time.Hour)
	snap(t, s, now)
	leaving := pod("p", on("n"), deleting(start.Add(20*time.Second)))
	grace := int64(20)
	leaving.ResourceVersion, leaving.DeletionGracePeriodSeconds = "1000", &grace
	s.Apply(&PodSeen{Pod: leaving})
	for at, want := range map[time.Duration]bool{0: false, 49 * time.Second: false, 50 * time.Second: true} {
		if got := taskIn(snap(t, s, now.Add(at)), "p").TerminationOverdue; got != want {
			t.Errorf("%s after it was seen to stay: stuck=%t", at, got)
		}
	}
	if wake, ok := s.NextWake(now); !ok || !wake.Equal(now.Add(50*time.Second)) {
		t.Errorf("next wake %s %t", wake, ok)
	}
}
