// Package audit judges a cluster by what its API server says and nothing else: which gangs have started, which nodes hold
// more than they offer, whether every waiting gang says why, and whether one of them would fit the capacity that is idle.
//
// It is a second opinion on the scheduler, so it shares no code with it: requests, eligibility and placement are worked
// out here once more, in the plainest way. It is not exact where pods of other shapes or pods with affinity to each
// other are concerned; Report says for how many gangs it has no opinion.
package audit

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// Cluster is what the API server holds, as far as it matters here.
type Cluster struct {
	Nodes  []corev1.Node
	Pods   []corev1.Pod
	Groups []v1alpha1.PodGroup
}

// Read lists everything once. Nothing should be changing meanwhile: three lists are not one moment.
func Read(ctx context.Context, config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	nodes, err := core.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	pods, err := core.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	text, err := core.RESTClient().Get().AbsPath("/apis", v1alpha1.SchemeGroupVersion.String(), "podgroups").
		SetHeader("Accept", runtime.ContentTypeJSON).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("list PodGroups: %w", err)
	}
	var list v1alpha1.PodGroupList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("list PodGroups: %w", err)
	}
	return &Cluster{Nodes: nodes.Items, Pods: pods.Items, Groups: list.Items}, nil
}
