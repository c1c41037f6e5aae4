package nodeorder

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxWeight bounds a weight, so that sums of weighted scores stay far from overflow.
const maxWeight = 10_000

// maxHardWeight bounds the weight of required affinity, as kube-scheduler does.
const maxHardWeight = 100

// Weights say how much each normalised point of a score counts; a score of weight 0 is not asked for.
type Weights struct {
	LeastRequested           int64
	MostRequested            int64
	BalancedResource         int64
	RequestedToCapacityRatio int64
	NodeAffinity             int64
	PodAffinity              int64
	TaintToleration          int64
	ImageLocality            int64
	PodTopologySpread        int64
	NodePreferAvoidPods      int64
	// PodAffinityHard is how much a neighbour's required affinity to the pod counts in the score of inter-pod affinity, beside
	// preferred terms of 1 to 100; kube-scheduler's hardPodAffinityWeight.
	PodAffinityHard int64
	// DefaultSpread spreads pods without constraints of their own over hosts and zones, among the pods of their Services and
	// of their controller, as kube-scheduler's system defaults do.
	DefaultSpread bool
	// LeastRequestedResources and the like are what these scores look at; nil is CPU and memory, each with weight 1.
	LeastRequestedResources           Resources
	MostRequestedResources            Resources
	RequestedToCapacityRatioResources Resources
	BalancedResourceResources         Resources
	// Shape is the score that RequestedToCapacityRatio gives for each utilization.
	Shape Shape
}

// DefaultWeights returns kube-scheduler's weights.
func DefaultWeights() Weights {
	return Weights{
		LeastRequested: 1, BalancedResource: 1, NodeAffinity: 2, PodAffinity: 2, TaintToleration: 3, ImageLocality: 1,
		PodTopologySpread: 2, PodAffinityHard: 1, Shape: Shape{{Utilization: 0, Score: 0}, {Utilization: 100, Score: 10}},
	}
}

// Reader is what ReadWeights needs of a reader of arguments.
type Reader interface {
	// Int reads a whole number between least and most.
	Int(name string, def, least, most int64) int64
	// String reads any text.
	String(name, def string) string
	// Refuse records that the argument's value is no good, in words that follow "must", if the argument is given.
	Refuse(name, must string)
}

const (
	ratioWeight = "requestedtocapacityratio.weight"
	ratioShape  = "requestedtocapacityratio.shape"
)

// ReadWeights reads the plugin's arguments, kube-batch's and those of the scores it did not have; what is not given is as
// in DefaultWeights, and what is no good is said by the reader.
func ReadWeights(r Reader) Weights {
	w := DefaultWeights()
	for _, weight := range []struct {
		name string
		into *int64
	}{
		{"leastrequested.weight", &w.LeastRequested},
		{"mostrequested.weight", &w.MostRequested},
		{"balancedresource.weight", &w.BalancedResource},
		{ratioWeight, &w.RequestedToCapacityRatio},
		{"nodeaffinity.weight", &w.NodeAffinity},
		{"podaffinity.weight", &w.PodAffinity},
		{"tainttoleration.weight", &w.TaintToleration},
		{"imagelocality.weight", &w.ImageLocality},
		{"podtopologyspread.weight", &w.PodTopologySpread},
		{"nodepreferavoidpods.weight", &w.NodePreferAvoidPods},
	} {
		*weight.into = r.Int(weight.name, *weight.into, 0, maxWeight)
	}
	w.PodAffinityHard = r.Int("podaffinity.hardweight", w.PodAffinityHard, 0, maxHardWeight)
	w.DefaultSpread = readDefaulting(r, w.PodTopologySpread)
	w.LeastRequestedResources = readResources(r, "leastrequested", w.LeastRequested)
	w.MostRequestedResources = readResources(r, "mostrequested", w.MostRequested)
	w.RequestedToCapacityRatioResources = readResources(r, "requestedtocapacityratio", w.RequestedToCapacityRatio)
	w.BalancedResourceResources = readBalanced(r, w.BalancedResource)
	w.Shape = readShape(r, w.RequestedToCapacityRatio, w.Shape)
	return w
}

// readDefaulting tells whether pods are spread by default. They are not unless it is asked for: that would pull the members
// of a gang apart.
func readDefaulting(r Reader, weight int64) bool {
	const name = "podtopologyspread.defaulting"
	switch given := r.String(name, "none"); {
	case given == "none":
		return false
	case given != "system":
		r.Refuse(name, "be none or system")
	case weight == 0:
		r.Refuse(name, "come with a podtopologyspread.weight of at least 1")
	default:
		return true
	}
	return false
}

// readShape returns the shape that the arguments give, or def.
func readShape(r Reader, weight int64, def Shape) Shape {
	text := r.String(ratioShape, "")
	if text == "" {
		return def
	}
	if weight == 0 {
		r.Refuse(ratioShape, "come with a "+ratioWeight+" of at least 1")
		return def
	}
	shape, err := ParseShape(text)
	if err != nil {
		r.Refuse(ratioShape, `be points "UTILIZATION:SCORE" such as 0:0,100:10 (`+err.Error()+")")
		return def
	}
	return shape
}

// Shape is a broken line from utilization to score: straight between its points, flat outside them. Utilizations rise.
type Shape []Point

// Point is one corner of a Shape.
type Point struct {
	// Utilization is in percent of capacity, 0 to 100.
	Utilization int64
	// Score is 0 to 10, as in kube-scheduler's configuration.
	Score int64
}

// ParseShape reads "0:0,100:10": points of utilization and score, rising in utilization.
func ParseShape(text string) (Shape, error) {
	var shape Shape
	for _, part := range strings.Split(text, ",") {
		before, after, ok := strings.Cut(strings.TrimSpace(part), ":")
		if !ok {
			return nil, fmt.Errorf("point %q has no colon", part)
		}
		utilization, err := within(before, 100)
		if err != nil {
			return nil, fmt.Errorf("utilization: %w", err)
		}
		score, err := within(after, 10)
		if err != nil {
			return nil, fmt.Errorf("score: %w", err)
		}
		if len(shape) > 0 && utilization <= shape[len(shape)-1].Utilization {
			return nil, errors.New("utilizations must rise from point to point")
		}
		shape = append(shape, Point{Utilization: utilization, Score: score})
	}
	return shape, nil
}

func within(text string, most int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("%q is not a whole number from 0 to %d", text, most)
	}
	return n, nil
}

// at returns the score, 0 to 100, for a utilization in percent.
func (s Shape) at(utilization int64) int64 {
	const scale = 10 // from a point's score to the engine's
	for i, point := range s {
		if utilization > point.Utilization {
			continue
		}
		if i == 0 {
			return scale * point.Score
		}
		left := s[i-1]
		return scale*left.Score +
			scale*(point.Score-left.Score)*(utilization-left.Utilization)/(point.Utilization-left.Utilization)
	}
	return scale * s[len(s)-1].Score
}
