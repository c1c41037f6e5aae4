// Command tutti-scheduler is the scheduler: it binds the pods of PodGroups all together or not at all.
//
// This package holds the flags and the wiring; what it wires has its own packages under pkg.
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
