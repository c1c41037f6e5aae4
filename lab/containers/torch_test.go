package containers

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/tutti-sched/tutti/lab/harness"
	"github.com/tutti-sched/tutti/lab/node"
	"github.com/tutti-sched/tutti/lab/operators"
)

var (
	training = installed(operators.Training(""))
	trainer  = installed(withoutNeeds(operators.Trainer()))
	torch    = imported(node.Torch())
)

// withoutNeeds is an operator whose needs the tests install themselves, since they use them, too.
func withoutNeeds(o operators.Operator) operators.Operator {
	o.Needs = nil
	return o
}

// torchImage is the image of the samples with PyTorch.
const torchImage = "pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime"

// TestTorchrunAddsUp: while a place for one worker is missing no container runs. Then all of them run, torchrun of each finds the
// others, and each rank has the sum of all.
func TestTorchrunAddsUp(t *testing.T) {
	env, ns := begin(t, training, torch)
	slots(t, env, "real-0", 2)
	sample(t, env, ns, "pytorchjob.yaml", torchImage, node.Torch().Reference(),
		"memory: 512Mi}", "memory: 512Mi, "+slot+": 1}\n              limits: {"+slot+": 1}")
	waitsWhole(t, env, ns, 3, "needs 3, 2 would fit")
	slots(t, env, "real-1", 1)
	await(t, env, ns, "pytorchjob/train", "Succeeded")
	ranks(t, env, ns)
}

// TestATrainJobAddsUp: the same of a TrainJob, whose runtime has the scheduler's name.
func TestATrainJobAddsUp(t *testing.T) {
	env, ns := begin(t, jobSet, trainer, torch)
	slots(t, env, "real-0", 2)
	sample(t, env, ns, "trainjob.yaml", torchImage, node.Torch().Reference(),
		"memory: 512Mi}", "memory: 512Mi, "+slot+": 1}\n                    limits: {"+slot+": 1}")
	waitsWhole(t, env, ns, 3, "needs 3, 2 would fit")
	slots(t, env, "real-1", 1)
	await(t, env, ns, "trainjob/train", "Complete")
	ranks(t, env, ns)
}

// waitsWhole waits until so many pods exist and the oldest gives a reason for all of them. None of them has a node then.
func waitsWhole(t *testing.T, env *harness.Env, namespace string, count int, reason string) {
	t.Helper()
	env.Eventually(t, func() error {
		pods, err := env.Pods(t.Context(), namespace)
		if err == nil && len(pods) != count {
			err = fmt.Errorf("%d pods exist, want %d", len(pods), count)
		}
		if err != nil {
			return err
		}
		told := false
		for _, p := range pods {
			if p.Spec.NodeName != "" {
				t.Fatalf("pod %s is on %s", p.Name, p.Spec.NodeName)
			}
			told = told || unschedulable(reason)(&p) == nil
		}
		if !told {
			return fmt.Errorf("no pod says %q", reason)
		}
		return nil
	})
}

var added = regexp.MustCompile(`rank (\d) of 3 on (\S+): the sum is (\d+)`)

// ranks fails unless each of three pods has said the sum of three ranks, as another rank, with its own name.
func ranks(t *testing.T, env *harness.Env, namespace string) {
	t.Helper()
	pods, err := env.Pods(t.Context(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, p := range pods {
		said := logs(t, env, namespace, p.Name, "")
		t.Logf("%s on %s said: %s", p.Name, p.Spec.NodeName, said)
		found := added.FindStringSubmatch(said)
		if found == nil || found[2] != p.Spec.Hostname && found[2] != p.Name || found[3] != "6" {
			t.Errorf("%s did not say its name and the sum 6", p.Name)
			continue
		}
		seen[found[1]] = true
	}
	if len(seen) != 3 {
		t.Errorf("there are the ranks %v, want three", seen)
	}
}
