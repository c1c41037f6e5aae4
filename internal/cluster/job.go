package cluster

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/gang"
	"github.com/tutti-sched/tutti/pkg/model"
)

// fillJob writes a job again from its members and its group, nil when it has none that is ours. Of a job that cannot be read
// only the members are known: all of them are taken to be needed, and none is placed.
func (s *State) fillJob(job *model.Job, members map[types.UID]*podEntry, group *v1alpha1.PodGroup) {
	key, tasks := job.Key, slices.Grow(job.Tasks[:0], len(members))
	for _, entry := range members {
		tasks = append(tasks, entry.task)
	}
	slices.SortFunc(tasks, model.CompareTasks)
	clear(tasks[len(tasks):cap(tasks)])
	tasks = sources.PresentRun(key, tasks, s.minMember(key, group))
	s.filled++
	delete(s.foreign.awaited, key)
	known := model.Job{Key: key, Tasks: tasks, Need: gang.OfUnknown(tasks, key.IsForeign()), Version: s.filled, HasGroup: group != nil}
	kind := kindGroup
	switch {
	case group != nil:
		known.UID, known.Created = group.UID, group.CreationTimestamp.Time
	case key.IsPod():
		kind, known.UID, known.Created = kindPod, tasks[0].UID, tasks[0].Created
	case s.foreign.specs[key] != nil:
		spec := s.foreign.specs[key]
		kind, known.UID, known.Created = key.Source.Kind(), spec.UID, spec.CreationTimestamp.Time
	default:
		known.UID, known.Created = key.Owner, tasks[0].Created
	}
	known.QueuedSince = known.Created
	*job = known
	if refused := s.guard.run(identity{kind, key.Namespace, key.Name}, func() { s.readJob(job, group) }); refused != nil {
		*job = known
		job.Invalid, job.NeverPreempts = refused, true
		job.SetPriority()
	}
	s.enqueue(job, group)
}

// minMember returns how many members a group needs as its object says; zero when there is none that is known.
func (s *State) minMember(key model.JobKey, group *v1alpha1.PodGroup) int32 {
	switch spec := s.foreign.specs[key]; {
	case group != nil:
		return group.Spec.MinMember
	case spec != nil:
		return spec.MinMember
	}
	return 0
}

// readJob works out what the group and the members ask for.
func (s *State) readJob(job *model.Job, group *v1alpha1.PodGroup) {
	class := ""
	switch {
	case job.Key.IsPod():
	case job.Key.IsForeign():
		class = s.readForeign(job)
	case job.Key.IsImplicit():
		s.readImplicit(job)
	case group == nil && s.groups[job.Key] != nil:
		job.Invalid = s.otherScheduler(s.groups[job.Key], job.Tasks[0])
	case group == nil: // the minimum is not known any more, so that no running member counts as surplus
		job.Invalid = &model.Refusal{Code: model.GroupNotFound, Detail: fmt.Sprintf("%s %q does not exist in this namespace", job.Key.Source.Kind(), job.Key.Name)}
	default:
		if group.Status.EvictedAt != nil || slices.ContainsFunc(job.Tasks, marked) {
			s.history.evicted[job.Key] = true
		}
		job.Evicted = s.history.evicted[job.Key]
		if s.fillNeed(job, group); !job.Evicted {
			delete(s.history.evicted, job.Key)
		}
		if job.Reclaims >= s.history.reclaims[job.Key] || job.Finished() && !job.Evicted {
			delete(s.history.reclaims, job.Key)
		} else {
			job.Reclaims = s.history.reclaims[job.Key]
		}
		if why := Malformed(group); why != "" {
			job.Invalid = &model.Refusal{Code: model.Malformed, Detail: fmt.Sprintf("PodGroup %s/%s could not be read: %s", group.Namespace, group.Name, why)}
		}
		class, job.Warning = group.Spec.PriorityClassName, s.others.warning(job.Key)
		if job.Warning == "" && len(s.pods.members[job.Key]) == 0 && !job.Finished() {
			job.Warning = fmt.Sprintf("no pod with the schedulerName %q names it: a pod does by the label %s: %s",
				s.ownerOf(group).scheduler, v1alpha1.LabelPodGroup, job.Key.Name)
			if group.Status.EvictedAt != nil {
				job.Warning = "it starts again when its pods have been made again: by their controller, where that goes on (to a Job an eviction counts against its " +
					"backoffLimit), else by hand"
			}
		}
	}
	job.Warning = joinNotes(job.Warning, sources.Unfollowed(job))
	s.readTurn(job)
	s.readClass(job, class)
	job.NeverPreempts = neverPreempts(job, group) || s.classes[class].neverPreempts ||
		s.foreign.specs[job.Key] != nil && s.foreign.specs[job.Key].NeverPreempts
	job.EndsTogether = s.foreign.specs[job.Key] != nil && s.foreign.specs[job.Key].EndsTogether
	job.NothingPending = nothingPending(job)
	job.Class = model.ClassOf(job, hasTerms)
}

// fillNeed writes into a job what it needs by what is known of its group now, and what else the group and the members say. group
// is that of ours, nil when there is none. It reports false, and changes nothing, when nothing is known of the group.
func (s *State) fillNeed(job *model.Job, group *v1alpha1.PodGroup) (known bool) {
	spec := s.foreign.spec(job.Key)
	switch {
	case job.Key.IsImplicit():
		sources.FillImplicit(job, spec, s.history.seenWhole[job.Key])
	case job.Key.IsForeign() && spec != nil:
		sources.FillForeign(job, spec, s.history.seenWhole[job.Key])
	case group != nil:
		was := sources.StartedMinimaOf(group)
		if requests := group.Status.StartedRequests; requests != nil && sources.Whole(group) {
			offered, _ := s.divide(requests)
			was.Requests, _, _ = s.dimensions.Vector(offered)
		}
		sources.Fill(job, group, was, Malformed(group) == "")
	default:
		return false
	}
	return true
}

// history is what this process knows of jobs that is in no object, or not yet.
type history struct {
	// evicted are the jobs with a PodGroup of which this process has decided to delete members, until the minimum is bound again.
	evicted map[model.JobKey]bool
	// reclaims are how often jobs with a PodGroup were evicted for other queues, as far as their status does not show it yet.
	reclaims map[model.JobKey]int32
	// seenWhole has the implicit groups that this process has seen with their minimum, and what they had last.
	seenWhole map[model.JobKey]model.Minima
	// saidLater is what objects said of members that are made later when their gangs started.
	saidLater map[model.JobKey]saidLater
}

// forgetGroup forgets what a PodGroup counted for that is gone.
func (h *history) forgetGroup(key model.JobKey) {
	delete(h.evicted, key)
	delete(h.reclaims, key)
}

// forgetMembers forgets how a job started that has no members left.
func (h *history) forgetMembers(key model.JobKey) {
	delete(h.seenWhole, key)
	delete(h.saidLater, key)
}

// seeWhole follows what a group without a status has been whole with. Nothing in the API says it, so that a restart forgets it.
func (h *history) seeWhole(job *model.Job) {
	if job.StartedMinima.MinMember > 0 {
		h.seenWhole[job.Key] = job.StartedMinima
	} else {
		delete(h.seenWhole, job.Key)
	}
}

// Newest returns a job of a snapshot with what it needs by what is known of its group now, which a session does not see: its
// members are as the session has them. It is nil once nothing is known of the group, and replaced reports that there is
// a PodGroup of ours in the place of it. job is nil when it has no members left.
func (s *State) Newest(key model.JobKey, job *model.Job) (newest *model.Job, replaced bool) {
	if replacement, ok := sources.Replacement(key); ok && s.groups[replacement] != nil {
		return nil, true
	}
	if job == nil {
		return nil, false
	}
	changed := *job
	if s.fillNeed(&changed, s.groups[key]) && changed.UID == job.UID {
		return &changed, false
	}
	return nil, false
}

// List writes down a request, as the status of a PodGroup shows it.
func (s *State) List(request model.Resources) corev1.ResourceList { return s.dimensions.List(request) }

// marked reports whether the task is deleted by a scheduler that says so in its status; see commit.
func marked(task *model.Task) bool {
	return task.Status == model.Releasing && slices.ContainsFunc(task.Pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.DisruptionTarget && condition.Reason == corev1.PodReasonPreemptionByScheduler
	})
}

// readClass lets the PriorityClass that the group names lower the job's priority, and says so where it does not.
func (s *State) readClass(job *model.Job, class string) {
	known, ok := s.classes[class]
	value := known.value
	if ok {
		job.ClassPriority = &value
	}
	job.SetPriority()
	warning := ""
	switch {
	case class != "" && !ok && len(job.Tasks) == 0:
		warning = fmt.Sprintf("PriorityClass %q does not exist", class)
	case len(job.Tasks) == 0: // there is no priority of pods
	case class != "" && !ok:
		warning = fmt.Sprintf("PriorityClass %q does not exist; the priority is that of the pods: %d", class, job.Priority)
	case ok && value > job.Priority:
		warning = fmt.Sprintf("PriorityClass %q (%d) counts as %d, the priority of the pods", class, value, job.Priority)
	}
	job.Warning = joinNotes(warning, job.Warning)
}

// joinNotes joins those that say something.
func joinNotes(notes ...string) string {
	return strings.Join(slices.DeleteFunc(notes, func(note string) bool { return note == "" }), "; ")
}

// hasTerms reports whether a pod says something about other pods, or about objects that are not in the snapshot.
func hasTerms(task *model.Task) bool {
	spec := &task.Pod.Spec
	return spec.Affinity != nil && (spec.Affinity.PodAffinity != nil || spec.Affinity.PodAntiAffinity != nil) ||
		len(spec.TopologySpreadConstraints) > 0 || len(volumeClaims(task.Pod)) > 0 || task.SearchesDevices()
}

// neverPreempts reports whether the group, or a pod of it that has not ended, wants no pod evicted for it.
func neverPreempts(job *model.Job, group *v1alpha1.PodGroup) bool {
	never := func(policy *corev1.PreemptionPolicy) bool { return policy != nil && *policy == corev1.PreemptNever }
	says := func(task *model.Task) bool {
		return task.Status != model.Succeeded && task.Status != model.Failed && never(task.Pod.Spec.PreemptionPolicy)
	}
	return group != nil && never(group.Spec.PreemptionPolicy) || slices.ContainsFunc(job.Tasks, says)
}

// nothingPending reports whether there is nothing to decide: no pod waits, and the job has its minimum, or has ended, or is no
// group, whose members may still come. A group that is refused as a whole must get a status that says so.
func nothingPending(job *model.Job) bool {
	return job.Count(model.Pending.Is) == 0 && (!job.HasGroup || job.Finished() ||
		job.Invalid == nil && job.FirstUnmetMinimum((*model.Task).CountsTowardMinimum) == nil)
}
