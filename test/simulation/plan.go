package simulation

import (
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/test/invariants"
)

// Step is one thing that happens to the cluster or to a scheduler, from outside. What exactly depends on its own dice and on
// what there is then, so that any step may be left out.
type Step struct {
	At     time.Duration
	What   string
	Random uint64
}

// step is what a step may be, and how often it is.
type step struct {
	what   string
	weight int
	do     func(*world, rng)
}

// actionList are all there are.
func actionList() []step {
	return []step{
		{"submit a job", 30, (*world).submitJob},
		{"submit a pod", 12, (*world).submitPod},
		{"another scheduler's pod", 3, (*world).submitForeign},
		{"delete a pod", 8, (*world).deleteSome},
		{"delete a job", 5, (*world).deleteJob},
		{"fail a pod", 3, (*world).failSome},
		{"edit a group", 4, (*world).editGroup},
		{"delete a group", 2, (*world).deleteGroup},
		{"open gates", 5, (*world).openGates},
		{"cordon or uncordon", 3, (*world).cordon},
		{"taint or untaint", 3, (*world).taint},
		{"resize a node", 3, (*world).resize},
		{"delete a node", 2, (*world).deleteNode},
		{"add a node", 4, (*world).bringNode},
		{"set a budget", 3, (*world).setBudget},
		{"a malformed job", 1, (*world).submitMalformed},
		{"crash", 4, (*world).crash},
		{"freeze", 2, (*world).freezeOne},
		{"sleep", 2, (*world).sleepOne},
		{"set a clock", 2, (*world).setClock},
		{"end in good order", 2, (*world).endOne},
		{"cut off from the Lease", 2, (*world).cut},
		{"lose a watch", 8, (*world).loseWatch},
		{"stall a watch", 3, (*world).stallWatch},
		{"the clock jumps", 1, (*world).jump},
	}
}

// drawPlan chooses steps over about a minute and a half.
func drawPlan(d rng) []Step {
	all := actionList()
	sum := 0
	for _, one := range all {
		sum += one.weight
	}
	plan := make([]Step, pick(d, d.number(10, 60), d.number(10, 60), d.number(60, 200)))
	at := time.Duration(0)
	for i := range plan {
		at += d.span(0, pick(d, 20*time.Millisecond, time.Second, 4*time.Second))
		roll := d.IntN(sum)
		for _, one := range all {
			if roll -= one.weight; roll < 0 {
				plan[i] = Step{At: at, What: one.what, Random: d.Uint64()}
				break
			}
		}
	}
	return plan
}

// take does a step.
func (s *Simulation) take(step Step) {
	all := actionList()
	if s.config.Queues {
		all = append(all, queueActions()...)
	}
	if s.config.Foreign {
		all = append(all, foreignActions()...)
	}
	if s.config.Topology {
		all = append(all, topologyActions()...)
	}
	if s.config.Devices {
		all = append(all, deviceActions()...)
	}
	for _, one := range all {
		if one.what == step.What {
			one.do(s.world, newRandom(step.Random, one.what))
		}
	}
}

func amounts(cpu, gpu int) corev1.ResourceList {
	list := corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(cpu), resource.DecimalSI)}
	if gpu > 0 {
		list["nvidia.com/gpu"] = *resource.NewQuantity(int64(gpu), resource.DecimalSI)
	}
	return list
}

func (w *world) newJob(d rng, letter string) *job {
	w.made++
	j := &job{
		namespace: pick(d, firstNamespace, firstNamespace, secondNamespace), name: fmt.Sprintf("%s%d", letter, w.made),
		members: 1, min: 1, requests: amounts(pick(d, 0, 1, 1, 1, 2, 2, 3), pick(d, 0, 0, 0, 0, 1)), priority: pick[int32](d, 0, 0, 50, 100),
		runs:  pick(d, 0, 0, d.span(time.Second, 10*time.Second), d.span(5*time.Second, 40*time.Second)),
		grace: pick(d, 0, time.Second, 10*time.Second, 30*time.Second, 10*time.Minute), recreate: d.chance(600), gated: d.chance(50), neverPreempts: d.chance(50),
		tolerant: d.chance(200),
	}
	if d.chance(150) {
		j.selector = map[string]string{"rack": pick(d, "r0", "r1")}
	}
	if w.config.Queues {
		w.chooseQueue(d, j)
	}
	return j
}

func (w *world) submitJob(d rng) {
	j := w.newJob(d, "g")
	j.gang, j.members = true, d.number(1, 6)
	j.min = d.number(max(1, j.members-2), j.members)
	if d.chance(50) {
		j.min++ // one that waits for a member which does not come
	}
	if d.chance(200) && j.members > 1 && j.min > 1 {
		j.roles = []v1alpha1.Role{{Name: "launcher", MinMember: 1}, {Name: "worker", MinMember: int32(min(j.min-1, j.members/2))}}
	}
	j.mixed = w.made%4 == 0
	j.implicit = w.made%3 == 0 && len(j.roles) == 0 && !j.neverPreempts
	if w.config.Foreign {
		w.chooseSource(d, j)
	}
	w.chooseTopology(j)
	w.chooseRuns(j)
	w.submit(d, j)
}

func (w *world) submitPod(d rng) { w.submit(d, w.newJob(d, "p")) }

func (w *world) submitForeign(d rng) {
	j := w.newJob(d, "f")
	j.foreign, j.gated = true, false
	w.submit(d, j)
}

// submitMalformed submits what the API server takes and no scheduler can count, or what contradicts itself.
func (w *world) submitMalformed(d rng) {
	j := w.newJob(d, "m")
	j.gang, j.members, j.min = true, 2, 2
	switch d.IntN(3) {
	case 0:
		j.requests = corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(math.MaxInt64, resource.BinarySI), corev1.ResourceCPU: *resource.NewQuantity(math.MaxInt64, resource.DecimalSI)}
	case 1:
		j.roles = []v1alpha1.Role{{Name: "x", MinMember: math.MaxInt32}, {Name: "x", MinMember: math.MaxInt32}}
	default:
		j.min = -1
	}
	w.submit(d, j)
}

// some returns the name of one of the objects of a kind; false when there is none.
func (w *world) some(d rng, kind objectKind) (string, bool) {
	names := w.server.names(kind)
	if len(names) == 0 {
		return "", false
	}
	return names[d.IntN(len(names))], true
}

func (w *world) deleteSome(d rng) {
	if name, ok := w.some(d, kindPod); ok {
		w.server.deletePod(name, 0)
	}
}

func (w *world) deleteJob(d rng) {
	if len(w.jobs) == 0 {
		return
	}
	j := w.jobs[d.IntN(len(w.jobs))]
	j.ended = true
	if d.chance(700) {
		w.server.remove(j.kind(), key(j.namespace, j.name))
	}
	for _, pod := range w.server.pods() {
		if w.jobOf(pod) == j {
			w.later(d.span(0, 500*time.Millisecond), "a pod of a job that has ended goes", func() { w.server.deletePod(keyOf(pod), 0) })
		}
	}
}

func (w *world) failSome(d rng) {
	if name, ok := w.some(d, kindPod); ok && w.server.pod(name).Spec.NodeName != "" && !finished(w.server.pod(name)) {
		w.server.changePod(name, "", func(pod *corev1.Pod) { w.end(pod, corev1.PodFailed) })
	}
}

func (w *world) editGroup(d rng) {
	if name, ok := w.some(d, kindGroup); ok {
		group := w.server.group(name).DeepCopy()
		if group.Spec.MinMember += pick[int32](d, -1, 1, 2); group.Spec.MinMember >= 1 {
			group.Generation++
			w.server.update(kindGroup, group)
		}
	}
}

func (w *world) deleteGroup(d rng) {
	if name, ok := w.some(d, kindGroup); ok {
		again := w.server.group(name).DeepCopy()
		w.server.remove(kindGroup, name)
		if d.chance(700) {
			w.later(d.span(0, 5*time.Second), "a group is created again", func() {
				again.Status = v1alpha1.PodGroupStatus{}
				w.server.create(kindGroup, again)
			})
		}
	}
}

// openGates opens those of all pods of a job.
func (w *world) openGates(rng) {
	for _, pod := range w.server.pods() {
		if len(pod.Spec.SchedulingGates) > 0 {
			w.server.changePod(keyOf(pod), pod.UID, func(pod *corev1.Pod) {
				pod.Spec.SchedulingGates = nil
				pod.Generation++
			})
		}
	}
	for _, j := range w.jobs {
		j.gated = false
	}
}

func (w *world) cordon(d rng) {
	if name, ok := w.some(d, kindNode); ok {
		w.changeNode(name, func(node *corev1.Node) { node.Spec.Unschedulable = !node.Spec.Unschedulable })
	}
}

func (w *world) taint(d rng) {
	if name, ok := w.some(d, kindNode); ok {
		w.changeNode(name, func(node *corev1.Node) {
			if len(node.Spec.Taints) > 0 {
				node.Spec.Taints = nil
				return
			}
			node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
		})
	}
}

func (w *world) resize(d rng) {
	if name, ok := w.some(d, kindNode); ok {
		w.changeNode(name, func(node *corev1.Node) {
			node.Status.Allocatable[corev1.ResourceCPU] = *resource.NewQuantity(int64(d.number(0, 6)), resource.DecimalSI)
		})
	}
}

// deleteNode deletes a node, and often brings another one of its name.
func (w *world) deleteNode(d rng) {
	name, ok := w.some(d, kindNode)
	if !ok {
		return
	}
	w.server.remove(kindNode, name)
	if d.chance(600) {
		w.later(d.span(0, 30*time.Second), "a node comes back", func() { w.addNode(d, name) })
	}
}

func (w *world) bringNode(d rng) { w.addNode(d, fmt.Sprintf("n%d", d.IntN(8))) }

// setBudget protects the pods of a job, all those of a namespace, or no pod; often a second budget covers the same pods,
// or a budget changes and is not counted again for a while. Some of the pods that it covers are unready for a while.
func (w *world) setBudget(d rng) {
	name := pick(d, "one", "two", "three")
	if known := w.server.objects[kindBudget][key(firstNamespace, name)]; known != nil {
		if d.chance(500) {
			w.server.remove(kindBudget, key(firstNamespace, name))
			return
		}
		w.changeBudget(d, known.(*policyv1.PodDisruptionBudget).DeepCopy())
		return
	}
	least := intstr.FromInt32(int32(d.number(0, 4)))
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: firstNamespace, Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: &metav1.LabelSelector{}},
	}
	if len(w.jobs) > 0 {
		budget.Spec.Selector.MatchLabels = map[string]string{"job": w.jobs[d.IntN(len(w.jobs))].name}
	}
	if policy := pick(d, "", policyv1.AlwaysAllow, policyv1.IfHealthyBudget); policy != "" {
		budget.Spec.UnhealthyPodEvictionPolicy = &policy
	}
	w.server.create(kindBudget, budget)
	if d.chance(300) {
		second := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: firstNamespace, Name: "three"}, Spec: budget.Spec}
		w.server.remove(kindBudget, keyOf(second))
		w.server.create(kindBudget, second)
	}
	w.countBudgets()
	for _, pod := range w.server.pods() {
		if invariants.Covers(budget, pod) && d.chance(400) {
			w.becomesUnready(d, keyOf(pod), pod.UID)
		}
	}
}

// changeBudget gives a budget another minimum, which the disruption controller processes late.
func (w *world) changeBudget(d rng, budget *policyv1.PodDisruptionBudget) {
	least := intstr.FromInt32(int32(d.number(0, 4)))
	budget.Spec.MinAvailable = &least
	budget.Generation++
	w.server.update(kindBudget, budget)
	w.later(d.span(time.Millisecond, 20*time.Second), "a budget is counted at last", func() {
		if now := w.server.objects[kindBudget][keyOf(budget)]; now != nil && now.GetUID() == budget.UID {
			w.countBudget(now.(*policyv1.PodDisruptionBudget).DeepCopy())
		}
	})
}

// becomesUnready lets a pod be unready for a while, if it runs then.
func (w *world) becomesUnready(d rng, name string, uid types.UID) {
	set := func(status corev1.ConditionStatus) {
		if pod := w.server.pod(name); pod != nil && pod.UID == uid && pod.Status.Phase == corev1.PodRunning {
			w.server.changePod(name, uid, func(pod *corev1.Pod) { setCondition(pod, corev1.PodCondition{Type: corev1.PodReady, Status: status}) })
		}
	}
	begins := d.span(0, 10*time.Second)
	w.later(begins, "a pod is no longer ready", func() { set(corev1.ConditionFalse) })
	w.later(begins+d.span(0, 30*time.Second), "a pod is ready again", func() { set(corev1.ConditionTrue) })
}

// process returns one of the schedulers that live.
func (w *world) process(d rng) *process {
	var living []*process
	for _, name := range sortedNames(w.processes) {
		if p := w.processes[name]; !p.dead {
			living = append(living, p)
		}
	}
	if len(living) == 0 {
		return nil
	}
	return living[d.IntN(len(living))]
}

func (w *world) crash(d rng) {
	if p := w.process(d); p != nil {
		p.end("killed")
	}
}

func (w *world) freezeOne(d rng) {
	if p := w.process(d); p != nil {
		p.freeze(pick(d, d.span(100*time.Millisecond, 5*time.Second), d.span(10*time.Second, 40*time.Second)), false)
	}
}

// sleepOne lets the machine of a scheduler sleep, in which its monotonic clock stands still.
func (w *world) sleepOne(d rng) {
	if p := w.process(d); p != nil && p.disturb() {
		p.freeze(pick(d, d.span(100*time.Millisecond, 5*time.Second), d.span(10*time.Second, 40*time.Second)), true)
	}
}

// setClock sets the wall clock of a scheduler's machine.
func (w *world) setClock(d rng) {
	if p := w.process(d); p != nil && p.disturb() {
		p.set += d.span(-time.Hour, time.Hour)
	}
}

func (w *world) endOne(d rng) {
	if p := w.process(d); p != nil {
		p.shutDown()
	}
}

// cut keeps a scheduler from the Lease, but not from the rest of the API.
func (w *world) cut(d rng) {
	if p := w.process(d); p != nil {
		w.apart[p.name] = w.queue.now.Add(d.span(time.Second, 30*time.Second))
	}
}

func (w *world) loseWatch(d rng) {
	if p := w.process(d); p != nil {
		p.streams[d.IntN(len(p.streams))].lose(d.span(time.Millisecond, 5*time.Second), d.chance(600))
	}
}

func (w *world) stallWatch(d rng) {
	if p := w.process(d); p != nil {
		p.streams[d.IntN(len(p.streams))].stall(d.span(time.Second, 60*time.Second))
	}
}

// jump lets the clocks of all others jump, which is to a scheduler what a jump of its own is: its timers are not concerned.
func (w *world) jump(d rng) { w.server.jumped += d.span(-24*time.Hour, 24*time.Hour) }
