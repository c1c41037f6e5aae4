// Command lab runs the lab: throw-away Kubernetes clusters for trying, testing and measuring Tutti. It builds the lab's tool, which
// imports Kubernetes and takes minutes to compile the first time, shows how far that is, and becomes the tool. The command build,
// which builds the programs of a control plane, it carries out itself.
//
// Invariant: it imports the standard library alone, so that it compiles in seconds.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/tutti-sched/tutti/lab/binaries"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	run := runTool
	if len(os.Args) > 1 && os.Args[1] == "build" {
		run = build
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		stop()
		os.Exit(1)
	}
}

// runTool builds the tool and replaces this process by it.
func runTool(ctx context.Context) error {
	path, err := binaries.Build(ctx, os.Stderr, binaries.Lab)
	if err != nil {
		return err
	}
	return syscall.Exec(path, append([]string{path}, os.Args[1:]...), os.Environ())
}

// build builds programs of a control plane and prints their files.
func build(ctx context.Context) error {
	flags := flag.NewFlagSet("lab build", flag.ExitOnError)
	kubernetes := flags.String("k8s", binaries.DefaultKubernetes, "the `version` of Kubernetes")
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "Usage: lab build [--k8s version] [program...]\n\nPrograms: %s; all, when none is named.\n",
			strings.Join(binaries.Names(), ", "))
		flags.PrintDefaults()
	}
	if err := flags.Parse(os.Args[2:]); err != nil {
		return err
	}
	set, err := binaries.Ensure(ctx, *kubernetes, os.Stderr, flags.Args()...)
	if err != nil {
		return err
	}
	for _, name := range binaries.Names() {
		if path := set.Path(name); path != "" {
			fmt.Println(path)
		}
	}
	return nil
}
