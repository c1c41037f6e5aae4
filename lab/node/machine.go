package node

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tutti-sched/tutti/lab/process"
)

// Machine is a node. Its methods may be called from any goroutine.
type Machine struct {
	spec    Spec
	network *Network
	index   int
	dir     string // its files
	pid     string // the first process of its namespaces, as this machine numbers it
	took    time.Duration

	mu       sync.Mutex
	programs map[string]*process.Process
}

// Spec says what a node is made of.
type Spec struct {
	// Name is the node's, such as real-0.
	Name string
	// Kubeconfig is the file with the access of its kubelet and its kube-proxy.
	Kubeconfig string
	// Server is the address of the API server, for kube-proxy, which runs before Services do.
	Server string
	// Programs are those that run on it.
	Programs *Programs
	// Labels are the node's labels beside those that a kubelet sets.
	Labels map[string]string
	// Logs is the folder for the output of its programs.
	Logs string
	// Out receives progress; nil means nowhere.
	Out io.Writer
}

// The programs of a node that can be ended and started again.
const (
	Containerd = "containerd"
	Kubelet    = "kubelet"
	Proxy      = "kube-proxy"
)

// first is the script of the first process: it lays folders of the node's over those of the machine that its programs write to,
// and then takes in the processes that lose their parents.
//
//go:embed first.sh
var first string

// Start starts a node, the one of this index in its network, with its containerd, kubelet and kube-proxy, and returns when all of
// them answer. The kubelet has registered the node then, which may not be ready yet. The pods of the network's other nodes reach
// its pods when those are Machines of the network, too.
func (n *Network) Start(ctx context.Context, index int, spec Spec) (*Machine, error) {
	if index >= most {
		return nil, fmt.Errorf("node %s: a network has at most %d nodes", spec.Name, most)
	}
	if spec.Out == nil {
		spec.Out = io.Discard
	}
	begin := time.Now()
	m := &Machine{
		spec: spec, network: n, index: index, dir: filepath.Join(n.dir, spec.Name), programs: map[string]*process.Process{},
	}
	if err := m.start(ctx); err != nil {
		m.Stop()
		return nil, fmt.Errorf("node %s: %w", spec.Name, err)
	}
	m.took = time.Since(begin)
	return m, nil
}

func (m *Machine) start(ctx context.Context) error {
	if err := makeGroup(m.group()); err != nil {
		return err
	}
	if err := m.writeFiles(); err != nil {
		return err
	}
	if err := m.begin(ctx); err != nil {
		return err
	}
	if err := m.connect(ctx); err != nil {
		return err
	}
	if err := m.StartProgram(ctx, Containerd); err != nil {
		return err
	}
	if err := m.Import(ctx, m.spec.Programs.Busybox); err != nil {
		return err
	}
	if err := m.StartProgram(ctx, Kubelet); err != nil {
		return err
	}
	return m.StartProgram(ctx, Proxy) // it waits for the node, which the kubelet registers
}

// begin starts the first process of the namespaces and waits until its folders are mounted.
func (m *Machine) begin(ctx context.Context) error {
	p, err := process.Start(process.Spec{
		Name: m.spec.Name, Path: "unshare", Log: m.log("first"),
		Args: namespaces("bash", "-c", first, m.spec.Name, m.dir),
	})
	if err != nil {
		return err
	}
	m.programs[""] = p
	return m.await(ctx, p, "mounted", func() error {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", p.PID()))
		if err != nil {
			return err
		}
		m.pid = strings.TrimSpace(string(children))
		_, err = os.Stat(filepath.Join(m.dir, "run", "mounted"))
		return err
	})
}

// namespaces are the arguments with which unshare runs a command as the first process of a node's namespaces.
func namespaces(command ...string) []string {
	return append([]string{"--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"}, command...)
}

// connect joins the node's network namespace to the bridge, and tells this machine and the network's nodes where its pods are.
func (m *Machine) connect(ctx context.Context) error {
	n, link := m.network, m.network.link(fmt.Sprint(m.index))
	err := ip(ctx, "",
		fmt.Sprintf("link add %s master %s type veth peer name eth0 netns %s", link, n.bridge(), m.pid),
		"link set "+link+" up",
		fmt.Sprintf("route replace %s via %s", n.pods(m.index), m.Address()),
	)
	if err != nil {
		return err
	}
	commands := []string{
		"link set lo up",
		fmt.Sprintf("address add %s/24 dev eth0", m.Address()),
		"link set eth0 up",
		"route add default via " + n.Address(),
	}
	for other := range most {
		if other != m.index {
			commands = append(commands, fmt.Sprintf("route add %s via %s", n.pods(other), n.address(firstHost+other)))
		}
	}
	return ip(ctx, m.pid, commands...)
}

// firstHost is the host number of the first node's address.
const firstHost = 10

// Name is the node's name.
func (m *Machine) Name() string { return m.spec.Name }

// Took is how long the start took: until all its programs answered.
func (m *Machine) Took() time.Duration { return m.took }

// Memory is what the processes of the node hold, in bytes, containers among them. What several processes of this machine share,
// such as the pages of one program on three nodes, is divided among them (Pss in proc(5)).
func (m *Machine) Memory(ctx context.Context) (bytes int64, err error) {
	// A process that ends meanwhile has no file, and does not count.
	text, err := m.Run(ctx, "bash", "-c", "cat /proc/[0-9]*/smaps_rollup 2>/dev/null || true")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "Pss:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("node %s: %w", m.spec.Name, err)
			}
			bytes += kib << 10
		}
	}
	return bytes, nil
}

// Address is the node's address, which the machine, its nodes and their pods reach.
func (m *Machine) Address() string { return m.network.address(firstHost + m.index) }

// DevicePlugins is the folder in which the kubelet and its device plugins have their sockets, as this machine sees it.
func (m *Machine) DevicePlugins() string {
	return filepath.Join(m.dir, "lib", "kubelet", "device-plugins")
}

// group is the control group of its pods, below that of each hierarchy.
func (m *Machine) group() string { return m.network.bridge() + "/" + m.spec.Name }

func (m *Machine) log(program string) string {
	return filepath.Join(m.spec.Logs, m.spec.Name+"-"+program+".log")
}

// StartProgram starts a program of the node (Containerd, Kubelet or Proxy) that does not run, and returns when it answers.
func (m *Machine) StartProgram(ctx context.Context, name string) error {
	begin := time.Now()
	path, args, ready := m.command(name)
	p, err := process.Start(process.Spec{
		Name: m.spec.Name + " " + name, Path: "nsenter", Log: m.log(name), Env: m.spec.Programs.environment(),
		Args: append([]string{"--target", m.pid, "--mount", "--net", "--pid", "--uts", "--ipc", path}, args...),
	})
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.programs[name] = p
	m.mu.Unlock()
	if err := m.await(ctx, p, "ready", func() error { _, err := m.Run(ctx, ready[0], ready[1:]...); return err }); err != nil {
		return err
	}
	fmt.Fprintf(m.spec.Out, "  %s: %s ready after %s\n", m.spec.Name, name, time.Since(begin).Round(10*time.Millisecond))
	return nil
}

// patience is how long a program of a node may take to become ready on a machine of any speed.
const patience = 10 * time.Minute

// await asks until the answer is nil, and gives up when the process has ended.
func (m *Machine) await(ctx context.Context, p *process.Process, what string, ask func() error) error {
	last := errors.New("not asked yet")
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		select {
		case <-p.Done():
			return false, errors.New("it ended")
		default:
		}
		last = ask()
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%s is not %s: %w (%w)\n%w", p.Name(), what, err, last, p.Failure())
	}
	return nil
}

// Kill ends a program of the node with SIGKILL. Containers run on: their shims are processes of their own.
func (m *Machine) Kill(name string) error {
	p, err := m.program(name)
	if err != nil {
		return err
	}
	p.Kill()
	return nil
}

// Signal sends a signal to a program of the node, such as SIGSTOP and SIGCONT.
func (m *Machine) Signal(name string, signal syscall.Signal) error {
	p, err := m.program(name)
	if err != nil {
		return err
	}
	// The program is a child of nsenter, in its process group.
	if err := syscall.Kill(-p.PID(), signal); err != nil {
		return fmt.Errorf("signal %s: %w", p.Name(), err)
	}
	return nil
}

func (m *Machine) program(name string) (*process.Process, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.programs[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("node %s has no %s", m.spec.Name, name)
}

// Run runs a command in the namespaces of the node and returns what it printed.
func (m *Machine) Run(ctx context.Context, name string, args ...string) (string, error) {
	all := append([]string{"--target", m.pid, "--mount", "--net", "--pid", "--uts", "--ipc", name}, args...)
	cmd := exec.CommandContext(ctx, "nsenter", all...)
	cmd.Env = append(os.Environ(), m.spec.Programs.environment()...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s: %s %s: %w: %s", m.spec.Name, filepath.Base(name), strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// Import makes the images of an archive known to the node, as its users' pods name them.
func (m *Machine) Import(ctx context.Context, archive string) error {
	_, err := m.Run(ctx, m.spec.Programs.Ctr, "--namespace", "k8s.io", "images", "import", "--local", archive)
	return err
}

// KillContainer ends the first process of a container with SIGKILL. The id is that of the pod's status, without the runtime's
// name.
func (m *Machine) KillContainer(ctx context.Context, id string) error {
	_, err := m.Run(ctx, m.spec.Programs.Ctr, "--namespace", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", id)
	return err
}

// Stop ends every process of the node, its containers among them. To stop a stopped node does nothing.
func (m *Machine) Stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	// The kernel ends all that is in the namespaces before their first process is gone.
	if p := m.programs[""]; p != nil {
		p.Kill()
	}
	for _, p := range m.programs {
		p.Kill()
	}
	m.programs = map[string]*process.Process{}
}
