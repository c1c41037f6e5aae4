package allocate_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/actions/allocate"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/pkg/plugins/priority"
	"github.com/tutti-sched/tutti/pkg/plugins/proportion"
	"github.com/tutti-sched/tutti/pkg/plugins/topology"
)

// backlog is a cluster of 10,000 nodes of three cores with 100,000 pods of 150 shapes that wait, in gangs of that size; those are
// in 900 leaves of a tree of 1,000 queues in four levels if queued. If it is full, three pods run on each node.
func backlog(gangSize int, full, queued bool) *model.Snapshot {
	const nodes, pods, shapes, leaves = 10_000, 100_000, 150, 900
	snapshot := &model.Snapshot{Dimensions: model.NewDimensions(), Version: 1}
	snapshot.Dimensions.Index("example.com/device")
	var running *model.Job
	for i := range nodes {
		room := model.Resources{3000, 512 << 30, 0, 110, 0, 8}
		node := model.NewNode(fmt.Sprintf("n%05d", i), &corev1.Node{}, room)
		snapshot.Nodes = append(snapshot.Nodes, node)
		for j := range 3 {
			if !full {
				continue
			}
			if running == nil || len(running.Tasks) == 30 {
				running = newJob(len(snapshot.Jobs), "job0run")
				running.NothingPending = true
				snapshot.Jobs = append(snapshot.Jobs, running)
			}
			task := addTask(running, 0, fmt.Sprint("run", i, "-", j))
			task.Placement = model.Placement{Status: model.Running, Node: node.Name}
			node.Place(task)
		}
	}
	for i := range pods / gangSize {
		job := newJob(i, "job1wait")
		job.MinMember, job.Priority = int32(gangSize), int32(i/leaves%3) // so that each queue has jobs of each
		for j := range gangSize {
			addTask(job, i%shapes, fmt.Sprintf("%s-%d", job.Key.Name, j))
		}
		job.Class = model.ClassOf(job, func(*model.Task) bool { return false })
		snapshot.Jobs = append(snapshot.Jobs, job)
	}
	if queued {
		snapshot.SetQueues(fourLevels())
		for i, job := range snapshot.Jobs {
			snapshot.Enqueue(job, fmt.Sprintf("leaf%03d", i%leaves))
		}
	}
	return snapshot
}

func newJob(n int, prefix string) *model.Job {
	return &model.Job{
		Key: model.JobKey{Namespace: "default", Name: fmt.Sprintf("%s%06d", prefix, n)}, Version: 1,
		UID: types.UID(fmt.Sprintf("%s%06d", prefix, n*7919%100_003)), // in memory jobs have another order than that of their turns
	}
}

func addTask(job *model.Job, shape int, name string) *model.Task {
	task := &model.Task{
		PodRef: model.PodRef{UID: types.UID(name), Namespace: "default", Name: name}, Job: job.Key, Pod: &corev1.Pod{},
		Priority: job.Priority, Request: model.Resources{1000 + int64(shape), 1 << 30, 0, 1, 0, int64(shape % 2)},
		Shape: unique.Make(fmt.Sprint("shape", shape)),
	}
	job.Tasks = append(job.Tasks, task)
	return task
}

// fourLevels is a tree of 1,000 queues, 900 of which are leaves, sorted by name.
func fourLevels() (queues []*model.Queue) {
	add := func(name, parent string, n int) {
		queue := &model.Queue{Name: fmt.Sprintf("%s%03d", name, n), Weight: int32(1 + n%5)}
		if parent != "" {
			queue.Parent = parent
		}
		if n%4 == 0 {
			queue.Guarantee = []model.ListedAmount{{Position: model.CPU, Amount: 10_000}}
		}
		queues = append(queues, queue)
	}
	for i := range 10 {
		add("a", "", i)
	}
	for i := range 30 {
		add("b", fmt.Sprintf("a%03d", i%10), i)
	}
	for i := range 60 {
		add("c", fmt.Sprintf("b%03d", i%30), i)
	}
	for i := range 900 {
		add("leaf", fmt.Sprintf("c%03d", i%60), i)
	}
	return queues
}

// BenchmarkCycle is a whole cycle, with and without queues: of a cluster that is full, in which every job is refused once more
// since a node has changed, and of one in which as many jobs start as there is capacity for.
func BenchmarkCycle(b *testing.B) {
	for _, gangSize := range []int{50, 1} {
		for _, full := range []bool{true, false} {
			for _, queued := range []bool{false, true} {
				b.Run(fmt.Sprintf("gangs=%d/full=%v/queues=%v", gangSize, full, queued), func(b *testing.B) {
					measure(b, gangSize, full, queued)
				})
			}
		}
	}
}

func measure(b *testing.B, gangSize int, full, queued bool) {
	b.Helper()
	profile := &engine.Profile{
		Actions: []engine.Action{allocate.New()},
		Tiers:   []engine.Tier{{{Factory: priority.New}, {Factory: gang.New}, {Factory: proportion.New}}},
	}
	started := 0
	var cache *engine.Cache
	run := func(snapshot *model.Snapshot) {
		started = 0
		decide := func(d model.Decision) { started += len(d.Binds) }
		engine.Run(snapshot, profile, engine.Options{Cache: cache, Decide: decide})
	}
	cache = &engine.Cache{}
	snapshot := backlog(gangSize, full, queued)
	if full {
		run(snapshot)
	}
	for b.Loop() {
		b.StopTimer()
		if full {
			snapshot.Version++
			snapshot.NodeChanged(snapshot.Nodes[0])
		} else {
			cache, snapshot = &engine.Cache{}, backlog(gangSize, full, queued)
		}
		b.StartTimer()
		run(snapshot)
	}
	if started > 0 == full {
		b.Fatalf("%d pods started", started)
	}
	b.ReportMetric(float64(started), "pods")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms/cycle")
}

// BenchmarkTopology is a cycle of 10,000 nodes in racks of 20 in blocks of 50 racks: a gang of 1,000 in one block, one that no
// rack holds, with nothing known and with one node changed, and 500 gangs of 20 each in a rack.
func BenchmarkTopology(b *testing.B) {
	for _, c := range []struct {
		name        string
		level       string
		gangs, size int
		full, kept  bool
	}{
		{"block of 1000", "block", 1, 1000, false, false}, {"racks of 20", "rack", 500, 20, false, false},
		{"without", "", 500, 20, false, false}, {"hopeless first", "rack", 10_000, 21, false, false},
		{"hopeless without", "", 10_000, 21, true, false}, {"hopeless one node changed", "rack", 10_000, 21, false, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			profile := &engine.Profile{
				Actions: []engine.Action{allocate.New()}, Tiers: []engine.Tier{{{Factory: priority.New}, {Factory: gang.New}}}, Topologies: trees(),
			}
			cache, started := &engine.Cache{}, 0
			run := func(snapshot *model.Snapshot) {
				started = 0
				engine.Run(snapshot, profile, engine.Options{Cache: cache, Decide: func(d model.Decision) { started += len(d.Binds) }})
			}
			snapshot := inRacks(c.gangs, c.size, c.level, c.full)
			if c.kept {
				run(snapshot)
			}
			for b.Loop() {
				b.StopTimer()
				if c.kept {
					snapshot.Version++
					snapshot.NodeChanged(snapshot.Nodes[0])
				} else {
					cache, snapshot = &engine.Cache{}, inRacks(c.gangs, c.size, c.level, c.full)
				}
				b.StartTimer()
				run(snapshot)
			}
			b.ReportMetric(float64(started), "pods")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms/cycle")
		})
	}
}

// BenchmarkTopologyScore is a cycle in which 10,000 single pods that name no level start on as many nodes: how many times as long
// it takes with the score that keeps them out of whole domains of three levels as without it, by the shortest of each. Pods are
// of one shape, or of 150; nothing is known of the nodes before, or all.
func BenchmarkTopologyScore(b *testing.B) {
	for _, shapes := range []int{1, 150} {
		for _, kept := range []bool{false, true} {
			b.Run(fmt.Sprintf("shapes=%d/kept=%v", shapes, kept), func(b *testing.B) {
				shortest := [2]time.Duration{time.Hour, time.Hour}
				for b.Loop() {
					for i, weight := range []int64{0, 2} {
						shortest[i] = min(shortest[i], startSingly(b, weight, shapes, kept))
					}
				}
				b.ReportMetric(float64(shortest[0].Microseconds())/1000, "ms-without")
				b.ReportMetric(float64(shortest[1])/float64(shortest[0]), "times-with")
			})
		}
	}
}

// startSingly returns how long the cycle takes in which 10,000 pods start.
func startSingly(b *testing.B, weight int64, shapes int, kept bool) time.Duration {
	b.Helper()
	b.StopTimer()
	profile := &engine.Profile{
		Actions: []engine.Action{allocate.New()}, Topologies: trees(),
		Tiers: []engine.Tier{{{Factory: priority.New}, {Factory: gang.New}, {Factory: topology.New(weight)}}},
	}
	snapshot, cache := inRacks(10_000, 1, "", false), &engine.Cache{}
	for i, job := range snapshot.Jobs {
		task := job.Tasks[0]
		task.Shape, task.Request = unique.Make(fmt.Sprint("shape", i%shapes)), model.Resources{1000 - int64(i%shapes), 1 << 30, 0, 1, 0, 1}
		job.Class = model.ClassOf(job, func(*model.Task) bool { return false })
	}
	if kept {
		session := engine.Open(snapshot, profile, engine.Options{Cache: cache})
		for _, job := range snapshot.Jobs[:shapes] {
			session.Ask(session.Snapshot.Job(job.Tasks[0].Job), model.Idle).Best(job.Tasks[0], nil)
		}
		session.Close()
	}
	started := 0
	runtime.GC()
	b.StartTimer()
	begin := time.Now()
	engine.Run(snapshot, profile, engine.Options{Cache: cache, Decide: func(d model.Decision) { started += len(d.Binds) }})
	took := time.Since(begin)
	if started != len(snapshot.Jobs) {
		b.Fatalf("%d pods started", started)
	}
	return took
}

// inRacks is a cluster of 10,000 nodes of one place each, none if full, and gangs that wait.
func inRacks(gangs, size int, level string, full bool) *model.Snapshot {
	snapshot := &model.Snapshot{Dimensions: model.NewDimensions(), Version: 1}
	snapshot.Dimensions.Index("example.com/device")
	for i := range 10_000 {
		room := model.Resources{1000, 64 << 30, 0, 110, 0, 1}
		if full {
			room[0] = 0
		}
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
			"block": fmt.Sprint("b", i/1000), "rack": fmt.Sprint("r", i/20%50), "clique": fmt.Sprint("c", i/18), "a": "b", "c": "d", "e": "f", "g": "h",
		}}}
		snapshot.Nodes = append(snapshot.Nodes, model.NewNode(fmt.Sprintf("n%05d", i), object, room))
	}
	for i := range gangs {
		job := newJob(i, "job1wait")
		job.MinMember = int32(size)
		if level != "" {
			job.Topology = []model.TopologyConstraint{{Level: level}}
		}
		for j := range size {
			addTask(job, i%150, fmt.Sprintf("%s-%d", job.Key.Name, j)).Request[model.CPU] = 1000 - int64(i%150)
		}
		job.Class = model.ClassOf(job, func(*model.Task) bool { return false })
		snapshot.Jobs = append(snapshot.Jobs, job)
	}
	return snapshot
}
