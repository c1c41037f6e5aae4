// Package enforce decides which CPUs each container of a node runs on, and which containers may not run at all.
//
// It is a state machine without I/O: the container runtime's events go in, placements, refusals and changes come out. It is
// for one caller at a time. Its state comes from the runtime alone, so that a restart loses nothing: Synchronize rebuilds it.
// It trusts no scheduler: no two pods get the same CPU, whichever scheduler assigned it.
//
//	           Create of a container           the sandbox has stopped and none of its
//	           with isolated CPUs              containers runs, or it is removed
//	CPU free ─────────────────────► CPU held ─────────────────────────────────────────► CPU free
//	                                by a pod's sandbox; containers of it
//	                                stop and start again without releasing it
//
// Invariant: the CPUs that sandboxes of different pods hold are disjoint.
// Invariant: no container is placed on isolated CPUs that its pod does not hold, and no ordinary one on any.
// Invariant: creating, updating or ending one container moves no other one, as long as the isolated CPUs stay the same.
package enforce

import (
	"fmt"
	"maps"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

// Pod is a pod's sandbox as the runtime reports it.
type Pod struct {
	// Sandbox is its id.
	Sandbox              string
	UID, Namespace, Name string
	// Annotations are those that the pod had when the sandbox was made.
	Annotations map[string]string
	// Stopped reports whether the sandbox has ended: no container starts in it again.
	Stopped bool
}

// Container is a container as the runtime reports it.
type Container struct {
	ID, Sandbox, Name string
	// CPUs is its cpuset in the kernel's list format; empty means all.
	CPUs string
	// Limited reports whether a CFS quota limits it.
	Limited bool
	// Cgroup is the path of its cgroup, as the runtime writes it.
	Cgroup string
	// Created is the creation time, in nanoseconds.
	Created int64
	// Stopped reports whether it has ended for good.
	Stopped bool
}

// View is what is enforced: the node's CPUs as published.
type View struct {
	Isolated, Online isolated.CPUSet
	NUMA             []isolated.NUMANode
	// Closed is why no container may start on isolated CPUs; empty when they may. A closed node leaves ordinary containers alone.
	Closed string
}

// Placement is the CPUs of a container.
type Placement struct {
	// CPUs are its cpuset; an empty one leaves the container as it is.
	CPUs isolated.CPUSet
	// Isolated reports whether the CPUs are its own; then no quota may limit it.
	Isolated bool
	// NUMA are the NUMA nodes of its own CPUs.
	NUMA isolated.CPUSet
}

// Change is a container that must move to other CPUs.
type Change struct {
	// Container is its id, Name its name in the pod.
	Container, Name string
	Placement       Placement
	// Pod is the container's pod.
	Pod Pod
	// Cgroup is its cgroup, to read its CPUs from the kernel.
	Cgroup string
}

// Conflict is a running container that must not have the CPUs it was assigned.
type Conflict struct {
	Pod       Pod
	Container string
	Refusal   *Refusal
}

// Enforcer is the state. The zero Enforcer cannot be used; see New.
type Enforcer struct {
	node      string
	view      View
	sandboxes map[string]*sandbox
	// containers are those that may run, by id.
	containers map[string]*container
}

type sandbox struct {
	pod Pod
	// holds are the isolated CPUs held for it, with or without running containers.
	holds isolated.CPUSet
	// live counts its containers that may run.
	live int
	// stopped reports whether it takes no new containers.
	stopped bool
}

type container struct {
	id, name, cgroup string
	sandbox          *sandbox
	// assigned are the isolated CPUs that it runs on; empty for an ordinary container.
	assigned isolated.CPUSet
	// applied is the cpuset that the runtime was last asked for, or reported.
	applied isolated.CPUSet
}

// New returns the Enforcer of the node with that name, closed until Configure is called.
func New(node string) *Enforcer {
	m := &Enforcer{node: node, view: View{Closed: "the agent has not read the machine's CPUs yet"}}
	m.forget()
	return m
}

func (m *Enforcer) forget() {
	m.sandboxes, m.containers = map[string]*sandbox{}, map[string]*container{}
}

// Configure sets what is enforced from now on. Containers keep the CPUs they hold, also those that are no longer isolated;
// Outdated returns the containers that must move.
func (m *Enforcer) Configure(view View) {
	m.view = view
}

// Create decides about a container before it exists. A refusal means that it must not start.
func (m *Enforcer) Create(pod *Pod, c *Container) (Placement, *Refusal) {
	own, refusal := m.admit(pod, c.Name)
	if refusal != nil {
		return Placement{}, refusal
	}
	s := m.sandbox(pod)
	in := intentOf(m.node, pod)
	if !own.Empty() {
		s.holds = in.given.CPUs
	}
	placed := m.placement(own)
	m.add(s, c, own, placed.CPUs)
	return placed, nil
}

// admit returns the isolated CPUs of a new container, none for an ordinary one.
func (m *Enforcer) admit(pod *Pod, name string) (isolated.CPUSet, *Refusal) {
	in := intentOf(m.node, pod)
	switch {
	case !in.selectsContainer(name):
		return isolated.CPUSet{}, nil
	case in.why != nil:
		return isolated.CPUSet{}, in.why
	case m.view.Closed != "":
		return isolated.CPUSet{}, refuse(Closed, "%s", m.view.Closed)
	}
	own, all := in.given.Containers[name], in.given.CPUs
	if own.Empty() {
		return isolated.CPUSet{}, refuse(Malformed, "the assignment has no CPUs for container %s", name)
	}
	if !all.Within(m.view.Isolated) {
		return isolated.CPUSet{}, refuse(Outside, "CPUs %s are not isolated and online here; isolated are %q",
			all.Minus(m.view.Isolated), m.view.Isolated)
	}
	return own, m.overlap(pod, all)
}

// overlap returns a refusal if another pod holds one of the CPUs. Two sandboxes of one pod may hold the same: the kubelet
// makes a new one when the old one has failed. The refusal becomes an event in the pod's namespace, so it names no pod of another
// one.
func (m *Enforcer) overlap(pod *Pod, cpus isolated.CPUSet) *Refusal {
	var found *sandbox
	for _, s := range m.sandboxes {
		if s.pod.UID != pod.UID && !s.holds.Intersect(cpus).Empty() && (found == nil || s.pod.Sandbox < found.pod.Sandbox) {
			found = s
		}
	}
	if found == nil {
		return nil
	}
	holder := fmt.Sprintf("sandbox %s of pod %s/%s (uid %s)", found.pod.Sandbox, found.pod.Namespace, found.pod.Name, found.pod.UID)
	if found.pod.Namespace != pod.Namespace && found.pod.Namespace != "" {
		holder = "a pod of another namespace"
	}
	refusal := refuse(Overlap, "CPUs %s are held by %s", found.holds.Intersect(cpus), holder)
	refusal.Idle = found.live == 0
	return refusal
}

// Update decides about a container whose resources the kubelet changes: its CPUs stay the same.
func (m *Enforcer) Update(pod *Pod, c *Container) Placement {
	known := m.containers[c.ID]
	if known == nil {
		// Its creation was not seen, nor was it in the last Synchronize. It runs already, so that it cannot be refused.
		own, refusal := m.admit(pod, c.Name)
		if refusal != nil {
			own = isolated.CPUSet{}
		}
		known = m.add(m.sandbox(pod), c, own, isolated.CPUSet{})
		if !own.Empty() {
			known.sandbox.holds = intentOf(m.node, pod).given.CPUs
		}
	}
	placed := m.placement(known.assigned)
	if placed.CPUs.Empty() {
		known.applied, _ = isolated.ParseSet(c.CPUs)
	} else {
		known.applied = placed.CPUs
	}
	return placed
}

// Stop ends a container. Its pod keeps the CPUs, for the next container of that name, unless the sandbox has stopped before.
func (m *Enforcer) Stop(id string) {
	c := m.containers[id]
	if c == nil {
		return
	}
	delete(m.containers, id)
	c.sandbox.live--
	c.sandbox.release()
}

// StopSandbox ends a sandbox. Its CPUs are free when none of its containers runs; a container that the runtime has not
// reported as stopped may still run.
func (m *Enforcer) StopSandbox(id string) {
	if s := m.sandboxes[id]; s != nil {
		s.stopped = true
		s.release()
	}
}

func (s *sandbox) release() {
	if s.stopped && s.live == 0 {
		s.holds = isolated.CPUSet{}
	}
}

// RemoveSandbox removes a sandbox and all its containers.
func (m *Enforcer) RemoveSandbox(id string) {
	maps.DeleteFunc(m.containers, func(_ string, c *container) bool { return c.sandbox.pod.Sandbox == id })
	delete(m.sandboxes, id)
}

// Counts returns how many containers run, and how many isolated CPUs are held.
func (m *Enforcer) Counts() (containers, held int) {
	return len(m.containers), m.held().Len()
}

func (m *Enforcer) sandbox(pod *Pod) *sandbox {
	s := m.sandboxes[pod.Sandbox]
	if s == nil {
		s = &sandbox{pod: *pod, stopped: pod.Stopped}
		m.sandboxes[pod.Sandbox] = s
	}
	return s
}

func (m *Enforcer) add(s *sandbox, c *Container, own, applied isolated.CPUSet) *container {
	if old := m.containers[c.ID]; old != nil {
		old.sandbox.live--
	}
	added := &container{id: c.ID, name: c.Name, cgroup: c.Cgroup, sandbox: s, assigned: own, applied: applied}
	m.containers[c.ID] = added
	s.live++
	return added
}

// held returns the CPUs that sandboxes hold.
func (m *Enforcer) held() isolated.CPUSet {
	var all isolated.CPUSet
	for _, s := range m.sandboxes {
		all = all.Union(s.holds)
	}
	return all
}

// ordinary returns the CPUs of ordinary containers; empty when they are to be left alone. A held CPU counts as isolated until
// it is released, also when it no longer is. As long as the isolated CPUs stay the same that makes no difference.
func (m *Enforcer) ordinary() isolated.CPUSet {
	if m.view.Closed != "" || m.view.Isolated.Empty() {
		return isolated.CPUSet{}
	}
	return m.view.Online.Minus(m.view.Isolated).Minus(m.held())
}

func (m *Enforcer) placement(own isolated.CPUSet) Placement {
	if own.Empty() {
		return Placement{CPUs: m.ordinary()}
	}
	placed := Placement{CPUs: own, Isolated: true}
	for i := range m.view.NUMA {
		if node := &m.view.NUMA[i]; !node.CPUs.Intersect(own).Empty() {
			placed.NUMA = placed.NUMA.Union(isolated.NewCPUSet(node.ID))
		}
	}
	return placed
}
