package allocate_test

import (
	"fmt"
	"strings"
	"testing"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/actions/allocate"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/pkg/topology"
)

// neighbours is a filter that asks the index of topology what predicates asks it, and looks for host ports that are taken.
type neighbours struct{ index *topology.Index }

func (neighbours) Name() string { return "neighbours" }

func (n neighbours) OpenSession(view framework.View) { n.index.Follow(view.Snapshot()) }

func (n neighbours) PreFilter(task *model.Task, scope framework.FilterScope) (checks []framework.NodeFilterFunc, _ *model.Refusal) {
	refused := &model.Refusal{Code: model.NodesFiltered, Detail: "neighbours"}
	check := func(good func(*model.Node) bool) {
		checks = append(checks, func(node *model.Node) *model.Refusal {
			if good(node) {
				return nil
			}
			return refused
		})
	}
	if port := hostPort(task.Pod); scope == framework.NodeWithPods && port != 0 {
		check(func(node *model.Node) bool {
			for _, other := range node.Tasks {
				if hostPort(other.Pod) == port {
					return false
				}
			}
			return true
		})
	}
	if scope == framework.ClusterWide {
		if filter, _ := n.index.Affinity(task.Pod); filter != nil {
			check(func(node *model.Node) bool { return filter.Check(node) == topology.Fits })
		}
		if filter, _ := n.index.Spread(task.Pod); filter != nil {
			check(func(node *model.Node) bool { return filter.Check(node) == topology.Fits })
		}
	}
	return checks, nil
}

func hostPort(pod *corev1.Pod) int32 {
	if len(pod.Spec.Containers) == 0 || len(pod.Spec.Containers[0].Ports) == 0 {
		return 0
	}
	return pod.Spec.Containers[0].Ports[0].HostPort
}

// NamespaceLabels says that the namespaces have no labels.
func (neighbours) NamespaceLabels(string) (map[string]string, bool) { return nil, true }

// says is one thing that a member says about those with a label app: near, apart or spread by a topology label.
type says struct{ what, app, key string }

// template is what several members are made of.
type template struct {
	app  string
	cpu  int64
	port int32
	says []says
}

// siblings is a gang whose members speak of each other, and of the pods that run already.
type siblings struct {
	snapshot  *model.Snapshot
	job       *model.Job
	templates []template
	// of is the template of each member, sits the app of the pods that run on each node, repels what those keep away.
	of    []int
	sits  []string
	repel []string
}

var keys = []string{"zone", "rack"}

func drawSiblings(t *rapid.T, mood mood) *siblings {
	p := &siblings{snapshot: &model.Snapshot{Dimensions: model.NewDimensions()}}
	number := func(least, most int, what string) int { return rapid.IntRange(least, most).Draw(t, what) }
	p.templates = rapid.SliceOfN(rapid.Custom(mood.template), 1, 2).Draw(t, "templates")
	count := number(2, 8, "members")
	p.job = &model.Job{
		Key: model.JobKey{Namespace: "default", Name: "gang"}, UID: "gang", Need: model.Need{MinMember: int32(number(2, count, "min"))},
	}
	for i := range count {
		of := number(0, len(p.templates)-1, "template")
		p.of = append(p.of, of)
		p.job.Tasks = append(p.job.Tasks, p.templates[of].task(i))
	}
	p.snapshot.Jobs = []*model.Job{p.job}
	for i := range number(1, 6, "nodes") {
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i), Labels: map[string]string{}}}
		for _, key := range keys {
			if value := rapid.SampledFrom([]string{"1", "2", "3", "1", "2", "3", ""}).Draw(t, key); value != "" {
				object.Labels[key] = value
			}
		}
		room := model.Resources{int64(number(0, 4, "cpu")), 0, 0, 0}
		p.snapshot.Nodes = append(p.snapshot.Nodes, model.NewNode(object.Name, object, room))
		p.sits = append(p.sits, rapid.SampledFrom([]string{"", "", "", "a"}).Draw(t, "sits"))
		p.repel = append(p.repel, rapid.SampledFrom([]string{"", "", "", "a", "b"}).Draw(t, "repels"))
	}
	p.snapshot.AssignIndexes()
	for i, node := range p.snapshot.Nodes {
		if p.sits[i] != "" || p.repel[i] != "" {
			p.snapshot.Move(p.settled(i), model.Placement{Status: model.Running, Node: node.Name})
		}
	}
	return p
}

// mood is what members of a gang say: most that is drawn from all of it makes no sense together.
type mood []string

var moods = map[string]mood{
	"quiet": nil, "near": {"near"}, "apart": {"apart"}, "spread": {"spread"}, "mixed": {"near", "apart", "spread"},
}

func (m mood) template(t *rapid.T) template {
	one := template{
		app: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "app"), cpu: rapid.Int64Range(0, 2).Draw(t, "asks cpu"),
		port: rapid.SampledFrom([]int32{0, 0, 80}).Draw(t, "port"),
	}
	if len(m) == 0 {
		return one
	}
	one.says = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) says {
		return says{
			what: rapid.SampledFrom(m).Draw(t, "what"), app: rapid.SampledFrom([]string{"a", "a", "b"}).Draw(t, "of"),
			key: rapid.SampledFrom(keys).Draw(t, "by"),
		}
	}), 0, 2).Draw(t, "says")
	return one
}

// settled is the pod that runs on a node, and what it keeps out of the node's zone.
func (p *siblings) settled(i int) *model.Task {
	one := template{app: p.sits[i]}
	if p.repel[i] != "" {
		one.says = []says{{"apart", p.repel[i], "zone"}}
	}
	task := one.task(100 + i)
	task.Job = model.JobKey{}
	return task
}

// task makes a member. Each has a number among its labels, which no one asks about.
func (one template) task(i int) *model.Task {
	name := fmt.Sprint("m", i)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), Namespace: "default", Labels: map[string]string{"app": one.app, "index": name},
	}}
	pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}, PodAntiAffinity: &corev1.PodAntiAffinity{}}
	near := &pod.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	apart := &pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	for _, s := range one.says {
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": s.app}}
		term := corev1.PodAffinityTerm{LabelSelector: selector, TopologyKey: s.key}
		switch s.what {
		case "near":
			*near = append(*near, term)
		case "apart":
			*apart = append(*apart, term)
		case "spread":
			pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: s.key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector,
			})
		}
	}
	if one.port != 0 {
		pod.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{HostPort: one.port}}}}
	}
	return &model.Task{
		PodRef: model.PodRef{UID: pod.UID, Namespace: pod.Namespace, Name: name}, Pod: pod,
		Job:     model.JobKey{Namespace: "default", Name: "gang"},
		Request: model.Resources{one.cpu}, Shape: unique.Make(fmt.Sprint(one.cpu, one.port)),
	}
}

// feasible tries the members in every order on every node. counts are how many of each template are on each node.
func (p *siblings) feasible(counts [][]int, placed int, dead map[string]bool) bool {
	if placed >= int(p.job.MinMember) {
		return true
	}
	here := fmt.Sprint(counts)
	if dead[here] {
		return false
	}
	for of := range p.templates {
		there := 0
		for _, n := range counts[of] {
			there += n
		}
		if there == p.membersOf(of) {
			continue
		}
		for node := range p.snapshot.Nodes {
			if !p.lets(counts, of, node) {
				continue
			}
			counts[of][node]++
			fits := p.feasible(counts, placed+1, dead)
			counts[of][node]--
			if fits {
				return true
			}
		}
	}
	dead[here] = true
	return false
}

func (p *siblings) membersOf(template int) (n int) {
	for _, of := range p.of {
		if of == template {
			n++
		}
	}
	return n
}

// lets reports whether one more member of a template may go to a node.
func (p *siblings) lets(counts [][]int, of, node int) bool {
	one := p.templates[of]
	room := p.snapshot.Nodes[node].Allocatable().At(0) - one.cpu
	for other, n := range counts {
		room -= p.templates[other].cpu * int64(n[node])
		if n[node] > 0 && one.port != 0 && p.templates[other].port == one.port {
			return false
		}
	}
	if room < 0 {
		return false
	}
	if zone := p.value(node, "zone"); zone != "" {
		for at := range p.snapshot.Nodes {
			if p.repel[at] == one.app && p.value(at, "zone") == zone {
				return false
			}
		}
	}
	return p.liked(counts, of, node) && p.likes(counts, of, node) && p.even(counts, of, node)
}

func (p *siblings) value(node int, key string) string {
	return p.snapshot.Nodes[node].Object.Labels[key]
}

// count returns how many pods of the apps are in the domain of a node; each must be of all of them.
func (p *siblings) count(counts [][]int, apps []string, key, value string) (n int) {
	is := func(app string) bool {
		for _, wanted := range apps {
			if app != wanted {
				return false
			}
		}
		return true
	}
	for at := range p.snapshot.Nodes {
		if there := p.value(at, key); there == "" || value != "" && there != value {
			continue
		}
		for of, c := range counts {
			if is(p.templates[of].app) {
				n += c[at]
			}
		}
		if (p.sits[at] != "" || p.repel[at] != "") && is(p.sits[at]) {
			n++
		}
	}
	return n
}

// liked reports that no sibling in that domain excludes this template from it.
func (p *siblings) liked(counts [][]int, of, node int) bool {
	for other, c := range counts {
		for _, s := range p.templates[other].says {
			if s.what != "apart" || s.app != p.templates[of].app || p.value(node, s.key) == "" {
				continue
			}
			for at, n := range c {
				if n > 0 && p.value(at, s.key) == p.value(node, s.key) {
					return false
				}
			}
		}
	}
	return true
}

// likes reports that the siblings which must be near are near, and none that must not be. The first of its kind may go to any
// domain.
func (p *siblings) likes(counts [][]int, of, node int) bool {
	one := p.templates[of]
	var apps []string
	for _, s := range one.says {
		switch {
		case s.what == "apart" && p.value(node, s.key) != "" && p.count(counts, []string{s.app}, s.key, p.value(node, s.key)) > 0:
			return false
		case s.what == "near":
			apps = append(apps, s.app)
		}
	}
	all, some, itself := true, false, strings.Count(strings.Join(apps, ""), one.app) == len(apps)
	for _, s := range one.says {
		if s.what != "near" {
			continue
		}
		if p.value(node, s.key) == "" {
			return false
		}
		some = some || p.count(counts, apps, s.key, "") > 0
		all = all && p.count(counts, apps, s.key, p.value(node, s.key)) > 0
	}
	return all || !some && itself
}

// even reports that no constraint is broken; nodes without one of their labels do not count.
func (p *siblings) even(counts [][]int, of, node int) bool {
	one := p.templates[of]
	counted := func(at int) bool {
		for _, s := range one.says {
			if s.what == "spread" && p.value(at, s.key) == "" {
				return false
			}
		}
		return true
	}
	for _, s := range one.says {
		if s.what != "spread" {
			continue
		}
		if !counted(node) {
			return false
		}
		in := map[string]int{}
		for at := range p.snapshot.Nodes {
			if !counted(at) {
				continue
			}
			in[p.value(at, s.key)] += p.on(counts, s.app, at)
		}
		least := 1 << 30
		for _, n := range in {
			least = min(least, n)
		}
		more := 0
		if one.app == s.app {
			more = 1
		}
		if in[p.value(node, s.key)]+more-least > 1 {
			return false
		}
	}
	return true
}

// on returns how many pods of an app are on a node.
func (p *siblings) on(counts [][]int, app string, node int) (n int) {
	for of, c := range counts {
		if p.templates[of].app == app {
			n += c[node]
		}
	}
	if p.sits[node] == app {
		n++
	}
	return n
}

// TestNoFeasibleGangOfSiblingsIsMissed holds allocate to an exact solver where members speak of each other: up to 8 members of
// up to two kinds on up to 6 nodes, in every order.
func TestNoFeasibleGangOfSiblingsIsMissed(t *testing.T) {
	for name, mood := range moods {
		t.Run(name, func(t *testing.T) {
			started, refused := 0, 0
			rapid.Check(t, func(t *rapid.T) {
				p := drawSiblings(t, mood)
				want := p.feasible(p.none(), 0, map[string]bool{})
				filter := neighbours{index: topology.New(neighbours{})}
				profile := &engine.Profile{Actions: []engine.Action{allocate.New()}, Tiers: []engine.Tier{{
					{Factory: gang.New}, {Factory: func() framework.Plugin { return filter }},
				}}}
				bound := 0
				result := engine.Run(p.snapshot, profile, engine.Options{Verify: true, Decide: func(d model.Decision) {
					bound += len(d.Binds)
				}})
				if want {
					started++
				} else {
					refused++
				}
				if got := bound >= int(p.job.MinMember); got != want {
					t.Fatalf("started: %v, feasible: %v; %s", got, want, result.Refusals[p.job.Key])
				}
			})
			if t.Logf("%d started, %d did not fit", started, refused); started < 100 || refused < 100 {
				t.Error("hardly anything is tested here")
			}
		})
	}
}

// none returns how many members of each template are on each node before any is placed.
func (p *siblings) none() [][]int {
	counts := make([][]int, len(p.templates))
	for of := range counts {
		counts[of] = make([]int, len(p.snapshot.Nodes))
	}
	return counts
}
