package operators

import "testing"

func pyTorchJob() row {
	return row{
		operator: Training("tutti"), scheduler: "tutti", manifest: "pytorchjob.yaml", pods: 4, first: "bert-master-0", second: "bert-worker-1",
		running: "Running", suspended: "Suspended", ended: "Succeeded", suspend: []string{"spec", "runPolicy", "suspend"},
	}
}

func TestTrainingOperator(t *testing.T) {
	lab := in(t, pyTorchJob())
	t.Run("life", func(t *testing.T) { life(t, lab, pyTorchJob()) })
	t.Run("two", func(t *testing.T) { two(t, lab, pyTorchJob()) })
}
