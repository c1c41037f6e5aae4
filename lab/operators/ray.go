package operators

import (
	"context"

	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/process"
)

const rayModule = "github.com/ray-project/kuberay/ray-operator"

// SchedulerPlugins is the scheduler that KubeRay gives its pods to where that is not Volcano: no flag changes these names.
const SchedulerPlugins = "scheduler-plugins-scheduler"

// Ray is KubeRay's operator, which gives the pods of a RayCluster to Volcano or to SchedulerPlugins. Without a name it writes no
// groups, and pods have the scheduler of their templates.
func Ray(scheduler string) Operator {
	kind := scheduler
	if scheduler == SchedulerPlugins {
		kind = "scheduler-plugins"
	}
	return Operator{
		Name: "ray-operator", Package: rayModule,
		CRDs: append(groups(scheduler), File{rayModule, "config/crd/bases"}),
		Start: func(ctx context.Context, i *Installation) (*process.Process, error) {
			health, err := cluster.FreeAddress()
			if err != nil {
				return nil, err
			}
			p, err := i.run("--batch-scheduler="+kind, "--enable-leader-election=false", "--metrics-addr=0",
				"--health-probe-bind-address="+health)
			if err != nil {
				return nil, err
			}
			return p, cluster.WaitReady(ctx, p, "http://"+health+"/readyz")
		},
	}
}
