package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// waits and runs are what a PodGroup's condition says.
const (
	waits = metav1.ConditionFalse
	runs  = metav1.ConditionTrue
)

func node(name string, room map[string]string, change ...func(*corev1.Node)) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	n.Status.Allocatable = quantities(room)
	if room["pods"] == "" {
		n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
	}
	for _, f := range change {
		f(&n)
	}
	return n
}

func quantities(room map[string]string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, amount := range room {
		list[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	return list
}

func group(name string, minimum int32, status metav1.ConditionStatus) v1alpha1.PodGroup {
	g := v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}}
	g.Spec.MinMember = minimum
	if status != "" {
		g.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionScheduled, Status: status, Reason: "InsufficientResources",
		}}
	}
	return g
}

// members are pods of a group that each ask for some CPU; the first ones are on the given nodes.
func members(group string, count int, cpu string, nodes ...string) []corev1.Pod {
	pods := make([]corev1.Pod, count)
	for i := range pods {
		p := &pods[i]
		p.Namespace, p.Name = "n", fmt.Sprintf("%s-%s-%d", group, cpu, i)
		p.Labels = map[string]string{v1alpha1.LabelPodGroup: group}
		p.Spec.SchedulerName = "tutti"
		p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: quantities(map[string]string{"cpu": cpu}),
		}}}
		if i < len(nodes) {
			p.Spec.NodeName = nodes[i]
		}
	}
	return pods
}

func with(pods []corev1.Pod, change func(*corev1.Pod)) []corev1.Pod {
	for i := range pods {
		change(&pods[i])
	}
	return pods
}

func TestAudit(t *testing.T) {
	four, two := map[string]string{"cpu": "4"}, map[string]string{"cpu": "2"}
	tainted := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
	}
	cases := []struct {
		name    string
		cluster Cluster
		want    Check // empty: nothing is found
	}{
		{"a gang that runs", Cluster{
			Nodes: []corev1.Node{node("a", four)}, Pods: members("g", 2, "2", "a", "a"), Groups: []v1alpha1.PodGroup{group("g", 2, runs)},
		}, ""},
		{"a gang of which one member runs", Cluster{
			Nodes: []corev1.Node{node("a", two)}, Pods: members("g", 2, "2", "a"), Groups: []v1alpha1.PodGroup{group("g", 2, waits)},
		}, Partial},
		{"surplus that waits", Cluster{
			Nodes: []corev1.Node{node("a", four)}, Pods: members("g", 3, "2", "a", "a"), Groups: []v1alpha1.PodGroup{group("g", 2, runs)},
		}, ""},
		{"too much CPU", Cluster{
			Nodes: []corev1.Node{node("a", two)}, Pods: members("g", 2, "2", "a", "a"), Groups: []v1alpha1.PodGroup{group("g", 2, runs)},
		}, Overcommitted},
		{"too many pods", Cluster{
			Nodes: []corev1.Node{node("a", map[string]string{"cpu": "4", "pods": "1"})},
			Pods:  members("g", 2, "1", "a", "a"), Groups: []v1alpha1.PodGroup{group("g", 2, runs)},
		}, Overcommitted},
		{"a resource that the node does not have", Cluster{
			Nodes: []corev1.Node{node("a", four)},
			Pods: with(members("g", 1, "1", "a"), func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = resource.MustParse("1")
			}),
			Groups: []v1alpha1.PodGroup{group("g", 1, runs)},
		}, Overcommitted},
		{"other schedulers' pods take capacity", Cluster{
			Nodes: []corev1.Node{node("a", four)},
			Pods: append(members("g", 2, "2"), with(members("", 1, "1", "a"), func(p *corev1.Pod) {
				p.Spec.SchedulerName = "default-scheduler"
			})...),
			Groups: []v1alpha1.PodGroup{group("g", 2, waits)},
		}, ""},
		{"finished pods take none", Cluster{
			Nodes: []corev1.Node{node("a", four)},
			Pods: append(members("g", 2, "2"), with(members("", 1, "1", "a"), func(p *corev1.Pod) {
				p.Spec.SchedulerName, p.Status.Phase = "default-scheduler", corev1.PodSucceeded
			})...),
			Groups: []v1alpha1.PodGroup{group("g", 2, waits)},
		}, Overlooked},
		{"a node that is not there", Cluster{
			Pods: members("g", 1, "1", "a"), Groups: []v1alpha1.PodGroup{group("g", 1, runs)},
		}, Misplaced},
		{"a taint that is not tolerated", Cluster{
			Nodes: []corev1.Node{node("a", four, tainted)}, Pods: members("g", 1, "1", "a"), Groups: []v1alpha1.PodGroup{group("g", 1, runs)},
		}, Misplaced},
		{"a gang that says nothing", Cluster{
			Nodes: []corev1.Node{node("a", two)}, Pods: members("g", 2, "2"), Groups: []v1alpha1.PodGroup{group("g", 2, "")},
		}, Unexplained},
		{"a gang that says it runs", Cluster{
			Nodes: []corev1.Node{node("a", two)}, Pods: members("g", 2, "2"), Groups: []v1alpha1.PodGroup{group("g", 2, runs)},
		}, Unexplained},
		{"capacity on two nodes, one of them tainted", Cluster{
			Nodes: []corev1.Node{node("a", two), node("b", two, tainted)}, Pods: members("g", 2, "2"),
			Groups: []v1alpha1.PodGroup{group("g", 2, waits)},
		}, ""},
		{"capacity on two nodes", Cluster{
			Nodes: []corev1.Node{node("a", two), node("b", two)}, Pods: members("g", 2, "2"),
			Groups: []v1alpha1.PodGroup{group("g", 2, waits)},
		}, Overlooked},
		{"pieces too small", Cluster{
			Nodes: []corev1.Node{node("a", map[string]string{"cpu": "3"}), node("b", map[string]string{"cpu": "3"})},
			Pods:  members("g", 3, "2"), Groups: []v1alpha1.PodGroup{group("g", 3, waits)},
		}, ""},
		{"too few members", Cluster{
			Nodes: []corev1.Node{node("a", four)}, Pods: members("g", 1, "1"), Groups: []v1alpha1.PodGroup{group("g", 2, waits)},
		}, ""},
		{"different members that fit, hardest first", Cluster{
			Nodes: []corev1.Node{node("a", four), node("b", two)}, Pods: append(members("g", 1, "2"), members("g", 1, "4")...),
			Groups: []v1alpha1.PodGroup{group("g", 2, waits)},
		}, Overlooked},
		{"different members, the small ones are enough", Cluster{
			Nodes: []corev1.Node{node("a", two)}, Pods: append(members("g", 1, "8"), members("g", 2, "1")...),
			Groups: []v1alpha1.PodGroup{group("g", 2, waits)},
		}, Overlooked},
		{"a single pod that fits", Cluster{
			Nodes: []corev1.Node{node("a", two)},
			Pods: with(members("", 1, "1"), func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable"}}
			}),
		}, Overlooked},
		{"a gated pod", Cluster{
			Nodes: []corev1.Node{node("a", two)},
			Pods: with(members("g", 1, "1"), func(p *corev1.Pod) {
				p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}}
			}),
			Groups: []v1alpha1.PodGroup{group("g", 1, waits)},
		}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { check(t, Audit(&c.cluster, "tutti"), c.want) })
	}
}

// check wants exactly one kind of finding, or none.
func check(t *testing.T, report *Report, want Check) {
	t.Helper()
	for _, check := range Checks() {
		if found := report.Found[check]; (len(found) > 0) != (check == want) {
			t.Errorf("%s: found %q, want some: %t", check, found, check == want)
		}
	}
	if err := report.Err(); (err != nil) != (want != "") {
		t.Errorf("the verdict is %v", err)
	}
	var text strings.Builder
	report.Write(&text)
	for _, line := range report.Found[want] {
		if !strings.Contains(text.String(), line) {
			t.Errorf("the text does not show %q:\n%s", line, text.String())
		}
	}
}

func TestRolesHaveMinimaOfTheirOwn(t *testing.T) {
	launcher := with(members("g", 1, "4"), func(p *corev1.Pod) { p.Labels[v1alpha1.LabelRole] = "launcher" })
	g := group("g", 2, waits)
	g.Spec.Roles = []v1alpha1.Role{{Name: "launcher", MinMember: 1}}
	c := &Cluster{
		Nodes: []corev1.Node{node("a", map[string]string{"cpu": "3"})},
		Pods:  append(launcher, members("g", 3, "1")...), Groups: []v1alpha1.PodGroup{g},
	}
	check(t, Audit(c, "tutti"), "") // three workers fit, the launcher does not
	c.Nodes = append(c.Nodes, node("b", map[string]string{"cpu": "4"}))
	check(t, Audit(c, "tutti"), Overlooked)
}

func TestWhatIsNotUnderstoodIsNotJudged(t *testing.T) {
	apart := with(members("g", 2, "1"), func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
	})
	report := Audit(&Cluster{
		Nodes: []corev1.Node{node("a", map[string]string{"cpu": "4"})}, Pods: apart, Groups: []v1alpha1.PodGroup{group("g", 2, waits)},
	}, "tutti")
	check(t, report, "")
	if report.Unjudged != 1 {
		t.Errorf("%d gangs are left without judgement, want 1", report.Unjudged)
	}
}

// TestFitIsExactForOneShape compares the answer with trying all members on all nodes, on many small rooms.
func TestFitIsExactForOneShape(t *testing.T) {
	for seed := range 500 {
		var nodes []corev1.Node
		var slots []int
		for i := range 3 {
			cpu, memory := (seed>>(2*i))&3, (seed>>(i+3))&3
			nodes = append(nodes, node(fmt.Sprint("n", i), map[string]string{"cpu": fmt.Sprint(cpu), "memory": fmt.Sprint(memory)}))
			slots = append(slots, min(cpu, memory/2))
		}
		want := slots[0] + slots[1] + slots[2]
		for count := 1; count <= want+1; count++ {
			pods := with(members("g", count, "1"), func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("2")
			})
			c := &Cluster{Nodes: slices.Clone(nodes), Pods: pods, Groups: []v1alpha1.PodGroup{group("g", int32(count), waits)}}
			if fits := Audit(c, "tutti").Err() != nil; fits != (count <= want) {
				t.Fatalf("seed %d: %d members on capacity for %d: fits is %t", seed, count, want, fits)
			}
		}
	}
}
