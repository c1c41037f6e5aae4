package place

import "github.com/tutti-sched/tutti/pkg/model"

// WaitingForVictims returns the refusal of a job that is nominated to capacity which is being released, naming the pods that
// are terminating.
func WaitingForVictims(snapshot *model.Snapshot, job *model.Job) *model.Refusal {
	names := model.NameList{Noun: "pod", Reader: job.Key.Namespace}
	addTerminatingOnNodes(&names, snapshot, job)
	if names.String() == "" {
		addTerminatingBelowLimit(&names, snapshot, job)
	}
	if names.String() == "" {
		return &model.Refusal{Code: model.WaitingForVictims, Detail: "the pods that were evicted for it are gone"}
	}
	return &model.Refusal{
		Code: model.WaitingForVictims, Detail: "waiting for evicted pods to terminate: " + names.String(),
	}
}

// areTerminating reports whether pods that were evicted for the job are still on the nodes that it is nominated to.
func areTerminating(snapshot *model.Snapshot, job *model.Job) bool {
	names := model.NameList{Noun: "pod", Reader: job.Key.Namespace}
	addTerminatingOnNodes(&names, snapshot, job)
	return names.String() != ""
}

// addTerminatingOnNodes adds the terminating pods on the nodes that the job is nominated to.
func addTerminatingOnNodes(names *model.NameList, snapshot *model.Snapshot, job *model.Job) {
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
}

// addTerminatingBelowLimit adds the terminating pods that hold the limit which the job waits for, wherever they are.
func addTerminatingBelowLimit(names *model.NameList, snapshot *model.Snapshot, job *model.Job) {
	asks := func(position int) (most int64) {
		for _, task := range job.Tasks {
			most = max(most, task.Request.At(position))
		}
		return most
	}
	full, _ := job.InQueue().Exceeded(asks, true, model.Idle, nil)
	if full == nil {
		return
	}
	for _, other := range snapshot.Jobs {
		for _, task := range other.Tasks {
			if task.Status == model.Releasing && task.InQueue().IsBelow(full) {
				names.Add(task.Namespace, task.String())
			}
		}
	}
}
