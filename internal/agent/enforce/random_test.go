package enforce

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

// runtime is a runtime that applies every change: its containers have the CPUs it was asked for.
type runtime struct {
	machine    *Enforcer
	pods       []Pod
	containers map[string]*Container
	view       View
	next       int
}

// TestNobodySharesAnIsolatedCPU plays random histories against a simulated runtime, with pods whose assignments overlap as no
// scheduler would make them, and restarts of the agent at any moment. After every step it checks the containers' CPUs in the
// runtime, not in the Enforcer.
func TestNobodySharesAnIsolatedCPU(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		online := isolated.NewCPUSet(0, 1, 2, 3, 4, 5, 6, 7)
		r := &runtime{
			machine: New("n1"), containers: map[string]*Container{}, view: View{Isolated: isolated.NewCPUSet(4, 5, 6, 7), Online: online},
		}
		r.machine.Configure(r.view)
		for i := range rapid.IntRange(1, 6).Draw(t, "pods") {
			r.pods = append(r.pods, r.drawPod(t, i))
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			r.step(t)
			r.check(t)
		}
	})
}

func (r *runtime) drawPod(t *rapid.T, i int) Pod {
	pod := Pod{
		Sandbox: fmt.Sprint("s", i), UID: fmt.Sprint("u", i%4), Namespace: "ns", Name: fmt.Sprint("p", i%4),
		Annotations: map[string]string{},
	}
	if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
		return pod
	}
	// Pods of the same uid have the same assignment: they are one pod.
	first := slices.IndexFunc(r.pods, func(p Pod) bool { return p.UID == pod.UID })
	if first >= 0 {
		pod.Annotations = r.pods[first].Annotations
		return pod
	}
	low := rapid.IntRange(3, 7).Draw(t, "low")
	own := isolated.NewCPUSet(low, min(low+rapid.IntRange(0, 1).Draw(t, "more"), 7))
	a := isolated.Assignment{Version: 1, Node: "n1", UID: pod.UID, CPUs: own, Containers: map[string]isolated.CPUSet{"main": own}}
	text, err := a.Text()
	if err != nil {
		t.Fatal(err)
	}
	pod.Annotations[isolated.AssignedAnnotation], pod.Annotations[isolated.RequestAnnotation] = text, "true"
	return pod
}

func (r *runtime) step(t *rapid.T) {
	pod := &r.pods[rapid.IntRange(0, len(r.pods)-1).Draw(t, "pod")]
	name := rapid.SampledFrom([]string{"main", "proxy"}).Draw(t, "name")
	steps := []string{"create", "create", "update", "stop", "remove", "restart", "shrink"}
	switch rapid.SampledFrom(steps).Draw(t, "step") {
	case "create":
		r.next++
		c := &Container{ID: fmt.Sprint("c", r.next), Sandbox: pod.Sandbox, Name: name, Created: int64(r.next)}
		placed, refusal := r.machine.Create(pod, c)
		if refusal == nil {
			r.containers[c.ID] = c
			c.put(placed)
		}
	case "update":
		if c := r.draw(t); c != nil {
			asked := &Container{ID: c.ID, Sandbox: c.Sandbox, Name: c.Name, CPUs: "0-7"}
			c.put(r.machine.Update(r.podOf(c), asked))
		}
	case "stop":
		if c := r.draw(t); c != nil {
			delete(r.containers, c.ID)
			r.machine.Stop(c.ID)
		}
	case "remove":
		for _, id := range slices.Sorted(maps.Keys(r.containers)) {
			if r.containers[id].Sandbox == pod.Sandbox {
				delete(r.containers, id)
				r.machine.Stop(id)
			}
		}
		r.machine.StopSandbox(pod.Sandbox)
		r.machine.RemoveSandbox(pod.Sandbox)
	case "restart":
		r.machine = New("n1")
		r.machine.Configure(r.view)
		var all []Container
		for _, id := range slices.Sorted(maps.Keys(r.containers)) {
			all = append(all, *r.containers[id])
		}
		moves, _ := r.machine.Synchronize(r.pods, all)
		r.obey(moves)
	case "shrink":
		r.view.Isolated = isolated.NewCPUSet(4, 5, 6, 7)
		if rapid.Bool().Draw(t, "small") {
			r.view.Isolated = isolated.NewCPUSet(4, 5, 6)
		}
		r.machine.Configure(r.view)
		r.obey(r.machine.Outdated(false))
	}
}

func (r *runtime) draw(t *rapid.T) *Container {
	ids := slices.Sorted(maps.Keys(r.containers))
	if len(ids) == 0 {
		return nil
	}
	return r.containers[rapid.SampledFrom(ids).Draw(t, "container")]
}

func (r *runtime) podOf(c *Container) *Pod {
	return &r.pods[slices.IndexFunc(r.pods, func(p Pod) bool { return p.Sandbox == c.Sandbox })]
}

func (r *runtime) obey(changes []Change) {
	for i := range changes {
		r.containers[changes[i].Container].put(changes[i].Placement)
		r.machine.Applied(&changes[i])
	}
}

func (c *Container) put(p Placement) {
	if !p.CPUs.Empty() {
		c.CPUs = p.CPUs.String()
	}
}

// check: no two pods' containers share a CPU if one of them has it exclusively.
func (r *runtime) check(t *rapid.T) {
	for _, id := range slices.Sorted(maps.Keys(r.containers)) {
		c := r.containers[id]
		at, err := isolated.ParseSet(c.CPUs)
		if err != nil || at.Empty() {
			t.Fatalf("%s is on CPUs %q: %v", id, c.CPUs, err)
		}
		in := intentOf("n1", r.podOf(c))
		if in.given == nil || c.Name != "main" || at != in.given.CPUs {
			if both := at.Intersect(r.view.Isolated); !both.Empty() {
				t.Fatalf("%s of %s is on isolated CPUs %s that are not its own", id, c.Sandbox, both)
			}
			continue
		}
		for _, other := range r.containers {
			if r.podOf(other).UID == r.podOf(c).UID {
				continue
			}
			if there, _ := isolated.ParseSet(other.CPUs); !there.Intersect(at).Empty() {
				t.Fatalf("%s of %s has CPUs %s for its own, and %s of %s is on %s", id, c.Sandbox, at, other.ID, other.Sandbox, there)
			}
		}
	}
}
