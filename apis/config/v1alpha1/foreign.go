package v1alpha1

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// This file is what users of kube-batch and Volcano know by a name that there is not here, and what they write in its place.

// foreignActions are Volcano's actions without one of that name. instead is the action that does the same; empty when none does.
func foreignActions() map[string]struct{ instead, because string } {
	return map[string]struct{ instead, because string }{
		"enqueue":     {because: "no job holds anything while it waits, so that none is kept from waiting"},
		"reserve":     {because: "capacity is reserved by backfill"},
		"elect":       {because: "capacity is reserved by backfill"},
		"shuffle":     {because: "no pod is evicted to run elsewhere"},
		"gangpreempt": {instead: "preempt", because: "preempt plans for whole gangs"},
		"gangreclaim": {instead: "reclaim", because: "reclaim plans for whole gangs"},
	}
}

// actionsInstead returns the line to write in place of these actions.
func actionsInstead(text string) string {
	var names []string
	for _, name := range strings.Split(text, ",") {
		name = strings.TrimSpace(name)
		if foreign, is := foreignActions()[name]; is {
			name = foreign.instead
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "name others, such as allocate"
	}
	return fmt.Sprintf("write actions: %s", quote(strings.Join(names, ", ")))
}

// foreignPlugins are Volcano's plugins without one of that name, and what its users write in its place, or why nothing; empty
// when nothing here does the same.
func foreignPlugins() map[string]string {
	return map[string]string{
		"binpack":                "give nodeorder the arguments {leastrequested.weight: 0, mostrequested.weight: 1}",
		"capacity":               "name proportion, and write guarantees and limits into the Queues",
		"cdp":                    "give reclaim the argument minRunSeconds",
		"deviceshare":            "",
		"network-topology-aware": "give the pods an affinity to each other",
		"nodegroup":              "",
		"numaaware":              "see isolcpu",
		"overcommit":             "it belongs to enqueue: no job holds anything while it waits",
		"pdb":                    "PodDisruptionBudgets are heeded without it",
		"rescheduling":           "",
		"reservation":            "capacity is reserved by backfill",
		"resource-strategy-fit":  "give nodeorder the argument leastrequested.resources, or mostrequested.resources",
		"resourcequota":          "the API server holds to ResourceQuotas; a limit of a Queue counts what jobs hold",
		"sla":                    "capacity is reserved by backfill, after reserveAfter",
		"task-topology":          "give the pods an affinity to each other",
		"tdm":                    "",
		"usage":                  "",
	}
}

// foreignSwitches are Volcano's, beyond kube-batch's nine, and what its users write in their place; empty when nothing does the
// same.
func foreignSwitches() map[string]string {
	return map[string]string{
		"enableHierarchy":        "queues are a tree by themselves: a Queue names its parent",
		"enableNamespaceOrder":   "drf compares namespaces unless it has the argument label",
		"enableJobEnqueued":      "no job holds anything while it waits, so that none is kept from waiting",
		"enabledOverused":        "shares keep no job from idle capacity",
		"enabledAllocatable":     "the limits of Queues hold in any configuration",
		"enablePreemptive":       "",
		"enabledVictim":          "",
		"enableJobStarving":      "",
		"enableTargetJob":        "",
		"enableReservedNodes":    "",
		"enableBestNode":         "",
		"enabledClusterOrder":    "",
		"enabledHyperNodeOrder":  "",
		"enabledSubJobReady":     "",
		"enabledSubJobPipelined": "",
		"enabledSubJobOrder":     "",
	}
}

// foreignSwitch refuses a switch of Volcano's.
func (d *decoder) foreignSwitch(name string, value *yaml.Node) {
	d.errorf(value, "%s is a switch of Volcano's and has no counterpart: take out line %d%s", name, value.Line, behind("; ", foreignSwitches()[name]))
}

// behind returns the words with what leads to them, or nothing where there are none.
func behind(lead, words string) string {
	if words == "" {
		return ""
	}
	return lead + words
}
