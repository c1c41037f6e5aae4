package framework

import (
	"errors"
	"fmt"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
)

// PluginMaker is a plugin that a configuration may name.
type PluginMaker struct {
	Name string
	// Make reads the arguments, once per configuration, and returns what makes the plugin for each session. Arguments
	// that are no good are the reader's to report; an error says that the plugin cannot be built at all.
	Make func(arguments *config.Reader) (Factory, error)
}

// ActionMaker is an action that a configuration may name.
type ActionMaker struct {
	Name string
	// Make reads the arguments and returns the action; errors as in PluginMaker.
	Make func(arguments *config.Reader) (Action, error)
}

// Catalogue is what this build of the scheduler has to offer.
type Catalogue struct {
	Actions []ActionMaker
	Plugins []PluginMaker
}

// Known returns the names in the catalogue, for the decoder.
func (c *Catalogue) Known() config.Known {
	var known config.Known
	for _, maker := range c.Actions {
		known.Actions = append(known.Actions, maker.Name)
	}
	for _, maker := range c.Plugins {
		known.Plugins = append(known.Plugins, maker.Name)
	}
	return known
}

// Build makes the profile that the configuration asks for. The error joins everything that is wrong, each with its file
// and line: an argument that is unknown or no good, and a plugin that, with what is disabled, takes part in nothing.
func (c *Catalogue) Build(configuration *config.Configuration) (*Profile, error) {
	profile := &Profile{}
	var errs []error
	for _, step := range configuration.Actions {
		action, err := c.action(step)
		errs = append(errs, err)
		profile.Actions = append(profile.Actions, action)
	}
	for _, tier := range configuration.Tiers {
		var members Tier
		for _, entry := range tier.Plugins {
			factory, err := c.plugin(entry)
			errs = append(errs, err)
			members = append(members, Member{New: factory, Disabled: entry.Disable})
		}
		profile.Tiers = append(profile.Tiers, members)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return profile, profile.checkIdle(configuration)
}

func (c *Catalogue) action(step config.Action) (Action, error) {
	for _, maker := range c.Actions {
		if maker.Name != step.Name {
			continue
		}
		reader := step.Arguments.Reader()
		action, err := maker.Make(reader)
		if err != nil {
			return nil, fmt.Errorf("action %s: %w", step.Name, err)
		}
		return action, reader.Finish()
	}
	return nil, fmt.Errorf("%s: unknown action %q", step.Position, step.Name)
}

func (c *Catalogue) plugin(entry config.Plugin) (Factory, error) {
	for _, maker := range c.Plugins {
		if maker.Name != entry.Name {
			continue
		}
		reader := entry.Arguments.Reader()
		factory, err := maker.Make(reader)
		if err != nil {
			return nil, fmt.Errorf("plugin %s: %w", entry.Name, err)
		}
		return factory, reader.Finish()
	}
	return nil, fmt.Errorf("%s: unknown plugin %q", entry.Position, entry.Name)
}

func (p *Profile) checkIdle(configuration *config.Configuration) error {
	var errs []error
	idle := p.Idle()
	for _, tier := range configuration.Tiers {
		for _, entry := range tier.Plugins {
			for _, name := range idle {
				if name == entry.Name {
					errs = append(errs, &config.Error{
						Position: entry.Position,
						Text:     fmt.Sprintf("plugin %s takes part in nothing: all it could answer is disabled", name),
					})
				}
			}
		}
	}
	return errors.Join(errs...)
}
