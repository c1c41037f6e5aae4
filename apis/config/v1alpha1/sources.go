package v1alpha1

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// SourceNames returns the sources of groups beside our own, in the order of their precedence, which a configuration may turn off:
// kubernetes is PodGroups of scheduling.k8s.io, coscheduling those of scheduling.x-k8s.io, volcano those of
// scheduling.volcano.sh; leaderworkerset and kueue are the marks of these projects on pods; jobset, kubeflow (MPIJob, PyTorchJob
// and its family), raycluster and job (an indexed Job of Kubernetes) are objects that own pods.
func SourceNames() []string {
	return []string{"kubernetes", "coscheduling", "volcano", "leaderworkerset", "kueue", "jobset", "kubeflow", "raycluster", "job"}
}

// SourcesOffByDefault returns those that a configuration must turn on: pods of most Jobs work on their own.
func SourcesOffByDefault() []string { return []string{"job"} }

// sources decodes which foreign sources of groups are off, sorted.
func (d *decoder) sources(value *yaml.Node) (off []string) {
	if !d.versioned {
		d.errorf(value, "sources needs, at the top, apiVersion: %s", APIVersion)
		return nil
	}
	var names []field
	off = SourcesOffByDefault()
	for _, name := range SourceNames() {
		names = append(names, field{name, func(v *yaml.Node) {
			switch on, ok := d.boolean(v, name); {
			case !ok:
			case on:
				off = slices.DeleteFunc(off, func(one string) bool { return one == name })
			default:
				off = append(off, name)
			}
		}})
	}
	d.mapping(value, "sources", names)
	slices.Sort(off)
	return slices.Compact(off)
}

// boolean returns true or false, or not ok after having recorded that it is neither.
func (d *decoder) boolean(value *yaml.Node, what string) (is, ok bool) {
	if value.Kind != yaml.ScalarNode || value.ShortTag() != "!!bool" || value.Decode(&is) != nil {
		d.errorf(value, "%s must be true or false", what)
		return false, false
	}
	return is, true
}
