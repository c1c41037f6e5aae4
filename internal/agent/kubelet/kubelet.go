// Package kubelet finds out what the node's kubelet does with CPUs: which CPU manager policy it runs, and whether the CPU
// that it offers counts the isolated ones.
//
// It only parses what it is given, without I/O. The kubelet does not know about isolation: under policy none it pins no
// container, which enforcement needs; under any other it assigns CPUs itself.
package kubelet

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

// PolicyNone is the one policy of the kubelet's CPU manager that is compatible with isolated CPUs.
const PolicyNone = "none"

// Policy returns the CPU manager's policy from the text of the kubelet's cpu_manager_state, or of its configuration file. A
// configuration without the field means none, the kubelet's default. The error says that it is neither.
func Policy(text []byte) (string, error) {
	var file struct {
		// PolicyName is a field of the state.
		PolicyName string `json:"policyName"`
		// Kind and CPUManagerPolicy are fields of the configuration.
		Kind             string `json:"kind"`
		CPUManagerPolicy string `json:"cpuManagerPolicy"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return "", err
	}
	switch {
	case file.PolicyName != "":
		return file.PolicyName, nil
	case file.Kind == "KubeletConfiguration" && file.CPUManagerPolicy == "":
		return PolicyNone, nil
	case file.Kind == "KubeletConfiguration":
		return strings.ToLower(file.CPUManagerPolicy), nil
	}
	return "", fmt.Errorf("neither the kubelet's CPU manager state nor a KubeletConfiguration")
}

// PolicyProblem returns why no isolated CPUs can be offered under the policy, or nothing. An empty policy is one that was not
// read.
func PolicyProblem(policy string) string {
	if policy == "" || policy == PolicyNone {
		return ""
	}
	return fmt.Sprintf("cpuManagerPolicy=%s: the kubelet gives CPUs out itself, isolated ones too; set cpuManagerPolicy: none, "+
		"remove its cpu_manager_state and restart it", policy)
}

// Mode returns how the node's allocatable CPU relates to its isolated CPUs, from capacity and allocatable CPU in thousandths,
// and a problem when that cannot be known. The requested mode, if any, is used and only checked. The mode counts also with a
// problem: isolated CPUs are not offered then, and ordinary CPUs must not be offered in excess.
//
// Less reserved than is isolated means that at least some isolated CPU is counted as allocatable; a part of them is never
// reserved. More may be a reservation of the isolated ones, or a large one of others. Then the mode is Excluded: allocatable
// is no more than the ordinary CPUs in either case.
func Mode(capacity, allocatable int64, cpus int, asked isolated.Mode) (isolated.Mode, string) {
	reserved, needed := capacity-allocatable, int64(cpus)*1000
	switch {
	case cpus == 0 && asked == "", asked == "" && reserved < needed:
		return isolated.Included, ""
	case asked == isolated.Excluded && reserved < needed:
		return isolated.Included, fmt.Sprintf("mode excluded was asked for, but allocatable CPU is only %dm below capacity, and %d "+
			"CPUs are isolated: it counts some of them", reserved, cpus)
	case asked != "":
		return asked, ""
	}
	return isolated.Excluded, fmt.Sprintf("allocatable CPU is %dm below capacity, and %d CPUs are isolated: whether it counts them "+
		"is not known; set it with --mode", reserved, cpus)
}
