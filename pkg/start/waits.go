package start

import (
	"fmt"
	"strings"

	"github.com/tutti-sched/tutti/pkg/model"
)

// Waits returns why a job waits that others were evicted for: until they are gone. It names them, up to a few.
func Waits(snapshot *model.Snapshot, job *model.Job) *model.Refusal {
	names := leaving(snapshot, job)
	if names == "" {
		return &model.Refusal{Code: model.WaitingForVictims, Detail: "the pods that were evicted for it are gone"}
	}
	return &model.Refusal{
		Code: model.WaitingForVictims, Detail: "starts once the pods that were evicted for it are gone: " + names,
	}
}

// leaving names those who are still on the nodes that the job was promised room on, now or in an earlier cycle.
func leaving(snapshot *model.Snapshot, job *model.Job) string {
	const few = 3
	var names []string
	count := 0
	seen := map[string]bool{}
	for _, task := range job.Tasks {
		promised := task.Nominated
		if task.Status == model.Promised {
			promised = task.Node
		}
		node := snapshot.Node(promised)
		if node == nil || seen[promised] {
			continue
		}
		seen[promised] = true
		for _, other := range node.Tasks {
			if other.Status != model.Releasing {
				continue
			}
			if count++; count <= few {
				names = append(names, other.String())
			}
		}
	}
	if count > few {
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), count-few)
	}
	return strings.Join(names, ", ")
}
