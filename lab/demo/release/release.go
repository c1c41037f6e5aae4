// Package release installs the chart into a lab cluster and runs the scheduler as the chart has it: with the token of
// the release's ServiceAccount and the arguments of its Deployment, which name its ConfigMap. The pods of the
// Deployment prove nothing there, since no node runs a container; that process does.
//
// It neither builds programs nor judges what the scheduler does. The demo and the end-to-end tests share it.
package release

import (
	"context"
	"fmt"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
)

// Names that the docs and the chart agree on.
const (
	// Name is what the release is called.
	Name = "tutti"
	// Namespace is where it lives.
	Namespace = "tutti-system"
	// Deployment is the name of the Deployment in it.
	Deployment = "tutti-scheduler"
	// Registry is where the images of the release would be: no node of a lab pulls any.
	Registry = "registry.invalid"
	// Timeout is how long helm waits for it to become ready, in helm's words.
	Timeout = "10m"
)

// Chart is the folder of the chart.
func Chart() (string, error) {
	root, err := binaries.Root()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, "charts", "tutti"), nil
}

// Install installs a chart, or upgrades the release to it, and returns when its pods are ready. args are further
// arguments for helm, such as --set.
func Install(ctx context.Context, c *cluster.Cluster, chart string, args ...string) error {
	all := append([]string{
		"upgrade", Name, chart, "--install", "--namespace", Namespace, "--create-namespace", "--wait", "--timeout", Timeout,
		"--set", "global.imageRegistry=" + Registry,
	}, args...)
	if _, err := c.Helm(ctx, all...); err != nil {
		return fmt.Errorf("install the chart: %w", err)
	}
	return nil
}

// Release is what an installed chart says about its scheduler.
type Release struct {
	// Namespace is where it lives.
	Namespace string
	// ServiceAccount is the account of its pods.
	ServiceAccount string
	// Args are the arguments of its container.
	Args []string
	// Ready is how many of its pods are ready.
	Ready int32
}

// Read reads the release from the API server.
func Read(ctx context.Context, c *cluster.Cluster) (*Release, error) {
	return ReadIn(ctx, c, Namespace)
}

// ReadIn reads the release of a namespace, for a cluster that has several.
func ReadIn(ctx context.Context, c *cluster.Cluster, namespace string) (*Release, error) {
	client, err := c.Client()
	if err != nil {
		return nil, err
	}
	deployment, err := client.AppsV1().Deployments(namespace).Get(ctx, Deployment, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("deployment of the chart: %w", err)
	}
	spec := deployment.Spec.Template.Spec
	if len(spec.Containers) != 1 {
		return nil, fmt.Errorf("deployment of the chart: %d containers, want 1", len(spec.Containers))
	}
	return &Release{
		Namespace: namespace, ServiceAccount: spec.ServiceAccountName, Args: spec.Containers[0].Args,
		Ready: deployment.Status.ReadyReplicas,
	}, nil
}

// User is the name by which the API server knows the release's scheduler.
func (r *Release) User() string {
	return "system:serviceaccount:" + r.Namespace + ":" + r.ServiceAccount
}
