package scheduler

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/report"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// controlledBy is the reference of a controller.
func controlledBy(kind, name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{Kind: kind, Name: name, UID: types.UID(kind + name), Controller: new(true)}}
}

// TestJobsNameTheirOwners: the controller of the group's object comes first, then those of the pods, each once. Marks beside the
// one that counts are named, unless their object is the owner.
func TestJobsNameTheirOwners(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "2")
	w.cannotRead(cluster.IsRead)
	w.coscheduling("mpi", 3, 3)
	spec := &sources.Spec{Source: model.SourceCoscheduling, MinMember: 3}
	spec.Namespace, spec.Name, spec.UID, spec.OwnerReferences = "default", "mpi", "foreign-mpi", controlledBy("MPIJob", "train")
	w.mailbox.Event(&cluster.ForeignSeen{Spec: spec})
	for name, kind := range map[string]string{"mpi-0": "Job", "mpi-1": "MPIJob", "mpi-2": "MPIJob"} {
		w.change(name, func(pod *corev1.Pod) {
			pod.OwnerReferences = controlledBy(kind, "train")
			pod.Annotations = map[string]string{v1alpha1.AnnotationKubeBatchGroup: "other"}
			pod.Labels["training.kubeflow.org/job-name"], pod.Labels["training.kubeflow.org/operator-name"] = "train", "mpi-operator"
		})
	}
	w.play(t.Context(), time.Minute)
	jobs, list := w.askJobs("default")
	mpi := jobs["mpi"]
	var owners []string
	for _, owner := range mpi.OwnerReferences {
		owners = append(owners, owner.Kind+"/"+owner.Name)
	}
	if want := []string{"MPIJob/train", "Job/train"}; !slices.Equal(owners, want) || mpi.Owner() != want[0] {
		t.Errorf("owners %q, want %q", owners, want)
	}
	if mpi.Source != "PodGroup.scheduling.x-k8s.io" || mpi.Needs != 3 || mpi.Has != 3 || mpi.Reason != "InsufficientResources" || mpi.Phase != "Pending" {
		t.Errorf("%+v", mpi)
	}
	if want := []string{`mpi-0: also names PodGroup.scheduling.volcano.sh "other", which does not count`}; !slices.Equal(mpi.Notes, want) {
		t.Errorf("notes %q, want %q", mpi.Notes, want)
	}
	if want := []string{"tutti"}; !slices.Equal(list.SchedulerNames, want) {
		t.Errorf("names %q", list.SchedulerNames)
	}
}

// TestJobsSayThatASourceIsOff of a pod that would be in a group by it.
func TestJobsSayThatASourceIsOff(t *testing.T) {
	w := newWorld(t)
	off := *w.loop.profile
	off.SourcesOff = []string{"coscheduling"}
	w.loop.reconfigure(&off, w.clock.Now())
	w.coscheduling("mpi", 1, 3)
	w.play(t.Context(), time.Minute)
	jobs, _ := w.askJobs("default")
	pod := jobs["mpi-0"]
	want := `the source coscheduling is off in the scheduler's configuration: PodGroup.scheduling.x-k8s.io "mpi" is no group, and each of its pods starts when it fits`
	if pod.Source != "pod" || !slices.Equal(pod.Notes, []string{want}) {
		t.Errorf("%s %q, want a pod and %q", pod.Source, pod.Notes, want)
	}
}

// TestJobsWithoutAPodGroup have no phase while their pods wait for one, and members say what is wrong with them alone.
func TestJobsWithoutAPodGroup(t *testing.T) {
	w := newWorld(t)
	w.member("lost", 0)
	w.play(t.Context(), time.Minute)
	jobs, _ := w.askJobs("default")
	lost := jobs["lost"]
	if lost.Phase != "" || lost.Needs != 0 || lost.Reason != "GroupNotFound" || len(lost.Members) != 1 || lost.Members[0].State != debugapi.MemberWaiting {
		t.Errorf("%+v", lost)
	}
}

// TestJobsOfAnotherSchedulersPodGroup need what is not known here: their pods are refused, and no minimum is counted.
func TestJobsOfAnotherSchedulersPodGroup(t *testing.T) {
	w := newWorld(t)
	w.gang("theirs", 2, 4)
	group := w.groups["theirs"].DeepCopy()
	group.Spec.SchedulerName = "another"
	w.group(group)
	w.play(t.Context(), time.Minute)
	jobs, _ := w.askJobs("default")
	if theirs := jobs["theirs"]; len(theirs.Labels) != 0 || theirs.Needs != 0 || theirs.Has != 2 || theirs.Reason != "InvalidGroup" || theirs.Phase != "Pending" {
		t.Errorf("%+v", theirs)
	}
}

// TestAPanicOverOneJobLeavesOutThatJob and no other.
func TestAPanicOverOneJobLeavesOutThatJob(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "bad", "c"} {
		w.gang(name, 2, 2)
	}
	w.play(t.Context(), time.Minute)
	w.loop.reporter = report.NewReporter(report.Source{
		Group: w.loop.state.Group, Reservation: func(*model.Job) *v1alpha1.Reservation { return nil },
		Whole: func(job *model.Job) (started model.Minima, whole, known bool) {
			if job.Key.Name == "bad" {
				panic("this job")
			}
			return started, false, true
		},
	})
	jobs, _ := w.askJobs("default")
	if _, bad := jobs["bad"]; bad || len(jobs) != 2 || jobs["c"].Turn != "3rd of 3 waiting jobs" {
		t.Errorf("%d jobs, %+v", len(jobs), jobs["c"])
	}
}

// TestQueuesSayThatAllIsPaused although each of them is active.
func TestQueuesSayThatAllIsPaused(t *testing.T) {
	w := newWorld(t)
	paused := *w.loop.profile
	paused.Paused = "the configuration says pause: true"
	w.loop.reconfigure(&paused, w.clock.Now())
	queue := queueOf("30")
	w.queue(queue)
	w.play(t.Context(), time.Minute)
	source := debugapi.NewSource(w.loop.Inspect, w.clock)
	list := inspect(w, func() (*debugapi.QueueList, error) { return source.Queues(t.Context()) })
	if table := list.Table(); list.Paused != paused.Paused || len(table.Rows) == 0 || table.Rows[0].Cells[1] != "Paused" {
		t.Errorf("%q, %+v", list.Paused, table.Rows)
	}
}

// TestJobsOfAnotherNamespaceAreNotThoseAskedForBefore, although a copy answers for a second.
func TestJobsOfAnotherNamespaceAreNotThoseAskedForBefore(t *testing.T) {
	w := newWorld(t)
	w.gang("gang", 2, 2)
	w.play(t.Context(), time.Second)
	source := debugapi.NewSource(w.loop.Inspect, w.clock)
	for namespace, want := range map[string]int{"default": 1, "elsewhere": 0, "": 1} {
		list := inspect(w, func() (*debugapi.JobList, error) { return source.Jobs(t.Context(), namespace, "") })
		if len(list.Items) != want {
			t.Errorf("namespace %q has %d jobs, want %d", namespace, len(list.Items), want)
		}
	}
	labelled := inspect(w, func() (*debugapi.JobList, error) { return source.Jobs(t.Context(), "default", "team=a") })
	if len(labelled.Items) != 0 {
		t.Errorf("a selector that selects nothing has %+v", labelled.Items)
	}
}

// TestJobsShowThatAGroupWithoutAPodGroupIsDegraded once it has run with all its members and has lost one, with each kind of mark.
func TestJobsShowThatAGroupWithoutAPodGroupIsDegraded(t *testing.T) {
	for name, arrive := range map[string]func(*world){
		"implicit": func(w *world) { w.implicit("big", 4, 4) },
		"foreign":  func(w *world) { w.coscheduling("big", 4, 4) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", "8")
			arrive(w)
			w.play(t.Context(), time.Minute)
			for _, pod := range w.pods {
				w.inPhase(string(pod.UID), corev1.PodRunning)
			}
			w.play(t.Context(), time.Minute)
			w.gone("big-3")
			w.play(t.Context(), time.Minute)
			jobs, _ := w.askJobs("default")
			big := jobs["big"]
			if big.Phase != v1alpha1.PodGroupDegraded || big.Reason != v1alpha1.ConditionDegraded || big.Message != "below its minimum: needs 4, 3 bound" {
				t.Errorf("%s %s %q", big.Phase, big.Reason, big.Message)
			}
		})
	}
}
