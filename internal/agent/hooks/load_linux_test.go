package hooks

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const accounts = "/sys/fs/cgroup/cpuacct"

// account is a cpuacct control group: how long its processes have run on each CPU.
type account struct {
	t         *testing.T
	directory string
}

// newAccount creates a group for the processes of containers that run already.
func newAccount(t *testing.T, k *kernel, containers ...string) *account {
	t.Helper()
	directory, err := os.MkdirTemp(accounts, "tutti-test-")
	if err != nil {
		t.Fatal(err)
	}
	a := &account{t, directory}
	for _, id := range containers {
		a.add(k, id)
	}
	return a
}

// add moves the processes of a container into the group, and back when the test ends, so that the group can be removed.
func (a *account) add(k *kernel, id string) {
	a.t.Helper()
	members, err := os.ReadFile(filepath.Join(k.root, k.group, id, "cgroup.procs"))
	if err != nil {
		a.t.Fatal(err)
	}
	move := func(directory string) {
		for pid := range strings.FieldsSeq(string(members)) {
			if err := os.WriteFile(filepath.Join(directory, "cgroup.procs"), []byte(pid), 0o644); err != nil {
				a.t.Error(err)
			}
		}
	}
	move(a.directory)
	a.t.Cleanup(func() {
		move(accounts)
		_ = os.Remove(a.directory) // the last container's succeeds
	})
}

// user returns for how long programs of the group have run on each CPU so far.
func (a *account) user() []time.Duration {
	a.t.Helper()
	text, err := os.ReadFile(filepath.Join(a.directory, "cpuacct.usage_percpu_user"))
	if err != nil {
		a.t.Fatal(err)
	}
	var times []time.Duration
	for field := range strings.FieldsSeq(string(text)) {
		nanoseconds, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			a.t.Fatal(err)
		}
		times = append(times, time.Duration(nanoseconds))
	}
	return times
}

// since returns for how long they have run on each CPU since a reading, once that is at least so long on one of them.
func (a *account) since(then []time.Duration, cpu int, least time.Duration) []time.Duration {
	a.t.Helper()
	var times []time.Duration
	err := wait.PollUntilContextCancel(a.t.Context(), 10*time.Millisecond, true,
		func(context.Context) (bool, error) {
			times = a.user()
			for i := range times {
				times[i] -= then[i]
			}
			return times[cpu] >= least, nil
		})
	if err != nil {
		a.t.Fatalf("they have run for %v, want %s on CPU %d", times, least, cpu)
	}
	return times
}

// TestOrdinaryLoadStaysOffIsolatedCPUs keeps all CPUs busy with ordinary containers, and reads from the kernel where they
// have run: before the agent starts on all CPUs, afterwards not for a nanosecond on the isolated one; and the busy process of
// the container with that CPU on no other. It needs CPU times per CPU, which control groups of version 1 have.
func TestOrdinaryLoadStaysOffIsolatedCPUs(t *testing.T) {
	const long = 100 * time.Millisecond
	here := lastIsolated(t)
	own, ordinary := here.Isolated.Next(0), here.Online.Next(0)
	r, k := newRuntime(t), newKernel(t)
	if _, err := os.Stat(filepath.Join(accounts, "cpuacct.usage_percpu_user")); err != nil || k.root == "" {
		t.Skipf("no accounts by CPU, which control groups of version 1 have: %v", err)
	}
	r.put = k.put
	containers := []string{"c1", "c2", "c3"}
	for _, id := range append(containers, "c4") {
		k.spin(id)
	}
	ordinaryPod, isolatedPod := pod(t, "s1", "u1"), pod(t, "s2", "u2", "main:"+here.Isolated.String())
	delete(isolatedPod.Annotations, required) // started before the plugin was required
	for _, id := range containers {
		mustCreate(t, r, ordinaryPod, id, id)
	}
	mustCreate(t, r, isolatedPod, "c4", "main")
	others, mine := newAccount(t, k, containers...), newAccount(t, k, "c4")
	none := make([]time.Duration, len(others.user()))
	others.since(none, own, long/10)

	h, _ := newHooks(t, nil)
	h.Enforce(here)
	r.connect(h)
	then, thenMine := others.user(), mine.user()
	if ran := others.since(then, ordinary, long); ran[own] != 0 {
		t.Errorf("ordinary containers have run for %s on the isolated CPU, of %v", ran[own], ran)
	}
	for cpu, ran := range mine.since(thenMine, own, long) {
		if cpu != own && ran != 0 {
			t.Errorf("the container with CPU %d has run for %s on CPU %d", own, ran, cpu)
		}
	}
}
