package cluster

import (
	"fmt"
	"math"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// controlled makes an object the controller of a pod.
func controlled(kind, name, uid string) podOption {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: types.UID(uid), Controller: new(true)}}
	}
}

// ofObject gives a pod the marks of a kind that owns pods, of the object with the name j and a UID.
func ofObject(source model.Source, uid string) podOption {
	return func(p *corev1.Pod) {
		controlled(source.Kind(), "j", uid)(p)
		switch source {
		case model.SourceJobSet:
			controlled("Job", "j-work-0", "job-of-"+uid)(p)
			label("jobset.sigs.k8s.io/jobset-name", "j")(p)
			label("jobset.sigs.k8s.io/jobset-uid", uid)(p)
			label("jobset.sigs.k8s.io/restart-attempt", "0")(p)
		case model.SourceRayCluster:
			label("ray.io/cluster", "j")(p)
		case model.SourceJob:
			label(batchv1.JobNameLabel, "j")(p)
			label(batchv1.JobCompletionIndexAnnotation, "0")(p)
		case model.SourceMPIJob:
			inMPIJob("j", "worker")(p)
		default:
			label("training.kubeflow.org/job-name", "j")(p)
			label("training.kubeflow.org/operator-name", map[model.Source]string{
				model.SourcePyTorchJob: "pytorchjob-controller", model.SourceTFJob: "tfjob-controller", model.SourceXGBoostJob: "xgboostjob-controller",
				model.SourcePaddleJob: "paddlejob-controller", model.SourceJAXJob: "jaxjob-controller",
			}[source])(p)
		}
	}
}

// TestAnObjectThatIsMadeAgain under its name, while pods of the one before it are not deleted yet, as after a deletion in the
// background: they count for nothing, so that the new gang starts as a whole.
func TestAnObjectThatIsMadeAgain(t *testing.T) {
	for source := model.SourceJobSet; source < model.SourceLeaderWorkerSetObject; source++ {
		for _, was := range []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded} {
			t.Run(fmt.Sprint(source.Kind(), " ", was), func(t *testing.T) {
				spec := foreignSpec("j", 1, 3)
				spec.Source, spec.UID = source, "new"
				s := newState(node("n"), spec)
				for i := range 3 {
					s.Apply(seen(pod(fmt.Sprint("old-", i), ofObject(source, "old"), on("n"), phase(was))))
				}
				s.Apply(seen(pod("new-0", ofObject(source, "new"))))
				job := snap(t, s, start).Job(spec.Key())
				if job == nil || len(job.Tasks) != 4 || job.Whole || job.FirstUnmetMinimum((*model.Task).Exists) == nil {
					t.Fatalf("of 3 one is made: minimum %d, whole %t", job.MinMember, job.Whole)
				}
				for i := 1; i < 3; i++ {
					s.Apply(seen(pod(fmt.Sprint("new-", i), ofObject(source, "new"))))
				}
				if job := snap(t, s, start).Job(spec.Key()); job.FirstUnmetMinimum((*model.Task).Exists) != nil {
					t.Errorf("all are made: minimum %d", job.MinMember)
				}
			})
		}
	}
}

// TestPodsThatAreSeenBeforeTheirObject is: they are no replacements in the gang before them, and wait for one another.
func TestPodsThatAreSeenBeforeTheirObject(t *testing.T) {
	for source := model.SourceJobSet; source < model.SourceLeaderWorkerSetObject; source++ {
		spec := foreignSpec("j", 1, 3)
		spec.Source, spec.UID = source, "old"
		s := newState(node("n"), spec)
		member := func(name, uid string, at time.Duration, more ...podOption) {
			s.Apply(seen(pod(name, append(more, ofObject(source, uid), created(start.Add(at)))...)))
		}
		for i := range 3 {
			member(fmt.Sprint("old-", i), "old", 0, on("n"), phase(corev1.PodRunning))
		}
		snap(t, s, start)
		look := func(when string, complete bool) {
			t.Helper()
			job := snap(t, s, start).Job(spec.Key())
			if exist := job.FirstUnmetMinimum((*model.Task).Exists) == nil; job.Whole || exist != complete {
				t.Errorf("%s, %s: minimum %d, whole %t", source.Kind(), when, job.MinMember, job.Whole)
			}
		}
		member("new-0", "new", time.Second)
		look("one", false)
		again := *spec
		again.UID, again.ResourceVersion = "new", "2"
		s.Apply(seen(&again))
		look("one, and the object", false)
		member("new-1", "new", time.Second)
		member("new-2", "new", 2*time.Second)
		look("all", true)
	}
}

// TestAGroupWhoseOwnerIsMadeAgain: pods that say that they were made for the one before count for nothing in a group object,
// either.
func TestAGroupWhoseOwnerIsMadeAgain(t *testing.T) {
	for name, of := range map[string]func(uid string) podOption{
		"JobSet": func(uid string) podOption { return ofObject(model.SourceJobSet, uid) },
		"MPIJob": func(uid string) podOption { return ofObject(model.SourceMPIJob, uid) },
	} {
		spec := foreignSpec("g", 1, 3)
		s := newState(node("n"), spec)
		for i := range 2 {
			s.Apply(seen(pod(fmt.Sprint("old-", i), ofForeign("g"), of("old"), on("n"), phase(corev1.PodRunning))))
		}
		s.Apply(seen(pod("new-0", ofForeign("g"), of("new"), created(start.Add(time.Minute)))))
		if job := snap(t, s, start).Job(spec.Key()); job.Whole || job.FirstUnmetMinimum((*model.Task).Exists) == nil {
			t.Errorf("%s: of 3 one is made: minimum %d, whole %t", name, job.MinMember, job.Whole)
		}
		for i := range 2 {
			s.Apply(gone(pod(fmt.Sprint("old-", i))))
			s.Apply(seen(pod(fmt.Sprint("another-", i), ofForeign("g"), controlled("PyTorchJob", fmt.Sprint("another-", i), "x"))))
		}
		if job := snap(t, s, start).Job(spec.Key()); job.MinMember != 3 || job.FirstUnmetMinimum((*model.Task).Exists) != nil {
			t.Errorf("%s: with pods of objects of other names: minimum %d", name, job.MinMember)
		}
	}
}

// TestAHugeMinimum stays one while there are pods of an earlier attempt.
func TestAHugeMinimum(t *testing.T) {
	spec := foreignSpec("j", 1, math.MaxInt32)
	spec.Source = model.SourceJobSet
	attempt := func(n string) podOption {
		return func(p *corev1.Pod) {
			label("jobset.sigs.k8s.io/jobset-name", "j")(p)
			label("jobset.sigs.k8s.io/restart-attempt", n)(p)
		}
	}
	s := newState(node("n"), spec, pod("a", attempt("0")), pod("b", attempt("1")))
	if job := snap(t, s, start).Job(spec.Key()); job.FirstUnmetMinimum((*model.Task).Exists) == nil {
		t.Errorf("minimum %d", job.MinMember)
	}
}

// TestARayJobThatIsTriedAgain, or resumed, has a RayCluster of another name in the same group: pods of the one before, which are
// not deleted yet, count for nothing. RayClusters that are in a group of another name are one gang.
func TestARayJobThatIsTriedAgain(t *testing.T) {
	for group, together := range map[string]bool{"ray-train-pg": false, "mine": true} {
		spec := volcanoSpec(group, 1, "Running")
		spec.MinMember = 3
		s := newState(node("n"), spec)
		for i := range 3 {
			s.Apply(seen(pod(fmt.Sprint("old-", i), ofVolcano(group), controlled("RayCluster", "train-a", "a"), on("n"), phase(corev1.PodRunning))))
		}
		snap(t, s, start)
		for i := range 3 {
			s.Apply(seen(pod(fmt.Sprint("new-", i), ofVolcano(group), controlled("RayCluster", "train-b", "b"), created(start.Add(time.Minute)))))
			job := snap(t, s, start).Job(spec.Key())
			if exist := job.FirstUnmetMinimum((*model.Task).Exists) == nil; job.Whole != together || exist != (together || i == 2) {
				t.Errorf("%s, %d of 3 are made: minimum %d, whole %t", group, i+1, job.MinMember, job.Whole)
			}
		}
	}
}

// TestJobSetsThatShareAGroup have attempts of their own: pods of one that was never tried again are not of an earlier attempt of
// the other.
func TestJobSetsThatShareAGroup(t *testing.T) {
	of := func(set, attempt string) podOption {
		return func(p *corev1.Pod) {
			ofForeign("g")(p)
			label("jobset.sigs.k8s.io/jobset-name", set)(p)
			label("jobset.sigs.k8s.io/jobset-uid", set)(p)
			label("jobset.sigs.k8s.io/restart-attempt", attempt)(p)
		}
	}
	running := []podOption{on("n"), phase(corev1.PodRunning)}
	s := newState(node("n"), foreignSpec("g", 1, 2), pod("a-0", append(running, of("a", "0"))...), pod("b-0", append(running, of("b", "0"))...))
	snap(t, s, start)
	s.Apply(seen(pod("a-1", of("a", "1"))))
	if job := snap(t, s, start).Job(foreignKey("g")); job.MinMember != 3 || !job.Whole {
		t.Errorf("minimum %d, whole %t: one is of an earlier attempt", job.MinMember, job.Whole)
	}
	s.Apply(gone(pod("a-0")))
	if job := snap(t, s, start).Job(foreignKey("g")); job.MinMember != 2 || job.FirstUnmetMinimum((*model.Task).Exists) != nil {
		t.Errorf("minimum %d: both exist", job.MinMember)
	}
}
