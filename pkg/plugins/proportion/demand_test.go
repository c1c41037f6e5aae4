package proportion

import (
	"fmt"
	"testing"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/pkg/shares"
)

const device = model.Unoffered + 1

// small draws a cluster of few nodes, in any state, of queues, one of them in error, and of jobs of them and of others.
func small(t *rapid.T) *model.Snapshot {
	n := func(low, high int) int { return rapid.IntRange(low, high).Draw(t, "n") }
	snapshot := &model.Snapshot{Dimensions: model.NewDimensions(), Now: time.Unix(10_000, 0)}
	snapshot.Dimensions.Index("example.com/device")
	for i := range n(1, 4) {
		offers := model.Resources{int64(n(0, 8)), 0, 0, 100, 0, int64(n(0, 2))}
		node := model.NewNode(fmt.Sprint("n", i), &corev1.Node{}, offers)
		node.SetLeaving(model.Resources{0, 0, 0, 0, 0, int64(n(0, 1))})
		node.Object.Spec.Unschedulable = n(0, 4) == 0
		if n(0, 2) == 0 {
			node.Object.Status.Conditions = []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: rapid.SampledFrom([]corev1.ConditionStatus{"True", "False", "Unknown"}).Draw(t, "ready"),
				LastTransitionTime: metav1.NewTime(snapshot.Now.Add(-time.Duration(n(0, 9)) * time.Minute)),
			}}
		}
		snapshot.Nodes = append(snapshot.Nodes, node)
	}
	queues := []*model.Queue{{Name: "q0"}, {Name: "q1", Parent: "q0"}, {Name: "q2", Parent: "q0"}, {Name: "q3"}, {
		Name: "q4", Invalid: &model.Refusal{Code: model.QueueInvalid}, Inactive: model.QueueParentNotFound,
	}, {
		Name: "q5", Invalid: &model.Refusal{Code: model.QueuePaused}, Inactive: model.QueueIsPaused,
	}}
	snapshot.SetQueues(queues)
	for i := range n(0, 12) {
		job := &model.Job{Key: model.JobKey{Name: fmt.Sprintf("j%02d", i)}, Need: model.Need{MinMember: int32(n(1, 3))}}
		for j := range n(1, 3) {
			task := &model.Task{
				PodRef: model.PodRef{UID: types.UID(fmt.Sprint(i, "-", j))}, Job: job.Key, Pod: &corev1.Pod{},
				Request: model.Resources{int64(n(0, 9)), 0, 0, 1, 0, int64(n(0, 2))}, SchedulingGated: n(0, 5) == 0,
			}
			task.Shape = unique.Make(fmt.Sprint(task.Request))
			node := rapid.SampledFrom(snapshot.Nodes).Draw(t, "node")
			switch n(0, 4) {
			case 0, 1:
				task.Placement = model.Placement{Status: model.Running, Node: node.Name}
				node.Place(task)
			case 2:
				task.Nominated = node.Name
			}
			job.Tasks = append(job.Tasks, task)
		}
		snapshot.Jobs = append(snapshot.Jobs, job)
		if n(0, 5) > 0 { // else a job of others
			snapshot.Enqueue(job, rapid.SampledFrom([]string{"q1", "q2", "q3", "q4", "q5", "q6"}).Draw(t, "queue"))
		}
	}
	return snapshot
}

// supplied adds up, node by node and pod by pod, what there is for queues.
func supplied(snapshot *model.Snapshot, r int) (sum int64) {
	ours := func(task *model.Task) bool {
		return task.InQueue() != nil && (task.InQueue().Invalid == nil || task.InQueue().Inactive == model.QueueIsPaused)
	}
	for _, node := range snapshot.Nodes {
		others, own := int64(0), int64(0)
		for _, task := range node.Tasks {
			if ours(task) {
				own += task.Request.At(r)
			} else {
				others += task.Request.At(r)
			}
		}
		takes := !node.Object.Spec.Unschedulable
		for _, c := range node.Object.Status.Conditions {
			takes = takes && (c.Status == corev1.ConditionTrue || snapshot.Now.Sub(c.LastTransitionTime.Time) < 5*time.Minute)
		}
		if takes {
			sum += max(0, node.Allocatable().At(r)-others)
		} else {
			sum += own
		}
	}
	return sum
}

// demanded adds up what the jobs of a queue hold, and what those of them ask for that could start in an empty cluster.
func demanded(session *engine.Session, queue *model.Queue, supply []int64, r int) (sum int64) {
	for _, job := range session.Snapshot.Jobs {
		if job.InQueue() != queue {
			continue
		}
		members, waiting, least, holds := 0, int64(0), make([]int64, len(supply)), 0
		for _, task := range job.Tasks {
			if task.CountsInQueue() {
				sum += task.Request.At(r)
			}
			if task.Status == model.Running {
				holds++
			}
			fits := false
			for _, node := range session.Snapshot.Nodes {
				fits = fits || node.Allocatable().Copies(task.Request) > 0
			}
			if task.Status != model.Pending || task.SchedulingGated || !fits && task.Nominated == "" {
				continue
			}
			members++
			if task.Nominated == "" {
				waiting += task.Request.At(r)
			}
		}
		needs := int(job.MinMember) - holds
		for i := range least {
			if needs > 0 {
				least[i] = model.LeastRequest(job, needs, i)
			}
		}
		possible := members > 0 && members >= needs && session.ValidateJob(job) == nil
		for i := range least {
			possible = possible && least[i] <= supply[i]
		}
		if possible {
			sum += waiting
		}
	}
	return sum
}

// opened returns a session with the plugin, and other ones in front of it, and the shares that it computes there.
func opened(snapshot *model.Snapshot, others ...framework.Factory) (*engine.Session, *sharing) {
	made := New().(*plugin)
	var tier engine.Tier
	for _, factory := range append(others, func() framework.Plugin { return made }) {
		tier = append(tier, engine.TierPlugin{Factory: factory})
	}
	session := engine.Open(snapshot, &engine.Profile{Tiers: []engine.Tier{tier}}, engine.Options{})
	return session, made.computed()
}

// TestWhatThereIsAndIsAskedFor compares supply, usage and demand with sums that are made again from nodes and pods alone.
func TestWhatThereIsAndIsAskedFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snapshot := small(t)
		session, s := opened(snapshot, gang.New)
		supply := make([]int64, snapshot.Dimensions.Len())
		for r := range supply {
			supply[r] = supplied(snapshot, r)
		}
		for _, r := range []int{model.CPU, model.Pods, device} {
			if got := s.tree.Division(shares.Root, r).Supply; got != supply[r] {
				t.Fatalf("there is %d of %s, want %d", got, snapshot.Dimensions.Name(r), supply[r])
			}
			for _, queue := range snapshot.Queues {
				number := s.numbers[queue.Index]
				if (number == absent) != (queue.Inactive == model.QueueParentNotFound) {
					t.Fatalf("queue %s has number %d", queue.Name, number)
				}
				if number == absent || queue.Inner {
					continue
				}
				part, want := s.tree.Part(number, r), demanded(session, queue, supply, r)
				if part.Usage != queue.Used.At(r) || part.Demand != want {
					t.Fatalf("queue %s holds %d and asks for %d of %s, want %d and %d", queue.Name, part.Usage, part.Demand,
						snapshot.Dimensions.Name(r), queue.Used.At(r), want)
				}
			}
		}
	})
}

// computing is an action that has the plugin compute what queues may have.
type computing struct{ *plugin }

func (c computing) Execute(*engine.Session) { c.computed() }

// TestANodeThatIsNotReadyCountsForAWhile, and answers hold until that time ends.
func TestANodeThatIsNotReadyCountsForAWhile(t *testing.T) {
	for minutes, want := range map[time.Duration]time.Duration{3: 2 * time.Minute, 5: 0} {
		snapshot := borrowed(1)
		snapshot.Now = time.Unix(10_000, 0)
		snapshot.Nodes[0].Object = &corev1.Node{}
		snapshot.Nodes[0].Object.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(snapshot.Now.Add(-minutes * time.Minute)),
		}}
		made := New().(*plugin)
		until := engine.Run(snapshot, &engine.Profile{
			Actions: []engine.Action{computing{made}}, Tiers: []engine.Tier{{{Factory: func() framework.Plugin { return made }}}},
		}, engine.Options{}).Until
		if want := snapshot.Now.Add(want); want.Equal(snapshot.Now) != until.IsZero() || !until.IsZero() && !until.Equal(want) {
			t.Errorf("not ready for %d minutes: its answers hold until %v, want %v", minutes, until, want)
		}
	}
}
