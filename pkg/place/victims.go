package place

import (
	"fmt"
	"strings"

	"github.com/tutti-sched/tutti/pkg/model"
)

// WaitingForVictims returns the refusal of a job that is nominated to capacity which is being released. It names the pods that
// are terminating, else the devices that are not free yet although their pods are gone.
func WaitingForVictims(snapshot *model.Snapshot, job *model.Job) *model.Refusal {
	names := model.NameList{Noun: "pod", Reader: job.Key.Namespace}
	addTerminatingOnNodes(&names, snapshot, job)
	if names.String() == "" {
		addTerminatingBelowLimit(&names, snapshot, job)
	}
	if names.String() != "" {
		return &model.Refusal{Code: model.WaitingForVictims, Detail: "waiting for evicted pods to terminate: " + names.String()}
	}
	if devices := leavingOnNodes(snapshot, job); devices != "" {
		return &model.Refusal{Code: model.WaitingForVictims, Detail: "waiting for " + devices + ", still allocated to claims of pods that are gone; " +
			"kube-controller-manager (resourceclaim-controller) frees them"}
	}
	return &model.Refusal{Code: model.WaitingForVictims, Detail: "the pods that were evicted for it are gone"}
}

// victimsRemain reports whether pods that were evicted for the job are still on the nodes that it is nominated to, or the devices
// of their claims.
func victimsRemain(snapshot *model.Snapshot, job *model.Job) bool {
	names := model.NameList{Noun: "pod", Reader: job.Key.Namespace}
	addTerminatingOnNodes(&names, snapshot, job)
	return names.String() != "" || leavingOnNodes(snapshot, job) != ""
}

// nominatedNodes returns the nodes that the job is nominated to, each once, in the order of its tasks.
func nominatedNodes(snapshot *model.Snapshot, job *model.Job) (nodes []*model.Node) {
	seen := map[string]bool{}
	for _, task := range job.Tasks {
		nominated := task.Nominated
		if task.Status == model.Pipelined {
			nominated = task.Node
		}
		if node := snapshot.Node(nominated); node != nil && !seen[nominated] {
			seen[nominated] = true
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// addTerminatingOnNodes adds the terminating pods on the nodes that the job is nominated to.
func addTerminatingOnNodes(names *model.NameList, snapshot *model.Snapshot, job *model.Job) {
	for _, node := range nominatedNodes(snapshot, job) {
		for _, other := range node.Tasks {
			if other.Status == model.Releasing {
				names.Add(other.Namespace, other.String())
			}
		}
	}
}

// leavingOnNodes says which devices, and how many, pods that are gone still hold on the nodes that the job is nominated to; empty
// when there are none.
func leavingOnNodes(snapshot *model.Snapshot, job *model.Job) string {
	leaving := model.Resources(nil)
	for _, node := range nominatedNodes(snapshot, job) {
		leaving.Add(node.Leaving())
	}
	var parts []string
	for position, amount := range leaving {
		if amount > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", amount, snapshot.Dimensions.Name(position)))
		}
	}
	return strings.Join(parts, ", ")
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
