package hooks

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	nri "github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"
	validator "github.com/containerd/nri/plugins/default-validator/builtin"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/internal/agent/enforce"
	"github.com/tutti-sched/tutti/internal/agent/publish"
	"github.com/tutti-sched/tutti/internal/metrics"
	"github.com/tutti-sched/tutti/pkg/isolated"
)

// unlimited is for what must come, however slow the machine is: the test as a whole has a limit.
const unlimited = time.Hour

func TestMain(m *testing.M) {
	nrilog.Set(logger{klog.Logger{}}) // NRI's own side of the socket is not tested
	nri.SetPluginRequestTimeout(unlimited)
	nri.SetPluginRegistrationTimeout(unlimited)
	goleak.VerifyTestMain(m)
}

// runtime is a container runtime as NRI sees it: NRI's own code behind a socket. It applies changes to its containers, and
// has the validator of required plugins.
type runtime struct {
	*nri.Adaptation
	t      *testing.T
	socket string

	mu         sync.Mutex
	pods       map[string]*api.PodSandbox
	containers map[string]*api.Container
	// moved are the containers that were moved without a request about themselves.
	moved []string
	// synchronizing receives a value before a plugin is synchronized.
	synchronizing chan struct{}
	// put applies a container's CPUs; nil does nothing.
	put func(id, cpus string)
}

func newRuntime(t *testing.T) *runtime {
	t.Helper()
	// Not t.TempDir, whose path may be too long for a socket.
	dir, err := os.MkdirTemp("", "nri")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := &runtime{
		t: t, socket: filepath.Join(dir, "nri.sock"), pods: map[string]*api.PodSandbox{}, containers: map[string]*api.Container{},
		synchronizing: make(chan struct{}, 1),
	}
	r.Adaptation, err = nri.New("test", "1.0.0", r.synchronize, r.update,
		nri.WithPluginPath(filepath.Join(dir, "plugins")), nri.WithPluginConfigPath(filepath.Join(dir, "conf.d")),
		nri.WithSocketPath(r.socket), nri.WithDefaultValidator(&validator.DefaultValidatorConfig{Enable: true}),
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	<-r.synchronizing // Start itself synchronizes the built-in plugins of the runtime
	return r
}

func (r *runtime) synchronize(ctx context.Context, tell nri.SyncCB) error {
	r.synchronizing <- struct{}{}
	r.mu.Lock()
	defer r.mu.Unlock()
	var containers []*api.Container
	for _, id := range slices.Sorted(maps.Keys(r.containers)) {
		containers = append(containers, r.containers[id])
	}
	updates, err := tell(ctx, slices.Collect(maps.Values(r.pods)), containers)
	if err != nil {
		r.t.Errorf("synchronize: %v", err)
	}
	r.apply(updates)
	return err
}

func (r *runtime) update(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.apply(updates), nil
}

// apply applies changes and returns those that fail; the caller holds the lock.
func (r *runtime) apply(updates []*api.ContainerUpdate) []*api.ContainerUpdate {
	var failed []*api.ContainerUpdate
	for _, u := range updates {
		c := r.containers[u.GetContainerId()]
		if c == nil {
			if !u.GetIgnoreFailure() {
				failed = append(failed, u)
			}
			continue
		}
		r.moved = append(r.moved, c.Id)
		r.set(c, u.GetLinux().GetResources())
	}
	return failed
}

func (r *runtime) set(c *api.Container, resources *api.LinuxResources) {
	cpu := c.Linux.Resources.Cpu
	if cpus := resources.GetCpu().GetCpus(); cpus != "" {
		cpu.Cpus = cpus
		if r.put != nil {
			r.put(c.Id, cpus)
		}
	}
	if quota := resources.GetCpu().GetQuota(); quota != nil {
		cpu.Quota = api.Int64(quota.GetValue())
	}
	if shares := resources.GetCpu().GetShares(); shares != nil {
		cpu.Shares = api.UInt64(shares.GetValue())
	}
	if mems := resources.GetCpu().GetMems(); mems != "" {
		cpu.Mems = mems
	}
}

// create creates a container, unless it is refused.
func (r *runtime) create(pod *api.PodSandbox, id, name string) (*api.ContainerAdjustment, error) {
	c := &api.Container{
		Id: id, PodSandboxId: pod.Id, Name: name, State: api.ContainerState_CONTAINER_CREATED, CreatedAt: int64(len(r.containers)),
		Linux: &api.LinuxContainer{
			Resources:   &api.LinuxResources{Cpu: &api.LinuxCPU{Quota: api.Int64(200000), Shares: api.UInt64(1024)}},
			CgroupsPath: "kubepods-pod" + pod.Uid + ".slice:cri:" + id,
		},
	}
	reply, err := r.CreateContainer(context.Background(), &api.CreateContainerRequest{Pod: pod, Container: c})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[pod.Id], r.containers[id] = pod, c
	r.set(c, reply.GetAdjust().GetLinux().GetResources())
	r.apply(reply.GetUpdate())
	c.State = api.ContainerState_CONTAINER_RUNNING
	return reply.GetAdjust(), nil
}

// change is the kubelet's update of a container; other containers that are moved with it count as moved.
func (r *runtime) change(id string, resources *api.LinuxResources) error {
	c := r.containers[id]
	reply, err := r.UpdateContainer(context.Background(), &api.UpdateContainerRequest{
		Pod: r.pods[c.PodSandboxId], Container: c, LinuxResources: resources,
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// NRI answers with the request as the plugins changed it, the container's own among the updates.
	for _, u := range reply.GetUpdate() {
		if u.GetContainerId() == id {
			r.set(c, u.GetLinux().GetResources())
			continue
		}
		r.apply([]*api.ContainerUpdate{u})
	}
	return nil
}

func (r *runtime) stop(id string) {
	c := r.containers[id]
	c.State = api.ContainerState_CONTAINER_STOPPED
	request := &api.StopContainerRequest{Pod: r.pods[c.PodSandboxId], Container: c}
	if _, err := r.StopContainer(context.Background(), request); err != nil {
		r.t.Error(err)
	}
}

// remove removes a sandbox with all its containers.
func (r *runtime) remove(sandbox string) {
	for id, c := range r.containers {
		if c.PodSandboxId == sandbox {
			delete(r.containers, id)
		}
	}
	pod := r.pods[sandbox]
	delete(r.pods, sandbox)
	if err := r.RemovePodSandbox(context.Background(), &api.RemovePodSandboxRequest{Pod: pod}); err != nil {
		r.t.Error(err)
	}
}

// cpus returns the CPUs of a container.
func (r *runtime) cpus(id string) *api.LinuxCPU {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.containers[id].Linux.Resources.Cpu
}

// connect connects a plugin to the runtime and waits until it is registered.
func (r *runtime) connect(h *Plugin) *Link {
	r.t.Helper()
	link, err := h.Connect(context.Background(), r.socket, clock.RealClock{}, unlimited)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(link.Close)
	<-r.synchronizing
	r.BlockPluginSync().Unblock() // only goes on while no plugin is being synchronized
	return link
}

// reports collects the reported problems.
type reports struct {
	mu  sync.Mutex
	all []publish.PodEvent
}

func (r *reports) add(report publish.PodEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, report)
}

func (r *reports) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []string
	for _, report := range r.all {
		lines = append(lines, report.Namespace+"/"+report.Pod+" "+report.Reason+": "+report.Message)
	}
	return strings.Join(lines, "\n")
}

// newHooks is a plugin on a node with eight CPUs on two NUMA nodes, of which 4-7 are isolated.
func newHooks(t *testing.T, change func(*Options)) (*Plugin, *reports) {
	t.Helper()
	told := &reports{}
	options := Options{Node: "n1", Report: told.add, Metrics: metrics.Make(metrics.Agent()), Clock: clock.RealClock{}}
	if change != nil {
		change(&options)
	}
	h := New(options)
	h.Enforce(view)
	return h, told
}

// required is what the scheduler writes on pods with isolated CPUs.
const required = isolated.RequiredPluginsAnnotation

var view = enforce.View{
	Online: isolated.NewCPUSet(0, 1, 2, 3, 4, 5, 6, 7), Isolated: isolated.NewCPUSet(4, 5, 6, 7),
	NUMA: []isolated.NUMANode{{ID: 0, CPUs: isolated.NewCPUSet(4, 5)}, {ID: 1, CPUs: isolated.NewCPUSet(6, 7)}},
}

// pod returns a sandbox; given are its containers with isolated CPUs, as name:list.
func pod(t *testing.T, sandbox, uid string, given ...string) *api.PodSandbox {
	t.Helper()
	p := &api.PodSandbox{Id: sandbox, Uid: uid, Namespace: "ns", Name: "pod-" + uid, Annotations: map[string]string{}}
	if len(given) == 0 {
		return p
	}
	a := isolated.Assignment{Version: 1, Node: "n1", UID: uid, Containers: map[string]isolated.CPUSet{}}
	for _, one := range given {
		name, list, _ := strings.Cut(one, ":")
		cpus, err := isolated.ParseSet(list)
		if err != nil {
			t.Fatal(err)
		}
		a.Containers[name], a.CPUs = cpus, a.CPUs.Union(cpus)
	}
	text, err := a.Text()
	if err != nil {
		t.Fatal(err)
	}
	p.Annotations[isolated.AssignedAnnotation], p.Annotations[isolated.RequestAnnotation] = text, "true"
	p.Annotations[required] = `["` + Name + `"]`
	return p
}
