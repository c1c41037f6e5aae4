package suggest

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// mostCreated is up to how many members are supposed to exist to see whether they would do.
const mostCreated = 1000

// complete returns what would help a job that lacks members, or whose members are gated: members like those there are, or
// ungated ones, and capacity for them where that is lacking; or a lower minimum. With the members the priority may be lower, and
// fewer tasks may be evicted.
func (q *search) complete(statement *framework.Statement) Suggestions {
	change, suppose := q.missing()
	if change == nil {
		return nil
	}
	var advice Suggestions
	if back := suppose(); back != nil {
		advice = q.completed(change, back)
	}
	if len(advice) == 0 && change.Kind == Create {
		change.words += ", at least"
		advice = Suggestions{{change}}
	}
	if q.job.Count(waits) > 0 && q.membersAnswerable() {
		q.evict(statement, q.job.Priority)
		if lower := q.verified(q.lowerMinimum(int64(q.job.Count(exists)))); lower != nil {
			advice = append(advice, Suggestion{lower})
		}
	}
	return advice
}

// completed returns what is to be done when the members are supposed to be there, which back takes back.
func (q *search) completed(change *Change, back func()) (advice Suggestions) {
	defer back()
	q.whatIf(func(statement *framework.Statement) { advice = q.startCompleted(statement, change) })
	return advice
}

// startCompleted returns what is to be done with the members that are supposed.
func (q *search) startCompleted(statement *framework.Statement, change *Change) Suggestions {
	defer func(priority int32) { q.job.Priority = priority }(q.job.Priority)
	q.job.SetPriority() // with them it may need no member of a lower priority any more, or one
	q.evict(statement, q.job.Priority)
	if !q.isApplicable() {
		return nil
	}
	change.Verified = true
	if q.isSchedulable() {
		return Suggestions{{change}}
	}
	if claims, _ := q.session.Claims(q.job); len(claims) > 0 { // what it lacks then may be taken from other queues
		change.Verified = false
		return nil
	}
	for _, find := range []func() *Change{q.freeResources, q.drop, q.addNodes(q.placed)} {
		if more := q.verified(find); more != nil {
			return Suggestions{{change, more}}
		}
	}
	change.Verified = false
	return nil
}

// membersAnswerable is answerable for a job that is refused since members are missing.
func (q *search) membersAnswerable() bool {
	return !slices.ContainsFunc(q.job.Pending(), func(task *model.Task) bool { return task.Invalid != nil || q.session.HasTransientRefusal(task) })
}

func waits(task *model.Task) bool { return task.Status == model.Pending && !task.SchedulingGated }

// exists reports whether a task counts towards the minimum, or would if it had a node.
func exists(task *model.Task) bool { return task.Status.CountsTowardMinimum() || waits(task) }

// missing returns which members are missing, and what supposes that they are there and returns how to take that back; nil
// when that cannot be supposed.
func (q *search) missing() (*Change, func() (back func())) {
	job := q.job
	gated := job.Count(func(task *model.Task) bool { return task.SchedulingGated && task.Status == model.Pending })
	if job.FirstUnmetMinimum(exists) == nil {
		return nil, nil
	}
	if job.FirstUnmetMinimum(func(task *model.Task) bool {
		return exists(task) || task.SchedulingGated && task.Status == model.Pending
	}) == nil {
		change := &Change{Kind: Ungate, Members: gated, words: "take the scheduling gates off " + counted(gated, "pod")}
		return change, q.ungateMembers
	}
	create := &Change{Kind: Create}
	for _, role := range job.Roles {
		has := job.Count(func(task *model.Task) bool { return task.Role == role.Name && (exists(task) || task.SchedulingGated) })
		if short := role.MinMember - int32(has); short > 0 {
			create.PerRole = append(create.PerRole, model.Role{Name: role.Name, MinMember: short})
			create.Members += int(short)
		}
	}
	has := job.Count(func(task *model.Task) bool { return exists(task) || task.SchedulingGated })
	create.Members = max(create.Members, int(job.MinMember)-has)
	create.words = fmt.Sprintf("create %s of the group", morePods(create.Members, has > 0))
	var roles []string
	for _, role := range create.PerRole {
		roles = append(roles, fmt.Sprintf("%d with the role %s", role.MinMember, role.Name))
	}
	if len(roles) > 0 {
		create.words += ", " + listed(roles)
	}
	if gated > 0 {
		create.words += ", and take the scheduling gates off"
	}
	return create, func() func() { return q.createMembers(create) }
}

func morePods(n int, more bool) string {
	if more {
		return counted(n, "more pod")
	}
	return counted(n, "pod")
}

// ungateMembers supposes that no member is gated.
func (q *search) ungateMembers() (back func()) {
	var gated []*model.Task
	for _, task := range q.job.Tasks {
		if task.SchedulingGated {
			task.SchedulingGated = false
			gated = append(gated, task)
		}
	}
	return func() {
		for _, task := range gated {
			task.SchedulingGated = true
		}
	}
}

// createMembers supposes that missing members are there. They are like those of their role, or like the first there is.
func (q *search) createMembers(missing *Change) (back func()) {
	job, before := q.job, q.job.Tasks
	if missing.Members > mostCreated {
		return nil
	}
	var fresh []*model.Task
	add := func(role string, n int) bool {
		template := q.template(role)
		for i := 0; i < n && template != nil; i++ {
			fresh, missing.Template = append(fresh, newMember(template, role, len(fresh))), append(missing.Template, template.PodRef)
		}
		return template != nil
	}
	for _, role := range missing.PerRole {
		if !add(role.Name, int(role.MinMember)) {
			return nil
		}
	}
	if !add("", missing.Members-len(fresh)) {
		return nil
	}
	if like := missing.Template[0]; len(kindsOf(before)) > 1 && len(missing.PerRole) == 0 {
		missing.words += ", like pod " + like.Name
	}
	ungated := q.ungateMembers()
	job.Tasks = append(slices.Clone(before), fresh...)
	return func() {
		job.Tasks = before
		ungated()
	}
}

// template returns a member that waits and whose like can be supposed; of the role if that is said.
func (q *search) template(role string) *model.Task {
	for _, task := range q.job.Tasks {
		if task.Status == model.Pending && task.Invalid == nil && (role == "" || task.Role == role) && ordinary(task.Pod) {
			return task
		}
	}
	return nil
}

// ordinary reports whether another pod like this one would ask for nothing that only one of them can have.
func ordinary(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) == 0 && !slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool {
		return volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil
	})
}

// newMember makes another member. Its name is one that no pod has; what is remembered of pods by their UID is not kept for
// many.
func newMember(template *model.Task, role string, number int) *model.Task {
	task := *template
	if role != "" {
		task.Role = role
	}
	pod := *template.Pod
	pod.Name = fmt.Sprintf("supposed?%d", number)
	pod.UID = types.UID(pod.Name)
	task.Pod, task.Name, task.UID = &pod, pod.Name, pod.UID
	task.SchedulingGated, task.Nominated = false, ""
	return &task
}
