package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// mpiJob has as many workers, and a launcher that is made when they run.
func mpiJob(name string, workers int32) *sources.Spec {
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
		group *sources.Spec
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
	s.Apply(&ReadingChanged{Source: model.SourceMPIJob, Reading: IsRead})
	s.Apply(&ReadingChanged{Source: model.SourceMPIJob, Reading: NotAllowed})
	if job := snap(t, s, start).Job(foreignKey("j")); job.MinMember != 3 || job.Warning == "" {
		t.Errorf("minimum %d, %q", job.MinMember, job.Warning)
	}
}

// TestAGroupOfAnMPIJobOfTrainingOperator has no late roles: its kind has the name of that of mpi-operator, in another version.
func TestAGroupOfAnMPIJobOfTrainingOperator(t *testing.T) {
	group := foreignSpec("j", 1, 3)
	group.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kubeflow.org/v1", Kind: "MPIJob", Name: "j", Controller: new(true)}}
	s := newState(node("n"), group, pod("w0", ofForeign("j")))
	if job := snap(t, s, start).Job(foreignKey("j")); job.Warning != "" {
		t.Errorf("its warning is %q", job.Warning)
	}
}

// TestAStepThatHasLostWhatSucceeded names what ends its wait: pods that have succeeded and are gone are not made again, and no
// object says how many they were.
func TestAStepThatHasLostWhatSucceeded(t *testing.T) {
	set := foreignSpec("s", 1, 3)
	set.Source = model.SourceJobSet
	set.Roles = []model.Role{{Name: "first", MinMember: 1}, {Name: "step", MinMember: 2, MadeLater: true}}
	key := model.JobKey{Namespace: "ns", Name: "s", Source: model.SourceJobSet}
	member := func(name, role string, more ...podOption) any {
		return seen(pod(name, append(more, label("jobset.sigs.k8s.io/jobset-name", "s"), label("jobset.sigs.k8s.io/replicatedjob-name", role))...))
	}
	s := newState(node("n"), set)
	warning := func(when, want string) {
		t.Helper()
		if job := snap(t, s, start).Job(key); (want == "") != (job.Warning == "") || !strings.Contains(job.Warning, want) {
			t.Errorf("%s: minimum %d %v, warning %q, want %q in it", when, job.MinMember, job.Roles, job.Warning, want)
		}
	}
	apply := func(event any) { s.Apply(event.(Event)) }
	apply(member("f", "first", on("n"), phase("Running")))
	warning("before the step", "")
	apply(member("s0", "step", on("n"), phase("Succeeded")))
	apply(member("s1", "step", on("n"), phase("Running")))
	warning("the step runs", "")
	s.Apply(gone(pod("s0")))
	s.Apply(gone(pod("s1")))
	apply(member("s1b", "step"))
	warning("one of two is made again", `annotation scheduling.tutti.dev/min-member: "0" on the JobSet`)
	each := *set
	each.MinMember, each.Roles, each.ResourceVersion = 1, nil, "2"
	s.Apply(seen(&each))
	warning("the annotation is there", "")
}

// stepsState is a JobSet of two steps, and how events of its pods are applied.
func stepsState(first, second int32) (s *State, key model.JobKey, set *sources.Spec, member func(name, role string, more ...podOption)) {
	set = foreignSpec("s", 1, first+second)
	set.Source = model.SourceJobSet
	set.Roles = []model.Role{{Name: "first", MinMember: first}, {Name: "second", MinMember: second, MadeLater: true}}
	s = newState(node("n"), set)
	member = func(name, role string, more ...podOption) {
		more = append(more, label("jobset.sigs.k8s.io/jobset-name", "s"), label("jobset.sigs.k8s.io/replicatedjob-name", role))
		s.Apply(seen(pod(name, more...)))
	}
	return s, model.JobKey{Namespace: "ns", Name: "s", Source: model.SourceJobSet}, set, member
}

// wantRoles compares the minima of a job.
func wantRoles(t *testing.T, s *State, key model.JobKey, when string, minMember int32, waiting int, roles ...model.Role) {
	t.Helper()
	if job := snap(t, s, start).Job(key); job.MinMember != minMember || !slices.Equal(job.Roles, roles) || len(job.Pending()) != waiting {
		t.Errorf("%s: minimum %d %v, %d can be placed; want %d %v, %d", when, job.MinMember, job.Roles, len(job.Pending()), minMember, roles, waiting)
	}
}

// TestALateStepOfWhichOneIsBoundAndOneIsLost never was whole, and keeps its minimum until a container of it runs. A replacement
// of the first step does not wait for it.
func TestALateStepOfWhichOneIsBoundAndOneIsLost(t *testing.T) {
	s, key, _, member := stepsState(2, 3)
	first, second := model.Role{Name: "first", MinMember: 2}, model.Role{Name: "second", MinMember: 3, MadeLater: true}
	late, held := second, second
	late.NotBegun, held.NotBegun, held.MinMember = true, true, 0
	member("f0", "first", on("n"), phase("Running"))
	member("f1", "first", on("n"), phase("Running"))
	member("s0", "second", on("n"))
	member("s1", "second")
	wantRoles(t, s, key, "the third is lost", 5, 1, first, late)
	s.Apply(gone(pod("f1")))
	member("f2", "first")
	wantRoles(t, s, key, "and one of the first", 2, 1, first, held)
	member("f2", "first", on("n"), phase("Running"))
	member("s0", "second", on("n"), phase("Running"))
	second.MinMember = 2
	wantRoles(t, s, key, "a container runs", 4, 1, first, second)
}

// TestAStepThatIsDoneWasWholeWithAllOfIt: when it is made again, those of its members that wait start together, however many of
// it were left when it was done.
func TestAStepThatIsDoneWasWholeWithAllOfIt(t *testing.T) {
	s, key, set, member := stepsState(3, 2)
	done := *set
	done.Done, done.ResourceVersion = []string{"first"}, "2"
	s.Apply(seen(&done))
	member("f0", "first", on("n"), phase("Succeeded"))
	member("s0", "second", on("n"), phase("Running"))
	member("s1", "second", on("n"), phase("Running"))
	second := model.Role{Name: "second", MinMember: 2, MadeLater: true}
	wantRoles(t, s, key, "one is left", 3, 0, model.Role{Name: "first", MinMember: 1}, second)
	again := *set
	again.ResourceVersion = "3"
	s.Apply(seen(&again))
	s.Apply(gone(pod("f0")))
	for _, name := range []string{"f1", "f2", "f3"} {
		member(name, "first")
	}
	wantRoles(t, s, key, "made again", 5, 3, model.Role{Name: "first", MinMember: 3}, second)
}

// TestALatePartThatBeginsToRun is late no more.
func TestALatePartThatBeginsToRun(t *testing.T) {
	s, key, _, member := stepsState(1, 3)
	member("f0", "first", on("n"), phase("Running"))
	member("s0", "second", on("n"))
	member("s1", "second")
	snap(t, s, start)
	member("s0", "second", on("n"), phase("Running"))
	if job := snap(t, s, start).Job(key); job.Roles[1].NotBegun {
		t.Errorf("%v", job.Roles)
	}
}

// TestGroupsOfAJobSetInSteps: where each step has a group of its own, its minimum is that of the step, whatever other steps are
// made later or are done. In one group of all of them roles are known by the labels of the pods.
func TestGroupsOfAJobSetInSteps(t *testing.T) {
	owned := func(name string, minMember int32) *sources.Spec {
		spec := nativeSpec(name, 1, minMember, false)
		spec.OwnerReferences = []metav1.OwnerReference{{Kind: "JobSet", Name: "s", Controller: new(true)}}
		return spec
	}
	in := func(group, role string) podOption {
		return func(p *corev1.Pod) {
			ofNative(group)(p)
			label("jobset.sigs.k8s.io/jobset-name", "s")(p)
			label("jobset.sigs.k8s.io/replicatedjob-name", role)(p)
		}
	}
	s, _, set, _ := stepsState(4, 8)
	for _, spec := range []*sources.Spec{owned("first", 4), owned("second", 8), owned("all", 12)} {
		s.Apply(seen(spec))
	}
	minimum := func(when, group string, want int32) {
		t.Helper()
		job := snap(t, s, start).Job(nativeSpec(group, 1, 1, false).Key())
		if job.MinMember != want {
			t.Errorf("%s: minimum %d %v, want %d", when, job.MinMember, job.Roles, want)
		}
	}
	s.Apply(seen(pod("f0", in("first", "first"))))
	minimum("one of four", "first", 4)
	s.Apply(seen(pod("s0", in("second", "second"))))
	minimum("one of eight", "second", 8)
	s.Apply(seen(pod("a0", in("all", "first"))))
	minimum("one of the first step", "all", 4)
	done := *set
	done.Done, done.ResourceVersion = []string{"first"}, "2"
	s.Apply(seen(&done))
	minimum("the first is done", "second", 8)
	s.Apply(gone(pod("a0")))
	for i := range 4 {
		s.Apply(seen(pod(fmt.Sprint("b", i), in("all", "first"), on("n"), phase("Succeeded"))))
	}
	s.Apply(seen(pod("c0", in("all", "second"))))
	minimum("the first is done, and one of the second is made", "all", 12)
}

// TestAGroupWithARoleThatIsNone is refused until a container of it runs, since members of one that has run may be gone: that asks
// for a cycle, also where no member waits.
func TestAGroupWithARoleThatIsNone(t *testing.T) {
	topology := annotation(v1alpha1.AnnotationTopology, `[{"level": "zone", "roles": ["worker"]}]`)
	s := newState(node("n"), foreignSpec("g", 1, 1), pod("a", ofForeign("g"), topology, on("n")))
	if job := snap(t, s, start).Job(foreignKey("g")); job.Invalid == nil {
		t.Fatal("it is not refused")
	}
	effect := s.Apply(seen(pod("a", ofForeign("g"), topology, on("n"), phase("Running"))))
	if job := snap(t, s, start).Job(foreignKey("g")); job.Invalid != nil || !effect.Schedule {
		t.Errorf("refused since %v, effect %+v", job.Invalid, effect)
	}
}
