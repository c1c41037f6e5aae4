package operators

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// TestTrainingOperatorForVolcano: the operator makes no pod before the phase of the group is Inqueue, which Tutti does not write.
// Where it does, this is life and two.
func TestTrainingOperatorForVolcano(t *testing.T) {
	job := pyTorchJob(Volcano, volcano)
	job.change = func(spec map[string]any) {
		// Where a template names no scheduler, the operator gives its pods to Volcano.
		for _, part := range []string{"Master", "Worker"} {
			path := []string{"pytorchReplicaSpecs", part, "template", "spec", "schedulerName"}
			if err := unstructured.SetNestedField(spec, job.scheduler, path...); err != nil {
				t.Error(err)
			}
		}
	}
	lab := in(t, job)
	s := begin(t, lab, job)
	s.nodes("enough", job.pods)
	s.eventually(func() error {
		_, err := s.findGroup()
		return err
	})
	s.cyclesPass()
	if err := s.bound(0, 0); err != nil {
		t.Error(err)
	}
}
