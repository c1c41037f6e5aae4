package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// This file is what administrators do to Queues. All of it is drawn from random numbers of its own, so that a cluster without
// Queues is what it was before there were any.

// nowhere is a queue that no one ever makes.
const nowhere = "nowhere"

// withReclaim adds to a configuration how long the action reclaim leaves pods alone: no longer than a plan takes, or as long as
// it does by default.
func withReclaim(d rng, text []byte) []byte {
	seconds := pick(d, 1, 5, 20, 300)
	own := fmt.Sprintf("configurations: [{name: reclaim, arguments: {minRunSeconds: %d}}, ", seconds)
	if before, after, more := strings.Cut(string(text), "configurations: ["); more {
		return []byte(before + own + after)
	}
	return []byte(string(text) + own + "]\n")
}

// queueActions are the steps that change Queues, and how often each is.
func queueActions() []step {
	return []step{
		{"change a queue", 6, (*world).changeQueue},
		{"move a queue", 3, (*world).moveQueue},
		{"pause or resume a queue", 4, (*world).pauseQueue},
		{"delete a queue", 3, (*world).deleteQueue},
		{"make a queue", 3, (*world).makeQueue},
		{"relabel a namespace", 1, (*world).relabelNamespace},
		{"fill a queue", 20, (*world).fillQueue},
		{"name another queue", 2, (*world).renameQueueOfGroup},
	}
}

// drawQueuePlan chooses some of them, over the time of a plan.
func drawQueuePlan(d rng) []Step { return drawPlanOf(d, queueActions()) }

func drawPlanOf(d rng, actions []step) []Step {
	var all []string
	for _, one := range actions {
		for range one.weight {
			all = append(all, one.what)
		}
	}
	plan := make([]Step, pick(d, 0, d.number(1, 10), d.number(5, 30)))
	for i := range plan {
		plan[i] = Step{At: d.span(0, 90*time.Second), What: pick(d, all...), Random: d.Uint64()}
	}
	return plan
}

// foundQueues makes the namespaces, and often a tree of queues.
func (w *world) foundQueues(d rng) {
	for _, name := range []string{firstNamespace, secondNamespace} {
		w.server.create(kindNamespace, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	w.relabelNamespace(d)
	if d.chance(100) {
		return // the first one comes later, or none does
	}
	for i := range d.number(2, 6) {
		parent := ""
		if i > 0 && d.chance(500) {
			parent = queueName(d.IntN(i))
		}
		w.addQueue(d, queueName(i), parent)
	}
}

func queueName(i int) string { return fmt.Sprintf("q%d", i) }

// addQueue makes a queue, unless there is one of its name.
func (w *world) addQueue(d rng, name, parent string) {
	queue := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.QueueSpec{Parent: parent}}
	if d.chance(800) {
		queue.Spec.NamespaceSelector = &metav1.LabelSelector{}
	}
	queue.Spec.Paused = d.chance(50)
	setNumbers(d, &queue.Spec)
	if w.config.Devices {
		w.limitDevices(name, &queue.Spec)
	}
	w.server.create(kindQueue, queue)
}

// setNumbers draws a guarantee, a limit and a weight; rarely such as the API server takes no more, but took once.
func setNumbers(d rng, spec *v1alpha1.QueueSpec) {
	spec.Weight, spec.Guarantee, spec.Limit = nil, nil, nil
	if d.chance(700) {
		spec.Weight = new(int32(pick(d, 0, 1, 2, 3, 1_000_000)))
	}
	if d.chance(500) {
		spec.Guarantee = amounts(d.number(0, 6), d.number(0, 3))
		if d.chance(500) {
			delete(spec.Guarantee, corev1.ResourceCPU)
		}
	}
	if d.chance(450) {
		cpu, gpu := spec.Guarantee[corev1.ResourceCPU], spec.Guarantee["nvidia.com/gpu"]
		spec.Limit = amounts(int(cpu.Value())+d.number(0, 8), int(gpu.Value())+d.number(0, 2))
		switch d.IntN(4) {
		case 0:
			spec.Limit[corev1.ResourcePods] = *resource.NewQuantity(int64(d.number(0, 8)), resource.DecimalSI)
		case 1:
			delete(spec.Limit, corev1.ResourceCPU)
		}
	}
	if d.chance(20) {
		spec.Limit = amounts(-1, 0)
	}
}

// alterQueue stores a changed copy of one of the queues.
func (w *world) alterQueue(d rng, alter func(name string, spec *v1alpha1.QueueSpec)) {
	if name, ok := w.some(d, kindQueue); ok {
		w.setQueue(name, func(spec *v1alpha1.QueueSpec) { alter(name, spec) })
	}
}

// setQueue stores a changed copy of a queue, if there still is one of that name.
func (w *world) setQueue(name string, alter func(*v1alpha1.QueueSpec)) {
	if queue := w.server.queueOf(name); queue != nil {
		queue = queue.DeepCopy()
		alter(&queue.Spec)
		queue.Generation++
		w.server.update(kindQueue, queue)
	}
}

func (w *world) changeQueue(d rng) {
	w.alterQueue(d, func(_ string, spec *v1alpha1.QueueSpec) { setNumbers(d, spec) })
}

// moveQueue makes a queue a part of another one, which may be below it, or not exist, and often takes that back.
func (w *world) moveQueue(d rng) {
	w.alterQueue(d, func(name string, spec *v1alpha1.QueueSpec) {
		others := append(w.server.names(kindQueue), "", "", v1alpha1.DefaultQueue, nowhere, nowhere)
		before := spec.Parent
		if parent := pick(d, others...); parent != name {
			spec.Parent = parent
		}
		if d.chance(700) {
			w.later(d.span(0, 20*time.Second), "a queue is moved back", func() {
				w.setQueue(name, func(spec *v1alpha1.QueueSpec) { spec.Parent = before })
			})
		}
	})
}

// pauseQueue pauses a queue, often for a while, or resumes it.
func (w *world) pauseQueue(d rng) {
	w.alterQueue(d, func(name string, spec *v1alpha1.QueueSpec) {
		if spec.Paused = !spec.Paused; spec.Paused && d.chance(900) {
			w.later(d.span(0, 20*time.Second), "a queue is resumed", func() {
				w.setQueue(name, func(spec *v1alpha1.QueueSpec) { spec.Paused = false })
			})
		}
	})
}

// deleteQueue deletes a queue, and often makes it again as it was.
func (w *world) deleteQueue(d rng) {
	name, ok := w.some(d, kindQueue)
	if !ok {
		return
	}
	spec := w.server.queueOf(name).Spec
	w.server.remove(kindQueue, name)
	if d.chance(700) {
		w.later(d.span(0, 10*time.Second), "a queue is made again", func() {
			w.server.create(kindQueue, &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *spec.DeepCopy()})
		})
	}
}

func (w *world) makeQueue(d rng) {
	w.addQueue(d, pick(d, queueName(d.IntN(6)), v1alpha1.DefaultQueue), pick(d, append(w.server.names(kindQueue), "", "", "")...))
}

// relabelNamespace lets a namespace name a queue, or none.
func (w *world) relabelNamespace(d rng) {
	namespace := w.server.objects[kindNamespace][pick(d, firstNamespace, secondNamespace)].(*corev1.Namespace).DeepCopy()
	namespace.Labels = nil
	if d.chance(700) {
		namespace.Labels = map[string]string{v1alpha1.LabelQueue: queueName(d.IntN(6))}
	}
	w.server.update(kindNamespace, namespace)
}

// renameQueueOfGroup moves a job to another queue.
func (w *world) renameQueueOfGroup(d rng) {
	if name, ok := w.some(d, kindGroup); ok {
		group := w.server.group(name).DeepCopy()
		group.Spec.Queue = w.someQueue(d)
		group.Generation++
		w.server.update(kindGroup, group)
	}
}

// fillQueue submits jobs of one queue that run indefinitely, for as much as there is or more.
func (w *world) fillQueue(d rng) {
	name, request := w.someQueue(d), amounts(pick(d, 1, 1, 2), pick(d, 0, 0, 1))
	for range d.number(2, 4) {
		j := w.newJob(d, "t")
		j.gang, j.members, j.runs, j.gated, j.selector = true, d.number(1, 4), 0, false, nil
		j.min, j.requests, j.queue, j.label, j.recreate = d.number(1, j.members), request, name, "", true
		j.grace = pick(d, 0, time.Second, 10*time.Second)
		w.chooseTopology(j)
		w.submit(d, j)
	}
}

// chooseQueue chooses what a job says of its queue, its PodGroup or its pods.
func (w *world) chooseQueue(d rng, j *job) {
	name := w.someQueue(d)
	if d.chance(500) {
		j.queue = name
	} else {
		j.label = name
	}
}

// someQueue returns the name of a queue that takes jobs, mostly.
func (w *world) someQueue(d rng) string {
	all := w.server.names(kindQueue)
	leaves := slices.DeleteFunc(slices.Clone(all), w.server.queues().Inner)
	if len(leaves) > 0 && d.chance(850) {
		return pick(d, leaves...)
	}
	return pick(d, append(all, "", v1alpha1.DefaultQueue, nowhere)...)
}
