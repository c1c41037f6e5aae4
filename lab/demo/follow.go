package demo

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// follow watches the pods and groups of a namespace and returns what changes, until it is stopped or the context ends.
func follow(ctx context.Context, config *rest.Config, namespace string) (<-chan change, func(), error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("client: %w", err)
	}
	groups, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("client for groups: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	changes := make(chan change, 1024)
	tell := func(object any, gone bool) {
		c := change{at: time.Now(), gone: gone}
		switch object := object.(type) {
		case *corev1.Pod:
			c.pod = object
		case *unstructured.Unstructured:
			c.group = &v1alpha1.PodGroup{}
			if gone || runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, c.group) != nil {
				return // no PodGroup that the scheduler could read either
			}
		case *eventsv1.Event:
			c.event = object
		default:
			return // a tombstone: what became of it is not known
		}
		select {
		case changes <- c:
		case <-ctx.Done():
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { tell(object, false) },
		UpdateFunc: func(_, object any) { tell(object, false) },
		DeleteFunc: func(object any) { tell(object, true) },
	}

	pods := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	kinds := dynamicinformer.NewFilteredDynamicSharedInformerFactory(groups, 0, namespace, nil)
	for _, informer := range []cache.SharedIndexInformer{
		pods.Core().V1().Pods().Informer(), pods.Events().V1().Events().Informer(),
		kinds.ForResource(v1alpha1.SchemeGroupVersion.WithResource("podgroups")).Informer(),
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			cancel()
			return nil, nil, fmt.Errorf("watch: %w", err)
		}
	}
	pods.Start(ctx.Done())
	kinds.Start(ctx.Done())
	return changes, func() {
		cancel()
		pods.Shutdown()
		kinds.Shutdown()
	}, nil
}
