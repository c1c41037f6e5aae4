package operators

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/harness"
	"github.com/tutti-sched/tutti/lab/operators/spark"
)

func sparkApplication(scheduler, group string) row {
	return row{
		operator: Spark(scheduler), scheduler: scheduler, group: group, suffix: "-pg", manifest: "sparkapplication.yaml", pods: 4,
		first: "pi-driver", second: "pi-exec-2", suspend: []string{"spec", "suspend"},
		change: func(spec map[string]any) { spec["batchScheduler"] = scheduler },
	}
}

func TestSpark(t *testing.T) {
	job := sparkApplication("tutti", coscheduling)
	sparkLife(t, in(t, job), job)
}

func TestSparkForVolcano(t *testing.T) {
	job := sparkApplication(Volcano, volcano)
	job.prefix = "spark-"
	sparkLife(t, in(t, job), job)
}

// sparkLife: the driver starts first, since the minimum is 1, and its executors one by one, as there is room. Lost executors are
// replaced by the driver, which this test is.
func sparkLife(t *testing.T, lab *stage, row row) {
	s := begin(t, lab, row)
	s.nodes("first", 1)
	filler := s.fill()
	s.refused(1, 0, "Unschedulable", "cpu")
	s.why("cpu")
	s.phase("Inqueue")
	s.remove(filler)
	s.eventually(func() error { return s.bound(1, 1) })
	s.phase("Running")
	s.state("RUNNING")

	s.executors(1, 2, 3)
	s.refused(4, 1, "Unschedulable", "cpu")
	s.nodes("second", 2)
	s.refused(4, 3, "Unschedulable", "cpu")
	s.restart()
	s.cyclesPass()
	if err := s.bound(4, 3); err != nil {
		t.Error(err)
	}
	s.nodes("third", 1)
	s.starts()

	// One that is lost is replaced, and the others run on.
	before, err := s.members()
	if err != nil {
		t.Fatal(err)
	}
	s.remove(s.member(row.second))
	s.eventually(func() error { return s.bound(3, 3) })
	filler = s.lab.Pod(s.namespace, "filler-of-lost", oneCPU, harness.ScheduledBy(row.scheduler))
	s.lab.AfterCycle(t, filler)
	s.executors(4)
	s.refused(4, 3, "Unschedulable", "cpu")
	s.remove(filler)
	s.starts()
	for _, name := range []string{"pi-driver", "pi-exec-1", "pi-exec-3"} {
		if was, is := before[name].UID, s.member(name).UID; was != is {
			t.Errorf("%s is another pod than before", name)
		}
	}

	// Suspended, it has neither driver nor executors. It resumes with a driver.
	s.setSuspended(true)
	s.eventually(func() error { return s.bound(0, 0) })
	s.state("SUSPENDED")
	s.setSuspended(false)
	s.eventually(func() error { return s.bound(1, 1) })
	s.state("RUNNING")
	s.executors(1, 2, 3)
	s.starts()

	s.ends("pi-")
	s.state("COMPLETED")
	s.eventually(func() error {
		_, err := s.findGroup()
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the PodGroup is still there: %w", err)
	})
}

// executors are created by the driver, with the properties that the operator has submitted it with.
func (s *story) executors(ids ...int) {
	s.Helper()
	driver, properties := s.member(s.first), &corev1.ConfigMap{}
	name := client.ObjectKey{Namespace: s.namespace, Name: spark.ConfigMapName(driver.Name)}
	if err := s.lab.Client.Get(s.Context(), name, properties); err != nil {
		s.Fatal(err)
	}
	for _, id := range ids {
		executor, err := spark.FromConfigMap(properties).Executor(driver, id)
		if err != nil {
			s.Fatal(err)
		}
		s.lab.Create(s, executor)
	}
}

// state waits until the application is in a state.
func (s *story) state(want string) {
	s.Helper()
	s.eventually(func() error {
		job := s.job.DeepCopy()
		if err := s.lab.Client.Get(s.Context(), client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		state, _, err := unstructured.NestedString(job.Object, "status", "applicationState", "state")
		if state != want {
			return fmt.Errorf("the application is %s, want %s: %v %w", state, want, job.Object["status"], err)
		}
		return err
	})
}
