package scenario

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// isolation is what a node's line says of isolated CPUs.
type isolation struct {
	numa    string
	threads int32
	mode    isolated.Mode
	problem string
}

// read reads one word; done is false when it is about something else.
func (i *isolation) read(w word) (done bool, err error) {
	switch w.key {
	case "isolated":
		i.numa = w.value
	case "threads":
		i.threads, err = number(w)
	case "mode":
		i.mode = isolated.Mode(w.value)
	case "problem":
		i.problem = w.value
	default:
		return false, nil
	}
	return true, err
}

// annotate writes the topology as an agent would. Of each NUMA node the CPUs of the first half have their siblings in the
// second.
func (i *isolation) annotate(node *corev1.Node) error {
	if i.numa == "" {
		return nil
	}
	t := &isolated.Topology{
		Version: 1, Generation: 1, Source: "isolcpus", Mode: isolated.Included, ThreadsPerCore: max(1, int(i.threads)),
	}
	if i.mode != "" {
		t.Mode = i.mode
	}
	if i.problem != "" {
		t.Problems = []string{i.problem}
	}
	for id, list := range strings.Split(i.numa, "/") {
		cpus, err := isolated.ParseSet(list)
		if err != nil {
			return err
		}
		var ids []int
		for cpu := cpus.Next(0); cpu >= 0; cpu = cpus.Next(cpu + 1) {
			ids = append(ids, cpu)
		}
		one := isolated.NUMANode{ID: id, CPUs: cpus}
		for first := range len(ids) / t.ThreadsPerCore {
			var core isolated.CPUSet
			for at := first; at < len(ids); at += len(ids) / t.ThreadsPerCore {
				core = core.Union(isolated.NewCPUSet(ids[at]))
			}
			one.Cores = append(one.Cores, core)
		}
		t.NUMA, t.Isolated = append(t.NUMA, one), t.Isolated.Union(cpus)
	}
	t.Online = t.Isolated
	text, err := t.Text()
	if err != nil {
		return err
	}
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	node.Annotations[isolated.TopologyAnnotation] = text
	return nil
}

// readIsolated reads what a pod wants of isolated CPUs, and which it has.
func (d *draft) readIsolated(w word) bool {
	names := map[string]string{
		"isolcpu": isolated.RequestAnnotation, "smt": isolated.SMTAnnotation, "numa": isolated.NUMAAnnotation,
		"assigned": isolated.AssignedAnnotation,
	}
	name, known := names[w.key]
	if known {
		d.pod.Annotations[name] = w.value
	}
	return known
}

// assign spells out which CPUs a pod has, once it has a UID. What is no list of CPUs stays as it is.
func assign(pod *corev1.Pod) error {
	cpus, err := isolated.ParseSet(pod.Annotations[isolated.AssignedAnnotation])
	if err != nil || cpus.Empty() {
		return nil
	}
	a := &isolated.Assignment{
		Version: 1, Node: pod.Spec.NodeName, UID: string(pod.UID), CPUs: cpus,
		Containers: map[string]isolated.CPUSet{pod.Spec.Containers[0].Name: cpus},
	}
	pod.Annotations[isolated.AssignedAnnotation], err = a.Text()
	return err
}

// heldBy returns the CPUs that stand on a pod or that it is being bound with.
func (s *environment) heldBy(pod *corev1.Pod) (*isolated.Assignment, error) {
	text := pod.Annotations[isolated.AssignedAnnotation]
	if given := s.given[pod.UID]; given != nil {
		text = given[isolated.AssignedAnnotation]
	}
	if text == "" {
		return nil, nil
	}
	held, err := isolated.ParseAssignment(text)
	if err == nil && held.UID != string(pod.UID) {
		return nil, nil // it was another one's
	}
	return held, err
}

// checkIsolated sees that the pods which a cycle has bound hold CPUs that the node isolates and that no other pod there holds,
// as many as they ask for, and that a pod which asks for none holds none.
func (s *environment) checkIsolated(name string, fresh map[types.UID]bool) error {
	topology, err := isolated.ParseTopology(s.world.nodes[name].Annotations[isolated.TopologyAnnotation])
	if err != nil {
		topology = &isolated.Topology{}
	}
	var all isolated.CPUSet
	for _, bound := range []bool{false, true} {
		for _, pod := range s.world.pods {
			if s.nodeOf(pod) != name || fresh[pod.UID] != bound || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
				continue
			}
			held, err := s.heldBy(pod)
			switch {
			case err != nil || held == nil && !(bound && isolated.AskedBy(pod).Wants()):
				continue // not of ours, or none
			case held == nil:
				return fmt.Errorf("pod %s asks for isolated CPUs, and is bound without any", pod.Name)
			case bound && (!isolated.AskedBy(pod).Wants() || !held.CPUs.Within(topology.Isolated) || !held.CPUs.Intersect(all).Empty()):
				return fmt.Errorf("pod %s is given CPUs %s of %s, of which others hold %s", pod.Name, held.CPUs, topology.Isolated, all)
			}
			all = all.Union(held.CPUs)
		}
	}
	return nil
}

// freeCPUs writes which isolated CPUs no pod holds, and how many more are about to be free.
func freeCPUs(node *model.Node) string {
	if node.Isolated == nil {
		return ""
	}
	free := node.Isolated.Isolated.Minus(node.HeldCPUs(false))
	text := " isolated=" + free.String()
	if free.Empty() {
		text += "none"
	}
	if soon := node.Isolated.Isolated.Minus(node.HeldCPUs(true)); soon != free {
		text += "(+" + soon.Minus(free).String() + ")"
	}
	return text
}
