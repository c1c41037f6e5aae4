package app

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/configuration"
	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/internal/rehearse"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/plugins/extender"
)

// shown is the state that the plugins of rehearsals read. Questions are answered one at a time.
type shown struct {
	fwk.SharedLister
	kube.Namespaces
}

// inexact is what rehearsals never show exactly.
var inexact = []string{
	"the devices of ResourceSlices and the volumes of supposed nodes are not tried, and those that pods give back in a play stay taken",
	"extenders are not asked: they agree to all",
}

// openRehearsals makes what answers questions, over plugins of its own. The loop is started later; the informers are not
// started yet.
func (o *options) openRehearsals(p *process, kubePlugins *kube.Plugins) (*rehearse.Setting, error) {
	view := &shown{}
	another, err := kubePlugins.Another(view, view)
	if err != nil {
		return nil, err
	}
	silent := framework.PluginRegistration{
		Name: extender.Name, Summary: extender.Summary, Arguments: extender.Arguments(),
		New: func(arguments *config.Reader) (framework.Factory, error) {
			extender.ReadArguments(arguments)
			return func() framework.Plugin { return agreeing{} }, nil
		},
	}
	catalogue := configuration.Catalogue(another, append(slices.Clone(o.extra), silent)...)
	return &rehearse.Setting{
		Profile: func(text []byte) (*engine.Profile, error) {
			report := p.live.Report()
			file := "--config"
			if text == nil {
				file, text = report.Active.Source, []byte(report.Active.Text)
			}
			profile, _, err := catalogue.Read(file, text)
			if err == nil && report.Paused != "" {
				profile.Paused = report.Paused
			}
			return profile, err
		},
		Show:  func(state *cluster.State) { view.SharedLister, view.Namespaces = state.View(), state },
		Reset: another.UnreserveAll, BindDeadline: o.bindDeadline, Inexact: inexact,
	}, nil
}

// agreeing takes the place of extenders, and has nothing against anything.
type agreeing struct{}

func (agreeing) Name() string { return extender.Name }
