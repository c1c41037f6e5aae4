package hooks

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/tutti-sched/tutti/internal/agent/enforce"
	"github.com/tutti-sched/tutti/pkg/isolated"
)

// TestNoIsolatedCPUIsSharedOnALargeNode plays 200 random sequences on a node of 64 CPUs in four NUMA nodes, 56 of them
// isolated: pods start, become complete and are deleted, some with CPUs that another pod holds, the agent is killed and comes
// back, the runtime is restarted, the kubelet asks for all CPUs, and a container is moved without a message. The CPUs of each
// container are read from the files of a tree of control groups, which the runtime writes: of version 1 in one sequence, of
// version 2 in the next.
//
// At each moment no two pods have one isolated CPU. A pod whose CPUs are free is refused at most once: then the agent connects
// again. At rest each container with isolated CPUs has those that its pod was assigned, and no other container has an isolated
// one.
func TestNoIsolatedCPUIsSharedOnALargeNode(t *testing.T) {
	for seed := range uint64(200) {
		n := newLargeNode(t, seed)
		for range 30 {
			n.steps = append(n.steps, n.step())
			n.neverShared()
		}
		n.atRest()
		n.link.Close()
		n.Stop()
		if t.Failed() {
			t.Fatalf("seed %d: %s", seed, strings.Join(n.steps, ", "))
		}
	}
}

// largeNode is the node of one sequence, with its runtime and its agent.
type largeNode struct {
	*runtime
	t      *testing.T
	random *rand.Rand
	view   enforce.View
	tree   tree
	plugin *Plugin
	link   *Link // nil while the agent is dead
	// assigned are the CPUs of each pod with isolated ones that has run, by sandbox.
	assigned map[string]isolated.CPUSet
	// complete are the sandboxes that have stopped and are not removed. For silent sandboxes the runtime sends no event, since
	// it was restarted after it had made them, as containerd 2.4 is.
	complete, silent map[string]bool
	made             int
	steps            []string
}

func newLargeNode(t *testing.T, seed uint64) *largeNode {
	all := isolated.NewCPUSet()
	var numa []isolated.NUMANode
	for id := range 4 {
		cpus := span(16*id, 16*id+15)
		all = all.Union(cpus)
		numa = append(numa, isolated.NUMANode{ID: id, CPUs: cpus})
	}
	n := &largeNode{
		runtime: newRuntime(t), t: t, random: rand.New(rand.NewPCG(seed, 0)),
		view: enforce.View{Online: all, Isolated: all.Minus(span(0, 7)), NUMA: numa},
		tree: tree{root: t.TempDir(), version: 1 + int(seed%2)}, assigned: map[string]isolated.CPUSet{},
		complete: map[string]bool{}, silent: map[string]bool{},
	}
	n.put = func(id, cpus string) {
		if err := n.tree.write(cgroupOf(n.containers[id]), cpus); err != nil {
			t.Error(err)
		}
	}
	n.pods[agentPod] = pod(t, agentPod, agentPod)
	n.pods[agentPod].Pid = 1
	n.begin()
	return n
}

// agentPod is the sandbox of the agent itself, which is on each node.
const agentPod = "agent"

// begin starts the agent.
func (n *largeNode) begin() {
	n.plugin, _ = newHooks(n.t, func(o *Options) { o.Cgroups = os.DirFS(n.tree.root) })
	n.plugin.Enforce(n.view)
	n.link = n.connect(n.plugin)
}

// hangUp ends the connection of the agent. The runtime sees that with the next event, which fails.
func (n *largeNode) hangUp() {
	n.link.Close()
	for n.RemovePodSandbox(n.t.Context(), &api.RemovePodSandboxRequest{Pod: &api.PodSandbox{Id: "none"}}) != nil {
		continue
	}
}

// again connects the agent again.
func (n *largeNode) again() {
	n.hangUp()
	n.link = n.connect(n.plugin)
}

// step does one thing and says which.
func (n *largeNode) step() string {
	switch kind := n.random.IntN(12); {
	case kind < 3:
		return n.startIsolated()
	case kind < 5:
		return n.start("ordinary", pod(n.t, n.name("s"), n.name("u")))
	case kind < 7:
		sandboxes := slices.DeleteFunc(slices.Sorted(maps.Keys(n.pods)), func(id string) bool { return id == agentPod })
		if len(sandboxes) == 0 {
			return "nothing to end"
		}
		sandbox := n.draw(sandboxes)
		n.finish(sandbox)
		if kind == 5 {
			return "complete " + sandbox
		}
		n.delete(sandbox)
		return "delete " + sandbox
	case kind == 7 && n.link != nil:
		n.hangUp()
		n.link = nil
		return "kill the agent"
	case kind == 7:
		n.begin()
		return "start the agent"
	case kind == 8 && n.link != nil:
		for sandbox := range n.pods {
			n.silent[sandbox] = true
		}
		n.again()
		return "restart the runtime"
	case len(n.containers) == 0:
		return "nothing to change"
	}
	id := n.draw(slices.Sorted(maps.Keys(n.containers)))
	if n.link != nil && n.random.IntN(2) == 0 {
		if err := n.change(id, &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: n.view.Online.String()}}); err != nil {
			n.t.Error(err)
		}
		return "change " + id
	}
	strays := n.view.Online
	if !n.assigned[n.containers[id].PodSandboxId].Empty() {
		strays = strays.Minus(n.view.Isolated)
	}
	n.put(id, strays.String())
	return "move " + id + " without a message"
}

// finish ends the container of a pod and stops its sandbox, unless it is complete already.
func (n *largeNode) finish(sandbox string) {
	if n.complete[sandbox] {
		return
	}
	p := n.pods[sandbox]
	for id, c := range n.containers {
		if c.PodSandboxId == sandbox {
			delete(n.containers, id)
			_, err := n.StopContainer(n.t.Context(), &api.StopContainerRequest{Pod: p, Container: c})
			n.heard(err)
		}
	}
	if !n.silent[sandbox] {
		n.heard(n.StopPodSandbox(n.t.Context(), &api.StopPodSandboxRequest{Pod: p}))
	}
	p.Pid, n.complete[sandbox] = 0, true
}

// delete removes the sandbox of a complete pod.
func (n *largeNode) delete(sandbox string) {
	p := n.pods[sandbox]
	delete(n.pods, sandbox)
	if !n.silent[sandbox] {
		n.heard(n.RemovePodSandbox(n.t.Context(), &api.RemovePodSandboxRequest{Pod: p}))
	}
}

// heard takes the error of an event.
func (n *largeNode) heard(err error) {
	if err != nil {
		n.t.Error(err)
	}
}

// startIsolated starts a pod with one to nine isolated CPUs: those that no pod uses, as the scheduler gives them, or, one time in
// four, some that another pod may use.
func (n *largeNode) startIsolated() string {
	free := n.view.Isolated
	for sandbox := range n.pods {
		if !n.complete[sandbox] {
			free = free.Minus(n.assigned[sandbox])
		}
	}
	from := free
	if n.random.IntN(4) == 0 {
		from = n.view.Isolated
	}
	ids := slices.Collect(each(from))
	if len(ids) == 0 {
		return "no isolated CPU is free"
	}
	n.random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	own := isolated.NewCPUSet(ids[:min(len(ids), 1+n.random.IntN(9))]...)
	p := pod(n.t, n.name("s"), n.name("u"), "main:"+own.String())
	said := n.start("isolated "+own.String(), p)
	if n.link != nil && n.pods[p.Id] == nil && own.Within(free) {
		select {
		case <-n.link.Doubted():
			n.again()
			said += ", connect again, " + n.start("isolated "+own.String(), p)
		default:
		}
		if n.pods[p.Id] == nil {
			n.t.Errorf("%s, and its CPUs are free", said)
		}
	}
	if n.pods[p.Id] != nil {
		n.assigned[p.Id] = own
	}
	return said
}

// start starts a pod's container "main", unless it is refused.
func (n *largeNode) start(kind string, p *api.PodSandbox) string {
	id := strings.Replace(p.Id, "s", "c", 1)
	p.Pid = 1
	adjust, err := n.create(p, id, "main")
	if err != nil {
		return fmt.Sprintf("%s: %s is refused: %v", id, kind, err)
	}
	// Without an answer of the agent the container has all CPUs.
	if adjust.GetLinux().GetResources().GetCpu().GetCpus() == "" {
		n.put(id, n.view.Online.String())
	}
	return id + ": " + kind
}

// neverShared holds at each moment.
func (n *largeNode) neverShared() {
	owners := map[int]string{}
	for id, c := range n.containers {
		if n.assigned[c.PodSandboxId].Empty() {
			continue
		}
		for cpu := range each(n.tree.read(n.t, cgroupOf(c)).Intersect(n.view.Isolated)) {
			if other, taken := owners[cpu]; taken {
				n.t.Errorf("containers %s and %s have CPU %d", id, other, cpu)
			}
			owners[cpu] = id
		}
	}
}

// atRest holds when the agent runs and has looked at the control groups once.
func (n *largeNode) atRest() {
	if n.link == nil {
		n.begin()
	}
	if _, err := n.plugin.Check(n.link); err != nil {
		n.t.Error(err)
	}
	n.neverShared()
	for id, c := range n.containers {
		want := n.assigned[c.PodSandboxId]
		if want.Empty() {
			want = n.view.Online.Minus(n.view.Isolated)
		}
		if at := n.tree.read(n.t, cgroupOf(c)); at != want {
			n.t.Errorf("container %s has CPUs %s, want %s", id, at, want)
		}
	}
}

func (n *largeNode) name(prefix string) string {
	n.made++
	return fmt.Sprint(prefix, n.made)
}

func (n *largeNode) draw(from []string) string { return from[n.random.IntN(len(from))] }

// tree is a tree of control groups below a folder, with the file that says which CPUs a group may use.
type tree struct {
	root    string
	version int
}

// cgroupOf is the directory of a container's group, whose name is one of systemd.
func cgroupOf(c *api.Container) string {
	parts := strings.Split(c.Linux.CgroupsPath, ":")
	slice := strings.TrimSuffix(parts[0], ".slice")
	parent, _, _ := strings.Cut(slice, "-")
	return path.Join(parent+".slice", slice+".slice", parts[1]+"-"+parts[2]+".scope")
}

func (g tree) file(group string) string {
	if g.version == 1 {
		return filepath.Join(g.root, "cpuset", group, "cpuset.effective_cpus")
	}
	return filepath.Join(g.root, group, "cpuset.cpus.effective")
}

func (g tree) write(group, cpus string) error {
	if err := os.MkdirAll(filepath.Dir(g.file(group)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(g.file(group), []byte(cpus+"\n"), 0o644)
}

func (g tree) read(t *testing.T, group string) isolated.CPUSet {
	text, err := os.ReadFile(g.file(group))
	if err != nil {
		t.Error(err)
		return isolated.CPUSet{}
	}
	set, err := isolated.ParseSet(strings.TrimSpace(string(text)))
	if err != nil {
		t.Error(err)
	}
	return set
}

// span is the CPUs from first to last.
func span(first, last int) (set isolated.CPUSet) {
	for id := first; id <= last; id++ {
		set = set.Union(isolated.NewCPUSet(id))
	}
	return set
}

// each yields the CPUs of a set.
func each(set isolated.CPUSet) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for id := set.Next(0); id >= 0; id = set.Next(id + 1) {
			if !yield(id) {
				return
			}
		}
	}
}
