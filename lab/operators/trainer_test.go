package operators

import (
	"path/filepath"
	"testing"
)

// trainJob is a TrainJob with one of the runtimes of testdata.
func trainJob(runtime, group string) row {
	return row{
		operator: Trainer(), scheduler: "tutti", group: group, manifest: "trainjob.yaml", pods: 4, first: "train-node-0", second: "train-node-0-2",
		suspended: "Suspended", ended: "Complete", left: 4, kept: true, suspend: []string{"spec", "suspend"},
		change: func(spec map[string]any) { spec["runtimeRef"] = map[string]any{"name": runtime} },
	}
}

func TestTrainer(t *testing.T) {
	job := trainJob("coscheduling", coscheduling)
	lab := in(t, job)
	if _, err := lab.Cluster.Kubectl(t.Context(), "apply", "-f", filepath.Join("testdata", "trainingruntimes.yaml")); err != nil {
		t.Fatal(err)
	}
	t.Run("life", func(t *testing.T) { life(t, lab, job) })
	t.Run("two", func(t *testing.T) { two(t, lab, job) })
	t.Run("steps", func(t *testing.T) {
		job := trainJob("steps", coscheduling)
		job.first = "train-dataset-initializer-0"
		workersAfter(t, lab, job)
	})
	t.Run("without a group", func(t *testing.T) { life(t, lab, trainJob("alone", "")) })
	t.Run("for Volcano", func(t *testing.T) { life(t, lab, trainJob("volcano", volcano)) })
}
