package nodeorder

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/tutti-sched/tutti/pkg/argument"
)

// Resources are the resources of a score, as kube-scheduler's ScoringStrategy.resources.
type Resources []Resource

// Resource is one of them.
type Resource struct {
	Name corev1.ResourceName
	// Weight is how much it counts among the resources of its score, 1 to 100.
	Weight int64
}

// maxResourceWeight is kube-scheduler's bound.
const maxResourceWeight = 100

// ParseResources reads "cpu=1,memory=1,nvidia.com/gpu=5". A resource without a weight has weight 1.
func ParseResources(text string) (Resources, error) {
	var resources Resources
	for _, part := range strings.Split(text, ",") {
		name, weight, weighted := strings.Cut(strings.TrimSpace(part), "=")
		resource := Resource{Name: corev1.ResourceName(name), Weight: 1}
		if problem := scorable(resource.Name); problem != nil {
			return nil, problem
		}
		if weighted {
			n, err := strconv.ParseInt(weight, 10, 64)
			if err != nil || n < 1 || n > maxResourceWeight {
				return nil, fmt.Errorf("the weight of %s is %q, not a whole number from 1 to %d", name, weight, maxResourceWeight)
			}
			resource.Weight = n
		}
		if slices.ContainsFunc(resources, func(r Resource) bool { return r.Name == resource.Name }) {
			return nil, fmt.Errorf("%s is named twice", name)
		}
		resources = append(resources, resource)
	}
	return resources, nil
}

// scorable returns what is wrong with a resource's name, nil when a score may use it.
func scorable(name corev1.ResourceName) error {
	switch name {
	case "":
		return errors.New("a resource has no name")
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return nil
	}
	if len(validation.IsQualifiedName(string(name))) > 0 || !util.IsScalarResourceName(name) {
		return fmt.Errorf("%q is no resource that nodes are scored by", name)
	}
	return nil
}

const (
	// weightedResources and plainResources are the defaults of scores, with weights and without.
	weightedResources = "cpu=1,memory=1"
	plainResources    = "cpu,memory"
)

// readResources reads the resources of a score; nil is its default. weight is that of the score.
func readResources(r argument.Reader, given argument.Values, score string, weight int64) Resources {
	name := score + ".resources"
	if weight == 0 {
		r.Refuse(name, "come with a "+score+".weight of at least 1")
		return nil
	}
	text := given.Text(name)
	if text == "" || text == weightedResources || text == plainResources {
		return nil
	}
	resources, err := ParseResources(text)
	if err != nil {
		r.Refuse(name, "be resources with weights such as cpu=1,memory=1,nvidia.com/gpu=5 ("+err.Error()+")")
		return nil
	}
	return resources
}

// readBalanced reads the resources that are to be balanced. They have no weights.
func readBalanced(r argument.Reader, given argument.Values, weight int64) Resources {
	resources := readResources(r, given, "balancedresource", weight)
	for _, resource := range resources {
		if resource.Weight != 1 {
			r.Refuse("balancedresource.resources", "have no weights: all shares in use are to be equal")
			return nil
		}
	}
	return resources
}
