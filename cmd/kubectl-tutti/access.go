package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"github.com/tutti-sched/tutti/apis/client/clientset/versioned"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/connect"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/debugapi"
)

// clientFlags are the common flags of all commands: how to reach the cluster.
type clientFlags struct {
	*genericclioptions.ConfigFlags
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

// outputWide is the format of tables with all their columns.
const outputWide = "wide"

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
	return k.connected(ctx, func(endpoint *connect.Client) error { return endpoint.Get(ctx, path, accept, into) })
}

// connected does something with a connection to the scheduler.
func (k *endpointFlags) connected(ctx context.Context, do func(*connect.Client) error) error {
	config, _, err := k.load()
	if err != nil {
		return err
	}
	endpoint, err := connect.Connect(ctx, config, k.options, k.now())
	if err != nil {
		return err
	}
	defer endpoint.Close()
	return do(endpoint)
}

// reader reads objects from the API server.
type reader struct {
	config    *rest.Config
	namespace string
	pods      kubernetes.Interface
	groups    versioned.Interface
}

func (a *clientFlags) reader() (*reader, error) {
	config, namespace, err := a.load()
	if err != nil {
		return nil, err
	}
	pods, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	groups, err := cluster.NewGroupClient(config)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return &reader{config: config, namespace: namespace, pods: pods, groups: groups}, nil
}

// listGroups returns the PodGroups of a namespace, of all namespaces when it is empty, sorted as the API server has them.
func (r *reader) listGroups(ctx context.Context, namespace string) (all []v1alpha1.PodGroup, err error) {
	err = pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return r.groups.SchedulingV1alpha1().PodGroups(namespace).List(ctx, options)
	}).EachListItem(ctx, metav1.ListOptions{}, func(group runtime.Object) error {
		all = append(all, *group.(*v1alpha1.PodGroup))
		return nil
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("the cluster knows no PodGroups (%s): is Tutti installed?", v1alpha1.SchemeGroupVersion)
	case err != nil:
		return nil, fmt.Errorf("list PodGroups: %w", err)
	}
	return all, nil
}

// listPods returns the pods of a namespace, of all namespaces when it is empty, that keep keeps.
func (r *reader) listPods(ctx context.Context, namespace string, keep func(*corev1.Pod) bool) (all []*corev1.Pod, err error) {
	err = pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return r.pods.CoreV1().Pods(namespace).List(ctx, options)
	}).EachListItemWithAlloc(ctx, metav1.ListOptions{}, func(pod runtime.Object) error {
		if pod := pod.(*corev1.Pod); keep(pod) {
			all = append(all, pod)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return all, nil
}
