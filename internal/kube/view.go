package kube

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tutti-sched/tutti/pkg/model"
)

// View is the snapshot as kube-scheduler's plugins read it. The pods on a node are brought up to date when they are read,
// from the snapshot's journal: a node that is not read costs nothing.
//
// The goroutine that owns the snapshot owns it; between two changes, plugins may read it from several goroutines. What its lists
// return is valid until the next change and must not be changed.
//
// Invariant: every list in it is sorted, pods by UID and nodes by name, so that it is the same whatever way the snapshot
// came to be what it is.
type View struct {
	snapshot *model.Snapshot
	// excludesTerminating reports that pods which are terminating are not in it; ahead is the view that shows that, made when it
	// is first asked for.
	excludesTerminating bool
	ahead               *View
	// syncing guards everything below while readers bring it up to date.
	syncing sync.Mutex
	mark    model.Cursor

	nodes map[string]*viewNode
	// all, and the index lists: nodes with pods that have (anti-)affinity terms, required anti-affinity terms, and
	// required anti-affinity terms over something wider than a host.
	all, affine, repelling, widelyRepelling []fwk.NodeInfo
	// claims counts the pods on nodes that use a claim, by namespace/name.
	claims map[string]int
	images map[string]*image
	// pods keeps what is expensive to work out about a pod for as long as the task lives.
	pods map[types.UID]*framework.PodInfo
}

var _ fwk.SharedLister = (*View)(nil)

// NewView returns a view of a snapshot. It learns of other nodes, and of pods that are gone, from the methods below, and of all
// else by itself.
func NewView(snapshot *model.Snapshot) *View {
	v := &View{
		snapshot: snapshot,
		nodes:    map[string]*viewNode{}, claims: map[string]int{}, images: map[string]*image{},
		pods: map[types.UID]*framework.PodInfo{},
	}
	v.AddNodes(snapshot.Nodes)
	return v
}

// current returns what the session looks at: the view itself, or the one of the cluster without the terminating pods.
func (v *View) current() *View {
	if !v.snapshot.ExcludesTerminating() {
		return v
	}
	v.syncing.Lock()
	defer v.syncing.Unlock()
	if v.ahead == nil {
		v.ahead = NewView(v.snapshot)
		v.ahead.excludesTerminating = true
	}
	return v.ahead
}

// refreshed returns what the session looks at, with every node up to date.
func (v *View) refreshed() *View {
	shown := v.current()
	shown.refresh()
	return shown
}

// NodeInfos lists the nodes with the pods on them.
func (v *View) NodeInfos() fwk.NodeInfoLister { return nodeLister{v} }

// StorageInfos tells which claims are in use.
func (v *View) StorageInfos() fwk.StorageInfoLister { return claimLister{v} }

// PodGroupStates knows no group: gangs are not kube-scheduler's business here.
func (v *View) PodGroupStates() fwk.PodGroupStateLister { return noGroups[fwk.PodGroupState]{} }

// PodGroups knows no group.
func (v *View) PodGroups() fwk.PodGroupLister { return noGroups[*schedulingv1beta1.PodGroup]{} }

// CompositePodGroupStates knows no group.
func (v *View) CompositePodGroupStates() fwk.CompositePodGroupStateLister {
	return noGroups[fwk.CompositePodGroupState]{}
}

// CompositePodGroups knows no group.
func (v *View) CompositePodGroups() fwk.CompositePodGroupLister {
	return noGroups[*schedulingv1alpha3.CompositePodGroup]{}
}

type nodeLister struct{ v *View }

func (l nodeLister) List() ([]fwk.NodeInfo, error) { return l.v.current().all, nil }

func (l nodeLister) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) {
	return l.v.refreshed().affine, nil
}

func (l nodeLister) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	return l.v.refreshed().repelling, nil
}

func (l nodeLister) HavePodsWithRequiredNonHostScopedAntiAffinityList() ([]fwk.NodeInfo, error) {
	return l.v.refreshed().widelyRepelling, nil
}

func (l nodeLister) Get(name string) (fwk.NodeInfo, error) {
	if n := l.v.current().nodes[name]; n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("node %q: not in the snapshot", name)
}

type claimLister struct{ v *View }

func (l claimLister) IsPVCUsedByPods(key string) bool {
	return l.v.refreshed().claims[key] > 0
}

type noGroups[T any] struct{}

func (noGroups[T]) Get(namespace, name string) (T, error) {
	var none T
	return none, fmt.Errorf("pod group %s/%s: not found", namespace, name)
}

// pod returns what kube-scheduler wants to know about a task's pod, from memory when the pod has not changed.
func (v *View) pod(task *model.Task) *framework.PodInfo {
	known := v.pods[task.UID]
	switch {
	case known != nil && known.Pod == task.Pod:
		return known
	case known != nil && SameSpec(known.Pod, task.Pod):
		again := *known // with the resources it has worked out
		again.Pod = task.Pod
		known = &again
	default:
		known = podInfo(task.Pod)
	}
	v.pods[task.UID] = known
	return known
}

// SameSpec reports whether terms and resources of two versions of a pod must be the same, without comparing them. The
// generation tells about the spec; what a running container was granted, and whether a resize is possible, stands in the
// status.
func SameSpec(a, b *corev1.Pod) bool {
	return a.Generation != 0 && a.Generation == b.Generation && !HasInPlaceResize(&a.Status) && !HasInPlaceResize(&b.Status)
}

// HasInPlaceResize reports whether a status decides in what the pod takes.
func HasInPlaceResize(status *corev1.PodStatus) bool {
	return len(status.ContainerStatuses) > 0 || len(status.InitContainerStatuses) > 0 ||
		status.Resources != nil || status.AllocatedResources != nil ||
		slices.ContainsFunc(status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
}

// podInfo works out what kube-scheduler wants to know about a pod. Terms that cannot be parsed are left out, as kube-scheduler
// does. Of a pod that it panics over only the identity is kept, or each look at the pod's node would panic.
func podInfo(pod *corev1.Pod) (info *framework.PodInfo) {
	defer func() {
		if recover() != nil {
			info, _ = framework.NewPodInfo(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}})
		}
	}()
	info, _ = framework.NewPodInfo(pod)
	info.CalculateResource()
	return info
}

// Reset makes the view one of an empty snapshot.
func (v *View) Reset() {
	fresh := NewView(v.snapshot)
	v.ahead, v.mark = nil, fresh.mark
	v.nodes, v.claims, v.images, v.pods = fresh.nodes, fresh.claims, fresh.images, fresh.pods
	v.all, v.affine, v.repelling, v.widelyRepelling = nil, nil, nil, nil
}

// Forget drops what is kept about a pod that will not come back.
func (v *View) Forget(uid types.UID) {
	delete(v.pods, uid)
	if v.ahead != nil {
		v.ahead.Forget(uid)
	}
}

// AddNodes takes in nodes; the pods on them follow when the view is read.
func (v *View) AddNodes(nodes []*model.Node) {
	if v.ahead != nil {
		v.ahead.AddNodes(nodes)
	}
	for _, node := range nodes {
		n := &viewNode{NodeInfo: framework.NewNodeInfo(), view: v, node: node}
		n.SetNode(node.Object)
		v.nodes[node.Name] = n
		index(&v.all, n, true)
		v.addImages(n)
	}
}

// ChangeNode takes in a new version of a node; the pods on it stay.
func (v *View) ChangeNode(object *corev1.Node) {
	if v.ahead != nil {
		v.ahead.ChangeNode(object)
	}
	n := v.nodes[object.Name]
	if n.Node() == object {
		return
	}
	v.dropImages(n)
	n.SetNode(object)
	v.addImages(n)
}

// DropNodes forgets nodes with all pods on them.
func (v *View) DropNodes(nodes []*model.Node) {
	if v.ahead != nil {
		v.ahead.DropNodes(nodes)
	}
	for _, node := range nodes {
		n := v.nodes[node.Name]
		for len(n.Pods) > 0 {
			v.remove(n, n.Pods[len(n.Pods)-1].GetPod().UID)
		}
		v.dropImages(n)
		delete(v.nodes, node.Name)
		index(&v.all, n, false)
	}
}

func byName(a, b fwk.NodeInfo) int { return cmp.Compare(a.Node().Name, b.Node().Name) }

// index keeps the node in a sorted list exactly as long as it belongs there.
func index(list *[]fwk.NodeInfo, n *viewNode, belongs bool) {
	i, found := slices.BinarySearchFunc(*list, fwk.NodeInfo(n), byName)
	switch {
	case belongs && !found:
		*list = slices.Insert(*list, i, fwk.NodeInfo(n))
	case !belongs && found:
		*list = slices.Delete(*list, i, i+1)
	}
}
