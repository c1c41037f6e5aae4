// Command tutti-agent is the node agent for isolated CPUs: it publishes which a node has, and keeps containers on those that the
// scheduler gave them.
//
// This package holds the flags and the wiring; what it wires is under internal/agent.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	if err := newCommand().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
