package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tutti-sched/tutti/internal/configuration"
	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/internal/logging"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/internal/version"
	"github.com/tutti-sched/tutti/pkg/framework"
)

// options are the flags.
type options struct {
	kubeconfig      string
	config          string
	configMap       string
	configOverride  string
	checkConfig     []string
	explainConfig   bool
	schedulerNames  []string
	leaderElect     bool
	leaderNamespace string
	metricsAddress  string
	certificates    string
	healthAddress   string
	pprofAddress    string
	bindDeadline    time.Duration
	stepLimit       time.Duration
	leaseNamespace  string
	featureGates    string
	logging         logging.Flags
	withoutAgents   bool
	// extra are the plugins beside the built-in ones.
	extra []framework.PluginRegistration
}

// New returns the command with its flags. A configuration may name extra plugins beside the built-in ones; an extra plugin with
// the name of a built-in one takes its place.
func New(extra ...framework.PluginRegistration) *cobra.Command {
	o := &options{extra: extra}
	command := &cobra.Command{
		Use:   "tutti-scheduler",
		Short: "A gang scheduler for Kubernetes: a job starts as a whole or not at all",
		Long: `tutti-scheduler places the pods that name it as their schedulerName. Pods with the label
scheduling.tutti.dev/pod-group belong to the PodGroup of that name in their namespace, and start only when the
group's minimum can start together. A pod without the label is a job of its own.

It needs the PodGroup CRD in the cluster and, unless --kubeconfig is given, runs with the ServiceAccount of its pod.
With TUTTI_VERIFY=1 in its environment it checks its invariants after every statement, and crashes when one is broken:
slow, for tests.`,
		Example: `  # in a cluster: the chart has the arguments of an installed scheduler
  tutti-scheduler --config-map tutti-system/tutti-scheduler --leader-elect-namespace tutti-system

  # against a cluster of your own in which no other scheduler of that name runs: it binds and evicts
  tutti-scheduler --kubeconfig ~/.kube/config --leader-elect=false

  # which plugin answers which question
  tutti-scheduler --config scheduler.yaml --explain-config

  # what a plugin or an action does, and its arguments
  tutti-scheduler --explain-config nodeorder`,
		Version: version.Version(),
		Args: func(command *cobra.Command, args []string) error {
			if o.explainConfig {
				return cobra.MaximumNArgs(1)(command, args)
			}
			return cobra.NoArgs(command, args)
		},
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, args []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			if len(o.checkConfig) > 0 {
				return o.check(command.Context(), command.OutOrStdout())
			}
			if o.explainConfig {
				return o.explain(command.Context(), strings.Join(args, ""), command.OutOrStdout())
			}
			if err := o.logging.Apply(); err != nil {
				return err
			}
			return o.run(command.Context())
		},
	}
	o.addFlags(command)
	return command
}

// removed are flags that are refused by name, and what to write in their place: those of kube-batch, and those that were removed.
var removed = map[string]string{
	"schedule-period": "leave it out, cycles are started by what changes",
	"bind-workers":    "leave it out, at most 64 requests are under way at a time",
}

func (o *options) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; without it, the ServiceAccount of the pod")
	flags.StringVar(&o.config, "config", "",
		"file with actions and tiers of plugins, which is read again when it changes; without it, the built-in default")
	flags.StringVar(&o.configMap, "config-map", "",
		"the same from a ConfigMap, as NAMESPACE/NAME or NAMESPACE/NAME/KEY; the key is "+configuration.DefaultKey+" unless given")
	flags.StringVar(&o.configOverride, "config-map-override", "",
		"name of a second ConfigMap in the namespace of --config-map, which need not exist: what it has under the same key is used in place "+
			"of the first one's, and its key "+configuration.PauseKey+" pauses the scheduler")
	flags.StringArrayVar(&o.checkConfig, "check-config", nil,
		"text of a configuration: print everything that is wrong with it, and exit, with an error if something is; asks no API server; "+
			"may be given more than once")
	flags.BoolVar(&o.explainConfig, "explain-config", false,
		"print which plugin answers which question or, with the name of a plugin or an action, its arguments, and exit; "+
			"asks no API server")
	flags.StringArrayVar(&o.schedulerNames, "scheduler-name", []string{sources.DefaultScheduler},
		"schedulerName of the pods to place; may be given more than once")
	flags.BoolVar(&o.leaderElect, "leader-elect", true, "schedule only while holding the Lease")
	flags.StringVar(&o.leaderNamespace, "leader-elect-namespace", "",
		"namespace of the Lease, and of the ConfigMap to which the leader writes the endpoint's certificate; without it, the pod's own, "+
			"else tutti-system")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443",
		"where /metrics and /debug are served by HTTPS, to callers that the API server authorizes; 0 turns it off")
	flags.StringVar(&o.certificates, "tls-cert-dir", "",
		"folder with tls.crt and tls.key for them, read again when they change; without it, a certificate is made at the start")
	flags.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081",
		"where /healthz and /readyz are served; 0 turns it off")
	flags.StringVar(&o.pprofAddress, "pprof-bind-address", "0",
		"where /debug/pprof is served, to any caller that can connect; 0 turns it off")
	flags.DurationVar(&o.bindDeadline, "bind-deadline", 30*time.Second,
		"how long after its first bind a gang must have its minimum; after that, its bound pods are deleted")
	flags.DurationVar(&o.stepLimit, "step-limit", 2*time.Minute,
		"how long one step of the loop may take, such as one call of a plugin; after that the process ends and lets its Lease "+
			"expire, so that another replica goes on")
	flags.StringVar(&o.leaseNamespace, "agent-lease-namespace", "",
		"namespace of the Leases of tutti-agents: a node is given pods with isolated CPUs while that of its agent is valid; without it, "+
			"no node is")
	flags.BoolVar(&o.withoutAgents, "isolated-cpus-without-agents", false,
		"give out isolated CPUs without looking at Leases, where something other than tutti-agent enforces them, or for tests")

	flags.StringVar(&o.featureGates, "feature-gates", "",
		"feature gates of kube-scheduler's plugins, as A=true,B=false, for those that are not to be as the API server has them")
	for name, instead := range removed {
		// A flag that may have no value is refused where it is the last word, too.
		flags.BoolFunc(name, "", func(string) error { return errors.New("there is no such flag: " + instead) })
		_ = flags.MarkHidden(name)
	}
	o.logging.AddFlags(flags, "0 starts and failures, 1 each decision, 2 each cycle, 4 why each job waits, by action")
}

// leastStepLimit is above what a cycle of a large cluster takes on a slow machine. The first lists are no long step: each event
// counts as progress.
const leastStepLimit = 5 * time.Second

// validate returns everything that is wrong with the flags' values.
func (o *options) validate() error {
	var errs []error
	for _, name := range o.schedulerNames {
		for _, problem := range validation.IsDNS1123Subdomain(name) {
			errs = append(errs, fmt.Errorf("--scheduler-name %q: %s", name, problem))
		}
	}
	if slices.Contains(o.schedulerNames, "default-scheduler") {
		errs = append(errs, errors.New("--scheduler-name default-scheduler: that is kube-scheduler's; "+
			"two schedulers for one name place pods twice"))
	}
	errs = append(errs, o.logging.Validate())
	if _, err := o.source(); err != nil {
		errs = append(errs, err)
	}
	if o.withoutAgents && o.leaseNamespace != "" {
		errs = append(errs, errors.New("--isolated-cpus-without-agents: Leases are looked at with --agent-lease-namespace; give one of the two"))
	}
	errs = append(errs, o.checkCertificates(), kube.CheckGates(o.featureGates))
	if o.bindDeadline < time.Second {
		errs = append(errs, fmt.Errorf("--bind-deadline %s: must be at least 1s", o.bindDeadline))
	}
	if o.stepLimit < leastStepLimit {
		errs = append(errs, fmt.Errorf("--step-limit %s: must be at least %s", o.stepLimit, leastStepLimit))
	}
	return errors.Join(errs...)
}
