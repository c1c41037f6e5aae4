// Package hooks passes the container runtime's NRI requests to internal/agent/enforce, and returns its answers.
//
// It decides nothing. A handler takes a lock, calls the Enforcer and answers: no API server, no file, nothing that waits,
// because the runtime delays all of the node's containers meanwhile. Reports about pods go to Options.Report, which must not
// wait either.
//
// The runtime calls the handlers on goroutines of the stub; Enforce and Check are called by the agent's own. All may run
// concurrently.
package hooks

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/internal/agent/enforce"
	"github.com/tutti-sched/tutti/internal/agent/publish"
	"github.com/tutti-sched/tutti/internal/metrics"
	"github.com/tutti-sched/tutti/pkg/isolated"
)

// Name is the plugin's name, as the scheduler writes it into the pod's required plugins; Index is its place among the node's
// plugins.
const (
	Name  = "isolcpu"
	Index = "10"
)

// The environment variables of a container with isolated CPUs: their ids, to pin its threads to, and their NUMA nodes, both
// in the kernel's list format.
const (
	CPUsVariable = "ISOLATED_CPUS"
	NUMAVariable = "ISOLATED_NUMA"
)

// Reasons of reports.
const (
	// Refused is a container that was not started, or runs on ordinary CPUs instead of its own.
	Refused = "IsolatedCPUsRefused"
	// Drifted is a container that was found on other CPUs than assigned.
	Drifted = "IsolatedCPUsDrifted"
)

// Options are what New needs.
type Options struct {
	// Node is the node's name.
	Node string
	// StrictMemory also binds the memory of containers with isolated CPUs to those CPUs' NUMA nodes. They are OOM-killed when
	// it is full.
	StrictMemory bool
	// Cgroups is the tree of control groups, to read the CPUs of containers; nil to rely on the runtime.
	Cgroups fs.FS
	// Report receives the events; it must not wait.
	Report  func(publish.PodEvent)
	Metrics metrics.Set
	Log     klog.Logger
	Clock   clock.PassiveClock
}

// Plugin is the NRI plugin. Make it with New.
type Plugin struct {
	options Options

	mu      sync.Mutex
	machine *enforce.Enforcer
	// online are the machine's CPUs as last discovered.
	online isolated.CPUSet
}

var (
	_ stub.ConfigureInterface       = (*Plugin)(nil)
	_ stub.SynchronizeInterface     = (*Plugin)(nil)
	_ stub.CreateContainerInterface = (*Plugin)(nil)
	_ stub.UpdateContainerInterface = (*Plugin)(nil)
	_ stub.StopContainerInterface   = (*Plugin)(nil)
	_ stub.RemoveContainerInterface = (*Plugin)(nil)
	_ stub.StopPodInterface         = (*Plugin)(nil)
	_ stub.RemovePodInterface       = (*Plugin)(nil)
)

// New returns a plugin that starts nothing isolated before Enforce was called.
func New(options Options) *Plugin {
	return &Plugin{options: options, machine: enforce.New(options.Node)}
}

// Enforce sets what is enforced from now on. The next Check moves the containers that must move.
func (h *Plugin) Enforce(view enforce.View) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.online = view.Online
	h.machine.Configure(view)
}

// Configure is the runtime's first call. The answer, zero, subscribes to all events that have a handler.
func (h *Plugin) Configure(_ context.Context, _, runtime, version string) (api.EventMask, error) {
	h.options.Log.Info("Connected to the container runtime", "runtime", runtime, "version", version)
	return 0, nil
}

// Synchronize takes over all running containers, and answers with those that must move. The runtime does not report whether
// it moved them: the next Check asks for the same again, and gets the failures.
func (h *Plugin) Synchronize(_ context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	defer h.observeLatency("Synchronize", h.options.Clock.Now())
	known := make([]enforce.Pod, len(pods))
	// The runtime reports the process of each sandbox, and of a stopped one none. One that reports no process at all does not say
	// which have stopped.
	says := slices.ContainsFunc(pods, func(pod *api.PodSandbox) bool { return pod.GetPid() != 0 })
	for i, pod := range pods {
		known[i] = podOf(pod)
		known[i].Stopped = says && pod.GetPid() == 0
	}
	running := make([]enforce.Container, len(containers))
	for i, c := range containers {
		running[i] = containerOf(c, c.GetLinux().GetResources())
	}
	var moves []enforce.Change
	var conflicts []enforce.Conflict
	h.locked(func(m *enforce.Enforcer) { moves, conflicts = m.Synchronize(known, running) })
	for i := range conflicts {
		h.refused(&conflicts[i].Pod, conflicts[i].Container, conflicts[i].Refusal)
	}
	h.options.Log.Info("Synchronized with the container runtime",
		"pods", len(pods), "containers", len(containers), "moved", len(moves), "conflicts", len(conflicts))
	return h.updates(moves), nil
}

// CreateContainer answers with the CPUs of a new container, or with an error, which keeps it from being created.
func (h *Plugin) CreateContainer(_ context.Context, sandbox *api.PodSandbox, container *api.Container) (
	*api.ContainerAdjustment, []*api.ContainerUpdate, error,
) {
	defer h.observeLatency("CreateContainer", h.options.Clock.Now())
	pod, c := podOf(sandbox), containerOf(container, container.GetLinux().GetResources())
	var placed enforce.Placement
	var refusal *enforce.Refusal
	h.locked(func(m *enforce.Enforcer) { placed, refusal = m.Create(&pod, &c) })
	if refusal != nil {
		h.refused(&pod, c.Name, refusal)
		return nil, nil, refusal
	}
	if placed.CPUs.Empty() {
		return nil, nil, nil
	}
	adjust := &api.ContainerAdjustment{}
	adjust.SetLinuxCPUSetCPUs(placed.CPUs.String())
	if placed.Isolated {
		adjust.SetLinuxCPUQuota(-1)
		adjust.AddEnv(CPUsVariable, placed.CPUs.String())
		adjust.AddEnv(NUMAVariable, placed.NUMA.String())
		if h.options.StrictMemory && !placed.NUMA.Empty() {
			adjust.SetLinuxCPUSetMems(placed.NUMA.String())
		}
	}
	return adjust, nil, nil
}

// UpdateContainer answers the kubelet's change of a running container with the CPUs that it keeps; the rest is as the kubelet
// wants.
func (h *Plugin) UpdateContainer(_ context.Context, sandbox *api.PodSandbox, container *api.Container, asked *api.LinuxResources) (
	[]*api.ContainerUpdate, error,
) {
	defer h.observeLatency("UpdateContainer", h.options.Clock.Now())
	pod, c := podOf(sandbox), containerOf(container, asked)
	var placed enforce.Placement
	h.locked(func(m *enforce.Enforcer) { placed = m.Update(&pod, &c) })
	if placed.CPUs.Empty() {
		return nil, nil
	}
	return h.updates([]enforce.Change{{Container: c.ID, Placement: placed}}), nil
}

// StopContainer handles the end of a container.
func (h *Plugin) StopContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) ([]*api.ContainerUpdate, error) {
	h.containerEnded("StopContainer", func(m *enforce.Enforcer) { m.Stop(container.GetId()) })
	return nil, nil
}

// RemoveContainer handles the removal of a container, whether or not its end was reported.
func (h *Plugin) RemoveContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) error {
	h.containerEnded("RemoveContainer", func(m *enforce.Enforcer) { m.Stop(container.GetId()) })
	return nil
}

// StopPodSandbox handles the end of a sandbox.
func (h *Plugin) StopPodSandbox(_ context.Context, sandbox *api.PodSandbox) error {
	h.containerEnded("StopPodSandbox", func(m *enforce.Enforcer) { m.StopSandbox(sandbox.GetId()) })
	return nil
}

// RemovePodSandbox handles the removal of a sandbox.
func (h *Plugin) RemovePodSandbox(_ context.Context, sandbox *api.PodSandbox) error {
	h.containerEnded("RemovePodSandbox", func(m *enforce.Enforcer) { m.RemoveSandbox(sandbox.GetId()) })
	return nil
}

func (h *Plugin) containerEnded(call string, tell func(*enforce.Enforcer)) {
	defer h.observeLatency(call, h.options.Clock.Now())
	h.locked(tell)
}

// locked calls the enforcer under the lock, and updates the gauges.
func (h *Plugin) locked(call func(*enforce.Enforcer)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	call(h.machine)
	containers, held := h.machine.Counts()
	h.options.Metrics.Show(metrics.AgentContainers, float64(containers))
	h.options.Metrics.Show(metrics.AgentHeldCPUs, float64(held))
}

// updates are the changes as the runtime reads them. A change without its container's id would be applied to nothing. A
// failure to move an ordinary container is ignored, so that it does not fail the others.
func (h *Plugin) updates(changes []enforce.Change) []*api.ContainerUpdate {
	updates := make([]*api.ContainerUpdate, len(changes))
	for i, change := range changes {
		u := &api.ContainerUpdate{}
		u.SetContainerId(change.Container)
		u.SetLinuxCPUSetCPUs(change.Placement.CPUs.String())
		if change.Placement.Isolated {
			u.SetLinuxCPUQuota(-1)
			if h.options.StrictMemory && !change.Placement.NUMA.Empty() {
				u.SetLinuxCPUSetMems(change.Placement.NUMA.String())
			}
		} else {
			u.SetIgnoreFailure()
		}
		updates[i] = u
	}
	return updates
}

func (h *Plugin) refused(pod *enforce.Pod, container string, refusal *enforce.Refusal) {
	h.options.Metrics.Count(metrics.AgentRefused, 1, refusal.Reason)
	h.options.Report(publish.PodEvent{
		Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Reason: Refused,
		Message: fmt.Sprintf("container %s: %s", container, refusal.Error()),
	})
}

func (h *Plugin) observeLatency(call string, since time.Time) {
	h.options.Metrics.Observe(metrics.AgentHandlerSeconds, h.options.Clock.Since(since).Seconds(), call)
}

func podOf(pod *api.PodSandbox) enforce.Pod {
	return enforce.Pod{
		Sandbox: pod.GetId(), UID: pod.GetUid(), Namespace: pod.GetNamespace(), Name: pod.GetName(), Annotations: pod.GetAnnotations(),
	}
}

func containerOf(c *api.Container, resources *api.LinuxResources) enforce.Container {
	cpu := resources.GetCpu()
	return enforce.Container{
		ID: c.GetId(), Sandbox: c.GetPodSandboxId(), Name: c.GetName(), CPUs: cpu.GetCpus(), Limited: cpu.GetQuota().GetValue() > 0,
		Cgroup: c.GetLinux().GetCgroupsPath(), Created: c.GetCreatedAt(), Stopped: c.GetState() == api.ContainerState_CONTAINER_STOPPED,
	}
}
