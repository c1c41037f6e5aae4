package simulation

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// world is all others that write to the server: kubelets, controllers, and users.
type world struct {
	*Simulation
	random rng
	jobs   []*job
	// made counts pods and jobs, so that no name comes twice.
	made int
	// pending is how many things kubelets and controllers are about to do.
	pending int
	// starts is how long a kubelet takes at most to start a pod.
	starts time.Duration
	// claimsFrom is when the claim controller is up again, claimRandom what it does when.
	claimsFrom  time.Time
	claimRandom rng
}

// job is what a user has asked for: so many pods alike, which a controller keeps there while they have work to do.
type job struct {
	namespace, name string
	// gang reports that it has a PodGroup, or is an implicit group; foreign that its pods are another scheduler's.
	gang, implicit, foreign bool
	members, min            int
	// source is the project whose operator made it; zero when a user did.
	source   model.Source
	roles    []v1alpha1.Role
	requests corev1.ResourceList
	// priority is that of its pods; every third one of a mixed job has the lowest.
	priority int32
	mixed    bool
	// runs is how long a pod runs, zero indefinitely; grace how long it may take to end; recreate that lost pods are made again.
	runs, grace time.Duration
	recreate    bool
	gated       bool
	selector    map[string]string
	tolerant    bool
	// queue is the one that its PodGroup names, label the one that its pods do; either may be empty.
	queue, label  string
	neverPreempts bool
	// topology says which members share domains, in the PodGroup or on the pods; numbered that labels say the index of each pod.
	topology []v1alpha1.TopologyConstraint
	numbered bool
	// asked is what each pod asks for of devices, nil for nothing; claimed counts the pods that share claims by two.
	asked   *asked
	claimed int
	ended   bool
	steps
	attempts
}

func newWorld(s *Simulation) *world {
	w := &world{Simulation: s, random: newRandom(s.config.Seed, "world"), claimRandom: newRandom(s.config.Seed, "claims"), starts: 3 * time.Second}
	if s.config.Foreign && s.config.Seed%4 > 1 { // a gang of which a container runs counts as one that was whole
		w.starts = 90 * time.Second
	}
	return w
}

// later plans something that a kubelet or controller does.
func (w *world) later(delay time.Duration, what string, do func()) {
	w.pending++
	w.queue.after(delay, what, func() {
		w.pending--
		do()
	})
}

// found makes the first nodes.
func (w *world) found() {
	for i := range pick(w.random, w.random.number(1, 6), w.random.number(1, 6), w.random.number(6, 12)) {
		w.addNode(w.random, fmt.Sprintf("n%d", i))
	}
	if w.config.Devices {
		w.foundDevices()
	}
	if w.config.Queues {
		w.foundQueues(newRandom(w.config.Seed, "queues"))
	}
}

func (w *world) addNode(d rng, name string) {
	amounts := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(int64(d.number(1, 6)), resource.DecimalSI), corev1.ResourcePods: resource.MustParse("20"),
		corev1.ResourceMemory: resource.MustParse("64Gi"),
	}
	if d.chance(300) {
		amounts["nvidia.com/gpu"] = *resource.NewQuantity(int64(d.number(1, 4)), resource.DecimalSI)
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, "rack": pick(d, "r0", "r1")}},
		Status:     corev1.NodeStatus{Allocatable: amounts, Capacity: amounts},
	}
	if w.config.Topology {
		maps.Copy(node.Labels, w.domainLabels(name))
	}
	if w.server.create(kindNode, node) && w.config.Devices {
		w.addDevices(name)
	}
}

// changeNode stores a changed copy of a node.
func (w *world) changeNode(name string, alter func(*corev1.Node)) {
	if node := w.server.node(name); node != nil {
		node = node.DeepCopy()
		alter(node)
		w.server.update(kindNode, node)
	}
}

// submit makes the objects of a job, in some order.
func (w *world) submit(d rng, j *job) {
	w.jobs = append(w.jobs, j)
	group := func() {
		if object := j.object(); object != nil {
			w.server.create(j.kind(), object)
		} else if j.gang && !j.implicit && j.source == model.SourcePodGroup {
			w.server.create(j.kind(), j.group())
		}
	}
	if d.chance(200) {
		w.later(d.span(0, 3*time.Second), "a group comes late", group)
	} else {
		group()
	}
	for range j.ofRole(j.firstRole()) {
		w.later(d.span(0, pick(d, time.Millisecond, 100*time.Millisecond, 2*time.Second)), "a pod is made", func() { w.makePod(j, j.firstRole()) })
	}
}

// kind is that of the object that describes the job.
func (j *job) kind() objectKind {
	if j.source < model.SourceCoscheduling {
		return kindGroup
	}
	return kindOf(j.source)
}

func (j *job) group() *v1alpha1.PodGroup {
	group := &v1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: j.namespace, Name: j.name},
		Spec:       v1alpha1.PodGroupSpec{MinMember: int32(j.min), Roles: j.roles, Queue: j.queue, Topology: j.topology},
	}
	if j.min%2 == 1 { // the others have the scheduler of their members
		group.Spec.SchedulerName = schedulerName
	}
	if j.neverPreempts {
		never := corev1.PreemptNever
		group.Spec.PreemptionPolicy = &never
	}
	return group
}

// makePod makes one pod of a job; role is empty where none are made later.
func (w *world) makePod(j *job, role string) {
	if j.ended || j.run > 0 && w.server.jumped != j.jumped {
		return
	}
	w.made++
	grace, priority := int64(j.grace/time.Second), j.priority
	if j.mixed && w.made%3 == 0 {
		priority = 0
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: j.namespace, Name: fmt.Sprintf("%s-%d", j.name, w.made), Labels: map[string]string{"job": j.name},
		},
		Spec: corev1.PodSpec{
			SchedulerName: schedulerName, Priority: &priority, TerminationGracePeriodSeconds: &grace, NodeSelector: j.selector,
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: j.requests}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if j.label != "" {
		pod.Labels[v1alpha1.LabelQueue] = j.label
	}
	if j.implicit {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.AnnotationMinMember, fmt.Sprint(j.min))
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: j.name, UID: types.UID("controller-" + j.name), Controller: new(true)}}
	}
	j.markRun(pod)
	if len(j.roles) > 0 {
		pod.Labels[v1alpha1.LabelRole] = j.roles[w.made%len(j.roles)].Name
	}
	if j.gang {
		w.mark(j, pod, role)
		w.place(j, pod)
	}
	if j.gated {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait.example.com"}}
	}
	if j.tolerant {
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	if j.foreign {
		names := w.server.names(kindNode)
		if len(names) == 0 {
			return
		}
		pod.Spec.SchedulerName, pod.Spec.NodeName = "another", names[w.random.IntN(len(names))]
	}
	w.claim(j, pod)
	w.server.create(kindPod, pod)
	w.refuseSome(j, pod)
}

// changed lets kubelets and controllers see what was stored.
func (w *world) changed(before object, now change) {
	switch o := now.object.(type) {
	case *corev1.Pod:
		was, _ := before.(*corev1.Pod)
		w.podChanged(was, o, now.deleted)
	case *corev1.Node:
		if now.deleted {
			w.later(w.random.span(time.Second, 20*time.Second), "pods of a node that is gone are collected", w.collect)
			if w.config.Devices {
				w.later(w.claimRandom.span(0, 20*time.Second), "devices of a node that is gone are collected", w.collectSlices)
			}
		}
	case *unstructured.Unstructured:
		if before == nil {
			w.objectMade(o)
		}
	case *resourceapi.ResourceClaim:
		w.claimChanged(o, now.deleted)
	}
}

func (w *world) podChanged(before, now *corev1.Pod, deleted bool) {
	w.controlClaims(before, now, deleted)
	name, uid := keyOf(now), now.UID
	var was corev1.Pod
	if before != nil {
		was = *before
	}
	switch {
	case deleted:
		w.replaceLost(now)
	case now.DeletionTimestamp != nil && was.DeletionTimestamp == nil:
		least, most := time.Duration(0), now.DeletionTimestamp.Sub(w.server.now().Time)
		if w.random.chance(30) && !w.config.Punctual { // a kubelet that does not answer
			least, most = most+20*time.Second, most+100*time.Second
		}
		w.later(w.random.span(least, max(least, most)), "a pod ends", func() { w.recordDeletion(name, uid) })
	case now.Spec.NodeName != "" && was.Spec.NodeName == "":
		w.later(w.startsIn(now), "a kubelet starts a pod", func() { w.run(name, uid) })
	case finished(now) && !finished(&was):
		if now.Status.Phase == corev1.PodFailed {
			w.replaceLost(now)
		}
	}
	if j := w.jobOf(now); j != nil && !deleted {
		w.control(j, &was, now)
		if finished(now) && !finished(&was) {
			w.repeat(j)
		}
	}
	if deleted || now.Status.Phase != was.Status.Phase || now.DeletionTimestamp != was.DeletionTimestamp {
		w.countBudgets()
	}
}

func (w *world) recordDeletion(name string, uid types.UID) {
	if pod := w.server.pod(name); pod != nil && pod.UID == uid {
		w.server.remove(kindPod, name)
	}
}

// run is a kubelet with a new pod: it takes it when there is capacity, as kubelets do, and lets it run.
func (w *world) run(name string, uid types.UID) {
	pod := w.server.pod(name)
	if pod == nil || pod.UID != uid || pod.DeletionTimestamp != nil || finished(pod) || w.server.node(pod.Spec.NodeName) == nil {
		return
	}
	w.server.changePod(name, uid, func(pod *corev1.Pod) {
		now := w.server.now()
		pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &now
		setCondition(pod, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
		scheduled := func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue
		}
		if !slices.ContainsFunc(pod.Status.Conditions, scheduled) { // a word of its scheduler's may have come late
			setCondition(pod, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now})
		}
	})
	j := w.jobOf(pod)
	if j == nil || j.runs == 0 {
		return
	}
	phase, fails := corev1.PodSucceeded, 100
	if j.first > 0 {
		fails = 250
	}
	if w.random.chance(fails) {
		phase = corev1.PodFailed
	}
	w.later(j.runs+w.random.span(0, time.Second), "a pod has done its work", func() {
		if pod := w.server.pod(name); pod != nil && pod.UID == uid && pod.Status.Phase == corev1.PodRunning {
			w.server.changePod(name, uid, func(pod *corev1.Pod) { w.end(pod, phase) })
		}
	})
}

// replaceLost makes a pod in the place of one that did not succeed.
func (w *world) replaceLost(lost *corev1.Pod) {
	if j := w.jobOf(lost); j != nil && j.recreate && !j.ended && lost.Status.Phase != corev1.PodSucceeded {
		w.later(w.random.span(10*time.Millisecond, 2*time.Second), "a lost pod is created again", func() {
			if role := stepOf(lost); j.first > 0 && w.isOfThisAttempt(j, lost) && w.living(j, role) < j.ofRole(role) {
				w.makePod(j, role)
			} else if j.first == 0 && runOf(lost) == j.run && w.living(j, "") < j.members {
				w.makePod(j, "")
			}
		})
	}
}

// living counts the pods of a job that have not failed, of one of its roles where part of it is made later.
func (w *world) living(j *job, role string) int {
	n := 0
	for _, pod := range w.server.pods() {
		if runOf(pod) != j.run || j.first > 0 && (stepOf(pod) != role || !w.isOfThisAttempt(j, pod)) {
			continue
		}
		if pod.Namespace == j.namespace && pod.Labels["job"] == j.name && pod.Status.Phase != corev1.PodFailed {
			n++
		}
	}
	return n
}

func (w *world) jobOf(pod *corev1.Pod) *job {
	for _, j := range w.jobs {
		if j.namespace == pod.Namespace && j.name == pod.Labels["job"] {
			return j
		}
	}
	return nil
}

// collect ends the pods whose node is gone.
func (w *world) collect() {
	for _, pod := range w.server.pods() {
		if pod.Spec.NodeName != "" && w.server.node(pod.Spec.NodeName) == nil {
			w.server.remove(kindPod, keyOf(pod))
		}
	}
}

// countBudgets is the disruption controller, which is a little late.
func (w *world) countBudgets() {
	if len(w.server.objects[kindBudget]) == 0 {
		return
	}
	w.later(w.random.span(time.Millisecond, 300*time.Millisecond), "budgets are counted", func() {
		for _, name := range w.server.names(kindBudget) {
			budget := w.server.objects[kindBudget][name].(*policyv1.PodDisruptionBudget)
			if budget.Status.ObservedGeneration == 0 || budget.Status.ObservedGeneration == budget.Generation { // else setBudget says when
				w.countBudget(budget.DeepCopy())
			}
		}
	})
}

func (w *world) countBudget(budget *policyv1.PodDisruptionBudget) {
	healthy := int32(0)
	for _, pod := range w.server.pods() {
		if invariants.Covers(budget, pod) && pod.Status.Phase == corev1.PodRunning && invariants.IsReady(pod) && pod.DeletionTimestamp == nil {
			healthy++
		}
	}
	budget.Status.ObservedGeneration = budget.Generation
	budget.Status.CurrentHealthy, budget.Status.DesiredHealthy = healthy, int32(budget.Spec.MinAvailable.IntValue())
	budget.Status.DisruptionsAllowed = max(0, healthy-budget.Status.DesiredHealthy)
	w.server.update(kindBudget, budget)
}
