package inprocess

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// This file makes the objects of a workload.

// Objects is what a watch would tell of a workload, and of what waits apart from the rest.
type Objects struct {
	Nodes    []*corev1.Node
	Queues   []*v1alpha1.Queue
	Existing Batch
	Pending  Batch
	// Devices are there where pods ask for devices by claims.
	Devices Devices
}

// Batch is gangs and pods.
type Batch struct {
	Groups []*v1alpha1.PodGroup
	// Foreign are groups of others, in place of ours.
	Foreign []*sources.Spec
	Pods    []*corev1.Pod
}

// Objects makes the objects.
func (w Workload) Objects() Objects {
	o := w.inPodGroups()
	for i, node := range o.Nodes {
		w.Topology.label(node, i)
	}
	if w.Claims {
		o.byClaims()
	}
	o.Pending.share(w)
	o.Pending.writtenBy(w.Source)
	if w.Roles {
		o.Pending.inRoles()
	}
	return o
}

// inPodGroups makes the objects with PodGroups of ours.
func (w Workload) inPodGroups() Objects {
	d := objectBuilder{random: rand.New(rand.NewPCG(1, 2)), created: epoch, queues: w.Queues, flat: w.Kind.queues() > 0}
	var o Objects
	for i := range w.Queues {
		o.Queues = append(o.Queues, d.queue(i))
	}
	if w.Kind == Reclaim {
		o.Queues = append(o.Queues, d.taker(w.Pending))
	}
	for i := range w.Nodes {
		o.Nodes = append(o.Nodes, d.node(i))
	}
	if w.Kind.full() {
		d.victims(&o.Existing, w)
	} else {
		d.existing(&o.Existing, w)
	}
	if w.Kind == Hopeless || w.Kind == Minima {
		d.hopeless(&o.Pending, w)
		return o
	}
	request := func() corev1.ResourceList { return small() }
	switch w.Kind {
	case Shapes:
		request = d.interleaved()
	case Singles:
		request = func() corev1.ResourceList { return devices(1) }
	case WholeNodes:
		request = func() corev1.ResourceList { return devices(w.Topology.gpus()) }
	}
	for i := 0; len(o.Pending.Pods) < w.Pending; i++ {
		size := min(w.GangSize, w.Pending-len(o.Pending.Pods))
		d.gang(&o.Pending, "wait-"+strconv.Itoa(i), size, func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Requests = request()
			if w.Kind.full() {
				if w.Queues == 0 {
					*pod.Spec.Priority = urgent
				}
				pod.Spec.Containers[0].Resources.Requests[gpu] = one()
			}
			w.Kind.constrain(pod)
		})
		if w.Kind == Reclaim {
			o.Pending.Groups[i].Spec.Queue = takerName
		}
	}
	return o
}

// objectBuilder makes objects one after another, each a little younger than the one before.
type objectBuilder struct {
	random  *rand.Rand
	created time.Time
	serial  int
	queues  int
	// flat says that the queues have no parents, guarantees and limits, and all the same weight.
	flat bool
}

// meta is what the API server would have written into an object.
func (d *objectBuilder) meta(prefix, name string) metav1.ObjectMeta {
	d.serial++
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(prefix + name), ResourceVersion: strconv.Itoa(d.serial),
		CreationTimestamp: metav1.NewTime(d.created), Generation: 1,
	}
}

func (d *objectBuilder) node(i int) *corev1.Node {
	name := fmt.Sprintf("node-%05d", i)
	node := cluster.Node(name, map[string]string{"cpu": "64", "memory": "512Gi", "pods": "500", gpu: "8"},
		cluster.NodeLabels(map[string]string{corev1.LabelTopologyZone: "zone-" + strconv.Itoa(i%zones)}))
	if i < rareNodes {
		node.Status.Allocatable[rare], node.Status.Capacity[rare] = one(), one()
	}
	meta := d.meta("node-", name)
	node.UID, node.ResourceVersion, node.CreationTimestamp = meta.UID, meta.ResourceVersion, meta.CreationTimestamp
	return node
}

// underOne is how many queues are under one, and at the top: 1,000 are a tree of four levels.
const underOne = 6

// queue is one of the tree. Every fourth has a guarantee, and every third a limit that it does not reach.
func (d *objectBuilder) queue(i int) *v1alpha1.Queue {
	queue := d.open(queueName(i))
	if d.flat {
		return queue
	}
	*queue.Spec.Weight = int32(1 + i%5)
	if i >= underOne {
		queue.Spec.Parent = queueName(i/underOne - 1)
	}
	if i%4 == 0 {
		queue.Spec.Guarantee = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10")}
	}
	if i%3 == 0 {
		queue.Spec.Limit = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10M"), gpu: resource.MustParse("1M")}
	}
	return queue
}

// takerName is the queue of the gang that reclaims.
const takerName = "taker"

// taker is guaranteed so many GPUs.
func (d *objectBuilder) taker(gpus int) *v1alpha1.Queue {
	queue := d.open(takerName)
	queue.Spec.Guarantee = corev1.ResourceList{gpu: *resource.NewQuantity(int64(gpus), resource.DecimalSI)}
	return queue
}

// open is a queue that all namespaces may use.
func (d *objectBuilder) open(name string) *v1alpha1.Queue {
	weight := int32(1)
	queue := &v1alpha1.Queue{
		ObjectMeta: d.meta("queue-", name), Spec: v1alpha1.QueueSpec{Weight: &weight, NamespaceSelector: &metav1.LabelSelector{}},
	}
	queue.Namespace = ""
	return queue
}

func queueName(i int) string { return fmt.Sprintf("queue-%04d", i) }

// leaf is the name of the queue of a gang; empty when there are no queues.
func (d *objectBuilder) leaf(gang int) string {
	if d.queues == 0 {
		return ""
	}
	inner := 0
	if !d.flat {
		inner = (d.queues - 1) / underOne
	}
	return queueName(inner + gang%(d.queues-inner))
}

// existing fills the nodes evenly.
func (d *objectBuilder) existing(b *Batch, w Workload) {
	for i := 0; len(b.Pods) < w.Existing; i++ {
		size := min(runningGang, w.Existing-len(b.Pods))
		d.gang(b, "run-"+strconv.Itoa(i), size, func(pod *corev1.Pod) {
			pod.Spec.NodeName = fmt.Sprintf("node-%05d", len(b.Pods)%w.Nodes)
			pod.Status.Phase = corev1.PodRunning
			pod.Spec.Containers[0].Resources.Requests = small()
			if i%2 == 1 {
				delete(pod.Labels, v1alpha1.LabelPodGroup)
				pod.Spec.SchedulerName = corev1.DefaultSchedulerName
			}
		})
		if i%2 == 1 {
			b.Groups = b.Groups[:len(b.Groups)-1]
		}
	}
}

// victims gives every GPU to a pod, node by node, as far as the pods go.
func (d *objectBuilder) victims(b *Batch, w Workload) {
	size := w.Kind.runs()
	for i := 0; len(b.Pods) < w.Existing; i++ {
		d.gang(b, "run-"+strconv.Itoa(i), min(size, w.Existing-len(b.Pods)), func(pod *corev1.Pod) {
			pod.Spec.NodeName = fmt.Sprintf("node-%05d", len(b.Pods)%w.Nodes)
			pod.Status.Phase = corev1.PodRunning
			pod.Spec.Containers[0].Resources.Requests = small()
			pod.Spec.Containers[0].Resources.Requests[gpu] = one()
			if size == 1 {
				delete(pod.Labels, v1alpha1.LabelPodGroup)
			}
		})
		if size == 1 {
			b.Groups = b.Groups[:len(b.Groups)-1]
		}
	}
}

// gang adds a group that needs all its members, and them, each finished by a function.
func (d *objectBuilder) gang(b *Batch, name string, size int, finish func(*corev1.Pod)) {
	d.created = d.created.Add(time.Second)
	b.Groups = append(b.Groups, &v1alpha1.PodGroup{
		ObjectMeta: d.meta("group-", name), Spec: v1alpha1.PodGroupSpec{MinMember: int32(size), Queue: d.leaf(len(b.Groups))},
	})
	for i := range size {
		pod := d.pod(name, i)
		finish(pod)
		b.Pods = append(b.Pods, pod)
	}
}

// pod is a member as the API server would tell of it, with what admission writes into every pod.
func (d *objectBuilder) pod(gang string, index int) *corev1.Pod {
	var priority int32
	var grace, tolerated int64 = 30, 300
	policy := corev1.PreemptLowerPriority
	toleration := func(key string) corev1.Toleration {
		return corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &tolerated,
		}
	}
	meta := d.meta("pod-", gang+"-"+strconv.Itoa(index))
	meta.Labels = map[string]string{
		v1alpha1.LabelPodGroup: gang, "app": gang,
		"batch.kubernetes.io/job-completion-index": strconv.Itoa(index),
	}
	return &corev1.Pod{
		ObjectMeta: meta,
		Spec: corev1.PodSpec{
			SchedulerName: harness.SchedulerName, Priority: &priority, PreemptionPolicy: &policy,
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &grace,
			Tolerations: []corev1.Toleration{toleration(corev1.TaintNodeNotReady), toleration(corev1.TaintNodeUnreachable)},
			Containers:  []corev1.Container{{Name: "main", Image: "example.com/none"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

// hopeless adds gangs of more members than there are nodes with what they need, and then gangs of small pods.
func (d *objectBuilder) hopeless(b *Batch, w Workload) {
	for i := 0; len(b.Pods) < w.Pending; i++ {
		size, shape := max(rareNodes+1, min(w.GangSize, w.Pending-len(b.Pods))), i%hopelessShapes
		if w.Kind == Minima {
			if shape = 0; i%everyOther == 0 {
				size += i / everyOther % differentMinima
			}
		}
		d.gang(b, "wait-"+strconv.Itoa(i), size, func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
				corev1.ResourceCPU: *resource.NewMilliQuantity(1000+int64(shape), resource.DecimalSI), rare: one(),
			}
		})
	}
	for i := range startable {
		d.gang(b, "start-"+strconv.Itoa(i), startableSize, func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Requests = small()
		})
	}
}

func one() resource.Quantity { return resource.MustParse("1") }

// small is what kube-scheduler's own benchmark asks for.
func small() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("500Mi"),
	}
}

// devices is a request of so many GPUs.
func devices(n int64) corev1.ResourceList {
	list := small()
	list[gpu] = *resource.NewQuantity(n, resource.DecimalSI)
	return list
}

// interleaved returns the requests of one pod after another: any of many shapes, each as likely, with the shape of the
// pod before it in runs of the usual length.
func (d *objectBuilder) interleaved() func() corev1.ResourceList {
	last := 0
	return func() corev1.ResourceList {
		if d.random.Float64() >= 1-1/runLength {
			// Any but the last, or runs would be longer than asked for.
			last = (last + 1 + d.random.IntN(manyShapes-1)) % manyShapes
		}
		return shape(last)
	}
}

// shape is the request with a number: a GPU for each third, and CPU and memory that no other has.
func shape(i int) corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(100+int64(i)*25, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity((256+int64(i*7%manyShapes)*64)<<20, resource.BinarySI),
	}
	if i%3 == 0 {
		list[gpu] = one()
	}
	return list
}

// constrain gives a pod what its kind asks of the other members' nodes.
func (k Kind) constrain(pod *corev1.Pod) {
	siblings := &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}}
	term := func(key string) []corev1.PodAffinityTerm {
		return []corev1.PodAffinityTerm{{LabelSelector: siblings, TopologyKey: key}}
	}
	switch k {
	case Zone, VictimsZone:
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: term(corev1.LabelTopologyZone),
		}}
	case Host, VictimsHost:
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: term(corev1.LabelHostname),
		}}
	case Spread, VictimsSpread:
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: siblings,
		}}
	case Identical, Shapes, Hopeless, Minima, Victims, VictimGangs, Reclaim, NothingToTake, Singles, WholeNodes:
	}
}
