package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/internal/cluster/groups"
	"github.com/tutti-sched/tutti/pkg/model"
)

// mpiJob has as many workers, and a launcher that is made when they run.
func mpiJob(name string, workers int32) *groups.Spec {
	spec := foreignSpec(name, 1, workers+1)
	spec.Source, spec.UID = model.SourceMPIJob, "mpi"
	spec.Roles = []model.Role{{Name: "launcher", MinMember: 1, MadeLater: true}, {Name: "worker", MinMember: workers}}
	return spec
}

func inMPIJob(name, role string) podOption {
	return func(p *corev1.Pod) {
		label("training.kubeflow.org/job-name", name)(p)
		label("training.kubeflow.org/operator-name", "mpi-operator")(p)
		label("training.kubeflow.org/job-role", role)(p)
	}
}

// TestALateRole counts nothing before its first member exists, and in full from then on: for the object that owns the pods,
// and for a group that it controls.
func TestALateRole(t *testing.T) {
	controlled := foreignSpec("j", 1, 3)
	controlled.OwnerReferences = []metav1.OwnerReference{{Kind: "MPIJob", Name: "j", Controller: new(true)}}
	for name, c := range map[string]struct {
		group *groups.Spec
		marks []podOption
		key   model.JobKey
	}{
		"its owner": {nil, nil, model.JobKey{Namespace: "ns", Name: "j", Source: model.SourceMPIJob}},
		"its group": {controlled, []podOption{ofForeign("j")}, foreignKey("j")},
	} {
		t.Run(name, func(t *testing.T) {
			member := func(name, role string, more ...podOption) any {
				return seen(pod(name, append(append([]podOption{inMPIJob("j", role)}, c.marks...), more...)...))
			}
			s := newState(node("n"), mpiJob("j", 2))
			if c.group != nil {
				s.Apply(seen(c.group))
			}
			apply := func(event any) { s.Apply(event.(Event)) }
			apply(member("w0", "worker"))
			apply(member("w1", "worker"))
			look := func(when string, minMember int32, waiting int, below bool) {
				t.Helper()
				job := snap(t, s, start).Job(c.key)
				if job.MinMember != minMember || len(job.Pending()) != waiting || job.BelowMinimum != below {
					t.Errorf("%s: minimum %d %v, %d can be placed, below its minimum %t", when, job.MinMember, job.Roles, len(job.Pending()), job.BelowMinimum)
				}
			}
			look("before the launcher", 2, 2, false)
			for _, name := range []string{"w0", "w1"} {
				apply(member(name, "worker", on("n"), phase("Running")))
			}
			look("the workers run", 2, 0, false)
			apply(member("l", "launcher"))
			look("the launcher waits", 3, 1, false)
			s.Apply(gone(pod("w1")))
			apply(member("w2", "worker"))
			look("and a worker was lost", 2, 1, true)
			apply(member("w2", "worker", on("n"), phase("Running")))
			look("and is there again", 3, 1, false)
			apply(member("l", "launcher", on("n")))
			look("the launcher has a node", 3, 0, false)
			s.Apply(gone(pod("l")))
			look("the launcher is gone", 2, 0, false)
		})
	}
}

// TestAParentThatIsNotRead leaves the minimum as the group says it, and the reason names the setting that ends the wait.
func TestAParentThatIsNotRead(t *testing.T) {
	group := foreignSpec("j", 1, 3)
	group.OwnerReferences = []metav1.OwnerReference{{Kind: "MPIJob", Name: "j", Controller: new(true)}}
	s := newState(node("n"), group, pod("w0", ofForeign("j"), inMPIJob("j", "worker")), pod("w1", ofForeign("j"), inMPIJob("j", "worker")))
	if job := snap(t, s, start).Job(foreignKey("j")); job.MinMember != 3 || !strings.Contains(job.Warning, `MPIJob "j" is not read`) || !strings.Contains(job.Warning, "minAvailable") {
		t.Errorf("minimum %d, %q", job.MinMember, job.Warning)
	}
	s.Apply(seen(mpiJob("j", 2)))
	if job := snap(t, s, start).Job(foreignKey("j")); job.MinMember != 2 || job.Warning != "" {
		t.Errorf("minimum %d, %q", job.MinMember, job.Warning)
	}
	s.Apply(Event{Kind: KindReading, Source: model.SourceMPIJob, Reading: IsRead})
	s.Apply(Event{Kind: KindReading, Source: model.SourceMPIJob, Reading: NotAllowed})
	if job := snap(t, s, start).Job(foreignKey("j")); job.MinMember != 3 || job.Warning == "" {
		t.Errorf("minimum %d, %q", job.MinMember, job.Warning)
	}
}
