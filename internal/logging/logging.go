// Package logging is the flags of the programs for their logs, and the two formats: klog's text and JSON. What is logged is no
// concern of it.
package logging

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strconv"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// The formats.
const (
	Text = "text"
	JSON = "json"
)

// Flags are the flags. The zero Flags are none.
type Flags struct {
	format string
	klog   *flag.FlagSet
}

// AddFlags adds -v, --vmodule and --logging-format.
func (f *Flags) AddFlags(flags *pflag.FlagSet) {
	f.klog = flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(f.klog)
	for _, name := range []string{"v", "vmodule"} {
		flags.AddGoFlag(f.klog.Lookup(name))
	}
	flags.Lookup("vmodule").Usage = "verbosity by source file, as FILE=N,...; for the format text only"
	flags.StringVar(&f.format, "logging-format", Text, "format of the log: text, or json with one object a line")
}

// Validate returns an error when there is no such format.
func (f *Flags) Validate() error {
	if f.format != Text && f.format != JSON {
		return fmt.Errorf("--logging-format %q: must be %s or %s", f.format, Text, JSON)
	}
	return nil
}

// Apply makes all that is logged from now on, by any package of the process, have the format. JSON goes to out.
func (f *Flags) Apply(out io.Writer) {
	if f.format != JSON {
		return
	}
	verbosity, _ := strconv.Atoi(f.klog.Lookup("v").Value.String()) // the flag takes nothing else
	klog.SetSlogLogger(slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{
		AddSource: true, Level: slog.Level(-verbosity), ReplaceAttr: rename,
	})))
}

// rename gives a line the keys that Kubernetes' own components use: ts, caller, msg, v, or err of an error. What has a text of
// its own, such as the name of a pod, is shown as that.
func rename(groups []string, attribute slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return attribute
	}
	switch value := attribute.Value.Any().(type) {
	case slog.Level:
		if value >= slog.LevelError {
			return slog.String("level", "error")
		}
		return slog.Int("v", -int(value))
	case *slog.Source:
		return slog.String("caller", value.File+":"+strconv.Itoa(value.Line))
	case fmt.Stringer:
		if attribute.Key == slog.TimeKey {
			return slog.Attr{Key: "ts", Value: attribute.Value}
		}
		return slog.String(attribute.Key, value.String())
	}
	return attribute
}
