package scenario

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// manyPods is the number of pod slots that no story writes down because it never matters.
const manyPods = 110

// writeIdle lists what each node has left; nodes with the same left share a line, in order of the first of them.
func writeIdle(b *strings.Builder, snapshot *model.Snapshot) {
	var lines []string
	names := map[string][]string{}
	for _, node := range snapshot.Nodes {
		left := room(snapshot.Dimensions, node)
		if names[left] == nil {
			lines = append(lines, left)
		}
		names[left] = append(names[left], node.Name)
	}
	for _, left := range lines {
		fmt.Fprintf(b, "idle: %s%s\n", strings.Join(names[left], " "), left)
	}
}

func room(dimensions *model.ResourceIndex, node *model.Node) string {
	if len(node.Object.Status.Allocatable) == 0 {
		return " nothing known"
	}
	var b strings.Builder
	for _, i := range byName(dimensions) {
		name := dimensions.Name(i)
		if name == isolated.Resource || i == model.Unoffered {
			continue // freeCPUs says more
		}
		if _, offered := node.Object.Status.Allocatable[name]; !offered && node.Allocatable().At(i) == 0 && node.Idle(i) == 0 {
			continue
		}
		if node.Allocatable().At(i) == model.ProvidedByDRA {
			continue // the node does not say how many devices are left of it
		}
		if i == model.Pods && node.Allocatable().At(i) == manyPods {
			continue
		}
		fmt.Fprintf(&b, " %s=%s", name, quantity(name, node.Idle(i)))
		if releasing := node.Amounts().Releasing.At(i); releasing != 0 {
			fmt.Fprintf(&b, "(+%s)", quantity(name, releasing))
		}
	}
	return b.String() + freeCPUs(node)
}

// byName returns the positions in order of their names; the first four are always the same.
func byName(dimensions *model.ResourceIndex) []int {
	positions := []int{model.CPU, model.Memory, model.EphemeralStorage, model.Pods}
	for i := model.Pods + 1; i < dimensions.Len(); i++ {
		j := len(positions)
		for j > model.Pods+1 && dimensions.Name(positions[j-1]) > dimensions.Name(i) {
			j--
		}
		positions = append(positions[:j], append([]int{i}, positions[j:]...)...)
	}
	return positions
}

func quantity(name corev1.ResourceName, amount int64) string {
	switch name {
	case corev1.ResourceCPU:
		return resource.NewMilliQuantity(amount, resource.DecimalSI).String()
	case corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return resource.NewQuantity(amount, resource.BinarySI).String()
	}
	if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
		return resource.NewQuantity(amount, resource.BinarySI).String()
	}
	return strconv.FormatInt(amount, 10)
}
