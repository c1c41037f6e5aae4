package kube

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/tutti-sched/tutti/pkg/model"
)

// viewNode is one node in the view. A method about its pods, or what they take, brings it up to date first.
type viewNode struct {
	*framework.NodeInfo
	view *View
	node *model.Node
	// seen is the number of the node's last change that the view knows of.
	seen uint64
}

var _ fwk.NodeInfo = (*viewNode)(nil)

// synced returns the node with the pods that the snapshot has on it.
func (n *viewNode) synced() *framework.NodeInfo {
	n.view.syncing.Lock()
	defer n.view.syncing.Unlock()
	n.view.sync(n)
	return n.NodeInfo
}

// The readers of pods, and of what they take.

func (n *viewNode) GetPods() []fwk.PodInfo             { return n.synced().GetPods() }
func (n *viewNode) GetPodsWithAffinity() []fwk.PodInfo { return n.synced().GetPodsWithAffinity() }
func (n *viewNode) GetPodsWithRequiredAntiAffinity() []fwk.PodInfo {
	return n.synced().GetPodsWithRequiredAntiAffinity()
}
func (n *viewNode) GetPodsWithRequiredNonHostScopedAntiAffinity() []fwk.PodInfo {
	return n.synced().GetPodsWithRequiredNonHostScopedAntiAffinity()
}
func (n *viewNode) GetUsedPorts() fwk.HostPortInfo    { return n.synced().GetUsedPorts() }
func (n *viewNode) GetRequested() fwk.Resource        { return n.synced().GetRequested() }
func (n *viewNode) GetNonZeroRequested() fwk.Resource { return n.synced().GetNonZeroRequested() }
func (n *viewNode) GetPVCRefCounts() map[string]int   { return n.synced().GetPVCRefCounts() }
func (n *viewNode) GetGeneration() int64              { return n.synced().GetGeneration() }
func (n *viewNode) Snapshot() fwk.NodeInfo            { return n.synced().Snapshot() }
func (n *viewNode) String() string                    { return n.synced().String() }

// refresh lets every node catch up.
func (v *View) refresh() {
	v.syncing.Lock()
	defer v.syncing.Unlock()
	journal := &v.snapshot.Journal
	if v.mark == journal.Cursor() {
		return
	}
	changes, ok := journal.Since(v.mark)
	v.mark = journal.Cursor()
	for i := range changes {
		v.sync(v.nodes[changes[i].Node.Name])
	}
	if ok {
		return
	}
	for _, node := range v.snapshot.Nodes {
		v.sync(v.nodes[node.Name])
	}
}

// sync brings one node up to date: it walks along both lists of pods, which are sorted by UID.
func (v *View) sync(n *viewNode) {
	if n.seen == n.node.Changed {
		return
	}
	n.seen = n.node.Changed
	at := 0
	for _, task := range n.node.Tasks {
		if v.excludesTerminating && task.ReleasesResources() {
			continue
		}
		for at < len(n.Pods) && n.Pods[at].GetPod().UID < task.UID {
			v.remove(n, n.Pods[at].GetPod().UID)
		}
		if at < len(n.Pods) && n.Pods[at].GetPod() != task.Pod && n.Pods[at].GetPod().UID == task.UID {
			v.remove(n, task.UID)
		}
		v.add(n, v.pod(task)) // which does nothing when it is there
		at++
	}
	for len(n.Pods) > at {
		v.remove(n, n.Pods[at].GetPod().UID)
	}
}

// add puts a pod on a node. NodeInfo appends it to its lists; it is then brought to its place.
func (v *View) add(n *viewNode, pod *framework.PodInfo) {
	if _, found := search(n.Pods, pod.Pod.UID); found {
		return
	}
	n.AddPodInfo(pod)
	for _, list := range podLists(n) {
		moveToSlot(*list, pod)
	}
	dropZeroScalars(n.Requested)
	for claim := range framework.PodPVCKeys(pod.Pod) {
		v.claims[claim]++
	}
	v.indexNode(n, pod.Pod)
}

// remove takes a pod off a node. NodeInfo fills the gap with the last pod of the list, which is then put back to the
// end. The host ports of the others are taken again, since NodeInfo does not count the users of a port.
func (v *View) remove(n *viewNode, uid types.UID) {
	i, found := search(n.Pods, uid)
	if !found {
		return
	}
	pod := n.Pods[i].GetPod()
	var gaps, before [4]int
	for k, list := range podLists(n) {
		gaps[k], _ = search(*list, uid)
		before[k] = len(*list)
	}
	if err := n.RemovePod(klog.Background(), pod); err != nil {
		return // only a pod that is not there is refused
	}
	for k, list := range podLists(n) {
		if len(*list) < before[k] {
			moveToEnd(*list, gaps[k])
		}
	}
	dropZeroScalars(n.Requested)
	if len(util.GetHostPorts(pod)) > 0 {
		for _, other := range n.Pods {
			for _, port := range util.GetHostPorts(other.GetPod()) {
				n.UsedPorts.Add(port.HostIP, string(port.Protocol), port.HostPort)
			}
		}
	}
	for claim := range framework.PodPVCKeys(pod) {
		if v.claims[claim]--; v.claims[claim] <= 0 {
			delete(v.claims, claim)
		}
	}
	v.indexNode(n, pod)
}

// indexNode brings the index lists in line with the node after the pod came or went.
func (v *View) indexNode(n *viewNode, pod *corev1.Pod) {
	if affinity := pod.Spec.Affinity; affinity == nil || affinity.PodAffinity == nil && affinity.PodAntiAffinity == nil {
		return
	}
	index(&v.affine, n, len(n.PodsWithAffinity) > 0)
	index(&v.repelling, n, len(n.PodsWithRequiredAntiAffinity) > 0)
	index(&v.widelyRepelling, n, len(n.PodsWithRequiredNonHostScopedAntiAffinity) > 0)
}

func podLists(n *viewNode) [4]*[]fwk.PodInfo {
	return [4]*[]fwk.PodInfo{
		&n.Pods, &n.PodsWithAffinity, &n.PodsWithRequiredAntiAffinity, &n.PodsWithRequiredNonHostScopedAntiAffinity,
	}
}

// search finds a pod in a list that is sorted by UID.
func search(list []fwk.PodInfo, uid types.UID) (int, bool) {
	return slices.BinarySearchFunc(list, uid, func(p fwk.PodInfo, uid types.UID) int { return cmp.Compare(p.GetPod().UID, uid) })
}

// moveToSlot moves the pod from the end of the list, if it is there, to its place.
func moveToSlot(list []fwk.PodInfo, pod *framework.PodInfo) {
	last := len(list) - 1
	if last < 0 || list[last] != fwk.PodInfo(pod) {
		return
	}
	i, _ := search(list[:last], pod.Pod.UID)
	copy(list[i+1:], list[i:last])
	list[i] = pod
}

// moveToEnd moves the pod that fills a gap back to the end of the list.
func moveToEnd(list []fwk.PodInfo, gap int) {
	if gap >= len(list) {
		return
	}
	filler := list[gap]
	copy(list[gap:], list[gap+1:])
	list[len(list)-1] = filler
}

// dropZeroScalars removes resources of which nothing is left.
func dropZeroScalars(r *framework.Resource) {
	for name, amount := range r.ScalarResources {
		if amount == 0 {
			delete(r.ScalarResources, name)
		}
	}
	if len(r.ScalarResources) == 0 {
		r.ScalarResources = nil
	}
}

// image is what the nodes say about one image. All nodes that have it share the summary.
type image struct {
	summary *fwk.ImageStateSummary
	// sizes counts the nodes by the size they report. The largest counts, whichever node reported first.
	sizes map[int64]int
}

func (m *image) sum() {
	m.summary.NumNodes = m.summary.Nodes.Len()
	m.summary.Size = 0
	for size := range m.sizes {
		m.summary.Size = max(m.summary.Size, size)
	}
}

// imagesOn returns the sizes of the images on a node by name.
func imagesOn(node *corev1.Node) map[string]int64 {
	sizes := make(map[string]int64, len(node.Status.Images))
	for i := range node.Status.Images {
		for _, name := range node.Status.Images[i].Names {
			sizes[name] = max(sizes[name], node.Status.Images[i].SizeBytes)
		}
	}
	return sizes
}

func (v *View) addImages(n *viewNode) {
	node := n.Node()
	n.ImageStates = map[string]*fwk.ImageStateSummary{}
	for name, size := range imagesOn(node) {
		m := v.images[name]
		if m == nil {
			m = &image{summary: &fwk.ImageStateSummary{Nodes: sets.New[string]()}, sizes: map[int64]int{}}
			v.images[name] = m
		}
		m.summary.Nodes.Insert(node.Name)
		m.sizes[size]++
		m.sum()
		n.ImageStates[name] = m.summary
	}
}

func (v *View) dropImages(n *viewNode) {
	node := n.Node()
	for name, size := range imagesOn(node) {
		m := v.images[name]
		m.summary.Nodes.Delete(node.Name)
		if m.sizes[size]--; m.sizes[size] == 0 {
			delete(m.sizes, size)
		}
		m.sum()
		if m.summary.Nodes.Len() == 0 {
			delete(v.images, name)
		}
	}
}
