package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tutti-sched/tutti/apis/client/clientset/versioned"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/connect"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// clientFlags are the common flags of all commands: how to reach the cluster, and how to print.
type clientFlags struct {
	*genericclioptions.ConfigFlags
	output string

	// environment and now are the process's own, except in tests.
	environment func(string) string
	now         func() time.Time
}

func newClientFlags() *clientFlags {
	a := &clientFlags{ConfigFlags: genericclioptions.NewConfigFlags(true), environment: os.Getenv, now: time.Now}
	*a.Timeout = "30s"
	a.WithWrapConfigFn(func(config *rest.Config) *rest.Config {
		config.UserAgent, config.QPS, config.Burst = "kubectl-tutti", 50, 100
		return config
	})
	return a
}

// The output formats.
const (
	outputJSON = printer.JSON
	outputYAML = printer.YAML
	outputWide = "wide"
)

// addOutput adds the format to a command that prints text, or an object for programs.
func (a *clientFlags) addOutput(command *cobra.Command, more string) {
	command.Flags().StringVarP(&a.output, "output", "o", "", "output format: json or yaml"+more)
}

// checkOutput returns an error when the output format is not one of the command's; json and yaml always are.
func (a *clientFlags) checkOutput(more ...string) error {
	ways := append([]string{outputJSON, outputYAML}, more...)
	if a.output == "" || slices.Contains(ways, a.output) {
		return nil
	}
	return fmt.Errorf("--output %q: say one of %s", a.output, strings.Join(ways, ", "))
}

// structured prints an object if the format is json or yaml, and reports whether it did.
func (a *clientFlags) structured(p *printer.Printer, object any) (printed bool, err error) {
	if a.output != outputJSON && a.output != outputYAML {
		return false, nil
	}
	return true, p.Encode(a.output, object)
}

// load returns the access to the API server, and the namespace.
func (a *clientFlags) load() (*rest.Config, string, error) {
	loader := a.ToRawKubeConfigLoader()
	if raw, err := loader.RawConfig(); err == nil && len(raw.Clusters) == 0 && *a.APIServer == "" && a.environment("KUBERNETES_SERVICE_HOST") == "" {
		return nil, "", fmt.Errorf("there is no kubeconfig at %s; say --kubeconfig FILE, or set KUBECONFIG",
			strings.Join(loader.ConfigAccess().GetLoadingPrecedence(), " or ")) // else it would be an API server on this machine
	}
	config, err := a.ToRESTConfig()
	if err != nil {
		return nil, "", fmt.Errorf("kubeconfig: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("kubeconfig: %w", err)
	}
	return config, namespace, nil
}

// endpointFlags connects to the scheduler itself.
type endpointFlags struct {
	*clientFlags
	options connect.Options
}

func (k *endpointFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&k.options.Server, "scheduler-server", "",
		"address of the scheduler's endpoint, such as https://10.0.0.7:8443; without it, a port-forward to the pod that leads")
	flags.StringVar(&k.options.Authority, "scheduler-certificate-authority", "",
		"file with the certificates that may have signed that of --scheduler-server; without it, its certificate must be the one in the ConfigMap "+
			debugapi.ConfigMap)
	flags.BoolVar(&k.options.Insecure, "scheduler-insecure-skip-tls-verify", false, "do not check the certificate of --scheduler-server")
	flags.StringVar(&k.options.Token, "scheduler-token", "",
		"token for the scheduler, of the audience "+debugapi.Audience+"; without it, one of the ServiceAccount "+debugapi.Account)
	flags.StringVar(&k.options.Namespace, "scheduler-namespace", "tutti-system", "namespace of the scheduler")
	flags.StringVar(&k.options.Lease, "scheduler-lease", "tutti-scheduler", "name of the scheduler's Lease")
}

// get gets the document at a path, as its table where accept asks for that.
func (k *endpointFlags) get(ctx context.Context, path, accept string, into any) error {
	config, _, err := k.load()
	if err != nil {
		return err
	}
	endpoint, err := connect.Connect(ctx, config, k.options)
	if err != nil {
		return err
	}
	defer endpoint.Close()
	return endpoint.Get(ctx, path, accept, into)
}

// reader reads objects from the API server.
type reader struct {
	pods   kubernetes.Interface
	groups versioned.Interface
	// foreign reads groups of other projects.
	foreign dynamic.Interface
}

func (a *clientFlags) reader() (*reader, string, error) {
	config, namespace, err := a.load()
	if err != nil {
		return nil, "", err
	}
	pods, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, "", fmt.Errorf("client: %w", err)
	}
	groups, err := cluster.NewGroupClient(config)
	if err != nil {
		return nil, "", fmt.Errorf("client: %w", err)
	}
	foreign, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, "", fmt.Errorf("client: %w", err)
	}
	return &reader{pods: pods, groups: groups, foreign: foreign}, namespace, nil
}

// page is the page size of lists.
const page = 500

// listGroups returns the PodGroups of a namespace, of all namespaces when it is empty, sorted as the API server has them.
func (r *reader) listGroups(ctx context.Context, namespace string) ([]v1alpha1.PodGroup, error) {
	var all []v1alpha1.PodGroup
	for options := (metav1.ListOptions{Limit: page}); ; {
		list, err := r.groups.SchedulingV1alpha1().PodGroups(namespace).List(ctx, options)
		switch {
		case apierrors.IsNotFound(err):
			return nil, fmt.Errorf("the cluster knows no PodGroups (%s): is Tutti installed?", v1alpha1.SchemeGroupVersion)
		case err != nil:
			return nil, fmt.Errorf("list PodGroups: %w", err)
		}
		all = append(all, list.Items...)
		if options.Continue = list.Continue; options.Continue == "" {
			return all, nil
		}
	}
}

// listPods returns the pods of a namespace, of all namespaces when it is empty, that match the selectors and, unless it is
// nil, keep.
func (r *reader) listPods(
	ctx context.Context, namespace string, selected metav1.ListOptions, keep func(*corev1.Pod) bool,
) ([]corev1.Pod, error) {
	var all []corev1.Pod
	for selected.Limit = page; ; {
		list, err := r.pods.CoreV1().Pods(namespace).List(ctx, selected)
		if err != nil {
			return nil, fmt.Errorf("list pods: %w", err)
		}
		for i := range list.Items {
			if keep == nil || keep(&list.Items[i]) {
				all = append(all, list.Items[i])
			}
		}
		if selected.Continue = list.Continue; selected.Continue == "" {
			return all, nil
		}
	}
}

// unheldPods select the pods that the status of a PodGroup may not cover; see unheld. Not all marks of groups are labels.
func unheldPods() []metav1.ListOptions {
	return []metav1.ListOptions{
		{LabelSelector: v1alpha1.LabelPodGroup},
		{LabelSelector: "!" + v1alpha1.LabelPodGroup},
	}
}

// unheld returns what keeps the pods that name none of the groups: those of another group, and those that wait and name none.
func unheld(podGroups []v1alpha1.PodGroup) func(*corev1.Pod) bool {
	held := make(map[model.JobKey]bool, len(podGroups))
	for i := range podGroups {
		held[sources.Key(&podGroups[i])] = true
	}
	return func(pod *corev1.Pod) bool {
		job := sources.Of(pod).Job
		return !held[job] && (!job.IsPod() || waits(pod))
	}
}

// waits reports whether the pod does not run, and has not ended.
func waits(pod *corev1.Pod) bool {
	phase := pod.Status.Phase
	return phase != corev1.PodRunning && phase != corev1.PodSucceeded && phase != corev1.PodFailed
}

// namedBy reports of which sources the pods name a group. sources are those that are on.
func namedBy(on sources.Sources, pods []corev1.Pod) func(model.Source) bool {
	named := map[model.Source]bool{}
	for i := range pods {
		membership := on.Of(&pods[i])
		for one := range membership.All() {
			named[one.Job.Source] = true
			if set, ofSet := sources.SetOf(one.Job); ofSet {
				named[set.Source] = true
			}
		}
	}
	return func(source model.Source) bool { return named[source] }
}

// listForeign returns what the groups of other projects say, of the sources that are wanted and of those of their parents, which
// come after them, and who owns them. Without the right to read them, or where there is no such kind, nothing is known of them.
// sources are those that are on; pods that name a group of another one are shown as if they were in none, with the reasons that
// the scheduler has written to them.
func (r *reader) listForeign(
	ctx context.Context, namespace string, sources sources.Sources, wanted func(model.Source) bool,
) (specs []*sources.Spec, err error) {
	parents := map[model.Source]bool{}
	for _, source := range sources {
		for _, watch := range source.Watches() {
			for options := (metav1.ListOptions{Limit: page}); wanted(watch.Source) || parents[watch.Source]; {
				list, err := r.foreign.Resource(watch.Resource).Namespace(namespace).List(ctx, options)
				if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
					break
				} else if err != nil {
					return nil, fmt.Errorf("list %s: %w", watch.Resource.GroupResource(), err)
				}
				for i := range list.Items {
					spec := watch.Decode(&list.Items[i])
					spec.OwnerReferences = list.Items[i].GetOwnerReferences()
					specs = append(specs, spec)
					if parent, ok := spec.Parent(); ok {
						parents[parent.Source] = true
					}
				}
				if options.Continue = list.GetContinue(); options.Continue == "" {
					break
				}
			}
		}
	}
	return specs, nil
}

// listUnheld returns the pods that no PodGroup's status covers.
func (r *reader) listUnheld(ctx context.Context, namespace string, groups []v1alpha1.PodGroup) ([]corev1.Pod, error) {
	var all []corev1.Pod
	for _, selected := range unheldPods() {
		pods, err := r.listPods(ctx, namespace, selected, unheld(groups))
		if err != nil {
			return nil, err
		}
		all = append(all, pods...)
	}
	return all, nil
}
