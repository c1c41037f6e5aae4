package reclaim_test

import (
	"fmt"
	"testing"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/actions/preempt"
	"github.com/tutti-sched/tutti/pkg/actions/reclaim"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/conformance"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/pkg/plugins/priority"
	"github.com/tutti-sched/tutti/pkg/plugins/proportion"
)

// refusing stands in for allocate on a cluster that is full: it finds that out at no cost.
type refusing struct{}

func (refusing) Name() string { return "refusing" }

func (refusing) Execute(session *engine.Session) {
	for _, job := range session.Snapshot.Jobs {
		if !job.NothingPending {
			session.Refuse(job, &model.Refusal{Code: model.InsufficientResources, Evictable: true})
		}
	}
}

const devices = 4 // the position of the devices

// full returns nodes of eight devices, all taken by gangs of so many pods, one of which after the other is in another queue.
func full(nodes, gangSize int, queues []*model.Queue) *model.Snapshot {
	snapshot := &model.Snapshot{Dimensions: model.NewDimensions()}
	snapshot.Dimensions.Index("example.com/device")
	for i := range nodes {
		room := model.Resources{64_000, 512 << 30, 0, 110, 8}
		node := model.NewNode(fmt.Sprintf("n%05d", i), nil, room)
		snapshot.Nodes = append(snapshot.Nodes, node)
		for j := range 8 {
			at := 8*i + j
			if at%gangSize == 0 {
				add(snapshot, fmt.Sprintf("job%06d", at), 0, queues[at/gangSize%len(queues)].Name).MinMember = int32(gangSize)
			}
			job := snapshot.Jobs[len(snapshot.Jobs)-1]
			job.NothingPending = true
			task := device(job, at)
			task.Placement = model.Placement{Status: model.Running, Node: node.Name}
			node.Place(task)
		}
	}
	return snapshot
}

// add adds a job with so many pods that wait for a device each.
func add(snapshot *model.Snapshot, name string, members int, queue string) *model.Job {
	job := &model.Job{Key: model.JobKey{Namespace: "default", Name: name}, Need: model.Need{MinMember: int32(members)}, Queue: queue, Version: 1}
	for i := range members {
		device(job, i)
	}
	snapshot.Jobs = append(snapshot.Jobs, job)
	return job
}

func device(job *model.Job, i int) *model.Task {
	name := fmt.Sprintf("%s-%d", job.Key.Name, i)
	task := &model.Task{
		PodRef: model.PodRef{UID: types.UID(name), Namespace: "default", Name: name}, Job: job.Key, Pod: &corev1.Pod{},
		Request: model.Resources{8_000, 64 << 30, 0, 1, 1}, Shape: unique.Make("device"),
	}
	job.Tasks = append(job.Tasks, task)
	return task
}

func queuesOf(n int) (queues []*model.Queue) {
	for i := range n {
		queues = append(queues, &model.Queue{Name: fmt.Sprintf("q%04d", i), Weight: 1})
	}
	return queues
}

func measure(b *testing.B, cluster func() (*model.Snapshot, []*model.Queue), victims int) {
	b.Helper()
	last := 0
	for b.Loop() {
		b.StopTimer()
		snapshot, queues := cluster()
		snapshot.SetQueues(queues)
		snapshot.AssignIndexes()
		profile := &engine.Profile{
			Actions: []engine.Action{refusing{}, reclaim.New(reclaim.Options{Plan: preempt.Options{Method: model.ByEviction, Budget: 400_000}})},
			Tiers:   []engine.Tier{{{Factory: priority.New}, {Factory: gang.New}, {Factory: conformance.New}, {Factory: proportion.New}}},
		}
		evicted := 0
		options := engine.Options{Decide: func(d model.Decision) { evicted += len(d.Evictions) }}
		b.StartTimer()
		engine.Run(snapshot, profile, options)
		last = evicted
		if victims >= 0 && evicted != victims {
			b.Fatalf("%d pods are evicted, not %d", evicted, victims)
		}
	}
	b.ReportMetric(float64(last), "evictions")
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/cycle")
}

// BenchmarkGang is one gang of 1,000 that takes from 100 queues on 1,000 full nodes.
func BenchmarkGang(b *testing.B) {
	for _, right := range []model.Right{model.ByGuarantee, model.ByShare} {
		b.Run(string(right), func(b *testing.B) {
			measure(b, func() (*model.Snapshot, []*model.Queue) {
				queues := queuesOf(100)
				snapshot := full(1000, 4, queues)
				taker := &model.Queue{Name: "taker", Weight: 100}
				if right == model.ByGuarantee {
					taker.Guarantee = []model.ListedAmount{{Position: devices, Amount: 1000}}
				}
				add(snapshot, "z", 1000, taker.Name)
				return snapshot, append(queues, taker)
			}, 1000)
		})
	}
}

// BenchmarkNothingToTake is 1,000 queues that all have their share, and a job in each that waits for more.
func BenchmarkNothingToTake(b *testing.B) {
	measure(b, func() (*model.Snapshot, []*model.Queue) {
		queues := queuesOf(1000)
		snapshot := full(1000, 4, queues)
		for _, queue := range queues {
			add(snapshot, "z"+queue.Name, 1, queue.Name)
		}
		return snapshot, queues
	}, 0)
}

// BenchmarkSingles is 400 pods of one queue that take one pod each of 100 queues, as many of them as one cycle has work for.
func BenchmarkSingles(b *testing.B) {
	measure(b, func() (*model.Snapshot, []*model.Queue) {
		queues := queuesOf(100)
		snapshot := full(1000, 1, queues)
		taker := &model.Queue{Name: "taker", Weight: 100}
		for i := range 400 {
			add(snapshot, fmt.Sprintf("z%03d", i), 1, taker.Name)
		}
		return snapshot, append(queues, taker)
	}, -1)
}
