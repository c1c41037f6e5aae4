package demo

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/audit"
	"github.com/tutti-sched/tutti/pkg/isolated"
)

// spectator is a board with what it said.
type spectator struct {
	*progress
	said []string
	now  time.Time
}

func newSpectator() *spectator {
	s := &spectator{now: time.Unix(1000, 0)}
	s.progress = newBoard(map[string]string{"n1": "a", "n2": "a", "n3": "b"}, func(who, format string, args ...any) {
		s.said = append(s.said, who+" "+fmt.Sprintf(format, args...))
	})
	return s
}

func (s *spectator) pod(group, role, name, node string) corev1.Pod {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{v1alpha1.LabelPodGroup: group, v1alpha1.LabelRole: role},
		},
		Spec: corev1.PodSpec{NodeName: node},
	}
	s.now = s.now.Add(10 * time.Millisecond)
	s.see(change{pod: &pod, at: s.now})
	return pod
}

// inDomain lets a pod be bound, with the annotation of its domain.
func (s *spectator) inDomain(group, name, node, domain string) {
	pod := s.pod(group, "", name, "")
	pod.Spec.NodeName, pod.Annotations = node, map[string]string{v1alpha1.AnnotationDomain: domain}
	s.see(change{pod: &pod, at: s.now})
}

// evict lets a pod be evicted, and go.
func (s *spectator) evict(group, name string) {
	pod := *s.gang(group).pods[name]
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
	s.see(change{pod: &pod, at: s.now})
	s.see(change{pod: &pod, at: s.now, gone: true})
}

func (s *spectator) group(name string, spec v1alpha1.PodGroupSpec, status metav1.ConditionStatus, reason, message string) {
	group := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	if status != "" {
		group.Status.Conditions = []metav1.Condition{
			{Type: v1alpha1.ConditionScheduled, Status: status, Reason: reason, Message: message},
		}
	}
	s.see(change{group: group, at: s.now})
}

func roles() v1alpha1.PodGroupSpec {
	return v1alpha1.PodGroupSpec{
		MinMember: 3, Roles: []v1alpha1.Role{{Name: "launcher", MinMember: 1}, {Name: "worker", MinMember: 2}},
	}
}

func TestBoardSeesAGangStart(t *testing.T) {
	s := newSpectator()
	s.group("mpi", roles(), "", "", "")
	s.pod("mpi", "worker", "w0", "")
	s.pod("mpi", "worker", "w1", "")
	s.group("mpi", roles(), metav1.ConditionFalse, "NotEnoughMembers", "needs 3, 2 exist")
	s.pod("mpi", "launcher", "l", "")
	s.pod("mpi", "launcher", "l", "n3")
	s.pod("mpi", "worker", "w0", "n1")
	if s.gang("mpi").isWhole() {
		t.Error("whole before the last bind")
	}
	s.pod("mpi", "worker", "w1", "n1")
	s.group("mpi", roles(), metav1.ConditionTrue, "Scheduled", "the minimum of 3 is bound")

	want := []string{
		"mpi waits     NotEnoughMembers: needs 3, 2 exist",
		"mpi STARTS    3 of 3 bound, 20ms from first to last: rack a: n1 ×2; rack b: n3",
	}
	if got := strings.Join(s.said, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("it said\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if problem := startedWhole(s.gang("mpi")); problem != "" {
		t.Errorf("a gang that started as a whole: %s", problem)
	}
}

func TestAnotherRoleDoesNotStandIn(t *testing.T) {
	s := newSpectator()
	s.group("mpi", roles(), metav1.ConditionTrue, "Scheduled", "")
	for i := range 3 {
		s.pod("mpi", "worker", fmt.Sprintf("w%d", i), "n1")
	}
	if got, want := startedWhole(s.gang("mpi")), "3 bound, 3 needed"; got != want {
		t.Errorf("three workers without a launcher: %q, want %q", got, want)
	}
}

func TestStartsThatAreNoneAreFound(t *testing.T) {
	spec := v1alpha1.PodGroupSpec{MinMember: 2}
	for _, c := range []struct {
		name, want string
		play       func(s *spectator)
	}{
		{"nothing", "nothing is bound", func(s *spectator) {}},
		{"a part", "1 bound, 2 needed", func(s *spectator) { s.pod("g", "", "p0", "n1"); s.pod("g", "", "p1", "") }},
		{"late", "1m0.01s from the first bind to the last", func(s *spectator) {
			s.pod("g", "", "p0", "n1")
			s.now = s.now.Add(time.Minute)
			s.pod("g", "", "p1", "n1")
		}},
		{"untold", "its status does not say so", func(s *spectator) { s.pod("g", "", "p0", "n1"); s.pod("g", "", "p1", "n1") }},
	} {
		s := newSpectator()
		s.group("g", spec, "", "", "")
		c.play(s)
		if got := startedWhole(s.gang("g")); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestBoundNothing(t *testing.T) {
	spec := v1alpha1.PodGroupSpec{MinMember: 2}
	for _, c := range []struct{ name, node, reason, want string }{
		{"waits with a reason", "", insufficientResources, ""},
		{"one pod is bound", "n1", insufficientResources, "pod p1 is on node n1"},
		{"no reason", "", "", "it does not say why"},
	} {
		s := newSpectator()
		if c.reason == "" {
			s.group("g", spec, "", "", "")
		} else {
			s.group("g", spec, metav1.ConditionFalse, c.reason, "needs 2, 0 would fit")
		}
		pods := []corev1.Pod{s.pod("g", "", "p0", ""), s.pod("g", "", "p1", c.node)}
		if got := boundNothing(s.gang("g"), pods, insufficientResources); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestForbidden(t *testing.T) {
	line := `E1 reflector.go] "Failed to watch" err="nodes is forbidden: User cannot list"`
	if got := forbidden("one\n" + line + "\nthree"); got != line {
		t.Errorf("found %q", got)
	}
	if got := forbidden("all\nis well"); got != "" {
		t.Errorf("found %q where there is nothing", got)
	}
}

// TestVerdictOnTheWholePlay has everything as it should be, and then one thing after another not.
func TestVerdictOnTheWholePlay(t *testing.T) {
	problems := func(change func(s *spectator), found map[audit.Check][]string) string {
		s := newSpectator()
		for _, name := range []string{mpi, pytorch, sweep, urgent, quick, endless, quiet} {
			s.group(name, v1alpha1.PodGroupSpec{MinMember: 1}, metav1.ConditionTrue, "Scheduled", "")
			s.pod(name, "", name+"-0", "n1")
		}
		s.group(near, v1alpha1.PodGroupSpec{MinMember: 2}, metav1.ConditionTrue, "Scheduled", "")
		s.inDomain(near, "near-0", "n1", "fabric=a")
		s.inDomain(near, "near-1", "n2", "fabric=a")
		s.group(tooMany, v1alpha1.PodGroupSpec{MinMember: 1}, metav1.ConditionFalse, noDomainFits, "needs 1")
		many := s.pod(tooMany, "", "too-many-0", "")
		s.evict(sweep, "sweep-0")
		s.gang(sweep).kept = []string{"n1"}
		s.pod(sweep, "", "sweep-0-again", "n1")
		s.group(tooBig, v1alpha1.PodGroupSpec{MinMember: 1}, metav1.ConditionFalse, insufficientResources, "needs 1")
		waiting := s.pod(tooBig, "", "too-big-0", "")
		s.group(tooWide, v1alpha1.PodGroupSpec{MinMember: 1}, metav1.ConditionFalse, insufficientResources, "needs 1")
		wide := s.pod(tooWide, "", "too-wide-0", "")
		change(s)
		var all []string
		for _, c := range checks(s.progress, []corev1.Pod{many, waiting, wide, holding(0, "4-6", "0"), holding(1, "12-14", "1")}, &audit.Report{Found: found}, "") {
			if c.problem != "" {
				all = append(all, c.claim+": "+c.problem)
			}
		}
		return strings.Join(all, "\n")
	}
	nothing := func(*spectator) {}
	if got := problems(nothing, nil); got != "" {
		t.Errorf("all is well, but %s", got)
	}
	if got, want := problems(nothing, map[audit.Check][]string{audit.Overcommitted: {"n1: 8 too much"}}),
		"no overcommitted nodes: n1: 8 too much"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	apart := func(s *spectator) { s.inDomain(near, "near-2", "n3", "fabric=b") }
	if got, want := problems(apart, nil),
		`near is in one rack, and its pods say in which: it is in the racks a b, and its pods say "fabric=a on 2 pods, fabric=b on 1 pods"`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	another := func(s *spectator) { s.evict(mpi, "mpi-0") }
	if got, want := problems(another, nil), "1 pods of mpi were evicted"; !strings.Contains(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	idle := func(s *spectator) { s.gang(sweep).kept = nil }
	if got, want := problems(idle, nil), "sweep had capacity reserved, and started again: no capacity was reserved for it"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	untold := func(s *spectator) { s.group(sweep, v1alpha1.PodGroupSpec{MinMember: 1}, "", "", "") }
	if got, want := problems(untold, nil), "sweep started as a whole: its status does not say so"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestManifests wants every pod of every manifest to belong to the manifest's own group, in one of its roles, and to
// ask for the scheduler.
func TestManifests(t *testing.T) {
	for _, name := range []string{"mpi", "near", "too-many", "pytorch", "too-big", "job", "urgent", "short", "endless", "quiet", "too-wide"} {
		all, err := objects(name)
		if err != nil {
			t.Fatal(err)
		}
		if all[0].GetKind() != "PodGroup" {
			t.Fatalf("%s begins with a %s", name, all[0].GetKind())
		}
		roles, _, _ := unstructured.NestedSlice(all[0].Object, "spec", "roles")
		for _, object := range all[1:] {
			if object.GetKind() != "Job" {
				continue
			}
			labels, _, _ := unstructured.NestedStringMap(object.Object, "spec", "template", "metadata", "labels")
			scheduler, _, _ := unstructured.NestedString(object.Object, "spec", "template", "spec", "schedulerName")
			if labels[v1alpha1.LabelPodGroup] != all[0].GetName() || scheduler != "tutti" {
				t.Errorf("%s: Job %s has the labels %v and the scheduler %q", name, object.GetName(), labels, scheduler)
			}
			if len(roles) > 0 && !strings.Contains(fmt.Sprint(roles), "name:"+labels[v1alpha1.LabelRole]+"]") {
				t.Errorf("%s: Job %s has the role %q, the group %v", name, object.GetName(), labels[v1alpha1.LabelRole], roles)
			}
		}
	}
}

// holding is a pod that was given CPUs, which are of a NUMA node.
func holding(number int, cpus, numa string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("quiet-%d", number), Annotations: map[string]string{
			isolated.RequestAnnotation: "true",
			isolated.AssignedAnnotation: fmt.Sprintf(`{"v":1,"node":%q,"uid":"","cpus":%q,"numa":%q,"containers":{"main":%q}}`,
				quietNode, cpus, numa, cpus),
		}},
		Spec: corev1.PodSpec{NodeName: quietNode},
	}
}

func TestOwnCPUs(t *testing.T) {
	unassigned := holding(1, "12", "1")
	delete(unassigned.Annotations, isolated.AssignedAnnotation)
	for _, c := range []struct {
		name, want string
		pods       []corev1.Pod
	}{
		{"apart", "", []corev1.Pod{holding(0, "4-6", "0"), holding(1, "12-14", "1")}},
		{"shared", "quiet-1 has CPUs 6 of another pod", []corev1.Pod{holding(0, "4-6", "0"), holding(1, "6-7", "0")}},
		{"ordinary", "quiet-0 has CPUs 0-3, which are not isolated", []corev1.Pod{holding(0, "0-4", "0")}},
		{"none", "quiet-1 is on a node, and was given none", []corev1.Pod{holding(0, "4", "0"), unassigned}},
		{"torn", "quiet-0 has CPUs of the NUMA nodes 0-1", []corev1.Pod{holding(0, "7,12", "0-1")}},
		{"none", "no pod has any", nil},
	} {
		if got := ownCPUs(c.pods); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
