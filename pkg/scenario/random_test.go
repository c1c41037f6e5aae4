package scenario

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"
)

// lens is a lister whose view a test replaces, so that kube-scheduler's plugins are built once for many clusters.
type lens struct{ fwk.SharedLister }

// openLens returns a maker of stages that share kube-scheduler's plugins.
func openLens(t *testing.T) func() *stage {
	t.Helper()
	view := &lens{SharedLister: newStage().state.View()}
	kube, stop, err := openKube(view, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return func() *stage {
		s := newStage()
		view.SharedLister = s.state.View()
		s.kube, s.reserved = kube, kube
		return s
	}
}

// dice draws lines of objects.
type dice struct {
	t *rapid.T
	// names counts what was named, so that no name comes twice.
	names int
}

func (d *dice) n(least, most int) int { return rapid.IntRange(least, most).Draw(d.t, "n") }

func (d *dice) one(of ...string) string { return rapid.SampledFrom(of).Draw(d.t, "word") }

// seldom returns the text once in so many times.
func (d *dice) seldom(times int, text string) string {
	if d.n(1, times) == 1 {
		return " " + text
	}
	return ""
}

func (d *dice) node(i int) string {
	line := fmt.Sprintf("node n%d cpu=%d memory=%dGi labels=rack=%s", i, d.n(0, 8), d.n(0, 8), d.one("a", "b"))
	line += d.seldom(2, fmt.Sprintf("nvidia.com/gpu=%d", d.n(0, 4))) + d.seldom(4, fmt.Sprintf("pods=%d", d.n(0, 4)))
	line += d.seldom(3, fmt.Sprintf("example.com/fpga=%d", d.n(0, 4))) + d.seldom(3, fmt.Sprintf("acme.com/tpu=%d", d.n(0, 4)))
	line += d.seldom(6, "taints=gpu=true:NoSchedule") + d.seldom(8, "unschedulable")
	if d.n(1, 15) == 1 {
		line = fmt.Sprintf("node n%d allocatable=none", i)
	}
	return line
}

func (d *dice) pod(words string) string {
	d.names++
	line := fmt.Sprintf("pod p%03d %s cpu=%d", d.names, words, d.n(0, 4))
	line += d.seldom(2, fmt.Sprintf("memory=%dGi", d.n(0, 4))) + d.seldom(4, fmt.Sprintf("nvidia.com/gpu=%d", d.n(0, 2)))
	line += d.seldom(8, fmt.Sprintf("example.com/fpga=%d", d.n(1, 4))) + d.seldom(8, fmt.Sprintf("acme.com/tpu=%d", d.n(1, 4)))
	line += d.seldom(3, fmt.Sprintf("priority=%d", d.n(-2, 3))) + d.seldom(3, fmt.Sprintf("age=%ds", d.n(0, 9)))
	line += d.seldom(6, "selector=rack="+d.one("a", "b", "c")) + d.seldom(6, "tolerate="+d.one("*", "gpu=true:NoSchedule"))
	line += d.seldom(4, "labels=app="+d.one("x", "y")) + d.seldom(9, "ports=80")
	line += d.seldom(9, d.one("affinity", "anti", "near", "apart")+"=app="+d.one("x", "y")+"@"+d.one("rack", "kubernetes.io/hostname"))
	line += d.seldom(9, "spread=app="+d.one("x", "y")+"@rack:1")
	return line + d.seldom(12, "gates=a.b/c") + d.seldom(20, "ephemeral-storage=100E")
}

func (d *dice) group() string {
	d.names++
	name, minimum := fmt.Sprintf("g%03d", d.names), d.n(1, 4)
	var lines []string
	if d.n(1, 10) > 1 {
		line := fmt.Sprintf("group %s min=%d age=%ds", name, minimum, d.n(0, 9))
		line += d.seldom(4, fmt.Sprintf("roles=r:%d", d.n(1, minimum)))
		lines = append(lines, line+d.seldom(5, "class="+d.one("low", "high", "none")))
	}
	for range d.n(0, 6) {
		lines = append(lines, d.pod("group="+name+d.seldom(3, "role=r")))
	}
	return strings.Join(lines, "\n")
}

func (d *dice) cluster() string {
	lines := []string{"class low value=-5", "class high value=5"}
	nodes := d.n(0, 5)
	for i := range nodes {
		lines = append(lines, d.node(i))
	}
	for range d.n(0, 4) {
		lines = append(lines, d.group())
	}
	for range d.n(0, 4) {
		lines = append(lines, d.pod(""))
	}
	for range d.n(0, 3) {
		lines = append(lines, d.pod(fmt.Sprintf("scheduler=other phase=%s node=n%d", d.one("Running", "Pending", "Succeeded"), d.n(0, 5))))
	}
	return strings.Join(lines, "\n")
}

// happen draws something that happens to the cluster.
func (d *dice) happen(s *stage) error {
	w := s.world
	bound := w.podNames(func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil })
	all := w.podNames(func(*corev1.Pod) bool { return true })
	onTheWay := w.podNames(func(pod *corev1.Pod) bool { return s.coming[pod.UID] != "" })
	some := func(names []string) []string {
		if len(names) == 0 {
			return nil
		}
		return []string{rapid.SampledFrom(names).Draw(d.t, "pod")}
	}
	switch d.n(0, 10) {
	case 0:
		return s.befall("run", some(bound), nil)
	case 1:
		return s.befall("finish", some(bound), nil)
	case 2:
		return s.befall("fail", some(bound), nil)
	case 3:
		return s.befall("terminate", some(bound), map[string]string{"grace": "10s"})
	case 4:
		return w.remove("pod", some(all))
	case 5:
		return s.befall("ungate", some(all), nil)
	case 6:
		return s.reject(some(onTheWay))
	case 7:
		return s.confirm()
	case 8:
		return w.apply(d.node(d.n(0, 4)))
	case 9:
		return w.apply(d.group())
	default:
		w.now = w.now.Add(15 * time.Second)
		return nil
	}
}

// TestRandomClusters keeps the invariants that the player checks after each cycle, whatever happens in between, and comes
// to rest: after a cycle that decides nothing there is nothing to decide.
func TestRandomClusters(t *testing.T) {
	newStage := openLens(t)
	rapid.Check(t, func(t *rapid.T) {
		d, s := &dice{t: t}, newStage()
		if err := s.world.apply(d.cluster()); err != nil {
			t.Fatal(err)
		}
		for range d.n(1, 6) {
			if _, err := s.cycle(); err != nil {
				t.Fatal(err)
			}
			if d.n(0, 2) > 0 {
				if err := s.confirm(); err != nil {
					t.Fatal(err)
				}
			}
			for range d.n(0, 3) {
				if err := d.happen(s); err != nil {
					t.Fatal(err)
				}
			}
		}
		rest(t, s)
	})
}

// rest lets a cluster be, and sees that one cycle is enough and that the next gives the same reasons.
func rest(t *rapid.T, s *stage) {
	if err := s.confirm(); err != nil {
		t.Fatal(err)
	}
	var before *outcome
	for i := range 3 {
		o, err := s.cycle()
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && len(o.decisions) > 0 {
			t.Fatalf("an unchanged cluster, cycle %d:\n%s", i+1, o)
		}
		if i > 1 && before.waits() != o.waits() {
			t.Fatalf("other reasons for an unchanged cluster:\n%s\n%s", before.waits(), o.waits())
		}
		before = o
		if err := s.confirm(); err != nil {
			t.Fatal(err)
		}
	}
	checkIdleRoom(t, s, before)
}

// checkIdleRoom: nobody is left waiting whom a look at the idle room, ignoring all but the request, would place; for plain
// pods on nodes that take everybody.
func checkIdleRoom(t *rapid.T, s *stage, o *outcome) {
	for key, refusal := range o.refusals {
		job := o.snapshot.Job(key)
		if !key.Single || refusal.Code != "InsufficientResources" || !plain(job.Tasks[0].Pod) {
			continue
		}
		for _, node := range o.snapshot.Nodes {
			open := len(node.Object.Spec.Taints) == 0 && !node.Object.Spec.Unschedulable && node.Refused == nil && !repels(s)
			if open && node.Lacking(job.Tasks[0].Request, 0) < 0 {
				t.Fatalf("%s waits, and %s has room:\n%s", key, node.Name, o)
			}
		}
	}
}

func plain(pod *corev1.Pod) bool {
	return pod.Spec.NodeSelector == nil && pod.Spec.Affinity == nil && pod.Spec.TopologySpreadConstraints == nil &&
		len(pod.Spec.Containers[0].Ports) == 0
}

// repels tells whether some pod might keep others away.
func repels(s *stage) bool {
	return len(s.world.podNames(func(pod *corev1.Pod) bool {
		return pod.Spec.Affinity != nil && pod.Spec.Affinity.PodAntiAffinity != nil
	})) > 0
}
