package allocate

import (
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// explainReserved adds to a refusal the jobs that capacity is held for: those that others were evicted for and that the job may
// not use. What backfill reserves it explains itself.
func explainReserved(session *engine.Session, job *model.Job, refusal *model.Refusal) *model.Refusal {
	if len(session.Snapshot.Held()) == 0 || refusal.Code != model.InsufficientResources && refusal.Code != model.NoDomainFits {
		return refusal
	}
	owners, nodes := model.NameList{Noun: "job", Reader: job.Key.Namespace}, model.NameList{Noun: "node"}
	viewer := session.Snapshot.ViewpointOf(job)
	seenOwner, seenNode := map[model.JobKey]bool{}, map[string]bool{}
	for i := range session.Snapshot.Held() {
		hold := &session.Snapshot.Held()[i]
		if hold.Reserved() || !hold.AppliesTo(viewer) {
			continue
		}
		if !seenOwner[hold.Job] {
			seenOwner[hold.Job] = true
			owners.Add(hold.Job.Namespace, hold.Job.String())
		}
		if !seenNode[hold.Node] {
			seenNode[hold.Node] = true
			nodes.Add("", hold.Node)
		}
	}
	if len(seenOwner) == 0 {
		return refusal
	}
	return refusal.WithNote("capacity on " + nodes.String() + " is nominated to " + owners.String())
}
