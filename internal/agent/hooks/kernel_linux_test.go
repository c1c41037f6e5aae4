package hooks

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"golang.org/x/sys/unix"

	"github.com/tutti-sched/tutti/internal/agent/enforce"
	"github.com/tutti-sched/tutti/pkg/isolated"
)

// TestTheKernelKeepsThemThere carries out the changes for the runtime on real processes, and reads from the kernel where they
// may run: after creation, after a forged request of the kubelet, and after a restart of the agent with all processes on the
// wrong CPUs.
//
// As root with control groups of either version, the processes are put in cpusets, as a runtime does; elsewhere their
// affinity is set, which the kernel shows in the same place.
func TestTheKernelKeepsThemThere(t *testing.T) {
	here := lastIsolated(t)
	machine, own, ordinary := here.Online, here.Isolated, here.Online.Minus(here.Isolated)
	r, k := newRuntime(t), newKernel(t)
	r.put = k.put
	h, _ := newHooks(t, nil)
	h.Enforce(here)
	link := r.connect(h)
	isolatedPod := pod(t, "s1", "u1", "main:"+own.String())
	containers := map[string]isolated.CPUSet{"c1": own, "c2": ordinary, "c3": ordinary}
	for id := range containers {
		k.start(id)
	}
	expect := func(when string) {
		t.Helper()
		for id, want := range containers {
			if at := allowed(t, k.processes[id]); at != want {
				t.Errorf("%s: container %s may run on CPUs %s, want %s", when, id, at, want)
			}
		}
	}
	mustCreate(t, r, isolatedPod, "c1", "main")
	mustCreate(t, r, isolatedPod, "c2", "proxy")
	mustCreate(t, r, pod(t, "s2", "u2"), "c3", "main")
	expect("created")

	for id := range containers {
		if err := r.change(id, &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: machine.String()}}); err != nil {
			t.Fatal(err)
		}
	}
	expect("changed by the kubelet")

	link.Close()
	for id := range containers {
		k.put(id, machine.String())
		r.containers[id].Linux.Resources.Cpu.Cpus = machine.String()
		if at := allowed(t, k.processes[id]); at != machine {
			t.Fatalf("container %s is on CPUs %s and cannot be led astray", id, at)
		}
	}
	again, _ := newHooks(t, nil)
	again.Enforce(here)
	link = r.connect(again)
	expect("after a restart")

	// Moved without a message: the kernel's files show it.
	if k.root == "" {
		t.Skip("the rest needs control groups, which cannot be made here")
	}
	watching, _ := newHooks(t, func(o *Options) { o.Cgroups = os.DirFS(k.root) })
	watching.Enforce(here)
	for id := range containers {
		r.containers[id].Linux.CgroupsPath = k.cgroup(id)
	}
	link.Close()
	link = r.connect(watching)
	for id := range containers {
		k.put(id, machine.String())
	}
	if moved, err := watching.Check(link); err != nil || moved != len(containers) {
		t.Errorf("moved %d, %v, want all", moved, err)
	}
	expect("after a check")
}

// lastIsolated is this machine as if its last CPU were isolated.
func lastIsolated(t *testing.T) enforce.View {
	t.Helper()
	machine := allowed(t, os.Getpid())
	if machine.Len() < 2 {
		t.Skipf("needs two CPUs, and has %s", machine)
	}
	last := machine.Next(0)
	for id := last; id >= 0; id = machine.Next(id + 1) {
		last = id
	}
	return enforce.View{Online: machine, Isolated: isolated.NewCPUSet(last)}
}

// allowed returns the CPUs on which the kernel lets a process run.
func allowed(t *testing.T, pid int) isolated.CPUSet {
	t.Helper()
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if list, is := strings.CutPrefix(lines.Text(), "Cpus_allowed_list:"); is {
			set, err := isolated.ParseSet(strings.TrimSpace(list))
			if err != nil {
				t.Fatal(err)
			}
			return set
		}
	}
	t.Fatalf("process %d has no Cpus_allowed_list", pid)
	return isolated.CPUSet{}
}

// kernel runs a process per container.
type kernel struct {
	t         *testing.T
	processes map[string]int
	// root is where control groups are mounted, and group our group below it; empty where none can be written.
	root, group string
	// inherited are the files of a new group that must be copied from its parent, as version 1 requires.
	inherited []string
}

// newKernel makes a control group of either version; where that fails, it sets affinities instead.
func newKernel(t *testing.T) *kernel {
	const root = "/sys/fs/cgroup"
	k := &kernel{t: t, processes: map[string]int{}}
	parent := root
	controllers, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	switch {
	case err == nil && slices.Contains(strings.Fields(string(controllers)), "cpuset"):
		// An error shows below: then a group there has no cpuset.
		_ = os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+cpuset"), 0o644)
	default:
		parent, k.inherited = filepath.Join(root, "cpuset"), []string{"cpuset.mems", "cpuset.cpus"}
		if _, err := os.Stat(filepath.Join(parent, "cpuset.mems")); err != nil {
			t.Logf("no cpuset hierarchy, affinities are set instead: %v", err)
			return k
		}
	}
	group, err := os.MkdirTemp(parent, "tutti-test-")
	if err != nil {
		t.Logf("control groups cannot be made here, affinities are set instead: %v", err)
		return k
	}
	t.Cleanup(func() {
		if err := os.Remove(group); err != nil {
			t.Error(err)
		}
	})
	if k.inherited == nil {
		if err := os.WriteFile(filepath.Join(group, "cgroup.subtree_control"), []byte("+cpuset"), 0o644); err != nil {
			t.Logf("control groups have no cpusets here, affinities are set instead: %v", err)
			return k
		}
	}
	k.root, k.group = root, strings.TrimPrefix(group, root+"/")
	k.inherit("")
	return k
}

// inherit copies what a group needs from its parent.
func (k *kernel) inherit(id string) {
	k.t.Helper()
	for _, file := range k.inherited {
		text, err := os.ReadFile(filepath.Join(k.root, filepath.Dir(filepath.Join(k.group, id)), file))
		if err != nil {
			k.t.Fatal(err)
		}
		k.write(id, file, string(text))
	}
}

// cgroup returns the path of a container's group as a runtime writes it.
func (k *kernel) cgroup(id string) string {
	return "/" + filepath.Join(strings.TrimPrefix(k.group, "cpuset/"), id)
}

func (k *kernel) write(id, file, text string) {
	k.t.Helper()
	if err := os.WriteFile(filepath.Join(k.root, k.group, id, file), []byte(text), 0o644); err != nil {
		k.t.Fatal(err)
	}
}

// start starts the process of a container, which waits until the test is over.
func (k *kernel) start(id string) {
	k.t.Helper()
	k.run(id, false, "cat")
}

// spin starts the process of a container, which is busy from then on, and is killed when the test is over.
func (k *kernel) spin(id string) {
	k.t.Helper()
	k.run(id, true, "sh", "-c", "read go; while :; do :; done")
}

// run starts the process of a container, and lets it continue when it is in its group. One that is not to be killed ends with
// its input.
func (k *kernel) run(id string, kill bool, command ...string) {
	k.t.Helper()
	process := exec.Command(command[0], command[1:]...)
	hold, err := process.StdinPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		k.t.Fatal(err)
	}
	k.processes[id] = process.Process.Pid
	directory := filepath.Join(k.root, k.group, id)
	k.t.Cleanup(func() {
		hold.Close()
		if kill {
			_ = process.Process.Kill()
		}
		if err := process.Wait(); err != nil && !kill {
			k.t.Error(err)
		}
		if k.root != "" {
			if err := os.Remove(directory); err != nil {
				k.t.Error(err)
			}
		}
	})
	if k.root != "" {
		if err := os.Mkdir(directory, 0o755); err != nil {
			k.t.Fatal(err)
		}
		k.inherit(id)
		k.write(id, "cgroup.procs", fmt.Sprint(process.Process.Pid))
	}
	if _, err := hold.Write([]byte("go\n")); err != nil {
		k.t.Fatal(err)
	}
}

func (k *kernel) put(id, cpus string) {
	k.t.Helper()
	if k.root != "" {
		k.write(id, "cpuset.cpus", cpus)
		return
	}
	list, err := isolated.ParseSet(cpus)
	if err != nil {
		k.t.Fatal(err)
	}
	var mask unix.CPUSet
	for id := list.Next(0); id >= 0; id = list.Next(id + 1) {
		mask.Set(id)
	}
	if err := unix.SchedSetaffinity(k.processes[id], &mask); err != nil {
		k.t.Fatal(err)
	}
}
