package operators

import (
	"context"

	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/process"
)

// MPI is mpi-operator, which gives the pods of an MPIJob to a scheduler of that name. Without a name it writes no groups,
// and pods have the scheduler of their templates.
func MPI(scheduler string) Operator {
	return Operator{
		Name: "mpi-operator", Package: "github.com/kubeflow/mpi-operator/cmd/mpi-operator",
		CRDs: append(groups(scheduler), File{"github.com/kubeflow/mpi-operator", "manifests/base/kubeflow.org_mpijobs.yaml"}),
		Start: func(ctx context.Context, i *Installation) (*process.Process, error) {
			p, err := i.run("-gang-scheduling="+scheduler, "-lock-namespace=kube-system")
			if err != nil {
				return nil, err
			}
			return p, cluster.WaitReady(ctx, p, "http://127.0.0.1:8080/healthz") // no flag changes its port
		},
	}
}
