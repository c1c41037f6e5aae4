package backfill

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// planCache is what was found of gangs, so that it is not found again in each cycle: that they do not fit the empty cluster, or that
// they would start in what is reserved for them.
//
// Invariant: it is what another look would find: nothing has changed of what decides about it.
type planCache struct {
	snapshot *model.Snapshot
	// mark is up to where the nodes are as they were; stay are the pods that are not supposed to leave, holds what was kept.
	mark  model.Cursor
	stay  []stayingPod
	holds []model.HeldCapacity
	// hopeless has the version of each job that does not fit.
	hopeless map[model.JobKey]uint64
	// validReservations has that of each job that would start, and where.
	validReservations map[model.JobKey]validReservation
}

type validReservation struct {
	version uint64
	rooms   []model.ReservedNode
}

// stayingPod is one version of a pod and its node, and whether it has been leaving for too long.
type stayingPod struct {
	pod   *corev1.Pod
	node  *model.Node
	stuck bool
}

// isInfeasible tells whether the job is known not to fit.
func (f *planCache) isInfeasible(r *run, job *model.Job) bool {
	f.invalidate(r)
	version, known := f.hopeless[job.Key]
	return known && version == job.Version && !r.session.Uncached()
}

// addInfeasible remembers a job that did not fit.
func (f *planCache) addInfeasible(r *run, job *model.Job) {
	if r.isCacheable(job) {
		f.hopeless[job.Key] = job.Version
	}
}

// isValid tells whether the job is known to start in what is reserved for it.
func (f *planCache) isValid(r *run, job *model.Job, rooms []model.ReservedNode) bool {
	f.invalidate(r)
	known, ok := f.validReservations[job.Key]
	return ok && known.version == job.Version && model.SameNodes(known.rooms, rooms) && !r.session.Uncached()
}

// addValid remembers a job that would start there.
func (f *planCache) addValid(r *run, job *model.Job, rooms []model.ReservedNode) {
	if r.isCacheable(job) {
		f.validReservations[job.Key] = validReservation{version: job.Version, rooms: rooms}
	}
}

// isCacheable tells whether the job's members ask for nothing but nodes and their room: what else decides about others may change
// unseen.
func (r *run) isCacheable(job *model.Job) bool {
	return job.Version != 0 && r.plain(job) && !r.session.Uncached()
}

func (r *run) plain(job *model.Job) bool {
	return !slices.ContainsFunc(job.Pending(), func(task *model.Task) bool { return !r.session.FitsByResourcesOnly(task) })
}

// invalidate forgets everything when a node, a pod that stays, or what is kept for others has changed.
func (f *planCache) invalidate(r *run) {
	snapshot := r.session.Snapshot
	if r.stay == nil {
		r.stay = foreignPods(snapshot)
	}
	if f.snapshot != snapshot || !snapshot.Journal.SameNodes(f.mark) || !slices.Equal(r.stay, f.stay) ||
		!slices.EqualFunc(f.holds, snapshot.Held(), sameHold) || len(f.hopeless)+len(f.validReservations) > 2*len(snapshot.Jobs) {
		f.snapshot, f.stay, f.holds = snapshot, r.stay, slices.Clone(snapshot.Held())
		f.hopeless, f.validReservations = map[model.JobKey]uint64{}, map[model.JobKey]validReservation{}
	}
	f.mark = snapshot.Journal.Cursor()
}

func sameHold(a, b model.HeldCapacity) bool {
	return model.CompareHeld(&a, &b) == 0 && a.Priority == b.Priority && a.Request.Equal(b.Request)
}

// foreignPods returns the pods on nodes that are not of our jobs, by node and UID.
func foreignPods(snapshot *model.Snapshot) []stayingPod {
	stay := []stayingPod{}
	for _, node := range snapshot.Nodes {
		for _, task := range node.Tasks {
			if (task.Job == model.JobKey{}) {
				stay = append(stay, stayingPod{pod: task.Pod, node: node, stuck: task.TerminationOverdue})
			}
		}
	}
	return stay
}
