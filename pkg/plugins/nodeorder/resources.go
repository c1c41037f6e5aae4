package nodeorder

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is the hot loop of the scheduler: its scores are computed for every node that has changed, for every shape. They
// read only the node's accounting, and allocate nothing.

// full is the best score.
const full = 100

// resolvedResource is a resource that scores read, and its position in vectors: model.Unoffered where it has none.
type resolvedResource struct {
	name     corev1.ResourceName
	position int
	weight   int64
	// scalar reports whether the resource counts only for pods that request it.
	scalar bool
}

// resolvedResources are the resources of each score, for one session.
type resolvedResources struct{ least, most, ratio, balanced []resolvedResource }

// resolve finds the resources in the dimensions.
func resolve(dimensions *model.ResourceIndex, weights *Weights) resolvedResources {
	find := func(weight int64, resources Resources) []resolvedResource {
		if weight == 0 {
			return nil
		}
		if resources == nil {
			resources = Resources{{Name: corev1.ResourceCPU, Weight: 1}, {Name: corev1.ResourceMemory, Weight: 1}}
		}
		found := make([]resolvedResource, 0, len(resources))
		for _, resource := range resources {
			position, known := dimensions.Find(resource.Name)
			if !known {
				position = model.Unoffered
			}
			found = append(found, resolvedResource{
				name: resource.Name, position: position, weight: resource.Weight, scalar: util.IsScalarResourceName(resource.Name),
			})
		}
		return found
	}
	return resolvedResources{
		least:    find(weights.LeastRequested, weights.LeastRequestedResources),
		most:     find(weights.MostRequested, weights.MostRequestedResources),
		ratio:    find(weights.RequestedToCapacityRatio, weights.RequestedToCapacityRatioResources),
		balanced: find(weights.BalancedResource, weights.BalancedResourceResources),
	}
}

// resourceRequest is what a task adds to one resource of a node.
type resourceRequest struct {
	position        int
	weight, request int64
}

// utilization is the scores of how full a node is with a task.
type utilization struct {
	weights *Weights
	// least, most and ratio count the default request of containers without one, balanced does not.
	least, most, ratio, balanced []resourceRequest
	// before and after are buffers for the shares in use.
	before, after []float64
	// smallVectors is a buffer for the requests of the default scores.
	smallVectors [4]resourceRequest
}

// resourceScores returns the scores that need the accounting of a node, as one: the weighted sum of their points.
func resourceScores(weights *Weights, where *resolvedResources, task *model.Task) []framework.NodeScore {
	f := &utilization{weights: weights}
	f.least = requests(f.smallVectors[0:0:2], where.least, task, true)
	f.most = requests(nil, where.most, task, true)
	f.ratio = requests(nil, where.ratio, task, true)
	f.balanced = requests(f.smallVectors[2:2:4], where.balanced, task, false)
	if !slices.ContainsFunc(f.balanced, func(d resourceRequest) bool { return d.request != 0 }) {
		// The balance does not change, and every such pod would go where it is best.
		f.balanced = nil
	}
	if len(f.least)+len(f.most)+len(f.ratio)+len(f.balanced) == 0 {
		return nil
	}
	if n := len(f.balanced); n != 2 {
		f.before, f.after = make([]float64, 0, n), make([]float64, 0, n)
	}
	return []framework.NodeScore{{Name: "resources", Weight: 1, Score: f.score}}
}

// requests appends what the task adds to the resources that count for it.
func requests(all []resourceRequest, places []resolvedResource, task *model.Task, suppose bool) []resourceRequest {
	for _, p := range places {
		request := task.Request.At(p.position)
		if amount, unoffered := task.Unoffered[p.name]; unoffered || p.position == model.Unoffered {
			request = amount.Value()
		}
		if p.scalar && request == 0 {
			continue
		}
		if suppose && p.position < len(task.NonZeroDefaults) {
			request += task.NonZeroDefaults[p.position]
		}
		all = append(all, resourceRequest{position: p.position, weight: p.weight, request: request})
	}
	return all
}

func (f *utilization) score(node *model.Node) int64 {
	var sum int64
	if len(f.least) > 0 {
		sum += f.weights.LeastRequested * weightedMean(node, f.least, true)
	}
	if len(f.most) > 0 {
		sum += f.weights.MostRequested * weightedMean(node, f.most, false)
	}
	if len(f.ratio) > 0 {
		sum += f.weights.RequestedToCapacityRatio * ratio(node, f.ratio, f.weights.Shape)
	}
	if len(f.balanced) > 0 {
		sum += f.weights.BalancedResource * f.balance(node)
	}
	return sum
}

// on returns what the node offers of the resource, and what would be in use of it with the task, default requests included.
func (d *resourceRequest) on(node *model.Node) (used, capacity int64) {
	return node.UsedWithDefaults(d.position) + d.request, offered(node, d.position)
}

// offered returns what the node itself offers of a resource, without what DRA accounts for.
func offered(node *model.Node, position int) int64 {
	if capacity := node.Allocatable().At(position); capacity != model.ProvidedByDRA {
		return capacity
	}
	return 0
}

// weightedMean returns the mean share, in percent, of the resources that the node offers at all: what is left over of them, or
// else what is in use. An overcommitted resource counts as full.
func weightedMean(node *model.Node, demands []resourceRequest, left bool) int64 {
	var sum, weights int64
	for i := range demands {
		d := &demands[i]
		part, capacity := d.on(node)
		if capacity <= 0 {
			continue
		}
		if part = min(part, capacity); left {
			part = capacity - part
		}
		sum += d.weight * percent(part, capacity)
		weights += d.weight
	}
	return mean(sum, weights)
}

// ratio returns the mean, rounded, of the resources' scores along the shape; a score of 0 is left out of the mean, as
// kube-scheduler does.
func ratio(node *model.Node, demands []resourceRequest, shape Shape) int64 {
	var sum, weights int64
	for i := range demands {
		d := &demands[i]
		used, capacity := d.on(node)
		if capacity <= 0 {
			continue
		}
		if score := shape.at(percent(min(used, capacity), capacity)); score > 0 {
			sum += d.weight * score
			weights += d.weight
		}
	}
	return mean(2*sum+weights, 2*weights)
}

func mean(sum, weights int64) int64 {
	if weights == 0 {
		return 0
	}
	return sum / weights
}

// percent returns 100 × part / whole, rounded down; 0 ≤ part ≤ whole and 0 < whole ≤ model.MaxAmount. A division of floats
// takes a fraction of the time of one of integers on many processors, and is off by one at most.
func percent(part, whole int64) int64 {
	hundredfold := full * part
	quotient := int64(float64(hundredfold) / float64(whole))
	switch rest := hundredfold - quotient*whole; {
	case rest < 0:
		return quotient - 1
	case rest >= whole:
		return quotient + 1
	default:
		return quotient
	}
}

// balance returns 50 to 100: above 75 when the task brings the shares in use of the resources closer together, below when it
// pulls them apart. The shares are floats, since they are in kube-scheduler, where rounding shows in the score; the same
// bytes lead to the same score on every machine.
func (f *utilization) balance(node *model.Node) int64 {
	if len(f.balanced) != 2 {
		return f.balanceMany(node)
	}
	one, other := &f.balanced[0], &f.balanced[1]
	oneCapacity, otherCapacity := offered(node, one.position), offered(node, other.position)
	if oneCapacity <= 0 || otherCapacity <= 0 {
		return change(full, full) // one resource is balanced
	}
	oneUsed, otherUsed := node.Used(one.position), node.Used(other.position)
	before := math.Abs(share(oneUsed, oneCapacity)-share(otherUsed, otherCapacity)) / 2
	after := math.Abs(share(oneUsed+one.request, oneCapacity)-share(otherUsed+other.request, otherCapacity)) / 2
	return change(balance(before), balance(after))
}

func (f *utilization) balanceMany(node *model.Node) int64 {
	before, after := f.before[:0], f.after[:0]
	for i := range f.balanced {
		d := &f.balanced[i]
		capacity := offered(node, d.position)
		if capacity <= 0 {
			continue
		}
		used := node.Used(d.position)
		before = append(before, share(used, capacity))
		after = append(after, share(used+d.request, capacity))
	}
	return change(balance(stddev(before)), balance(stddev(after)))
}

// change returns the score for a node's balance before and after.
func change(before, after int64) int64 { return full/2 + (full/2+after-before)/2 }

// balance returns 50 to 100 for a deviation of 1/2 to 0.
func balance(deviation float64) int64 { return int64((1 - deviation) * full) }

func share(used, capacity int64) float64 {
	if used > capacity {
		return 1
	}
	return float64(used) / float64(capacity)
}

// stddev returns the standard deviation. No product is added in one step with its sum, as some processors could: they
// would round otherwise.
func stddev(shares []float64) float64 {
	switch len(shares) {
	case 0, 1:
		return 0
	case 2:
		return math.Abs(shares[0]-shares[1]) / 2
	}
	var sum, squares float64
	for _, s := range shares {
		sum += s
	}
	middle := sum / float64(len(shares))
	for _, s := range shares {
		squares += float64((s - middle) * (s - middle))
	}
	return math.Sqrt(squares / float64(len(shares)))
}
