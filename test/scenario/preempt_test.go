package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/model"
)

// fight draws clusters on which the higher want the capacity of the lower: nothing but capacity and a label decides, so that a
// solver fits on a page.
type fight struct {
	*random
	stage *environment
	// budgets reports that some pods are protected.
	budgets bool
}

func (f *fight) cluster() string {
	var lines []string
	for i := range f.n(1, 4) {
		lines = append(lines, f.node(i))
	}
	for i := range f.n(0, 2) {
		if f.budgets {
			lines = append(lines, fmt.Sprintf("budget b%d allowed=%d selector=app=%s%s%s%s", i, f.n(0, 2), f.one("x", "y"),
				f.seldom(3, "unready=AlwaysAllow"), f.seldom(3, fmt.Sprintf("healthy=%d/1", f.n(0, 1))), f.seldom(4, "behind=1")))
		}
	}
	for range f.n(2, 5) {
		lines = append(lines, f.gang(f.n(0, 2)))
	}
	return strings.Join(lines, "\n")
}

func (f *fight) node(i int) string {
	return fmt.Sprintf("node n%d cpu=%d memory=%dGi labels=rack=%s", i, f.n(1, 5), f.n(1, 5), f.one("a", "b"))
}

// gang draws a gang, or single pods, of one priority.
func (f *fight) gang(priority int) string {
	f.names++
	name, members, words := fmt.Sprintf("g%03d", f.names), f.n(1, 3), ""
	var lines []string
	if f.n(0, 2) > 0 {
		lines = append(lines, fmt.Sprintf("group %s min=%d", name, f.n(1, members)))
		if words = "group=" + name; priority == 0 && f.n(0, 1) == 0 { // no pod is evicted for it, so the solver need not know
			lines[0] += " roles=chief:1"
			words += " role=" + f.one("chief", "hand")
		}
	}
	for i := range members {
		if i > 0 && strings.Contains(words, "role=chief") {
			words = strings.Replace(words, "chief", f.one("chief", "hand"), 1)
		}
		lines = append(lines, fmt.Sprintf("pod %s-%d %s priority=%d cpu=%d memory=%dGi labels=app=%s%s",
			name, i, words, priority, f.n(0, 3), f.n(0, 2), f.one("x", "y", "z"), f.seldom(6, "selector=rack="+f.one("a", "b"))))
	}
	return strings.Join(lines, "\n")
}

// happen draws what happens between two cycles: victims go, or come back, or do not go; others come, end, or run.
func (f *fight) happen() error {
	w := f.stage.world
	leaving := w.podNames(func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	switch f.n(0, 8) {
	case 0, 1, 2:
		for _, name := range leaving {
			if f.n(0, 1) == 0 {
				continue
			}
			pod := w.pods[name]
			if err := w.remove("pod", []string{name}); err != nil {
				return err
			}
			if f.n(0, 1) == 0 {
				continue
			}
			f.names++ // its owner creates it again
			again := pod.DeepCopy()
			again.Spec.NodeName, again.Status, again.DeletionTimestamp = "", corev1.PodStatus{Phase: corev1.PodPending}, nil
			if err := w.setPod(again, line{kind: "pod", namespace: pod.Namespace, name: fmt.Sprintf("again%03d", f.names)}); err != nil {
				return err
			}
		}
		return nil
	case 3, 4:
		return w.apply(f.gang(f.n(1, 5)))
	case 5:
		w.now = w.now.Add(time.Duration(f.n(5, 40)) * time.Second)
		return nil
	case 6:
		bound := w.podNames(func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil })
		if len(bound) > 0 {
			return f.stage.applyEvents("finish", []string{f.one(bound...)}, nil)
		}
	case 7:
		return f.shake()
	case 8: // budgets are asked about pods that run, and about their readiness
		if bound := w.podNames(func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded }); f.budgets && len(bound) > 0 {
			if err := f.stage.applyEvents("run", nil, nil); err != nil {
				return err
			}
			return f.stage.applyEvents(f.one("ready", "unready"), []string{f.one(bound...)}, nil)
		}
	}
	return nil
}

// shake changes the nodes: what was nominated on them may not be enough any more.
func (f *fight) shake() error {
	w := f.stage.world
	names := slices.Sorted(maps.Keys(w.nodes))
	if len(names) == 0 || f.n(0, 4) == 0 {
		return w.apply(f.node(f.n(0, 5)))
	}
	name := []string{f.one(names...)}
	switch f.n(0, 3) {
	case 0:
		return w.cordon(name, true)
	case 1:
		return w.cordon(name, false)
	case 2:
		return w.remove("node", name)
	default:
		return w.changeNodes(name, func(node *corev1.Node) { node.Labels["rack"] = f.one("a", "b") })
	}
}

// end lets all pods go that have to, and the cluster come to rest.
func (f *fight) end(t *rapid.T) {
	for range 8 {
		if _, err := f.stage.cycle(); err != nil {
			t.Fatal(err)
		}
		if err := f.stage.confirm(); err != nil {
			t.Fatal(err)
		}
		if err := f.stage.applyEvents("leave", nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	rest(t, f.stage)
}

// TestPreemption keeps invariants I9 to I15 on random clusters over several cycles, with victims that take their time and come
// back: the player checks I11 to I15 after each cycle, verify mode I9, and the solver below I10.
//
// Seed 2017049 is a gang that is evicted and takes the place of another one in the same cycle.
func TestPreemption(t *testing.T) {
	newStage := openLister(t)
	evicted := 0
	rapid.Check(t, func(t *rapid.T) {
		f := &fight{random: &random{t: t}, stage: newStage(), budgets: rapid.Bool().Draw(t, "budgets")}
		if err := f.stage.world.apply(f.cluster()); err != nil {
			t.Fatal(err)
		}
		for range f.n(3, 9) {
			before := f.stage.sight()
			o, err := f.stage.cycle()
			if err != nil {
				t.Fatal(err)
			}
			evicted += before.follow(t, o)
			if err := f.stage.confirm(); err != nil {
				t.Fatal(err)
			}
			if err := f.happen(); err != nil {
				t.Fatal(err)
			}
		}
		f.end(t)
	})
	t.Logf("%d pods were evicted", evicted)
	if evicted == 0 {
		t.Error("none was evicted: this tests nothing")
	}
}

// sight is a cluster as a solver sees it: what each pod wants and where it is, and who is gone.
type sight struct {
	stage *environment
	where map[string]string // of each pod
	kept  map[string]string // where a pod was nominated to be in this cycle
	next  int               // the decision that is looked at; kept says what those before it nominate
	gone  map[string]bool
	// paid are the jobs that others were evicted for in this cycle. Where turns are not in the order of priorities, their capacity
	// is not for those above them as long as the cycle lasts, and what those above get later was not for them.
	paid  map[model.JobKey]bool
	turns bool
}

func (s *environment) sight() *sight {
	v := &sight{stage: s, where: map[string]string{}, kept: map[string]string{}, gone: map[string]bool{}, paid: map[model.JobKey]bool{}}
	for name, pod := range s.world.pods {
		v.where[name] = pod.Spec.NodeName
		v.gone[name] = pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || s.leaves(pod)
	}
	return v
}

// follow goes through the decisions of a cycle and looks at each eviction; it returns how many there were.
func (v *sight) follow(t rapid.TB, o *outcome) (evicted int) {
	for i, d := range o.decisions {
		v.next = i
		for _, e := range d.Evictions {
			v.gone[key(e.Pod.Namespace, e.Pod.Name)] = true
			evicted++
		}
		if len(d.Evictions) > 0 {
			v.hold(t, o, d)
			v.paid[d.Job] = true
		}
		for _, bind := range d.Binds {
			v.where[key(bind.Pod.Namespace, bind.Pod.Name)] = bind.Node
		}
		for _, nomination := range d.Nominations {
			v.kept[key(nomination.Pod.Namespace, nomination.Pod.Name)] = nomination.Node
		}
	}
	return evicted
}

// hold is invariant I10: the job starts once its victims are gone, and not if any unit of them stayed.
func (v *sight) hold(t rapid.TB, o *outcome, d model.Decision) {
	if !v.starts(o, d.Job, false) {
		t.Fatalf("invariant I10: pods are evicted for %s, which cannot start:\n%s", d.Job, o)
	}
	byJob := map[string][]string{}
	for _, e := range d.Evictions {
		name := key(e.Pod.Namespace, e.Pod.Name)
		owner := v.stage.ownerOf(v.stage.world.pods[name])
		byJob[owner] = append(byJob[owner], name)
	}
	for owner, names := range byJob {
		units := [][]string{names}
		if v.left(owner) > 0 {
			units = nil
			for _, name := range names {
				units = append(units, []string{name})
			}
		}
		for _, unit := range units {
			for _, name := range unit {
				v.gone[name] = false
			}
			if v.starts(o, d.Job, true) {
				t.Fatalf("invariant I10: %v are evicted for %s, which starts without:\n%s", unit, d.Job, o)
			}
			for _, name := range unit {
				v.gone[name] = true
			}
		}
	}
}

// left returns how many pods of a job still run.
func (v *sight) left(owner string) int {
	n := 0
	for name, pod := range v.stage.world.pods {
		if v.stage.ownerOf(pod) == owner && v.where[name] != "" && !v.gone[name] && pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// starts reports whether enough members of the job find capacity, by trying each on every node. passing reports whether
// capacity nominated to other jobs in this cycle without evictions is taken; from outside one cannot see whether that was
// before.
func (v *sight) starts(o *outcome, job model.JobKey, passing bool) bool {
	var members []*corev1.Pod
	has := 0
	for _, name := range v.stage.world.podNames(func(pod *corev1.Pod) bool {
		return pod.Namespace == job.Namespace && v.stage.ownerOf(pod) == jobName(job)
	}) {
		pod := v.stage.world.pods[name]
		switch {
		case pod.Status.Phase == corev1.PodSucceeded, v.where[name] != "" && pod.DeletionTimestamp == nil && !v.gone[name]:
			has++
		case pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil && v.where[name] == "": // an evicted one does not wait
			members = append(members, pod)
		}
	}
	needs := 1
	if group := v.stage.groupOfJob(job); group != nil {
		needs = int(group.Spec.MinMember)
	}
	return v.fit(v.free(o, job, passing), members, needs-has)
}

// free returns what each node has left for the job: pods that are gone do not count, nor does capacity kept for lower jobs.
func (v *sight) free(o *outcome, job model.JobKey, passing bool) map[string][2]int64 {
	free := map[string][2]int64{}
	for name, node := range v.stage.world.nodes {
		if node.Spec.Unschedulable {
			continue
		}
		free[name] = [2]int64{node.Status.Allocatable.Cpu().MilliValue(), node.Status.Allocatable.Memory().Value()}
	}
	take := func(pod *corev1.Pod, node string) {
		left, there := free[node]
		if !there { // the node is gone, and the pod not yet
			return
		}
		requests := pod.Spec.Containers[0].Resources.Requests
		free[node] = [2]int64{left[0] - requests.Cpu().MilliValue(), left[1] - requests.Memory().Value()}
	}
	for name, pod := range v.stage.world.pods {
		if v.gone[name] {
			continue
		}
		node := v.where[name]
		if node == "" {
			node = v.nominated(o, pod, job, passing)
		}
		if node != "" {
			take(pod, node)
		}
	}
	return free
}

// nominated returns where a pod that waits has capacity that the job must leave alone: that of equal or higher priority.
func (v *sight) nominated(o *outcome, pod *corev1.Pod, job model.JobKey, passing bool) string {
	owner := v.stage.jobOf(pod)
	if owner == job || v.stage.priorityOfJob(owner) < v.stage.priorityOfJob(job) && !(v.turns && v.paid[owner]) {
		return ""
	}
	node, again := v.kept[key(pod.Namespace, pod.Name)]
	if !again {
		node = pod.Status.NominatedNodeName
	}
	for _, d := range o.decisions[v.next:] {
		for _, p := range d.Nominations { // what a job gives up later in the cycle was for others already
			if p.Pod.UID == pod.UID && (p.Node == "" || !again && p.Node != node) && !moved(d, node) {
				node = ""
			}
		}
	}
	if node != "" {
		return node
	}
	for _, task := range o.snapshot.Job(owner).Tasks {
		late := v.turns && v.stage.priorityOfJob(owner) > v.stage.priorityOfJob(job)
		if passing && task.Pod.Name == pod.Name && task.Status == model.Pipelined && (late || !decided(o, owner)) {
			return task.Node
		}
	}
	return ""
}

// moved reports whether a decision nominates a node to some member: what another member releases there stays with the job.
func moved(d model.Decision, node string) bool {
	return slices.ContainsFunc(d.Nominations, func(p model.Nomination) bool { return p.Node == node })
}

// decided reports whether the job got its capacity by a decision, which follow goes through in its turn.
func decided(o *outcome, job model.JobKey) bool {
	return slices.ContainsFunc(o.decisions, func(d model.Decision) bool {
		return d.Job == job && (len(d.Binds) > 0 || slices.ContainsFunc(d.Nominations, func(p model.Nomination) bool { return p.Node != "" }))
	})
}

func (v *sight) fit(free map[string][2]int64, members []*corev1.Pod, needs int) bool {
	if needs <= 0 {
		return true
	}
	if len(members) < needs {
		return false
	}
	pod := members[0]
	requests := pod.Spec.Containers[0].Resources.Requests
	cpu, memory := requests.Cpu().MilliValue(), requests.Memory().Value()
	for name, left := range free {
		rack := pod.Spec.NodeSelector["rack"]
		if cpu > 0 && cpu > left[0] || memory > 0 && memory > left[1] || rack != "" && v.stage.world.nodes[name].Labels["rack"] != rack {
			continue
		}
		free[name] = [2]int64{left[0] - cpu, left[1] - memory}
		fits := v.fit(free, members[1:], needs-1)
		free[name] = left
		if fits {
			return true
		}
	}
	return v.fit(free, members[1:], needs)
}
