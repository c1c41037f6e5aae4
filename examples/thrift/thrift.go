// Package thrift keeps nodes with a scarce resource, such as GPUs, for pods that ask for it. It is the example of
// docs/writing-a-plugin.md, and no built-in plugin.
package thrift

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Name is the plugin's name in the configuration.
const Name = "thrift"

// Maker is what a catalogue lists.
func Maker() framework.PluginRegistration {
	return framework.PluginRegistration{Name: Name, New: func(arguments *config.Reader) (framework.Factory, error) {
		resource := corev1.ResourceName(arguments.String("resource", "nvidia.com/gpu"))
		strict := arguments.Bool("strict", false)
		weight := arguments.Int("weight", 1, 1, 100)
		return func() framework.Plugin { return &plugin{resource: resource, strict: strict, weight: weight} }, nil
	}}
}

// plugin lives for one session.
type plugin struct {
	resource corev1.ResourceName
	strict   bool
	weight   int64
	// position is that of the resource in the vectors of this session; known is false while no pod and no node has it.
	position int
	known    bool
}

var (
	_ framework.SessionOpener = &plugin{}
	_ framework.NodeFilter    = &plugin{}
	_ framework.NodeScorer    = &plugin{}
)

// Name returns "thrift".
func (*plugin) Name() string { return Name }

// OpenSession finds the resource.
func (p *plugin) OpenSession(session *framework.Session) {
	p.position, p.known = session.Snapshot.Dimensions.Find(p.resource)
}

// PreFilter rules nodes with the resource out for pods without it, if the configuration says so. The answer depends on the
// request and the node object alone: it is static, and asked for once for all pods of a shape.
func (p *plugin) PreFilter(task *model.Task, scope framework.FilterScope) ([]framework.NodeFilterFunc, *model.Refusal) {
	if scope != framework.NodeOnly || !p.strict || !p.spares(task) {
		return nil, nil
	}
	kept := &model.Refusal{
		Plugin: Name, Code: model.NodesFiltered, Detail: fmt.Sprintf("kept for pods that ask for %s", p.resource),
	}
	return []framework.NodeFilterFunc{func(node *model.Node) *model.Refusal {
		if node.Allocatable.At(p.position) > 0 {
			return kept
		}
		return nil
	}}, nil
}

// PreScore prefers nodes without the resource for pods without it.
func (p *plugin) PreScore(task *model.Task, scope framework.FilterScope, _ []*model.Node) []framework.NodeScore {
	if scope != framework.NodeOnly || p.strict || !p.spares(task) {
		return nil
	}
	return []framework.NodeScore{{
		Name: Name, Weight: p.weight, Normalization: framework.NormalizeNone,
		Score: func(node *model.Node) int64 {
			if node.Allocatable.At(p.position) > 0 {
				return 0
			}
			return 100
		},
	}}
}

// spares reports whether the task is one that should leave the resource to others.
func (p *plugin) spares(task *model.Task) bool { return p.known && task.Request.At(p.position) == 0 }
