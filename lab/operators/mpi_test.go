package operators

import (
	"fmt"
	"testing"

	"github.com/tutti-sched/tutti/lab/cluster"
)

func mpiJob(scheduler, group string) row {
	return row{
		operator: MPI(scheduler), scheduler: scheduler, group: group, manifest: "mpijob.yaml", pods: 5, first: "pi-launcher", second: "pi-worker-2",
		running: "Running", suspended: "Suspended", ended: "Succeeded", left: 1, suspend: []string{"spec", "runPolicy", "suspend"},
	}
}

func TestMPIOperator(t *testing.T) {
	job := mpiJob("tutti", coscheduling)
	lab := in(t, job)
	t.Run("life", func(t *testing.T) { life(t, lab, job) })
	t.Run("two", func(t *testing.T) { two(t, lab, job) })
	t.Run("elastic", func(t *testing.T) { elasticMPI(t, lab, job) })
	t.Run("launcher", func(t *testing.T) { launcherFails(t, lab, job) })
	t.Run("late launcher", func(t *testing.T) { lateLauncher(t, lab, job) })
	t.Run("stated minimum", func(t *testing.T) { statedMinimum(t, lab, job) })
}

func TestMPIOperatorForVolcano(t *testing.T) {
	job := mpiJob(Volcano, volcano)
	lab := in(t, job)
	t.Run("life", func(t *testing.T) { life(t, lab, job) })
	t.Run("two", func(t *testing.T) { two(t, lab, job) })
	t.Run("late launcher", func(t *testing.T) { lateLauncher(t, lab, job) })
}

// TestMPIOperatorAlone: without a gang scheduler the operator writes no group.
func TestMPIOperatorAlone(t *testing.T) {
	job := mpiJob("", "")
	job.scheduler, job.change = "tutti", scheduledBy("tutti", "mpiReplicaSpecs", "Launcher", "Worker")
	lab := in(t, job)
	t.Run("life", func(t *testing.T) { life(t, lab, job) })
	t.Run("two", func(t *testing.T) { two(t, lab, job) })
	t.Run("late launcher", func(t *testing.T) { lateLauncher(t, lab, job) })
}

// elasticMPI changes the number of workers, and with it the minimum: fewer start what waits, and more take nothing from what
// runs. The operator makes them one by one: were there a place for one, that could start before the next exists.
func elasticMPI(t *testing.T, lab *stage, job row) {
	s := begin(t, lab, job)
	s.nodes("first", 4)
	s.refused(5, 0, "Unschedulable", "needs 5, 4 would fit")
	s.workers(3)
	s.starts()
	s.says("Running", "True")
	s.workers(5)
	s.refused(6, 4, "Unschedulable", "needs 6, 4 would fit")
	s.nodes("second", 2)
	s.starts()
}

// workers changes how many workers an MPIJob has.
func (s *story) workers(n int) {
	s.Helper()
	s.pods = n + 1
	s.patch(s.job.DeepCopy(), fmt.Sprintf(`{"spec":{"mpiReplicaSpecs":{"Worker":{"replicas":%d}}}}`, n))
}

// launcherFails: its batch Job makes another one, which joins the workers that run, or waits for a place.
func launcherFails(t *testing.T, lab *stage, job row) {
	s := begin(t, lab, job)
	s.nodes("first", 5)
	s.starts()
	failed := s.member("pi-launcher")
	s.annotate(failed, cluster.FailAfter)
	s.eventually(func() error {
		members, err := s.members()
		delete(members, failed.Name)
		for name, pod := range members {
			if pod.Spec.NodeName == "" {
				err = fmt.Errorf("%s has no node", name)
			}
		}
		if err == nil && len(members) != 5 {
			err = fmt.Errorf("%d pods besides the one that failed", len(members))
		}
		return err
	})
	s.says("Running", "True")
}

// late has the launcher made when all workers are ready; other is another change, or nil.
func late(other func(spec map[string]any)) func(spec map[string]any) {
	return func(spec map[string]any) {
		spec["launcherCreationPolicy"] = "WaitForWorkersReady"
		if other != nil {
			other(spec)
		}
	}
}

// statedMinimum: where the job states its minimum, that of the workers starts them without the launcher, and so does that of all.
func statedMinimum(t *testing.T, lab *stage, job row) {
	for n := int64(4); n <= 5; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			job.change = late(func(spec map[string]any) {
				spec["runPolicy"] = map[string]any{"schedulingPolicy": map[string]any{"minAvailable": n}}
			})
			s := begin(t, lab, job)
			s.nodes("first", 3)
			s.refused(4, 0, "Unschedulable", "needs 4, 3 would fit")
			s.nodes("second", 2)
			s.starts()
			s.says(job.running, "True")
		})
	}
}

// lateLauncher is a launcher that is made when all workers are ready: the minimum of the group, as the operator writes it, counts
// it. The workers start as a whole without it, and it joins them.
func lateLauncher(t *testing.T, lab *stage, job row) {
	job.change = late(job.change)
	s := begin(t, lab, job)
	s.nodes("first", 3)
	s.refused(4, 0, "Unschedulable", "needs 4, 3 would fit")
	s.why("needs 4, 3 would fit", "0 bound, 4 waiting")
	s.nodes("second", 1)
	s.refused(5, 4, "Unschedulable", "cpu") // the launcher
	s.phase("Running")
	s.restart()
	s.cyclesPass()
	if err := s.bound(5, 4); err != nil {
		t.Error(err)
	}
	s.nodes("third", 1)
	s.starts()
	s.says(job.running, "True")

	// Suspended before it has ended, its launcher is made again with the workers.
	s.setSuspended(true)
	s.eventually(func() error { return s.bound(0, 0) })
	s.setSuspended(false)
	s.starts()
	s.says(job.running, "True")
	s.annotate(s.member(job.first), cluster.RunFor)
	s.says(job.ended, "True")
	s.eventually(func() error { return s.bound(job.left, job.left) })
}
