package nodeorder

import "github.com/tutti-sched/tutti/pkg/framework"

var _ framework.Colocation = (*plugin)(nil)

// Gathers tells whether preferred affinity between pods has a weight.
func (p *plugin) Gathers() bool { return p.weights.PodAffinity > 0 }
