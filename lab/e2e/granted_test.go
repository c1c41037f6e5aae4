package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// auditPolicy writes down who asked for what, for the accounts of the chart.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["system:serviceaccount:tutti-system:tutti-scheduler", "system:serviceaccount:tutti-agents:tutti-agent"]
- level: None
`

// startAudited starts a cluster with everything whose server keeps such a log.
func startAudited(t *testing.T, log string, controllerArgs ...string) *cluster.Cluster {
	t.Helper()
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(t.Context(), cluster.Options{
		Kubernetes:        env.Cluster.Version(),
		ControllerManager: true, Scheduler: true, Kwok: true,
		Dir: t.TempDir(), Out: t.Output(),
		APIServerArgs:         []string{"--audit-policy-file=" + policy, "--audit-log-path=" + log},
		ControllerManagerArgs: controllerArgs,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Stop() })
	return c
}

// auditEvent is what matters here of a line of the log.
type auditEvent struct {
	Verb           string
	RequestURI     string
	ObjectRef      *struct{ Resource, Subresource, APIGroup string }
	User           struct{ Username string }
	ResponseStatus struct{ Code int }
}

// permission is one thing that an account may do.
type permission struct{ verb, apiGroup, resource string }

// String writes "patch pods/status" or "list csinodes.storage.k8s.io".
func (p permission) String() string {
	if p.apiGroup == "" {
		return p.verb + " " + p.resource
	}
	resource, sub, _ := strings.Cut(p.resource, "/")
	if sub != "" {
		sub = "/" + sub
	}
	return fmt.Sprintf("%s %s.%s%s", p.verb, resource, p.apiGroup, sub)
}

// unseen are rights that are needed where this test does not come.
var unseen = map[permission]bool{
	{"patch", "", "configmaps"}:                             true, // within half a minute of the election, when the last good configuration is kept
	{"update", "resource.k8s.io", "resourceclaims/binding"}: true, // the server asks this, not us
	{"write", "scheduling.tutti.dev", "decisions"}:          true, // policies ask this
	{"get", "", "pods"}:                                     true, // when the answer to a bind was lost
	{"delete", "", "pods"}:                                  true, // when a start is undone
	{"patch", "scheduling.volcano.sh", "podgroups"}:         true, // where the kind is installed
	{"patch", "scheduling.k8s.io", "podgroups/status"}:      true, // where the kind is served
}

// isOfSource reports whether the right is to read the objects of a source of groups, none of which is installed here.
func isOfSource(p permission) bool {
	for _, source := range sources.All() {
		if watch := source.Watch(); watch != nil && p.apiGroup == watch.Resource.Group && p.resource == watch.Resource.Resource {
			return p.verb == "list" || p.verb == "watch"
		}
	}
	return false
}

// assertGranted wants the roles of an account to grant exactly what it asked for: nothing refused, nothing unused.
func assertGranted(t *testing.T, lab *harness.Env, log, namespace, account string) {
	used := requested(t, log, namespace, account)
	granted := map[permission]bool{}
	for _, rule := range rulesOf(t, lab, namespace, account) {
		for _, apiGroup := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					granted[permission{verb, apiGroup, resource}] = true
				}
			}
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(granted), byText) {
		// Where a server cannot stream what is there at the start, clients list it before they watch.
		if p.verb == "list" && used[permission{"watch", p.apiGroup, p.resource}] {
			continue
		}
		if !used[p] && !unseen[p] && !isOfSource(p) {
			t.Errorf("the roles of %s grant what is not used: %s", account, p)
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(used), byText) {
		if !granted[p] {
			t.Errorf("%s asks for what its roles do not grant: %s", account, p)
		}
	}
	if len(used) < 5 {
		t.Errorf("the server wrote down only %v", used)
	}
}

// rulesOf are the rules of all roles that are bound to an account of the release, in the cluster or in a namespace.
func rulesOf(t *testing.T, lab *harness.Env, namespace, account string) []rbacv1.PolicyRule {
	t.Helper()
	var (
		everywhere rbacv1.ClusterRoleBindingList
		here       rbacv1.RoleBindingList
		rules      []rbacv1.PolicyRule
	)
	if err := errors.Join(lab.Client.List(t.Context(), &everywhere), lab.Client.List(t.Context(), &here)); err != nil {
		t.Fatal(err)
	}
	bound := func(subjects []rbacv1.Subject) bool {
		return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
			return s.Kind == rbacv1.ServiceAccountKind && s.Namespace == namespace && s.Name == account
		})
	}
	for _, binding := range everywhere.Items {
		if !bound(binding.Subjects) {
			continue
		}
		var role rbacv1.ClusterRole
		if err := lab.Client.Get(t.Context(), client.ObjectKey{Name: binding.RoleRef.Name}, &role); err != nil {
			t.Fatal(err)
		}
		rules = append(rules, role.Rules...)
	}
	for _, binding := range here.Items {
		if !bound(binding.Subjects) {
			continue
		}
		var role rbacv1.Role
		if err := lab.Client.Get(t.Context(), client.ObjectKey{Namespace: binding.Namespace, Name: binding.RoleRef.Name}, &role); err != nil {
			t.Fatal(err)
		}
		rules = append(rules, role.Rules...)
	}
	return rules
}

func byText(a, b permission) int { return strings.Compare(a.String(), b.String()) }

// requested is everything that the account asked for; an answer 403 is an error of the test.
func requested(t *testing.T, log, namespace, account string) map[permission]bool {
	t.Helper()
	file, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	used := map[permission]bool{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event auditEvent
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatalf("audit log: %v in %s", err, lines.Text())
		}
		own := event.User.Username == "system:serviceaccount:"+namespace+":"+account
		if event.ObjectRef == nil || !own { // nil for discovery
			continue
		}
		if event.ResponseStatus.Code == 403 {
			t.Errorf("forbidden: %s %s", event.Verb, event.RequestURI)
		}
		resource := event.ObjectRef.Resource
		if event.ObjectRef.Subresource != "" {
			resource += "/" + event.ObjectRef.Subresource
		}
		used[permission{event.Verb, event.ObjectRef.APIGroup, resource}] = true
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("audit log: %v", err)
	}
	return used
}

// assertFlows wants the server to have led the scheduler's requests through the chart's flow schemas.
func assertFlows(t *testing.T, c *cluster.Cluster) {
	text, err := c.Kubectl(t.Context(), "get", "--raw", "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for flow, level := range map[string]string{
		"tutti-scheduler":       "tutti-scheduler",
		"tutti-scheduler-binds": "tutti-scheduler",
		"tutti-scheduler-lease": "leader-election",
	} {
		line := regexp.MustCompile(`(?m)^apiserver_flowcontrol_dispatched_requests_total\{flow_schema="` + flow +
			`",priority_level="` + level + `"\} [1-9]`)
		if !line.MatchString(text) {
			t.Errorf("no request came through the flow schema %s and the priority level %s", flow, level)
		}
	}
}
