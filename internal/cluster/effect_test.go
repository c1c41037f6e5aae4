package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

func TestEffectOfPodEvents(t *testing.T) {
	condition := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
	}
	toleration := func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "k"}} }
	claim := func(p *corev1.Pod) {
		p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "c"}}
	}
	all, reports, none := Effect{Schedule: true, Report: true}, Effect{Report: true}, Effect{}
	for name, c := range map[string]struct {
		before, after *corev1.Pod
		want          Effect
	}{
		"new pending pod":               {nil, pod("p"), all},
		"pod of others waits":           {nil, pod("p", by("other")), none},
		"pod of others takes capacity":  {nil, pod("p", by("other"), on("n")), Effect{Schedule: true}},
		"pod of others ends":            {pod("p", by("other"), on("n")), pod("p", by("other"), on("n"), phase("Failed")), Effect{Schedule: true}},
		"bound pod starts to run":       {pod("p", on("n")), pod("p", on("n"), phase("Running")), reports},
		"others' pod starts to run":     {pod("p", by("other"), on("n")), pod("p", by("other"), on("n"), phase("Running")), none},
		"bound by another client":       {pod("p"), pod("p", on("n")), all},
		"being deleted":                 {pod("p", on("n")), pod("p", on("n"), deleting(start)), all},
		"pending pod being deleted":     {pod("p"), pod("p", deleting(start)), all},
		"ended":                         {pod("p", on("n")), pod("p", on("n"), phase("Succeeded")), all},
		"gate lifted":                   {pod("p", gated), pod("p"), all},
		"our own condition":             {pod("p"), pod("p", condition), none},
		"resized":                       {pod("p", on("n")), pod("p", on("n"), asking("cpu", "2")), all},
		"toleration added":              {pod("p"), pod("p", toleration), all},
		"toleration added to bound pod": {pod("p", on("n")), pod("p", on("n"), toleration), none},
		"label changed":                 {pod("p", on("n")), pod("p", on("n"), label("app", "x")), all},
		"claim made":                    {pod("p"), pod("p", claim), all},
		"foreign annotation":            {pod("p"), pod("p", annotation("example.com/x", "y")), none},
		"own annotation":                {pod("p"), pod("p", annotation("isolcpu.tutti.dev/cpus", "y")), all},
		"joins a group":                 {pod("p"), pod("p", of("g")), all},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(node("n"))
			if c.before != nil {
				s.Apply(seen(c.before))
			}
			if got := s.Apply(seen(c.after)); got != c.want {
				t.Errorf("effect %+v, want %+v", got, c.want)
			}
			if got := s.Apply(seen(c.after)); got != none {
				t.Errorf("the same once more has effect %+v", got)
			}
		})
	}
}

// TestAnImplicitGroupBecomesWhole as its first member begins to run; if another waits, it may be placed now.
func TestAnImplicitGroupBecomesWhole(t *testing.T) {
	member := func(name string, options ...podOption) *corev1.Pod {
		return pod(name, append(options, of("g"), annotation(v1alpha1.AnnotationMinMember, "2"))...)
	}
	for _, waits := range []bool{true, false} {
		s := newState(node("n"), member("a", on("n")))
		if waits {
			s.Apply(seen(member("b")))
		}
		snap(t, s, start)
		if got := s.Apply(seen(member("a", on("n"), phase("Running")))); got.Schedule != waits {
			t.Errorf("another member waits: %t, effect %+v", waits, got)
		}
	}
}

// TestEffectOfReadiness: it starts a cycle, and makes another version of the job, where the Eviction API would answer otherwise,
// and nowhere else.
func TestEffectOfReadiness(t *testing.T) {
	always := policyv1.AlwaysAllow
	held, released, healthy := budget("b", "x", 0), budget("b", "x", 0), budget("b", "x", 0)
	released.Spec.UnhealthyPodEvictionPolicy = &always
	healthy.Status.CurrentHealthy, healthy.Status.DesiredHealthy = 1, 1
	several := budget("c", "x", 1)
	x := label("app", "x")
	waits, runs, ready := pod("p", on("n"), x), pod("p", on("n"), x, phase("Running")), pod("p", on("n"), x, phase("Running"), isReady)
	for name, c := range map[string]struct {
		budgets       []any
		before, after *corev1.Pod
		want          bool
	}{
		"no budget, unready":             {nil, ready, runs, false},
		"no budget, runs":                {nil, waits, ready, false},
		"budget of others, unready":      {[]any{budget("b", "y", 0)}, ready, runs, false},
		"budget of others, runs":         {[]any{budget("b", "y", 0)}, waits, ready, false},
		"budget that holds it, unready":  {[]any{held}, ready, runs, false},
		"budget that holds it, runs":     {[]any{held}, waits, runs, true},
		"budget that always lets it go":  {[]any{released}, ready, runs, true},
		"ready again":                    {[]any{released}, runs, ready, true},
		"runs, and is not ready yet":     {[]any{released}, waits, runs, false},
		"budget that is healthy without": {[]any{healthy}, ready, runs, true},
		"several budgets, unready":       {[]any{released, several}, ready, runs, false},
		"several budgets, runs":          {[]any{released, several}, waits, runs, true},
		"the same once more, ready":      {[]any{released}, ready, ready.DeepCopy(), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(append(c.budgets, node("n"), KeptPod(c.before))...)
			before := snap(t, s, start).Jobs[0].Version
			effect := s.Apply(seen(KeptPod(c.after)))
			if after := snap(t, s, start).Jobs[0].Version; effect.Schedule != c.want || (after != before) != c.want {
				t.Errorf("effect %+v, version %d became %d, want news: %t", effect, before, after, c.want)
			}
			if model.IsReady(&taskIn(s.snapshot, "p").Pod.Status) != model.IsReady(&c.after.Status) {
				t.Error("the snapshot does not show whether the pod is ready")
			}
		})
	}
}

func TestConfirmedBindIsNoNews(t *testing.T) {
	s := newState(node("n"), node("m"), pod("p"), pod("q"))
	s.Assume(model.Decision{Binds: []model.Bind{{Pod: model.PodRef{UID: "p"}, Node: "n"}, {Pod: model.PodRef{UID: "q"}, Node: "n"}}})
	zone := label("topology.kubernetes.io/zone", "z") // the API server copies it from the node
	if got := s.Apply(seen(pod("p", on("n"), zone))); got != (Effect{Report: true}) {
		t.Errorf("confirmation has effect %+v", got)
	}
	if got := s.Apply(seen(pod("q", on("m")))); got != (Effect{Schedule: true, Report: true}) {
		t.Errorf("a bind to another node has effect %+v", got)
	}
	if got := s.Apply(gone(pod("p"))); got != (Effect{Schedule: true, Report: true}) {
		t.Errorf("deletion has effect %+v", got)
	}
}

func TestEffectOfNodeEvents(t *testing.T) {
	change := func(f func(*corev1.Node)) *corev1.Node {
		n := node("n")
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		f(n)
		return n
	}
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"heartbeat":          {func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(start) }, false},
		"foreign annotation": {func(n *corev1.Node) { n.Annotations = map[string]string{"example.com/x": "y"} }, false},
		"avoided pods": {func(n *corev1.Node) {
			n.Annotations = map[string]string{"scheduler.alpha.kubernetes.io/preferAvoidPods": "{}"}
		}, true},
		"own annotation": {func(n *corev1.Node) { n.Annotations = map[string]string{"isolcpu.tutti.dev/topology": "y"} }, true},
		"not ready":      {func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }, true},
		"label":          {func(n *corev1.Node) { n.Labels = map[string]string{"zone": "z"} }, true},
		"taint":          {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k"}} }, true},
		"cordon":         {func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		"image":          {func(n *corev1.Node) { n.Status.Images = []corev1.ContainerImage{{Names: []string{"i"}}} }, true},
		"allocatable":    {func(n *corev1.Node) { n.Status.Allocatable = list("cpu", "11") }, true},
		"same amount":    {func(n *corev1.Node) { n.Status.Allocatable = list("cpu", "10000m", "memory", "10Gi", "pods", "110") }, false},
		"capacity":       {func(n *corev1.Node) { n.Status.Capacity = list("cpu", "11") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState()
			if got := s.Apply(seen(change(func(*corev1.Node) {}))); !got.Schedule {
				t.Error("a new node is no news")
			}
			after := change(c.change)
			if got := s.Apply(seen(after)); got.Schedule != c.want || got.Report {
				t.Errorf("effect %+v, want schedule %t", got, c.want)
			}
			if snap(t, s, start).Node("n").Object != after {
				t.Error("the snapshot does not show the newest object")
			}
			if got := s.Apply(gone(after)); !got.Schedule {
				t.Error("a node that goes is no news")
			}
		})
	}
}

func TestEffectOfGroupAndOtherEvents(t *testing.T) {
	s := newState(group("g", 1))
	status := func(g *v1alpha1.PodGroup) { g.Status.Running = 1 }
	for name, c := range map[string]struct {
		event Event
		want  Effect
	}{
		"nothing":       {seen(group("g", 1)), Effect{}},
		"status":        {seen(group("g", 1, status)), Effect{Report: true}},
		"other kinds":   {&OtherSeen{}, Effect{Schedule: true}},
		"unknown class": {gone(class("c", 1)), Effect{}},
	} {
		t.Run(name, func(t *testing.T) {
			s.Apply(seen(group("g", 1)))
			if got := s.Apply(c.event); got != c.want {
				t.Errorf("effect %+v, want %+v", got, c.want)
			}
		})
	}
	if got := s.Apply(seen(group("g", 2))); got != (Effect{Schedule: true, Report: true}) {
		t.Errorf("a new minimum has effect %+v", got)
	}
	if g := s.Group(ns("g")); g == nil || g.Spec.MinMember != 2 {
		t.Errorf("the group is %+v", g)
	}
}

func TestTranslators(t *testing.T) {
	s := newState(node("n", "cpu", "10"), pod("a", on("n"), func(p *corev1.Pod) { p.Generation = 1 }), pod("b"))
	snap(t, s, start)
	s.Configure([]model.RequestTranslator{double{}}, model.DefaultMaxGrace)
	snapshot := snap(t, s, start)
	if n := snapshot.Node("n"); n.Idle(model.CPU) != 18000 || n.Allocatable().At(model.CPU) != 20000 {
		t.Errorf("node offers %v and has %v idle", n.Allocatable(), n.Amounts().Idle)
	}
	if task := taskIn(snapshot, "b"); task.Request.At(model.CPU) != 2000 || task.Invalid.String() != "double" {
		t.Errorf("task requests %v, refused %v", task.Request, task.Invalid)
	}
}

// double doubles all CPUs and refuses the pod "b".
type double struct{}

func (double) Counts() []corev1.ResourceName { return nil }

func (double) TranslateRequest(_ *model.ResourceIndex, task *model.Task, request *model.Resources) *model.Refusal {
	request.Set(model.CPU, 2*request.At(model.CPU))
	if task.Name == "b" {
		return &model.Refusal{Code: model.InvalidRequest, Detail: "double"}
	}
	return nil
}

func (double) TranslateCapacity(_ *model.ResourceIndex, _ *corev1.Node, allocatable *model.Resources) *model.Refusal {
	allocatable.Set(model.CPU, 2*allocatable.At(model.CPU))
	return nil
}
