package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	nri "github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"go.uber.org/goleak"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/internal/agent/hooks"
	"github.com/tutti-sched/tutti/internal/agent/publish"
	"github.com/tutti-sched/tutti/internal/metrics"
	"github.com/tutti-sched/tutti/pkg/isolated"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is a node with four CPUs, the last two of them isolated, with an API server and an agent. The agent runs until the
// test ends.
type machine struct {
	t       *testing.T
	client  *fake.Clientset
	socket  string
	kubelet string
	agent   *Agent
}

func newMachine(t *testing.T, policy string) *machine {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cpus := func(n string) core.ResourceList { return core.ResourceList{core.ResourceCPU: resource.MustParse(n)} }
	m := &machine{
		t: t, socket: filepath.Join(dir, "nri.sock"), kubelet: filepath.Join(dir, "cpu_manager_state"),
		client: fake.NewClientset(&core.Node{
			ObjectMeta: meta.ObjectMeta{Name: "n1", UID: "node"},
			Status:     core.NodeStatus{Capacity: cpus("4"), Allocatable: cpus("3500m")},
		}),
	}
	if err := os.WriteFile(m.kubelet, []byte(`{"policyName":"`+policy+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text + "\n")} }
	m.agent = New(Options{
		Sources: Sources{
			Sysfs: fstest.MapFS{
				"devices/system/cpu/online": file("0-3"), "devices/system/cpu/isolated": file("2-3"),
			},
			Proc:         fstest.MapFS{"sys/kernel/random/boot_id": file("this-boot")},
			KubeletState: m.kubelet,
		},
		Socket: m.socket, Publisher: publish.New(m.client, "n1", "ns", "me"), Clock: clock.RealClock{},
	}, hooks.Options{Node: "n1", Metrics: metrics.Make(metrics.Agent()), Clock: clock.RealClock{}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.agent.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return m
}

// runtime starts a container runtime at the socket, which synchronizes when it is allowed to. It returns NRI's side of the
// runtime.
func (m *machine) runtime(allowed <-chan struct{}) *nri.Adaptation {
	m.t.Helper()
	dir := filepath.Dir(m.socket)
	started := false
	r, err := nri.New("test", "1", func(ctx context.Context, tell nri.SyncCB) error {
		if started { // Start itself synchronizes the built-in plugins of the runtime
			<-allowed
		}
		started = true
		_, err := tell(ctx, nil, nil)
		return err
	}, func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return nil, nil },
		nri.WithPluginPath(filepath.Join(dir, "plugins")), nri.WithPluginConfigPath(filepath.Join(dir, "conf.d")),
		nri.WithSocketPath(m.socket))
	if err != nil {
		m.t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		m.t.Fatal(err)
	}
	return r
}

func (m *machine) until(what string, is func() bool) {
	m.t.Helper()
	err := wait.PollUntilContextCancel(m.t.Context(), 5*time.Millisecond, true,
		func(context.Context) (bool, error) { return is(), nil })
	if err != nil {
		m.t.Fatalf("%s: never; ready: %v", what, m.agent.Ready())
	}
}

func (m *machine) asked() []string {
	var all []string
	for _, action := range m.client.Actions() {
		all = append(all, action.GetVerb()+" "+action.GetResource().Resource)
	}
	return all
}

func (m *machine) topology() *isolated.Topology {
	m.t.Helper()
	node, err := m.client.CoreV1().Nodes().Get(context.Background(), "n1", meta.GetOptions{})
	if err != nil {
		m.t.Fatal(err)
	}
	topology, err := isolated.ParseTopology(node.Annotations[isolated.TopologyAnnotation])
	if err != nil {
		m.t.Fatal(err)
	}
	return topology
}

// TestFromNothingToOffered follows an agent from its start, through the end of the runtime, to the next one.
func TestFromNothingToOffered(t *testing.T) {
	m := newMachine(t, "none")
	m.until("reads the node", func() bool { return slices.Contains(m.asked(), "get nodes") })
	allowed := make(chan struct{})
	first := m.runtime(allowed)
	m.until("connects", func() bool {
		m.agent.mu.Lock()
		defer m.agent.mu.Unlock()
		return m.agent.life.linked
	})
	if asked := m.asked(); len(asked) != 1 {
		t.Errorf("asked %v before it was synchronized", asked)
	}
	close(allowed)
	m.until("is ready", func() bool { return m.agent.Ready() == nil })
	want := []string{"get nodes", "patch nodes", "get leases", "create leases"}
	if asked := m.asked(); !slices.Equal(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
	topology := m.topology()
	if topology.Isolated != isolated.NewCPUSet(2, 3) || topology.Mode != isolated.Included || topology.Generation != 1 ||
		topology.BootID != "this-boot" || topology.Kubelet.CPUManagerPolicy != "none" || len(topology.Problems) != 0 {
		t.Errorf("published %+v", topology)
	}
	// What is published is what is enforced: an ordinary container is kept off the isolated CPUs. The runtime asks the agent about
	// containers a moment after it has synchronized it.
	cpus := ""
	m.until("is asked about a container", func() bool {
		reply, err := first.CreateContainer(context.Background(), &api.CreateContainerRequest{
			Pod: &api.PodSandbox{Id: "s", Uid: "u", Name: "p", Namespace: "ns"}, Container: &api.Container{Id: "c", PodSandboxId: "s", Name: "main"},
		})
		if err != nil {
			t.Fatal(err)
		}
		cpus = reply.GetAdjust().GetLinux().GetResources().GetCpu().GetCpus()
		return cpus != ""
	})
	if cpus != "0-1" {
		t.Errorf("an ordinary container is put on CPUs %q, want 0-1", cpus)
	}
	first.Stop()
	// NRI's Stop only closes the listener; a runtime that exits also closes its connections.
	m.agent.mu.Lock()
	link := m.agent.link
	m.agent.mu.Unlock()
	link.Close()
	m.until("notices that the runtime is gone", func() bool { return m.agent.Ready() != nil })
	second := m.runtime(allowed)
	defer second.Stop()
	m.until("is ready again", func() bool { return m.agent.Ready() == nil })
	if err := m.agent.Alive(); err != nil {
		t.Error(err)
	}
	for _, asked := range m.asked() {
		if strings.Contains(asked, "pods") {
			t.Errorf("asked %q", asked)
		}
	}
}

// TestAStaticKubeletIsRefused: the problem is in the annotation, the readiness, the log and an event, and the Lease is not
// renewed.
func TestAStaticKubeletIsRefused(t *testing.T) {
	m := newMachine(t, "static")
	allowed := make(chan struct{})
	close(allowed)
	r := m.runtime(allowed)
	defer r.Stop()
	m.until("writes an event", func() bool { return slices.Contains(m.asked(), "create events") })
	topology := m.topology()
	if len(topology.Problems) != 1 || !strings.HasPrefix(topology.Problems[0], "cpuManagerPolicy=static: ") {
		t.Errorf("published %+v", topology)
	}
	events, err := m.client.CoreV1().Events("default").List(context.Background(), meta.ListOptions{})
	if err != nil || len(events.Items) != 1 || !strings.Contains(events.Items[0].Message, "cpuManagerPolicy=static") {
		t.Errorf("events %+v, %v", events, err)
	}
	if err := m.agent.Ready(); err == nil || !strings.Contains(err.Error(), "cpuManagerPolicy=static") {
		t.Errorf("ready: %v", err)
	}
	m.until("is synchronized", func() bool {
		m.agent.mu.Lock()
		defer m.agent.mu.Unlock()
		return m.agent.life.synchronized
	})
	if asked := fmt.Sprint(m.asked()); strings.Contains(asked, "leases") {
		t.Errorf("asked %s: a sign of life", asked)
	}
}

func TestLook(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	sources := Sources{
		Sysfs: fstest.MapFS{"devices/system/cpu/online": file("0-3"), "devices/system/cpu/isolated": file("0-3")},
		Proc:  fstest.MapFS{}, KubeletState: filepath.Join(t.TempDir(), "absent"),
	}
	local, _, err := sources.Look()
	if err != nil {
		t.Fatal(err)
	}
	if len(local.Problems) != 2 || !strings.Contains(local.Problems[0], "policy is unknown") ||
		!strings.Contains(local.Problems[1], "all online CPUs, 0-3, are isolated") {
		t.Errorf("problems %q", local.Problems)
	}
	if closed := local.view().Closed; closed == "" {
		t.Error("a node with problems is open")
	}
	override := isolated.NewCPUSet(3)
	sources.Override, sources.KubeletState = &override, ""
	if local, _, err = sources.Look(); err != nil || len(local.Problems) != 0 || local.Topology.Isolated != override ||
		local.view().Closed != "" {
		t.Errorf("%+v, %v", local, err)
	}
}

// TestReportsBecomeEvents of the pods that they are about; a handler's report never waits.
func TestReportsBecomeEvents(t *testing.T) {
	m := newMachine(t, "none")
	report := publish.PodEvent{Namespace: "jobs", Pod: "worker-0", UID: "u", Reason: hooks.Refused, Message: "container main: overlap"}
	m.agent.report(report)
	m.until("writes an event", func() bool { return slices.Contains(m.asked(), "create events") })
	events, err := m.client.CoreV1().Events("jobs").List(context.Background(), meta.ListOptions{})
	if err != nil || len(events.Items) != 1 || events.Items[0].Message != report.Message ||
		events.Items[0].InvolvedObject.Name != "worker-0" {
		t.Errorf("events %+v, %v", events.Items, err)
	}
	idle := New(Options{Clock: clock.RealClock{}}, hooks.Options{Node: "n1", Clock: clock.RealClock{}})
	for range 2 * cap(idle.reports) {
		idle.report(report) // the test hangs if this waits
	}
}
