package scenario

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/kube"
)

// lister is a lister whose view a test replaces, so that kube-scheduler's plugins are built once for many clusters.
type lister struct{ fwk.SharedLister }

// openKube builds kube-scheduler's plugins over the view and a fake API server that holds the objects. start starts the
// informers that were asked for by then, and waits until they have seen all of them.
func openKube(lister fwk.SharedLister, namespaces kube.Namespaces, objects []runtime.Object) (
	kubePlugins *kube.Plugins, start func() error, stop func(), err error,
) {
	ctx, cancel := context.WithCancel(context.Background())
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	stop = func() {
		cancel()
		factory.Shutdown()
	}
	kubePlugins, err = kube.New(ctx, kube.Deps{Lister: lister, Namespaces: namespaces, Informers: factory, Client: client, Malformed: cluster.Malformed})
	if err != nil {
		stop()
		return nil, nil, nil, fmt.Errorf("kube-scheduler's plugins: %w", err)
	}
	start = func() error {
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		if !cache.WaitForCacheSync(ctx.Done(), kubePlugins.HasSynced) {
			return errors.New("kube-scheduler's plugins did not sync")
		}
		return nil
	}
	return kubePlugins, start, stop, nil
}

// decodeObjects reads Kubernetes objects from YAML documents.
func decodeObjects(text string) ([]runtime.Object, error) {
	reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	decoder := scheme.Codecs.UniversalDeserializer()
	var objects []runtime.Object
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("object: %w", err)
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("object: %w", err)
		}
		objects = append(objects, object)
	}
}
