package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	command := newCommand(newClientFlags())
	command.SetArgs(arguments(os.Args))
	if err := command.ExecuteContext(ctx); err != nil {
		printer.New(os.Stderr, os.Getenv).Lines(fmt.Sprint("Error: ", err))
		stop()
		os.Exit(1)
	}
}

// completer is the name under which kubectl runs a program to complete the command line of kubectl tutti. A link with this name
// to this program is that program.
const completer = "kubectl_complete-tutti"

// arguments returns the arguments of the command line.
func arguments(line []string) []string {
	if filepath.Base(line[0]) == completer {
		return append([]string{"__complete"}, line[1:]...)
	}
	return line[1:]
}
