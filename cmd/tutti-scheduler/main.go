// Command tutti-scheduler is the scheduler: it binds the pods of PodGroups all together or not at all.
//
// Everything is in package app, which builds a scheduler with plugins of another module, too.
package main

import (
	"fmt"
	"os"

	// The certificate authorities of an image that has no file of them: decisions/0054.
	_ "golang.org/x/crypto/x509roots/fallback"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/tutti-sched/tutti/cmd/tutti-scheduler/app"
)

func main() {
	if err := app.New().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
