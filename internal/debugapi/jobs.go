package debugapi

import (
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// readJobs makes the document of the jobs of a namespace, of all namespaces when it is empty, with their turns.
func readJobs(shown Inspected, namespace string) (list *JobList, finish func()) {
	list = &JobList{ListMeta: shown.about("JobList"), SchedulerNames: shown.SchedulerNames}
	lines := readOrder(shown).lines()
	var keys []model.JobKey
	list.Items, keys = shown.Jobs(namespace)
	return list, func() { writeTurns(lines, list.Items, keys) }
}

// selectJobs returns what a label selector selects of a list.
func selectJobs(labelSelector string, get func() (*JobList, error)) (*JobList, error) {
	selector, err := labels.Parse(labelSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest("labelSelector: " + err.Error())
	}
	all, err := get()
	if err != nil {
		return nil, err
	}
	selected := *all
	selected.Select(selector)
	return &selected, nil
}

// Select keeps the jobs that a selector selects, in a list of their own.
func (l *JobList) Select(selector labels.Selector) {
	kept := []Job{}
	for i := range l.Items {
		if job := &l.Items[i]; selector.Matches(labels.Set(job.Labels)) {
			kept = append(kept, *job)
		}
	}
	l.Items = kept
}

// inTurn says where a job is among those that wait.
func inTurn(place, of int) string {
	if of == 1 {
		return "the only waiting job"
	}
	return fmt.Sprintf("%s of %d waiting jobs", ordinal(place+1), of)
}

// maxBehind is how many jobs are named that come before another one.
const maxBehind = 3

// ordinal writes 1st, 2nd, 3rd, 4th.
func ordinal(n int) string {
	suffix := "th"
	if tens := n / 10 % 10; tens != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}

// SetStatus takes over what a status of a PodGroup says. explanation is the condition that says why the job is as it is; nil
// when there is none.
func (j *Job) SetStatus(status *v1alpha1.PodGroupStatus, explanation *metav1.Condition) {
	j.Phase, j.Queue, j.Topology, j.Reservation = status.Phase, status.Queue, status.Topology, status.Reservation
	j.Bound, j.Running, j.Succeeded, j.Failed = status.Placed, status.Running, status.Succeeded, status.Failed
	j.WaitingSince, j.DegradedSince = status.WaitingSince, status.DegradedSince
	j.Advice = status.Advice
	if explanation != nil {
		j.Reason, j.Message = explanation.Reason, explanation.Message
	}
	if evicted := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionEvicted); evicted != nil && evicted.Status == metav1.ConditionTrue {
		j.Evicted, j.EvictedAt = evicted.Reason+": "+evicted.Message, &evicted.LastTransitionTime
	}
}

// AddMember adds a member, and counts it where it is one towards a minimum.
func (j *Job) AddMember(member Member) {
	j.Members = append(j.Members, member)
	has, bound := int32(0), int32(0)
	switch member.State {
	case MemberWaiting:
		has = 1
	case MemberBound, MemberRunning, MemberSucceeded:
		has, bound = 1, 1
	}
	j.Has += has
	for i := range j.Roles {
		if role := &j.Roles[i]; role.Name == member.Role {
			role.Has, role.Bound = role.Has+has, role.Bound+bound
		}
	}
}

// AddOwner adds an owner, unless its UID is in met, the UIDs of those before. The first one may be without a UID: it is taken for
// another of its kind and name.
func (j *Job) AddOwner(owner *metav1.OwnerReference, met map[types.UID]bool) {
	if owner == nil || met[owner.UID] {
		return
	}
	met[owner.UID] = true
	if known := j.OwnerReferences; len(known) > 0 && known[0].UID == "" && known[0].Kind == owner.Kind && known[0].Name == owner.Name {
		known[0] = *owner
		return
	}
	j.OwnerReferences = append(j.OwnerReferences, *owner)
}

// Owner is the first of its owners, such as MPIJob/train; empty for a PodGroup, a pod, and where there is none.
func (j *Job) Owner() string {
	if len(j.OwnerReferences) == 0 || j.Source == model.SourcePodGroup.Kind() || j.Source == model.SourcePod.Kind() {
		return ""
	}
	return j.OwnerReferences[0].Kind + "/" + j.OwnerReferences[0].Name
}

// Waits reports whether the job has not started.
func (j *Job) Waits() bool { return j.Phase == "" || j.Phase == v1alpha1.PodGroupPending }

// Places says of each entry in which domains the members are, and where fewer might have been enough: "rack: 3 domains (b1/r1,
// b1/r2, b1/r3), 2 might do". Least is a lower bound, so that no more can be said.
func Places(topology []v1alpha1.TopologyStatus) (places []string) {
	for i := range topology {
		entry := &topology[i]
		text := entry.Level
		if len(entry.Roles) > 0 {
			text += " (role " + strings.Join(entry.Roles, ", ") + ")"
		}
		names := strings.Join(entry.Names, ", ")
		if more := int(entry.Domains) - len(entry.Names); more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		switch {
		case entry.Domains == 0:
			text += ": in none"
		case entry.Domains == 1:
			text += ": " + names
		default:
			text += fmt.Sprintf(": %d domains (%s)", entry.Domains, names)
		}
		if entry.Least < entry.Domains {
			text += fmt.Sprintf(", %d might do", entry.Least)
		}
		places = append(places, text)
	}
	return places
}
