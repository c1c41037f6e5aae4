package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tutti-sched/tutti/internal/agent"
	"github.com/tutti-sched/tutti/internal/logging"
	"github.com/tutti-sched/tutti/internal/version"
	"github.com/tutti-sched/tutti/pkg/isolated"
)

const long = `tutti-agent runs on each node with isolated CPUs.

It reads from sysfs which CPUs the kernel isolates (isolcpus=) and how they belong together, and
from the kubelet's files that it does not give CPUs out itself. It connects to the container
runtime as the NRI plugin "isolcpu" and puts every container on its CPUs: those that the
scheduler assigned, or else the ordinary ones. A container whose assignment is not for this pod
and node, or has a CPU that another pod holds, does not start. Only then does it publish the
node's CPUs in the annotation isolcpu.tutti.dev/topology, and renews the Lease isolcpu-NODE every
10 s. A node that must not be offered says why in the annotation, in an event, and in /readyz.

It reads and writes its own node, its own Lease and events, and has no access to pods.`

// options are the flags.
type options struct {
	nodeName, namespace, kubeconfig string
	sysfsRoot, override             string
	mode                            string
	kubeletState                    string
	nriSocket                       string
	cgroupRoot                      string
	strictMemory                    bool
	listen                          string
	logging                         logging.Flags
}

// newCommand returns the command with its flags.
func newCommand() *cobra.Command {
	o := &options{}
	command := &cobra.Command{
		Use:   "tutti-agent",
		Short: "The node agent for isolated CPUs.",
		Long:  long,
		Example: `  # what would be published of this machine, and what is wrong with it
  tutti-agent discover

  # on a machine without isolcpus=
  tutti-agent --node-name worker-0 --isolated-override 8-15`,
		Version:       version.Version(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			if err := o.logging.Apply(); err != nil {
				return err
			}
			return o.run(command.Context())
		},
	}
	command.CompletionOptions.DisableDefaultCmd = true
	o.addFlags(command)
	command.AddCommand(o.discoverCommand())
	return command
}

func (o *options) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&o.nodeName, "node-name", os.Getenv("NODE_NAME"), "the node's name; without it, $NODE_NAME")
	flags.StringVar(&o.namespace, "namespace", envOr("POD_NAMESPACE", "tutti-system"),
		"namespace of the Lease, the agent's own; without it, $POD_NAMESPACE, else tutti-system")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; without it, the pod's service account")
	flags.StringVar(&o.nriSocket, "nri-socket", "/var/run/nri/nri.sock", "the container runtime's NRI socket")
	flags.StringVar(&o.cgroupRoot, "cgroup-root", "",
		"where the host's control groups are mounted, to check every 30 s where containers are; empty does not check")
	flags.BoolVar(&o.strictMemory, "strict-memory", false,
		"bind the memory of containers with isolated CPUs to those CPUs' NUMA nodes; they are killed when it is full")
	flags.StringVar(&o.listen, "listen", ":8082", "where /metrics, /healthz and /readyz are served; 0 turns it off")
	shared := command.PersistentFlags()
	shared.StringVar(&o.sysfsRoot, "sysfs-root", "/sys", "where sysfs is mounted")
	shared.StringVar(&o.override, "isolated-override", "",
		"the isolated CPUs as a list such as 8-15, whatever the kernel says; for machines without isolcpus=")
	shared.StringVar(&o.mode, "mode", "",
		"whether the node's allocatable CPU counts the isolated ones: included or excluded; empty finds out, "+
			"and refuses where that is ambiguous")
	shared.StringVar(&o.kubeletState, "kubelet-state", "/var/lib/kubelet/cpu_manager_state",
		"the kubelet's cpu_manager_state or configuration file, to see its CPU manager policy; empty takes it for none")

	o.logging.AddFlags(flags, "0 what changes, 2 each connection, 4 all that NRI says")
}

func envOr(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// validate returns all errors in the values of the flags.
func (o *options) validate() error {
	var errs []error
	if o.nodeName == "" {
		errs = append(errs, errors.New("--node-name or $NODE_NAME is needed"))
	}
	return errors.Join(append(errs, o.logging.Validate(), o.validateSources())...)
}

// validateSources is validate for the flags that discover has as well.
func (o *options) validateSources() error {
	var errs []error
	if mode := isolated.Mode(o.mode); o.mode != "" && mode != isolated.Included && mode != isolated.Excluded {
		errs = append(errs, fmt.Errorf("--mode %q: must be %s or %s", o.mode, isolated.Included, isolated.Excluded))
	}
	if _, err := o.overridden(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (o *options) overridden() (*isolated.CPUSet, error) {
	if strings.TrimSpace(o.override) == "" {
		return nil, nil
	}
	set, err := isolated.ParseSet(o.override)
	if err != nil {
		return nil, fmt.Errorf("--isolated-override: %w", err)
	}
	return &set, nil
}

func (o *options) sources() (agent.Sources, error) {
	override, err := o.overridden()
	return agent.Sources{
		Sysfs: os.DirFS(o.sysfsRoot), Proc: os.DirFS("/proc"), Override: override, KubeletState: o.kubeletState,
	}, err
}

func (o *options) discoverCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "discover",
		Short: "Print what would be published of this machine, as JSON, and touch nothing.",
		Long: `Print what would be published of this machine, as JSON, with what is wrong with it.

It needs neither a cluster nor a container runtime, and changes nothing. What the node object
tells, the mode, is there only if --mode says it.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := o.validateSources(); err != nil {
				return err
			}
			return o.discover(command.OutOrStdout())
		},
	}
}

// discover prints the result of Look.
func (o *options) discover(out io.Writer) error {
	sources, err := o.sources()
	if err != nil {
		return err
	}
	local, warnings, err := sources.Look()
	if err != nil {
		return err
	}
	topology := *local.Topology
	topology.Mode, topology.Problems = isolated.Mode(o.mode), local.Problems
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Topology isolated.Topology `json:"topology"`
		// Warnings are probable mistakes that have no effect on pods.
		Warnings []string `json:"warnings,omitempty"`
	}{topology, warnings})
}
