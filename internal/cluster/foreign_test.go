package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// foreignSpec is a group of scheduling.x-k8s.io.
func foreignSpec(name string, version int, minMember int32) *sources.Spec {
	spec := &sources.Spec{Source: model.SourceCoscheduling, MinMember: minMember}
	spec.Namespace, spec.Name, spec.UID = "ns", name, types.UID("foreign-"+name)
	spec.ResourceVersion = fmt.Sprint(version)
	return spec
}

// amountsIn returns the amounts of a list, by name.
func amountsIn(list corev1.ResourceList) (amounts []sources.Amount) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		amounts = append(amounts, sources.Amount{Name: name, Quantity: list[name]})
	}
	return amounts
}

func ofForeign(name string) podOption { return label(sources.LabelCoscheduling, name) }

func reading(reading Reading) Event {
	return &ReadingChanged{Source: model.SourceCoscheduling, Reading: reading}
}

// TestAMarkThatIsNotFollowed, of another project or a misspelt one of ours, is said once for a job, also when the pod has a node
// and is stripped, and not while a PodGroup says what the mark would.
func TestAMarkThatIsNotFollowed(t *testing.T) {
	const minMember, fraction = "scheduling.volcano.sh/group-min-member", "gpu-fraction"
	s := newState(node("n"), foreignSpec("g", 1, 1), pod("a", annotation(minMember, "4")), pod("b", annotation(fraction, "0.5")),
		pod("c", ofForeign("g"), annotation(fraction, "0.5"), annotation(minMember, "1")), pod("d", ofForeign("g"), annotation(fraction, "0.5")), pod("e"))
	warns := func(what string, key model.JobKey, want string) {
		t.Helper()
		if got := snap(t, s, start).Job(key).Warning; got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	single := func(name string) model.JobKey {
		return model.JobKey{Namespace: "ns", Name: name, Source: model.SourcePod}
	}
	whole := "the annotation gpu-fraction is not followed: the pod gets whole GPUs, as many as it requests"
	alone := "the annotation scheduling.volcano.sh/group-min-member is not followed: the pod starts alone; " +
		"for a gang name a group and set scheduling.tutti.dev/min-member"
	warns("a minimum", single("a"), alone)
	warns("a part of a GPU", single("b"), whole)
	warns("in a group", foreignKey("g"), whole)
	warns("none", single("e"), "")
	notRead := " is not followed: it is not one that is read: labels pod-group, role, index and queue, annotations min-member and topology"
	s.Apply(seen(pod("e", label("scheduling.tutti.dev/podgroup", "train"), label("scheduling.tutti.dev/a", ""), label("tutti.example.com/pod-group", "train"))))
	warns("two keys of ours that are misspelt", single("e"), "the label scheduling.tutti.dev/a"+notRead)
	s.Apply(seen(pod("e", label("scheduling.tutti.dev/podgroup", "train"))))
	warns("a misspelt key", single("e"), "the label scheduling.tutti.dev/podgroup"+notRead)
	s.Apply(seen(StripPod(pod("e", label("scheduling.tutti.dev/min-member", "4"), on("n"), phase("Running")))))
	warns("an annotation as a label", single("e"), "the label scheduling.tutti.dev/min-member"+notRead)
	s.Apply(seen(StripPod(pod("e", annotation("scheduling.tutti.dev/pod-group", "train"), on("n"), phase("Running")))))
	warns("a label as an annotation", single("e"), "the annotation scheduling.tutti.dev/pod-group"+notRead)
	s.Apply(seen(pod("e", label("scheduling.tutti.dev/queue", "default"), label("scheduling.tutti.dev/index", "0"))))
	warns("labels that are read", single("e"), "")
	s.Apply(seen(StripPod(pod("a", annotation(minMember, "4"), on("n"), phase("Running")))))
	warns("it runs", single("a"), alone)
	s.Apply(seen(pod("a", on("n"), phase("Running"))))
	warns("without it", single("a"), "")
}

// TestALeaderWorkerSetIsNamedLater: a pod that has a node, and is in the group of another project, gets the labels of a
// LeaderWorkerSet. The state holds the same as one that has seen only the last version.
func TestALeaderWorkerSetIsNamedLater(t *testing.T) {
	for what, changes := range map[string][]podOption{
		"group": {annotation(sources.LWSExclusiveTopology, "rack"), label(sources.LWSGroupKey, "k")},
		"set":   {label(sources.LWSGroupKey, "k"), label(sources.LWSName, "set")},
	} {
		for first := range changes { // which of the two comes later
			before := []podOption{ofForeign("g"), on("n"), phase("Running"), changes[first]}
			after := append([]podOption{changes[1-first]}, before...)
			live := newState(node("n"), pod("a", before...), foreignSpec("g", 1, 2))
			snap(t, live, start)
			live.Apply(seen(pod("a", after...)))
			fresh := newState(node("n"), pod("a", after...), foreignSpec("g", 1, 2))
			got, want := snap(t, live, start).Job(foreignKey("g")), snap(t, fresh, start).Job(foreignKey("g"))
			if !slices.Equal(got.Roles, want.Roles) || got.MinMember != want.MinMember || len(live.foreign.awaited) != len(fresh.foreign.awaited) {
				t.Errorf("%s, label %d is first: minimum %d, roles %v, %v; want %d, %v, %v", what, first, got.MinMember, got.Roles,
					live.foreign.awaited, want.MinMember, want.Roles, fresh.foreign.awaited)
			}
		}
	}
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
	if jobs := snap(t, s, start).Jobs; len(jobs) != 0 || len(s.history.seenWhole) != 0 {
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
func volcanoSpec(name string, version int, phase string) *sources.Spec {
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
	two := func(version int, phase string) *sources.Spec {
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
	s.Apply(&ReadingChanged{Source: model.SourceVolcano, Reading: IsRead})
	s.TakeForeignNews()
	s.Apply(&ReadingChanged{Source: model.SourceVolcano, Reading: NotServed})
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

// TestAGroupThatWasAGangIsNewsWhenItIsGone: who leads forgets what it has written about the gang before it.
func TestAGroupThatWasAGangIsNewsWhenItIsGone(t *testing.T) {
	s := newState()
	s.Lead()
	basic := nativeSpec("g", 2, 1, true)
	basic.UID = "another"
	s.Apply(seen(nativeSpec("g", 1, 2, false)))
	s.Apply(seen(basic))
	s.TakeForeignNews()
	s.Apply(gone(basic))
	if news := s.TakeForeignNews(); len(news) != 1 {
		t.Errorf("news: %v", news)
	}
}

// TestMembersOfOthersAlone: a group is another scheduler's while it has members, and none of ours.
func TestMembersOfOthersAlone(t *testing.T) {
	s := newState(node("n"), volcanoSpec("g", 1, ""))
	key := volcanoSpec("g", 1, "").Key()
	for _, c := range []struct {
		event *PodSeen
		want  bool
	}{
		{&PodSeen{Pod: pod("o", ofVolcano("g"), by("other"))}, true},
		{&PodSeen{Pod: pod("a", ofVolcano("g"))}, false},
		{&PodSeen{Pod: pod("a", ofVolcano("g")), Gone: true}, true},
		{&PodSeen{Pod: pod("o", ofVolcano("g"), by("other")), Gone: true}, false},
	} {
		if s.Apply(c.event); s.OfOthers(key) != c.want {
			t.Errorf("after %s: of others %t", c.event.Pod.Name, !c.want)
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
		spec.MinResources = amountsIn(c.resources)
		s.Apply(seen(spec))
		if c.others {
			s.Apply(seen(pod("c", ofForeign("g"), by("other"))))
		}
		if job := snap(t, s, start).Job(foreignKey("g")); job.Warning != c.want || job.Invalid != nil {
			t.Errorf("%s: %q, want %q; %v", name, job.Warning, c.want, job.Invalid)
		}
	}
}

// TestNoRemarkOnceAMemberHasSucceeded: what that one requested is not kept, and the others need not request as much alone.
func TestNoRemarkOnceAMemberHasSucceeded(t *testing.T) {
	spec := foreignSpec("g", 1, 2)
	spec.MinResources = amountsIn(list("cpu", "2"))
	done := pod("a", ofForeign("g"), asking("cpu", "1"), on("n"), phase("Succeeded"))
	for name, member := range map[string]*corev1.Pod{"whole": done, "stripped": StripPod(done)} {
		s := newState(node("n"), member, pod("b", ofForeign("g"), asking("cpu", "1")), spec)
		if job := snap(t, s, start).Job(foreignKey("g")); job.Whole || job.Warning != "" {
			t.Errorf("%s: was whole: %t; %q", name, job.Whole, job.Warning)
		}
	}
}

// TestRemarksAreTheSameTwice: amounts whose number is behind a pointer stay what the object says, so that the job is read as
// before and a version that says the same is no news.
func TestRemarksAreTheSameTwice(t *testing.T) {
	spec := func(version int) *sources.Spec {
		one := foreignSpec("g", version, 2)
		one.MinResources = amountsIn(list("memory", "3.5Gi"))
		return one
	}
	member := func(name string, of int32) *corev1.Pod {
		return pod(name, ofForeign("g"), asking("memory", "1.25Gi"), priority(of))
	}
	s := newState(node("n"), member("a", 1), member("b", 1), spec(1))
	before := snap(t, s, start).Job(foreignKey("g")).Warning
	if effect := s.Apply(seen(spec(2))); effect != (Effect{}) {
		t.Errorf("the same again asks for %+v", effect)
	}
	s.Apply(seen(member("a", 2)))
	if after := snap(t, s, start).Job(foreignKey("g")).Warning; before == "" || after != before {
		t.Errorf("%q became %q", before, after)
	}
}

// TestWhatTasksTakeSaysWhatPodsRequest, but for less than a unit of each: the remark is the same as if all pods were read.
func TestWhatTasksTakeSaysWhatPodsRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newState(node("n", "nvidia.com/gpu", "8"))
		spec := foreignSpec("g", 1, 1)
		spec.MinResources = amountsIn(drawList(t, "wanted"))
		s.Apply(seen(spec))
		members := rapid.IntRange(1, 3).Draw(t, "members")
		for i := range members {
			p := drawPodWithRequests(t)
			p.Name, p.UID, p.Spec.NodeName = fmt.Sprint("p", i), types.UID(fmt.Sprint("p", i)), ""
			p.Labels = map[string]string{sources.LabelCoscheduling: "g"}
			s.Apply(seen(p))
		}
		tasks := s.Snapshot(start).Job(foreignKey("g")).Tasks
		got := s.wantsMore(&model.Job{Tasks: tasks}, spec)
		less := slices.Clone(spec.MinResources)
		for i := range less {
			unit := resource.MustParse("1")
			if less[i].Name == "cpu" {
				unit = resource.MustParse("1m")
			}
			less[i].Quantity = less[i].Quantity.DeepCopy()
			for range members {
				less[i].Quantity.Sub(unit)
			}
		}
		if most, least := requestLess(tasks, spec.MinResources), requestLess(tasks, less); got && !most || !got && least {
			t.Errorf("wants more: %t; by the pods %t, without the units that are rounded %t", got, most, least)
		}
	})
}

// TestAForeignGroupThatCannotBeRead costs its own job.
func TestAForeignGroupThatCannotBeRead(t *testing.T) {
	s := newState(node("n"))
	panicOver(s, identity{model.SourceCoscheduling.Kind(), "ns", "g"})
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

// ofNative names a group of Kubernetes' own.
func ofNative(name string) podOption {
	return func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name} }
}

func nativeSpec(name string, version int, minMember int32, noGang bool) *sources.Spec {
	spec := foreignSpec(name, version, minMember)
	spec.Source, spec.NoGang = model.SourceNative, noGang
	return spec
}

// TestAGroupThatIsNoGang: its pods are where their other marks say, as both objects come and go; while it is not known they wait
// for it.
func TestAGroupThatIsNoGang(t *testing.T) {
	native := model.JobKey{Namespace: "ns", Name: "g", Source: model.SourceNative}
	volcano := model.JobKey{Namespace: "ns", Name: "v", Source: model.SourceVolcano}
	s := newState(node("n"), pod("marked", ofNative("g"), annotation(v1alpha1.AnnotationKubeBatchGroup, "v")), pod("single", ofNative("g")))
	kind := func(reading Reading) Event {
		return &ReadingChanged{Source: model.SourceNative, Reading: reading}
	}
	basic, gang := nativeSpec("g", 2, 1, true), nativeSpec("g", 5, 2, false)
	again := nativeSpec("g", 4, 1, true)
	again.UID, gang.UID = "again", "another"
	for _, c := range []struct {
		name           string
		event          Event
		marked, single model.JobKey
	}{
		{"nothing is known", kind(IsRead), native, native},
		{"it is no gang", seen(basic), volcano, alone("single")},
		{"a PodGroup of ours", seen(group("v", 1)), ns("v"), alone("single")},
		{"it goes", gone(nativeSpec("g", 3, 1, true)), native, native},
		{"it is no gang again", seen(again), ns("v"), alone("single")},
		{"the PodGroup goes", gone(group("v", 1)), volcano, alone("single")},
		{"the kind goes", kind(NotServed), native, native},
		{"the kind comes", kind(IsRead), native, native},
		{"it is a gang", seen(gang), native, native},
	} {
		version := s.Snapshot(start).Version
		effect := s.Apply(c.event)
		snapshot := snap(t, s, start)
		if changed := snapshot.Version != version; changed != effect.Schedule || changed != effect.Report {
			t.Errorf("%s: effect %+v, and a new version: %t", c.name, effect, changed)
		}
		for name, want := range map[string]model.JobKey{"marked": c.marked, "single": c.single} {
			if got := s.pods.record(types.UID(name)).task.Job; got != want {
				t.Errorf("%s: %s is in %v, want %v", c.name, name, got, want)
			}
		}
		if job := snapshot.Job(native); (job != nil) != (c.single == native) || job != nil && (job.Invalid != nil) != (c.name != "it is a gang") {
			t.Errorf("%s: %+v", c.name, job)
		}
	}
	for _, name := range []string{"marked", "single"} {
		s.Apply(gone(pod(name)))
	}
	if snap(t, s, start); len(s.pods.uncertain)+len(s.pods.members) != 0 {
		t.Errorf("left over: %v", s.pods.uncertain)
	}
}

// TestAPodWithTheMarksOfTwoKindsThatMayBeNoGang is where these say, whichever object comes last.
func TestAPodWithTheMarksOfTwoKindsThatMayBeNoGang(t *testing.T) {
	native, job := nativeSpec("g", 1, 1, true), foreignSpec("j", 1, 2)
	job.Source, job.UID = model.SourceJob, "job"
	noGang := *job
	noGang.NoGang = true
	for name, c := range map[string]struct {
		objects []any
		want    model.JobKey
	}{
		"the group comes last": {[]any{job, native}, job.Key()},
		"the Job comes last":   {[]any{native, job}, job.Key()},
		"neither is a gang":    {[]any{&noGang, native}, alone("p")},
		"nor the other way":    {[]any{native, &noGang}, alone("p")},
	} {
		s := newState(node("n"), pod("p", ofObject(model.SourceJob, "job"), ofNative("g")))
		for _, object := range c.objects {
			s.Apply(seen(object))
		}
		if got := s.pods.record("p").task.Job; got != c.want {
			t.Errorf("%s: it is in %v, want %v", name, got, c.want)
		}
	}
}

// TestAGroupThatNeverPreempts wants no pod evicted, whatever its pods say.
func TestAGroupThatNeverPreempts(t *testing.T) {
	spec := nativeSpec("g", 1, 1, false)
	for _, never := range []bool{false, true} {
		spec.NeverPreempts = never
		job := snap(t, newState(node("n"), pod("a", ofNative("g")), spec), start).Job(spec.Key())
		if job.NeverPreempts != never {
			t.Errorf("never: %t, and it is %t", never, job.NeverPreempts)
		}
	}
}

// TestGroupsThatPodsDescribe need no object, and are not those of a PodGroup of ours with their name.
func TestGroupsThatPodsDescribe(t *testing.T) {
	lws := func(name, index, revision string) *corev1.Pod {
		return pod(name, label(sources.LWSGroupKey, "k"), label(sources.LWSRevision, revision), label(sources.LWSName, "w"), label(sources.LWSGroupIndex, "0"),
			label(sources.LWSWorkerIndex, index), annotation(sources.LWSSize, "2"))
	}
	member := func(name string) *corev1.Pod {
		return pod(name, label(sources.KueueGroup, "w-0"), annotation(sources.KueueTotal, "2"))
	}
	s := newState(node("n"), group("w-0", 1), lws("a", "0", "1"), lws("b", "1", "1"), lws("c", "0", "2"), member("d"), member("e"), pod("f", label(sources.KueueGroup, "w-0")))
	first := model.JobKey{Namespace: "ns", Name: "w-0", Source: model.SourceLeaderWorkerSet, Owner: "k/1"}
	second := first
	second.Owner = "k/2"
	for key, want := range map[model.JobKey]int{first: 2, second: 1, {Namespace: "ns", Name: "w-0", Source: model.SourceKueue}: 3} {
		job := snap(t, s, start).Job(key)
		if job == nil || len(job.Tasks) != want || job.MinMember != 2 || job.Invalid != nil || !job.IsSchedulableGroup() || job.HasGroup {
			t.Errorf("%v: %+v", key, job)
		}
	}
	if invalid := s.pods.record("f").task.Invalid; invalid == nil || !strings.Contains(invalid.String(), sources.KueueTotal) {
		t.Errorf("a pod without a count: %v", invalid)
	}
	s.Apply(seen(func() *corev1.Pod { p := lws("a", "0", "1"); on("n")(p); phase("Running")(p); return p }()))
	if !snap(t, s, start).Job(first).Whole {
		t.Error("a container of it runs, and it was never whole")
	}
}

// TestMarksSurviveTheEnd of a pod: it counts where it counted.
func TestMarksSurviveTheEnd(t *testing.T) {
	marks := []podOption{
		of("g"), ofForeign("g"), ofNative("g"), annotation(v1alpha1.AnnotationKubeBatchGroup, strings.Repeat("g", 70)),
		label(sources.KueueGroup, "g"), annotation(sources.KueueGroup, "g"), annotation(sources.KueueTotal, "2"),
		annotation(sources.KueueServing, "true"), label(sources.LWSGroupKey, "k"), label(sources.LWSRevision, "r"), label(sources.LWSName, "n"),
		label(sources.LWSGroupIndex, "1"), label(sources.LWSWorkerIndex, "0"), annotation(sources.LWSSize, "2"),
		annotation(sources.LWSExclusiveTopology, "rack"), annotation(sources.VolcanoTaskSpec, "w"), label(v1alpha1.LabelRole, "r"),
	}
	rapid.Check(t, func(t *rapid.T) {
		whole := pod("p")
		for _, mark := range rapid.SliceOfN(rapid.SampledFrom(marks), 1, 20).Draw(t, "marks") {
			mark(whole)
		}
		if rapid.Bool().Draw(t, "bound") {
			on("n")(whole)
		}
		for _, now := range []corev1.PodPhase{corev1.PodRunning, corev1.PodSucceeded} {
			phase(now)(whole)
			if diff := cmp.Diff(sources.Of(whole), sources.Of(StripPod(whole))); diff != "" {
				t.Fatalf("%s: %s", now, diff)
			}
		}
	})
}
