package operators

import (
	"fmt"
	"testing"

	"github.com/tutti-sched/tutti/lab/cluster"
)

func jobSet() row {
	return row{
		operator: JobSet(), scheduler: "tutti", manifest: "jobset.yaml", pods: 5, first: "train-leader-0", second: "train-workers-1",
		suspended: "Suspended", ended: "Completed", left: 1, suspend: []string{"spec", "suspend"},
	}
}

func TestJobSet(t *testing.T) {
	job := jobSet()
	lab := in(t, job)
	t.Run("life", func(t *testing.T) { life(t, lab, job) })
	t.Run("two", func(t *testing.T) { two(t, lab, job) })
	for name, change := range map[string]func(spec map[string]any){
		"depends on ready": dependsOn("Ready"),
		"in order":         func(spec map[string]any) { spec["startupPolicy"] = map[string]any{"startupPolicyOrder": "InOrder"} },
	} {
		job.change = change
		t.Run(name, func(t *testing.T) { workersLater(t, lab, job) })
	}
	job.change = dependsOn("Complete")
	t.Run("depends on complete", func(t *testing.T) { workersAfter(t, lab, job) })
}

// dependsOn has the workers made when the leader is ready, or complete.
func dependsOn(status string) func(spec map[string]any) {
	return func(spec map[string]any) {
		workers := spec["replicatedJobs"].([]any)[1].(map[string]any)
		workers["dependsOn"] = []any{map[string]any{"name": "leader", "status": status}}
		if status == "Complete" {
			delete(spec, "successPolicy") // or it would end before the workers are made
		}
	}
}

// workersLater are made when the leader runs. It starts without them, and they start together.
func workersLater(t *testing.T, lab *stage, job row) {
	s := begin(t, lab, job)
	s.nodes("first", 1)
	s.eventually(func() error { return s.bound(5, 1) })
	s.nodes("second", 3)
	s.refused(5, 1, "Unschedulable", "needs 5, 4 would fit")
	s.restart()
	s.cyclesPass()
	if err := s.bound(5, 1); err != nil {
		t.Error(err)
	}
	s.nodes("third", 1)
	s.starts()

	// Suspended, all are made again in their order.
	s.setSuspended(true)
	s.eventually(func() error { return s.bound(0, 0) })
	s.setSuspended(false)
	s.starts()
	s.annotate(s.member(job.first), cluster.RunFor)
	s.says(job.ended, "True")
}

// workersAfter are made when the leader has ended. They start together, whether its pod is still there or not.
func workersAfter(t *testing.T, lab *stage, job row) {
	for _, deleted := range []bool{false, true} {
		t.Run(fmt.Sprintf("leader deleted %t", deleted), func(t *testing.T) {
			s := begin(t, lab, job)
			s.nodes("first", 1)
			s.eventually(func() error { return s.bound(1, 1) })
			leader, exist := s.member(job.first), 5
			s.annotate(leader, cluster.RunFor)
			s.eventually(func() error { return s.bound(5, 1) })
			if deleted {
				s.remove(leader)
				exist = 4
			}
			s.nodes("second", 2)
			s.refused(exist, exist-4, "Unschedulable", "1 member short of 1 cpu")
			s.nodes("third", 1)
			s.eventually(func() error { return s.bound(exist, exist) })
			s.ends(s.job.GetName())
			s.says(job.ended, "True")
		})
	}
}
