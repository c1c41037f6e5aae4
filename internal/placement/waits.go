package placement

import "github.com/tutti-sched/tutti/pkg/model"

// WaitingForVictims returns why a job waits that others were evicted for: until they are gone. It names them, up to a few.
func WaitingForVictims(snapshot *model.Snapshot, job *model.Job) *model.Refusal {
	names := terminatingPods(snapshot, job)
	if names == "" {
		return &model.Refusal{Code: model.WaitingForVictims, Detail: "the pods that were evicted for it are gone"}
	}
	return &model.Refusal{
		Code: model.WaitingForVictims, Detail: "starts once the pods that were evicted for it are gone: " + names,
	}
}

// terminatingPods names those who are to leave where room is promised to the job, up to a few; empty when all are gone.
func terminatingPods(snapshot *model.Snapshot, job *model.Job) string {
	names := model.NameList{Noun: "pod", Reader: job.Key.Namespace}
	seen := map[string]bool{}
	for _, task := range job.Tasks {
		promised := task.Nominated
		if task.Status == model.Pipelined {
			promised = task.Node
		}
		node := snapshot.Node(promised)
		if node == nil || seen[promised] {
			continue
		}
		seen[promised] = true
		for _, other := range node.Tasks {
			if other.Status == model.Releasing {
				names.Add(other.Namespace, other.String())
			}
		}
	}
	return names.String()
}
