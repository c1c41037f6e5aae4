// Package logging is the flags of the programs for their logs: those of Kubernetes' own components, with their two formats,
// klog's text and JSON. What is logged is no concern of it.
package logging

import (
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation/field"
	logs "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // the format json
)

// Flags are the values of the flags. The zero Flags have none; AddFlags gives them their defaults.
type Flags struct {
	logs.LoggingConfiguration
}

// AddFlags adds -v, whose usage says what each level logs, --vmodule, --logging-format and --log-flush-frequency. The alpha flags
// of the library are refused, since the programs do not have their feature gate, and are not in the help.
func (f *Flags) AddFlags(flags *pflag.FlagSet, levels string) {
	f.LoggingConfiguration = *logs.NewLoggingConfiguration()
	logs.AddFlags(&f.LoggingConfiguration, flags)
	flags.VisitAll(func(flag *pflag.Flag) { flag.Hidden = flag.Hidden || strings.HasPrefix(flag.Usage, "[Alpha]") })
	flags.Lookup("v").Usage = "log verbosity: " + levels
}

// Validate returns all errors in the values, such as a format that does not exist.
func (f *Flags) Validate() error {
	return logs.Validate(&f.LoggingConfiguration, nil, field.NewPath("logging")).ToAggregate()
}

// Apply makes all that is logged from now on, by any package of the process, have the format, on stderr. A process calls it once.
func (f *Flags) Apply() error {
	return logs.ValidateAndApply(&f.LoggingConfiguration, nil)
}
