package e2e

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

const (
	// settled is longer than the scheduler puts off a message that has merely changed its wording.
	settled = 15 * time.Second
	// silence is how long nothing may be written.
	silence = 60 * time.Second
)

// policy makes the API server note every write but its own and those of Leases.
const policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, users: ["system:apiserver"]}
- {level: None, resources: [{group: coordination.k8s.io, resources: [leases]}]}
- {level: Metadata, verbs: [create, update, patch, delete, deletecollection]}
- {level: None}
`

// writeLog is the API server's audit log with what policy lets through, a line for each write.
type writeLog struct{ file string }

// lines are the writes so far.
func (l writeLog) lines(t *testing.T) [][]byte {
	t.Helper()
	text, err := os.ReadFile(l.file)
	if err != nil {
		t.Fatalf("audit log: %v", err)
	}
	return bytes.Split(bytes.TrimSpace(text), []byte("\n"))
}

// quietCluster is a cluster of its own, where only the test and the scheduler write: etcd and kube-apiserver alone.
func quietCluster(t *testing.T) (*harness.Env, writeLog) {
	t.Helper()
	return bareCluster(t, policy, cluster.Options{})
}

// bareCluster is a cluster of its own with what the options say beside etcd and kube-apiserver, and the log that a policy
// asks for.
func bareCluster(t *testing.T, policy string, options cluster.Options) (*harness.Env, writeLog) {
	t.Helper()
	dir := t.TempDir()
	rules, writes := filepath.Join(dir, "policy.yaml"), writeLog{filepath.Join(dir, "writes.log")}
	if err := os.WriteFile(rules, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	options.Kubernetes = cmp.Or(options.Kubernetes, os.Getenv("K8S"))
	options.APIServerArgs = append(options.APIServerArgs, "--audit-policy-file="+rules, "--audit-log-path="+writes.file)
	c, err := cluster.Start(t.Context(), options)
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
	quiet, err := harness.NewEnv(c)
	if err != nil {
		t.Fatal(err)
	}
	return quiet, writes
}

// createGang creates a gang whose members each need a CPU.
func createGang(t *testing.T, env *harness.Env, name string, size int32) {
	t.Helper()
	group := &v1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec:       v1alpha1.PodGroupSpec{MinMember: size},
	}
	env.Create(t, group)
	for i := range size {
		env.Create(t, env.Pod(metav1.NamespaceDefault, fmt.Sprintf("%s-%d", name, i), harness.InGroup(name),
			harness.Requests(map[string]string{"cpu": "1"})))
	}
}

// stands is nil when the gang's condition has that status and reason (any, when empty) and so many members are bound,
// and no other has a nomination.
func stands(t *testing.T, env *harness.Env, name string, status metav1.ConditionStatus, reason string, bound int) error {
	t.Helper()
	var group v1alpha1.PodGroup
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name}, &group); err != nil {
		return err
	}
	condition := meta.FindStatusCondition(group.Status.Conditions, v1alpha1.ConditionScheduled)
	if condition == nil || condition.Status != status || reason != "" && condition.Reason != reason {
		return fmt.Errorf("gang %s says %+v, want %s %s", name, condition, status, reason)
	}
	pods, err := env.Pods(t.Context(), metav1.NamespaceDefault, client.MatchingLabels{v1alpha1.LabelPodGroup: name})
	if err != nil {
		return err
	}
	return held(name, pods, bound)
}

// held is nil when exactly so many pods have a node, and none that has not has a nomination.
func held(name string, pods []corev1.Pod, bound int) error {
	count := 0
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			count++
		} else if pod.Status.NominatedNodeName != "" {
			return fmt.Errorf("pod %s waits for %s", pod.Name, pod.Status.NominatedNodeName)
		}
	}
	if count != bound {
		return fmt.Errorf("%d members of gang %s are bound, want %d", count, name, bound)
	}
	return nil
}

// TestAGangThatDoesNotFitHoldsNothingAndNothingIsWrittenAtRest: of a gang of three with capacity for two no member is bound,
// and it holds nothing. The gang behind it gets the capacity. Once that is reported, the scheduler writes nothing at all.
func TestAGangThatDoesNotFitHoldsNothingAndNothingIsWrittenAtRest(t *testing.T) {
	t.Parallel()
	quiet, writes := quietCluster(t)
	quiet.Nodes(t, cluster.Nodes("quiet", 2, map[string]string{"cpu": "1"})...)
	createGang(t, quiet, "three", 3)
	quiet.Scheduler(t, harness.SchedulerOptions{})

	waits := func() error { return stands(t, quiet, "three", metav1.ConditionFalse, "InsufficientResources", 0) }
	quiet.Eventually(t, waits)
	createGang(t, quiet, "two", 2)
	quiet.Eventually(t, func() error { return stands(t, quiet, "two", metav1.ConditionTrue, "", 2) })
	if err := waits(); err != nil {
		t.Error(err)
	}

	quiet.Eventually(t, func() error { // it is found beside the cycles, and is the last write
		group := &v1alpha1.PodGroup{}
		if err := quiet.Client.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "three"}, group); err != nil {
			return err
		}
		if advice := group.Status.Advice; advice == nil || !strings.Contains(advice.Message, "add 3 nodes") {
			return fmt.Errorf("the advice is %+v, want 3 nodes more", advice)
		}
		return nil
	})

	var lines [][]byte
	var binds int
	quiet.Eventually(t, func() error { // a write may be seen before it is in the log
		lines = writes.lines(t)
		if binds = bytes.Count(bytes.Join(lines, nil), []byte(`"subresource":"binding"`)); binds < 2 {
			return fmt.Errorf("the audit log holds %d binds, want 2: it would not show what else is written", binds)
		}
		return nil
	})
	if binds != 2 {
		t.Errorf("the audit log holds %d binds, want 2", binds)
	}
	last, since := len(lines), time.Now()
	quiet.Eventually(t, func() error {
		if now := len(writes.lines(t)); now != last {
			last, since = now, time.Now()
		}
		if calm := time.Since(since); calm < settled {
			return fmt.Errorf("the last write was %s ago", calm)
		}
		return nil
	})
	quiet.Consistently(t, silence, func() error {
		if lines := writes.lines(t); len(lines) > last {
			return fmt.Errorf("%d writes, the first: %s", len(lines)-last, lines[last])
		}
		return nil
	})
	quiet.AfterCycle(t, quiet.Pod(metav1.NamespaceDefault, "later")) // it would have written
	if err := waits(); err != nil {
		t.Error(err)
	}
}
