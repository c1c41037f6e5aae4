// Package conformance protects the cluster itself: pods of the system are never evicted.
//
// The engine has the same rule for namespace and priority, and no configuration switches it off; this package also protects
// Kubernetes' own priority classes by name, and is where an administrator expects the rule.
package conformance

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Name is the plugin's name in the configuration.
const Name = "conformance"

// Summary is what the plugin does, in half a sentence.
const Summary = "that pods of the system are not evicted"

// New returns the plugin. It has no state and no arguments.
func New() framework.Plugin { return plugin{} }

type plugin struct{}

var _ framework.VictimFilter = plugin{}

// Name returns "conformance".
func (plugin) Name() string { return Name }

// FilterVictims keeps the units without pods of the system: those in kube-system, and those of the two priority classes that
// Kubernetes reserves for critical pods.
func (plugin) FilterVictims(_ *model.Job, units []framework.EvictionUnit) ([]framework.EvictionUnit, bool) {
	return slices.DeleteFunc(units, func(unit framework.EvictionUnit) bool { return slices.ContainsFunc(unit.Tasks, ofSystem) }), true
}

func ofSystem(task *model.Task) bool {
	if task.Namespace == metav1.NamespaceSystem {
		return true
	}
	switch task.Pod.Spec.PriorityClassName {
	case "system-cluster-critical", "system-node-critical":
		return true
	}
	return false
}
