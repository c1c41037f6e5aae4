package operators

import "testing"

func rayCluster(scheduler, group string) row {
	return row{
		operator: Ray(scheduler), scheduler: scheduler, group: group, manifest: "raycluster.yaml", pods: 4, first: "ray-head", second: "ray-workers-worker",
		running: "RayClusterProvisioned", suspended: "RayClusterSuspended", suspend: []string{"spec", "suspend"},
	}
}

func TestKubeRay(t *testing.T) {
	job := rayCluster(SchedulerPlugins, coscheduling)
	lab := in(t, job)
	t.Run("life", func(t *testing.T) { life(t, lab, job) })
	t.Run("two", func(t *testing.T) { two(t, lab, job) })
}

func TestKubeRayForVolcano(t *testing.T) {
	job := rayCluster(Volcano, volcano)
	job.prefix, job.suffix = "ray-", "-pg"
	lab := in(t, job)
	t.Run("life", func(t *testing.T) { life(t, lab, job) })
	t.Run("two", func(t *testing.T) { two(t, lab, job) })
}

// TestKubeRayAlone: without a batch scheduler the operator writes no group.
func TestKubeRayAlone(t *testing.T) {
	job := rayCluster("", "")
	job.scheduler = "tutti"
	job.change = func(spec map[string]any) {
		setScheduler("tutti", spec, "headGroupSpec")
		setScheduler("tutti", spec["workerGroupSpecs"].([]any)[0].(map[string]any))
	}
	lab := in(t, job)
	t.Run("life", func(t *testing.T) { life(t, lab, job) })
	t.Run("two", func(t *testing.T) { two(t, lab, job) })
}
