package placement

import "github.com/tutti-sched/tutti/pkg/model"

// WaitingForVictims returns the refusal of a job that waits until the pods evicted for it are gone. It names up to a few of
// them.
func WaitingForVictims(snapshot *model.Snapshot, job *model.Job) *model.Refusal {
	names := terminatingPods(snapshot, job)
	if names == "" {
		return &model.Refusal{Code: model.WaitingForVictims, Detail: "the pods that were evicted for it are gone"}
	}
	return &model.Refusal{
		Code: model.WaitingForVictims, Detail: "waiting for evicted pods to terminate: " + names,
	}
}

// terminatingPods names up to a few terminating pods on the nodes that the job is nominated to; empty when all are gone.
func terminatingPods(snapshot *model.Snapshot, job *model.Job) string {
	names := model.NameList{Noun: "pod", Reader: job.Key.Namespace}
	seen := map[string]bool{}
	for _, task := range job.Tasks {
		nominated := task.Nominated
		if task.Status == model.Pipelined {
			nominated = task.Node
		}
		node := snapshot.Node(nominated)
		if node == nil || seen[nominated] {
			continue
		}
		seen[nominated] = true
		for _, other := range node.Tasks {
			if other.Status == model.Releasing {
				names.Add(other.Namespace, other.String())
			}
		}
	}
	return names.String()
}
