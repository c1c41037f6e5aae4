package operators

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// stage is a cluster with an operator, and with Tutti as its scheduler.
type stage struct {
	*harness.Env
	options harness.SchedulerOptions
	tutti   *harness.Scheduler
	kubectl string // kubectl-tutti
}

// story is a job of an operator, and the cluster that it is in.
type story struct {
	*testing.T
	row
	lab       *stage
	namespace string
	job       *unstructured.Unstructured
	cycles    int // that were waited for
}

var oneCPU = harness.Requests(map[string]string{"cpu": "1"})

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

// in starts a cluster with an operator and Tutti.
func in(t *testing.T, row row) *stage {
	t.Helper()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	// What takes minutes comes before anything that others wait for.
	operatorErr := row.operator.Build(t.Context(), os.Stderr)
	scheduler, schedulerErr := binaries.Build(t.Context(), os.Stderr, binaries.TuttiScheduler)
	kubectl, err := binaries.Build(t.Context(), os.Stderr, binaries.KubectlTutti)
	if err := errors.Join(operatorErr, schedulerErr, err); err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(t.Context(), cluster.Options{
		Kubernetes: os.Getenv("K8S"), ControllerManager: true, Kwok: true, JobsRun: true,
		Dir: filepath.Join(root, "build", "operators", t.Name()), Out: os.Stderr,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := c.ApplyCRDs(t.Context(), filepath.Join(root, "config", "crd", "bases")); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	p, err := Install(t.Context(), c, os.Stderr, row.operator)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s runs after %s", row.operator.Name, time.Since(start).Round(time.Millisecond))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.Failure())
		}
	})
	lab, err := harness.NewEnv(c)
	if err != nil {
		t.Fatal(err)
	}
	options := harness.SchedulerOptions{Path: scheduler, Args: append([]string{"--scheduler-name=" + row.scheduler}, row.args...)}
	return &stage{Env: lab, options: options, tutti: lab.Scheduler(t, options), kubectl: kubectl}
}

// begin submits a job as a user does.
func begin(t *testing.T, lab *stage, row row) *story {
	t.Helper()
	s := read(t, lab, row)
	lab.Create(t, s.job.DeepCopy())
	return s
}

// read is a job in a namespace of its own, which is not submitted yet.
func read(t *testing.T, lab *stage, row row) *story {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", row.manifest))
	if err != nil {
		t.Fatal(err)
	}
	s := &story{T: t, row: row, lab: lab, namespace: lab.Namespace(t), job: &unstructured.Unstructured{}}
	if err := yaml.Unmarshal(text, &s.job.Object); err != nil {
		t.Fatal(err)
	}
	if row.change != nil {
		row.change(s.job.Object["spec"].(map[string]any))
	}
	s.job.SetNamespace(s.namespace)
	s.eventually(func() error { // without it, pods of the namespace are refused
		account := client.ObjectKey{Namespace: s.namespace, Name: "default"}
		return lab.Client.Get(t.Context(), account, &corev1.ServiceAccount{})
	})
	return s
}

// beside submits the same job under another name, in the same namespace.
func (s *story) beside(name string) *story {
	s.Helper()
	other := *s
	other.job = s.job.DeepCopy()
	other.job.SetName(name)
	s.lab.Create(s, other.job.DeepCopy())
	return &other
}

// groupName is the name of the job's PodGroup.
func (s *story) groupName() string {
	return s.prefix + s.job.GetName() + s.suffix
}

// findGroup returns the job's PodGroup.
func (s *story) findGroup() (*unstructured.Unstructured, error) {
	version := map[string]string{coscheduling: "v1alpha1", volcano: "v1beta1"}[s.group]
	group := &unstructured.Unstructured{}
	group.SetAPIVersion(s.group + "/" + version)
	group.SetKind("PodGroup")
	return group, s.lab.Client.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: s.groupName()}, group)
}

// phase waits until the PodGroup has a phase, if it is of the kind that has one.
func (s *story) phase(want string) {
	s.Helper()
	if s.group != volcano {
		return
	}
	s.eventually(func() error {
		group, err := s.findGroup()
		if phase, _, _ := unstructured.NestedString(group.Object, "status", "phase"); phase != want {
			return fmt.Errorf("the phase of the PodGroup is %q, want %q %w", phase, want, err)
		}
		return err
	})
}

// scheduledBy returns the change of a job whose templates name a scheduler: those of its parts below a field of the spec.
func scheduledBy(scheduler, field string, parts ...string) func(spec map[string]any) {
	return func(spec map[string]any) {
		for _, part := range parts {
			setScheduler(scheduler, spec, field, part)
		}
	}
}

// setScheduler names a scheduler in the template of a part.
func setScheduler(scheduler string, part map[string]any, path ...string) {
	if err := unstructured.SetNestedField(part, scheduler, append(path, "template", "spec", "schedulerName")...); err != nil {
		panic(err) // of the manifest
	}
}

// restart ends the scheduler, and starts another one, which knows what the API says and no more.
func (s *story) restart() {
	s.Helper()
	s.lab.tutti.Kill()
	var err error
	if s.lab.tutti, err = harness.StartScheduler(s.Context(), s.lab.Cluster, s.lab.options); err != nil {
		s.Fatal(err)
	}
}

// eventually is for what programs do within seconds.
func (s *story) eventually(ask func() error) {
	s.Helper()
	s.lab.Eventually(s, ask)
}

// members are the pods of the job, by name.
func (s *story) members() (map[string]corev1.Pod, error) {
	pods, err := s.lab.Pods(s.Context(), s.namespace)
	members := map[string]corev1.Pod{}
	for _, pod := range pods {
		if strings.HasPrefix(pod.Name, s.job.GetName()+"-") {
			members[pod.Name] = pod
		}
	}
	return members, err
}

// bound is nil when the job has so many pods, and so many of them have a node.
func (s *story) bound(exist, want int) error {
	members, err := s.members()
	if err != nil {
		return err
	}
	bound, why := 0, ""
	for name, pod := range members {
		if pod.Spec.NodeName != "" {
			bound++
		}
		why += fmt.Sprintf("\n%s on %q, %s:", name, pod.Spec.NodeName, pod.Status.Phase)
		for _, condition := range pod.Status.Conditions {
			why += fmt.Sprintf(" %s %s %s %s;", condition.Type, condition.Status, condition.Reason, condition.Message)
		}
	}
	if bound != want || len(members) != exist {
		return fmt.Errorf("%d pods exist and %d are bound, want %d and %d%s", len(members), bound, exist, want, why)
	}
	return nil
}

// refused waits until a pod of the job says why it waits, lets two cycles pass, and wants as many pods bound as before.
func (s *story) refused(exist, bound int, reason, words string) {
	s.Helper()
	s.eventually(func() error {
		if err := s.bound(exist, bound); err != nil { // what was said before is about another state
			return err
		}
		members, err := s.members()
		if err != nil {
			return err
		}
		said := ""
		for name, pod := range members {
			for _, condition := range pod.Status.Conditions {
				if condition.Type != corev1.PodScheduled {
					continue
				}
				if condition.Reason == reason && strings.Contains(condition.Message, words) {
					return nil
				}
				said += fmt.Sprintf("\n%s: %s %s", name, condition.Reason, condition.Message)
			}
		}
		return fmt.Errorf("no pod says %s: %s%s", reason, words, said)
	})
	s.cyclesPass()
	if err := s.bound(exist, bound); err != nil {
		s.Error(err)
	}
}

// cyclesPass waits for two cycles that know what this test has done.
func (s *story) cyclesPass() {
	s.Helper()
	for range 2 {
		s.cycles++
		s.lab.AfterCycle(s, s.lab.Pod(s.namespace, fmt.Sprintf("cycle-%s-%d", s.job.GetName(), s.cycles), harness.ScheduledBy(s.scheduler)))
	}
}

// starts waits until all pods of the job run.
func (s *story) starts() {
	s.Helper()
	s.eventually(func() error {
		if err := s.bound(s.pods, s.pods); err != nil {
			return err
		}
		members, err := s.members()
		for name, pod := range members {
			if pod.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("%s is %s", name, pod.Status.Phase)
			}
		}
		return err
	})
}

// says waits until the job has a condition, if it is of a kind that has it.
func (s *story) says(condition, status string) {
	s.Helper()
	if condition == "" {
		return
	}
	s.eventually(func() error {
		job := s.job.DeepCopy()
		if err := s.lab.Client.Get(s.Context(), client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		conditions, _, err := unstructured.NestedSlice(job.Object, "status", "conditions")
		for _, c := range conditions {
			if c := c.(map[string]any); c["type"] == condition && c["status"] == status {
				return nil
			}
		}
		return fmt.Errorf("%s is not %s %s: %v %w", job.GetName(), condition, status, conditions, err)
	})
}

// setSuspended suspends the job or resumes it.
func (s *story) setSuspended(suspended bool) {
	s.Helper()
	change := map[string]any{}
	if err := unstructured.SetNestedField(change, suspended, s.suspend...); err != nil {
		s.Fatal(err)
	}
	text, err := json.Marshal(change)
	if err != nil {
		s.Fatal(err)
	}
	s.patch(s.job.DeepCopy(), string(text))
}

// nodes adds a node with so many CPUs, and memory for what operators add to pods.
func (s *story) nodes(name string, cpus int) {
	s.Helper()
	s.lab.Nodes(s, cluster.Nodes(name, 1, map[string]string{"cpu": fmt.Sprint(cpus), "memory": "64Gi"})...)
}

// fill takes one place with a pod of no job.
func (s *story) fill() *corev1.Pod {
	s.Helper()
	filler := s.lab.Pod(s.namespace, "filler", oneCPU, harness.ScheduledBy(s.scheduler))
	s.lab.AfterCycle(s, filler)
	return filler
}

// patch changes an object.
func (s *story) patch(object client.Object, change string) {
	s.Helper()
	if err := s.lab.Client.Patch(s.Context(), object, client.RawPatch(types.MergePatchType, []byte(change))); err != nil {
		s.Fatal(err)
	}
}

// member is the pod of the job whose name begins so.
func (s *story) member(prefix string) *corev1.Pod {
	s.Helper()
	members, err := s.members()
	if err != nil {
		s.Fatal(err)
	}
	for name, pod := range members {
		if strings.HasPrefix(name, prefix) {
			return &pod
		}
	}
	s.Fatalf("no pod %s* in %v", prefix, members)
	return nil
}

// remove deletes a pod.
func (s *story) remove(pod *corev1.Pod) {
	s.Helper()
	if err := s.lab.Client.Delete(context.WithoutCancel(s.Context()), pod); err != nil {
		s.Fatal(err)
	}
}

// annotate lets a pod end: cluster.RunFor and cluster.FailAfter.
func (s *story) annotate(pod *corev1.Pod, annotation string) {
	s.Helper()
	s.patch(pod, fmt.Sprintf(`{"metadata":{"annotations":{%q:"0s"}}}`, annotation))
}

// ends lets the pods of the job end whose names begin so.
func (s *story) ends(prefix string) {
	s.Helper()
	members, err := s.members()
	if err != nil {
		s.Fatal(err)
	}
	for name, pod := range members {
		if strings.HasPrefix(name, prefix) {
			s.annotate(&pod, cluster.RunFor)
		}
	}
}

// listed is how kubectl tutti status names the job: a group of another project with the controller of its oldest pod. Without a
// group it names the object whose spec says how many pods there are: of a TrainJob the JobSet that it makes.
func (s *story) listed() string {
	if s.group == "" {
		kind := s.job.GetKind()
		if kind == "TrainJob" {
			kind = "JobSet"
		}
		return fmt.Sprintf("%s (%s/%s)", s.groupName(), kind, s.job.GetName())
	}
	return fmt.Sprintf("podgroup.%s/%s (", s.group, s.groupName())
}

// why wants words in what kubectl tutti why says of the job, by the name of its group and of its own, and the job in what kubectl
// tutti status lists.
func (s *story) why(words ...string) {
	s.Helper()
	s.answers(s.groupName(), words...)
	s.answers(s.job.GetKind()+"/"+s.job.GetName(), words...)
	listed := s.ask("status", "--scheduler-name="+s.scheduler)
	if name := s.listed(); !strings.Contains(listed, name) {
		s.Errorf("kubectl tutti status does not list %s:\n%s", name, listed)
	}
}

// answers wants words in what kubectl tutti why says of a name.
func (s *story) answers(name string, words ...string) {
	s.Helper()
	said := s.ask("why", name)
	for _, word := range words {
		if !strings.Contains(said, word) {
			s.Errorf("kubectl tutti why %s does not say %q:\n%s", name, word, said)
		}
	}
}

// ask runs kubectl tutti in the job's namespace.
func (s *story) ask(args ...string) string {
	s.Helper()
	text, err := harness.RunCommand(s.Context(), s.lab.kubectl, append(args, "--kubeconfig", s.lab.Cluster.Kubeconfig(), "-n", s.namespace)...)
	if err != nil {
		s.Error(err)
	}
	s.Log(text)
	return text
}
