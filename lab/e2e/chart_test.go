package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/demo/release"
	"github.com/tutti-sched/tutti/lab/harness"
)

// placeholder names the registry of images that are not published, as config/default does.
const placeholder = "global.imageRegistry=registry.invalid"

func TestChartLints(t *testing.T) {
	for _, values := range chartValues(t) {
		if _, err := env.Cluster.Helm(t.Context(), "lint", "--strict", chartFolder(t), "--set", placeholder, "--values", values); err != nil {
			t.Error(err)
		}
	}
}

func TestChartRefuses(t *testing.T) {
	for set, want := range map[string]string{
		"replica=3":           "additional properties 'replica' not allowed",
		"image.digest=latest": "write sha256: and 64 hexadecimal digits",
		"isolcpu.enabled=true,isolcpu.agent.image.digest=latest":                    "isolcpu.agent.image.digest: latest is no digest",
		"scheduler.names={default-scheduler}":                                       "default-scheduler is kube-scheduler's",
		"scheduler.bindDeadline=30":                                                 "30 is no duration; write a number with its unit",
		"scheduler.schedulePeriod=10s":                                              "scheduler.schedulePeriod: there is no such value",
		"scheduler.schedulePeriod=5s,scheduler.bindWorkers=32":                      "--reset-then-reuse-values --set scheduler.bindWorkers=null",
		"scheduler.schedulePeriod=10s,scheduler.bindWorkers=32":                     "--set scheduler.bindWorkers=null,scheduler.schedulePeriod=null",
		"scheduler.extraArgs={v=2}":                                                 "write --flag=value",
		"leaderElection.enabled=false":                                              "two schedulers would place the same pods twice",
		"serviceAccount.create=false":                                               "serviceAccount.name is needed",
		"metrics.service.enabled=true,health.port=80":                               "minimum: got 80",
		"config=scheduler.yaml":                                                     "that is no configuration: it has no list of tiers",
		"config=tiers: [":                                                           "that is no configuration",
		"config=tiers: []\nactions: alocate":                                        `config: unknown action "alocate"; this version has allocate`,
		"config=tiers: [{plugins: [{name: gnag}]}]":                                 `config: unknown plugin "gnag" in tier 1; this version has priority`,
		"config=tiers: [gang]":                                                      "config: tier 1 has no list of plugins",
		"metrics.readers[0].kind=ServiceAccount,metrics.readers[0].name=prometheus": "missing property 'namespace'",
		"global.imageRegistry=":                                                     "image.registry: the image tutti-scheduler names no registry",
		"global.imageRegistry=,image.repository=batch/tutti-scheduler":              "the image batch/tutti-scheduler names no registry",
		"global.imageRegistry=,image.registry=localhost,isolcpu.enabled=true":       "isolcpu.agent.image.registry: the image tutti-agent names no registry",
		"rbac.preemption=false":                                                     "the configuration's actions name preempt",
		"rbac.preemption=false,config=tiers: []\nactions: reclaim":                  "the configuration's actions name reclaim",
		"sources.coscheduling=false,config=tiers: []":                               "sources.coscheduling: without the right to read these groups their pods wait",
		"config=tiers: []\nsources: {job: true}":                                    "sources.job: without the right to read these groups their pods wait",
		"sources.job=true,config=tiers: []":                                         "sources.job: write sources: {job: true} in config, too",
		"sources.job=true,config=tiers: []\nsources: {job: false}":                  "sources.job: write sources: {job: true} in config, too",
		"sources.flux=true":                                                         "sources.flux: there is no such source; this version has kubernetes",
		"sources.volcano=false,config=tiers: []":                                    "sources.volcano: without the right to read these groups their pods wait",
		"sources.kueue=false,config=tiers: []":                                      "sources.kueue: write sources: {kueue: false} in config, too",
		"metrics.certManager.enabled=true":                                          "name the issuer of the certificate",
		"image.registry=registry.example.com/":                                      "does not match pattern",
		"metrics.serviceMonitor.enabled=true":                                       "metrics.readers is empty, so that no pod reaches the metrics",
		"health.port=8443":                                                          "metrics.port and health.port are both 8443",
		"metrics.alerts.enabled=true,scheduler.stepLimit=1m":                        "stepSeconds: after 60 s the scheduler has ended itself",
	} {
		_, err := env.Cluster.Helm(t.Context(), "template", "tutti", chartFolder(t), "--set", placeholder, "--set", set)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: %v\nwant %q in it", set, err, want)
		}
	}
}

// TestChartIgnoresOldDefaultsOfRemovedValues: they are in the stored values of a release that never set them, and
// helm upgrade --reuse-values renders this chart with those. A number comes from storage as a float.
func TestChartIgnoresOldDefaultsOfRemovedValues(t *testing.T) {
	want := render(t)
	for _, args := range [][]string{
		{"--set", "scheduler.schedulePeriod=5s,scheduler.bindWorkers=64"},
		{"--set-json", `scheduler.schedulePeriod="5s",scheduler.bindWorkers=64.0`},
		{"--set", "scheduler.schedulePeriod=null,scheduler.bindWorkers=null"},
	} {
		if got := render(t, args...); !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("%v changes what is rendered", args)
		}
	}
}

// TestChartNotesRightsThatAreNotUsed: of sources that the configuration turns off, and the values do not, since they are on by
// default.
func TestChartNotesRightsThatAreNotUsed(t *testing.T) {
	for set, want := range map[string]string{
		"config=tiers: []\nsources: {volcano: false}":                       "sources.volcano is true, and the configuration turns it off",
		"config=tiers: []\nsources: {volcano: true}":                        "",
		"config=tiers: []\nsources: {volcano: false},sources.volcano=false": "",
		"sources.volcano=false":                                             "",
		"sources.job=true":                                                  "",
	} {
		out, err := env.Cluster.Helm(t.Context(), "install", "tutti", chartFolder(t), "--dry-run=client", "--set", placeholder, "--set", set)
		if err != nil {
			t.Errorf("--set %s: %v", set, err)
		}
		_, notes, _ := strings.Cut(out, "NOTES:")
		if n := strings.Count(notes, "and the configuration turns it off"); !strings.Contains(notes, want) || want == "" && n > 0 || n > 1 {
			t.Errorf("--set %s: want %q once in\n%s", set, want, notes)
		}
	}
}

func TestChartRendersNoWildcardInRoles(t *testing.T) {
	roles := 0
	for _, values := range chartValues(t) {
		for _, object := range render(t, "--values", values) {
			if kind := object.GetKind(); kind != "ClusterRole" && kind != "Role" {
				continue
			}
			roles++
			var role rbacv1.ClusterRole
			convert(t, object, &role)
			for _, rule := range role.Rules {
				for _, wrong := range tooMuch(object.GetName(), rule) {
					t.Errorf("%s: %s %s %s: %+v", values, object.GetKind(), object.GetName(), wrong, rule)
				}
			}
		}
	}
	if roles != 23 {
		t.Errorf("%d roles were looked at, want 23, of the default values and of all that can be turned on", roles)
	}
}

// tooMuch says what of a rule no role of the chart may have: wildcards; secrets; what would give it other rights; writing
// nodes, but for the agent's patch; of the agent, anything about pods; of people, anything but PodGroups, and never their
// status.
func tooMuch(role string, rule rbacv1.PolicyRule) []string {
	var wrong []string
	for _, all := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs} {
		if slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, "*") }) {
			wrong = append(wrong, "has a wildcard")
		}
	}
	agent := strings.Contains(role+"-", "-agent-")
	people := strings.HasSuffix(role, "-view") || strings.HasSuffix(role, "-edit")
	for _, resource := range rule.Resources {
		kind, _, _ := strings.Cut(resource, "/")
		if people && resource != "podgroups" {
			wrong = append(wrong, "lets people have "+resource)
		}
		if kind == "pods" && agent || kind == "secrets" || strings.Contains(resource, "impersonat") {
			wrong = append(wrong, "is allowed "+resource)
		}
		if kind == "serviceaccounts" && !slices.Equal(rule.ResourceNames, []string{debugapi.Account}) {
			wrong = append(wrong, "may have tokens of other accounts")
		}
		for _, verb := range rule.Verbs {
			if slices.Contains([]string{"escalate", "bind", "impersonate"}, verb) || rule.APIGroups[0] == rbacv1.GroupName {
				wrong = append(wrong, "may "+verb+" "+resource)
			}
			reads := slices.Contains([]string{"get", "list", "watch"}, verb)
			if kind == "nodes" && !reads && !(agent && verb == "patch" && resource == "nodes") {
				wrong = append(wrong, "may "+verb+" "+resource)
			}
		}
	}
	return wrong
}

// TestChart installs the chart into a cluster of its own that has never seen it, and runs the scheduler as it is
// installed. The server writes down every request of the scheduler's account.
func TestChart(t *testing.T) {
	t.Parallel()
	audit := filepath.Join(t.TempDir(), "audit.log")
	c := startAudited(t, audit)
	lab, err := harness.NewEnv(c)
	if err != nil {
		t.Fatal(err)
	}
	nodes := cluster.Nodes("chart", 2, map[string]string{"cpu": "4", "memory": "8Gi"})
	if err := c.CreateNodes(t.Context(), append(nodes, quietNode())...); err != nil {
		t.Fatal(err)
	}
	// The strictest that a namespace can ask of its pods.
	lab.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: release.Namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}})
	chart := chartFolder(t)

	installOld(t, lab, chart)
	upgrade(t, lab, chart)
	rollback(t, lab)
	acceptsAllValues(t, lab)
	assertPeople(t, lab)
	assertPolicies(t, lab, nodes)
	runAsInstalled(t, lab)
	assertGranted(t, lab, audit, release.Namespace, "tutti-scheduler")
	assertGranted(t, lab, audit, release.AgentNamespace, release.DaemonSet)
	assertFlows(t, c)
	turnOff(t, lab)
	uninstall(t, lab)
}

// installOld installs a chart whose CRD is not the one of today.
func installOld(t *testing.T, lab *harness.Env, chart string) {
	old := t.TempDir()
	if err := os.CopyFS(old, os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	crd := filepath.Join(old, "files", "crds", "scheduling.tutti.dev_podgroups.yaml")
	text, err := os.ReadFile(crd)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(crd, bytes.Replace(text, []byte("name: Reason"), []byte("name: Line"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := release.Install(t.Context(), lab.Cluster, old); err != nil {
		t.Fatal(err)
	}
	installed, err := release.Read(t.Context(), lab.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	if installed.Ready != 2 {
		t.Errorf("helm --wait returned with %d pods ready, want 2", installed.Ready)
	}
	if columns := crdText(t, lab); !strings.Contains(columns, "name: Line") {
		t.Errorf("the old CRD is not there:\n%s", columns)
	}
}

// upgrade moves to the chart of today, with another configuration.
func upgrade(t *testing.T, lab *harness.Env, chart string) {
	config := "actions: allocate, preempt\n" +
		"tiers:\n- plugins:\n  - name: priority\n  - name: gang\n  - name: predicates\n  - name: nodeorder\n  - name: isolcpu\n"
	// The agent mounts folders of the host, which nothing but the freest of namespaces allows.
	lab.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: release.AgentNamespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged"},
	}})
	values := filepath.Join(t.TempDir(), "values.yaml")
	text, err := json.Marshal(map[string]any{
		"config": config, "scheduler": map[string]any{"bindDeadline": "40s"}, "tenancy": map[string]any{"policies": map[string]any{"enabled": true}},
		"isolcpu": map[string]any{"enabled": true, "agent": map[string]any{"namespace": release.AgentNamespace}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(values, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := release.Install(t.Context(), lab.Cluster, chart, "--values", values); err != nil {
		t.Fatal(err)
	}
	if got := crdText(t, lab); !strings.Contains(got, "name: Reason") || strings.Contains(got, "name: Line") {
		t.Errorf("the upgrade left the old CRD:\n%s", got)
	}
	after := podTemplate(t, lab)
	if args := after.Spec.Containers[0].Args; !slices.Contains(args, "--bind-deadline=40s") {
		t.Errorf("arguments after the upgrade: %q", args)
	}
	var live corev1.ConfigMap
	key := client.ObjectKey{Namespace: release.Namespace, Name: "tutti-scheduler"}
	if err := lab.Client.Get(t.Context(), key, &live); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(live.Data["scheduler.yaml"]); got != strings.TrimSpace(config) {
		t.Errorf("the live configuration is\n%s\nwant\n%s", got, config)
	}
}

// acceptsAllValues asks the server about every set of values that comes with the chart, in a namespace where nothing is.
func acceptsAllValues(t *testing.T, lab *harness.Env) {
	const elsewhere = "elsewhere"
	for _, name := range []string{elsewhere, "monitoring"} {
		lab.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	c := lab.Cluster
	// What the chart makes on demand for programs that are not in every cluster.
	if err := c.ApplyCRDs(t.Context(), "testdata"); err != nil {
		t.Fatal(err)
	}
	for _, values := range chartValues(t) {
		text, err := c.Helm(t.Context(), "template", "tutti", chartFolder(t), "--namespace", elsewhere,
			"--kube-version", c.Version(), "--set", placeholder, "--values", values)
		if err != nil {
			t.Error(err)
			continue
		}
		file := filepath.Join(t.TempDir(), "rendered.yaml")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err = c.Kubectl(t.Context(), "apply", "--server-side", "--force-conflicts", "--dry-run=server",
			"--validate=strict", "--warnings-as-errors", "--filename", file)
		if err != nil {
			t.Errorf("%s: %v", values, err)
		}
	}
}

// runAsInstalled lets the real scheduler, as the chart has it, start a gang and refuse another.
func runAsInstalled(t *testing.T, lab *harness.Env) {
	installed, err := release.Read(t.Context(), lab.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	program, err := binaries.Build(t.Context(), t.Output(), binaries.TuttiScheduler)
	if err != nil {
		t.Fatal(err)
	}
	endpoint := freeAddress(t)
	scheduler, err := installed.Start(t.Context(), lab.Cluster, "tutti-scheduler", program, "--metrics-bind-address="+endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(scheduler.Failure())
		}
	})
	helmTest(t, lab, program)
	assertGuarded(t, lab, endpoint)
	assertQueue(t, lab)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "jobs"}}
	brief := group("jobs", "brief", 1)
	brief.Spec.TTLSecondsAfterFinished = new(int32(0))
	lab.Create(t, ns, brief)
	lab.Create(t, members("jobs", "brief", "", 1, harness.PodAnnotations(map[string]string{cluster.RunFor: "100ms"}))...)
	lab.Eventually(t, func() error {
		err := lab.Client.Get(t.Context(), client.ObjectKeyFromObject(brief), brief)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the group that is kept for no time is there in phase %s: %v", brief.Status.Phase, err)
	})
	lab.Create(t, group("jobs", "fits", 3), group("jobs", "too-big", 9))
	lab.Create(t, members("jobs", "fits", "", 3)...)
	lab.Create(t, members("jobs", "too-big", "", 9)...)
	lab.Eventually(t, func() error { return says(t, lab, "fits", metav1.ConditionTrue, "Scheduled", 3) })
	lab.Eventually(t, func() error {
		return says(t, lab, "too-big", metav1.ConditionFalse, "InsufficientResources", 0)
	})
	lab.Eventually(t, func() error {
		events, err := lab.Clientset.EventsV1().Events("jobs").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Regarding.Name == "fits" && event.Reason == "Scheduled" {
				return nil
			}
		}
		return errors.New("no event says that the gang was scheduled")
	})
	urgent := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 1000}
	lab.Create(t, urgent, group("jobs", "urgent", 2)) // there is capacity for one of them, and the gang that fits has the rest
	lab.Create(t, members("jobs", "urgent", "", 2, harness.Requests(map[string]string{"cpu": "3"}),
		func(p *corev1.Pod) { p.Spec.PriorityClassName = urgent.Name })...)
	lab.Eventually(t, func() error { return says(t, lab, "urgent", metav1.ConditionTrue, "Scheduled", 2) })
	playAgent(t, lab)
	// A job that waits for capacity would take that of the nodes that come now, which have volumes and devices for others.
	if err := lab.Client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(ns.Name),
		client.MatchingLabels{v1alpha1.LabelPodGroup: "too-big"}, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	playClaims(t, lab, func(t *testing.T) string { // one that stays: no client may write events in one that is deleted
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "claims-"}}
		lab.Create(t, ns)
		return ns.Name
	})
	scheduler.Kill()
	log, err := os.ReadFile(scheduler.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(log), "\n") {
		if strings.Contains(strings.ToLower(line), "forbidden") {
			t.Errorf("the chart's roles are not enough: %s", line)
		}
	}
}

// says is nil when a group's condition is that, and so many of its pods have a node.
func says(t *testing.T, lab *harness.Env, name string, status metav1.ConditionStatus, reason string, bound int) error {
	t.Helper()
	g := group("jobs", name, 1)
	if err := lab.Client.Get(t.Context(), client.ObjectKeyFromObject(g), g); err != nil {
		return err
	}
	condition := g.Status.Conditions
	if len(condition) != 1 || condition[0].Status != status || condition[0].Reason != reason {
		return fmt.Errorf("group %s: conditions %+v, want %s for %s", name, condition, status, reason)
	}
	pods, err := lab.Pods(t.Context(), "jobs", client.MatchingLabels{"scheduling.tutti.dev/pod-group": name})
	if err != nil {
		return err
	}
	on := 0
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			on++
		}
		waiting := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
		})
		if bound == 0 && !waiting {
			return fmt.Errorf("pod %s does not say that it waits", pod.Name)
		}
	}
	if on != bound {
		return fmt.Errorf("group %s: %d pods have a node, want %d", name, on, bound)
	}
	return nil
}

// turnOff turns isolated CPUs off, as docs/isolcpu.md says: nothing of them is left.
func turnOff(t *testing.T, lab *harness.Env) {
	off := []string{"--reset-then-reuse-values", "--set", "isolcpu.enabled=false"}
	if err := release.Install(t.Context(), lab.Cluster, chartFolder(t), off...); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"annotate nodes --all isolcpu.tutti.dev/topology-", "label nodes --all isolcpu.tutti.dev/agent-"} {
		if _, err := lab.Cluster.Kubectl(t.Context(), strings.Fields(key)...); err != nil {
			t.Fatal(err)
		}
	}
	var (
		nodes  corev1.NodeList
		agents appsv1.DaemonSetList
	)
	if err := errors.Join(lab.Client.List(t.Context(), &nodes), lab.Client.List(t.Context(), &agents)); err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes.Items {
		if text, found := node.Annotations["isolcpu.tutti.dev/topology"]; found {
			t.Errorf("node %s still offers %s", node.Name, text)
		}
	}
	if len(agents.Items) > 0 {
		t.Errorf("%d agents are left", len(agents.Items))
	}
	if args := podTemplate(t, lab).Spec.Containers[0].Args; slices.ContainsFunc(args, func(arg string) bool {
		return strings.HasPrefix(arg, "--agent-lease-namespace")
	}) {
		t.Errorf("the scheduler looks at the Leases of agents: %q", args)
	}
}

// uninstall takes the release away; the PodGroups and their CRD stay.
func uninstall(t *testing.T, lab *harness.Env) {
	_, err := lab.Cluster.Helm(t.Context(), "uninstall", release.Name, "--namespace", release.Namespace, "--wait")
	if err != nil {
		t.Fatal(err)
	}
	g := group("jobs", "fits", 1)
	if err := lab.Client.Get(t.Context(), client.ObjectKeyFromObject(g), g); err != nil {
		t.Errorf("after the uninstall: %v", err)
	}
	if err := lab.Client.Get(t.Context(), client.ObjectKey{Name: "tutti-scheduler"}, &rbacv1.ClusterRole{}); err == nil {
		t.Error("the uninstall left the role")
	}
	if err := release.Install(t.Context(), lab.Cluster, chartFolder(t)); err != nil {
		t.Errorf("install again, with the CRD still there: %v", err)
	}
}

func chartFolder(t *testing.T) string {
	t.Helper()
	chart, err := release.Chart()
	if err != nil {
		t.Fatal(err)
	}
	return chart
}

// chartValues are the files of values that come with the chart.
func chartValues(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(chartFolder(t), "ci", "*-values.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("values of the chart: %v, %v", files, err)
	}
	return append(files, filepath.Join(chartFolder(t), "values.yaml"))
}

// render returns what helm template makes.
func render(t *testing.T, args ...string) []*unstructured.Unstructured {
	t.Helper()
	all := append([]string{"template", "tutti", chartFolder(t), "--namespace", release.Namespace, "--set", placeholder}, args...)
	text, err := env.Cluster.Helm(t.Context(), all...)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, text)
}

// decode reads objects that follow each other as YAML.
func decode(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
}

func convert(t *testing.T, from *unstructured.Unstructured, to any) {
	t.Helper()
	text, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		t.Fatalf("%s %s: %v", from.GetKind(), from.GetName(), err)
	}
}

func crdText(t *testing.T, lab *harness.Env) string {
	t.Helper()
	text, err := lab.Cluster.Kubectl(t.Context(), "get", "crd", "podgroups.scheduling.tutti.dev", "-o", "yaml")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func podTemplate(t *testing.T, lab *harness.Env) corev1.PodTemplateSpec {
	t.Helper()
	var deployment appsv1.Deployment
	key := client.ObjectKey{Namespace: release.Namespace, Name: release.Deployment}
	if err := lab.Client.Get(t.Context(), key, &deployment); err != nil {
		t.Fatal(err)
	}
	return deployment.Spec.Template
}
