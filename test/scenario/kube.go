package scenario

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/kube"
)

// lister is a lister whose view a test replaces, so that kube-scheduler's plugins are built once for many clusters.
type lister struct{ fwk.SharedLister }

// server is a fake API server, and kube-scheduler's plugins over it.
type server struct {
	client  *fake.Clientset
	plugins *kube.Plugins
	factory informers.SharedInformerFactory
	ctx     context.Context
	cancel  context.CancelFunc
	// revise returns the next version of an object; nil where nothing is written.
	revise func() string
	// published are the versions of devices, classes and claims that were written to the server; probes counts the claims that show
	// what the plugins have seen.
	published map[string]string
	probes    int

	mu   sync.Mutex
	seen map[string]*kube.NodeDevices // by the plugins
}

// openKube builds kube-scheduler's plugins over the view and a fake API server that holds the objects.
func openKube(lister fwk.SharedLister, namespaces kube.Namespaces, objects []runtime.Object) (*server, error) {
	s := &server{client: fake.NewClientset(objects...), published: map[string]string{}, seen: map[string]*kube.NodeDevices{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.client.PrependReactor("create", "resourceclaims", s.create)
	s.client.PrependReactor("update", "resourceclaims", s.update)
	s.factory = informers.NewSharedInformerFactory(s.client, 0)
	var err error
	s.plugins, err = kube.New(s.ctx, kube.Deps{Lister: lister, Namespaces: namespaces, Informers: s.factory, Client: s.client, Malformed: cluster.Malformed})
	if err == nil {
		err = s.plugins.WatchDevices(s.see)
	}
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("kube-scheduler's plugins: %w", err)
	}
	return s, nil
}

// start starts the informers that were asked for by then, and waits until they have seen all objects.
func (s *server) start() error {
	s.factory.Start(s.ctx.Done())
	s.factory.WaitForCacheSync(s.ctx.Done())
	if !cache.WaitForCacheSync(s.ctx.Done(), s.plugins.HasSynced) {
		return errors.New("kube-scheduler's plugins did not sync")
	}
	return nil
}

func (s *server) stop() {
	s.cancel()
	s.factory.Shutdown()
}

func (s *server) see(devices *kube.NodeDevices) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[devices.Node] = devices; len(devices.Devices)+len(devices.Uncounted) == 0 {
		delete(s.seen, devices.Node)
	}
}

// create names a claim that kube-scheduler's plugin makes, and gives it its identity.
func (s *server) create(action clienttesting.Action) (bool, runtime.Object, error) {
	claim := action.(clienttesting.CreateAction).GetObject().DeepCopyObject().(*resourceapi.ResourceClaim)
	claim.ResourceVersion = s.revise()
	if claim.Name == "" {
		claim.Name = claim.GenerateName + claim.ResourceVersion
	}
	claim.UID = types.UID("claim " + claim.Name)
	return true, claim, s.client.Tracker().Create(action.GetResource(), claim, claim.Namespace)
}

func (s *server) update(action clienttesting.Action) (bool, runtime.Object, error) {
	claim := action.(clienttesting.UpdateAction).GetObject().DeepCopyObject().(*resourceapi.ResourceClaim)
	claim.ResourceVersion = s.revise()
	return true, claim, s.client.Tracker().Update(action.GetResource(), claim, claim.Namespace)
}

// resourcesOf are the resources of the kinds of devices.
var resourcesOf = map[string]string{
	"class": "deviceclasses", "slice": "resourceslices", "rule": "devicetaintrules", "claim": "resourceclaims",
}

// publish writes the devices, classes and claims of a world to the server, and waits until the plugins know them.
func (s *server) publish(w *world) error {
	objects, changed := w.devices.objects(), false
	for _, name := range slices.Sorted(maps.Keys(s.published)) {
		if objects[name] == nil {
			kind, rest, _ := strings.Cut(name, " ")
			namespace, bare := "", rest
			if kind == "claim" {
				namespace, bare = splitName(rest)
			}
			resource := resourceapi.SchemeGroupVersion.WithResource(resourcesOf[kind])
			if err := s.client.Tracker().Delete(resource, namespace, bare); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			delete(s.published, name)
			changed = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		object, resource := objects[name], resourceapi.SchemeGroupVersion.WithResource(resourcesOf[strings.Fields(name)[0]])
		before, known := s.published[name]
		if before == object.GetResourceVersion() {
			continue
		}
		var err error
		if known {
			err = s.client.Tracker().Update(resource, object.DeepCopyObject(), object.GetNamespace())
		} else {
			err = s.client.Tracker().Create(resource, object.DeepCopyObject(), object.GetNamespace())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.published[name] = object.GetResourceVersion()
		changed = true
	}
	if !changed {
		return nil
	}
	return s.wait(w)
}

// wait waits until the plugins know the devices, classes and claims of a world. They take in claims in the order in which the
// server has them, so that they know all when they know the last one.
func (s *server) wait(w *world) error {
	s.probes++
	probe := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "probe", Name: fmt.Sprint("probe-", s.probes), UID: types.UID(fmt.Sprint("probe-", s.probes)), ResourceVersion: "1",
	}}
	probe.Status.Allocation = &resourceapi.AllocationResult{}
	if err := s.client.Tracker().Create(resourceapi.SchemeGroupVersion.WithResource("resourceclaims"), probe, probe.Namespace); err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: probe.Namespace, Name: probe.Name, UID: probe.UID}}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "probe", ResourceClaimName: &probe.Name}}
	ask := s.plugins.Plugin("DynamicResources").(fwk.PreFilterPlugin)
	known := func(ctx context.Context) (bool, error) {
		if _, status := ask.PreFilter(ctx, s.plugins.NewState(), pod, nil); !status.IsSuccess() {
			return false, nil
		}
		for _, class := range w.devices.classes {
			for _, name := range resourcesOfClass(class) {
				if !s.plugins.ByDeviceClass(name) {
					return false, nil
				}
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return maps.EqualFunc(s.seen, w.devices.nodes, (*kube.NodeDevices).Equal), nil
	}
	if err := wait.PollUntilContextTimeout(s.ctx, time.Millisecond, time.Minute, true, known); err != nil {
		return fmt.Errorf("kube-scheduler's plugins do not see the devices: %w", err)
	}
	return nil
}

// prepare writes what was reserved for a pod to the server, and lets the world see the claims as they are then.
func (s *server) prepare(w *world, pod *corev1.Pod) error {
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	if _, err := s.client.Tracker().Get(pods, pod.Namespace, pod.Name); err == nil {
		if err := s.client.Tracker().Delete(pods, pod.Namespace, pod.Name); err != nil {
			return fmt.Errorf("pod: %w", err)
		}
	}
	if err := s.client.Tracker().Create(pods, pod.DeepCopy(), pod.Namespace); err != nil {
		return fmt.Errorf("pod: %w", err)
	}
	if err := s.plugins.Prepare(s.ctx, pod.UID); err != nil {
		return fmt.Errorf("pod %s is not prepared: %w", pod.Name, err)
	}
	claims, err := s.client.ResourceV1().ResourceClaims(pod.Namespace).List(s.ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("claims: %w", err)
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		name := key(claim.Namespace, claim.Name)
		if before := w.devices.claims[name]; before == nil || before.ResourceVersion != claim.ResourceVersion {
			w.devices.claims[name] = claim
			s.published["claim "+name] = claim.ResourceVersion
			w.tell(&cluster.ClaimSeen{Claim: claim})
		}
	}
	return nil
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
