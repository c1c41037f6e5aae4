package operators

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/harness"
)

func pyTorchJob(scheduler, group string) row {
	return row{
		operator: Training(scheduler), scheduler: "tutti", group: group, manifest: "pytorchjob.yaml", pods: 4, first: "bert-master-0", second: "bert-worker-1",
		running: "Running", suspended: "Suspended", ended: "Succeeded", left: 4, suspend: []string{"spec", "runPolicy", "suspend"},
	}
}

func TestTrainingOperator(t *testing.T) {
	job := pyTorchJob("tutti", coscheduling)
	lab := in(t, job)
	t.Run("life", func(t *testing.T) { life(t, lab, job) })
	t.Run("two", func(t *testing.T) { two(t, lab, job) })
}

// TestTrainingOperatorForVolcano: the operator makes no pod before the phase of the group is Inqueue. Where a template names no
// scheduler, it gives its pods to Volcano.
func TestTrainingOperatorForVolcano(t *testing.T) {
	job := pyTorchJob(Volcano, volcano)
	job.change = scheduledBy("tutti", "pytorchReplicaSpecs", "Master", "Worker")
	lab := in(t, job)
	t.Run("inqueue", func(t *testing.T) { inqueue(t, lab, job) })
	t.Run("life", func(t *testing.T) { life(t, lab, job) })
	t.Run("two", func(t *testing.T) { two(t, lab, job) })
}

// TestTrainingOperatorAlone: without a gang scheduler the operator writes no group.
func TestTrainingOperatorAlone(t *testing.T) {
	job := pyTorchJob("", "")
	job.change = scheduledBy("tutti", "pytorchReplicaSpecs", "Master", "Worker")
	lab := in(t, job)
	t.Run("life", func(t *testing.T) { life(t, lab, job) })
	t.Run("two", func(t *testing.T) { two(t, lab, job) })
}

// inqueue: while no scheduler runs, the operator writes the group and makes no pod. It makes them when one runs, with room or
// without.
func inqueue(t *testing.T, lab *stage, job row) {
	lab.tutti.Kill()
	s := begin(t, lab, job)
	s.eventually(func() error { // it has found that the group is not Inqueue
		job := s.job.DeepCopy()
		if err := lab.Client.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		if _, looked, err := unstructured.NestedString(job.Object, "status", "lastReconcileTime"); !looked {
			return fmt.Errorf("it has not been looked at: %v %w", job.Object["status"], err)
		}
		_, err := s.findGroup()
		return err
	})
	if err := s.bound(0, 0); err != nil {
		t.Error(err)
	}
	var err error
	if lab.tutti, err = harness.StartScheduler(t.Context(), lab.Cluster, lab.options); err != nil {
		t.Fatal(err)
	}
	s.eventually(func() error { return s.bound(job.pods, 0) })
	s.phase("Inqueue")
	s.nodes("enough", job.pods)
	s.starts()
	s.phase("Running")
}
