package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tutti-sched/tutti/apis/client/clientset/versioned"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/cluster/groups"
	"github.com/tutti-sched/tutti/pkg/model"
)

// clientFlags are the common flags of all commands: how to reach the cluster, and how to print.
type clientFlags struct {
	rules     clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
	output    string

	// environment and now are the process's own, except in tests.
	environment func(string) string
	now         func() time.Time
	// config, when it is set, replaces the kubeconfig.
	config *rest.Config
}

// The output formats.
const (
	outputJSON = printer.JSON
	outputYAML = printer.YAML
	outputWide = "wide"
)

// addFlags adds kubectl's flags, as client-go has them: each means the same as there, and the API server.
func (a *clientFlags) addFlags(flags *pflag.FlagSet) {
	a.rules = *clientcmd.NewDefaultClientConfigLoadingRules()
	flags.StringVar(&a.rules.ExplicitPath, "kubeconfig", "", "kubeconfig file; without it, KUBECONFIG or ~/.kube/config")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.Timeout.Default = "30s"
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	names.AuthOverrideFlags.Username, names.AuthOverrideFlags.Password = clientcmd.FlagInfo{}, clientcmd.FlagInfo{}
	clientcmd.BindOverrideFlags(&a.overrides, flags, names)
	flags.StringVarP(&a.output, "output", "o", "", "json or yaml; for the tables of status, nodes and cycle wide, too")
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
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&a.rules, &a.overrides)
	if a.config != nil {
		namespace := a.overrides.Context.Namespace
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		return a.config, namespace, nil
	}
	config, err := loader.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, "", fmt.Errorf("there is no kubeconfig at %s; say --kubeconfig FILE, or set KUBECONFIG",
			strings.Join(a.rules.GetLoadingPrecedence(), " or "))
	case err != nil:
		return nil, "", fmt.Errorf("kubeconfig: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("kubeconfig: %w", err)
	}
	config.UserAgent = "kubectl-tutti"
	config.QPS, config.Burst = 50, 100
	return config, namespace, nil
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
		held[groups.Key(&podGroups[i])] = true
	}
	return func(pod *corev1.Pod) bool {
		job := groups.Of(pod).Job
		return !held[job] && (!job.IsPod() || waits(pod))
	}
}

// waits reports whether the pod does not run, and has not ended.
func waits(pod *corev1.Pod) bool {
	phase := pod.Status.Phase
	return phase != corev1.PodRunning && phase != corev1.PodSucceeded && phase != corev1.PodFailed
}

// namedBy reports of which sources the pods name a group. sources are those that are on.
func namedBy(sources groups.Sources, pods []corev1.Pod) func(model.Source) bool {
	named := map[model.Source]bool{}
	for i := range pods {
		membership := sources.Of(&pods[i])
		for one := range membership.All() {
			named[one.Job.Source] = true
			if set, ofSet := groups.SetOf(one.Job); ofSet {
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
	ctx context.Context, namespace string, sources groups.Sources, wanted func(model.Source) bool,
) (specs []*groups.Spec, err error) {
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
