// Command hang is a scheduler with a plugin that does not return when it is asked about a pod with the label Label: what a bug of
// a plugin in a module of its own may do. It is for the end-to-end tests.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/cmd/tutti-scheduler/app"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Label marks the pods about which the plugin does not return.
const Label = "lab.tutti.dev/hang"

// plugin answers about all other jobs.
type plugin struct{}

var _ framework.JobValidator = plugin{}

// Name returns "hang".
func (plugin) Name() string { return "hang" }

// ValidateJob does not return when a pod of the job has the label.
func (plugin) ValidateJob(job *model.Job) *model.Refusal {
	for _, task := range job.Tasks {
		if _, marked := task.Pod.Labels[Label]; marked {
			select {}
		}
	}
	return nil
}

func main() {
	made := framework.PluginRegistration{
		Name: "hang", Summary: "nothing, and never about some",
		New: func(*config.Reader) (framework.Factory, error) {
			return func() framework.Plugin { return plugin{} }, nil
		},
	}
	if err := app.New(made).ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
