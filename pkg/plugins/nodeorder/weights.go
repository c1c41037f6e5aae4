package nodeorder

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tutti-sched/tutti/pkg/argument"
)

// maxWeight bounds a weight, so that sums of weighted scores stay far from overflow.
const maxWeight = 10_000

// maxHardWeight bounds the weight of required affinity, as kube-scheduler does.
const maxHardWeight = 100

// Weights are the factors of the normalised scores; a score of weight 0 is not computed.
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
	DynamicResources         int64
	VolumeBinding            int64
	// PodAffinityHard is how much the required affinity of a pod on the node to the incoming pod counts in the score of
	// inter-pod affinity, beside preferred terms of 1 to 100; kube-scheduler's hardPodAffinityWeight.
	PodAffinityHard int64
	// DefaultSpread spreads pods without constraints of their own over hosts and zones, among the pods of their Services and
	// of their controller, as kube-scheduler's system defaults do.
	DefaultSpread bool
	// LeastRequestedResources and the like are the resources of these scores; nil is CPU and memory, each with weight 1.
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
		PodTopologySpread: 2, DynamicResources: 2, VolumeBinding: 1, PodAffinityHard: 1, Shape: Shape{{Utilization: 0, Score: 0}, {Utilization: 100, Score: 10}},
	}
}

const (
	ratioWeight      = "requestedtocapacityratio.weight"
	ratioShape       = "requestedtocapacityratio.shape"
	defaultShape     = "0:0,100:10"
	hardWeight       = "podaffinity.hardweight"
	defaulting       = "podtopologyspread.defaulting"
	systemDefaulting = "system"
)

// weighted is a score that a configuration may weight, and the place of the weight.
type weighted struct {
	name, prefers string
	target        *int64
}

// scores are all of them, in the order in which they are explained: those with a default weight first.
func (w *Weights) scores() []weighted {
	return []weighted{
		{"leastrequested", "with the largest share left over", &w.LeastRequested},
		{"balancedresource", "whose resources would be in use more equally than before", &w.BalancedResource},
		{"nodeaffinity", "that the pod prefers by their labels", &w.NodeAffinity},
		{"podaffinity", "near or away from the pods that the pod prefers to be near or away from, or that prefer so of it",
			&w.PodAffinity},
		{"tainttoleration", "with the fewest `PreferNoSchedule` taints that the pod does not tolerate", &w.TaintToleration},
		{"podtopologyspread", "in zones, racks and the like with the fewest pods, by the pod's `ScheduleAnyway` constraints",
			&w.PodTopologySpread},
		{"imagelocality", "that have the pod's large images", &w.ImageLocality},
		{"dynamicresources", "with the devices that come first among the alternatives of the pod's claims (`firstAvailable`)",
			&w.DynamicResources},
		{"volumebinding", "where the volumes that the pod's claims would get, or the storage to make them of, have the most capacity to " +
			"spare", &w.VolumeBinding},
		{"mostrequested", "with the smallest share left over", &w.MostRequested},
		{"requestedtocapacityratio", "as the shape says about the share in use", &w.RequestedToCapacityRatio},
		{"nodepreferavoidpods", "that do not say by the annotation `scheduler.alpha.kubernetes.io/preferAvoidPods` that they would " +
			"rather avoid the pods of this pod's controller (kube-scheduler's, up to 1.22, where its weight was 10000)",
			&w.NodePreferAvoidPods},
	}
}

// Arguments are the plugin's arguments: kube-batch's, and those of the scores it did not have.
func Arguments() argument.List {
	def := DefaultWeights()
	var all argument.List
	for _, score := range def.scores() {
		all = append(all, argument.Int(score.name+".weight", *score.target, 0, maxWeight).WithHelp("prefers nodes "+score.prefers))
	}
	for _, score := range []string{"leastrequested", "mostrequested", "requestedtocapacityratio"} {
		all = append(all, argument.Text(score+".resources", weightedResources).WithFormat("`NAME=WEIGHT` between commas, weights 1 to 100").
			WithHelp("the resources that `"+score+"` looks at, and how much each counts among them"))
	}
	return append(all,
		argument.Text("balancedresource.resources", plainResources).WithFormat("names between commas").
			WithHelp("the resources that `balancedresource` looks at; they have no weights"),
		argument.Text(ratioShape, defaultShape).WithFormat("points `UTILIZATION:SCORE` between commas, in percent and 0 to 10").
			WithHelp("what `requestedtocapacityratio` makes of the share in use, with straight lines between the points"),
		argument.Int(hardWeight, def.PodAffinityHard, 0, maxHardWeight).
			WithHelp("how much it counts in `podaffinity` that a pod near the node must be near the pod, beside preferences of 1 to 100"),
		argument.OneOf(defaulting, "none", "none", systemDefaulting).WithHelp("with `system`, pods without spread constraints of their own are "+
			"spread over hosts and zones among the pods of their Services and controllers, which pulls the members of a gang apart. "+
			"Turning it on needs a restart, and the right to watch these kinds"),
	)
}

// ReadWeights reads the plugin's arguments; the defaults are DefaultWeights, and the reader reports errors.
func ReadWeights(r argument.Reader) Weights {
	given, w := Arguments().Read(r), DefaultWeights()
	for _, score := range w.scores() {
		*score.target = given.Int(score.name + ".weight")
	}
	w.PodAffinityHard = given.Int(hardWeight)
	if w.DefaultSpread = given.Text(defaulting) == systemDefaulting; w.DefaultSpread && w.PodTopologySpread == 0 {
		r.Refuse(defaulting, "come with a podtopologyspread.weight of at least 1")
		w.DefaultSpread = false
	}
	w.LeastRequestedResources = readResources(r, given, "leastrequested", w.LeastRequested)
	w.MostRequestedResources = readResources(r, given, "mostrequested", w.MostRequested)
	w.RequestedToCapacityRatioResources = readResources(r, given, "requestedtocapacityratio", w.RequestedToCapacityRatio)
	w.BalancedResourceResources = readBalanced(r, given, w.BalancedResource)
	w.Shape = readShape(r, given.Text(ratioShape), w.RequestedToCapacityRatio, w.Shape)
	return w
}

// readShape returns the shape that the text gives, or def.
func readShape(r argument.Reader, text string, weight int64, def Shape) Shape {
	if weight == 0 {
		r.Refuse(ratioShape, "come with a "+ratioWeight+" of at least 1")
		return def
	}
	if text == "" {
		return def
	}
	shape, err := ParseShape(text)
	if err != nil {
		r.Refuse(ratioShape, `be points "UTILIZATION:SCORE" such as 0:0,100:10 (`+err.Error()+")")
		return def
	}
	return shape
}

// Shape is a piecewise linear function from utilization to score, constant outside its points. Utilizations rise.
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
