package cluster

import (
	"context"
	"fmt"
	"maps"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations on a pod that tell kwok how it fares; each holds a duration such as "30s". FailAfter and RunFor exclude
// each other.
const (
	// RunFor: once it runs, the pod succeeds after this time.
	RunFor = "lab.tutti.dev/run-for"
	// FailAfter: once it runs, the pod fails after this time.
	FailAfter = "lab.tutti.dev/fail-after"
	// StartAfter: once it is bound, the pod runs after this time instead of immediately.
	StartAfter = "lab.tutti.dev/start-after"
	// StopAfter: once it is deleted, the pod is gone after this time instead of immediately.
	StopAfter = "lab.tutti.dev/stop-after"
)

// writers is how many requests of this package are under way at the same time.
const writers = 32

// NodeOption changes a node before it is created.
type NodeOption func(*corev1.Node)

// NodeLabels adds labels.
func NodeLabels(labels map[string]string) NodeOption {
	return func(n *corev1.Node) { maps.Copy(n.Labels, labels) }
}

// NodeTaints adds taints.
func NodeTaints(taints ...corev1.Taint) NodeOption {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, taints...) }
}

// NodeAnnotations adds annotations.
func NodeAnnotations(annotations map[string]string) NodeOption {
	return func(n *corev1.Node) { maps.Copy(n.Annotations, annotations) }
}

// Node is a ready node with the given allocatable resources, such as {"cpu": "8", "nvidia.com/gpu": "8"}; pods are 110
// where it does not say. Amounts are literals of the caller's program: one that is no quantity stops it.
func Node(name string, allocatable map[string]string, options ...NodeOption) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
			},
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
		},
		Status: corev1.NodeStatus{
			Phase:       corev1.NodeRunning,
			Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110")},
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
				LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
			}},
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}},
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion: "lab", OperatingSystem: "linux", Architecture: "amd64", ContainerRuntimeVersion: "lab",
			},
		},
	}
	for name, amount := range allocatable {
		node.Status.Allocatable[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	node.Status.Capacity = node.Status.Allocatable.DeepCopy()
	for _, option := range options {
		option(node)
	}
	return node
}

// Nodes are count nodes that differ in their name only: prefix-0, prefix-1, and so on.
func Nodes(prefix string, count int, allocatable map[string]string, options ...NodeOption) []*corev1.Node {
	nodes := make([]*corev1.Node, count)
	for i := range nodes {
		nodes[i] = Node(fmt.Sprintf("%s-%d", prefix, i), allocatable, options...)
	}
	return nodes
}

// CreateNodes creates nodes, many at the same time. Nodes are born with their status, as a kubelet registers them.
func (c *Cluster) CreateNodes(ctx context.Context, nodes ...*corev1.Node) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, node := range nodes {
		group.Go(func() error {
			if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create node %s: %w", node.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// DeleteNodes deletes nodes, many at the same time; one that is gone already is no error.
func (c *Cluster) DeleteNodes(ctx context.Context, nodes ...*corev1.Node) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, node := range nodes {
		group.Go(func() error {
			err := client.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete node %s: %w", node.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}
