package agent

import (
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/tutti-sched/tutti/internal/agent/enforce"
	"github.com/tutti-sched/tutti/internal/agent/kubelet"
	"github.com/tutti-sched/tutti/internal/agent/sysfs"
	"github.com/tutti-sched/tutti/pkg/isolated"
)

// Sources are the places that Look reads.
type Sources struct {
	// Sysfs is /sys; Proc is /proc, for the boot's id and interrupts.
	Sysfs, Proc fs.FS
	// Override are the isolated CPUs whatever the kernel reports; nil to use the kernel's.
	Override *isolated.CPUSet
	// KubeletState is the path of the kubelet's cpu_manager_state or of its configuration file; empty not to read it.
	KubeletState string
}

// Look reads the machine and the kubelet's policy. Warnings are for the operator. An error says that the machine cannot be
// read; an unreadable kubelet policy is a problem of the node.
func (s *Sources) Look() (local *Local, warnings []string, err error) {
	machine, err := sysfs.Read(s.Sysfs, s.Override)
	if err != nil {
		return nil, nil, err
	}
	local = &Local{Topology: machine.Topology()}
	if boot, err := fs.ReadFile(s.Proc, "sys/kernel/random/boot_id"); err == nil {
		local.Topology.BootID = strings.TrimSpace(string(boot))
	}
	if s.KubeletState != "" {
		policy, problem := s.policy()
		local.Topology.Kubelet.CPUManagerPolicy = policy
		if problem != "" {
			local.Problems = append(local.Problems, problem)
		}
	}
	if machine.Isolated == machine.Online {
		local.Problems = append(local.Problems, fmt.Sprintf(
			"all online CPUs, %s, are isolated: none is left for anything else", machine.Online))
	}
	return local, machine.Warnings(s.Proc), nil
}

func (s *Sources) policy() (policy, problem string) {
	text, err := os.ReadFile(s.KubeletState)
	if err == nil {
		policy, err = kubelet.Policy(text)
	}
	if err != nil {
		return "", fmt.Sprintf("the kubelet's CPU manager policy is unknown: %s: %v", s.KubeletState, err)
	}
	return policy, kubelet.PolicyProblem(policy)
}

// view is what to enforce on the machine.
func (l *Local) view() enforce.View {
	return enforce.View{
		Isolated: l.Topology.Isolated, Online: l.Topology.Online, NUMA: l.Topology.NUMA, Closed: strings.Join(l.Problems, "; "),
	}
}
