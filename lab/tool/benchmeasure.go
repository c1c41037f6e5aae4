package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tutti-sched/tutti/lab/bench/page"
	"github.com/tutti-sched/tutti/lab/bench/stage"
	"github.com/tutti-sched/tutti/lab/binaries"
)

// quiet gives controller-runtime a log, or it complains, with a stack.
func quiet() { log.SetLogger(klog.Background()) }

// docsUsage says what --docs is, for all commands that measure.
const docsUsage = "write the result into the pages of this folder too, such as ../docs/benchmarks"

// version is the version of Kubernetes that a report names.
func version(kubernetes string) string { return cmp.Or(kubernetes, binaries.DefaultKubernetes) }

// report is what a measurement says: the name of its part of a page, the part, and pictures by file name.
type report struct {
	name, text string
	pictures   map[string]string
}

// where says whom to measure and where the report goes, for the commands that measure schedulers.
type where struct {
	contenders []string
	docs       string
}

func (w *where) flags(cmd *cobra.Command, contenders []string, usage string) {
	cmd.Flags().StringSliceVar(&w.contenders, "contenders", contenders, usage)
	cmd.Flags().StringVar(&w.docs, "docs", "", docsUsage)
}

// measure reads the contenders, measures them, prints the report, also when something failed on the way, and writes it into the
// page when nothing did.
func (w *where) measure(
	cmd *cobra.Command, contenders *[]stage.SchedulerUnderTest, into string, run func(context.Context) (report, error),
) (err error) {
	if *contenders, err = stage.ParseContenders(w.contenders); err != nil {
		return fmt.Errorf("--contenders: %w", err)
	}
	said, err := run(cmd.Context())
	fmt.Fprint(cmd.OutOrStdout(), said.text)
	if err != nil || w.docs == "" {
		return err
	}
	return page.Write(w.docs, into, said.name, said.text, said.pictures)
}
