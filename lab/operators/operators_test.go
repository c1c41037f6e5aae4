package operators

import (
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	release, err := Lock()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	release()
	os.Exit(code)
}

// row is an operator, and one of its jobs.
type row struct {
	operator Operator
	// scheduler is the schedulerName of its pods.
	scheduler string
	manifest  string
	pods      int
	// first and second are how the names of two of its pods begin; the job ends with the first, when it does.
	first, second string
	// running, suspended and ended are conditions of the job; one that never ends has no condition for it.
	running, suspended, ended string
	// suspend is the field that suspends it.
	suspend []string
}

func rows() []row {
	policy := []string{"spec", "runPolicy", "suspend"}
	return []row{{
		operator: MPI("tutti"), scheduler: "tutti", manifest: "mpijob.yaml", pods: 5, first: "pi-launcher", second: "pi-worker-2",
		running: "Running", suspended: "Suspended", ended: "Succeeded", suspend: policy,
	}, {
		operator: Training("tutti"), scheduler: "tutti", manifest: "pytorchjob.yaml", pods: 4, first: "bert-master-0", second: "bert-worker-1",
		running: "Running", suspended: "Suspended", ended: "Succeeded", suspend: policy,
	}, {
		operator: Ray(), scheduler: RayScheduler, manifest: "raycluster.yaml", pods: 4, first: "ray-head", second: "ray-workers-worker",
		running: "RayClusterProvisioned", suspended: "RayClusterSuspended", suspend: []string{"spec", "suspend"},
	}}
}

// TestJobsOfOperators is the life of a job as its operator plays it.
func TestJobsOfOperators(t *testing.T) {
	for _, row := range rows() {
		t.Run(row.operator.Name, func(t *testing.T) {
			s := begin(t, in(t, row.operator, row.scheduler), row, nil)
			s.nodes("first", row.pods-1)

			// One place short, nothing starts; with one more, all does.
			short := fmt.Sprintf("needs %d, %d placed", row.pods, row.pods-1)
			s.refused(row.pods, 0, "Unschedulable", short)
			s.nodes("second", 1)
			s.starts()
			s.says(row.running, "True")

			s.losesAPod()

			// Suspended, it has no pods. It resumes as a whole.
			s.setSuspended(true)
			s.eventually(func() error { return s.bound(0, 0) })
			s.says(row.suspended, "True")
			filler := s.fill()
			s.setSuspended(false)
			s.refused(row.pods, 0, "Unschedulable", short)
			s.remove(filler)
			s.starts()
			s.says(row.running, "True")

			if row.ended != "" {
				s.annotate(s.member(row.first), cluster.RunFor)
				s.says(row.ended, "True")
			}
		})
	}
}

// losesAPod: one that is lost comes back and waits for a place, while the others run on.
func (s *story) losesAPod() {
	s.Helper()
	before, err := s.members()
	if err != nil {
		s.Fatal(err)
	}
	lost := s.member(s.second)
	filler := s.lab.Pod(s.namespace, "filler-of-lost", oneCPU, harness.ScheduledBy(s.scheduler), harness.OnNode(lost.Spec.NodeName))
	s.lab.Create(s, filler) // it is over the node's capacity until the other one is gone
	s.remove(lost)
	s.refused(s.pods, s.pods-1, "Unschedulable", "cpu")
	s.remove(filler)
	s.starts()
	after, err := s.members()
	if err != nil {
		s.Fatal(err)
	}
	if len(after) != s.pods || after[lost.Name].UID == lost.UID {
		s.Errorf("%s is still there, or not replaced", lost.Name)
	}
	for name, pod := range before {
		if name != lost.Name && after[name].UID != pod.UID {
			s.Errorf("%s is another pod than before", name)
		}
	}
}
