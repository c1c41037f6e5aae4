package operators

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tutti-sched/tutti/lab/harness"
)

// row is an operator, and one of its jobs.
type row struct {
	operator Operator
	// scheduler is the schedulerName of its pods, and group that of the API of its PodGroups; empty when it writes none.
	scheduler, group string
	// args are other flags of Tutti.
	args []string
	// prefix and suffix are around the job's name in that of its PodGroup, or of its group without an object.
	prefix, suffix string
	manifest       string
	// change changes the spec before it is submitted; nil leaves it as it is.
	change func(spec map[string]any)
	pods   int
	// first and second are how the names of two of its pods begin; the job ends with the first, or with all whose names begin so,
	// when it does.
	first, second string
	// running, suspended and ended are conditions of the job. One that never ends has no condition for it, and so it is with one
	// that cannot be suspended, or does not say that it runs.
	running, suspended, ended string
	// left is how many pods are left when it has ended. By then the PodGroup is deleted, unless it is kept.
	left int
	kept bool
	// suspend is the field that suspends it.
	suspend []string
}

// The groups of the API that operators write a PodGroup of.
const (
	coscheduling = "scheduling.x-k8s.io"
	volcano      = "scheduling.volcano.sh"
)

// life is what happens to a job: one place short, started, a pod lost, suspended, resumed, ended.
func life(t *testing.T, lab *stage, row row) {
	s := begin(t, lab, row)
	s.nodes("first", row.pods-1)

	// One place short, nothing starts; with one more, all does.
	short := fmt.Sprintf("needs %d, %d would fit", row.pods, row.pods-1)
	s.refused(row.pods, 0, "Unschedulable", short)
	s.why(short, fmt.Sprintf("0 bound, %d waiting", row.pods))
	s.phase("Inqueue")
	s.nodes("second", 1)
	s.starts()
	s.says(row.running, "True")
	s.phase("Running")

	s.restart()
	s.losesAPod()

	// Suspended, it has no pods. It resumes as a whole.
	if row.suspended != "" {
		s.setSuspended(true)
		s.eventually(func() error { return s.bound(0, 0) })
		s.says(row.suspended, "True")
		filler := s.fill()
		s.setSuspended(false)
		s.refused(row.pods, 0, "Unschedulable", short)
		s.remove(filler)
		s.starts()
		s.says(row.running, "True")
	}

	if row.ended != "" {
		s.ends(row.first)
		s.says(row.ended, "True")
		s.eventually(func() error { return s.bound(row.left, row.left) })
		if row.group != "" && !row.kept {
			s.eventually(func() error {
				_, err := s.findGroup()
				if apierrors.IsNotFound(err) {
					return nil
				}
				return fmt.Errorf("the PodGroup is still there: %w", err)
			})
		}
		s.cyclesPass()
		if err := s.bound(row.left, row.left); err != nil {
			t.Error(err)
		}
	}
}

// two jobs have places for one of them and for all but one pod of the other: one starts, and when it is gone the other does.
func two(t *testing.T, lab *stage, row row) {
	one := begin(t, lab, row)
	other := one.beside("other")
	one.nodes("shared", 2*row.pods-1)
	short := fmt.Sprintf("needs %d, %d would fit", row.pods, row.pods-1)
	first, second := one, other
	one.eventually(func() error {
		if other.bound(row.pods, row.pods) == nil {
			first, second = other, one
		}
		return first.bound(row.pods, row.pods)
	})
	second.refused(row.pods, 0, "Unschedulable", short)
	if err := lab.Client.Delete(t.Context(), first.job.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	second.starts()
	second.says(row.running, "True")
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
