package backfill

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// hopeless remembers gangs that do not fit the empty cluster, so that they are not tried again in each cycle.
//
// Invariant: a gang is remembered only while trying it would fail: nothing has changed of what decides about it.
type hopeless struct {
	snapshot *model.Snapshot
	// mark is up to where the nodes are as they were; stay are the pods that are not supposed to leave, holds what was kept.
	mark  model.Mark
	stay  []stayer
	holds []model.Hold
	jobs  map[model.JobKey]uint64
}

// stayer is one version of a pod and its node.
type stayer struct {
	pod  *corev1.Pod
	node *model.Node
}

// still tells whether the job is known not to fit.
func (h *hopeless) still(r *run, job *model.Job) bool {
	h.follow(r)
	version, known := h.jobs[job.Key]
	return known && version == job.Version && version != 0 && !r.session.Afresh()
}

// add remembers a job that did not fit, if its members ask for nothing but nodes and their room: what else decides about
// others may change unseen.
func (h *hopeless) add(r *run, job *model.Job) {
	if r.session.Afresh() {
		return
	}
	for _, task := range job.Waiting() {
		if !r.session.Plain(task) {
			return
		}
	}
	h.jobs[job.Key] = job.Version
}

// follow forgets everything when a node, a pod that stays, or what is kept for others has changed.
func (h *hopeless) follow(r *run) {
	snapshot := r.session.Snapshot
	if r.stay == nil {
		r.stay = foreign(snapshot)
	}
	if h.snapshot != snapshot || !snapshot.Journal.SameNodes(h.mark) || !slices.Equal(r.stay, h.stay) ||
		!slices.EqualFunc(h.holds, snapshot.Holds(), sameHold) || len(h.jobs) > 2*len(snapshot.Jobs) {
		h.snapshot, h.stay, h.holds = snapshot, r.stay, slices.Clone(snapshot.Holds())
		h.jobs = map[model.JobKey]uint64{}
	}
	h.mark = snapshot.Journal.Mark()
}

func sameHold(a, b model.Hold) bool {
	return model.CompareHolds(&a, &b) == 0 && a.Priority == b.Priority && a.Request.Equal(b.Request)
}

// foreign returns the pods on nodes that are not of our jobs, by node and UID.
func foreign(snapshot *model.Snapshot) []stayer {
	stay := []stayer{}
	for _, node := range snapshot.Nodes {
		for _, task := range node.Tasks {
			if (task.Job == model.JobKey{}) {
				stay = append(stay, stayer{pod: task.Pod, node: node})
			}
		}
	}
	return stay
}
