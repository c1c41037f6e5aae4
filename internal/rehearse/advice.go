package rehearse

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/scheduler"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file finds what would let waiting jobs start: a few changes that a refusal suggests. Each is made on a copy of the
// cluster, tried by one session of the real engine in which no other waiting job has a turn, and taken back.

const (
	// maxSessions is how many sessions each of two alternatives takes at most.
	maxSessions = 8
	// maxKinds is of how many kinds of nodes more are tried, and maxAlone how many cordoned nodes one by one.
	maxKinds, maxAlone = 4, 4
	// maxNamed is how many nodes a change has, as in the API, and maxSaid how many its message names.
	maxNamed, maxSaid = 16, 3
)

// Advise returns what would let each of these jobs start; nil where nothing that is tried would. Jobs that ask for the
// same share an answer. Once stop says so, it ends before the next job: those that are left have no entry. One goroutine
// at a time calls it.
func Advise(moment *scheduler.Moment, setting *Setting, refused []scheduler.Refused, stop func() bool) (map[model.JobKey]*v1alpha1.Advice, error) {
	t, err := newTrials(moment, setting)
	if err != nil {
		return nil, err
	}
	advice, shared := map[model.JobKey]*v1alpha1.Advice{}, map[scheduler.Subject]*v1alpha1.Advice{}
	for _, of := range refused {
		alike := of.Subject
		if alike.Class != (model.Class{}) {
			alike.UID = ""
		}
		known, is := shared[alike]
		if !is {
			if stop() {
				break
			}
			known = t.advise(&of)
			shared[alike] = known
		}
		advice[of.Key] = known
	}
	return advice, nil
}

// trials are sessions on one copy of a cluster. One goroutine owns them.
type trials struct {
	*rehearsal
	// hold shows a snapshot what is delayed after failures, and which gangs have begun.
	hold  func(*model.Snapshot)
	cache engine.Cache
	// job is the one that has a turn, and left how many sessions it may still have; below zero when one was missing.
	job  model.JobKey
	left int
	// undo takes back what a candidate has changed.
	undo []cluster.Event
}

func newTrials(moment *scheduler.Moment, setting *Setting) (*trials, error) {
	profile, err := setting.Profile(nil)
	if err != nil {
		return nil, err
	}
	state, delays := cluster.Restore(moment.Contents, profile.Translators()), moment.Delays.Clone()
	begun := moment.Gangs.Clone(delays).Begun()
	t := &trials{hold: func(snapshot *model.Snapshot) {
		delays.Apply(snapshot, func(uid types.UID) bool { return state.Pod(uid) != nil }, moment.Contents.At)
		snapshot.Begun = begun
	}}
	clock := &virtualClock{now: moment.Contents.At}
	t.rehearsal = &rehearsal{
		setting: setting, profile: profile, state: state, began: clock.now, clock: clock, stage: newStage(state, t, clock),
	}
	state.Snapshot(t.began)
	return t, nil
}

// Event has the state take in an event of a candidate, which is about an object that the candidate has not changed before.
func (t *trials) Event(event cluster.Event) {
	switch event := event.(type) {
	case *cluster.NodeSeen:
		if known := t.state.LastSnapshot().Node(event.Node.Name); known != nil {
			t.undo = append(t.undo, &cluster.NodeSeen{Node: known.Object.DeepCopy()})
		} else {
			t.undo = append(t.undo, &cluster.NodeSeen{Node: event.Node.DeepCopy(), Gone: true})
		}
	case *cluster.LeaseSeen:
		t.undo = append(t.undo, &cluster.LeaseSeen{Lease: event.Lease.DeepCopy(), Gone: true})
	case *cluster.GroupSeen:
		t.undo = append(t.undo, &cluster.GroupSeen{Group: t.state.Group(event.GroupKey()).DeepCopy()})
	case *cluster.PodSeen:
		t.undo = append(t.undo, &cluster.PodSeen{Pod: t.state.Pod(event.Pod.UID).DeepCopy()})
	}
	t.state.Apply(event)
}

// Reply is called by no candidate.
func (*trials) Reply(commit.Reply) {}

// takeBack shows the objects as they were, in newer versions.
func (t *trials) takeBack() {
	for _, event := range t.undo {
		switch event := event.(type) {
		case *cluster.NodeSeen:
			event.Node.ResourceVersion = t.stage.stamp()
		case *cluster.LeaseSeen:
			event.Lease.ResourceVersion = t.stage.stamp()
		case *cluster.GroupSeen:
			event.Group.ResourceVersion = t.stage.stamp()
		case *cluster.PodSeen:
			event.Pod.ResourceVersion = t.stage.stamp()
		}
		t.state.Apply(event)
	}
	t.undo = nil
	clear(t.stage.nodes)
	clear(t.stage.groups)
	clear(t.stage.pods)
}

// starts reports whether a session binds or nominates the job with a change, while no other job that waits has a turn.
func (t *trials) starts(change func()) (starts bool) {
	if t.left--; t.left < 0 {
		return false
	}
	change()
	snapshot := t.state.Snapshot(t.began)
	t.hold(snapshot)
	aside := &model.Refusal{Code: model.Paused, Detail: "another job is tried alone"}
	for _, job := range snapshot.Jobs {
		if job.Key != t.job && !job.NothingPending {
			snapshot.JobBackoff[job.Key] = aside
		}
	}
	t.setting.Show(t.state)
	engine.Run(snapshot, t.profile, engine.Options{Cache: &t.cache, Decide: func(decision model.Decision) {
		nominates := slices.ContainsFunc(decision.Nominations, func(n model.Nomination) bool { return !n.Releases() })
		starts = starts || decision.Job == t.job && (len(decision.Binds) > 0 || nominates)
	}})
	t.setting.Reset()
	t.takeBack()
	t.state.Snapshot(t.began)
	return starts
}

// least returns the smallest number, up to most, with which the job starts: with one less it does not. guess is the first
// that is tried. It is zero where there is none, and where the sessions do not suffice.
func (t *trials) least(guess, most int, change func(n int)) int {
	guess = max(1, min(guess, most))
	low, high := 0, most+1
	for n := guess; low < n && n < high; {
		if t.starts(func() { change(n) }) {
			high = n
		} else {
			low = n
		}
		switch {
		case t.left < 0:
			return 0
		case high > most:
			n = most
		case high == guess:
			n = guess - 1
		default:
			n = (low + high) / 2
		}
	}
	if high > most {
		return 0
	}
	return high
}

// advise returns the first change that lets the job start of those to the cluster, and the first of those to the job.
func (t *trials) advise(of *scheduler.Refused) *v1alpha1.Advice {
	t.job, t.left = of.Key, maxSessions
	if t.starts(func() {}) { // others have their turns before it
		return nil
	}
	advice := &v1alpha1.Advice{}
	var said []string
	for _, candidates := range [][]func(*model.Job, *model.Refusal) *v1alpha1.Change{
		{t.withUncordoned, t.withMoreNodes}, {t.withFewerMembers, t.withPriority},
	} {
		t.left = maxSessions
		for _, candidate := range candidates {
			job := t.state.LastSnapshot().Job(of.Key)
			if job == nil {
				return nil
			}
			if change := candidate(job, of.Refusal); change != nil {
				advice.Alternatives = append(advice.Alternatives, v1alpha1.Suggestion{Changes: []v1alpha1.Change{*change}})
				said = append(said, change.Message)
				break
			}
		}
	}
	if len(said) == 0 {
		return nil
	}
	advice.Message = model.Clean(strings.Join(said, ", or "), model.MaxMessage)
	return advice
}

// withUncordoned tries without cordons: all of them, then one by one.
func (t *trials) withUncordoned(_ *model.Job, refusal *model.Refusal) *v1alpha1.Change {
	var cordoned []string
	for _, node := range t.state.LastSnapshot().Nodes {
		if node.Object.Spec.Unschedulable {
			cordoned = append(cordoned, node.Name)
		}
	}
	uncordon := func(names ...string) func() {
		return func() {
			for _, name := range names {
				t.stage.changeNode(t.state.LastSnapshot().Node(name), func(node *corev1.Node) {
					node.Spec.Unschedulable = false
					node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeUnschedulable })
				})
			}
		}
	}
	if len(cordoned) == 0 || !refusal.LacksPlace() || !t.starts(uncordon(cordoned...)) {
		return nil
	}
	for _, name := range cordoned[:min(len(cordoned), maxAlone)] {
		if len(cordoned) > 1 && t.starts(uncordon(name)) {
			cordoned = []string{name}
			break
		}
	}
	change := &v1alpha1.Change{Kind: v1alpha1.UncordonNodes, Count: int32(len(cordoned)), Message: "uncordon " + few(cordoned)}
	for _, name := range cordoned[:min(len(cordoned), maxNamed)] {
		change.Nodes = append(change.Nodes, v1alpha1.NodeChange{Name: name})
	}
	return change
}

func few(nodes []string) string {
	switch more := len(nodes) - maxSaid; {
	case len(nodes) == 1:
		return "node " + nodes[0]
	case more > 0:
		return fmt.Sprintf("nodes %s and %d more", strings.Join(nodes[:maxSaid], ", "), more)
	}
	return "nodes " + strings.Join(nodes, ", ")
}

// withMoreNodes tries with more nodes of a kind that the cluster has, the kind of the closest node first.
func (t *trials) withMoreNodes(job *model.Job, refusal *model.Refusal) *v1alpha1.Change {
	waiting := job.Pending()
	if len(waiting) == 0 || !refusal.LacksPlace() {
		return nil
	}
	missing, members := max(1, int(refusal.Needs-refusal.Has)), min(len(waiting), maxNodes)
	kinds := t.kinds(refusal.ClosestNode())
	for _, like := range kinds[:min(len(kinds), maxKinds)] {
		node := t.state.LastSnapshot().Node(like)
		takes := members
		for position, amount := range waiting[0].Request {
			if amount > 0 {
				takes = min(takes, int(min(node.Allocatable().At(position)/amount, int64(members))))
			}
		}
		if takes == 0 {
			continue
		}
		n := t.least((missing+takes-1)/takes, members, func(n int) {
			_, _ = t.addNodes(&debugapi.AddNodes{Count: n, Like: like}) // the node is there
		})
		if n > 0 {
			noun := "nodes"
			if n == 1 {
				noun = "node"
			}
			return &v1alpha1.Change{
				Kind: v1alpha1.AddNodes, Count: int32(n), Message: fmt.Sprintf("add %d %s like %s", n, noun, like),
				Nodes: []v1alpha1.NodeChange{{Name: like}},
			}
		}
	}
	return nil
}

// kinds returns one node of each kind on which pods may start, that node first. Nodes of one kind offer as much, and have
// the same labels and taints.
func (t *trials) kinds(first string) (names []string) {
	met := map[string]bool{}
	nodes := t.state.LastSnapshot().Nodes
	if node := t.state.LastSnapshot().Node(first); node != nil {
		nodes = append([]*model.Node{node}, nodes...)
	}
	for _, node := range nodes {
		spec := &node.Object.Spec
		unwell := func(taint corev1.Taint) bool { return strings.HasPrefix(taint.Key, "node.kubernetes.io/") }
		if spec.Unschedulable || slices.ContainsFunc(spec.Taints, unwell) {
			continue
		}
		labels := maps.Clone(node.Object.Labels)
		delete(labels, corev1.LabelHostname)
		if kind := fmt.Sprint(node.Allocatable(), labels, spec.Taints); !met[kind] {
			met[kind] = true
			names = append(names, node.Name)
		}
	}
	return names
}

// withFewerMembers tries with a lower minimum, the highest with which the job starts.
func (t *trials) withFewerMembers(job *model.Job, refusal *model.Refusal) *v1alpha1.Change {
	minimum := job.MinMember
	if !job.HasGroup || len(job.Roles) > 0 || minimum < 2 {
		return nil
	}
	lower := t.least(int(minimum)-int(refusal.Has), int(minimum)-1, func(n int) {
		t.stage.changeGroup(t.job, func(group *v1alpha1.PodGroup) { group.Spec.MinMember = minimum - int32(n) })
	})
	if lower == 0 {
		return nil
	}
	to := minimum - int32(lower)
	return &v1alpha1.Change{
		Kind: v1alpha1.LowerMinMember, Count: to, From: &minimum, To: &to, Message: fmt.Sprintf("lower minMember from %d to %d", minimum, to),
	}
}

// withPriority tries with evictions allowed, else with the lowest PriorityClass above that lets the job start.
func (t *trials) withPriority(job *model.Job, refusal *model.Refusal) *v1alpha1.Change {
	if !refusal.LacksPlace() {
		return nil
	}
	var pods []types.UID
	for _, task := range job.Pending() {
		pods = append(pods, task.UID)
	}
	preempts := func(class string, value int32) {
		t.stage.changeGroup(t.job, func(group *v1alpha1.PodGroup) {
			if group.Spec.PreemptionPolicy = nil; class != "" && group.Spec.PriorityClassName != "" {
				group.Spec.PriorityClassName = class
			}
		})
		for _, uid := range pods {
			t.stage.change(uid, func(pod *corev1.Pod) {
				if pod.Spec.PreemptionPolicy = nil; class != "" {
					pod.Spec.PriorityClassName, pod.Spec.Priority = class, &value
				}
			})
		}
	}
	if job.NeverPreempts && t.starts(func() { preempts("", 0) }) {
		return &v1alpha1.Change{Kind: v1alpha1.RaisePriority, Message: "remove preemptionPolicy: Never"}
	}
	from := job.Priority
	names, values := t.state.HigherClasses(from)
	n := t.least(1, len(names), func(n int) { preempts(names[n-1], values[n-1]) })
	if n == 0 {
		return nil
	}
	change := &v1alpha1.Change{
		Kind: v1alpha1.RaisePriority, From: &from, To: &values[n-1], Message: fmt.Sprintf("raise the priority from %d to %d, by PriorityClass %s", from, values[n-1], names[n-1]),
	}
	if job.NeverPreempts {
		change.Message += ", without preemptionPolicy: Never"
	}
	return change
}
