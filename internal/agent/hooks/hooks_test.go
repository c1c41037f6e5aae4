package hooks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	nri "github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/tutti-sched/tutti/internal/metrics"
	"github.com/tutti-sched/tutti/pkg/isolated"
)

// refusedWith fails unless the error contains the reason.
func refusedWith(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}

func isAt(t *testing.T, r *runtime, id, want string) {
	t.Helper()
	if got := r.cpus(id).GetCpus(); got != want {
		t.Errorf("container %s is on CPUs %q, want %q", id, got, want)
	}
}

func mustCreate(t *testing.T, r *runtime, pod *api.PodSandbox, id, name string) *api.ContainerAdjustment {
	t.Helper()
	adjust, err := r.create(pod, id, name)
	if err != nil {
		t.Fatal(err)
	}
	return adjust
}

func count(t *testing.T, metric interface{ Write(*dto.Metric) error }) float64 {
	t.Helper()
	var m dto.Metric
	if err := metric.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

func TestContainersGetTheirCPUs(t *testing.T) {
	r := newRuntime(t)
	h, told := newHooks(t, nil)
	r.connect(h)
	a := pod(t, "s1", "u1", "main:4-5", "sidecar:7")
	adjust := mustCreate(t, r, a, "c1", "main")
	isAt(t, r, "c1", "4-5")
	if quota := r.cpus("c1").GetQuota().GetValue(); quota != -1 {
		t.Errorf("quota %d, want none", quota)
	}
	var env []string
	for _, e := range adjust.GetEnv() {
		env = append(env, e.Key+"="+e.Value)
	}
	if slices.Sort(env); strings.Join(env, " ") != "ISOLATED_CPUS=4-5 ISOLATED_NUMA=0" {
		t.Errorf("environment %v", env)
	}
	mustCreate(t, r, a, "c2", "sidecar")
	isAt(t, r, "c2", "7")
	adjust = mustCreate(t, r, a, "c3", "proxy")
	isAt(t, r, "c3", "0-3")
	if len(adjust.GetEnv()) != 0 || r.cpus("c3").GetQuota().GetValue() != 200000 {
		t.Errorf("an ordinary container has environment %v and %v", adjust.GetEnv(), r.cpus("c3"))
	}
	if mems := r.cpus("c1").GetMems(); mems != "" {
		t.Errorf("memory is bound to %q, which was not requested", mems)
	}
	if len(r.moved) != 0 {
		t.Errorf("containers %v were moved for others", r.moved)
	}
	if told.String() != "" {
		t.Errorf("reports: %s", told)
	}
}

func TestMemoryIsBoundOnRequest(t *testing.T) {
	r := newRuntime(t)
	h, _ := newHooks(t, func(o *Options) { o.StrictMemory = true })
	r.connect(h)
	mustCreate(t, r, pod(t, "s1", "u1", "main:5-6"), "c1", "main")
	mustCreate(t, r, pod(t, "s2", "u2"), "c2", "main")
	if mems := r.cpus("c1").GetMems(); mems != "0-1" {
		t.Errorf("memory is bound to %q, want 0-1", mems)
	}
	if mems := r.cpus("c2").GetMems(); mems != "" {
		t.Errorf("memory of an ordinary container is bound to %q", mems)
	}
}

func TestNoContainerStartsOnCPUsOfAnother(t *testing.T) {
	r := newRuntime(t)
	h, told := newHooks(t, nil)
	r.connect(h)
	mustCreate(t, r, pod(t, "s1", "u1", "main:4-5"), "c1", "main")
	b := pod(t, "s2", "u2", "main:5-6")
	_, err := r.create(b, "c2", "main")
	refusedWith(t, err, "CPUs 5 are held by sandbox s1 of pod ns/pod-u1")
	if !strings.Contains(told.String(), "ns/pod-u2 IsolatedCPUsRefused: container main: isolcpu: overlap:") {
		t.Errorf("reports: %s", told)
	}
	if n := count(t, h.options.Metrics[metrics.AgentRefused].(*prometheus.CounterVec).WithLabelValues("overlap")); n != 1 {
		t.Errorf("%v refusals were counted, want 1", n)
	}

	stale := pod(t, "s3", "u3", "main:6")
	stale.Uid = "u4"
	_, err = r.create(stale, "c3", "main")
	refusedWith(t, err, "stale-uid")

	r.stop("c1")
	_, err = r.create(b, "c2", "main")
	refusedWith(t, err, "overlap")
	r.remove("s1")
	mustCreate(t, r, b, "c2", "main")
	isAt(t, r, "c2", "5-6")
}

// TestForceDeletedPod: its object is gone and its CPUs are assigned to another pod, but its sandbox still exists. The other
// pod starts as soon as the sandbox is removed, and never before; the kubelet retries.
func TestForceDeletedPod(t *testing.T) {
	r := newRuntime(t)
	h, _ := newHooks(t, nil)
	link := r.connect(h)
	mustCreate(t, r, pod(t, "a", "ua", "main:4-5"), "ca", "main")
	b := pod(t, "b", "ub", "main:4-5")
	_, err := r.create(b, "cb", "main")
	refusedWith(t, err, "held by sandbox a")

	// A restart of the agent makes no difference.
	link.Close()
	again, _ := newHooks(t, nil)
	r.connect(again)
	_, err = r.create(b, "cb", "main")
	refusedWith(t, err, "held by sandbox a")

	r.stop("ca")
	_, err = r.create(b, "cb", "main")
	refusedWith(t, err, "held by sandbox a")
	r.remove("a")
	mustCreate(t, r, b, "cb", "main")
	isAt(t, r, "cb", "4-5")
}

// TestKubeletChangesResources: whatever cpuset it writes, containers keep theirs; its other changes are applied.
func TestKubeletChangesResources(t *testing.T) {
	r := newRuntime(t)
	h, _ := newHooks(t, nil)
	r.connect(h)
	mustCreate(t, r, pod(t, "s1", "u1", "main:5-6"), "c1", "main")
	mustCreate(t, r, pod(t, "s2", "u2"), "c2", "main")
	all := &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: "0-7", Shares: api.UInt64(2048), Quota: api.Int64(100000)}}
	for _, id := range []string{"c1", "c2"} {
		if err := r.change(id, all); err != nil {
			t.Fatal(err)
		}
		if shares := r.cpus(id).GetShares().GetValue(); shares != 2048 {
			t.Errorf("container %s has shares %d, want 2048", id, shares)
		}
	}
	isAt(t, r, "c1", "5-6")
	isAt(t, r, "c2", "0-3")
	if one, other := r.cpus("c1").GetQuota().GetValue(), r.cpus("c2").GetQuota().GetValue(); one != -1 || other != 100000 {
		t.Errorf("quotas %d and %d, want -1 and 100000", one, other)
	}
	if len(r.moved) != 0 {
		t.Errorf("containers %v were moved for others", r.moved)
	}
}

// TestWhatRunsIsMovedOnce: containers that were there before the agent, one of them on the right CPUs.
func TestWhatRunsIsMovedOnce(t *testing.T) {
	r := newRuntime(t)
	old, new := pod(t, "s1", "u1", "main:4-5"), pod(t, "s2", "u2")
	delete(old.Annotations, required) // started before it was required
	mustCreate(t, r, old, "c1", "main")
	mustCreate(t, r, new, "c2", "main")
	mustCreate(t, r, new, "c3", "proxy")
	mustCreate(t, r, new, "c4", "over")
	r.containers["c3"].Linux.Resources.Cpu.Cpus = "0-3"
	r.containers["c4"].State = api.ContainerState_CONTAINER_STOPPED

	h, _ := newHooks(t, nil)
	link := r.connect(h)
	if strings.Join(r.moved, " ") != "c1 c2" {
		t.Errorf("containers %v were moved, want c1 and c2", r.moved)
	}
	isAt(t, r, "c1", "4-5")
	isAt(t, r, "c2", "0-3")
	if quota := r.cpus("c1").GetQuota().GetValue(); quota != -1 {
		t.Errorf("quota %d, want none", quota)
	}

	// Another agent finds all containers on the right CPUs.
	link.Close()
	r.moved = nil
	again, _ := newHooks(t, nil)
	r.connect(again)
	if len(r.moved) != 0 {
		t.Errorf("containers %v were moved after a restart", r.moved)
	}
}

// TestWithoutTheAgentNothingIsolatedStarts: what the scheduler writes on the pod is enough, once the runtime's validator runs.
func TestWithoutTheAgentNothingIsolatedStarts(t *testing.T) {
	r := newRuntime(t)
	isolatedPod := pod(t, "s1", "u1", "main:4-5")
	_, err := r.create(isolatedPod, "c1", "main")
	refusedWith(t, err, `required plugin "isolcpu" not present`)
	mustCreate(t, r, pod(t, "s2", "u2"), "c2", "main")

	h, _ := newHooks(t, nil)
	link := r.connect(h)
	mustCreate(t, r, isolatedPod, "c1", "main")
	link.Close()
	<-link.Lost()
	// The runtime may notice the lost connection by this request; then the failure policy refuses it.
	if _, err = r.create(pod(t, "s3", "u3", "main:6"), "c3", "main"); err == nil {
		t.Error("a container was created without the agent")
	}
	_, err = r.create(pod(t, "s3", "u3", "main:6"), "c3", "main")
	refusedWith(t, err, `required plugin "isolcpu" not present`)
}

// TestAnAgentThatHangsFailsTheRequest: the runtime waits no longer than its timeout, and the next request is answered.
func TestAnAgentThatHangsFailsTheRequest(t *testing.T) {
	r := newRuntime(t)
	h, _ := newHooks(t, nil)
	r.connect(h)
	ordinary := pod(t, "s1", "u1")
	nri.SetPluginRequestTimeout(200 * time.Millisecond)
	h.mu.Lock()
	_, err := r.create(ordinary, "c1", "main")
	h.mu.Unlock()
	refusedWith(t, err, "deadline exceeded")
	nri.SetPluginRequestTimeout(unlimited)
	mustCreate(t, r, ordinary, "c2", "main")
	isAt(t, r, "c2", "0-3")
}

// TestTheNodeIsClosed: a node with a problem starts nothing isolated and moves no container.
func TestTheNodeIsClosed(t *testing.T) {
	r := newRuntime(t)
	h, _ := newHooks(t, nil)
	closed := view
	closed.Closed = "cpuManagerPolicy=static"
	h.Enforce(closed)
	r.connect(h)
	_, err := r.create(pod(t, "s1", "u1", "main:4"), "c1", "main")
	refusedWith(t, err, "closed: cpuManagerPolicy=static")
	if adjust := mustCreate(t, r, pod(t, "s2", "u2"), "c2", "main"); adjust.GetLinux().GetResources().GetCpu().GetCpus() != "" {
		t.Errorf("an ordinary container was adjusted: %v", adjust)
	}
}

// TestDrift: another process writes a control group.
func TestDrift(t *testing.T) {
	cgroups := fstest.MapFS{}
	show := func(uid, id, cpus string) {
		cgroups["kubepods.slice/kubepods-pod"+uid+".slice/cri-"+id+".scope/cpuset.cpus.effective"] =
			&fstest.MapFile{Data: []byte(cpus + "\n")}
	}
	r := newRuntime(t)
	h, told := newHooks(t, func(o *Options) { o.Cgroups = cgroups })
	link := r.connect(h)
	mustCreate(t, r, pod(t, "s1", "u1", "main:4-5"), "c1", "main")
	mustCreate(t, r, pod(t, "s2", "u2"), "c2", "main")
	mustCreate(t, r, pod(t, "s2", "u2"), "c3", "new") // its group is not there yet
	show("u1", "c1", "4-5")
	show("u2", "c2", "0-3")
	check := func(want int) {
		t.Helper()
		moved, err := h.Check(link)
		if err != nil || moved != want {
			t.Errorf("moved %d, %v, want %d", moved, err, want)
		}
	}
	check(0)
	show("u2", "c2", "0-7")
	r.moved = nil
	check(1)
	if strings.Join(r.moved, " ") != "c2" || count(t, h.options.Metrics[metrics.AgentDrift].(*prometheus.CounterVec).WithLabelValues()) != 1 {
		t.Errorf("moved %v, counted %v", r.moved, count(t, h.options.Metrics[metrics.AgentDrift].(*prometheus.CounterVec).WithLabelValues()))
	}
	if want := "ns/pod-u2 IsolatedCPUsDrifted: container main was on CPUs 0-7 instead of 0-3; it is put back"; told.String() != want {
		t.Errorf("reports: %s, want %s", told, want)
	}
	show("u2", "c2", "0-3")
	check(0)

	// The isolated CPUs change: a move, but no drift.
	grown := view
	grown.Isolated = isolated.NewCPUSet(3, 4, 5, 6, 7)
	h.Enforce(grown)
	check(2)
	isAt(t, r, "c2", "0-2")
	isAt(t, r, "c3", "0-2")
	if n := count(t, h.options.Metrics[metrics.AgentDrift].(*prometheus.CounterVec).WithLabelValues()); n != 1 {
		t.Errorf("%v drifts were counted, want 1", n)
	}
	// The runtime has no such container: the move fails, and is retried.
	h.Enforce(view)
	delete(r.containers, "c2")
	r.moved = nil
	check(2)
	if strings.Join(r.moved, " ") != "c3" {
		t.Errorf("moved %v, want c3", r.moved)
	}
}

func TestWhereControlGroupsAre(t *testing.T) {
	for path, want := range map[string]string{
		"a-b-c.slice:cri-containerd:d": "a.slice/a-b.slice/a-b-c.slice/cri-containerd-d.scope",
		"/kubepods/podu/c":             "kubepods/podu/c",
		"../../etc":                    "etc",
		"":                             "",
		"system.slice:crio:c":          "system.slice/crio-c.scope",
	} {
		if got := directoryOf(path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
	tree := fstest.MapFS{"cpuset/kubepods/c/cpuset.effective_cpus": {Data: []byte("3\n")}}
	if at, ok := effective(tree, "/kubepods/c"); !ok || at != isolated.NewCPUSet(3) {
		t.Errorf("version 1: %s, %v", at, ok)
	}
}

// TestAFullNodeIsSynchronized: all containers of a full node are moved when the agent connects.
func TestAFullNodeIsSynchronized(t *testing.T) {
	const pods = 110
	r := newRuntime(t)
	for i := range pods {
		p := pod(t, fmt.Sprint("s", i), fmt.Sprint("u", i))
		for _, name := range []string{"main", "proxy", "log"} {
			mustCreate(t, r, p, fmt.Sprint("c", i, name), name)
		}
	}
	h, _ := newHooks(t, nil)
	for _, c := range r.containers {
		c.Linux.Resources.Cpu.Cpus = ""
	}
	r.moved = nil
	began := time.Now()
	link := r.connect(h)
	t.Logf("%d containers synchronized in %s", 3*pods, time.Since(began))
	if len(r.moved) != 3*pods {
		t.Errorf("%d containers were moved, want all", len(r.moved))
	}
	link.Close()
}

// BenchmarkCreateContainer creates a container with CPUs of its own, and an ordinary one.
func BenchmarkCreateContainer(b *testing.B) {
	t := &testing.T{}
	for name, given := range map[string][]string{"own": {"main:4-5"}, "ordinary": nil} {
		b.Run(name, func(b *testing.B) {
			h, _ := newHooks(t, nil)
			p := pod(t, "s", "u", given...)
			c := &api.Container{Id: "c", PodSandboxId: p.Id, Name: "main"}
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := h.CreateContainer(context.Background(), p, c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
