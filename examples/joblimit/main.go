// Command joblimit is a scheduler with a plugin of its own. It is the example of docs/writing-a-plugin.md: a module of its own
// that imports Tutti and adds one plugin to it.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/tutti-sched/tutti/cmd/tutti-scheduler/app"
)

func main() {
	if err := app.New(registration()).ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
