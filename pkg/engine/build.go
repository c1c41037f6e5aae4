package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/framework"
)

// ActionRegistration is an action that a configuration may name.
type ActionRegistration = framework.Registration[Action]

// Registry is what this build of the scheduler has to offer.
type Registry struct {
	Actions []ActionRegistration
	Plugins []framework.PluginRegistration
}

// Names returns the names in the catalogue, for the decoder.
func (c *Registry) Names() config.Known {
	var known config.Known
	for _, maker := range c.Actions {
		known.Actions = append(known.Actions, maker.Name)
	}
	for _, maker := range c.Plugins {
		known.Plugins = append(known.Plugins, maker.Name)
	}
	return known
}

// Read decodes a configuration and makes the profile that it asks for; the name of the file appears in messages. The error
// joins everything that is wrong, by line; see config.Errors. Warnings come with both.
func (c *Registry) Read(file string, data []byte) (*Profile, []config.Warning, error) {
	configuration, warnings, undecoded := config.DecodePart(file, data, c.Names())
	if configuration == nil {
		return nil, warnings, undecoded
	}
	b := &build{catalogue: c, part: undecoded != nil}
	profile := b.profile(configuration)
	warnings = append(warnings, b.warnings...)
	slices.SortStableFunc(warnings, func(a, b config.Warning) int { return cmp.Compare(a.Position.Line, b.Position.Line) })
	if err := config.Join(append(b.errs, undecoded)...); err != nil {
		return nil, warnings, err
	}
	return profile, warnings, profile.checkUnused(configuration)
}

// Build makes the profile that the configuration asks for. The error joins everything that is wrong, each with its file
// and line: an argument that is unknown or no good, and a plugin that, with what is disabled, takes part in nothing.
func (c *Registry) Build(configuration *config.Configuration) (*Profile, error) {
	b := &build{catalogue: c}
	profile := b.profile(configuration)
	if err := config.Join(b.errs...); err != nil {
		return nil, err
	}
	return profile, profile.checkUnused(configuration)
}

// build is one profile in the making.
type build struct {
	catalogue *Registry
	// part reports that decoding has failed in part: a name may then be unknown because of an error that the decoder has
	// reported.
	part     bool
	errs     []error
	warnings []config.Warning
}

// profile is complete only if there are no errors.
func (b *build) profile(configuration *config.Configuration) *Profile {
	profile := &Profile{SourcesOff: configuration.SourcesOff, Topologies: configuration.Topologies}
	if configuration.Pause {
		profile.Paused = "the configuration of the scheduler says pause: true"
	}
	for _, step := range configuration.Actions {
		profile.Actions = append(profile.Actions, create(b, b.catalogue.Actions, "action", step.Name, step.Position, step.Arguments))
	}
	if ordered := preemptorsBehind(profile.Actions); ordered != nil && !slices.Contains(profile.Actions, nil) {
		b.warnings = append(b.warnings, config.Warning{Position: configuration.Actions[0].Position, Text: fmt.Sprintf(
			"action %s has no jobs before others have refused them, and runs behind them: write actions: %q",
			profile.Actions[0].Name(), strings.Join(actionNames(ordered), ", "))})
		profile.Actions = ordered
	}
	for _, tier := range configuration.Tiers {
		var members Tier
		for _, entry := range tier.Plugins {
			factory := create(b, b.catalogue.Plugins, "plugin", entry.Name, entry.Position, entry.Arguments)
			members = append(members, TierPlugin{Factory: factory, Disabled: entry.Disable})
		}
		profile.Tiers = append(profile.Tiers, members)
	}
	return profile
}

// preemptorsBehind returns the actions in the order in which they run when the first ones evict pods for jobs that were refused,
// as in kube-batch's own configuration, before any action has refused one; nil when the order stays. Those run behind the last
// action that evicts none, before the ones there.
func preemptorsBehind(actions []Action) []Action {
	preempts := func(action Action) bool { _, is := action.(Preemptor); return is }
	others := slices.IndexFunc(actions, func(action Action) bool { return !preempts(action) })
	if others <= 0 {
		return nil
	}
	behind := len(actions)
	for preempts(actions[behind-1]) {
		behind--
	}
	return slices.Concat(actions[others:behind], actions[:others], actions[behind:])
}

func actionNames(actions []Action) []string {
	names := make([]string, len(actions))
	for i, action := range actions {
		names[i] = action.Name()
	}
	return names
}

// create returns what the entry of that name makes, its zero when there is none.
func create[T any](b *build, known []framework.Registration[T], noun, name string, at config.Position, arguments config.Arguments) T {
	for i := range known {
		if known[i].Name == name {
			reader := arguments.Reader()
			made, err := known[i].New(reader)
			b.recordResult(at, noun+" "+name, reader, err)
			return made
		}
	}
	b.unknownName(at, noun, name)
	var none T
	return none
}

// recordResult keeps what was said about one action or plugin; err is that it cannot be made at all.
func (b *build) recordResult(at config.Position, owner string, reader *config.Reader, err error) {
	if err != nil {
		b.errs = append(b.errs, &config.Error{Position: at, Text: fmt.Sprintf("%s: %v", owner, err), Cause: err})
	}
	b.errs = append(b.errs, reader.Finish())
	b.warnings = append(b.warnings, reader.Warnings()...)
}

func (b *build) unknownName(at config.Position, noun, name string) {
	if !b.part {
		b.errs = append(b.errs, &config.Error{Position: at, Text: fmt.Sprintf("unknown %s %q", noun, name)})
	}
}

func (p *Profile) checkUnused(configuration *config.Configuration) error {
	var errs []error
	idle := p.unusedPlugins()
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
