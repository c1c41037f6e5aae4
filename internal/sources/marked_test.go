package sources

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

type texts = map[string]string

// TestMarksOfKueue: the count is that of all pods, and a group whose pods need not start together is none.
func TestMarksOfKueue(t *testing.T) {
	group := model.JobKey{Namespace: "ns", Name: "g", Source: model.SourceKueue}
	lonely := model.JobKey{Namespace: "ns", Name: "p", Source: model.SourcePod}
	for name, c := range map[string]struct {
		labels, annotations texts
		off                 []string
		job                 model.JobKey
		minimum             int32
		malformed           string
	}{
		"label and count":    {labels: texts{KueueGroup: "g"}, annotations: texts{KueueTotal: "3"}, job: group, minimum: 3},
		"annotation":         {annotations: texts{KueueGroup: "g", KueueTotal: "3"}, job: group, minimum: 3},
		"label first":        {labels: texts{KueueGroup: "g"}, annotations: texts{KueueGroup: "h", KueueTotal: "3"}, job: group, minimum: 3},
		"serving":            {labels: texts{KueueGroup: "g"}, annotations: texts{KueueTotal: "3", KueueServing: "true"}, job: lonely},
		"not serving":        {labels: texts{KueueGroup: "g"}, annotations: texts{KueueTotal: "3", KueueServing: "false"}, job: group, minimum: 3},
		"admitted in part":   {labels: texts{KueueGroup: "g"}, annotations: texts{KueueTotal: "3", KueueFastAdmission: "true"}, job: lonely},
		"no count":           {labels: texts{KueueGroup: "g"}, job: group, malformed: `annotation kueue.x-k8s.io/pod-group-total-count is "", it must be a whole number from 1 up`},
		"a count of none":    {labels: texts{KueueGroup: "g"}, annotations: texts{KueueTotal: "0"}, job: group, malformed: `annotation kueue.x-k8s.io/pod-group-total-count is "0", it must be a whole number from 1 up`},
		"a count in words":   {labels: texts{KueueGroup: "g"}, annotations: texts{KueueTotal: "three"}, job: group, malformed: `annotation kueue.x-k8s.io/pod-group-total-count is "three", it must be a whole number from 1 up`},
		"too large":          {labels: texts{KueueGroup: "g"}, annotations: texts{KueueTotal: "2147483648"}, job: group, malformed: `annotation kueue.x-k8s.io/pod-group-total-count is "2147483648", it must be a whole number from 1 up`},
		"no name":            {annotations: texts{KueueTotal: "3"}, job: lonely},
		"a name of no group": {annotations: texts{KueueGroup: strings.Repeat("g", 300), KueueTotal: "3"}, job: lonely, malformed: `annotation kueue.x-k8s.io/pod-group-name is "` + strings.Repeat("g", 40) + `…", which cannot be a name`},
		"off":                {labels: texts{KueueGroup: "g"}, off: []string{"kueue"}, job: lonely},
		"our label, too":     {labels: texts{KueueGroup: "g", v1alpha1.LabelPodGroup: "ours"}, job: model.JobKey{Namespace: "ns", Name: "ours"}},
	} {
		got := Without(c.off).Of(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: c.labels, Annotations: c.annotations}})
		if got.Job != c.job || got.MinMember != c.minimum || got.Otherwise != nil || malformed(got) != c.malformed {
			t.Errorf("%s: %+v, malformed %q", name, got, malformed(got))
		}
	}
}

func malformed(m Membership) string {
	if m.Malformed == nil {
		return ""
	}
	return m.Malformed.String()
}

// TestMarksOfLeaderWorkerSet: a group is of one key and one revision, and has the name that its users know.
func TestMarksOfLeaderWorkerSet(t *testing.T) {
	key := func(name string, owner types.UID) model.JobKey {
		return model.JobKey{Namespace: "ns", Name: name, Source: model.SourceLeaderWorkerSet, Owner: owner}
	}
	worker := func(change func(labels, annotations texts)) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Annotations: texts{LWSSize: "4"}, Labels: texts{
			LWSName: "serve", LWSGroupIndex: "2", LWSGroupKey: "k", LWSRevision: "r", LWSWorkerIndex: "1",
		}}}
		change(pod.Labels, pod.Annotations)
		return pod
	}
	for name, c := range map[string]struct {
		change    func(labels, annotations texts)
		job       model.JobKey
		role      string
		minimum   int32
		malformed string
	}{
		"a worker":         {func(_, _ texts) {}, key("serve-2", "k/r"), RoleWorker, 4, ""},
		"a leader":         {func(l, _ texts) { l[LWSWorkerIndex] = "0" }, key("serve-2", "k/r"), RoleLeader, 4, ""},
		"another revision": {func(l, _ texts) { l[LWSRevision] = "s" }, key("serve-2", "k/s"), RoleWorker, 4, ""},
		"another key":      {func(l, _ texts) { l[LWSGroupKey] = "m" }, key("serve-2", "m/r"), RoleWorker, 4, ""},
		"no index":         {func(l, _ texts) { delete(l, LWSGroupIndex) }, key("k", "k/r"), RoleWorker, 4, ""},
		"a leader whose workers come later": {func(l, a texts) { l[LWSWorkerIndex], a[LWSExclusiveTopology] = "0", "rack" },
			key("serve-2", "k/r"), RoleLeader, 4, ""},
		"its worker": {func(_, a texts) { a[LWSExclusiveTopology] = "rack" }, key("serve-2", "k/r"), RoleWorker, 4, ""},
		"no size": {func(_, a texts) { delete(a, LWSSize) }, key("serve-2", "k/r"), RoleWorker, 0,
			`annotation leaderworkerset.sigs.k8s.io/size is "", it must be a whole number from 1 up`},
		"no size of a leader whose workers come later": {func(l, a texts) {
			delete(a, LWSSize)
			l[LWSWorkerIndex], a[LWSExclusiveTopology] = "0", "rack"
		}, key("serve-2", "k/r"), RoleLeader, 0, `annotation leaderworkerset.sigs.k8s.io/size is "", it must be a whole number from 1 up`},
		"Kueue's marks, too": {func(l, a texts) { l[KueueGroup], a[KueueTotal] = "lws-serve", "4" }, key("serve-2", "k/r"), RoleWorker, 4, ""},
		"no key":             {func(l, _ texts) { delete(l, LWSGroupKey) }, model.JobKey{Namespace: "ns", Name: "p", Source: model.SourcePod}, "", 0, ""},
		"our label, too":     {func(l, _ texts) { l[v1alpha1.LabelPodGroup] = "ours" }, model.JobKey{Namespace: "ns", Name: "ours"}, "", 0, ""},
		"a PodGroup of scheduler-plugins, too": {func(l, _ texts) { l[LabelCoscheduling] = "pg" },
			model.JobKey{Namespace: "ns", Name: "pg", Source: model.SourceCoscheduling}, RoleWorker, 0, ""},
	} {
		got := Of(worker(c.change))
		if got.Job != c.job || got.Role != c.role || got.MinMember != c.minimum || got.Otherwise != nil || malformed(got) != c.malformed {
			t.Errorf("%s: %+v, malformed %q", name, got, malformed(got))
		}
	}
}

// TestGroupsOfMarksHaveNoReplacement: only the annotation of a group of ours means a PodGroup once that exists.
func TestGroupsOfMarksHaveNoReplacement(t *testing.T) {
	for source := range model.LastSource + 1 {
		_, ok := Replacement(model.JobKey{Namespace: "ns", Name: "g", Source: source})
		if want := source == model.SourceImplicit || source == model.SourceVolcano; ok != want {
			t.Errorf("%s: %t", source.Kind(), ok)
		}
	}
}

// TestMarksThatDoNotCount are those of other groups than the one that a pod is in.
func TestMarksThatDoNotCount(t *testing.T) {
	annotation := texts{v1alpha1.AnnotationKubeBatchGroup: "v"}
	for name, c := range map[string]struct {
		group               *corev1.PodSchedulingGroup
		labels, annotations texts
		want                string
	}{
		"one mark":                     {labels: texts{LabelCoscheduling: "g"}},
		"an annotation":                {annotations: annotation},
		"our label, and the same name": {labels: texts{v1alpha1.LabelPodGroup: "v"}, annotations: annotation},
		"our label, and another name":  {labels: texts{v1alpha1.LabelPodGroup: "g"}, annotations: annotation, want: "PodGroup.scheduling.volcano.sh ns/v"},
		"three": {group: inGroup("g"), labels: texts{LabelCoscheduling: "s"}, annotations: annotation,
			want: "PodGroup.scheduling.x-k8s.io ns/s; PodGroup.scheduling.volcano.sh ns/v"},
		"a count alone":                {labels: texts{LabelCoscheduling: "g"}, annotations: texts{KueueTotal: "3"}},
		"a LeaderWorkerSet, and Kueue": {labels: texts{LWSGroupKey: "k", KueueGroup: "q"}, annotations: texts{LWSSize: "1"}, want: "Kueue pod group ns/q"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: c.labels, Annotations: c.annotations}}
		pod.Spec.SchedulingGroup = c.group
		var got []string
		for _, other := range All().PassedOver(pod, Of(pod).Job) {
			got = append(got, other.Describe())
		}
		if got := strings.Join(got, "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: texts{LabelCoscheduling: "s"}}}
	pod.Spec.SchedulingGroup = inGroup("basic")
	basic := All().PassedOver(pod, model.JobKey{Namespace: "ns", Name: "s", Source: model.SourceCoscheduling})
	if len(basic) != 1 || basic[0].Source != model.SourceNative {
		t.Errorf("in the second: %v", basic)
	}
}

// TestALeaderWorkerSetSaysWhichPodsAreLate, and is no gang itself.
func TestALeaderWorkerSetSaysWhichPodsAreLate(t *testing.T) {
	watch := WatchOf(model.SourceLeaderWorkerSetObject)
	group := model.JobKey{Namespace: "ns", Name: "serve-a-12", Source: model.SourceLeaderWorkerSet, Owner: "k/r"}
	for policy, late := range map[any]bool{"LeaderReady": true, "LeaderCreated": false, "": false, nil: false, int64(1): false} {
		object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"startupPolicy": policy}}}
		object.SetNamespace("ns")
		object.SetName("serve-a")
		spec := watch.Decode(object)
		if set, ok := SetOf(group); !ok || spec.Key() != set || spec.HasLate() != late || !spec.NoGang {
			t.Errorf("%v: %+v", policy, spec)
		}
	}
	for _, other := range []model.JobKey{{Name: "serve", Source: model.SourceLeaderWorkerSet}, {Name: "serve-0"}, {Name: "serve-0", Source: model.SourceKueue}} {
		if _, ok := SetOf(other); ok {
			t.Errorf("%v is of a LeaderWorkerSet", other)
		}
	}
}

// TestWorkersOfALeaderWorkerSetThatIsNotRead are late where the leader was started without them.
func TestWorkersOfALeaderWorkerSetThatIsNotRead(t *testing.T) {
	const waits, bound = model.Pending, model.Bound
	for name, c := range map[string]struct {
		leader  model.Status
		runs    bool
		workers []model.Status
		late    bool
	}{
		"the leader waits":                        {waits, false, nil, false},
		"the leader waits with its workers":       {waits, false, []model.Status{waits}, false},
		"the leader has a node and no workers":    {bound, false, nil, true},
		"the start of all is not complete":        {bound, false, []model.Status{waits}, false},
		"the leader runs, and workers exist":      {bound, true, []model.Status{waits}, true},
		"the leader runs, and one is bound":       {bound, true, []model.Status{waits, bound}, false},
		"the leader is bound as some of them are": {bound, false, []model.Status{waits, bound}, false},
	} {
		task := func(role string, status model.Status, started bool) *model.Task {
			return &model.Task{Pod: &corev1.Pod{}, Role: role, Started: started, Placement: model.Placement{Status: status}}
		}
		job := &model.Job{Key: model.JobKey{Source: model.SourceLeaderWorkerSet}}
		job.Tasks = append(job.Tasks, task(RoleLeader, c.leader, c.runs))
		for _, status := range c.workers {
			job.Tasks = append(job.Tasks, task(RoleWorker, status, false))
		}
		if got := workersAreLate(job, nil); got != c.late {
			t.Errorf("%s: late %t, want %t", name, got, c.late)
		}
	}
}

// TestAGroupOfAnExclusiveJobSet is no gang, either: there is no moment at which all of its members exist.
func TestAGroupOfAnExclusiveJobSet(t *testing.T) {
	group := &Spec{MinMember: 4, Roles: []model.Role{{Name: "w", MinMember: 4}}}
	got := group.WithLate(&Spec{MinMember: 1, Exclusive: true, Remark: "why"})
	if got.MinMember != 1 || got.Roles != nil || got.Remark != "why" || group.MinMember != 4 {
		t.Errorf("got %+v of %+v", got, group)
	}
}
