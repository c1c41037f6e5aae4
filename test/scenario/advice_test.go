package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/cluster/groups"
	"github.com/tutti-sched/tutti/internal/suggest"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestAdviceIsTrueAndSmall: whatever change is named, with it the job starts, in a scheduler that knows nothing but the objects;
// and with anything less of the same kind it does not, except where members require a place beside possible victims. Other jobs
// that wait are left out of it, since they may take what is freed first.
//
// Seed 16213088753871266276 is the story of the member that tolerates the cordon in internal/suggest/testdata/everyday.txt.
func TestAdviceIsTrueAndSmall(t *testing.T) {
	newStage := openLister(t)
	said, compared := map[suggest.Kind]int{}, 0
	rapid.Check(t, func(t *rapid.T) {
		d, s := &random{t: t}, newStage()
		lines := d.cluster()
		if d.n(0, 1) == 0 {
			lines = d.others()
		}
		t.Log(lines)
		if err := s.world.apply(lines); err != nil {
			t.Fatal(err)
		}
		settleDown(t, s)
		type told struct {
			job    *model.Job
			advice suggest.Suggestions
		}
		var all []told
		s.eachAdvice(1_000_000, func(job *model.Job, advice suggest.Suggestions) {
			all = append(all, told{job, advice})
			if leastRoom(t, s.state.Snapshot(s.world.now), job, advice) {
				compared++
			}
		})
		for _, one := range all {
			for _, change := range one.advice {
				if change[0].Kind == suggest.Create && !change[0].Verified {
					continue
				}
				trial := trial{t: t, newStage: newStage, stage: s, job: one.job.Key, suggestion: change}
				trial.run()
				for _, part := range change {
					said[part.Kind]++
				}
			}
		}
		s.focus()
	})
	total := 0
	for _, times := range said {
		total += times
	}
	if total > 5_000 && compared == 0 { // a few of a thousand
		t.Errorf("none of %d changes was compared with the least that would do", total)
	}
	for kind := suggest.Create; kind <= suggest.Widen; kind++ {
		if total > 20_000 && said[kind] == 0 { // some are rare
			t.Errorf("nothing of kind %d was ever said: %v", kind, said)
		}
	}
}

// others draws a few nodes full of pods, and gangs that wait for them.
func (d *random) others() string {
	lines := []string{"class low value=-5", "class high value=5"}
	nodes := d.n(1, 4)
	for i := range nodes {
		lines = append(lines, fmt.Sprintf("node n%d cpu=%d nvidia.com/gpu=%d", i, d.n(2, 8), d.n(0, 4))+d.seldom(3, "taints=gpu=true:NoSchedule")+
			d.seldom(3, "unschedulable")+" labels=block=x,rack="+d.one("a", "b"))
	}
	for i := range d.n(1, 6) {
		lines = append(lines, fmt.Sprintf("pod old%d cpu=%d priority=%d phase=Running node=n%d tolerate=*", i, d.n(1, 3), d.n(0, 3), d.n(0, nodes-1))+
			d.seldom(3, "nvidia.com/gpu=1"))
	}
	for i := range d.n(1, 2) {
		members := d.n(1, 6)
		missing := 0
		if d.n(1, 4) == 1 {
			missing = d.n(1, 2)
		}
		lines = append(lines, fmt.Sprintf("group g%d min=%d", i, members+missing)+d.seldom(3, fmt.Sprintf("roles=r:%d", d.n(1, members+missing))))
		words := fmt.Sprintf("cpu=%d priority=%d", d.n(1, 4), d.n(-1, 3)) + d.seldom(3, fmt.Sprintf("nvidia.com/gpu=%d", d.n(1, 3))) +
			d.seldom(4, "selector=rack="+d.one("a", "b", "c")) + d.seldom(3, "preemption=Never") + d.seldom(9, "gates=a.b/c") +
			d.seldom(6, "labels=app=x anti=app=x@kubernetes.io/hostname")
		for j := range members {
			odd := d.seldom(9, fmt.Sprintf("memory=%dMi", d.n(1, 3)))
			lines = append(lines, fmt.Sprintf("pod g%d-%d group=g%d role=r %s", i, j, i, words)+odd)
		}
	}
	for i, line := range lines { // in the end, so that seeds stay what they were
		if strings.HasPrefix(line, "group ") {
			lines[i] += d.seldom(3, "topology="+d.one("rack", "host"))
		}
	}
	return strings.Join(lines, "\n")
}

// settleDown plays cycles until nothing is decided.
func settleDown(t *rapid.T, s *environment) {
	for range 12 {
		o, err := s.cycle()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.confirm(); err != nil {
			t.Fatal(err)
		}
		if err := s.applyEvents("leave", nil, nil); err != nil {
			t.Fatal(err)
		}
		if len(o.decisions) == 0 {
			return
		}
	}
}

// leastRoom holds what is to be freed to what is in use, and to the least of all that would do, found by trying how many
// members go where. That is for members that are alike and ask for CPU alone, on nodes that are open to them, while no pod
// could be evicted; compared reports whether that was so.
func leastRoom(t *rapid.T, snapshot *model.Snapshot, job *model.Job, advice suggest.Suggestions) (compared bool) {
	if len(advice) == 0 || len(advice[0]) != 1 || advice[0][0].Kind != suggest.Free {
		return false
	}
	said, rooms := int64(0), advice[0][0].Rooms
	for _, room := range rooms {
		inUse := model.Resources{}
		for _, task := range snapshot.Node(room.Node).Tasks {
			inUse.Add(task.Request)
		}
		for position, amount := range room.Amount {
			if said += amount; amount > inUse.At(position)+grainOf(position)-1 {
				t.Fatalf("%s: %q, where %v is in use", jobName(job.Key), advice, inUse)
			}
		}
	}
	waiting := job.Pending()
	request := waiting[0].Request.At(model.CPU)
	for _, task := range waiting {
		if !plain(task.Pod) || len(task.Pod.Spec.Tolerations) > 0 || !task.Request.Equal(model.Resources{request, 0, 0, 1}) || request == 0 {
			return false
		}
	}
	if slices.ContainsFunc(snapshot.Jobs, func(other *model.Job) bool { return other.Priority < job.Priority }) || len(job.Tasks) != len(waiting) {
		return false
	}
	odd := func(node *model.Node) bool { // something else than CPU and a taint that keeps all pods off may decide there, or it is overdrawn
		prefers := func(taint corev1.Taint) bool { return taint.Effect == corev1.TaintEffectPreferNoSchedule }
		return node.Isolated != nil || node.Idle.At(model.CPU) < 0 || node.Idle.At(model.Pods) < 20 || slices.ContainsFunc(node.Object.Spec.Taints, prefers)
	}
	repelling := func(other *model.Job) bool {
		return slices.ContainsFunc(other.Tasks, func(task *model.Task) bool {
			return task.Pod.Spec.Affinity != nil && task.Pod.Spec.Affinity.PodAntiAffinity != nil
		})
	}
	if slices.ContainsFunc(snapshot.Nodes, odd) || slices.ContainsFunc(snapshot.Jobs, repelling) {
		return false
	}
	least, known := leastByTrying(snapshot, job, request)
	if known && least != said {
		t.Fatalf("%s: %q, where %d would do", jobName(job.Key), advice, least)
	}
	return known
}

// leastByTrying returns how much CPU would have to be freed in all; known is false when that is more than is looked at.
func leastByTrying(snapshot *model.Snapshot, job *model.Job, request int64) (amount int64, known bool) {
	short, least := int64(job.MinMember), []int64{0} // least capacity for so many members more than have capacity
	for _, node := range snapshot.Nodes {
		if len(node.Object.Spec.Taints) > 0 || node.Object.Spec.Unschedulable || node.Invalid != nil {
			continue
		}
		free, inUse := node.Idle.At(model.CPU), int64(0)
		for _, task := range node.Tasks {
			inUse += task.Request.At(model.CPU)
		}
		has := max(0, free) / request
		short -= has
		next := slices.Repeat([]int64{model.MaxAmount}, len(least)+8)
		for already, cost := range least {
			for more := range int64(8) {
				if lack := max(0, (has+more)*request-free); lack <= inUse || more == 0 {
					lack *= min(more, 1)
					next[already+int(more)] = min(next[already+int(more)], cost+lack)
				}
			}
		}
		least = next
	}
	if short <= 0 || int(short) >= len(least) || short >= 8 {
		return 0, false
	}
	return least[short], true
}

// trial is a suggestion that is applied, and smaller ones that must not do.
type trial struct {
	t          *rapid.T
	newStage   func() *environment
	stage      *environment
	job        model.JobKey
	suggestion suggest.Suggestion
}

func (c *trial) run() {
	if why := c.starts(func(*suggest.Change) *suggest.Change { return nil }); why != "" {
		c.t.Fatalf("%s waits since %q; with %q %s", jobName(c.job), c.stage.refusals[c.job], c.suggestion, why)
	}
	if c.besideVictims() || c.amongMixed() {
		return
	}
	for _, part := range c.suggestion {
		for _, less := range c.smaller(part) {
			why := c.starts(func(change *suggest.Change) *suggest.Change {
				if change == part {
					return less
				}
				return nil
			})
			if why == "" {
				c.t.Fatalf("%s starts with less than %q: %+v instead of %+v", jobName(c.job), c.suggestion, *less, *part)
			}
		}
	}
}

// besideVictims reports whether a member requires a place beside other pods while there are pods of lower priority, which the
// search supposes to be evicted: its change is true, but need not be the smallest.
func (c *trial) besideVictims() bool {
	snapshot := c.stage.state.Snapshot(c.stage.world.now)
	job := snapshot.Job(c.job)
	lower := func(other *model.Job) bool { return other.Priority < job.Priority }
	beside := func(task *model.Task) bool {
		affinity := task.Pod.Spec.Affinity
		return affinity != nil && affinity.PodAffinity != nil && len(affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
	}
	return slices.ContainsFunc(snapshot.Jobs, lower) && slices.ContainsFunc(job.Pending(), beside)
}

// amongMixed reports whether a gang has members of several priorities, the one that waits or one with a node: the priority of one
// follows from its members and minima, and the search supposes that of the present ones. Its change is true, but need not be the
// smallest.
func (c *trial) amongMixed() bool {
	snapshot := c.stage.state.Snapshot(c.stage.world.now)
	return slices.ContainsFunc(snapshot.Jobs, func(job *model.Job) bool {
		mixed := slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return task.Priority != job.Tasks[0].Priority })
		return mixed && (job.Key == c.job || job.Count(func(task *model.Task) bool { return task.Status.HasNode() }) > 0)
	})
}

// smaller returns changes of the same kind that are a little less.
func (c *trial) smaller(change *suggest.Change) (all []*suggest.Change) {
	with := func(alter func(*suggest.Change)) {
		less := *change
		alter(&less)
		all = append(all, &less)
	}
	switch change.Kind {
	case suggest.Create:
		with(func(less *suggest.Change) { less.Members-- })
	case suggest.Free:
		for i, room := range change.Rooms {
			for position, amount := range room.Amount {
				if amount <= 0 {
					continue
				}
				with(func(less *suggest.Change) {
					less.Rooms = slices.Clone(change.Rooms)
					less.Rooms[i].Amount = room.Amount.Clone()
					less.Rooms[i].Amount[position] -= grainOf(position)
				})
			}
		}
	case suggest.Provide:
		with(func(less *suggest.Change) { // one member less on the first node, which has most of them
			on := int64((change.Members + len(change.Rooms) - 1) / len(change.Rooms))
			less.Rooms = slices.Clone(change.Rooms)
			less.Rooms[0].Amount = change.Rooms[0].Amount.Clone()
			for position, amount := range change.Rooms[0].Amount {
				less.Rooms[0].Amount[position] -= amount / on
			}
		})
	case suggest.Uncordon:
		for i := range change.Uncordoned {
			with(func(less *suggest.Change) { less.Uncordoned = slices.Delete(slices.Clone(change.Uncordoned), i, i+1) })
		}
	case suggest.Add:
		with(func(less *suggest.Change) { less.Nodes-- })
	case suggest.LowerMinimum:
		if change.To+1 < change.From {
			with(func(less *suggest.Change) { less.To++ })
		}
	case suggest.LowerRole:
		with(func(less *suggest.Change) {
			less.PerRole = slices.Clone(change.PerRole)
			less.PerRole[0].MinMember++
			less.To = max(less.To, c.together(less.PerRole[0])) // a lower one contradicts the roles, which Volcano then does not follow
		})
		if change.To < change.From {
			with(func(less *suggest.Change) { less.To++ })
		}
	case suggest.RaisePriority:
		with(func(less *suggest.Change) { less.To-- })
	case suggest.RaiseLimit:
		for name := range change.Request {
			with(func(less *suggest.Change) {
				less.Request = change.Request.DeepCopy()
				amount := less.Request[name]
				amount.Sub(grainOfResource(name))
				less.Request[name] = amount
			})
		}
	}
	return all
}

// together returns the minima of the job's roles together, with one of them changed.
func (c *trial) together(changed model.Role) (sum int32) {
	for _, role := range c.stage.state.Snapshot(c.stage.world.now).Job(c.job).Roles {
		if role.Name == changed.Name {
			role = changed
		}
		sum += role.MinMember
	}
	return sum
}

func grainOfResource(name corev1.ResourceName) resource.Quantity {
	switch name {
	case corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return resource.MustParse("1Mi")
	case corev1.ResourceCPU:
		return resource.MustParse("1m")
	}
	return resource.MustParse("1")
}

func grainOf(position int) int64 {
	if position == model.Memory || position == model.EphemeralStorage {
		return 1 << 20
	}
	return 1
}

// starts reports whether the job starts with the suggestion, where instead gives another change in the place of one; empty when
// it does, else why not.
func (c *trial) starts(instead func(*suggest.Change) *suggest.Change) string {
	s := c.newStage()
	s.configuration = c.stage.configuration
	s.world = c.stage.world.copied(func(event cluster.Event) { s.state.Apply(event) })
	for _, name := range s.world.podNames(func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" && s.jobOf(pod) != c.job }) {
		pod := s.world.pods[name].DeepCopy() // it is held back, and counts otherwise
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "test.tutti.dev/not-now"}}
		s.world.pods[name] = pod
	}
	s.world.tellAll(s.state)
	for _, change := range c.suggestion {
		if other := instead(change); other != nil {
			change = other
		}
		if err := s.apply(c.job, change, c.stage.state.Snapshot(c.stage.world.now).Dimensions); err != nil {
			c.t.Fatal(err)
		}
	}
	settleDown(c.t, s)
	job := s.state.Snapshot(s.world.now).Job(c.job)
	if short := job.FirstUnmetMinimum(func(task *model.Task) bool { return task.Status.CountsTowardMinimum() }); short == nil {
		return ""
	}
	return "it waits: " + s.refusals[c.job].String()
}

// copied returns the same world for another scheduler.
func (w *world) copied(hear func(cluster.Event)) *world {
	other := *w
	other.onEvent, other.events = hear, nil
	other.now = w.now.Add(time.Second)
	other.lives, other.nodes, other.pods = maps.Clone(w.lives), maps.Clone(w.nodes), maps.Clone(w.pods)
	other.groups, other.classes = maps.Clone(w.groups), maps.Clone(w.classes)
	other.namespaces, other.budgets, other.queues = maps.Clone(w.namespaces), maps.Clone(w.budgets), maps.Clone(w.queues)
	other.foreign, other.readings = maps.Clone(w.foreign), maps.Clone(w.readings)
	return &other
}

// widen names another level where the group says which members share one: its object does, or else its pods.
func (s *environment) widen(job model.JobKey, change *suggest.Change) error {
	stated := 0
	if group := s.world.groups[jobName(job)].DeepCopy(); group != nil {
		if stated = len(group.Spec.Topology); change.Entry < stated {
			group.Spec.Topology[change.Entry].Level = change.Level
			s.world.replaceGroup(jobName(job), group)
			return nil
		}
	} else if job.Source == model.SourceNative {
		keys, _, _ := unstructured.NestedSlice(s.world.foreign[job].Object, foreignWords["kubernetes"]["topology"]...)
		if stated = len(keys); change.Entry < stated {
			keys[change.Entry] = map[string]any{"key": change.Level}
			return s.world.changeForeign(job, "topology", keys)
		}
	}
	level := s.state.Snapshot(s.world.now).Job(job).Topology[change.Entry].Level
	return s.world.changePods(s.world.podNames(func(pod *corev1.Pod) bool { return s.jobOf(pod) == job }), func(pod *corev1.Pod) {
		for _, key := range groups.TopologyAnnotations() { // those of others are a level, or the key of its label
			if value := pod.Annotations[key]; value != "" && (value == level || "label:"+value == level) {
				pod.Annotations[key] = change.Level
			}
		}
		var list []v1alpha1.TopologyConstraint
		if err := json.Unmarshal([]byte(pod.Annotations[v1alpha1.AnnotationTopology]), &list); err == nil && change.Entry-stated < len(list) {
			list[change.Entry-stated].Level = change.Level
			text, _ := json.Marshal(list) // of texts and numbers
			pod.Annotations[v1alpha1.AnnotationTopology] = string(text)
		}
	})
}

// apply does to the objects what the change says.
func (s *environment) apply(job model.JobKey, change *suggest.Change, dimensions *model.ResourceIndex) error {
	w := s.world
	members := w.podNames(func(pod *corev1.Pod) bool { return s.jobOf(pod) == job && pod.Spec.NodeName == "" })
	each := func(alter func(*corev1.Pod)) error {
		return w.changePods(members, func(pod *corev1.Pod) {
			pod.Generation++
			alter(pod)
		})
	}
	switch change.Kind {
	case suggest.Create:
		return s.create(members, change)
	case suggest.Ungate:
		return s.applyEvents("ungate", members, nil)
	case suggest.Drop:
		return each(func(pod *corev1.Pod) { change.Constraint.Remove(&pod.Spec) })
	case suggest.Widen:
		return s.widen(job, change)
	case suggest.Free, suggest.Provide:
		for _, room := range change.Rooms {
			if err := w.changeNodes([]string{room.Node}, func(node *corev1.Node) { offer(node, dimensions.List(room.Amount)) }); err != nil {
				return err
			}
		}
	case suggest.Uncordon:
		return w.cordon(change.Uncordoned, false)
	case suggest.Add:
		return s.addNodes(w.pods[key(change.Template[0].Namespace, change.Template[0].Name)], change)
	case suggest.LowerMinimum:
		if job.IsForeign() {
			return w.changeForeign(job, "min", int64(change.To))
		}
		group := w.groups[jobName(job)].DeepCopy()
		if group == nil {
			return s.say(job, change.To)
		}
		group.Spec.MinMember = change.To
		w.replaceGroup(jobName(job), group)
	case suggest.LowerRole:
		if job.IsForeign() {
			return errors.Join(w.changeForeign(job, "min", int64(change.To)), w.changeForeign(job, "tasks", map[string]any{
				change.PerRole[0].Name: int64(change.PerRole[0].MinMember),
			}))
		}
		group := w.groups[jobName(job)].DeepCopy()
		group.Spec.MinMember = change.To
		for i := range group.Spec.Roles {
			if role := &group.Spec.Roles[i]; role.Name == change.PerRole[0].Name {
				role.MinMember = change.PerRole[0].MinMember
			}
		}
		w.replaceGroup(jobName(job), group)
	case suggest.RaiseLimit:
		queue := w.queues[change.Queue].DeepCopy()
		maps.Copy(queue.Spec.Limit, change.Request)
		w.replaceQueue(queue)
	case suggest.AllowPreemption, suggest.RaisePriority:
		if group := w.groups[jobName(job)]; group != nil {
			group = group.DeepCopy()
			group.Spec.PreemptionPolicy = nil
			if change.Kind == suggest.RaisePriority {
				group.Spec.PriorityClassName = ""
			}
			w.replaceGroup(jobName(job), group)
		}
		if w.foreign[job] != nil {
			err := w.changeForeign(job, "preemption", nil)
			if change.Kind == suggest.RaisePriority {
				err = errors.Join(err, w.changeForeign(job, "class", nil))
			}
			if err != nil {
				return err
			}
		}
		return each(func(pod *corev1.Pod) {
			pod.Spec.PreemptionPolicy = nil
			if change.Kind == suggest.RaisePriority {
				pod.Spec.Priority = &change.To
			}
		})
	}
	return nil
}

// say gives a group without an object another minimum: all of its pods say it, and the highest counts.
func (s *environment) say(job model.JobKey, minMember int32) error {
	all := s.world.podNames(func(pod *corev1.Pod) bool { return s.jobOf(pod) == job })
	return s.world.changePods(all, func(pod *corev1.Pod) { pod.Annotations[minimumOf[job.Source]] = strconv.Itoa(int(minMember)) })
}

// offer makes a node offer so much more.
func offer(node *corev1.Node, more corev1.ResourceList) {
	offered := corev1.ResourceList{}
	maps.Copy(offered, node.Status.Allocatable)
	for name, amount := range more {
		if name == isolated.Resource { // which a node offers as CPUs
			name = corev1.ResourceCPU
		}
		amount.Add(offered[name])
		offered[name] = amount
	}
	node.Status.Allocatable = offered
}

func (s *environment) addNodes(pod *corev1.Pod, change *suggest.Change) error {
	for i := range change.Nodes {
		name := fmt.Sprintf("fresh%d", i)
		if err := s.world.apply("node " + name + " pods=100"); err != nil {
			return err
		}
		err := s.world.changeNodes([]string{name}, func(node *corev1.Node) {
			offer(node, change.Request)
			maps.Copy(node.Labels, pod.Spec.NodeSelector)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// create makes members like those that are named, of the roles that are said.
func (s *environment) create(members []string, change *suggest.Change) error {
	var roles []string
	for _, role := range change.PerRole {
		roles = append(roles, slices.Repeat([]string{role.Name}, int(role.MinMember))...)
	}
	for i := range change.Members {
		pod := s.world.pods[key(change.Template[i].Namespace, change.Template[i].Name)].DeepCopy()
		pod.Name = fmt.Sprintf("supposed%d", i) // in the order of names, by which slices go, where the search supposes it
		pod.UID = types.UID(key(pod.Namespace, pod.Name))
		pod.Spec.SchedulingGates = nil
		if i < len(roles) {
			pod.Labels[v1alpha1.LabelRole] = roles[i]
		}
		s.world.pods[key(pod.Namespace, pod.Name)] = pod
		s.world.tellPod(pod)
	}
	return s.applyEvents("ungate", members, nil)
}
