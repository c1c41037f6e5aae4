package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/internal/configuration"
	"github.com/tutti-sched/tutti/lab/alerts"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/demo/release"
	"github.com/tutti-sched/tutti/lab/harness"
	"github.com/tutti-sched/tutti/lab/process"
)

// installation is a release that is run as its operator does, with one replica, and records what Prometheus would have of it.
type installation struct {
	t                        *testing.T
	lab                      *harness.Env
	program, token, endpoint string
	replica                  *process.Process
	// pods and started are how many pods there were, and processes in them.
	pods, started int
	recording     alerts.Recording
}

// TestNothingPagesFalsely: a release is installed with alerts and dashboard, gangs start and wait, isolated CPUs are turned on
// and off, a configuration is refused and the scheduler restarts, the release is rolled back. By the metrics of that run no alert
// of the chart fires; the one of the configuration does when it stays refused for longer. TuttiRestartsRepeatedly counts starts
// in the same pod, and fires at the fourth in half an hour: there is one here. The other starts are in pods of their own, three
// of them made by rollouts, which do not count however many there are.
func TestNothingPagesFalsely(t *testing.T) {
	t.Parallel()
	tool, err := alerts.New(t.Context(), t.TempDir(), t.Output())
	if errors.Is(err, alerts.ErrNoPromtool) && os.Getenv("CI") != "true" {
		t.Skipf("the alerts are not tried: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	o := newInstallation(t)
	o.install("metrics.alerts.enabled=true,metrics.dashboard.enabled=true")
	o.token = accountWith(t, o.lab, "prometheus", "tutti-scheduler-metrics")
	o.roll()
	o.gang("fits", 2, metav1.ConditionTrue, "Scheduled", 2)
	o.gang("too-big", 20, metav1.ConditionFalse, "InsufficientResources", 0)
	o.record(10)

	o.isolatedCPUs()
	refused := o.refusedConfiguration()
	o.helm("rollback", release.Name, "1")
	o.roll()
	o.gang("last", 2, metav1.ConditionTrue, "Scheduled", 2)
	o.record(20)

	story, err := o.recording.Story()
	if err != nil {
		t.Fatal(err)
	}
	if err := tool.Play(t.Context(), story); err != nil {
		t.Error(err)
	}
	for range 20 {
		o.recording.Record(1, o.labels(), refused)
	}
	if story, err = o.recording.Story("TuttiConfigurationRefused"); err != nil {
		t.Fatal(err)
	}
	if err := tool.Play(t.Context(), story); err != nil {
		t.Errorf("a configuration that stays refused: %v", err)
	}
}

func newInstallation(t *testing.T) *installation {
	c, err := cluster.Start(t.Context(), cluster.Options{
		Kubernetes: env.Cluster.Version(), ControllerManager: true, Scheduler: true, Kwok: true, Dir: t.TempDir(), Out: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Stop() })
	lab, err := harness.NewEnv(c)
	if err != nil {
		t.Fatal(err)
	}
	nodes := append(cluster.Nodes("day", 2, map[string]string{"cpu": "8", "memory": "16Gi"}), quietNode())
	if err := errors.Join(c.ApplyCRDs(t.Context(), "testdata"), c.CreateNodes(t.Context(), nodes...)); err != nil {
		t.Fatal(err)
	}
	program, err := binaries.Build(t.Context(), t.Output(), binaries.TuttiScheduler)
	if err != nil {
		t.Fatal(err)
	}
	lab.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "jobs"}})
	return &installation{t: t, lab: lab, program: program}
}

// install installs the chart, or upgrades to it, with these values beside those of before.
func (o *installation) install(values string) {
	o.t.Helper()
	err := release.Install(o.t.Context(), o.lab.Cluster, chartFolder(o.t), "--reset-then-reuse-values", "--set", values)
	if err != nil {
		o.t.Fatal(err)
	}
}

func (o *installation) helm(args ...string) {
	o.t.Helper()
	all := append(args, "--namespace", release.Namespace, "--wait", "--timeout", release.Timeout)
	if _, err := o.lab.Cluster.Helm(o.t.Context(), all...); err != nil {
		o.t.Fatal(err)
	}
}

// roll ends the replica that runs, and starts one in another pod, as a rollout does.
func (o *installation) roll() {
	o.t.Helper()
	o.end()
	o.pods++
	o.start()
}

// restart ends the process of the replica that runs, and starts one in the same pod, as a kubelet does.
func (o *installation) restart() {
	o.t.Helper()
	o.end()
	o.start()
}

// end ends the replica that runs; Prometheus misses it for a minute.
func (o *installation) end() {
	if o.replica != nil {
		o.replica.Kill()
		o.recording.Record(1, o.labels(), "")
	}
}

// start starts the replica as the chart has it.
func (o *installation) start() {
	o.t.Helper()
	installed, err := release.Read(o.t.Context(), o.lab.Cluster)
	if err != nil {
		o.t.Fatal(err)
	}
	o.started++
	o.endpoint = freeAddress(o.t)
	name := fmt.Sprint("replica-", o.started)
	if o.replica, err = installed.Start(o.t.Context(), o.lab.Cluster, name, o.program, "--metrics-bind-address="+o.endpoint); err != nil {
		o.t.Fatal(err)
	}
	o.expect("tutti_leading 1")
}

// labels are those that the ServiceMonitor gives the metrics of the replica.
func (o *installation) labels() string {
	return fmt.Sprintf(`namespace=%q,job="tutti-scheduler-metrics",pod="replica-%d"`, release.Namespace, o.pods)
}

// metrics are those of the replica, read with the account of Prometheus.
func (o *installation) metrics() (string, error) {
	request, err := http.NewRequestWithContext(o.t.Context(), http.MethodGet, "https://"+o.endpoint+"/metrics", nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+o.token)
	transport := withoutVerification()
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", answer.StatusCode, text)
	}
	return string(text), err
}

// expect waits for a line in the metrics, and returns all of them.
func (o *installation) expect(line string) (text string) {
	o.t.Helper()
	found := regexp.MustCompile("(?m)^" + line + "$")
	o.lab.Eventually(o.t, func() (err error) {
		if text, err = o.metrics(); err == nil && !found.MatchString(text) {
			err = fmt.Errorf("the metrics do not say %s", line)
		}
		return err
	})
	return text
}

// record lets minutes pass for Prometheus in which the metrics are as they are now.
func (o *installation) record(minutes int) {
	o.t.Helper()
	text, err := o.metrics()
	if err != nil {
		o.t.Fatal(err)
	}
	o.recording.Record(minutes, o.labels(), text)
}

// gang submits a gang and waits for its condition Scheduled.
func (o *installation) gang(name string, size int, status metav1.ConditionStatus, reason string, bound int) {
	o.t.Helper()
	o.lab.Create(o.t, group("jobs", name, int32(size)))
	o.lab.Create(o.t, members("jobs", name, "", size)...)
	o.lab.Eventually(o.t, func() error { return says(o.t, o.lab, name, status, reason, bound) })
}

// isolatedCPUs turns them on, with an agent on one node, and off again.
func (o *installation) isolatedCPUs() {
	o.t.Helper()
	o.install("isolcpu.enabled=true")
	o.roll()
	agent, err := release.AgentOn(o.t.Context(), o.lab.Cluster, "quiet-0", upperHalf(o.t))
	if err != nil {
		o.t.Fatal(err)
	}
	if _, err := agent.Publish(o.t.Context(), time.Now()); err != nil {
		o.t.Fatal(err)
	}
	o.record(20)
	o.install("isolcpu.enabled=false")
	o.roll()
	o.record(10)
}

// refusedConfiguration puts a mistake into the live configuration, restarts the scheduler, which goes on with the last good one,
// and mends the mistake. It returns the metrics of the time in between.
func (o *installation) refusedConfiguration() (refused string) {
	o.t.Helper()
	name := client.ObjectKey{Namespace: release.Namespace, Name: "tutti-scheduler"}
	kept := client.ObjectKey{Namespace: name.Namespace, Name: name.Name + configuration.LastGoodSuffix}
	var live, good corev1.ConfigMap
	o.lab.Eventually(o.t, func() error {
		err := errors.Join(o.lab.Client.Get(o.t.Context(), name, &live), o.lab.Client.Get(o.t.Context(), kept, &good))
		if err == nil && good.Data["scheduler.yaml"] != live.Data["scheduler.yaml"] {
			err = fmt.Errorf("the last good configuration is %q", good.Data)
		}
		return err
	})
	right := live.Data["scheduler.yaml"]
	set := func(text string) {
		live.Data["scheduler.yaml"] = text
		if err := o.lab.Client.Update(o.t.Context(), &live); err != nil {
			o.t.Fatal(err)
		}
	}
	set("actions: alocate\n" + right)
	o.expect("tutti_configuration_refused 1")
	o.record(5)
	o.restart()
	o.expect("tutti_configuration_refused 1")
	o.gang("by-the-last-good-one", 2, metav1.ConditionTrue, "Scheduled", 2)
	o.record(5)
	refused = o.expect("tutti_configuration_refused 1")
	set(right)
	o.expect("tutti_configuration_refused 0")
	o.record(5)
	return refused
}
