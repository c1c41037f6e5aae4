package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins"
)

// land is kube-scheduler's plugins where namespaces are those that a stage's state knows.
type land struct {
	plugins.Kube
	stage *environment
}

func (l land) NamespaceLabels(name string) (labels map[string]string, exists bool) {
	return l.stage.state.NamespaceLabels(name)
}

// openLister returns a maker of stages that share kube-scheduler's plugins. Those look at the stage that was made last, or that
// aim was called for.
func openLister(t testing.TB) func() *environment {
	t.Helper()
	view := &lister{SharedLister: newStage().state.View()}
	server, err := openKube(view, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.stop)
	if err := server.start(); err != nil {
		t.Fatal(err)
	}
	return func() *environment {
		s := newStage()
		s.view = view
		s.focus()
		s.kube, s.reserved = land{Kube: server.plugins, stage: s}, server.plugins
		return s
	}
}

// random draws lines of objects.
type random struct {
	t *rapid.T
	// names counts what was named, so that no name comes twice.
	names int
}

func (d *random) n(least, most int) int { return rapid.IntRange(least, most).Draw(d.t, "n") }

func (d *random) one(of ...string) string { return rapid.SampledFrom(of).Draw(d.t, "word") }

// seldom returns the text once in so many times.
func (d *random) seldom(times int, text string) string {
	if d.n(1, times) == 1 {
		return " " + text
	}
	return ""
}

// configuration is the built-in one, or one by which gangs that wait get capacity reserved immediately, pods go for the share of
// another queue although they have started lately, or nodes are liked for other reasons.
func (d *random) configuration() []byte {
	text := string(config.DefaultYAML()) + topologies
	if d.n(0, 1) == 0 {
		text = reserveAtOnce(d.n(1, 2), d.one("reserveShare: 100", "reserveShare: 50", "reserveShare: 100, reserveFor: 3m"))
	}
	if d.n(0, 1) == 0 {
		const none = "configurations: ["
		freely := none + "{name: reclaim, arguments: {minRunSeconds: 0}}, "
		if text = strings.Replace(text, none, freely, 1); !strings.Contains(text, none) {
			text += freely + "]\n"
		}
	}
	if d.n(0, 1) == 0 {
		text = strings.Replace(text, "  - name: nodeorder\n", "  - name: nodeorder\n  - name: topology\n", 1)
	}
	if d.n(0, 2) > 0 {
		return []byte(text)
	}
	arguments := "  - name: nodeorder\n    arguments:\n"
	for _, score := range []string{
		"leastrequested", "mostrequested", "balancedresource", "requestedtocapacityratio", "nodeaffinity", "podaffinity", "tainttoleration",
		"imagelocality", "podtopologyspread", "nodepreferavoidpods",
	} {
		arguments += fmt.Sprintf("      %s.weight: %s\n", score, d.one("0", "0", "1", "3", "10000"))
	}
	return []byte(strings.Replace(text, "  - name: nodeorder\n", arguments, 1))
}

// reserveAtOnce is a configuration with so many reservations at most, and other limits.
func reserveAtOnce(reservations int, limits string) string {
	return fmt.Sprintf("%s\nconfigurations: [{name: backfill, arguments: {reserveAfter: \"0\", reservations: %d, %s}}]\n",
		string(config.DefaultYAML())+topologies, reservations, limits)
}

func (d *random) node(i int) string {
	line := fmt.Sprintf("node n%d cpu=%d memory=%dGi", i, d.n(0, 8), d.n(0, 8))
	line += " labels=" + d.one("rack=a", "rack=b", "zone=c", "rack=a,zone=c", "rack=b,zone=c") + d.one("", ",block=x", ",block=y", ",block=x,clique=c")
	line += d.seldom(2, fmt.Sprintf("nvidia.com/gpu=%d", d.n(0, 4))) + d.seldom(4, fmt.Sprintf("pods=%d", d.n(0, 4)))
	line += d.seldom(3, fmt.Sprintf("example.com/fpga=%d", d.n(0, 4))) + d.seldom(3, fmt.Sprintf("acme.com/tpu=%d", d.n(0, 4)))
	line += d.seldom(4, "taints=gpu=true:"+d.one("NoSchedule", "PreferNoSchedule")) + d.seldom(8, "unschedulable")
	line += d.seldom(4, "images="+d.one("cuda:latest", "mpi:latest", "cuda:latest,mpi:latest"))
	if d.n(1, 3) == 1 {
		line += " isolated=" + d.one("4-5", "4-5/6-7", "2-3/4-7", "0-3/4-7") + d.seldom(2, "threads=2") + d.seldom(4, "mode=excluded")
	}
	if d.n(1, 15) == 1 {
		line = fmt.Sprintf("node n%d allocatable=none", i)
	}
	return line
}

func (d *random) pod(space, words string) string {
	d.names++
	line := fmt.Sprintf("pod %sp%03d %s", space, d.names, words)
	if d.n(0, 2) == 0 { // many pods are alike
		return line + " cpu=1" + d.seldom(2, "image=cuda")
	}
	line += fmt.Sprintf(" cpu=%d", d.n(0, 4))
	line += d.seldom(2, fmt.Sprintf("memory=%dGi", d.n(0, 4))) + d.seldom(4, fmt.Sprintf("nvidia.com/gpu=%d", d.n(0, 2)))
	line += d.seldom(8, fmt.Sprintf("example.com/fpga=%d", d.n(1, 4))) + d.seldom(8, fmt.Sprintf("acme.com/tpu=%d", d.n(1, 4)))
	if d.n(1, 5) == 1 {
		line += " isolcpu=true" + d.seldom(2, "numa=required") + d.seldom(3, "smt="+d.one("require-full-core", "one-per-core"))
	}
	line += d.seldom(3, fmt.Sprintf("priority=%d", d.n(-2, 3))) + d.seldom(3, fmt.Sprintf("age=%ds", d.n(0, 9)))
	line += d.seldom(6, "selector=rack="+d.one("a", "b", "c")) + d.seldom(6, "tolerate="+d.one("*", "gpu=true:NoSchedule"))
	line += d.seldom(4, "labels=app="+d.one("x", "y")+d.one("", "", ",scheduling.tutti.dev/queue="+d.queueName())) + d.seldom(9, "ports=80")
	line += d.seldom(5, d.one("affinity", "anti", "near", "apart")+"=app="+d.one("x", "y")+
		"@"+d.one("rack", "zone", "kubernetes.io/hostname")+d.one("", "", "@*", "@team=a", "@two"))
	line += d.seldom(8, "spread=app="+d.one("x", "y")+"@"+d.one("rack", "zone")+":1"+d.one("", ":soft"))
	line += d.seldom(6, "image="+d.one("cuda", "mpi")) + d.seldom(9, "prefer=rack="+d.one("a", "b"))
	line += d.seldom(3, fmt.Sprintf("deadline=%ds", 20*d.n(1, 4)))
	return line + d.seldom(12, "gates=a.b/c") + d.seldom(20, "ephemeral-storage=100E")
}

// space is the namespace of what is named next.
func (d *random) space() string { return d.one("", "", "one/", "two/") }

func (d *random) namespace() string {
	return "namespace " + d.one("default", "one", "two") + d.seldom(2, "labels=team="+d.one("a", "b")+
		d.one("", "", ",scheduling.tutti.dev/queue="+d.queueName()))
}

func (d *random) queueName() string { return d.one("q0", "q1", "q2", "q3") }

func (d *random) queue() string {
	return "queue " + d.one(d.queueName(), "default") + d.seldom(2, "parent="+d.one(d.queueName(), "default")) +
		d.seldom(2, fmt.Sprintf("weight=%d", d.n(0, 3))) +
		d.seldom(3, fmt.Sprintf("guarantee=cpu:%d", d.n(0, 4))+d.one("", fmt.Sprintf(",nvidia.com/gpu:%d", d.n(0, 2)))) +
		d.seldom(2, fmt.Sprintf("limit=cpu:%d", d.n(0, 9))+d.one("", fmt.Sprintf(",nvidia.com/gpu:%d", d.n(0, 3)), ",pods:2")) +
		" selector=" + d.one("*", "*", "*", "team=a") + d.seldom(8, "paused")
}

func (d *random) group() string {
	d.names++
	name, space, minimum := fmt.Sprintf("g%03d", d.names), d.space(), d.n(1, 4)
	var lines []string
	if d.n(1, 5) == 1 {
		return d.foreignGroup(space, name, minimum)
	}
	if d.n(1, 10) > 1 {
		line := fmt.Sprintf("group %s%s min=%d age=%ds", space, name, minimum, d.n(0, 9))
		line += d.seldom(4, fmt.Sprintf("roles=r:%d", d.n(1, minimum))) + d.seldom(3, "topology="+d.topology()+d.one("", "", ","+d.topology()))
		line += d.seldom(3, fmt.Sprintf("expected=%ds", 20*d.n(1, 4))) + d.seldom(2, "queue="+d.queueName())
		lines = append(lines, line+d.seldom(5, "class="+d.one("low", "high", "none")))
	}
	shares := d.shares()
	says := d.minMember() // of the group as its pods say it, whether or not there is a PodGroup
	for range d.n(0, 6) {
		if d.n(1, 8) == 1 {
			says = d.minMember()
		}
		lines = append(lines, d.pod(space, "group="+name+d.seldom(3, "role=r")+says+shares))
	}
	return strings.Join(lines, "\n")
}

// topology is one domain that members share.
func (d *random) topology() string {
	return d.one("rack", "rack", "block", "block", "host", "clique", "rack~", "block~", "zone/x", "none", "rack@r", "rack:2", "block:2", "clique:2", "rack:3", "rack~!30", "rack@r:2")
}

// shares is what pods say of the domains that they share.
func (d *random) shares() string {
	return d.seldom(4, d.one(
		"topology="+d.topology(), "topology=label:rack,"+d.topology(), "annotations="+sources.KueueRequired+"="+d.one("rack", "block", "a/b/c"),
		"annotations="+sources.KueuePreferred+"=rack,"+sources.KueueSlice+"=rack", "annotations="+sources.KAIRequired+"="+d.one("rack", "none"),
		"annotations="+v1alpha1.AnnotationTopology+"={}",
	))
}

// foreignGroup is a group of another project, or pods that name one which does not exist.
func (d *random) foreignGroup(space, name string, minimum int) string {
	var lines []string
	kind := d.one("coscheduling", "volcano", "kubernetes", "kueue", "leaderworkerset")
	object := fmt.Sprintf("%s %s%s min=%d age=%ds", kind, space, name, minimum, d.n(0, 9))
	mark := kind + "=" + name
	switch kind {
	case "coscheduling":
		object += d.seldom(4, "resources.cpu=3")
	case "volcano":
		object += d.seldom(3, fmt.Sprintf("tasks=r:%d", d.n(1, 3))) + d.seldom(3, "queue="+d.queueName()) + d.seldom(5, "class="+d.one("low", "high", "none"))
	case "kubernetes":
		if d.n(1, 4) == 1 {
			object = fmt.Sprintf("%s %s%s basic", kind, space, name)
		}
		object += d.seldom(5, "class="+d.one("low", "high", "none")) + d.seldom(4, "topology="+d.one("rack", "zone", "rack,zone"))
		mark += d.seldom(3, "volcano="+name) + d.seldom(4, "kueue="+name+" total=2")
	case "kueue":
		object, mark = "", fmt.Sprintf("kueue=%s total=%d", name, minimum)+d.seldom(5, "serving")
	default:
		object = strings.TrimSpace(d.seldom(2, fmt.Sprintf("leaderworkerset %s%s startup=%s", space, name, d.one("LeaderReady", "LeaderCreated"))))
	}
	if object != "" && d.n(1, 10) > 1 {
		lines = append(lines, object)
	}
	shares := d.shares()
	for i := range d.n(0, 6) {
		if kind == "leaderworkerset" {
			role := d.one("worker", "worker", "leader")
			mark = fmt.Sprintf("%s=%s/%d size=%d revision=r%d", role, name, d.n(0, 1), minimum, d.n(0, 1)) + d.seldom(6, "exclusive=zone")
		}
		more := shares + d.seldom(8, "group=g001")
		if kind == "volcano" && i%2 == 0 {
			more += " task=r"
		}
		lines = append(lines, d.pod(space, mark+more))
	}
	return strings.Join(lines, "\n")
}

// minMember is what the members of an implicit group say, of one controller or another.
func (d *random) minMember() string {
	if d.n(1, 3) > 1 {
		return ""
	}
	return " min=" + d.one("1", "2", "2", "3", "0", "many") + d.one("", " owner=Job/u1", " owner=Job/u1", " owner=Job/u2")
}

func (d *random) cluster() string {
	lines := []string{"class low value=-5", "class high value=5", d.namespace(), "read coscheduling yes", "read volcano yes", "read kubernetes yes", "read leaderworkerset yes"}
	if d.n(0, 1) == 0 { // else the names of queues have no effect
		for range d.n(1, 6) {
			lines = append(lines, d.queue())
		}
	}
	nodes := d.n(0, 5)
	for i := range nodes {
		lines = append(lines, d.node(i))
	}
	for range d.n(0, 4) {
		lines = append(lines, d.group())
	}
	for range d.n(0, 4) {
		lines = append(lines, d.pod(d.space(), ""))
	}
	for range d.n(0, 3) {
		lines = append(lines, d.pod("", fmt.Sprintf("scheduler=other phase=%s node=n%d", d.one("Running", "Pending", "Succeeded"), d.n(0, 5))))
	}
	return strings.Join(lines, "\n")
}

// happen draws something that happens to the cluster.
func (d *random) happen(s *environment) error {
	w := s.world
	bound := w.podNames(func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil })
	running := w.podNames(func(pod *corev1.Pod) bool { // a kubelet never changes the phase of a pod that has ended
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && !ended
	})
	all := w.podNames(func(*corev1.Pod) bool { return true })
	pending := w.podNames(func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" })
	onTheWay := w.podNames(func(pod *corev1.Pod) bool { return s.coming[pod.UID] != "" })
	some := func(names []string) []string {
		if len(names) == 0 {
			return nil
		}
		return []string{rapid.SampledFrom(names).Draw(d.t, "pod")}
	}
	switch d.n(0, 25) {
	case 23:
		return d.changeForeign(w, func(kind, name string) error {
			says := d.one("min=0", "min=1", "min=2", "min=5", "min=-1")
			if kind == "leaderworkerset" {
				says = "startup=" + d.one("LeaderReady", "LeaderCreated")
			}
			return w.apply(fmt.Sprintf("%s %s %s", kind, name, says))
		})
	case 24:
		return d.changeForeign(w, func(kind, name string) error { return w.remove(kind, []string{name}) })
	case 20:
		return w.apply(d.queue())
	case 21:
		return w.remove("queue", some(slices.Sorted(maps.Keys(w.queues))))
	case 22:
		return w.changePods(some(all), func(pod *corev1.Pod) { pod.Labels[v1alpha1.LabelQueue] = d.queueName() })
	case 0:
		return s.applyEvents("run", some(running), nil)
	case 1:
		return s.applyEvents("finish", some(running), nil)
	case 2:
		return s.applyEvents("fail", some(running), nil)
	case 3:
		return s.applyEvents("terminate", some(bound), map[string]string{"grace": "10s"})
	case 4:
		return w.remove("pod", some(all))
	case 5:
		return s.applyEvents("ungate", some(all), nil)
	case 6:
		return s.reject(some(onTheWay), nil)
	case 7:
		return s.confirm()
	case 8:
		return w.apply(d.node(d.n(0, 4)))
	case 9:
		return w.apply(d.group())
	case 10:
		return w.remove("node", some(slices.Sorted(maps.Keys(w.nodes))))
	case 11:
		return d.replaceNode(w, some(slices.Sorted(maps.Keys(w.nodes))))
	case 12:
		return w.changePods(some(all), func(pod *corev1.Pod) { pod.Labels["app"] = d.one("x", "y") })
	case 13:
		return w.changeNodes(some(slices.Sorted(maps.Keys(w.nodes))), d.touch)
	case 14:
		return w.remove("group", some(slices.Sorted(maps.Keys(w.groups))))
	case 15:
		return w.apply(d.namespace())
	case 16:
		return w.changePods(some(pending), d.widen)
	case 18:
		return w.changePods(some(all), func(pod *corev1.Pod) { pod.Annotations[v1alpha1.AnnotationMinMember] = d.one("1", "2", "3", "many") })
	case 25:
		return w.changePods(some(all), func(pod *corev1.Pod) {
			pod.Annotations[v1alpha1.AnnotationTopology] = d.one(`[{"level":"rack"}]`, `[{"level":"block"}]`, `[]`, `{}`)
		})
	case 17:
		return w.apply("class " + d.one("low", "high") + " value=" + fmt.Sprint(d.n(-9, 9)))
	default:
		w.now = w.now.Add(15 * time.Second)
		return nil
	}
}

// changeForeign changes one of the groups of other projects, if there is any.
func (d *random) changeForeign(w *world, change func(kind, name string) error) error {
	jobs := slices.SortedFunc(maps.Keys(w.foreign), model.JobKey.Compare)
	if len(jobs) == 0 {
		return nil
	}
	job := rapid.SampledFrom(jobs).Draw(d.t, "foreign group")
	return change(sourceName(job.Source), job.Namespace+"/"+job.Name)
}

// replaceNode lets a node go and another one come under its name, before a cycle sees it.
func (d *random) replaceNode(w *world, names []string) error {
	if len(names) == 0 {
		return nil
	}
	i, err := strconv.Atoi(names[0][1:])
	if err != nil {
		return err
	}
	if err := w.remove("node", names); err != nil {
		return err
	}
	return w.apply(d.node(i))
}

// touch changes one thing about a node: something that matters, or that it is alive.
func (d *random) touch(node *corev1.Node) {
	switch d.n(0, 5) {
	case 0:
		node.Labels["rack"] = d.one("a", "b")
	case 1:
		delete(node.Labels, d.one("rack", "zone"))
	case 2:
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "gpu", Value: "true", Effect: corev1.TaintEffectNoSchedule})
	case 3:
		node.Spec.Taints = nil
	case 4:
		node.Status.Images = []corev1.ContainerImage{{Names: []string{d.one("cuda:latest", "mpi:latest")}, SizeBytes: int64(d.n(1, 4)) << 29}}
	default:
		node.Annotations = map[string]string{"beat": fmt.Sprint(d.n(0, 9))}
	}
}

// widen changes what a pod that waits asks for.
func (d *random) widen(pod *corev1.Pod) {
	pod.Generation++
	switch d.n(0, 2) {
	case 0:
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	case 1:
		pod.Spec.NodeSelector = nil
	default:
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(d.n(0, 2)), resource.DecimalSI)}
	}
}

// TestRandomClusters keeps the invariants that the player checks after each cycle, whatever happens in between, and comes
// to rest: after a cycle that decides nothing there is nothing to decide.
func TestRandomClusters(t *testing.T) {
	newStage := openLister(t)
	rapid.Check(t, func(t *rapid.T) {
		d, s := &random{t: t}, newStage()
		s.configuration = d.configuration()
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

// rest lets a cluster be until a cycle decides nothing, and sees that the next ones decide nothing either, for the same
// reasons.
func rest(t *rapid.T, s *environment) {
	const busy = 6 // cycles that may decide something: what one binds or evicts, the next may act upon
	var before *outcome
	quiet := 0
	for i := 0; quiet < 3; i++ {
		if err := s.confirm(); err != nil {
			t.Fatal(err)
		}
		o, err := s.cycle()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case len(o.decisions) == 0:
			quiet++
		case quiet > 0 || i >= busy:
			t.Fatalf("an unchanged cluster, cycle %d:\n%s", i+1, o)
		}
		if quiet > 2 && before.waits() != o.waits() {
			t.Fatalf("other reasons for an unchanged cluster:\n%s\n%s", before.waits(), o.waits())
		}
		before = o
	}
	checkIdleRoom(t, s, before)
}

// checkIdleRoom: no pod is left waiting that a look at the idle capacity, ignoring all but the request, would place; for plain
// pods on nodes that take any pod.
func checkIdleRoom(t *rapid.T, s *environment, o *outcome) {
	for key, refusal := range o.refusals {
		job := o.snapshot.Job(key)
		if !key.IsPod() || refusal.Code != "InsufficientResources" || !plain(job.Tasks[0].Pod) {
			continue
		}
		for _, node := range o.snapshot.Nodes {
			if node.Isolated != nil && node.Isolated.Mode == isolated.Excluded || !node.HeldCPUs(false).Empty() {
				continue // its kubelet may count otherwise
			}
			open := len(node.Object.Spec.Taints) == 0 && !node.Object.Spec.Unschedulable && node.Invalid == nil && !repels(s)
			if open && node.Free(model.Idle).Fits(job.Tasks[0].Request) {
				t.Fatalf("%s waits, and %s has capacity:\n%s", key, node.Name, o)
			}
		}
	}
}

func plain(pod *corev1.Pod) bool {
	return !isolated.AskedBy(pod).Wants() && pod.Spec.NodeSelector == nil && pod.Spec.Affinity == nil && pod.Spec.TopologySpreadConstraints == nil &&
		len(pod.Spec.Containers[0].Ports) == 0
}

// repels reports whether some pod might keep others away.
func repels(s *environment) bool {
	return len(s.world.podNames(func(pod *corev1.Pod) bool {
		return pod.Spec.Affinity != nil && pod.Spec.Affinity.PodAntiAffinity != nil
	})) > 0
}
