package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
	isolcpu "github.com/tutti-sched/tutti/pkg/isolated"
)

// bothKnow is a configuration that the version before reads, too.
const bothKnow = `apiVersion: config.tutti.dev/v1alpha1
kind: SchedulerConfiguration
actions: "allocate, backfill, preempt"
configurations: [{name: backfill, arguments: {reserveAfter: 2s}}]
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: nodeorder}, {name: isolcpu}]
`

// quietPool makes the node with isolated CPUs.
func quietPool(t *testing.T) {
	t.Helper()
	quiet := quietNodes(t, "upgrade-quiet", 1)[0]
	quiet.Labels["pool"], quiet.Spec.Taints = "quiet", []corev1.Taint{{Key: "quiet", Effect: corev1.TaintEffectNoSchedule}}
	env.Nodes(t, quiet)
}

// onQuiet lets a pod go to the node with isolated CPUs alone.
func onQuiet(p *corev1.Pod) {
	p.Spec.NodeSelector = map[string]string{"pool": "quiet"}
	p.Spec.Tolerations = []corev1.Toleration{{Key: "quiet", Operator: corev1.TolerationOpExists}}
}

// withoutAgents is the flag with which nodes without an agent of isolated CPUs are used.
const withoutAgents = "--isolated-cpus-without-agents"

// knows reports whether a program has a flag.
func knows(t *testing.T, program, flag string) bool {
	t.Helper()
	help, err := exec.CommandContext(t.Context(), program, "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%s --help: %v", program, err)
	}
	return strings.Contains(string(help), flag)
}

// knowsQueues reports whether a scheduler reads Queues: the plugin that orders them is in its built-in configuration.
func knowsQueues(t *testing.T, program string) bool {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), program, "--explain-config").CombinedOutput()
	if err != nil {
		t.Fatalf("%s --explain-config: %v", program, err)
	}
	return strings.Contains(string(text), "proportion")
}

// versions returns what starts a version of the scheduler, by the path of its program; empty is this one. Both know the flags.
func versions(t *testing.T, flags ...string) func(path string) *harness.Scheduler {
	t.Helper()
	configuration := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(configuration, []byte(bothKnow), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(path string) *harness.Scheduler {
		args := append([]string{"--config=" + configuration}, flags...)
		if path == "" || knows(t, path, withoutAgents) {
			args = append(args, withoutAgents) // which versions that do not know it do without being asked
		}
		return env.Scheduler(t, harness.SchedulerOptions{Path: path, Args: args})
	}
}

// state is what an upgrade must leave as it is, in sorted lines: where each pod is, is nominated to, its isolated CPUs, and
// whether it terminates; and of each group its phase, reason, times and reservation. What the test itself adds in between is left
// out.
func (a *arena) state() (lines []string, err error) {
	pods, err := env.Pods(a.t.Context(), a.ns)
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		if pod.Labels[v1alpha1.LabelPodGroup] == "" && pod.Labels[sources.KueueGroup] == "" {
			continue
		}
		lines = append(lines, fmt.Sprintf("pod %s %s on %q, nominated to %q, CPUs %q, terminates %t, %s", pod.Name, pod.UID,
			pod.Spec.NodeName, pod.Status.NominatedNodeName, pod.Annotations[isolcpu.AssignedAnnotation], pod.DeletionTimestamp != nil,
			pod.Status.Phase))
	}
	var groups v1alpha1.PodGroupList
	if err := env.Client.List(a.t.Context(), &groups, client.InNamespace(a.ns)); err != nil {
		return nil, err
	}
	for _, group := range groups.Items {
		if strings.HasPrefix(group.Name, "reported-") {
			continue
		}
		line := fmt.Sprintf("group %s %s, waits since %s, degraded since %s", group.Name, group.Status.Phase, group.Status.WaitingSince,
			group.Status.DegradedSince)
		if c := meta.FindStatusCondition(group.Status.Conditions, v1alpha1.ConditionScheduled); c != nil {
			line += fmt.Sprintf(", Scheduled %s since %s", c.Status, c.LastTransitionTime)
			if c.Status == metav1.ConditionFalse { // that of a degraded group differs between versions
				line += ": " + c.Reason
			}
		}
		if r := group.Status.Reservation; r != nil {
			line += fmt.Sprintf(", reserved since %s on %d nodes", r.Since, len(r.Nodes))
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines, nil
}

// kept is what only this version writes into the status of each group, and reads after a restart.
func (a *arena) kept() (lines []string, err error) {
	var groups v1alpha1.PodGroupList
	if err := env.Client.List(a.t.Context(), &groups, client.InNamespace(a.ns)); err != nil {
		return nil, err
	}
	for _, group := range groups.Items {
		if s := group.Status; !strings.HasPrefix(group.Name, "reported-") {
			lines = append(lines, fmt.Sprintf("%s: scheduler %q, queued since %s, evicted at %s, started with %d %v, overrun since %s, gave up at %s",
				group.Name, s.SchedulerName, s.QueuedSince, s.EvictedAt, s.StartedMinMember, s.StartedRoles, s.OverrunSince, s.ReservationGivenUp))
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// reported waits until the scheduler has written all that it has to write about groups: two groups that are created one after the
// other have their status.
func (a *arena) reported(name string) {
	a.t.Helper()
	for i := range 2 {
		empty := group(a.ns, fmt.Sprintf("reported-%s-%d", name, i), 2)
		env.Create(a.t, empty)
		env.Eventually(a.t, func() error { return inGroupPhase(a.t, empty, v1alpha1.PodGroupPending) })
	}
}

// partOfKueue makes a member of a group of Kueue that is not complete. A version that does not know these groups binds it, and no
// container of it runs.
func (a *arena) partOfKueue() {
	a.t.Helper()
	kueue := func(p *corev1.Pod) { p.Labels[sources.KueueGroup], p.Annotations[sources.KueueTotal] = "kueue", "2" }
	later := harness.PodAnnotations(map[string]string{cluster.StartAfter: "1h"})
	env.Create(a.t, env.Pod(a.ns, "kueue-0", cpu("100m"), ofClass(a.high), onQuiet, later, kueue))
}

// limited makes a gang that waits for the limit of its queue, which another one uses.
func (a *arena) limited() {
	a.t.Helper()
	inQueue := harness.PodLabels(map[string]string{v1alpha1.LabelQueue: "upgrade"})
	a.gang("queued", a.high, 2, 2, cpu("500m"), onQuiet, inQueue)
	a.bound("queued", 2)
	limited := a.gang("limited", a.high, 1, 1, cpu("500m"), onQuiet, inQueue)
	env.Eventually(a.t, func() error { return waits(a.t, limited, "QueueLimit") })
}

// TestUpgradeAndRollback replaces the scheduler of an earlier version (PREVIOUS, its program) by this one, and this one by the
// earlier one, while there are gangs in every phase, and where the earlier one reads Queues, a
// gang that waits for the limit of its queue. No pod is deleted, evicted, moved or undone, and each wait goes on; then
// this version ends each of the waits.
func TestUpgradeAndRollback(t *testing.T) {
	previous := os.Getenv("PREVIOUS")
	if previous == "" {
		t.Skip("needs the program of an earlier version in PREVIOUS: make upgrade FROM=<commit>")
	}
	a := newArena(t, "upgrade", 8)
	quietPool(t)
	version := versions(t)
	running := version(previous)
	queues := knowsQueues(t, previous)
	if queues {
		createQueues(t, queueOf("upgrade", "1"))
	}

	a.gang("slow", a.low, 2, 2, hasGrace)
	a.bound("slow", 2)
	done := harness.PodAnnotations(map[string]string{cluster.RunFor: "1s"})
	succeeded := a.gang("succeeded", a.low, 1, 1, done, cpu("100m"))
	env.Eventually(t, func() error { return inGroupPhase(t, succeeded, v1alpha1.PodGroupSucceeded) })
	runs := a.gang("runs", a.high, 2, 2)
	env.Eventually(t, func() error { return inGroupPhase(t, runs, v1alpha1.PodGroupRunning) })
	implicit := harness.PodAnnotations(map[string]string{v1alpha1.AnnotationMinMember: "2"})
	env.Create(t, members(a.ns, "implicit", "", 2, implicit, ofClass(a.high), cpu("4"))...)
	a.bound("implicit", 2)
	degraded := a.gang("degraded", a.high, 2, 2)
	env.Eventually(t, func() error { return inGroupPhase(t, degraded, v1alpha1.PodGroupRunning) })
	if err := env.Client.Delete(t.Context(), env.Pod(a.ns, "degraded-1")); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, func() error { return inGroupPhase(t, degraded, v1alpha1.PodGroupDegraded) })
	isolated := a.gang("isolated", a.high, 2, 2, cpu("2"), onQuiet, harness.PodAnnotations(map[string]string{isolcpu.RequestAnnotation: "true"}))
	env.Eventually(t, func() error { return inGroupPhase(t, isolated, v1alpha1.PodGroupRunning) })
	starts := a.gang("starts", a.high, 2, 2, cpu("1"), onQuiet, harness.PodAnnotations(map[string]string{cluster.StartAfter: "1h"}))
	env.Eventually(t, func() error { return inGroupPhase(t, starts, v1alpha1.PodGroupStarting) })
	a.partOfKueue()
	few := a.gang("few", a.high, 3, 1)
	env.Eventually(t, func() error { return waits(t, few, "NotEnoughMembers") })
	// One node is idle, since the lost member was there; the others are in use.
	evicts := a.gang("evicts", a.high, 3, 3)
	env.Eventually(t, func() error { return waits(t, evicts, "WaitingForVictims") })
	env.Eventually(t, func() error { return a.left("slow", 0) })
	reserved := a.gang("reserved", a.low, 2, 2)
	env.Eventually(t, func() error { return a.reserved(reserved, 2) })
	if queues {
		a.limited()
	}

	t.Logf("a member of a group of Kueue that is not complete: %v", boundOf(t, a.ns, "kueue-", 1))
	w := a.witness()
	w.quiet()
	a.reported("before")
	before, err := a.state()
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range []string{"", previous, ""} {
		running.Kill()
		running = version(path)
		w.quiet()
		a.reported(fmt.Sprint(i))
		after, err := a.state()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(before, after) {
			t.Errorf("change of version %d:\nbefore %q\nafter  %q", i+1, before, after)
		}
	}

	before, err = a.kept()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(before, func(line string) bool { return strings.Contains(line, "started with 2") }) {
		t.Errorf("no group says what it was started with: %q", before)
	}
	running.Kill()
	version("")
	w.quiet()
	a.reported("restart")
	if after, err := a.kept(); err != nil || !slices.Equal(before, after) {
		t.Errorf("a restart: %v\nbefore %q\nafter  %q", err, before, after)
	}

	a.letGo("slow")
	a.bound("evicts", 3)
	env.Create(t, members(a.ns, "degraded", "again-", 1, ofClass(a.high), cpu("4"))...)
	ends := func(gang *v1alpha1.PodGroup) {
		if err := env.Client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(a.ns),
			client.MatchingLabels{v1alpha1.LabelPodGroup: gang.GetName()}); err != nil {
			t.Fatal(err)
		}
	}
	ends(runs)
	env.Eventually(t, func() error { return inGroupPhase(t, degraded, v1alpha1.PodGroupRunning) })
	ends(evicts)
	a.bound("reserved", 2)
	if queues {
		ends(group(a.ns, "queued", 2))
		a.bound("limited", 1)
	}
	if err := errors.Join(a.left("implicit", 2), a.left("isolated", 2), a.left("starts", 2), a.left("slow", 0), boundOf(t, a.ns, "few", 0)); err != nil {
		t.Error(err)
	}
}
