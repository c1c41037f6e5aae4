package isolated

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Resource is the dimension in which isolated CPUs are counted, one each. It is never published.
const Resource corev1.ResourceName = "isolcpu.tutti.dev/cpu"

// Request is a pod's request of both CPU pools of a node.
//
// Invariant: 1000·Count + SharedCPU is at least what the kubelet counts for the pod, since the peaks of the two pools add up
// to no less than the peak of both together.
type Request struct {
	Policies
	// Count is how many isolated CPUs the containers run on, at most at any time.
	Count int
	// SharedCPU is the pod's request of ordinary CPU, in thousandths of a core, its overhead included.
	SharedCPU int64

	// parts are the containers that run on isolated CPUs, in the order in which they start.
	parts []part
}

// part is one container that runs on isolated CPUs.
type part struct {
	name string
	cpus int
	// Containers with initial set end before the next begins; sidecars stay.
	initial, sidecar bool
	// shares reports whether it has no CPUs of its own, but those that the pod-level request exceeds the other containers by.
	shares bool
}

// CPUsHeld is how many ids the pod holds: those it runs on, and their idle sibling threads.
func (r *Request) CPUsHeld() int { return r.Count * r.ThreadsPerCPU() }

// ThreadsPerCPU is how many ids are held for each CPU that a pod runs on.
func (p Policies) ThreadsPerCPU() int {
	if p.SMT == OnePerCore {
		return threadsOfOnePerCore
	}
	return 1
}

// threadsOfOnePerCore is how many threads a core must have for OnePerCore: what a pod is charged must not depend on the node.
const threadsOfOnePerCore = 2

// parse divides the request of a pod between the pools, by the text that names its containers.
func (a *Asked) parse(text string, spec *corev1.PodSpec) (*Request, error) {
	selected, err := selectedBy(text, spec)
	switch {
	case err != nil:
		return nil, err
	case a.unread != nil:
		return nil, a.unread
	case a.unclear != nil:
		return nil, a.unclear
	}
	r := &Request{Policies: a.policies}
	whole, shared := podLevel(spec)
	if r.parts, err = partsOf(spec, selected, shared); err != nil {
		return nil, err
	}
	of := func(isolated bool) func(*corev1.Container) int64 {
		return func(c *corev1.Container) int64 {
			if selected[c.Name] != isolated {
				return 0
			}
			return milli(c.Resources.Requests.Cpu())
		}
	}
	r.Count = int(peak(spec, of(true)) / 1000)
	r.SharedCPU = peak(spec, of(false))
	if shared {
		if err := r.share(whole); err != nil {
			return nil, err
		}
	}
	if r.CPUsHeld() > Limit {
		return nil, fmt.Errorf("%d isolated CPUs: at most %d are supported", r.CPUsHeld(), Limit)
	}
	r.SharedCPU += milli(spec.Overhead.Cpu())
	return r, nil
}

// selectedBy returns the names of the containers that the annotation selects.
func selectedBy(text string, spec *corev1.PodSpec) (map[string]bool, error) {
	selected := map[string]bool{}
	if text == "true" {
		for i := range spec.Containers {
			selected[spec.Containers[i].Name] = true
		}
		return selected, nil
	}
	known := map[string]bool{}
	for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			known[containers[i].Name] = true
		}
	}
	for name := range strings.SplitSeq(text, ",") {
		switch name = strings.TrimSpace(name); {
		case name == "":
			return nil, fmt.Errorf(`%s is %q, and must be "true" or names of containers`, RequestAnnotation, text)
		case !known[name]:
			return nil, fmt.Errorf("unknown container %q in %s", name, RequestAnnotation)
		}
		selected[name] = true
	}
	return selected, nil
}

// partsOf lists the selected containers, the first to start first, each of which must request whole CPUs; and the others if
// these share the rest.
func partsOf(spec *corev1.PodSpec, selected map[string]bool, shared bool) ([]part, error) {
	var parts []part
	add := func(c *corev1.Container, initial bool) error {
		sidecar := initial && restarts(c)
		p := part{name: c.Name, initial: initial && !sidecar, sidecar: sidecar, shares: !selected[c.Name]}
		if request := c.Resources.Requests.Cpu(); !p.shares {
			if !integral(request) {
				return fmt.Errorf("cpu request not integral: container %q asks for %s", c.Name, request)
			}
			p.cpus = int(request.Value())
		}
		if !p.shares || shared {
			parts = append(parts, p)
		}
		return nil
	}
	for i := range spec.InitContainers {
		if err := add(&spec.InitContainers[i], true); err != nil {
			return nil, err
		}
	}
	for i := range spec.Containers {
		if err := add(&spec.Containers[i], false); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// integral reports whether an amount is a whole number of CPUs, at most Limit.
func integral(amount *resource.Quantity) bool {
	most := resource.NewQuantity(Limit, resource.DecimalSI)
	return amount.Sign() > 0 && amount.Cmp(*most) <= 0 && amount.CmpInt64(amount.Value()) == 0
}

// milli returns an amount in thousandths, capped so that sums do not overflow.
func milli(amount *resource.Quantity) int64 {
	const most = 1 << 50
	if amount.Cmp(*resource.NewMilliQuantity(most, resource.DecimalSI)) > 0 {
		return most
	}
	return max(0, amount.MilliValue())
}

func restarts(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// peak returns the peak of an amount over time: all application containers together with the sidecars, or one init container
// together with the sidecars that started before it.
func peak(spec *corev1.PodSpec, of func(*corev1.Container) int64) int64 {
	var sidecars, initial, apps int64
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if restarts(c) {
			sidecars += of(c)
			initial = max(initial, sidecars)
		} else {
			initial = max(initial, sidecars+of(c))
		}
	}
	for i := range spec.Containers {
		apps += of(&spec.Containers[i])
	}
	return max(apps+sidecars, initial)
}

// podLevel returns the pod-level CPU request; set is false when there is none.
func podLevel(spec *corev1.PodSpec) (whole resource.Quantity, set bool) {
	if spec.Resources == nil {
		return resource.Quantity{}, false
	}
	whole, set = spec.Resources.Requests[corev1.ResourceCPU]
	return whole, set
}

// share handles a pod-level request: all of it is isolated, and containers that are not selected share what the others leave.
func (r *Request) share(whole resource.Quantity) error {
	if !integral(&whole) {
		return fmt.Errorf("cpu request not integral: the pod as a whole asks for %s", whole.String())
	}
	if int64(r.Count) > whole.Value() {
		return fmt.Errorf("containers ask for %d isolated CPUs, the pod as a whole for %s", r.Count, whole.String())
	}
	r.Count, r.SharedCPU = int(whole.Value()), 0
	left := r.Count - r.concurrentWithShared()
	for i := range r.parts {
		if p := &r.parts[i]; p.shares {
			if p.cpus = left; left == 0 {
				return fmt.Errorf("the pod as a whole asks for %s CPUs, which leaves none for container %q", whole.String(), p.name)
			}
		}
	}
	return nil
}

// concurrentWithShared returns the peak of CPUs of the selected containers while a container that shares may run, too: in the
// end, or while an init container runs after a sidecar that shares.
func (r *Request) concurrentWithShared() int {
	lasting, started, initial, sharing := 0, 0, 0, false
	for _, p := range r.parts {
		switch {
		case p.shares:
			sharing = sharing || p.sidecar
		case p.initial && sharing:
			initial = max(initial, started+p.cpus)
		case p.initial:
		case p.sidecar:
			started += p.cpus
			fallthrough
		default:
			lasting += p.cpus
		}
	}
	return max(lasting, initial)
}

// Partition divides the pod's ids among its containers on isolated CPUs. Sidecars and application containers have theirs
// exclusively; an init container uses those that no sidecar started before it has.
func (r *Request) Partition(t *Topology, held CPUSet) map[string]CPUSet {
	usable := held
	if r.SMT == OnePerCore {
		usable = firstThreads(t, held)
	}
	sets := map[string]CPUSet{}
	left := usable
	for _, sidecars := range []bool{true, false} {
		for _, p := range r.parts {
			if p.initial || p.shares || p.sidecar != sidecars {
				continue
			}
			taken, _ := Pick(t, left, p.cpus, Policies{})
			sets[p.name], left = taken, left.Minus(taken)
		}
	}
	started := CPUSet{}
	for _, p := range r.parts {
		switch {
		case p.shares:
			sets[p.name], _ = Pick(t, left, p.cpus, Policies{}) // deterministic
		case p.initial:
			sets[p.name], _ = Pick(t, usable.Minus(started), p.cpus, Policies{})
		}
		if p.sidecar {
			started = started.Union(sets[p.name])
		}
	}
	return sets
}

// firstThreads returns the lowest id of each core that has one in the set.
func firstThreads(t *Topology, ids CPUSet) CPUSet {
	var first CPUSet
	for i := range t.NUMA {
		for _, core := range t.NUMA[i].Cores {
			if id := core.Intersect(ids).Next(0); id >= 0 {
				first = first.Union(NewCPUSet(id))
			}
		}
	}
	return first
}
