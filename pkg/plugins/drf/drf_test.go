package drf

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

const label = "example.com/user"

// cluster draws one of two nodes, with jobs of three namespaces and labels in three queues and in none, in any state.
func cluster(t *rapid.T) *model.Snapshot {
	n := func(low, high int) int { return rapid.IntRange(low, high).Draw(t, "n") }
	snapshot := &model.Snapshot{Dimensions: model.NewDimensions()}
	snapshot.Dimensions.Index("example.com/device")
	snapshot.Dimensions.Index("example.com/elsewhere")
	for i := range 2 {
		offers := model.Resources{int64(n(4, 9)), int64(n(0, 1000)), 0, 100, 0, int64(n(0, 2)), model.ProvidedByDRA * int64(i)}
		snapshot.Nodes = append(snapshot.Nodes, model.NewNode(fmt.Sprint("n", i), nil, offers))
	}
	if n(0, 2) > 0 {
		snapshot.SetQueues([]*model.Queue{{Name: "q0"}, {Name: "q1"}, {Name: "q2"}})
	}
	for i := range n(2, 8) {
		job := &model.Job{Key: model.JobKey{Namespace: fmt.Sprint(n(0, 2)), Name: fmt.Sprint("j", i)}}
		for j := range n(1, 3) {
			task := &model.Task{
				PodRef: model.PodRef{UID: types.UID(fmt.Sprint(i, "-", j)), Namespace: job.Key.Namespace}, Job: job.Key,
				Request: model.Resources{int64(n(0, 2)), int64(n(0, 200)), 0, int64(n(0, 1)), 0, int64(n(0, 1)), int64(n(0, 1))},
				Pod:     &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{label: fmt.Sprint(n(0, 2))}}},
			}
			node := rapid.SampledFrom(snapshot.Nodes).Draw(t, "node")
			switch n(0, 4) {
			case 0, 1:
				task.Placement = model.Placement{Status: rapid.SampledFrom([]model.Status{model.Running, model.Releasing}).Draw(t, "status"), Node: node.Name}
				node.Place(task)
			case 2:
				task.Nominated = node.Name
			}
			job.Tasks = append(job.Tasks, task)
		}
		snapshot.Jobs = append(snapshot.Jobs, job)
		slices.SortFunc(snapshot.Jobs, func(a, b *model.Job) int { return a.Key.Compare(b.Key) })
		if len(snapshot.Queues) > 0 {
			snapshot.Enqueue(job, fmt.Sprint("q", n(0, 3)))
		}
	}
	return snapshot
}

// totalsOf is how much there is of each resource: what nodes offer, and of devices that a node does not count what is held there.
func totalsOf(snapshot *model.Snapshot) (totals [7]int64) {
	for r := range totals {
		for _, node := range snapshot.Nodes {
			if offers := node.Allocatable().At(r); offers == model.ProvidedByDRA {
				totals[r] += node.Used(r)
			} else {
				totals[r] += offers
			}
		}
	}
	return totals
}

// share adds up, pod by pod, what the group of a job holds in its queue, and returns its largest part of a resource.
func share(snapshot *model.Snapshot, totals [7]int64, job *model.Job, group func(*model.Job) string) *big.Rat {
	dominant := new(big.Rat)
	for r, total := range totals {
		held := int64(0)
		for _, other := range snapshot.Jobs {
			if group(other) != group(job) || other.Queue != job.Queue && (other.InQueue() != nil || job.InQueue() != nil) {
				continue
			}
			for _, task := range other.Tasks {
				if task.Status.HasNode() || task.Status == model.Pending && task.Nominated != "" {
					held += task.Request.At(r)
				}
			}
		}
		if part := big.NewRat(held, max(1, total)); total > 0 && part.Cmp(dominant) > 0 {
			dominant = part
		}
	}
	return dominant
}

// TestTheLowestDominantShareIsFirst compares each pair of jobs, while statements come and go, with shares that are made again
// from the pods alone.
func TestTheLowestDominantShareIsFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snapshot, used := cluster(t), rapid.SampledFrom([]string{"", label}).Draw(t, "label")
		made := New(used)().(*plugin)
		session := engine.Open(snapshot, &engine.Profile{Tiers: []engine.Tier{{{Factory: func() framework.Plugin { return made }}}}}, engine.Options{})
		made.count() // what is held on nodes that do not count is that of the beginning
		totals := totalsOf(snapshot)
		group := func(job *model.Job) string {
			if used != "" {
				return job.Tasks[0].Pod.Labels[label]
			}
			return job.Key.Namespace
		}
		var tasks []*model.Task
		for _, job := range snapshot.Jobs {
			tasks = append(tasks, job.Tasks...)
		}
		check := func() {
			for range 3 {
				a, b := rapid.SampledFrom(snapshot.Jobs).Draw(t, "a"), rapid.SampledFrom(snapshot.Jobs).Draw(t, "b")
				want := share(snapshot, totals, a, group).Cmp(share(snapshot, totals, b, group))
				if got := made.CompareJobs(a, b); got != want {
					t.Fatalf("%s and %s: %d, want %d", a.Key, b.Key, got, want)
				}
			}
		}
		var try func(depth int) *model.Refusal
		try = func(depth int) *model.Refusal {
			return session.Try(func(statement *engine.Statement) *model.Refusal {
				for range rapid.IntRange(1, 4).Draw(t, "steps") {
					task, node := rapid.SampledFrom(tasks).Draw(t, "task"), rapid.SampledFrom(snapshot.Nodes).Draw(t, "node")
					switch rapid.IntRange(0, 6).Draw(t, "step") {
					case 0, 1:
						statement.Put(session.Ask(session.Snapshot.Job(task.Job), model.Idle), task, node)
					case 2:
						statement.Put(session.Ask(session.Snapshot.Job(task.Job), model.FutureIdle), task, node)
					case 3:
						statement.Evict(task)
					case 4:
						if task.Status == model.Releasing {
							statement.Unevict(task)
						}
					case 5:
						if task.Nominated == "" { // else it counts all the time
							statement.SimulateCompletion(task)
						}
					default:
						if depth < 2 {
							try(depth + 1)
						}
					}
				}
				if rapid.Bool().Draw(t, "compares within") {
					check()
				}
				if rapid.Bool().Draw(t, "keeps") {
					return nil
				}
				return &model.Refusal{}
			})
		}
		for range 4 {
			try(0)
			check()
		}
	})
}

// TestSharesCompareAsFractions with amounts whose products do not fit in 64 bits.
func TestSharesCompareAsFractions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := func(least uint64) uint64 { return rapid.Uint64Range(least, 1<<63).Draw(t, "amount") }
		a, b, c, d := amount(0), amount(1), amount(0), amount(1)
		if rapid.Bool().Draw(t, "equal") {
			c, d = a, b
		}
		rat := func(n, of uint64) *big.Rat {
			return new(big.Rat).SetFrac(new(big.Int).SetUint64(n), new(big.Int).SetUint64(of))
		}
		if got, want := compareFractions(a, b, c, d), rat(a, b).Cmp(rat(c, d)); got != want {
			t.Errorf("%d/%d and %d/%d: %d, want %d", a, b, c, d, got, want)
		}
	})
}

// TestNoSumOverflows: any user may create pods that name a node, whatever they ask for.
func TestNoSumOverflows(t *testing.T) {
	const pods = 10_000
	snapshot := &model.Snapshot{Dimensions: model.NewDimensions(), Nodes: []*model.Node{model.NewNode("n", nil, model.Resources{1000})}}
	huge, small := &model.Job{Key: model.JobKey{Namespace: "huge"}}, &model.Job{Key: model.JobKey{Namespace: "small"}}
	for i := range pods {
		huge.Tasks = append(huge.Tasks, &model.Task{
			PodRef: model.PodRef{UID: types.UID(fmt.Sprint(i))}, Job: huge.Key, Placement: model.Placement{Status: model.Running, Node: "n"},
			Request: model.Resources{model.MaxAmount},
		})
	}
	snapshot.Jobs = []*model.Job{huge, small}
	made := &plugin{snapshot: snapshot}
	if made.CompareJobs(huge, small) <= 0 || made.CompareJobs(small, huge) >= 0 {
		t.Error("a namespace that holds more than there is comes first")
	}
}

func TestTheLabelIsChecked(t *testing.T) {
	for value, want := range map[string]bool{"": true, "user": true, label: true, "a b": false, "a/b/c": false} {
		reader := config.NewArguments(Name, map[string]string{"label": value}).Reader()
		if read := ReadLabel(reader); cmp.Or(read, value) != value || (reader.Finish() == nil) != want {
			t.Errorf("%q: %q, %v", value, read, reader.Finish())
		}
	}
}
