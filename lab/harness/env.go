// Package harness is what tests and benchmarks against a real cluster share: namespaces that clean up after
// themselves, pods in one line, waiting for something to become true, and the scheduler as a process of its own.
//
// It decides nothing about what is tested, and nothing here knows how the scheduler works inside.
package harness

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulingv1alpha1 "github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/cluster"
)

// Env is a cluster with the clients that tests use. Its methods may be called from parallel tests.
type Env struct {
	// Cluster is where everything happens.
	Cluster *cluster.Cluster
	// Client reads and writes any object, PodGroups included, as the administrator.
	Client client.Client
	// Clientset is for what Client has no words for, such as evictions and logs.
	Clientset *kubernetes.Clientset

	building sync.Mutex
	built    string // the scheduler's program, once a test has run it
}

// NewEnv makes the clients for a cluster.
func NewEnv(c *cluster.Cluster) (*Env, error) {
	known := runtime.NewScheme()
	if err := scheme.AddToScheme(known); err != nil {
		return nil, fmt.Errorf("kinds of Kubernetes: %w", err)
	}
	if err := schedulingv1alpha1.AddToScheme(known); err != nil {
		return nil, fmt.Errorf("kinds of Tutti: %w", err)
	}
	all, err := client.New(c.Config(), client.Options{Scheme: known})
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	clientset, err := c.Client()
	if err != nil {
		return nil, err
	}
	return &Env{Cluster: c, Client: all, Clientset: clientset}, nil
}

// Namespace makes a namespace for one test. When the test ends it goes, with every pod in it, no grace given.
func (e *Env) Namespace(t testing.TB) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := e.Client.Create(t.Context(), ns); err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	t.Cleanup(func() {
		// The test's own context is over.
		ctx, cancel := context.WithTimeout(context.Background(), cluster.Patience)
		defer cancel()
		// First the namespace: nothing new is made in one that terminates.
		if err := e.Client.Delete(ctx, ns); err != nil {
			t.Errorf("delete namespace %s: %v", ns.Name, err)
		}
		err := e.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(ns.Name), client.GracePeriodSeconds(0))
		if err != nil {
			t.Errorf("delete the pods of namespace %s: %v", ns.Name, err)
		}
	})
	return ns.Name
}

// Nodes creates nodes for one test, and deletes them when it ends.
func (e *Env) Nodes(t testing.TB, nodes ...*corev1.Node) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cluster.Patience)
		defer cancel()
		if err := e.Cluster.DeleteNodes(ctx, nodes...); err != nil {
			t.Error(err)
		}
	})
	if err := e.Cluster.CreateNodes(t.Context(), nodes...); err != nil {
		t.Fatal(err)
	}
}

// Create creates objects in the order given. The server's admission may not have heard of a priority class that was created
// just before a pod of it; it is asked again then.
func (e *Env) Create(t testing.TB, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		var err error
		_ = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, cluster.Patience, true, func(ctx context.Context) (bool, error) {
			err = e.Client.Create(ctx, object)
			return err == nil || !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "no PriorityClass"), nil
		})
		if err != nil {
			t.Fatalf("create %T %s: %v", object, object.GetName(), err)
		}
	}
}

// CreatePods creates pods, many in parallel, in no order.
func (e *Env) CreatePods(ctx context.Context, pods ...*corev1.Pod) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for _, pod := range pods {
		group.Go(func() error {
			if _, err := e.Clientset.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// Pods lists the pods of a namespace, those that match the given options.
func (e *Env) Pods(ctx context.Context, namespace string, options ...client.ListOption) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := e.Client.List(ctx, &list, append(options, client.InNamespace(namespace))...); err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", namespace, err)
	}
	return list.Items, nil
}

// Eventually asks until the answer is nil, and fails the test with the last answer when cluster.Patience is over.
func (e *Env) Eventually(t testing.TB, ask func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, cluster.Patience, true, func(context.Context) (bool, error) {
		last = ask()
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("not so within %s: %v", cluster.Patience, last)
	}
}

// AfterCycle creates a pod that fits and returns when it is bound: a cycle has then seen every pod that was created before it.
func (e *Env) AfterCycle(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	e.Create(t, pod)
	e.Eventually(t, func() error {
		bound := &corev1.Pod{}
		if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), bound); err != nil {
			return err
		}
		if bound.Spec.NodeName == "" {
			return fmt.Errorf("pod %s has no node: %+v", pod.Name, bound.Status.Conditions)
		}
		return nil
	})
}

// Consistently asks again and again for the given time, and fails the test with the first answer that is not nil.
func (e *Env) Consistently(t testing.TB, duration time.Duration, ask func() error) {
	t.Helper()
	var wrong error
	// That the time is over is what is hoped for.
	_ = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, duration, true, func(context.Context) (bool, error) {
		wrong = ask()
		return wrong != nil, nil
	})
	if wrong != nil {
		t.Fatalf("not so throughout %s: %v", duration, wrong)
	}
}
