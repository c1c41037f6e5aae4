package rehearse

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// stage is the API server, the kubelets and the controllers around a rehearsed loop, as far as a decision depends on them. Every
// call is carried out at once: a pod runs in the moment in which it is bound, and one that is evicted leaves when its grace is
// over, and is made again by its controller.
type stage struct {
	state   *cluster.State
	mailbox receiver
	clock   *virtualClock
	// pods, nodes, groups and queues are the newest versions that the stage has made; nil is one that is gone. What is not there
	// is as the state has it.
	pods    map[types.UID]*corev1.Pod
	nodes   map[string]*corev1.Node
	groups  map[model.JobKey]*v1alpha1.PodGroup
	queues  map[string]*v1alpha1.Queue
	version uint64
	// endsPods reports that pods end as far as their ends are known; planned are the ends and departures to come, sorted.
	endsPods bool
	planned  []planned
	// happened is what came about since it was taken last; calls reports that a call was answered since.
	happened []event
	calls    bool
}

// receiver takes what the stage shows: the mailbox of a loop, or what tries candidates of advice.
type receiver interface {
	Event(event cluster.Event)
	Reply(reply commit.Reply)
}

// planned is a pod that leaves, or ends, at a moment.
type planned struct {
	at   time.Time
	pod  types.UID
	ends bool
	// basis is by what the end is known.
	basis string
}

// event is one thing that came about, to a pod of a job.
type event struct {
	kind eventKind
	job  model.JobKey
	// cause is the job for which the pod was evicted; zero when there is none.
	cause model.JobKey
	node  string
	basis string
}

type eventKind int8

const (
	bound eventKind = iota
	lost
	left
	ended
)

// How an end is known.
const (
	byDeadline = "Deadline"
	byEstimate = "Estimate"
)

// firstVersion is higher than each version that an API server gives.
const firstVersion = uint64(1) << 62

func newStage(state *cluster.State, mailbox receiver, clock *virtualClock) *stage {
	return &stage{
		state: state, mailbox: mailbox, clock: clock, version: firstVersion, pods: map[types.UID]*corev1.Pod{}, nodes: map[string]*corev1.Node{},
		groups: map[model.JobKey]*v1alpha1.PodGroup{}, queues: map[string]*v1alpha1.Queue{},
	}
}

// stamp returns the next version.
func (s *stage) stamp() string {
	s.version++
	return strconv.FormatUint(s.version, 10)
}

func (s *stage) now() metav1.Time { return metav1.NewTime(s.clock.now).Rfc3339Copy() }

// confirm carries out what the live loop has assumed and no watch has shown: binds, evictions and nominations. Pods that are
// being deleted leave in their time.
func (s *stage) confirm() {
	for _, task := range tasksOf(s.state.LastSnapshot()) {
		switch {
		case task.Status == model.Binding:
			s.bind(task.UID, task.Node, assumedWith(task))
		case task.Status == model.Releasing && task.Pod.DeletionTimestamp == nil:
			s.delete(task.UID, task.GraceSeconds)
		case task.Status == model.Releasing && !task.TerminationOverdue:
			s.plan(planned{at: later(task.Pod.DeletionTimestamp.Time, s.clock.now), pod: task.UID})
		case task.Status == model.Pending && task.Nominated != task.Pod.Status.NominatedNodeName:
			s.change(task.UID, func(pod *corev1.Pod) { pod.Status.NominatedNodeName = task.Nominated })
		}
	}
	s.happened = nil // it happened before
}

// assumedWith returns the annotations that are written with an assumed bind.
func assumedWith(task *model.Task) map[string]string {
	annotations := map[string]string{}
	if place := task.Place; place != nil {
		annotations[model.AnnotationDomain] = place.Domains
		if index, said := place.Index.Get(); said {
			annotations[model.LabelIndex] = strconv.Itoa(int(index))
		}
	}
	if text, err := json.Marshal(task.Isolated); task.Isolated != nil && err == nil {
		annotations[isolated.AssignedAnnotation] = string(text)
	}
	return annotations
}

// tasksOf lists the tasks of a snapshot, by namespace, name and UID.
func tasksOf(snapshot *model.Snapshot) (tasks []*model.Task) {
	for _, job := range snapshot.Jobs {
		tasks = append(tasks, job.Tasks...)
	}
	for _, node := range snapshot.Nodes {
		for _, task := range node.Tasks {
			if task.Job == (model.JobKey{}) {
				tasks = append(tasks, task)
			}
		}
	}
	slices.SortFunc(tasks, func(a, b *model.Task) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return tasks
}

// Send carries out a call and puts the answer into the mailbox.
func (s *stage) Send(call commit.Call) {
	switch call.Kind {
	case commit.CallBind:
		s.bind(call.Pod.UID, call.Node, call.Annotations())
		s.happened = append(s.happened, event{kind: bound, job: s.state.JobOf(call.Pod.UID), node: call.Node})
	case commit.CallEvict, commit.CallDelete, commit.CallDeleteStarted:
		if pod := s.pod(call.Pod.UID); pod != nil && pod.DeletionTimestamp == nil {
			s.happened = append(s.happened, event{kind: lost, job: s.state.JobOf(call.Pod.UID), cause: call.Job, node: call.Node})
		}
		s.delete(call.Pod.UID, call.GraceSeconds)
	case commit.CallNominate:
		s.change(call.Pod.UID, func(pod *corev1.Pod) { pod.Status.NominatedNodeName = call.Node })
	}
	switch write := call.Write.(type) {
	case *commit.PodCondition:
		s.change(write.Pod.UID, func(pod *corev1.Pod) { setCondition(pod, write.Condition) })
	case *commit.GroupStatus:
		s.changeGroup(model.JobKey{Namespace: write.Namespace, Name: write.Name}, func(group *v1alpha1.PodGroup) { group.Status = write.Status })
	case *commit.QueueStatus:
		s.changeQueue(write.Name, func(queue *v1alpha1.Queue) { queue.Status = write.Status })
	case *commit.GroupDeletion:
		s.dropGroup(model.JobKey{Namespace: write.Namespace, Name: write.Name})
	}
	s.calls = true
	s.mailbox.Reply(commit.Reply{ID: call.ID})
}

// answered reports whether calls were answered since it was asked last.
func (s *stage) answered() bool {
	calls := s.calls
	s.calls = false
	return calls
}

// take returns what came about since the last call.
func (s *stage) take() []event {
	happened := s.happened
	s.happened = nil
	return happened
}

// pod returns the newest version of a pod, never to be changed; nil when it is gone.
func (s *stage) pod(uid types.UID) *corev1.Pod {
	if pod, made := s.pods[uid]; made {
		return pod
	}
	return s.state.Pod(uid)
}

// change makes a new version of a pod, unless it is gone.
func (s *stage) change(uid types.UID, edit func(*corev1.Pod)) {
	if before := s.pod(uid); before != nil {
		pod := before.DeepCopy()
		edit(pod)
		s.show(pod)
	}
}

// show makes a version of a pod the newest.
func (s *stage) show(pod *corev1.Pod) {
	pod.ResourceVersion = s.stamp()
	s.pods[pod.UID] = pod
	s.mailbox.Event(&cluster.PodSeen{Pod: pod})
}

func (s *stage) bind(uid types.UID, node string, annotations map[string]string) {
	s.change(uid, func(pod *corev1.Pod) {
		now := s.now()
		pod.Spec.NodeName, pod.Status.NominatedNodeName = node, ""
		for key, value := range annotations {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
		}
		pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &now
		for _, condition := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodReady} {
			setCondition(pod, corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: now})
		}
	})
}

func setCondition(pod *corev1.Pod, condition corev1.PodCondition) {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == condition.Type {
			pod.Status.Conditions[i] = condition
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, condition)
}

// delete lets a pod leave when its grace is over, zero for the grace that it asks for. One without a node leaves now.
func (s *stage) delete(uid types.UID, grace int64) {
	before := s.pod(uid)
	switch {
	case before == nil || before.DeletionTimestamp != nil:
		return
	case before.Spec.NodeName == "":
		s.leave(before)
		return
	case grace == 0 && before.Spec.TerminationGracePeriodSeconds != nil:
		grace = *before.Spec.TerminationGracePeriodSeconds
	case grace == 0:
		grace = corev1.DefaultTerminationGracePeriodSeconds
	}
	at := metav1.NewTime(s.clock.now.Add(time.Duration(grace) * time.Second)).Rfc3339Copy()
	s.change(uid, func(pod *corev1.Pod) { pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &at, &grace })
	s.plan(planned{at: at.Time, pod: uid})
}

// leave makes a pod gone. Its controller makes it again, unless the pod has ended, or is of a DaemonSet or of its node.
func (s *stage) leave(pod *corev1.Pod) {
	gone := pod.DeepCopy()
	gone.ResourceVersion = s.stamp()
	s.pods[pod.UID] = nil
	s.mailbox.Event(&cluster.PodSeen{Pod: gone, Gone: true})
	if s.happened = append(s.happened, event{kind: left, job: s.state.JobOf(pod.UID)}); !isMadeAgain(pod) {
		return
	}
	name, times, again := strings.Cut(pod.Name, "~")
	n := 1
	if again {
		n, _ = strconv.Atoi(times) // the stage has written it
	}
	next := &corev1.Pod{ObjectMeta: *pod.ObjectMeta.DeepCopy(), Spec: *pod.Spec.DeepCopy(), Status: corev1.PodStatus{Phase: corev1.PodPending}}
	next.Name, next.UID = fmt.Sprintf("%s~%d", name, n+1), types.UID(fmt.Sprintf("%s~%d", pod.UID, n+1))
	next.CreationTimestamp, next.DeletionTimestamp, next.DeletionGracePeriodSeconds = s.now(), nil, nil
	next.Spec.NodeName = ""
	maps.DeleteFunc(next.Annotations, func(key, _ string) bool { return writtenWithBind(key) })
	s.show(next)
}

// writtenWithBind reports whether an annotation is one that the scheduler writes with a bind: a pod that is made again has none.
func writtenWithBind(key string) bool {
	return slices.Contains([]string{isolated.AssignedAnnotation, model.AnnotationDomain, v1alpha1.AnnotationSlice, v1alpha1.AnnotationJob}, key)
}

// isMadeAgain reports whether the controller of a pod makes another one when the pod is deleted.
func isMadeAgain(pod *corev1.Pod) bool {
	controller := metav1.GetControllerOfNoCopy(pod)
	return controller != nil && controller.Kind != "DaemonSet" && controller.Kind != "Node" &&
		pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// changeNode makes a new version of a node of the last snapshot.
func (s *stage) changeNode(known *model.Node, edit func(*corev1.Node)) {
	node := known.Object.DeepCopy()
	if made := s.nodes[known.Name]; made != nil {
		node = made.DeepCopy()
	}
	edit(node)
	s.showNode(node)
}

func (s *stage) showNode(node *corev1.Node) {
	node.ResourceVersion = s.stamp()
	s.nodes[node.Name] = node
	s.mailbox.Event(&cluster.NodeSeen{Node: node})
}

func (s *stage) changeGroup(key model.JobKey, edit func(*v1alpha1.PodGroup)) {
	before, made := s.groups[key]
	if !made {
		before = s.state.Group(key)
	}
	if before != nil {
		group := before.DeepCopy()
		edit(group)
		group.ResourceVersion = s.stamp()
		s.groups[key] = group
		s.mailbox.Event(&cluster.GroupSeen{Group: group})
	}
}

func (s *stage) dropGroup(key model.JobKey) {
	s.changeGroup(key, func(*v1alpha1.PodGroup) {})
	if group := s.groups[key]; group != nil {
		gone := group.DeepCopy()
		gone.ResourceVersion = s.stamp()
		s.groups[key] = nil
		s.mailbox.Event(&cluster.GroupSeen{Group: gone, Gone: true})
	}
}

func (s *stage) changeQueue(name string, edit func(*v1alpha1.Queue)) {
	before, made := s.queues[name]
	if !made {
		before = s.state.Queue(name)
	}
	if before != nil {
		queue := before.DeepCopy()
		edit(queue)
		queue.ResourceVersion = s.stamp()
		s.queues[name] = queue
		s.mailbox.Event(&cluster.QueueSeen{Queue: queue})
	}
}

// planEnds plans the ends of the tasks on nodes, as far as they are known.
func (s *stage) planEnds(nodes []*model.Node) {
	ends := model.NewEnds(s.state.LastSnapshot())
	for _, node := range nodes {
		for _, task := range node.Tasks {
			s.planEnd(ends, task)
		}
	}
}

func (s *stage) planEnd(ends *model.Ends, task *model.Task) {
	at := ends.Of(task, false)
	if at == model.UnknownEnd || task.Status == model.Releasing {
		return
	}
	basis, limit := byEstimate, task.Pod.Spec.ActiveDeadlineSeconds
	if limit != nil && at == task.RunsSince(s.clock.now.Unix())+*limit {
		basis = byDeadline
	}
	s.plan(planned{at: later(time.Unix(at, 0), s.clock.now), pod: task.UID, ends: true, basis: basis})
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// plan keeps the order inside one instant: departures before ends, each by UID.
func (s *stage) plan(one planned) {
	order := func(a, b planned) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(btoi(a.ends), btoi(b.ends)), cmp.Compare(a.pod, b.pod))
	}
	at, _ := slices.BinarySearchFunc(s.planned, one, order)
	s.planned = slices.Insert(s.planned, at, one)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// next returns when the next pod leaves or ends; ok is false when none does.
func (s *stage) next() (at time.Time, ok bool) {
	if len(s.planned) == 0 {
		return time.Time{}, false
	}
	return s.planned[0].at, true
}

// busy reports whether a pod is leaving.
func (s *stage) busy() bool {
	return slices.ContainsFunc(s.planned, func(one planned) bool { return !one.ends })
}

// advance carries out what is due.
func (s *stage) advance() {
	for len(s.planned) > 0 && !s.planned[0].at.After(s.clock.now) {
		due := s.planned[0]
		s.planned = s.planned[1:]
		pod := s.pod(due.pod)
		switch {
		case pod == nil:
		case !due.ends:
			s.leave(pod)
		case pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded:
			s.change(due.pod, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
			s.happened = append(s.happened, event{kind: ended, job: s.state.JobOf(due.pod), basis: due.basis})
		}
	}
}
