package operators

import "testing"

func rayCluster() row {
	return row{
		operator: Ray(), scheduler: RayScheduler, manifest: "raycluster.yaml", pods: 4, first: "ray-head", second: "ray-workers-worker",
		running: "RayClusterProvisioned", suspended: "RayClusterSuspended", suspend: []string{"spec", "suspend"},
	}
}

func TestKubeRay(t *testing.T) {
	lab := in(t, rayCluster())
	t.Run("life", func(t *testing.T) { life(t, lab, rayCluster()) })
	t.Run("two", func(t *testing.T) { two(t, lab, rayCluster()) })
}
