package configuration

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// watch watches one ConfigMap, and needs no permission for others.
type watch struct {
	factory informers.SharedInformerFactory
	synced  cache.InformerSynced
}

// newWatch returns a watch that passes each version of the ConfigMap to offer, one after another, the first included, and nil
// when it is deleted.
func newWatch(namespace, name string, client kubernetes.Interface, offer func(*corev1.ConfigMap)) (*watch, error) {
	w := &watch{factory: informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}))}
	see := func(object any, offer func(*corev1.ConfigMap)) {
		if gone, is := object.(cache.DeletedFinalStateUnknown); is {
			object = gone.Obj
		}
		if configMap, ok := object.(*corev1.ConfigMap); ok && configMap.Name == name {
			offer(configMap)
		}
	}
	registration, err := w.factory.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { see(object, offer) },
		UpdateFunc: func(_, object any) { see(object, offer) },
		DeleteFunc: func(object any) { see(object, func(*corev1.ConfigMap) { offer(nil) }) },
	})
	if err != nil {
		return nil, fmt.Errorf("watch of ConfigMap %s/%s: %w", namespace, name, err)
	}
	w.synced = registration.HasSynced
	return w, nil
}

func (w *watch) run(ctx context.Context) {
	w.factory.Start(ctx.Done())
	<-ctx.Done()
	w.factory.Shutdown()
}

// lookEvery is how often a file is read. Its content counts when it was read twice in a row, so that a file still being
// written is not used.
const lookEvery = 500 * time.Millisecond

// poll reads the file periodically until the context ends.
func (l *Watcher) poll(ctx context.Context) {
	ticker := l.options.Clock.NewTicker(lookEvery)
	defer ticker.Stop()
	before := l.Report().Active.Hash
	offered := before
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		f := l.source.onDisk()
		now := f.version.Hash // empty when it cannot be read
		if now == before && now != offered {
			l.onVersion(f)
			offered = now
		}
		before = now
	}
}
