package e2e

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// The tests of this file are about a configuration that changes while the scheduler runs.

// policies are a configuration that fills one node after another, and one that spreads.
const (
	policyHead = "apiVersion: config.tutti.dev/v1alpha1\nactions: \"allocate\"\ntiers:\n- plugins:\n  - name: gang\n" +
		"  - name: predicates\n  - name: nodeorder\n    arguments:\n"
	filling   = policyHead + "      leastrequested.weight: 0\n      balancedresource.weight: 0\n      mostrequested.weight: 5\n"
	spreading = policyHead + "      leastrequested.weight: 5\n      balancedresource.weight: 0\n"
	misspelt  = policyHead + "      leastrequsted.weight: 5\n"
)

// liveWithin is how soon a new version is to decide.
const liveWithin = 2 * time.Second

// configured is a scheduler with a ConfigMap of its own, and two nodes.
type configured struct {
	t         *testing.T
	ns        string
	configMap *corev1.ConfigMap
	scheduler *harness.Scheduler
}

func newConfigured(t *testing.T) *configured {
	t.Helper()
	env.Nodes(t, cluster.Nodes("live", 2, map[string]string{"cpu": "8"})...)
	c := &configured{t: t, ns: env.Namespace(t)}
	c.configMap = &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: "policy"}, Data: map[string]string{"scheduler.yaml": filling},
	}
	env.Create(t, c.configMap)
	c.scheduler = env.Scheduler(t, harness.SchedulerOptions{Args: []string{"--config-map=" + c.ns + "/policy"}})
	c.metrics() // the first caller is looked up
	return c
}

// edit writes another text, and returns when the metrics say so.
func (c *configured) edit(text string, saysSo ...string) {
	c.t.Helper()
	c.configMap.Data["scheduler.yaml"] = text
	if err := env.Client.Update(c.t.Context(), c.configMap); err != nil {
		c.t.Fatal(err)
	}
	start := time.Now()
	env.Eventually(c.t, func() error {
		metrics := c.metrics()
		for _, want := range saysSo {
			if !regexp.MustCompile(`(?m)^` + want + `$`).MatchString(metrics) {
				return fmt.Errorf("no %s in\n%s", want, strings.Join(regexp.MustCompile(`(?m)^tutti_conf.*$`).FindAllString(metrics, -1), "\n"))
			}
		}
		return nil
	})
	takings{time.Since(start)}.check(c.t, "the time until the metrics know of a new version", liveWithin)
}

// metrics are the scheduler's.
func (c *configured) metrics() string {
	c.t.Helper()
	text, err := c.scheduler.Get(c.t.Context(), "/metrics")
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}

// active is what the metrics say while that version of the ConfigMap decides.
func (c *configured) active(resourceVersion string) string {
	return `tutti_configuration_info\{.*resource_version="` + resourceVersion + `".*\} 1`
}

// next creates a pod, and returns its node.
func (c *configured) next(name string) string {
	c.t.Helper()
	pod := env.Pod(c.ns, name, oneCPU)
	env.Create(c.t, pod)
	env.Eventually(c.t, func() error {
		if err := env.Client.Get(c.t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Spec.NodeName == "" {
			return fmt.Errorf("pod %s has no node", name)
		}
		return nil
	})
	return pod.Spec.NodeName
}

// TestConfigurationIsLive: another policy decides within two seconds; one with a mistake is refused, with an event that says
// where it is, and the last good one goes on; the next good one ends that.
func TestConfigurationIsLive(t *testing.T) {
	c := newConfigured(t)
	full := c.next("filled-0")
	for i := 1; i < 3; i++ {
		if node := c.next(fmt.Sprint("filled-", i)); node != full {
			t.Errorf("pod %d is on %s, want it on %s with the others", i, node, full)
		}
	}

	c.edit(spreading, `tutti_configuration_versions_total\{outcome="active"\} 2`, "tutti_configuration_refused 0")
	if !regexp.MustCompile(c.active(c.configMap.ResourceVersion)).MatchString(c.metrics()) {
		t.Errorf("version %s is not the active one by the metrics", c.configMap.ResourceVersion)
	}
	good := c.configMap.ResourceVersion
	other := c.next("spread-0")
	if other == full {
		t.Errorf("the new policy is known and does not decide: the next pod is on %s, too", full)
	}

	c.edit(misspelt, "tutti_configuration_refused 1", c.active(good))
	env.Eventually(t, func() error {
		return c.warned(`policy/scheduler.yaml:9: plugin nodeorder: unknown argument "leastrequsted.weight"`)
	})
	if node := c.next("spread-1"); node != other { // three to one
		t.Errorf("the last good policy does not go on: the pod is on %s", node)
	}
	log, err := os.ReadFile(c.scheduler.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	refusals := regexp.MustCompile(`(?m)^.*Configuration is refused.*policy/scheduler.yaml:9: .*leastrequsted.*$`).FindAllString(string(log), -1)
	if len(refusals) != 1 {
		t.Errorf("%d lines of the log say what is wrong and where, want one:\n%s", len(refusals), log)
	}

	c.edit(filling, "tutti_configuration_refused 0")
	if node := c.next("filled-3"); node != full { // three to two
		t.Errorf("the policy after the refused one does not decide: the pod is on %s", node)
	}
}

// warned is nil when there is one warning about the ConfigMap, with these words.
func (c *configured) warned(words string) error {
	var events eventsv1.EventList
	if err := env.Client.List(c.t.Context(), &events, client.InNamespace(c.ns)); err != nil {
		return err
	}
	var about []eventsv1.Event
	for _, event := range events.Items {
		if event.Regarding.Kind == "ConfigMap" && event.Regarding.UID == c.configMap.UID && event.Type == corev1.EventTypeWarning {
			about = append(about, event)
		}
	}
	if len(about) != 1 || about[0].Reason != "ConfigurationRefused" ||
		!strings.Contains(about[0].Note, words) {
		return fmt.Errorf("events on the ConfigMap: %+v, want one warning with %q", about, words)
	}
	return nil
}

// TestSchedulerEndsWhenItsFirstConfigurationIsBroken and says all that is wrong with it.
func TestSchedulerEndsWhenItsFirstConfigurationIsBroken(t *testing.T) {
	ns := env.Namespace(t)
	env.Create(t, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "policy"},
		Data:       map[string]string{"mine": "actions: \"alocate\"\ntiers:\n- plugins:\n  - name: gagn\n"},
	})
	for argument, says := range map[string][]string{
		ns + "/policy/mine": {ns + "/policy/mine:1: unknown action \"alocate\"", ns + "/policy/mine:4: unknown plugin \"gagn\""},
		ns + "/policy":      {"has no key scheduler.yaml; its keys: mine"},
		ns + "/absent":      {ns + "/absent: the ConfigMap does not exist"},
	} {
		s, err := harness.StartScheduler(t.Context(), env.Cluster, harness.SchedulerOptions{
			Name: "tutti-scheduler-broken", Args: []string{"--config-map=" + argument}, NotReady: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		env.Eventually(t, func() error {
			select {
			case <-s.Done():
				return nil
			default:
				return errors.New("it still runs")
			}
		})
		for _, want := range says {
			if failure := fmt.Sprint(s.Failure()); !strings.Contains(failure, want) {
				t.Errorf("%s: it ends with\n%s\nwant %q in it", argument, failure, want)
			}
		}
	}
}
