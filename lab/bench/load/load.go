// Package load fills a cluster for a measurement: many nodes, PodGroups and pods, as fast as the API server takes them,
// and a namespace for them. What they are like is the caller's business; nothing here waits for a scheduler.
package load

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tutti-sched/tutti/apis/client/clientset/versioned"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// Client writes with many workers at a time and no limit on requests per second.
type Client struct {
	// Core speaks protobuf.
	Core *kubernetes.Clientset
	// Groups is for PodGroups, which the server knows as JSON only.
	Groups  *versioned.Clientset
	workers int
}

// NewClient makes a client that keeps at most so many requests under way.
func NewClient(config *rest.Config, workers int) (*Client, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	groups, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("PodGroup client: %w", err)
	}
	config.ContentType = runtime.ContentTypeProtobuf
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return &Client{Core: core, Groups: groups, workers: workers}, nil
}

// Each calls do for every item, with the client's number of workers, and returns the first error.
func Each[T any](ctx context.Context, c *Client, items []T, do func(ctx context.Context, i int, item T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	next := make(chan int)
	group.Go(func() error {
		defer close(next)
		for i := range items {
			select {
			case next <- i:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for range c.workers {
		group.Go(func() error {
			for i := range next {
				if err := do(ctx, i, items[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// Namespace creates a namespace.
func (c *Client) Namespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := c.Core.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	return nil
}

// CreateNodes creates nodes with their status.
func (c *Client) CreateNodes(ctx context.Context, nodes []*corev1.Node) error {
	return Each(ctx, c, nodes, func(ctx context.Context, _ int, node *corev1.Node) error {
		if _, err := c.Core.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create node %s: %w", node.Name, err)
		}
		return nil
	})
}

// CreateGroups creates PodGroups.
func (c *Client) CreateGroups(ctx context.Context, groups []*v1alpha1.PodGroup) error {
	return Each(ctx, c, groups, func(ctx context.Context, _ int, group *v1alpha1.PodGroup) error {
		client := c.Groups.SchedulingV1alpha1().PodGroups(group.Namespace)
		if _, err := client.Create(ctx, group, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create PodGroup %s: %w", group.Name, err)
		}
		return nil
	})
}

// CreatePods creates pods and returns what the server made of them, in the same order.
func (c *Client) CreatePods(ctx context.Context, pods []*corev1.Pod) ([]*corev1.Pod, error) {
	created := make([]*corev1.Pod, len(pods))
	err := Each(ctx, c, pods, func(ctx context.Context, i int, pod *corev1.Pod) error {
		var err error
		if created[i], err = c.Core.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create pod %s: %w", pod.Name, err)
		}
		return nil
	})
	return created, err
}

// Bind binds pods to nodes, pod i to node i, on condition that it is still the pod with that UID, and returns when each
// was answered.
func (c *Client) Bind(ctx context.Context, pods []*corev1.Pod, nodes []string) ([]time.Time, error) {
	answered := make([]time.Time, len(pods))
	err := Each(ctx, c, pods, func(ctx context.Context, i int, pod *corev1.Pod) error {
		binding := &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: nodes[i]},
		}
		if err := c.Core.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("bind pod %s: %w", pod.Name, err)
		}
		answered[i] = time.Now()
		return nil
	})
	return answered, err
}

// List lists nodes and pods, both in full, and returns the namespace's pods without a node, with any node for each.
func (c *Client) List(ctx context.Context, namespace string) (unbound []*corev1.Pod, targets []string, err error) {
	var nodes *corev1.NodeList
	var pods *corev1.PodList
	lists, ctx := errgroup.WithContext(ctx)
	lists.Go(func() (err error) {
		nodes, err = c.Core.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err
	})
	lists.Go(func() (err error) {
		pods, err = c.Core.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		return err
	})
	if err := lists.Wait(); err != nil {
		return nil, nil, fmt.Errorf("list: %w", err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Namespace == namespace && pod.Spec.NodeName == "" {
			targets = append(targets, nodes.Items[len(unbound)%len(nodes.Items)].Name)
			unbound = append(unbound, pod)
		}
	}
	return unbound, targets, nil
}
