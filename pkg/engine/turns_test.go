package engine

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// byUse puts the queue first that holds less, and takes one that offers a job of odd age for one that holds nothing.
type byUse struct{ named }

func (byUse) RankQueue(queue *model.Queue, job *model.Job) framework.QueueRank {
	if job.Created.Unix()%2 != 0 {
		return framework.QueueRank{}
	}
	held := uint64(queue.Used.At(model.CPU))
	return framework.QueueRank{First: held / 2, Second: held % 2}
}

func (u byUse) compare(a, b *model.Queue, jobOfA, jobOfB *model.Job) int {
	x, y := u.RankQueue(a, jobOfA), u.RankQueue(b, jobOfB)
	return cmp.Or(cmp.Compare(x.First, y.First), cmp.Compare(x.Second, y.Second))
}

// byPriority orders jobs by priority, which may change.
type byPriority struct{ named }

func (byPriority) CompareJobs(a, b *model.Job) int { return cmp.Compare(b.Priority, a.Priority) }

// byHeld orders jobs by how much the jobs of their group hold in their queue; it observes, but what it counts the test sets.
type byHeld struct {
	named
	held map[heldKey]int
	of   func(*model.Job) string
}

func (byHeld) OnAllocate(*model.Task)                    {}
func (byHeld) OnEvict(*model.Task)                       {}
func (byHeld) OnDeallocate(*model.Task, model.Placement) {}

type heldKey struct {
	queue *model.Queue
	group string
}

func (h byHeld) key(job *model.Job) heldKey { return heldKey{job.InQueue(), h.GroupOfJob(job)} }

func (h byHeld) GroupOfJob(job *model.Job) string { return h.of(job) }

func (h byHeld) CompareJobs(a, b *model.Job) int {
	return cmp.Compare(h.held[h.key(a)], h.held[h.key(b)])
}

// turnsWorld is a tree of queues, with jobs in any of them and in none.
func turnsWorld(t *rapid.T) *model.Snapshot {
	snapshot := &model.Snapshot{Dimensions: model.NewDimensions()}
	var queues []*model.Queue
	for i := range rapid.IntRange(0, 8).Draw(t, "queues") {
		queue := &model.Queue{Name: fmt.Sprintf("q%d", i)}
		if i > 0 && rapid.Bool().Draw(t, "below") {
			queue.Parent = fmt.Sprintf("q%d", rapid.IntRange(0, i-1).Draw(t, "parent"))
		}
		queues = append(queues, queue)
	}
	for i := range rapid.IntRange(0, 20).Draw(t, "jobs") {
		snapshot.Jobs = append(snapshot.Jobs, &model.Job{
			Key: model.JobKey{Name: fmt.Sprintf("j%02d", i), Namespace: fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "namespace"))}, UID: types.UID(fmt.Sprint(rapid.IntRange(0, 99).Draw(t, "uid"))),
			Priority: int32(rapid.IntRange(0, 2).Draw(t, "priority")), Created: time.Unix(int64(rapid.IntRange(0, 3).Draw(t, "age")), 0),
		})
	}
	snapshot.SetQueues(queues)
	if len(queues) > 0 {
		for _, job := range snapshot.Jobs {
			snapshot.Enqueue(job, fmt.Sprintf("q%d", rapid.IntRange(0, len(queues)).Draw(t, "queue")))
		}
	}
	return snapshot
}

// offered returns the job to be tried next of a queue, nil for the whole cluster, and of those below it, by looking at all of
// them.
func offered(session *Session, queue *model.Queue, left []*model.Job) (next *model.Job) {
	var offering *model.Queue
	first := func(jobs []*model.Job) *model.Job {
		if len(jobs) == 0 {
			return nil
		}
		return slices.MinFunc(jobs, session.CompareJobs)
	}
	in := func(queue *model.Queue) (jobs []*model.Job) {
		for _, job := range left {
			if job.InQueue() == queue {
				jobs = append(jobs, job)
			}
		}
		return jobs
	}
	if queue != nil || len(session.Snapshot.Queues) == 0 {
		if own := first(in(queue)); own != nil {
			return own
		}
	}
	for _, child := range session.Snapshot.Queues {
		if child.Above() != queue {
			continue
		}
		if job := offered(session, child, left); job != nil {
			if next == nil || cmp.Or(byUse{}.compare(child, offering, job, next),
				child.LastStart.Compare(offering.LastStart), session.CompareJobs(job, next)) < 0 {
				next, offering = job, child
			}
		}
	}
	if next == nil && queue == nil {
		next = first(in(nil))
	}
	return next
}

// TestInOrder compares the order with one in which all jobs are looked at for each pick, while jobs start, and, where a plugin
// that orders observes, while the order of jobs changes.
func TestInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snapshot := turnsWorld(t)
		var asked []string
		plugins := []framework.Plugin{byUse{"use"}, byPriority{"priority"}}
		var groups []byHeld
		for _, of := range []func(*model.Job) string{
			func(job *model.Job) string { return job.Key.Namespace },
			func(job *model.Job) string { return string(job.UID)[:1] },
		} {
			if grouped := rapid.IntRange(0, 2).Draw(t, "grouped"); grouped > 0 {
				groups = append(groups, byHeld{named(fmt.Sprint("by", len(groups))), map[heldKey]int{}, of})
				plugins = slices.Insert(plugins, grouped, framework.Plugin(groups[len(groups)-1]))
			}
		}
		dynamic := rapid.Bool().Draw(t, "dynamic")
		if dynamic {
			plugins = append(plugins, everything{"all", &asked})
		}
		session := Open(snapshot, profileOf(plugins...), Options{})
		left, starts := slices.Clone(snapshot.Jobs), 0
		for job := range session.InOrder(snapshot.Jobs) {
			if want := offered(session, nil, left); job != want {
				t.Fatalf("got %s of %q, want %s of %q", job.Key, job.Queue, want.Key, want.Queue)
			}
			left = slices.DeleteFunc(left, func(other *model.Job) bool { return other == job })
			if rapid.Bool().Draw(t, "starts") {
				starts++
				for _, by := range groups {
					by.held[by.key(job)]++
				}
				job.InQueue().SetLastStart(time.Unix(int64(starts), 0))
				for queue := job.InQueue(); queue != nil; queue = queue.Above() {
					queue.Used.Add(model.Resources{int64(rapid.IntRange(1, 3).Draw(t, "asks"))})
				}
			}
			if dynamic && len(left) > 0 {
				rapid.SampledFrom(left).Draw(t, "changes").Priority = int32(rapid.IntRange(0, 2).Draw(t, "priority"))
			}
		}
		if len(left) > 0 {
			t.Fatalf("%d jobs had no turn", len(left))
		}
	})
}
