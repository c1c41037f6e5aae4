package nodeorder

import (
	"math/bits"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// What a pod that requests none counts as, so that such pods do not pile up on one node; kube-scheduler's figures.
const (
	assumedCPU    = 100               // thousandths of a core
	assumedMemory = 200 * 1024 * 1024 // bytes
)

// full is the best score.
const full = 100

// scoredResource is a resource that scores look at.
type scoredResource struct {
	position int
	// assumed is what a pod that requests none counts as.
	assumed int64
}

func scored() [2]scoredResource {
	return [2]scoredResource{{model.CPU, assumedCPU}, {model.Memory, assumedMemory}}
}

// resourceScores returns the scores of how full a node is with the task. They read the node's books alone.
func resourceScores(weights Weights, task *model.Task) []framework.NodeScore {
	scores := make([]framework.NodeScore, 0, 2) // the default has two
	add := func(name string, weight int64, raw func(*model.Node) int64) {
		if weight > 0 {
			scores = append(scores, framework.NodeScore{Name: name, Weight: weight, Raw: raw})
		}
	}
	add("leastrequested", weights.LeastRequested, func(node *model.Node) int64 { return average(node, task, leastRequested) })
	add("mostrequested", weights.MostRequested, func(node *model.Node) int64 { return average(node, task, mostRequested) })
	add("requestedtocapacityratio", weights.RequestedToCapacityRatio, func(node *model.Node) int64 {
		return ratio(node, task, weights.Shape)
	})
	if task.Request.At(model.CPU) != 0 || task.Request.At(model.Memory) != 0 {
		// Without a request nothing gets out of balance, and every such pod would go where balance is best.
		add("balancedresource", weights.BalancedResource, func(node *model.Node) int64 { return balanced(node, task) })
	}
	return scores
}

// requested returns what would be requested of the node's resource with the task on it, and what the node offers.
func requested(node *model.Node, task *model.Task, position int, assumed int64) (sum, allocatable int64) {
	allocatable = node.Allocatable.At(position)
	sum = allocatable - node.Idle.At(position)
	request := task.Request.At(position)
	if request != 0 {
		return sum + request, allocatable
	}
	sum += assumed
	for _, other := range node.Tasks {
		if other.Status.HoldsRoom() && other.Request.At(position) == 0 {
			sum += assumed
		}
	}
	return sum, allocatable
}

// average returns the mean score of the resources that the node offers at all.
func average(node *model.Node, task *model.Task, score func(requested, capacity int64) int64) int64 {
	var sum, count int64
	for _, resource := range scored() {
		if used, capacity := requested(node, task, resource.position, resource.assumed); capacity > 0 {
			sum += score(used, capacity)
			count++
		}
	}
	if count == 0 {
		return 0
	}
	return sum / count
}

func leastRequested(requested, capacity int64) int64 {
	if requested > capacity {
		return 0
	}
	return (capacity - requested) * full / capacity
}

func mostRequested(requested, capacity int64) int64 {
	return min(requested, capacity) * full / capacity
}

// ratio returns the mean, rounded, of the resources' scores along the shape; a score of 0 is left out of the mean, as
// kube-scheduler does.
func ratio(node *model.Node, task *model.Task, shape Shape) int64 {
	var sum, count int64
	for _, resource := range scored() {
		used, capacity := requested(node, task, resource.position, resource.assumed)
		if capacity <= 0 {
			continue
		}
		if score := shape.at(min(used, capacity) * full / capacity); score > 0 {
			sum += score
			count++
		}
	}
	if count == 0 {
		return 0
	}
	return (2*sum + count) / (2 * count)
}

// balanced returns 50 to 100: above 75 when the task brings the shares of cores and memory in use closer together, below
// when it pulls them apart.
func balanced(node *model.Node, task *model.Task) int64 {
	before, after := evenness(node, nil), evenness(node, task.Request)
	return full/2 + (full/2+after-before)/2
}

// evenness returns 50 to 100: 100 less half the distance between the shares of cores and memory in use, in percent.
func evenness(node *model.Node, more model.Resources) int64 {
	var shares [2]uint64
	for i, resource := range scored() {
		capacity := node.Allocatable.At(resource.position)
		if capacity <= 0 {
			return full
		}
		used := capacity - node.Idle.At(resource.position) + more.At(resource.position)
		shares[i] = share(uint64(max(0, min(used, capacity))), uint64(capacity))
	}
	distance := max(shares[0], shares[1]) - min(shares[0], shares[1])
	return int64(full * (2*whole - distance) / (2 * whole))
}

// whole is the share of everything.
const whole uint64 = 1 << 40

// share returns used of capacity as a share of whole; used is at most capacity.
func share(used, capacity uint64) uint64 {
	high, low := bits.Mul64(used, whole)
	quotient, _ := bits.Div64(high, low, capacity)
	return quotient
}
