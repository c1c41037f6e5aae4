// Package topology keeps pods of jobs that name no level out of whole domains: of the nodes that may run such a pod it prefers
// those whose rack, block and so on is in use already, so that the others stay whole for gangs that need one.
//
// The levels are declared in the configuration; without topologies the score is zero. The plugin does not score nodes for members
// of jobs that name levels: pkg/place chooses a domain for them. The session decides which domains are whole.
package topology

import (
	"github.com/tutti-sched/tutti/pkg/argument"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Name is the plugin's name in the configuration.
const Name = "topology"

// Summary is what the plugin does, in half a sentence.
const Summary = "that pods of jobs which name no level of a topology keep out of whole racks and blocks. Not in the default"

// brokenWeight is the name of the argument.
const brokenWeight = "broken.weight"

// Arguments are the plugin's arguments.
func Arguments() argument.List {
	const def, most = 2, 10_000
	return argument.List{argument.Int(brokenWeight, def, 0, most).WithHelp("prefers, for pods of jobs that name no level of a topology, nodes " +
		"in domains that are broken already, or in none: 100 points for each such level, `host` not counted. 0 turns it off")}
}

// ReadWeight reads the plugin's arguments. The reader reports errors.
func ReadWeight(r argument.Reader) int64 { return Arguments().Read(r).Int(brokenWeight) }

// New returns the factory of the plugin, with the weight of its score; of weight 0 it is not computed.
func New(weight int64) framework.Factory {
	return func() framework.Plugin { return &plugin{weight: weight} }
}

// plugin is the plugin of one session.
type plugin struct {
	weight int64
	view   framework.View
}

var (
	_ framework.NodeScorer    = (*plugin)(nil)
	_ framework.SessionOpener = (*plugin)(nil)
)

// Name returns "topology".
func (p *plugin) Name() string { return Name }

// OpenSession keeps the view.
func (p *plugin) OpenSession(view framework.View) { p.view = view }

// PreScore returns the score for a task whose job names no level; see framework.NodeScorer.
func (p *plugin) PreScore(task *model.Task, scope framework.FilterScope, _ []*model.Node) []framework.NodeScore {
	if scope != framework.NodeWithPods || p.weight == 0 || p.view.NamesLevels(task) {
		return nil
	}
	return []framework.NodeScore{{Name: "broken", Weight: p.weight, BrokenDomains: true}}
}
