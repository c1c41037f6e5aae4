package enforce

import (
	"cmp"
	"slices"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

// Synchronize drops all state and takes over the runtime's. It returns the containers that must move, in the order of their
// ids, and the running ones that must not have the CPUs they were assigned. Those move to ordinary CPUs: it is too late to
// refuse them, but they must not disturb others. Containers that have stopped are in neither.
//
// Where two pods run on the same CPU, which no agent allowed, the container that was created first keeps it.
func (m *Enforcer) Synchronize(pods []Pod, containers []Container) ([]Change, []Conflict) {
	m.forget()
	byID := make(map[string]*Pod, len(pods))
	for i := range pods {
		byID[pods[i].Sandbox] = &pods[i]
	}
	running := make([]*Container, 0, len(containers))
	for i := range containers {
		if !containers[i].Stopped {
			running = append(running, &containers[i])
		}
	}
	slices.SortFunc(running, func(a, b *Container) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.ID, b.ID))
	})
	var conflicts []Conflict
	for _, c := range running {
		known, conflict := m.restore(byID[c.Sandbox], c)
		if conflict != nil {
			conflicts = append(conflicts, *conflict)
		}
		at, err := isolated.ParseSet(c.CPUs)
		if known.applied = at; err != nil || c.Limited && !known.assigned.Empty() {
			known.applied = isolated.CPUSet{} // to be moved, whatever the runtime reports
		}
	}
	m.reserveForRestart(pods)
	return m.Outdated(false), conflicts
}

// restore takes over a running container; pod is nil where the runtime does not report its sandbox. Unlike a new one, it keeps
// CPUs that are no longer isolated, and those on a closed node: its process runs there.
func (m *Enforcer) restore(pod *Pod, c *Container) (*container, *Conflict) {
	if pod == nil {
		return m.restoreOrphan(c), nil
	}
	in := intentOf(m.node, pod)
	s := m.sandbox(pod)
	if !in.selectsContainer(c.Name) {
		return m.add(s, c, isolated.CPUSet{}, isolated.CPUSet{}), nil
	}
	why := in.why
	var own isolated.CPUSet
	if why == nil {
		if own = in.given.Containers[c.Name]; own.Empty() {
			why = refuse(Malformed, "the assignment has no CPUs for container %s", c.Name)
		} else {
			why = m.overlap(pod, in.given.CPUs)
		}
	}
	if why != nil {
		return m.add(s, c, isolated.CPUSet{}, isolated.CPUSet{}), &Conflict{Pod: *pod, Container: c.Name, Refusal: why}
	}
	s.holds = in.given.CPUs
	return m.add(s, c, own, isolated.CPUSet{}), nil
}

// restoreOrphan takes over a container whose sandbox the runtime does not report. Its assignment is unknown; the isolated
// CPUs in its cpuset are held for it, and it stays there.
func (m *Enforcer) restoreOrphan(c *Container) *container {
	at, err := isolated.ParseSet(c.CPUs)
	own := at.Intersect(m.view.Isolated)
	if err != nil || own != at {
		own = isolated.CPUSet{} // on ordinary CPUs as well: it has none of its own
	}
	s := m.sandbox(&Pod{Sandbox: c.Sandbox, UID: "unknown, of sandbox " + c.Sandbox})
	if !own.Empty() && m.overlap(&s.pod, own) != nil {
		own = isolated.CPUSet{}
	}
	s.holds = s.holds.Union(own)
	return m.add(s, c, own, isolated.CPUSet{})
}

// reserveForRestart holds the CPUs of sandboxes in which no container with assigned CPUs runs: it will start again. A sandbox
// that has stopped, and one whose CPUs are in use by others, gets none. The runtime reports a stopped sandbox as long as its pod
// exists, such as that of a Job which is complete.
func (m *Enforcer) reserveForRestart(pods []Pod) {
	for _, pod := range slices.SortedFunc(slices.Values(pods), func(a, b Pod) int { return cmp.Compare(a.Sandbox, b.Sandbox) }) {
		in := intentOf(m.node, &pod)
		if s := m.sandboxes[pod.Sandbox]; in.given == nil || pod.Stopped || s != nil && !s.holds.Empty() {
			continue
		}
		if m.overlap(&pod, in.given.CPUs) == nil {
			m.sandbox(&pod).holds = in.given.CPUs
		}
	}
}

// Outdated returns the containers whose CPUs the runtime was not yet asked to change, or all of them, to compare with the
// kernel. They are in the order of their ids, without those that are to be left alone.
func (m *Enforcer) Outdated(all bool) []Change {
	var changes []Change
	for _, c := range m.containers {
		placed := m.placement(c.assigned)
		if !placed.CPUs.Empty() && (all || c.applied != placed.CPUs) {
			changes = append(changes, Change{Container: c.id, Name: c.name, Placement: placed, Pod: c.sandbox.pod, Cgroup: c.cgroup})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return cmp.Compare(a.Container, b.Container) })
	return changes
}

// Applied records that the runtime carried a change out.
func (m *Enforcer) Applied(change *Change) {
	if c := m.containers[change.Container]; c != nil {
		c.applied = change.Placement.CPUs
	}
}
