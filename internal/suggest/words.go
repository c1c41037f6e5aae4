package suggest

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// granularity is in what units an amount to free is given: whole MiB of memory and of disk.
func granularity(position int) int64 {
	if position == model.Memory || position == model.EphemeralStorage {
		return 1 << 20
	}
	return 1
}

func rounding(position int, amount int64) int64 {
	unit := granularity(position)
	return (amount + unit - 1) / unit * unit
}

func rounded(amount model.Resources) model.Resources {
	whole := amount.Clone()
	for position := range whole {
		whole[position] = rounding(position, whole[position])
	}
	return whole
}

// listed joins words: "a, b and c".
func listed(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// fewNodes is up to how many nodes are named.
const fewNodes = 3

// freed says "free 3 nvidia.com/gpu on node n7".
func freed(dimensions *model.ResourceIndex, rooms []NodeAmount) *Change {
	c := &Change{Kind: Free, Rooms: rooms}
	same := !slices.ContainsFunc(rooms, func(room NodeAmount) bool { return !room.Amount.Equal(rooms[0].Amount) })
	switch {
	case len(rooms) == 1:
		c.words = fmt.Sprintf("free %s on node %s", dimensions.Format(rooms[0].Amount), rooms[0].Node)
	case same:
		c.words = fmt.Sprintf("free %s on each of the nodes %s", dimensions.Format(rooms[0].Amount), named(rooms))
	case len(rooms) <= fewNodes:
		var parts []string
		for _, room := range rooms {
			parts = append(parts, fmt.Sprintf("%s on node %s", dimensions.Format(room.Amount), room.Node))
		}
		c.words = "free " + listed(parts)
	default:
		var sum model.Resources
		for _, room := range rooms {
			sum.Add(room.Amount)
		}
		c.words = fmt.Sprintf("free %s in all on the nodes %s", dimensions.Format(sum), named(rooms))
	}
	return c
}

// named names up to a few of the nodes.
func named(rooms []NodeAmount) string {
	var names []string
	for _, room := range rooms[:min(len(rooms), fewNodes)] {
		names = append(names, room.Node)
	}
	if more := len(rooms) - fewNodes; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return listed(names)
}

// added says "add 2 nodes with 8 nvidia.com/gpu and 4 cpu each".
func added(dimensions *model.ResourceIndex, nodes int, each model.Resources, pod *corev1.Pod) *Change {
	c := &Change{Kind: Add, Nodes: nodes, Request: dimensions.List(each), Template: []model.PodRef{{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}}}
	c.words = counted(nodes, "node")
	if !isZero(each) {
		c.words += " with " + dimensions.Format(each)
		if nodes > 1 {
			c.words += " each"
		}
	}
	c.words = "add " + c.words + like(pod, nodes)
	return c
}

// like says what nodes must be like for a pod.
func like(pod *corev1.Pod, nodes int) string {
	var words []string
	if len(pod.Spec.NodeSelector) > 0 {
		var pairs []string
		for key, value := range pod.Spec.NodeSelector {
			pairs = append(pairs, key+"="+value)
		}
		slices.Sort(pairs)
		words = append(words, "the node selector's "+listed(pairs))
	}
	if affinity := pod.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil &&
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		words = append(words, "what its node affinity asks for")
	}
	if len(words) == 0 {
		return ""
	}
	if nodes == 1 {
		return ", which has " + listed(words)
	}
	return ", which have " + listed(words)
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func lowered(from, to int32) *Change {
	return &Change{Kind: LowerMinimum, From: from, To: to, words: fmt.Sprintf("lower minMember from %d to %d", from, to)}
}

func raised(from, to int32) *Change {
	return &Change{Kind: RaisePriority, From: from, To: to, words: fmt.Sprintf(
		"raise its priority from %d to %d, above that of pods which can be evicted then", from, to)}
}

func allowed() *Change {
	return &Change{Kind: AllowPreemption, words: "allow preemption, which preemptionPolicy: Never forbids"}
}
