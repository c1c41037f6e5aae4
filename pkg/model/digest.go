package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Digest returns a hash of Text, by which snapshots are compared that are not kept.
func (s *Snapshot) Digest() string {
	sum := sha256.Sum256([]byte(s.Text()))
	return hex.EncodeToString(sum[:])
}

// Text writes the snapshot down, so that two snapshots are the same exactly when their texts are. Versions and the journal are
// not in it: they tell how the snapshot came about. Vectors are written by resource name, since a position tells only which name
// was met first.
func (s *Snapshot) Text() string {
	var b strings.Builder
	fmt.Fprintln(&b, "now", s.Now.UTC())
	vector := func(v Resources) string { return "{" + s.Dimensions.text(v) + "}" }
	for _, n := range s.Nodes {
		fmt.Fprintf(&b, "node %s %s v%s %v offers %s idle %s releasing %s nominated %s kept %s %s\n", n.Name, n.Object.UID,
			n.Object.ResourceVersion, n.Object.Labels, vector(n.Allocatable()), vector(n.Amounts().Idle), vector(n.Amounts().Releasing),
			vector(n.Amounts().Pipelined), vector(n.Amounts().Reserved), n.Invalid)
		fmt.Fprintln(&b, "  isolated", n.Isolated != nil, n.AgentExpired)
		for _, task := range n.Tasks {
			fmt.Fprintf(&b, "  %s\n", task.UID)
		}
	}
	for _, j := range s.Jobs {
		fmt.Fprintf(&b, "job %s single=%t implicit=%t %q priority %d min %d %v since %s %s", j.Key, j.Key.IsPod(), j.Key.IsImplicit(), j.UID, j.Priority,
			j.MinMember, j.Roles, j.Created.UTC(), j.Invalid)
		fmt.Fprintf(&b, " shares %q", fmt.Sprint(j.Topology))
		if j.ClassPriority != nil {
			fmt.Fprintf(&b, " class %d", *j.ClassPriority)
		}
		fmt.Fprintf(&b, " reserved %s", j.Reservation.text(s.Dimensions))
		if j.Queue != "" {
			fmt.Fprintf(&b, " queue %s %t %s", j.Queue, j.Class == (Class{}) || j.Class.Queue.Value() == j.Queue, s.QueueRefusal(j))
		}
		if j.HasGroup {
			fmt.Fprintf(&b, " group finished %t waiting since %s", j.StatusFinished, j.WaitingSince)
		}
		fmt.Fprintf(&b, " warning %q whole %t lowered %t settled %t below its minimum %t", j.Warning, j.Whole, j.Stated != nil, j.NothingPending, j.BelowMinimum)
		fmt.Fprintf(&b, " never preempts %t ends together %t in a class %t", j.NeverPreempts, j.EndsTogether, j.Class != Class{})
		b.WriteByte('\n')
		for _, task := range j.Tasks {
			fmt.Fprintf(&b, "  %s\n", task.UID)
		}
	}
	for _, hold := range s.Held() {
		fmt.Fprintln(&b, "hold", hold.Node, hold.Job, hold.Priority, hold.Pod, vector(hold.Request), hold.LentUntil)
	}
	for _, q := range s.Queues {
		fmt.Fprintf(&b, "queue %s %q of %q holds %s releases %s inner %t %s\n", q.Name, q.UID, q.Parent, vector(q.Used), vector(q.Releasing), q.Inner, q.Invalid)
	}
	for _, budget := range s.Budgets {
		fmt.Fprintf(&b, "budget %s/%s of %s allows %d\n", budget.Namespace, budget.Name, budget.Selector, budget.Allowed)
	}
	for _, task := range s.tasks() {
		if task.Devices != nil {
			fmt.Fprintf(&b, "%s claims %s keeps %s shares %s %q\n", task.UID, vector(task.Devices.Claimed), vector(task.Devices.Kept), vector(task.Devices.Shared), task.Devices.Searched)
		}
		if task.Isolated != nil {
			fmt.Fprintln(&b, task.UID, "holds", task.Isolated.CPUs)
		}
		fmt.Fprintf(&b, "task %s %s %s on %q nominated %q of %s says %d begun=%t role %q priority %d since %s wants %s class=%t gated=%t stuck=%t %s v%s shape %s\n",
			task.UID, task.PodRef, task.Status, task.Node, task.Nominated, task.Job, task.MinMember, task.Started, task.Role, task.Priority, task.Created.UTC(),
			vector(task.Request), task.MayUseDeviceClass, task.SchedulingGated, task.TerminationOverdue, task.Invalid, task.Pod.ResourceVersion, task.Shape.Value())
	}
	return b.String()
}

// tasks lists all tasks by UID, also those on nodes that are in no job.
func (s *Snapshot) tasks() (tasks []*Task) {
	for _, job := range s.Jobs {
		tasks = append(tasks, job.Tasks...)
	}
	for _, node := range s.Nodes {
		tasks = append(tasks, node.Tasks...)
	}
	slices.SortFunc(tasks, func(a, b *Task) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return slices.Compact(tasks)
}

// text writes down what is reserved; nil is nothing.
func (r *Reservation) text(dimensions *ResourceIndex) string {
	if r == nil {
		return "nothing"
	}
	text := r.Describe()
	for _, room := range r.Nodes {
		text += fmt.Sprintf(" %d on %s: %s;", room.Members, room.Node, dimensions.text(room.Request))
	}
	return text
}

// text lists amounts by name.
func (d *ResourceIndex) text(vector Resources) string {
	lines := make([]string, 0, len(vector))
	for i, amount := range vector {
		if amount != 0 && i != Unoffered {
			lines = append(lines, fmt.Sprintf("%s=%d", d.Name(i), amount))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, " ")
}
