package proportion

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// setWorlds says which resources queues are compared by, sorted by name: which of several a reason names must not depend on which
// was seen first.
func (s *sharing) setWorlds(snapshot *model.Snapshot) {
	for r := range s.dimensions {
		switch name := string(snapshot.Dimensions.Name(r)); {
		case r == model.Unoffered:
		case strings.Contains(name, "/") && !strings.HasPrefix(name, corev1.ResourceDefaultNamespacePrefix):
			s.devices = append(s.devices, r)
		default:
			s.ordinary = append(s.ordinary, r)
		}
	}
	byName := func(a, b int) int { return cmp.Compare(snapshot.Dimensions.Name(a), snapshot.Dimensions.Name(b)) }
	slices.SortFunc(s.devices, byName)
	slices.SortFunc(s.ordinary, byName)
}

// demand is what there is for all queues, and what waits in each.
type demand struct {
	view framework.View
	// numbers are those of the queues in the tree; queues without one neither have nor ask for anything.
	numbers []int
	// supply is what queues can have, once what others hold is taken off.
	supply model.Resources
	// waiting is what the jobs of each queue ask for beyond what they hold, by the queue's index.
	waiting []model.Resources
	// jobs are those that wait to start, whether or not what they ask for counts.
	jobs []*model.Job
	// asked is what countMembers has found.
	asked model.Resources
}

// newDemand counts both. own is what the jobs of each queue hold.
func newDemand(view framework.View, own []model.Resources, numbers []int) *demand {
	snapshot := view.Snapshot()
	d := &demand{
		view: view, numbers: numbers, supply: make(model.Resources, snapshot.Dimensions.Len()), waiting: make([]model.Resources, len(own)),
		asked: make(model.Resources, snapshot.Dimensions.Len()),
	}
	for _, node := range snapshot.Nodes {
		d.addNode(node)
	}
	for i := range own {
		if d.counts(snapshot.Queues[i]) {
			d.addSupply(own[i], 1)
		}
	}
	var waiting []*model.Job
	for _, job := range snapshot.Jobs {
		if !d.counts(job.InQueue()) || job.NothingPending && !view.Uncached() {
			continue
		}
		for _, task := range job.Tasks {
			if task.CountsInQueue() && !task.Status.Occupies() {
				d.addSupply(task.Request, -1) // held, and idle on its node
			}
		}
		waiting = append(waiting, job)
	}
	for _, job := range waiting { // with the supply known
		d.addJob(job)
	}
	return d
}

// stillCounts is for how long a node counts after it has become not ready: its pods live on for as long.
const stillCounts = 5 * time.Minute

// addNode adds what a node gives beyond what queues hold there, which is added for all nodes together: what is idle. What others
// hold beyond what the node has is no debt.
func (d *demand) addNode(node *model.Node) {
	takes, until := schedulable(node, d.view.Snapshot().Now)
	if !takes {
		return
	}
	if !until.IsZero() { // then there is less for all queues, and one may take from another, though nothing else happens
		d.view.Until(until)
	}
	for r := range d.supply {
		if node.Allocatable().At(r) == model.ProvidedByDRA {
			continue // of devices that are not counted there is what is held
		}
		idle := node.Idle(r) + node.Leaving().At(r) // what is leaving is held by no queue, and idle soon
		if idle < 0 {
			idle += max(0, d.heldByOthers(node, r)-node.Allocatable().At(r))
		}
		d.supply[r] = plus(d.supply[r], idle)
	}
}

func (d *demand) addSupply(amounts model.Resources, sign int64) {
	for r, amount := range amounts {
		d.supply[r] = plus(d.supply[r], sign*amount)
	}
}

// plus adds; a sum that is too large or too small for its type is as large or as small as can be.
func plus(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}

func (d *demand) heldByOthers(node *model.Node, r int) (held int64) {
	for _, task := range node.Tasks {
		if !d.counts(task.InQueue()) && task.Status.Occupies() {
			held += node.Charge(task).At(r)
		}
	}
	return held
}

// counts reports whether the queue is in the tree; no queue is not.
func (d *demand) counts(queue *model.Queue) bool {
	return queue != nil && d.numbers[queue.Index] != absent
}

// schedulable reports whether a node takes new pods, or will once it is ready again, soon; until is how long it counts when it is
// not ready, zero for a node that is.
func schedulable(node *model.Node, now time.Time) (takes bool, until time.Time) {
	if node.Invalid != nil || node.Object == nil {
		return node.Invalid == nil, until
	}
	if node.Object.Spec.Unschedulable {
		return false, until
	}
	for i := range node.Object.Status.Conditions {
		if c := &node.Object.Status.Conditions[i]; c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			until = c.LastTransitionTime.Add(stillCounts)
			return now.Before(until), until
		}
	}
	return true, until
}

// addJob adds what a job asks for, if it could start in an empty cluster: what no node can run must not change what others may
// count on.
func (d *demand) addJob(job *model.Job) {
	members, needs := d.countMembers(job), int(job.MinMember)-job.Count(framework.Pipelined.Counts)
	if members == 0 && needs <= 0 || d.view.ValidateAlone(job) != nil {
		return
	}
	if needs > 0 {
		d.jobs = append(d.jobs, job)
	}
	if members == 0 || members < needs || !d.view.FitsLimits(job) || d.exceedsSupply(job, needs) {
		return
	}
	sum := &d.waiting[job.InQueue().Index]
	if *sum == nil {
		*sum = make(model.Resources, len(d.supply))
	}
	sum.AddCapped(d.asked)
}

// exceedsSupply reports whether so many members ask for more than there is.
func (d *demand) exceedsSupply(job *model.Job, members int) bool {
	for r := range d.supply {
		if members > 0 && model.LeastRequest(job, members, r) > max(0, d.supply[r]) {
			return true
		}
	}
	return false
}

// countMembers returns how many members of the job wait that some node could run. What these ask for together, beyond what the
// queue holds, is then in asked.
func (d *demand) countMembers(job *model.Job) (members int) {
	clear(d.asked)
	var first *model.Task // of those in a row that are alike
	alike := int64(0)
	add := func() {
		if alike == 0 || !d.view.FitsEmptyNode(first) {
			return
		}
		members += int(alike)
		for r, amount := range first.Request {
			d.asked[r] = plus(d.asked[r], min(amount, math.MaxInt64/alike)*alike)
		}
	}
	for _, task := range job.Tasks {
		switch {
		case task.Status != model.Pending || task.SchedulingGated || task.Invalid != nil:
		case task.CountsInQueue():
			members++ // has capacity nominated
		case alike > 0 && task.Shape == first.Shape:
			alike++
		default:
			add()
			first, alike = task, 1
		}
	}
	add()
	return members
}
