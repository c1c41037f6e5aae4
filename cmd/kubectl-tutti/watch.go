package main

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	groupinformers "github.com/tutti-sched/tutti/apis/client/informers/externalversions"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/diagnose"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
	"github.com/tutti-sched/tutti/internal/sources"
)

// settle is how long changes are collected before they are shown: a gang starts by many of them.
const settle = 500 * time.Millisecond

// watch shows all jobs, each one again that has changed, and one that is not there any more a last time, until the context ends.
// Without the right to watch it fails.
func (r *reader) watch(ctx context.Context, p *printer.Printer, look *statusView) error {
	w := r.watched(look.namespace)
	shown := map[string]diagnose.Job{} // by what identifies a job
	first := true
	return follow(ctx, append(w.pods, w.groups), func() {
		podGroups, pods := w.read()
		foreign, err := r.listForeign(ctx, look.namespace, sources.Default(), namedBy(sources.Default(), pods))
		if err != nil {
			return // it is asked again with the next change
		}
		changed := changes(shown, look.collect(podGroups, pods, foreign...).Jobs)
		if first {
			p.Table(look.header(), look.rows(changed))
		} else if len(changed) > 0 {
			p.More(look.rows(changed))
		}
		first = false
	})
}

// follow watches until the context ends, and calls show when all is known and after each change. A right that is missing is an
// error.
func follow(ctx context.Context, all []cache.SharedIndexInformer, show func()) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	changed := make(chan struct{}, 1)
	for _, informer := range all {
		if err := start(ctx, informer, changed, stop); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
	for {
		select {
		case <-ctx.Done():
			if err := context.Cause(ctx); apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
				return fmt.Errorf("watch: %w", err)
			}
			return nil
		case <-changed:
		}
		if slices.ContainsFunc(all, func(informer cache.SharedIndexInformer) bool { return !informer.HasSynced() }) {
			continue
		}
		show()
		timer := time.NewTimer(settle)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// start begins to watch. changed has a value when something has changed since it was taken; a right that is missing ends the
// context.
func start(ctx context.Context, informer cache.SharedIndexInformer, changed chan struct{}, stop context.CancelCauseFunc) error {
	notify := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	if err := informer.SetTransform(strip); err != nil {
		return err
	}
	registered, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { notify() }, UpdateFunc: func(any, any) { notify() }, DeleteFunc: func(any) { notify() },
	})
	if err != nil {
		return err
	}
	err = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			stop(err)
			return
		}
		cache.DefaultWatchErrorHandler(ctx, reflector, err)
	})
	if err != nil {
		return err
	}
	go informer.RunWithContext(ctx)
	go func() { // an empty list is no event
		if cache.WaitForCacheSync(ctx.Done(), registered.HasSynced) {
			notify()
		}
	}()
	return nil
}

// changes returns the jobs that are not as they were shown, those that have gone last, and takes note that they are shown now.
func changes(shown map[string]diagnose.Job, jobs []diagnose.Job) (changed []diagnose.Job) {
	there := map[string]bool{}
	for _, job := range jobs {
		key := job.Namespace + "/" + job.Kind + "/" + job.Name + "/" + job.Owner
		there[key] = true
		if !reflect.DeepEqual(shown[key], job) {
			shown[key] = job
			changed = append(changed, job)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(shown)) {
		if there[key] {
			continue
		}
		job := shown[key]
		job.Phase, job.Members, job.Bound, job.Running, job.Reason, job.WaitingSince = "Gone", 0, 0, 0, "", nil
		job.Message = ""
		if job.Kind == "Pod" { // only those are watched that have no node
			job.Phase = "Bound or gone"
		}
		delete(shown, key)
		changed = append(changed, job)
	}
	return changed
}

// watched are the objects that an overview is made of, as they change.
type watched struct {
	groups cache.SharedIndexInformer
	pods   []cache.SharedIndexInformer
}

func (r *reader) watched(namespace string) *watched {
	groups := groupinformers.NewSharedInformerFactoryWithOptions(r.groups, 0, groupinformers.WithNamespace(namespace))
	w := &watched{groups: groups.Scheduling().V1alpha1().PodGroups().Informer()}
	for _, selected := range unheldPods() {
		pods := informers.NewSharedInformerFactoryWithOptions(r.pods, 0, informers.WithNamespace(namespace),
			informers.WithTweakListOptions(func(options *metav1.ListOptions) {
				options.LabelSelector, options.FieldSelector = selected.LabelSelector, selected.FieldSelector
			}))
		w.pods = append(w.pods, pods.Core().V1().Pods().Informer())
	}
	return w
}

// strip removes what no overview shows and is most of a pod.
func strip(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields = nil
		pod.Spec.Containers, pod.Spec.InitContainers, pod.Spec.Volumes = nil, nil, nil
		pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses = nil, nil
	}
	return object, nil
}

// read returns copies of what is there.
func (w *watched) read() ([]v1alpha1.PodGroup, []corev1.Pod) {
	var groups []v1alpha1.PodGroup
	for _, object := range w.groups.GetStore().List() {
		groups = append(groups, *object.(*v1alpha1.PodGroup))
	}
	keep := unheld(groups)
	var pods []corev1.Pod
	for _, informer := range w.pods {
		for _, object := range informer.GetStore().List() {
			if pod := object.(*corev1.Pod); keep(pod) {
				pods = append(pods, *pod)
			}
		}
	}
	return groups, pods
}
