package simulation

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// This file is T6 and T9: what the scheduler keeps of how many pods of a shape fit on each node and into each domain. It is
// counted again from what nodes offer, their labels, and the pods on them.

// tableChecker is a plugin without an opinion, which looks at these tables when a session ends: every second time, so that they
// also fall behind by more than one session.
type tableChecker struct {
	*process
	random rng
}

var _ framework.SessionCloser = tableChecker{}

// Name returns "tables".
func (tableChecker) Name() string { return "tables" }

// CloseSession judges the tables of one member of each shape that waits; see framework.SessionCloser. Where capacity is held it
// depends on the job how much of it there is.
func (c tableChecker) CloseSession(view framework.View) {
	session := engine.SessionOf(view)
	if len(session.Snapshot.Held()) > 0 || c.random.chance(500) {
		return
	}
	seen := map[model.Shape]bool{}
	for _, job := range session.Snapshot.Jobs {
		var waiting []*model.Task
		for _, task := range job.Tasks {
			if task.Status == model.Pending && task.Invalid == nil && !seen[task.Shape] {
				seen[task.Shape], waiting = true, append(waiting, task)
			}
		}
		c.leavesNoTrace(session, job, waiting)
		for _, task := range waiting {
			if task.SearchesDevices() { // the allocator has its say, too
				continue
			}
			c.countsAgain(session, job, task)
		}
	}
}

// leavesNoTrace is T9: where members are placed and that is undone, each table is what it was.
func (c tableChecker) leavesNoTrace(session *engine.Session, job *model.Job, members []*model.Task) {
	tables := func() (all []string) {
		for _, task := range members {
			all = append(all, tableOf(session, job, task, model.Idle))
		}
		return all
	}
	before := tables()
	session.Try(func(statement *engine.Statement) *model.Refusal {
		for _, task := range members {
			if node := session.Ask(session.Snapshot.Job(task.Job), model.Idle).Best(task, nil); node != nil {
				statement.Put(session.Ask(session.Snapshot.Job(task.Job), model.Idle), task, node)
			}
		}
		tables() // follow what was placed
		return &model.Refusal{}
	})
	if after := tables(); !slices.Equal(before, after) {
		c.violated("T9", "%s: members of %s were placed and taken back, which leaves the tables\n%s\ninstead of\n%s", c.process, job.Key, after, before)
	}
}

// countsAgain is T6: the table of a member's shape is what counting again gives.
func (c tableChecker) countsAgain(session *engine.Session, job *model.Job, task *model.Task) {
	for _, room := range []model.CapacityKind{model.FutureIdle, model.Idle} {
		if got, want := tableOf(session, job, task, room), c.countedTable(session, job, task, room); got != want {
			c.violated("T6", "%s keeps for pods like %s the table\n%s\ninstead of\n%s", c.process, task, got, want)
		}
	}
}

// tableOf writes what is kept of a member's shape: how many fit on each node, and into each domain of the levels.
func tableOf(session *engine.Session, job *model.Job, task *model.Task, room model.CapacityKind) string {
	fits := session.Ask(session.Snapshot.Job(task.Job), room).Counts(task)
	text := fmt.Sprint(fits.Each())
	for _, level := range session.LevelsFor(job) {
		for domain, n := range fits.In(level) {
			text += fmt.Sprintf(" %s=%d", level.Name(domain), n)
		}
	}
	return text
}

// countedTable writes the same as it should be.
func (c tableChecker) countedTable(session *engine.Session, job *model.Job, task *model.Task, room model.CapacityKind) string {
	nodes := session.Snapshot.Nodes
	each := make([]int32, len(nodes))
	for i, node := range nodes {
		if node.Invalid == nil && invariants.Takes(node.Object, task.Pod) {
			each[i] = copiesOn(node, task.Request, room, c.leavingFrom(session.Snapshot, node.Name))
		}
	}
	text := fmt.Sprint(each)
	for _, level := range session.LevelsFor(job) {
		sums := map[string]int64{}
		for i, node := range nodes {
			if path := domainOf(node.Object, level.Level); path != "" {
				sums[path] += int64(each[i])
			}
		}
		for _, path := range slices.SortedFunc(maps.Keys(sums), model.CompareNatural) {
			text += fmt.Sprintf(" %s %s=%d", level.Level, path, sums[path])
		}
	}
	return text
}

// leavingFrom are the devices of claims whose pods are gone, by position.
func (c tableChecker) leavingFrom(snapshot *model.Snapshot, node string) map[int]int64 {
	leaving := map[int]int64{}
	if c.config.Devices {
		for class, n := range c.counted().leaving[node] {
			leaving[snapshot.Dimensions.Index(resourceOfClass(class))] = n
		}
	}
	return leaving
}

// copiesOn counts how many pods with a request the node has capacity for beside the pods on it; with those that end gone and
// those that are nominated to it there, too, unless only idle capacity counts.
func copiesOn(node *model.Node, request model.Resources, room model.CapacityKind, leaving map[int]int64) int32 {
	copies := int64(math.MaxInt32)
	for i, amount := range request {
		if amount <= 0 {
			continue
		}
		idle := node.Allocatable().At(i)
		future := idle
		idle -= leaving[i]
		for _, task := range node.Tasks {
			asks := task.Request.At(i)
			if task.Status.Occupies() {
				idle -= asks
			}
			if task.Status.HasNode() && !task.ReleasesResources() {
				future -= asks
			} else if task.Devices != nil && task.Status.HasNode() {
				future -= task.Devices.Kept.At(i)
			}
		}
		if room == model.Idle {
			future = min(idle, future)
		}
		copies = min(copies, max(0, future/amount))
	}
	return int32(copies)
}
