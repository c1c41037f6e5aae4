package e2e

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/jsonpath"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
)

// TestChartWritesWhatItsValuesSay looks at what the chart makes of values that a server accepts whatever is made of them.
func TestChartWritesWhatItsValuesSay(t *testing.T) {
	const (
		monitor  = "metrics.serviceMonitor.enabled=true,metrics.readers[0].kind=User,metrics.readers[0].name=p"
		agent    = "isolcpu.enabled=true"
		selector = `{.spec.template.spec.nodeSelector['kubernetes\.io/os']}`
		endpoint = "{.spec.endpoints[0]"
		rights   = `{.rules[?(@.apiGroups[0]=="scheduling.x-k8s.io")].verbs}`

		nativeRights = `{.rules[?(@.apiGroups[0]=="scheduling.k8s.io")].verbs}`
		jobRights    = `{.rules[?(@.apiGroups[0]=="batch")].verbs}`
		patches      = `{.rules[?(@.apiGroups[0]=="scheduling.volcano.sh")].verbs}`
	)
	const keep = `{.metadata.annotations['helm\.sh/resource-policy']}`
	for _, c := range []struct{ set, object, path, want string }{
		{monitor, "ServiceMonitor tutti-scheduler", endpoint + ".tlsConfig}", `{"insecureSkipVerify":true}`},
		{monitor, "ServiceMonitor tutti-scheduler", endpoint + ".bearerTokenFile}", "/var/run/secrets/kubernetes.io/serviceaccount/token"},
		{
			monitor + ",metrics.certificate=given", "ServiceMonitor tutti-scheduler", endpoint + ".tlsConfig}",
			`{"ca":{"secret":{"key":"ca.crt","name":"given"}},"serverName":"tutti-scheduler-metrics.tutti-system.svc"}`,
		},
		{
			monitor + ",metrics.serviceMonitor.authorization.credentials.name=reader", "ServiceMonitor tutti-scheduler",
			endpoint + "['authorization','bearerTokenFile']}", `{"credentials":{"name":"reader"}}`,
		},
		{monitor + ",metrics.serviceMonitor.tlsConfig.serverName=x", "ServiceMonitor tutti-scheduler", endpoint + ".tlsConfig}", `{"serverName":"x"}`},

		{"extraVolumes[0].name=ca", "Deployment tutti-scheduler", "{.spec.template.spec.volumes}", `[{"name":"ca"}]`},
		{
			"extraVolumeMounts[0].name=ca,extraVolumeMounts[0].mountPath=/ca", "Deployment tutti-scheduler",
			"{.spec.template.spec.containers[0].volumeMounts}", `[{"mountPath":"/ca","name":"ca"}]`,
		},
		{
			"metrics.certificate=given,extraVolumes[0].name=ca", "Deployment tutti-scheduler", "{.spec.template.spec.volumes[*].name}",
			"certificate ca",
		},
		{"extraEnv[0].name=GOGC", "Deployment tutti-scheduler", "{.spec.template.spec.containers[0].env}", `[{"name":"GOGC"}]`},

		{"replicas=2", "Deployment tutti-scheduler", selector, "linux"},
		{"sources.coscheduling=true", "ClusterRole tutti-scheduler", rights, `["list","watch"]`},
		{"sources.coscheduling=false", "ClusterRole tutti-scheduler", rights, ""},
		{"sources.kubernetes=true", "ClusterRole tutti-scheduler", nativeRights, `["list","watch"] ["patch"] ["list","watch"]`},
		{"sources.kubernetes=false", "ClusterRole tutti-scheduler", nativeRights, `["list","watch"]`},
		{"sources.coscheduling=false", "ClusterRole tutti-scheduler", patches, `["list","watch","patch"]`},
		{"sources.volcano=true", "ClusterRole tutti-scheduler", patches, `["list","watch","patch"]`},
		{"sources.volcano=false", "ClusterRole tutti-scheduler", patches, ""},
		{"sources.job=true", "ClusterRole tutti-scheduler", jobRights, `["list","watch"]`},
		{"sources.job=false", "ClusterRole tutti-scheduler", jobRights, ""},
		{"sources.volcano=false", "ClusterRole tutti-scheduler", rights, `["list","watch"]`},
		{"sources.crds.volcano=true", "ClusterRole tutti-scheduler", patches, `["list","watch","patch"]`},
		{"sources.crds.volcano=true", "CustomResourceDefinition podgroups.scheduling.volcano.sh", keep, "keep"},
		{"sources.crds.volcano=true", "CustomResourceDefinition queues.scheduling.volcano.sh", keep, "keep"},
		{"sources.crds.coscheduling=true", "CustomResourceDefinition podgroups.scheduling.x-k8s.io", keep, "keep"},
		{
			"sources.crds.coscheduling=true,crds.annotations.note=x", "CustomResourceDefinition podgroups.scheduling.x-k8s.io",
			"{.metadata.annotations['note','api-approved\\.kubernetes\\.io']}", "x https://github.com/kubernetes-sigs/scheduler-plugins/pull/50",
		},
		{agent, "DaemonSet tutti-agent", selector, "linux"},
		{agent + ",isolcpu.agent.podSecurityContext.seLinuxOptions.type=spc_t", "DaemonSet tutti-agent",
			"{.spec.template.spec.securityContext.seLinuxOptions}", `{"type":"spc_t"}`},
		{agent + ",isolcpu.agent.securityContext.privileged=true", "DaemonSet tutti-agent",
			"{.spec.template.spec.containers[0].securityContext.privileged}", "true"},
	} {
		if got := find(t, render(t, "--set", c.set), c.object, c.path); got != c.want {
			t.Errorf("--set %s: %s%s is %s\nwant %s", c.set, c.object, c.path, got, c.want)
		}
	}
}

// TestChartInstallsForeignCRDsOnDemand: with each switch those of its source, and none without.
func TestChartInstallsForeignCRDsOnDemand(t *testing.T) {
	for set, want := range map[string]string{
		"sources.crds.coscheduling=false": "",
		"sources.crds.coscheduling=true":  "podgroups.scheduling.x-k8s.io",
		"sources.crds.volcano=true":       "podgroups.scheduling.volcano.sh queues.scheduling.volcano.sh",
		"sources.crds.volcano=true,sources.crds.coscheduling=true,crds.install=false": "podgroups.scheduling.x-k8s.io podgroups.scheduling.volcano.sh " +
			"queues.scheduling.volcano.sh",
	} {
		var names []string
		for _, object := range render(t, "--set", set) {
			if name := object.GetName(); object.GetKind() == "CustomResourceDefinition" && !strings.HasSuffix(name, ".tutti.dev") {
				names = append(names, name)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("--set %s: %s, want %s", set, got, want)
		}
	}
}

// TestChartTurnsASourceOff in the configuration that it writes, and on that is off by default.
func TestChartTurnsASourceOff(t *testing.T) {
	for _, name := range config.SourceNames() {
		for value, want := range map[string]bool{"true": false, "false": true} {
			text := find(t, render(t, "--set", "sources."+name+"="+value), "ConfigMap tutti-scheduler", `{.data.scheduler\.yaml}`)
			said, other := "\nsources: {"+name+": false}", want
			if slices.Contains(config.SourcesOffByDefault(), name) { // it says what is not the default
				said, other = "\nsources: {"+name+": true}", !want
			}
			if got := strings.Contains(text, said); got != other || got != strings.Contains(text, "sources:") {
				t.Errorf("sources.%s=%s: said %t in\n%s", name, value, got, text)
			}
		}
	}
}

// TestChartPutsTheAgentIntoItsNamespace: what belongs to the agents is there, and the scheduler looks at their Leases there.
func TestChartPutsTheAgentIntoItsNamespace(t *testing.T) {
	objects := render(t, "--set", "isolcpu.enabled=true,isolcpu.agent.namespace=agents,isolcpu.agent.podMonitor.enabled=true",
		"--set", "metrics.readers[0].kind=User,metrics.readers[0].name=p")
	kinds := map[string]bool{}
	for _, object := range objects {
		kind := object.GetKind()
		if object.GetName() != "tutti-agent" || object.GetNamespace() == "" {
			continue
		}
		kinds[kind] = true
		if got := object.GetNamespace(); got != "agents" {
			t.Errorf("%s tutti-agent is in namespace %q", kind, got)
		}
	}
	for _, kind := range []string{"DaemonSet", "ServiceAccount", "Role", "RoleBinding", "NetworkPolicy", "PodMonitor"} {
		if !kinds[kind] {
			t.Errorf("the chart makes no %s tutti-agent", kind)
		}
	}
	args := find(t, objects, "Deployment tutti-scheduler", "{.spec.template.spec.containers[0].args}")
	if want := `"--agent-lease-namespace=agents"`; !strings.Contains(args, want) {
		t.Errorf("the scheduler has no argument %s: %s", want, args)
	}
	for _, kind := range []string{"ClusterRoleBinding", "RoleBinding"} {
		if got := find(t, objects, kind+" tutti-agent", "{.subjects[*].namespace}"); got != "agents" {
			t.Errorf("%s tutti-agent is for an account of namespace %q", kind, got)
		}
	}
}

// find returns what an object, "<kind> <name>", has at a path; what is not there is empty.
func find(t *testing.T, objects []*unstructured.Unstructured, object, path string) string {
	t.Helper()
	query := jsonpath.New(object).AllowMissingKeys(true)
	if err := query.Parse(path); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.GetKind()+" "+o.GetName() == object {
			var found bytes.Buffer
			if err := query.Execute(&found, o.Object); err != nil {
				t.Fatal(err)
			}
			return found.String()
		}
	}
	t.Fatalf("the chart makes no %s", object)
	return ""
}
