package capture

import (
	"context"

	"github.com/tutti-sched/tutti/internal/configuration"
	"github.com/tutti-sched/tutti/internal/rehearse"
	"github.com/tutti-sched/tutti/pkg/engine"
)

// Setting returns what rehearsals of the file need, without a cluster. What it starts ends with the context. Call it once per
// process.
func (f *File) Setting(ctx context.Context) (*rehearse.Setting, error) {
	view := &configuration.View{}
	plugins, err := configuration.WithoutServer(ctx, view, view)
	if err != nil {
		return nil, err
	}
	catalogue := configuration.Rehearsed(plugins)
	return &rehearse.Setting{
		Profile: func(text []byte) (*engine.Profile, error) {
			file := "--config"
			if text == nil {
				file, text = "the configuration of the capture", []byte(f.Configuration)
			}
			profile, _, err := catalogue.Read(file, text)
			if err == nil && f.Paused != "" {
				profile.Paused = f.Paused
			}
			return profile, err
		},
		Show: view.Show, Reset: plugins.UnreserveAll, Inexact: f.Inexact,
	}, nil
}
