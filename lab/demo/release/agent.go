package release

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tutti-sched/tutti/internal/agent/publish"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/pkg/isolated"
)

const (
	// DaemonSet is the name of the agent's DaemonSet, and of its account.
	DaemonSet = "tutti-agent"
	// AgentNamespace is where the agents are in tests that give them a namespace of their own.
	AgentNamespace = "tutti-agents"
)

// Agent speaks for the release's agent on one node: with the agent's own code, as its pod there.
type Agent struct {
	publisher *publish.Publisher
	topology  *isolated.Topology
}

// AgentOn waits for the pod that the DaemonSet has on a node, which must have its label, and returns the agent of that node,
// whose machine is described by the topology. It holds a token of that pod, so that it may do what roles and policies let the
// pod do.
func AgentOn(ctx context.Context, c *cluster.Cluster, node string, topology *isolated.Topology) (*Agent, error) {
	client, err := c.Client()
	if err != nil {
		return nil, err
	}
	var pod *corev1.Pod
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, cluster.Patience, true, func(ctx context.Context) (bool, error) {
		pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
			LabelSelector: "app.kubernetes.io/name=" + DaemonSet, FieldSelector: "spec.nodeName=" + node,
		})
		if err != nil || len(pods.Items) == 0 {
			return false, err
		}
		pod = &pods.Items[0]
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("the agent's pod on %s: %w", node, err)
	}
	kubeconfig, err := c.KubeconfigForPod(ctx, pod)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("access of pod %s: %w", pod.Name, err)
	}
	own, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of pod %s: %w", pod.Name, err)
	}
	return &Agent{publisher: publish.New(own, node, pod.Namespace, pod.Name), topology: topology}, nil
}

// Publish writes the node's annotation and the first sign of life, and returns the annotation.
func (a *Agent) Publish(ctx context.Context, now time.Time) (string, error) {
	node, err := a.publisher.Node(ctx)
	if err != nil {
		return "", err
	}
	text, err := a.publisher.Topology(ctx, node.Published, a.topology)
	if err != nil {
		return "", err
	}
	return text, a.Renew(ctx, now)
}

// Renew writes another sign of life.
func (a *Agent) Renew(ctx context.Context, now time.Time) error { return a.publisher.Renew(ctx, now) }

// Warn writes an event about a pod, or about the node where the note names none.
func (a *Agent) Warn(ctx context.Context, note *publish.PodEvent, now time.Time) error {
	return a.publisher.Event(ctx, note, now)
}

// KeepAlive renews as often as an agent does, until the context ends. Its error is of the last time that it could not.
func (a *Agent) KeepAlive(ctx context.Context) (err error) {
	ticker := time.NewTicker(publish.Period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return err
		case now := <-ticker.C:
			if failed := a.Renew(ctx, now); failed != nil && !errors.Is(failed, context.Canceled) {
				err = failed
			}
		}
	}
}
