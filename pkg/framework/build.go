package framework

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/argument"
)

// PluginRegistration is a plugin that a configuration may name.
type PluginRegistration struct {
	Name string
	// Summary is what it says, in half a sentence, and Arguments all that it reads.
	Summary   string
	Arguments argument.List
	// New reads the arguments and returns what makes the plugin for each session: once per configuration for the loop, and once
	// for the sessions on another goroutine that decide nothing, see Profile.Replica. What sessions share must not be shared by
	// the two. Arguments that are no good are the reader's to report; an error says that the plugin cannot be built at all.
	New func(arguments *config.Reader) (Factory, error)
}

// ActionRegistration is an action that a configuration may name.
type ActionRegistration struct {
	Name string
	// Summary is what it does, in half a sentence, and Arguments all that it reads.
	Summary   string
	Arguments argument.List
	// New reads the arguments and returns the action; errors as in PluginRegistration.
	New func(arguments *config.Reader) (Action, error)
}

// Registry is what this build of the scheduler has to offer.
type Registry struct {
	Actions []ActionRegistration
	Plugins []PluginRegistration
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
		profile.Actions = append(profile.Actions, b.action(step))
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
			members = append(members, TierPlugin{Factory: b.plugin(entry), Disabled: entry.Disable})
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

func (b *build) action(step config.Action) Action {
	for _, maker := range b.catalogue.Actions {
		if maker.Name == step.Name {
			reader := step.Arguments.Reader()
			action, err := maker.New(reader)
			b.recordResult(step.Position, "action "+step.Name, reader, err)
			return action
		}
	}
	b.unknownName(step.Position, "action", step.Name)
	return nil
}

func (b *build) plugin(entry config.Plugin) Factory {
	for _, maker := range b.catalogue.Plugins {
		if maker.Name == entry.Name {
			reader := entry.Arguments.Reader()
			factory, err := maker.New(reader)
			b.recordResult(entry.Position, "plugin "+entry.Name, reader, err)
			return factory
		}
	}
	b.unknownName(entry.Position, "plugin", entry.Name)
	return nil
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
	idle := p.UnusedPlugins()
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
