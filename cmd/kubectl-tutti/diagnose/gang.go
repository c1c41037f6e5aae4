package diagnose

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Namespace is the objects of a namespace.
type Namespace struct {
	Name   string
	Groups []v1alpha1.PodGroup
	// Foreign are groups of other projects, as far as they could be read, with their owners.
	Foreign []*sources.Spec
	Pods    []corev1.Pod
	// Sources are those that the scheduler's configuration turns on, nil when that is not known; it is as by default then.
	Sources sources.Sources

	// byName finds groups, and marked are the groups without an object of ours that pods name, by name; bySpec are the foreign ones,
	// and members the pods by their group, oldest first. Each is computed on first use.
	byName  map[string]*v1alpha1.PodGroup
	marked  map[string][]model.JobKey
	bySpec  map[model.JobKey]*sources.Spec
	members map[model.JobKey][]*corev1.Pod
}

// gang is the pods of one group name: of a PodGroup; of a group of another project; of one controller, as an implicit group; or,
// with none of these, pods that wait for a PodGroup which does not exist.
type gang struct {
	name string
	// group is nil when there is no such object.
	group *v1alpha1.PodGroup
	// byPods reports whether the pods say what a status of a PodGroup would: they are an implicit group, or a foreign one. owner is
	// the controller of its object, or else of the oldest pod, as Kind/name, empty when there is none.
	byPods bool
	owner  string
	// source is that of a foreign group, and spec what its object says, or the LeaderWorkerSet that it is of; nil when that is not
	// known.
	source model.Source
	spec   *sources.Spec
	// pods are in the order in which the scheduler takes them, and sources are what names them.
	pods    []*corev1.Pod
	sources sources.Sources
}

// GroupName returns the name of the group that a pod names, empty when it names none.
func GroupName(pod *corev1.Pod) string {
	if m := sources.Of(pod); !m.Job.IsPod() {
		return m.Job.Name
	}
	return ""
}

// group returns the PodGroup of that name, nil when there is none.
func (n *Namespace) group(name string) *v1alpha1.PodGroup {
	if n.byName == nil {
		n.byName = map[string]*v1alpha1.PodGroup{}
		for i := range n.Groups {
			n.byName[n.Groups[i].Name] = &n.Groups[i]
		}
	}
	return n.byName[name]
}

func (n *Namespace) groupNames() []string {
	var names []string
	for i := range n.Groups {
		names = append(names, n.Groups[i].Name)
	}
	return names
}

// pod returns the pod of that name, nil when there is none.
func (n *Namespace) pod(name string) *corev1.Pod {
	for i := range n.Pods {
		if n.Pods[i].Name == name {
			return &n.Pods[i]
		}
	}
	return nil
}

func (n *Namespace) podNames() []string {
	var names []string
	for i := range n.Pods {
		names = append(names, n.Pods[i].Name)
	}
	return names
}

// gangs returns the gangs of a name: the one with a PodGroup, else one for each controller of the pods of implicit groups, by
// the age of their oldest pods, and the pods that wait for a PodGroup; last those of other projects.
func (n *Namespace) gangs(name string) (all []gang) {
	key := model.JobKey{Namespace: n.Name, Name: name}
	if group := n.group(name); group != nil {
		all = []gang{{name: name, group: group, pods: n.membersOf()[key]}}
	} else {
		all = n.withoutObject(name, n.membersOf()[key])
	}
	for _, key := range n.marked[name] {
		pods := n.membersOf()[key]
		object := key
		if set, ofSet := sources.SetOf(key); ofSet {
			object = set
		}
		all = append(all, foreignGang(n.spec(object), key, pods))
	}
	for i := range all {
		all[i].sources = n.On()
	}
	return all
}

// foreignGang is a group of another project. Its owner is that of its object, which more often is what the user submitted than
// the controller of its oldest pod: a launcher has a Job between. What owns its pods itself is its own, and a group of a
// LeaderWorkerSet, of which leader and workers have different controllers, names that.
func foreignGang(spec *sources.Spec, key model.JobKey, pods []*corev1.Pod) gang {
	g := gang{name: key.Name, byPods: true, owner: ownerOf(pods[0]), source: key.Source, spec: spec, pods: pods}
	set, ofSet := sources.SetOf(key)
	switch {
	case ofSet:
		g.owner = set.Source.Kind() + "/" + set.Name
	case key.Source.OwnsPods():
		g.owner = key.Source.Kind() + "/" + key.Name
	case spec != nil:
		g.owner = cmp.Or(ownerOf(spec), g.owner)
	}
	return g
}

// spec returns what the object of a foreign group says, with the late roles of its parent; nil when that is not known.
func (n *Namespace) spec(key model.JobKey) *sources.Spec {
	if n.bySpec == nil {
		n.bySpec = map[model.JobKey]*sources.Spec{}
		for _, spec := range n.Foreign {
			n.bySpec[spec.Key()] = spec
		}
	}
	spec := n.bySpec[key]
	if spec == nil {
		return nil
	}
	if parent, ok := spec.Parent(); ok {
		return spec.WithLate(n.spec(parent))
	}
	return spec
}

func (n *Namespace) membersOf() map[model.JobKey][]*corev1.Pod {
	if n.members != nil {
		return n.members
	}
	n.members = map[model.JobKey][]*corev1.Pod{}
	for i := range n.Pods {
		if key := n.jobOf(&n.Pods[i]); !key.IsPod() {
			n.members[key] = append(n.members[key], &n.Pods[i])
		}
	}
	n.marked = map[string][]model.JobKey{}
	for key, pods := range n.members {
		slices.SortFunc(pods, olderPod)
		if key.Namespace == n.Name && key.Source > model.SourceImplicit {
			n.marked[key.Name] = append(n.marked[key.Name], key)
		}
	}
	for _, keys := range n.marked {
		slices.SortFunc(keys, model.JobKey.Compare)
	}
	return n.members
}

// jobOf returns the job that the pod is in: the one that it names, or what holds while that does not exist, or is known to be no
// gang.
func (n *Namespace) jobOf(pod *corev1.Pod) model.JobKey {
	m := n.On().Of(pod)
	for m.Otherwise != nil && !m.Otherwise.Job.IsImplicit() && !n.holds(m.Job) {
		m = *m.Otherwise
	}
	return m.Job
}

// On returns the sources that are on: those by whose marks pods are in groups.
func (n *Namespace) On() sources.Sources {
	if n.Sources == nil {
		return sources.Default()
	}
	return n.Sources
}

// holds reports whether a group that pods may do without is one.
func (n *Namespace) holds(key model.JobKey) bool {
	if key.IsForeign() {
		spec := n.spec(key)
		return spec == nil || !spec.NoGang
	}
	return n.group(key.Name) != nil
}

// groupName returns the name of the group that the pod is in; empty when it is in none.
func (n *Namespace) groupName(pod *corev1.Pod) string {
	if job := n.jobOf(pod); !job.IsPod() {
		return job.Name
	}
	return ""
}

// named returns the names of the groups that exist or that pods name, sorted.
func (n *Namespace) named() []string {
	names := n.groupNames()
	for key := range n.membersOf() {
		names = append(names, key.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// withoutObject groups the pods that name a group without an object into gangs.
func (n *Namespace) withoutObject(name string, pods []*corev1.Pod) []gang {
	var found []gang
	lost := gang{name: name}
	at := map[types.UID]int{}
	for _, pod := range pods {
		implicit := n.On().Of(pod).Implicit()
		if implicit == nil {
			lost.pods = append(lost.pods, pod)
			continue
		}
		i, met := at[implicit.Job.Owner]
		if !met {
			i = len(found)
			at[implicit.Job.Owner] = i
			found = append(found, gang{name: name, byPods: true, owner: ownerOf(pod)})
		}
		found[i].pods = append(found[i].pods, pod)
	}
	if len(lost.pods) > 0 {
		found = append(found, lost)
	}
	return found
}

func ownerOf(object metav1.Object) string {
	if controller := metav1.GetControllerOf(object); controller != nil {
		return controller.Kind + "/" + controller.Name
	}
	return ""
}

// gangOf returns the pod's gang. The pod names a group.
func (n *Namespace) gangOf(pod *corev1.Pod) gang {
	gangs := n.gangs(n.groupName(pod))
	i := slices.IndexFunc(gangs, func(g gang) bool { return slices.Contains(g.pods, pod) })
	return gangs[i]
}

func olderPod(a, b *corev1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Name, b.Name))
}

// needs is the minimum, and late how many of it are made only when others run, and have not begun; zero when it is not
// known.
func (g *gang) needs() (minimum, late int) {
	if g.group != nil {
		return int(g.group.Spec.MinMember), 0
	}
	if !g.byPods || g.spec == nil && g.source >= model.SourceCoscheduling {
		return 0, 0
	}
	job, said := &model.Job{Key: model.JobKey{Name: g.name, Source: cmp.Or(g.source, model.SourceImplicit)}}, sources.Members{}
	for _, pod := range g.pods {
		if foreign(pod) {
			continue
		}
		task := &model.Task{Pod: pod, Created: pod.CreationTimestamp.Time, Placement: model.Placement{Status: statusOf(pod)}, Member: said.Of(pod)}
		membership := g.sources.Of(pod)
		for one := range membership.All() {
			if one.Job.Source == job.Key.Source {
				task.Role, task.MinMember = one.Role, one.MinMember
			}
		}
		job.Tasks = append(job.Tasks, task)
	}
	if job.Key.IsForeign() {
		sources.FillForeign(job, g.spec)
	} else {
		sources.FillImplicit(job, g.spec)
	}
	return int(job.MinMember), int(job.MinMember - sources.WithoutLate(job).MinMember)
}

// kind is that of a Diagnosis.
func (g *gang) kind() string {
	switch {
	case g.source != model.SourcePodGroup:
		return g.source.Kind()
	case g.byPods:
		return kindImplicit
	}
	return kindPodGroup
}

// created is when the object was created, or the oldest pod.
func (g *gang) created() time.Time {
	if g.group != nil {
		return g.group.CreationTimestamp.Time
	}
	return g.pods[0].CreationTimestamp.Time
}

// priority is that of the members together; a PriorityClass of the group, which is no object of the namespace, may lower it.
func (g *gang) priority() int32 {
	minimum, _ := g.needs()
	job := &model.Job{MinMember: int32(minimum)}
	if g.group != nil {
		for _, role := range g.group.Spec.Roles {
			job.Roles = append(job.Roles, model.Role{Name: role.Name, MinMember: role.MinMember})
		}
	}
	for _, pod := range g.pods {
		if own := pod.Spec.Priority; own != nil && !foreign(pod) {
			job.Tasks = append(job.Tasks, &model.Task{
				Role: g.sources.Of(pod).Role, Priority: *own, SchedulingGated: len(pod.Spec.SchedulingGates) > 0,
				Placement: model.Placement{Status: statusOf(pod)},
			})
		}
	}
	job.SetPriority()
	return job.Priority
}

// statusOf is the status of a pod as far as its object shows it.
func statusOf(pod *corev1.Pod) model.Status {
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		return model.Succeeded
	case pod.Status.Phase == corev1.PodFailed:
		return model.Failed
	case pod.DeletionTimestamp != nil && pod.Spec.NodeName != "":
		return model.Releasing
	case pod.Spec.NodeName != "":
		return model.Bound
	}
	return model.Pending
}
