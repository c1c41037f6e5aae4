package operators

import (
	"context"

	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/process"
)

const rayModule = "github.com/ray-project/kuberay/ray-operator"

// RayScheduler is the scheduler that KubeRay gives its pods to: no flag changes the name.
const RayScheduler = "scheduler-plugins-scheduler"

// Ray is KubeRay's operator, which gives the pods of a RayCluster to RayScheduler.
func Ray() Operator {
	return Operator{
		Name: "ray-operator", Package: rayModule,
		CRDs: []File{{rayModule, "config/crd/bases"}, coscheduling},
		Start: func(ctx context.Context, i *Installation) (*process.Process, error) {
			health, err := cluster.FreeAddress()
			if err != nil {
				return nil, err
			}
			p, err := i.run("--batch-scheduler=scheduler-plugins", "--enable-leader-election=false", "--metrics-addr=0",
				"--health-probe-bind-address="+health)
			if err != nil {
				return nil, err
			}
			return p, cluster.WaitReady(ctx, p, "http://"+health+"/readyz", patience)
		},
	}
}
