package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/configuration"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/plugins"
)

// source returns where the configuration comes from.
func (o *options) source() (configuration.Source, error) {
	switch {
	case o.configMap != "" && o.config != "":
		return configuration.Source{}, fmt.Errorf("--config %s and --config-map %s: give one of them", o.config, o.configMap)
	case o.configMap != "":
		source, err := configuration.ParseConfigMap(o.configMap)
		if err != nil {
			return source, fmt.Errorf("--config-map: %w", err)
		}
		source.Override = o.configOverride
		return source, nil
	case o.configOverride != "":
		return configuration.Source{}, fmt.Errorf("--config-map-override %s: it replaces what --config-map names; give that, too", o.configOverride)
	default:
		return configuration.Source{File: o.config}, nil
	}
}

// configure reads the configuration, and returns the first profile. What comes after it is for the process to run.
func (o *options) configure(
	ctx context.Context, p *process, kube plugins.Kube, client kubernetes.Interface, writer *commit.Client,
) (*engine.Profile, error) {
	source, err := o.source()
	if err != nil {
		return nil, err
	}
	p.live, err = configuration.New(source, configuration.Options{
		Catalogue: configuration.Catalogue(kube, o.extra...), Clock: clock.RealClock{}, Client: client, Handover: p.mailbox.Reconfigure,
		OnActive: func(profile *engine.Profile) {
			writer.UseBinders(profile.PodBinders())
			p.foreign.Use(profile.SourcesOff)
		},
		MayWrite:   p.election.mayWrite,
		Controller: o.schedulerNames[0], Instance: instance(), Registry: metrics.Registry,
	})
	if err != nil {
		return nil, err
	}
	return p.live.Start(ctx)
}

// check reads texts of the configuration as a scheduler would at its start. The error has everything that is wrong with them.
func (o *options) check(ctx context.Context, out io.Writer) error {
	catalogue, err := configuration.Offline(ctx, o.extra...)
	if err != nil {
		return err
	}
	var wrong []error
	for i, text := range o.checkConfig {
		file := configuration.DefaultKey
		if i > 0 {
			file = "override/" + file
		}
		warnings, err := configuration.Lint(catalogue, file, []byte(text))
		for _, warning := range warnings {
			fmt.Fprintln(out, "warning:", warning)
		}
		wrong = append(wrong, err)
	}
	if err := errors.Join(wrong...); err != nil {
		return fmt.Errorf("the scheduler would refuse this configuration:\n%w", err)
	}
	fmt.Fprintln(out, "the configuration is fine")
	return nil
}

// explain prints what there is to know of an action or plugin or, without a name, the profile that the file asks for. It builds
// everything a scheduler is built of, but starts nothing and asks no API server.
func (o *options) explain(ctx context.Context, name string, out io.Writer) error {
	if name != "" {
		text, err := configuration.Explain(name, o.extra...)
		if err != nil {
			return err
		}
		_, err = io.WriteString(out, text)
		return err
	}
	if o.configMap != "" {
		return fmt.Errorf("--config-map %s: --explain-config asks no API server; give the file by --config", o.configMap)
	}
	file, data := config.DefaultFile, config.DefaultYAML()
	if o.config != "" {
		var err error
		if data, err = os.ReadFile(o.config); err != nil {
			return fmt.Errorf("configuration: %w", err)
		}
		file = o.config
	}
	catalogue, err := configuration.Offline(ctx, o.extra...)
	if err != nil {
		return err
	}
	profile, warnings, err := catalogue.Read(file, data)
	for _, warning := range warnings {
		klog.FromContext(ctx).Info("Configuration", "warning", warning.String())
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, profile.Explain())
	return err
}
