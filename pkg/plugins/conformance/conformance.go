// Package conformance keeps the cluster itself alive: pods of the system are nobody's victims.
//
// The engine has the same rule for namespace and priority, and no configuration switches it off; this package also heeds the
// names of Kubernetes' own classes, and is where an administrator expects the rule to stand.
package conformance

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Name is the plugin's name in the configuration.
const Name = "conformance"

// Summary is what the plugin says, in half a sentence.
const Summary = "that pods of the system are not evicted"

// New returns the plugin. It keeps nothing and takes no arguments.
func New() framework.Plugin { return plugin{} }

type plugin struct{}

var _ framework.VictimFilter = plugin{}

// Name returns "conformance".
func (plugin) Name() string { return Name }

// FilterVictims leaves units without pods of the system: those in kube-system, and those of the two classes that Kubernetes
// reserves for what a cluster or a node cannot do without.
func (plugin) FilterVictims(_ framework.EvictionPurpose, _ *model.Job, units []framework.EvictionUnit) ([]framework.EvictionUnit, bool) {
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
