package preempt_test

import (
	"fmt"
	"testing"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/actions/preempt"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/conformance"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/pkg/plugins/priority"
)

// refusing stands in for allocate on a cluster that is full: it finds that out at no cost.
type refusing struct{}

func (refusing) Name() string { return "refusing" }

func (refusing) Execute(session *engine.Session) {
	for _, job := range session.Snapshot.Jobs {
		if job.Priority > 0 {
			session.Refuse(job, &model.Refusal{Code: model.InsufficientResources, Evictable: true})
		}
	}
}

// full returns a cluster of nodes with eight devices each, all taken by pods of priority 0 in gangs of that size.
func full(nodes, gangSize int) *model.Snapshot {
	snapshot := &model.Snapshot{Dimensions: model.NewDimensions(), Now: time.Unix(1000, 0)}
	snapshot.Dimensions.Index("example.com/device")
	var job *model.Job
	for i := range nodes {
		room := model.Resources{64_000, 512 << 30, 0, 110, 8}
		node := model.NewNode(fmt.Sprintf("n%05d", i), nil, room)
		snapshot.Nodes = append(snapshot.Nodes, node)
		for j := range 8 {
			if job == nil || len(job.Tasks) == gangSize {
				job = &model.Job{
					Key: model.JobKey{Namespace: "default", Name: fmt.Sprintf("low%05d-%d", i, j)}, Need: model.Need{MinMember: int32(gangSize)}, Version: 1,
				}
				snapshot.Jobs = append(snapshot.Jobs, job)
			}
			task := device(job, fmt.Sprintf("low%05d-%d", i, j))
			task.Placement = model.Placement{Status: model.Running, Node: node.Name}
			node.Place(task)
		}
	}
	return snapshot
}

// device adds a task that wants one device to a job.
func device(job *model.Job, name string) *model.Task {
	task := &model.Task{
		PodRef: model.PodRef{UID: types.UID(name), Namespace: "default", Name: name}, Job: job.Key, Pod: &corev1.Pod{},
		Priority: job.Priority, Request: model.Resources{8_000, 64 << 30, 0, 1, 1}, Shape: unique.Make("device"),
	}
	job.Tasks = append(job.Tasks, task)
	return task
}

func measure(b *testing.B, cluster func() *model.Snapshot, victims int) {
	b.Helper()
	for b.Loop() {
		b.StopTimer()
		snapshot := cluster()
		snapshot.AssignIndexes()
		profile := &engine.Profile{
			Actions: []engine.Action{refusing{}, preempt.New(preempt.DefaultOptions())}, Topologies: racks(),
			Tiers: []engine.Tier{{{Factory: priority.New}, {Factory: gang.New}, {Factory: conformance.New}}},
		}
		evicted := 0
		options := engine.Options{Decide: func(d model.Decision) { evicted += len(d.Evictions) }}
		b.StartTimer()
		engine.Run(snapshot, profile, options)
		if evicted != victims {
			b.Fatalf("%d pods are evicted, not %d", evicted, victims)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/cycle")
}

// BenchmarkGang is one gang of 1,000 on clusters that are full of gangs.
func BenchmarkGang(b *testing.B) {
	for _, nodes := range []int{500, 1000, 2500, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			measure(b, func() *model.Snapshot {
				snapshot := full(nodes, 4)
				job := &model.Job{
					Key: model.JobKey{Namespace: "default", Name: "z"}, Need: model.Need{MinMember: 1000}, Priority: 10, Version: 1,
				}
				for i := range 1000 {
					device(job, fmt.Sprintf("z%04d", i))
				}
				snapshot.Jobs = append(snapshot.Jobs, job)
				return snapshot
			}, 1000)
		})
	}
}

// BenchmarkDomains is one gang on 10,000 nodes in 10 blocks of 50 racks, full of gangs: of members that take a device or a whole
// node each, anywhere or in one domain.
func BenchmarkDomains(b *testing.B) {
	for _, of := range []struct {
		level            string
		members, devices int
	}{{"", 1000, 1}, {"block", 1000, 1}, {"", 1000, 8}, {"block", 1000, 8}, {"rack", 20, 8}, {"rack", 20, 1}} {
		b.Run(fmt.Sprintf("level=%s/members=%d/devices=%d", of.level, of.members, of.devices), func(b *testing.B) {
			measure(b, func() *model.Snapshot {
				snapshot := full(10_000, 4)
				for i, node := range snapshot.Nodes {
					node.Object = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
						"block": fmt.Sprint("b", i/1000), "rack": fmt.Sprint("r", i/20%50),
					}}}
				}
				job := &model.Job{Key: model.JobKey{Namespace: "default", Name: "z"}, Need: model.Need{MinMember: int32(of.members)}, Priority: 10, Version: 1}
				if of.level != "" {
					job.Topology = []model.TopologyConstraint{{Level: of.level}}
				}
				for i := range of.members {
					task := device(job, fmt.Sprintf("z%04d", i))
					for position := range task.Request {
						if position != model.Pods {
							task.Request[position] *= int64(of.devices)
						}
					}
				}
				snapshot.Jobs = append(snapshot.Jobs, job)
				return snapshot
			}, of.members*of.devices)
		})
	}
}

// BenchmarkSingles is 4,000 pods of one device that evict 4,000 others, all there are on 500 nodes.
func BenchmarkSingles(b *testing.B) {
	for _, nodes := range []int{125, 250, 500} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			measure(b, func() *model.Snapshot {
				snapshot := full(nodes, 1)
				for i := range 8 * nodes {
					job := &model.Job{
						Key: model.JobKey{Namespace: "default", Name: fmt.Sprintf("z%04d", i), Source: model.SourcePod}, Need: model.Need{MinMember: 1}, Priority: 10, Version: 1,
					}
					device(job, fmt.Sprintf("z%04d", i))
					snapshot.Jobs = append(snapshot.Jobs, job)
				}
				return snapshot
			}, 8*nodes)
		})
	}
}

// BenchmarkRoles is one gang of a launcher and 999 workers.
func BenchmarkRoles(b *testing.B) {
	for _, nodes := range []int{500, 1000, 2500, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			measure(b, func() *model.Snapshot {
				snapshot := full(nodes, 4)
				job := &model.Job{
					Key: model.JobKey{Namespace: "default", Name: "z"}, Need: model.Need{MinMember: 1000, Roles: []model.Role{{Name: "launcher", MinMember: 1}, {Name: "worker", MinMember: 999}}}, Priority: 10, Version: 1,
				}
				for i := range 1000 {
					task := device(job, fmt.Sprintf("z%04d", i))
					if task.Role = "worker"; i == 0 {
						task.Role, task.Request, task.Shape = "launcher", model.Resources{16_000, 64 << 30, 0, 1}, unique.Make("launcher")
					}
				}
				snapshot.Jobs = append(snapshot.Jobs, job)
				return snapshot
			}, 1004)
		})
	}
}

// BenchmarkHopeless is a thousand pods, each of another shape, for which no eviction frees enough capacity: the search ends
// with its budget.
func BenchmarkHopeless(b *testing.B) {
	measure(b, func() *model.Snapshot {
		snapshot := full(5000, 4)
		for i := range 1000 {
			job := &model.Job{
				Key: model.JobKey{Namespace: "default", Name: fmt.Sprintf("z%04d", i), Source: model.SourcePod}, Need: model.Need{MinMember: 1}, Priority: 10, Version: 1,
			}
			task := device(job, fmt.Sprintf("z%04d", i))
			task.Request, task.Shape = model.Resources{int64(i), 0, 0, 1, 9}, unique.Make(task.Name)
			snapshot.Jobs = append(snapshot.Jobs, job)
		}
		return snapshot
	}, 0)
}

// BenchmarkSmallGangs is 250 gangs of 4, on clusters that are full of gangs of 2 that can spare one of them, of many ages.
func BenchmarkSmallGangs(b *testing.B) {
	for _, nodes := range []int{250, 1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			measure(b, func() *model.Snapshot {
				snapshot := full(nodes, 2)
				for i, job := range snapshot.Jobs {
					job.MinMember = 1
					for j, task := range job.Tasks {
						task.Created = time.Unix(int64((i*2+j)*7919%10_000), 0)
					}
				}
				for i := range 250 {
					job := &model.Job{Key: model.JobKey{Namespace: "default", Name: fmt.Sprintf("z%04d", i)}, Need: model.Need{MinMember: 4}, Priority: 10, Version: 1}
					for j := range 4 {
						device(job, fmt.Sprintf("z%04d-%d", i, j))
					}
					snapshot.Jobs = append(snapshot.Jobs, job)
				}
				return snapshot
			}, 1000)
		})
	}
}
