package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/cluster"
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

// side is the scheduler of one release. Its account and its schedulerName have its name; its namespace and Lease are its own.
type side struct {
	name string
	lab  *harness.Env
	t    *testing.T
}

// TestTwoReleasesSideBySide: two schedulers lead at a time, each for its own schedulerName, and each has gangs that wait, that
// run and that have lost a member, all of them in one namespace and on the same nodes. Neither ever writes a pod or a PodGroup
// of the other; and at rest neither writes anything but its Lease.
func TestTwoReleasesSideBySide(t *testing.T) {
	t.Parallel()
	lab, writes := bareCluster(t, accountLog, cluster.Options{Kwok: true})
	lab.Nodes(t, cluster.Nodes("side", 4, map[string]string{"cpu": "4"})...)
	sides := []*side{{"one", lab, t}, {"two", lab, t}}
	for _, s := range sides {
		s.start()
	}
	for _, s := range sides {
		s.gang("runs", 2, "1")
		s.gang("lost", 2, "1")
		s.gang("waits", 2, "100")
	}
	for _, s := range sides {
		lab.Eventually(t, patience, func() error {
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
	lab.Eventually(t, patience, stand)
	last, since := len(writes.lines(t)), time.Now()
	lab.Eventually(t, 4*settled, func() error {
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
	if err := stand(); err != nil {
		t.Error(err)
	}
	assertOwnWrites(t, writes, sides)
}

// assertOwnWrites wants each to have written its own pods and PodGroups and no others.
func assertOwnWrites(t *testing.T, writes writeLog, sides []*side) {
	t.Helper()
	count := map[string]int{}
	for _, line := range writes.lines(t) {
		var e written
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if e.ObjectRef.Resource != "pods" && e.ObjectRef.Resource != "podgroups" {
			continue
		}
		count[e.account()+" "+e.ObjectRef.Resource]++
		if !strings.HasPrefix(e.ObjectRef.Name, e.account()+"-") {
			t.Errorf("%s has written what is not its own: %s", e.account(), line)
		}
	}
	for _, s := range sides {
		for _, kind := range []string{"pods", "podgroups"} {
			if count[s.name+" "+kind] == 0 {
				t.Errorf("the log has no write of %s by %s: it would not show others", kind, s.name)
			}
		}
	}
	t.Logf("writes by account and kind: %v", count)
}

// start runs the scheduler, with the right to everything, and returns when it leads.
func (s *side) start() {
	s.t.Helper()
	namespace := "tutti-" + s.name
	s.lab.Create(s.t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.name}},
		// As the chart makes it, for the certificate of the endpoint.
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tutti-scheduler-certificate"}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: namespace},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: s.name}},
		})
	kubeconfig, err := s.lab.Cluster.KubeconfigFor(s.t.Context(), namespace, s.name)
	if err != nil {
		s.t.Fatal(err)
	}
	s.lab.Scheduler(s.t, harness.SchedulerOptions{
		Name: "side-" + s.name, Kubeconfig: kubeconfig,
		Args: []string{"--scheduler-name=" + s.name, "--leader-elect=true", "--leader-elect-namespace=" + namespace},
	})
	s.lab.Eventually(s.t, patience, s.leads)
}

// leads is nil when a scheduler holds the Lease.
func (s *side) leads() error {
	_, err := heldLease(s.t, s.lab, "tutti-"+s.name)
	return err
}

// gang creates a gang, each of its members with so many CPUs.
func (s *side) gang(name string, size int, cpus string) {
	s.t.Helper()
	name = s.name + "-" + name
	g := group(metav1.NamespaceDefault, name, int32(size))
	g.Spec.SchedulerName = s.name
	s.lab.Create(s.t, g)
	s.lab.Create(s.t, members(metav1.NamespaceDefault, name, "", size, harness.ScheduledBy(s.name),
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
