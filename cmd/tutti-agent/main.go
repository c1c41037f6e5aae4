// Command tutti-agent is the node agent for isolated CPUs: it publishes the node's isolated CPUs, and keeps containers on
// those that the scheduler assigned.
//
// This package has the flags and the wiring of internal/agent.
package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
)

func main() {
	if err := newCommand().ExecuteContext(signals.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
