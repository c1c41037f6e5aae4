package app

import (
	"bytes"
	"context"
	"time"

	"github.com/tutti-sched/tutti/internal/capture"
	"github.com/tutti-sched/tutti/internal/configuration"
	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/internal/metrics"
	"github.com/tutti-sched/tutti/internal/rehearse"
	"github.com/tutti-sched/tutti/internal/scheduler"
	"github.com/tutti-sched/tutti/internal/version"
	"github.com/tutti-sched/tutti/pkg/engine"
)

// inexact is what rehearsals never show exactly.
var inexact = []string{
	"the devices of ResourceSlices and the volumes of supposed nodes are not tried, and those that pods give back in a play stay taken",
	"extenders are not asked: they agree to all",
}

// openRehearsals makes what answers questions, over plugins of its own. The loop is started later; the informers are not
// started yet.
func (o *options) openRehearsals(p *process, kubePlugins *kube.Plugins) (*rehearse.Setting, error) {
	view := &configuration.View{}
	another, err := kubePlugins.Another(view, view)
	if err != nil {
		return nil, err
	}
	catalogue := configuration.Rehearsed(another, o.extra...)
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
		Show:  view.Show,
		Reset: another.UnreserveAll, BindDeadline: o.bindDeadline, Inexact: inexact,
		Differs: func() { p.measured.Count(metrics.CopiesDiffer, 1) },
		Took: func(purpose string, took time.Duration) {
			p.measured.Count(metrics.RehearsalTime, took.Seconds(), purpose)
		},
	}, nil
}

// capture writes down what the scheduler knows.
func (p *process) capture(ctx context.Context) ([]byte, error) {
	var file bytes.Buffer
	err := p.desk.Use(ctx, func(_ context.Context, moment *scheduler.Moment, setting *rehearse.Setting) error {
		profile, err := setting.Profile(nil)
		if err != nil {
			return err
		}
		report := p.live.Report()
		return capture.Write(&file, capture.Header{
			Version: version.Version(), Kubernetes: p.served.Version, Gates: p.gates, Configuration: report.Active.Text, Paused: report.Paused,
			Inexact: []string{"extenders are not asked", "searches that end by time may end elsewhere"},
		}, moment, profile.Translators())
	})
	return file.Bytes(), err
}
