package cluster

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster/groups"
	"github.com/tutti-sched/tutti/pkg/model"
)

// foreignSpec is a group of scheduling.x-k8s.io.
func foreignSpec(name string, version int, minMember int32) *groups.Spec {
	spec := &groups.Spec{Source: model.SourceCoscheduling, MinMember: minMember}
	spec.Namespace, spec.Name, spec.UID = "ns", name, types.UID("foreign-"+name)
	spec.ResourceVersion = fmt.Sprint(version)
	return spec
}

func ofForeign(name string) podOption { return label(groups.LabelCoscheduling, name) }

func reading(reading Reading) Event {
	return Event{Kind: KindReading, Source: model.SourceCoscheduling, Reading: reading}
}

// TestAForeignGroup is a job like an implicit one, with what its object says.
func TestAForeignGroup(t *testing.T) {
	s := newState(node("n"), pod("a", ofForeign("g")), pod("b", ofForeign("g"), on("n")), foreignSpec("g", 1, 2))
	job := snap(t, s, start).Job(foreignKey("g"))
	if job == nil || job.MinMember != 2 || job.UID != "foreign-g" || job.HasGroup || !job.IsSchedulableGroup() || job.Invalid != nil || job.Whole {
		t.Fatalf("%+v", job)
	}
	s.Apply(seen(pod("b", ofForeign("g"), on("n"), phase("Running"))))
	if job := snap(t, s, start).Job(foreignKey("g")); !job.Whole {
		t.Error("a container of it runs, and it was never whole")
	}
	s.Apply(gone(foreignSpec("g", 2, 2)))
	if job := snap(t, s, start).Job(foreignKey("g")); job.Invalid == nil || job.Invalid.Code != model.GroupNotFound || job.IsSchedulableGroup() || job.UID != "" {
		t.Errorf("its object is gone: %+v", job)
	}
	for _, name := range []string{"a", "b"} {
		s.Apply(gone(pod(name)))
	}
	s.Apply(seen(foreignSpec("g", 3, 2)))
	if jobs := snap(t, s, start).Jobs; len(jobs) != 0 || len(s.seenWhole) != 0 {
		t.Errorf("a group without members is the job %+v", jobs)
	}
}

// TestEffectOfForeignEvents: what says nothing new asks for nothing, and raises no version.
func TestEffectOfForeignEvents(t *testing.T) {
	s := newState(node("n"), pod("a", ofForeign("g")), foreignSpec("g", 1, 2), foreignSpec("empty", 2, 2))
	all, none := Effect{Schedule: true, Report: true}, Effect{}
	for _, c := range []struct {
		name  string
		event Event
		want  Effect
	}{
		{"a status was written", seen(foreignSpec("g", 3, 2)), none},
		{"a new minimum", seen(foreignSpec("g", 4, 3)), all},
		{"an older version", seen(foreignSpec("g", 3, 2)), none},
		{"a new minimum without members", seen(foreignSpec("empty", 5, 3)), none},
		{"deleted without members", gone(foreignSpec("empty", 6, 3)), none},
		{"a mark of another source", seen(group("g", 5)), all},
		{"everything was read", reading(IsRead), all},
		{"again", reading(IsRead), none},
		{"deleted", gone(foreignSpec("g", 7, 3)), all},
		{"not served any more", reading(NotServed), all},
		{"forbidden", reading(NotAllowed), all},
	} {
		version := s.Snapshot(start).Version
		if got := s.Apply(c.event); got != c.want {
			t.Errorf("%s: effect %+v, want %+v", c.name, got, c.want)
		}
		if after := s.Snapshot(start).Version; (after != version) != c.want.Schedule {
			t.Errorf("%s: version %d became %d", c.name, version, after)
		}
	}
}

// volcanoSpec is a group of scheduling.volcano.sh that shows a phase.
func volcanoSpec(name string, version int, phase string) *groups.Spec {
	spec := foreignSpec(name, version, 2)
	spec.Source, spec.Shown.Phase = model.SourceVolcano, phase
	return spec
}

func ofVolcano(name string) podOption { return annotation(v1alpha1.AnnotationKubeBatchGroup, name) }

// TestNewsOfForeignGroups: of a source whose status is ours, each change of an object asks for a report, also without members.
// A version that shows the same is no news.
func TestNewsOfForeignGroups(t *testing.T) {
	s := newState(node("n"))
	s.Lead()
	all, report, none := Effect{Schedule: true, Report: true}, Effect{Report: true}, Effect{}
	two := func(version int, phase string) *groups.Spec {
		spec := volcanoSpec("g", version, phase)
		spec.MinMember = 3
		return spec
	}
	for _, c := range []struct {
		name  string
		event Event
		want  Effect
		news  bool
	}{
		{"made", seen(volcanoSpec("g", 1, "")), report, true},
		{"written", seen(volcanoSpec("g", 2, "Inqueue")), report, true},
		{"a label", seen(volcanoSpec("g", 3, "Inqueue")), none, false},
		{"a pod of another scheduler", seen(pod("o", ofVolcano("g"), by("other"))), report, true},
		{"that goes", gone(pod("o", ofVolcano("g"), by("other"))), report, true},
		{"a member", seen(pod("a", ofVolcano("g"))), all, false},
		{"written with members", seen(volcanoSpec("g", 4, "Running")), report, true},
		{"another minimum", seen(two(5, "Running")), all, true},
		{"the last member goes", gone(pod("a", ofVolcano("g"))), all, true},
		{"of a source whose status is not ours", seen(foreignSpec("c", 6, 2)), none, false},
		{"deleted", gone(two(7, "Running")), none, true},
		{"deleted again", gone(two(8, "Running")), none, false},
	} {
		if got := s.Apply(c.event); got != c.want {
			t.Errorf("%s: effect %+v, want %+v", c.name, got, c.want)
		}
		snap(t, s, start)
		if news := s.TakeForeignNews(); (len(news) > 0) != c.news || c.news && news[0].Name != "g" {
			t.Errorf("%s: news %v", c.name, news)
		}
	}
	s.Apply(seen(volcanoSpec("later", 9, "")))
	s.Apply(Event{Kind: KindReading, Source: model.SourceVolcano, Reading: IsRead})
	s.TakeForeignNews()
	s.Apply(Event{Kind: KindReading, Source: model.SourceVolcano, Reading: NotServed})
	if news := s.TakeForeignNews(); len(news) != 1 {
		t.Errorf("a kind that vanishes: news %v", news)
	}
}

// TestAStandbyKeepsNoNewsOfGroupsThatAreGone, and of the others as much as there are.
func TestAStandbyKeepsNoNewsOfGroupsThatAreGone(t *testing.T) {
	s := newState(node("n"))
	for i := range 100 {
		s.Apply(seen(volcanoSpec(fmt.Sprint("g", i), 2*i+1, "")))
		s.Apply(gone(volcanoSpec(fmt.Sprint("g", i), 2*i+2, "")))
	}
	s.Apply(seen(volcanoSpec("stays", 300, "Inqueue")))
	if news := s.TakeForeignNews(); len(news) != 1 || news[0].Name != "stays" {
		t.Errorf("news %v", news)
	}
}

// TestMembersOfOthersAlone: a group is another scheduler's while it has members, and none of ours.
func TestMembersOfOthersAlone(t *testing.T) {
	s := newState(node("n"), volcanoSpec("g", 1, ""))
	key := volcanoSpec("g", 1, "").Key()
	for _, c := range []struct {
		event Event
		want  bool
	}{
		{seen(pod("o", ofVolcano("g"), by("other"))), true},
		{seen(pod("a", ofVolcano("g"))), false},
		{gone(pod("a", ofVolcano("g"))), true},
		{gone(pod("o", ofVolcano("g"), by("other"))), false},
	} {
		if s.Apply(c.event); s.OfOthers(key) != c.want {
			t.Errorf("after %+v: of others %t", c.event.Pod.Name, !c.want)
		}
	}
}

// TestAKindThatVanishesIsForgotten: the same objects are news when they can be read again.
func TestAKindThatVanishesIsForgotten(t *testing.T) {
	s := newState(node("n"), pod("a", ofForeign("g")), foreignSpec("g", 7, 1), group("g", 1))
	s.Apply(reading(IsRead))
	for reason, how := range map[string]Reading{"not installed": NotServed, "right": NotAllowed, "not read yet": NotRead} {
		s.Apply(reading(how))
		job := snap(t, s, start).Job(foreignKey("g"))
		if s.Foreign(foreignKey("g")) != nil || job.Invalid == nil || !strings.Contains(job.Invalid.String(), reason) {
			t.Errorf("%v: %v", how, job.Invalid)
		}
		s.Apply(seen(foreignSpec("g", 7, 1)))
		s.Apply(reading(IsRead))
		if job := snap(t, s, start).Job(foreignKey("g")); job.Invalid != nil {
			t.Errorf("after %v: %v", how, job.Invalid)
		}
	}
	if s.Group(ns("g")) == nil {
		t.Error("a PodGroup of ours went with them")
	}
}

// TestASourceThatIsOff has no groups: its pods are jobs of their own, as before there were sources.
func TestASourceThatIsOff(t *testing.T) {
	s := newState(node("n"), pod("a", ofForeign("g")), foreignSpec("g", 1, 2))
	s.Configure(nil, model.DefaultMaxGrace, "coscheduling")
	snapshot := snap(t, s, start)
	if snapshot.Job(foreignKey("g")) != nil || snapshot.Job(alone("a")) == nil {
		t.Errorf("off: %+v", snapshot.Jobs)
	}
	s.Configure(nil, model.DefaultMaxGrace)
	snapshot = snap(t, s, start)
	if snapshot.Job(foreignKey("g")) == nil || snapshot.Job(alone("a")) != nil {
		t.Errorf("on: %+v", snapshot.Jobs)
	}
}

// TestRemarksOnAForeignGroup name members that are none, and resources beyond the members.
func TestRemarksOnAForeignGroup(t *testing.T) {
	const more = "its minResources are more than its members request; only the capacity for these is waited for"
	for name, c := range map[string]struct {
		resources corev1.ResourceList
		others    bool
		want      string
	}{
		"nothing":                     {},
		"as much":                     {resources: list("cpu", "2")},
		"more":                        {resources: list("cpu", "2001m"), want: more},
		"of what no node has":         {resources: list("example.com/none", "1"), want: more},
		"of another scheduler":        {others: true, want: `pods with another schedulerName are no members: "c" has "other"`},
		"both":                        {resources: list("cpu", "3"), others: true, want: `pods with another schedulerName are no members: "c" has "other"; ` + more},
		"nothing of it, really":       {resources: list("example.com/none", "0")},
		"as much of what no node has": {resources: list("example.com/rare", "2")},
	} {
		rare := asking("cpu", "1", "example.com/rare", "1")
		s := newState(node("n"), pod("a", ofForeign("g"), rare), pod("b", ofForeign("g"), rare))
		spec := foreignSpec("g", 1, 2)
		spec.MinResources = c.resources
		s.Apply(seen(spec))
		if c.others {
			s.Apply(seen(pod("c", ofForeign("g"), by("other"))))
		}
		if job := snap(t, s, start).Job(foreignKey("g")); job.Warning != c.want || job.Invalid != nil {
			t.Errorf("%s: %q, want %q; %v", name, job.Warning, c.want, job.Invalid)
		}
	}
}

// TestAForeignGroupThatCannotBeRead costs its own job.
func TestAForeignGroupThatCannotBeRead(t *testing.T) {
	s := newState(node("n"))
	panicOver(s, identity{KindForeign, "ns", "g"})
	for _, object := range []any{pod("a", ofForeign("g")), pod("b"), foreignSpec("g", 1, 1)} {
		s.Apply(seen(object))
	}
	snapshot := snap(t, s, start)
	if job := snapshot.Job(foreignKey("g")); job.Invalid == nil {
		t.Error("it is not refused")
	}
	if job := snapshot.Job(alone("b")); job.Invalid != nil {
		t.Errorf("another job: %v", job.Invalid)
	}
	if why := s.TakeMalformed(); len(why) == 0 || !strings.HasPrefix(why[0], "PodGroup.scheduling.x-k8s.io ns/g could not be read") {
		t.Errorf("%q", why)
	}
}
