package predicates_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clientcache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/predicates"
	"github.com/tutti-sched/tutti/pkg/topology"
)

// view is a lister with content that a test replaces, as the cluster state's changes during a session.
type view struct{ fwk.SharedLister }

// show replaces the content that the plugins see.
func (v *view) show(pods []*corev1.Pod, nodes []*corev1.Node) {
	v.SharedLister = cache.NewSnapshot(pods, nodes)
}

// world is one cluster of API objects, with kube-scheduler's plugins over it.
type world struct {
	view      *view
	client    *fake.Clientset
	informers informers.SharedInformerFactory
	kube      *kube.Plugins
	newPlugin framework.Factory
}

// newWorld builds the plugins and waits until their informers have seen the objects.
func newWorld(t testing.TB, objects ...runtime.Object) *world {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &world{view: &view{SharedLister: cache.NewEmptySnapshot()}, client: fake.NewClientset(objects...)}
	w.informers = informers.NewSharedInformerFactory(w.client, 0)
	t.Cleanup(func() {
		cancel()
		w.informers.Shutdown()
	})
	kubePlugins, err := kube.New(ctx, kube.Deps{Lister: w.view, Informers: w.informers, Client: w.client})
	if err != nil {
		t.Fatal(err)
	}
	w.kube = kubePlugins
	if w.newPlugin, err = predicates.New(kubePlugins, topology.New(kubePlugins)); err != nil {
		t.Fatal(err)
	}
	w.informers.Start(ctx.Done())
	w.informers.WaitForCacheSync(ctx.Done())
	if !clientcache.WaitForCacheSync(ctx.Done(), kubePlugins.HasSynced) {
		t.Fatal("the plugins did not sync")
	}
	return w
}

// snapshot returns the same content for the engine, with the nodes in the given order; a node that the plugins do not see is
// empty.
func (w *world) snapshot(nodes []*corev1.Node) *model.Snapshot {
	s := &model.Snapshot{Dimensions: model.NewDimensions(), Now: time.Unix(1000, 0)}
	for _, object := range nodes {
		node := &model.Node{Name: object.Name, Object: object}
		if known, err := w.view.NodeInfos().Get(object.Name); err == nil {
			for _, pod := range known.GetPods() {
				task := taskOf(pod.GetPod())
				task.Placement = model.Placement{Status: model.Running, Node: node.Name}
				node.Place(task)
			}
		}
		s.Nodes = append(s.Nodes, node)
	}
	return s
}

func taskOf(pod *corev1.Pod) *model.Task {
	return &model.Task{PodRef: model.PodRef{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}, Pod: pod}
}

// fixedView is the view of a snapshot that no session changes.
type fixedView struct {
	framework.View
	snapshot *model.Snapshot
}

func (v fixedView) Snapshot() *model.Snapshot { return v.snapshot }
func (v fixedView) SearchCut()                {}
func (v fixedView) DeviceCountWrong()         {}

// ask returns the plugin's result for each node, in all scopes, in the engine's order.
func (w *world) ask(pod *corev1.Pod, nodes []*corev1.Node) []*model.Refusal {
	plugin := w.newPlugin().(framework.NodeFilter)
	snapshot := w.snapshot(nodes)
	plugin.(framework.SessionOpener).OpenSession(fixedView{snapshot: snapshot})
	task := taskOf(pod)
	var checks []framework.NodeFilterFunc
	answers := make([]*model.Refusal, len(nodes))
	for _, scope := range []framework.FilterScope{framework.NodeOnly, framework.NodeWithPods, framework.ClusterWide} {
		some, refused := plugin.PreFilter(task, scope)
		if refused != nil {
			for i := range answers {
				answers[i] = refused
			}
			return answers
		}
		checks = append(checks, some...)
	}
	for i, node := range snapshot.Nodes {
		for _, check := range checks {
			if answers[i] = check(node); answers[i] != nil {
				break
			}
		}
	}
	return answers
}

func newNode(name string, change ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelHostname: name, corev1.LabelTopologyZone: "zone-" + name,
	}}}
	for _, c := range change {
		c(node)
	}
	return node
}

func newPod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID(name), Labels: map[string]string{"app": name},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image"}}},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func on(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

func hostPort(port int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{
			HostPort: port, ContainerPort: port, Protocol: corev1.ProtocolTCP,
		}}
	}
}

func volumes(sources ...corev1.VolumeSource) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for i, source := range sources {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: string(rune('a' + i)), VolumeSource: source})
		}
	}
}

func volumeClaim(name string) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

func apart(app, key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, TopologyKey: key,
			}},
		}}
	}
}

func spread(app, key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		}}
	}
}
