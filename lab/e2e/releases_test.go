package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/demo/release"
	"github.com/tutti-sched/tutti/lab/docs"
	"github.com/tutti-sched/tutti/lab/harness"
)

// accountLog makes the server note what accounts of pods write, but for Leases.
const accountLog = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, verbs: [get, list, watch]}
- {level: None, resources: [{group: coordination.k8s.io, resources: [leases]}]}
- {level: Metadata, userGroups: ["system:serviceaccounts"], resources: [{group: ""}, {group: events.k8s.io}, {group: scheduling.tutti.dev}]}
- {level: None}
`

// side is one of two releases. What it has in the namespace default begins with its name; its namespace, its Lease and its
// schedulerName are its own.
type side struct {
	name, namespace, scheduler string
	lab                        *harness.Env
	t                          *testing.T
}

// TestTwoReleasesSideBySide: a release is installed beside one whose account lacks a right, as docs/upgrading.md says. Both
// lead at a time, each with what its chart allows its account, under the policies of the newer one. Each has gangs that wait,
// that run and that have lost a member, all of them in one namespace and on the same nodes. Neither is refused anything, nor ever
// writes a pod or a PodGroup of the other; and at rest neither writes anything but its Lease.
func TestTwoReleasesSideBySide(t *testing.T) {
	t.Parallel()
	lab, writes := bareCluster(t, accountLog, cluster.Options{Kwok: true})
	lab.Nodes(t, cluster.Nodes("side", 4, map[string]string{"cpu": "4"})...)
	older := &side{"older", release.Namespace, "tutti", lab, t}
	newer := &side{"newer", "tutti-next", "tutti-next", lab, t}
	sides := []*side{older, newer}
	older.installOlder()
	older.start()
	older.gang("before", 1, "1")
	lab.Eventually(t, func() error { return older.phase("before", v1alpha1.PodGroupRunning, 1) })
	older.helm(besideCommand(t)...)
	older.guarded("before")
	newer.start()
	for _, s := range sides {
		s.gang("runs", 2, "1")
		s.gang("lost", 2, "1")
		s.gang("waits", 2, "100")
	}
	for _, s := range sides {
		lab.Eventually(t, func() error {
			return errors.Join(s.phase("runs", v1alpha1.PodGroupRunning, 2), s.phase("lost", v1alpha1.PodGroupRunning, 2))
		})
		if err := lab.Client.Delete(t.Context(), lab.Pod(metav1.NamespaceDefault, s.name+"-lost-0"), client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	stand := func() error {
		var all []error
		for _, s := range sides {
			all = append(all, s.phase("runs", v1alpha1.PodGroupRunning, 2), s.phase("lost", v1alpha1.PodGroupDegraded, 1),
				s.phase("waits", v1alpha1.PodGroupPending, 0), s.leads())
		}
		return errors.Join(all...)
	}
	lab.Eventually(t, stand)
	last, since := len(writes.lines(t)), time.Now()
	lab.Eventually(t, func() error {
		if now := len(writes.lines(t)); now != last {
			last, since = now, time.Now()
		}
		if calm := time.Since(since); calm < settled {
			return fmt.Errorf("the last write was %s ago", calm)
		}
		return nil
	})
	lab.Consistently(t, silence, func() error {
		if lines := writes.lines(t); len(lines) > last {
			return fmt.Errorf("%d writes, the first: %s", len(lines)-last, lines[last])
		}
		return nil
	})
	for _, s := range sides { // they would have written
		lab.AfterCycle(t, lab.Pod(metav1.NamespaceDefault, s.name+"-later", harness.ScheduledBy(s.scheduler)))
	}
	if err := stand(); err != nil {
		t.Error(err)
	}
	assertOwnWrites(t, writes, sides)
}

// assertOwnWrites wants each to have written its own pods and PodGroups and no others, and to have been refused nothing.
func assertOwnWrites(t *testing.T, writes writeLog, sides []*side) {
	t.Helper()
	count, owns := map[string]int{}, map[string]string{}
	for _, s := range sides {
		owns[s.namespace] = s.name + "-"
	}
	for _, line := range writes.lines(t) {
		var e written
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if e.ResponseStatus.Code == http.StatusForbidden {
			t.Errorf("refused: %s", line)
		}
		if e.ObjectRef.Resource != "pods" && e.ObjectRef.Resource != "podgroups" {
			continue
		}
		account := strings.TrimSuffix(strings.TrimPrefix(e.User.Username, "system:serviceaccount:"), ":tutti-scheduler")
		count[account+" "+e.ObjectRef.Resource]++
		if own, known := owns[account]; !known || !strings.HasPrefix(e.ObjectRef.Name, own) {
			t.Errorf("the scheduler of %s has written what is not its own: %s", account, line)
		}
	}
	for _, s := range sides {
		for _, kind := range []string{"pods", "podgroups"} {
			if count[s.namespace+" "+kind] == 0 {
				t.Errorf("the log has no write of %s by the %s: it would not show others", kind, s.name)
			}
		}
	}
	t.Logf("writes by account and kind: %v", count)
}

// besideCommand is the command of docs/upgrading.md that installs a second release, without the word helm.
func besideCommand(t *testing.T) []string {
	t.Helper()
	found := slices.DeleteFunc(blocks(t, "docs/upgrading.md"), func(b docs.Block) bool { return b.NotRun == "" })
	if len(found) != 1 || len(found[0].Commands) != 1 {
		t.Fatalf("docs/upgrading.md has %d blocks that are not run, want the one with the command for a second release", len(found))
	}
	text := strings.NewReplacer("\\\n", "", "'", "", "charts/tutti", chartFolder(t)).Replace(found[0].Commands[0].Text)
	return strings.Fields(text)[1:]
}

// helm installs a release, without the Job that checks its configuration: no controller of this cluster makes its pod.
func (s *side) helm(args ...string) {
	s.t.Helper()
	if _, err := s.lab.Cluster.Helm(s.t.Context(), append(args, "--set", "configCheck.enabled=false")...); err != nil {
		s.t.Fatal(err)
	}
}

// installOlder installs a release whose account has no right that a policy asks for, and which brings no policies.
func (s *side) installOlder() {
	s.t.Helper()
	s.helm("install", release.Name, chartFolder(s.t), "--namespace", s.namespace, "--create-namespace",
		"--set", "crds.install=false", "--set", placeholder)
	for _, args := range [][]string{
		{"clusterrolebinding", "tutti-scheduler-decisions"},
		{"validatingadmissionpolicybindings,validatingadmissionpolicies", "--selector", "app.kubernetes.io/instance=" + release.Name},
	} {
		if _, err := s.lab.Cluster.Kubectl(s.t.Context(), append([]string{"delete"}, args...)...); err != nil {
			s.t.Fatal(err)
		}
	}
}

// guarded returns when the policies let no account write the status of a gang that has no more than a role for it.
func (s *side) guarded(gang string) {
	s.t.Helper()
	allowEverything(s.t, s.lab)
	user := as(s.t, s.lab, "user", nil)
	path := fmt.Sprintf("/apis/scheduling.tutti.dev/v1alpha1/namespaces/default/podgroups/%s-%s/status", s.name, gang)
	s.lab.Eventually(s.t, func() error {
		err := user.ask(attempt{verb: "PATCH", path: path, body: `{"status":{}}`})
		if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy") { // not for want of the role
			return nil
		}
		return fmt.Errorf("a status of an account without the right: %v", err)
	})
}

// start runs the scheduler as the chart has it, and returns when it leads.
func (s *side) start() {
	s.t.Helper()
	program, err := binaries.Build(s.t.Context(), s.t.Output(), binaries.TuttiScheduler)
	if err != nil {
		s.t.Fatal(err)
	}
	installed, err := release.ReadIn(s.t.Context(), s.lab.Cluster, s.namespace)
	if err != nil {
		s.t.Fatal(err)
	}
	process, err := installed.Start(s.t.Context(), s.lab.Cluster, s.name, program)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Log(process.Failure())
		}
	})
	s.lab.Eventually(s.t, s.leads)
}

// leads is nil when a scheduler holds the Lease.
func (s *side) leads() error {
	_, err := heldLease(s.t, s.lab, s.namespace)
	return err
}

// gang creates a gang, each of its members with so many CPUs.
func (s *side) gang(name string, size int, cpus string) {
	s.t.Helper()
	name = s.name + "-" + name
	g := group(metav1.NamespaceDefault, name, int32(size))
	g.Spec.SchedulerName = s.scheduler
	s.lab.Create(s.t, g)
	s.lab.Create(s.t, members(metav1.NamespaceDefault, name, "", size, harness.ScheduledBy(s.scheduler),
		harness.Requests(map[string]string{"cpu": cpus}))...)
}

// phase is nil when the gang is in the phase, and so many of its members have a node.
func (s *side) phase(name string, want v1alpha1.PodGroupPhase, bound int) error {
	s.t.Helper()
	name = s.name + "-" + name
	var g v1alpha1.PodGroup
	if err := s.lab.Client.Get(s.t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name}, &g); err != nil {
		return err
	}
	if g.Status.Phase != want {
		return fmt.Errorf("gang %s is %s, want %s", name, g.Status.Phase, want)
	}
	pods, err := s.lab.Pods(s.t.Context(), metav1.NamespaceDefault, client.MatchingLabels{v1alpha1.LabelPodGroup: name})
	if err != nil {
		return err
	}
	return held(name, pods, bound)
}
