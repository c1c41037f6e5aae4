package nodeorder

import "github.com/tutti-sched/tutti/pkg/framework"

var _ framework.Colocation = (*plugin)(nil)

// PrefersColocation reports whether preferred affinity between pods has a weight.
func (p *plugin) PrefersColocation() bool { return p.weights.PodAffinity > 0 }
