package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/gang"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file makes the document of the jobs.

// jobs returns what the loop knows of each job of a namespace, of all namespaces when it is empty, and their keys.
// It leaves out those over which it panics.
func (s *Scheduler) jobs(ctx context.Context, snapshot *model.Snapshot, namespace string, now time.Time) (jobs []debugapi.Job, keys []model.JobKey) {
	at := map[model.JobKey]int{}
	read := sources.Without(s.profile.SourcesOff)
	for _, job := range snapshot.Jobs {
		if namespace != "" && job.Key.Namespace != namespace {
			continue
		}
		s.recoverPanic(ctx, partInspection, func() {
			shown := s.showJob(job, now)
			if shown.Waits() && len(job.Tasks) > 0 {
				shown.Notes = s.remarks(job, read)
			}
			at[job.Key] = len(jobs)
			jobs, keys = append(jobs, shown), append(keys, job.Key)
		})
	}
	trail := s.cache.Trail()
	for i := range trail {
		if job, known := at[trail[i].Job.Key]; known {
			code, reason := trail[i].Describe()
			jobs[job].Trail = append(jobs[job].Trail, debugapi.Step{Action: trail[i].Action, Code: code, Reason: reason})
		}
	}
	return jobs, keys
}

// showJob returns one job, without what the last cycle said of it.
func (s *Scheduler) showJob(job *model.Job, now time.Time) debugapi.Job {
	status, stated := s.reporter.Status(job, s.refusals[job.Key], now), gang.Stated(job)
	shown := debugapi.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: job.Key.Namespace, Name: job.Key.Name, UID: job.UID, CreationTimestamp: metav1.NewTime(job.Created)},
		Source:     job.Key.Source.Kind(), Priority: job.Priority, Needs: stated.MinMember, Members: make([]debugapi.Member, 0, len(job.Tasks)),
	}
	for _, role := range stated.Roles {
		shown.Roles = append(shown.Roles, debugapi.Role{Name: role.Name, Needs: role.MinMember})
	}
	shown.SetStatus(&status, sources.Explanation(status.Conditions))
	object, owners := job.Key, map[types.UID]bool{}
	if set, isOfSet := sources.SetOf(job.Key); isOfSet {
		object = set
	}
	spec := s.state.Foreign(object)
	if object.Source.OwnsPods() {
		self := metav1.OwnerReference{
			APIVersion: sources.WatchOf(object.Source).Resource.GroupVersion().String(), Kind: object.Source.Kind(), Name: object.Name,
		}
		if spec != nil {
			self.UID = spec.UID
		}
		shown.AddOwner(&self, owners)
	} else if spec != nil {
		shown.AddOwner(metav1.GetControllerOfNoCopy(spec), owners)
	}
	group := s.state.Group(job.Key)
	if group != nil {
		shown.Labels = group.Labels
		shown.AddOwner(metav1.GetControllerOfNoCopy(group), owners)
	}
	if !job.IsSchedulableGroup() && !job.Key.IsPod() {
		if shown.Needs = 0; group == nil && shown.Waits() {
			shown.Phase = ""
		}
	}
	for i, task := range job.Tasks {
		if i == 0 && group == nil {
			shown.Labels = task.Pod.Labels
		}
		shown.AddOwner(metav1.GetControllerOfNoCopy(task.Pod), owners)
		shown.AddMember(showMember(task))
	}
	return shown
}

func showMember(task *model.Task) debugapi.Member {
	member := debugapi.Member{Name: task.Name, Role: task.Role, Node: task.Node, Nominated: task.Nominated, Message: task.Invalid.String()}
	switch task.Status {
	case model.Succeeded:
		member.State = debugapi.MemberSucceeded
	case model.Failed:
		member.State = debugapi.MemberFailed
	case model.Releasing:
		member.State = debugapi.MemberDeleting
	case model.Running:
		member.State = debugapi.MemberRunning
	case model.Binding, model.Bound:
		member.State = debugapi.MemberBound
	default:
		if member.State = debugapi.MemberWaiting; task.SchedulingGated {
			member.State = debugapi.MemberGated
		}
	}
	return member
}

// remarks say which marks of the oldest pod of a job do not count: those of a source that is off, and those beside the one
// that puts it into the job. What owns the group is none of them, nor what has the same owner: its operator puts both marks
// on each pod.
func (s *Scheduler) remarks(job *model.Job, read sources.Sources) (remarks []string) {
	pod, key := job.Tasks[0].Pod, job.Key
	for _, source := range sources.All() {
		isOff := slices.Contains(s.profile.SourcesOff, source.Name()) && !slices.Contains(config.SourcesOffByDefault(), source.Name())
		if m, marked := source.Of(pod); marked && isOff && key.IsPod() {
			remarks = append(remarks, fmt.Sprintf("the source %s is off in the scheduler's configuration: %s %q is no group, and each of its pods starts when it fits",
				source.Name(), m.Job.Source.Kind(), m.Job.Name))
		}
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if spec := s.state.Foreign(key); spec != nil && len(spec.OwnerReferences) > 0 {
		owner = &spec.OwnerReferences[0]
	}
	for _, other := range read.PassedOver(pod, key) {
		spec := s.state.Foreign(other)
		isOwner := owner != nil && owner.Kind == other.Source.Kind() && owner.Name == other.Name
		hasOwner := spec != nil && owner != nil && slices.ContainsFunc(spec.OwnerReferences, func(by metav1.OwnerReference) bool {
			return by.Kind == owner.Kind && by.Name == owner.Name
		})
		if !isOwner && !hasOwner && (spec == nil || !spec.NoGang) {
			remarks = append(remarks, fmt.Sprintf("%s: also names %s %q, which does not count", pod.Name, other.Source.Kind(), other.Name))
		}
	}
	return remarks
}
