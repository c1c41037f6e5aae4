package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// This file is what a process sees: the objects that its watches have delivered, and what it has assumed.

// pod returns the pod as the process has received it, nil when it has not.
func (p *process) pod(name string) *corev1.Pod {
	pod, _ := p.told[kindPod][name].object.(*corev1.Pod)
	return pod
}

func (p *process) node(name string) *corev1.Node {
	if p.config.Devices {
		return p.counted().nodes[name]
	}
	node, _ := p.told[kindNode][name].object.(*corev1.Node)
	return node
}

func (p *process) group(name string) *v1alpha1.PodGroup {
	group, _ := p.told[kindGroup][name].object.(*v1alpha1.PodGroup)
	return group
}

// groupOf is what the object of a group says, as the process has received it, and with what a group of another project was
// whole before, as far as the process has seen that; nil when there is none, or the pods say all.
func (p *process) groupOf(job model.JobKey) *v1alpha1.PodGroup {
	if !job.IsForeign() {
		return p.group(job.String())
	}
	object, _ := p.told[kindOf(job.Source)][key(job.Namespace, job.Name)].object.(*unstructured.Unstructured)
	if object == nil {
		return nil
	}
	group := asGroup(job.Source, object)
	first := p.gangs[partKey{job: job}]
	group.Status.StartedMinMember, group.Status.StartedRoles = first.least, first.roles
	return group
}

// gangSeen is what a process has seen of a part of a gang: since when all of its minimum is on nodes, or a container shows
// that it was whole, zero while neither is so; and with what lowest minima it was whole while members of it had places,
// binds that are assumed among them.
type gangSeen struct {
	whole time.Time
	least int32
	roles []v1alpha1.Role
}

// noteWhole records whether a gang is whole, by what the process has received.
func (p *process) noteWhole(job model.JobKey) {
	if job.IsPod() || job == (model.JobKey{}) {
		return
	}
	parts := p.partsOf(job)
	for key, seen := range p.gangs {
		if key.job == job && len(parts) == 0 {
			seen.whole = time.Time{}
			p.gangs[key] = seen
		}
	}
	for _, one := range parts {
		seen := p.gangs[keyOfPart(&one)]
		switch whole := one.Members(nodeOf).Unmet(one.PodGroup) == "" || job.IsForeign() && one.GoesOn(nodeOf); {
		case !whole:
			seen.whole = time.Time{}
		case seen.whole.IsZero():
			seen.whole = p.queue.now
		}
		if one.Members(p.place).Unmet(one.PodGroup) == "" && (seen.least == 0 || one.Spec.MinMember < seen.least) {
			seen.least, seen.roles = one.Spec.MinMember, one.Spec.Roles
		}
		if !slices.ContainsFunc(one.Pods, func(pod *corev1.Pod) bool { return jobKeyOf(pod) == job && p.place(pod) != "" }) {
			seen.least, seen.roles = 0, nil
		}
		p.gangs[keyOfPart(&one)] = seen
	}
}

// jobOf is the job that a change is about; none when it is about none.
func jobOf(one change) model.JobKey {
	switch o := one.object.(type) {
	case *corev1.Pod:
		return jobKeyOf(o)
	case *v1alpha1.PodGroup:
		return model.JobKey{Namespace: o.Namespace, Name: o.Name}
	case *unstructured.Unstructured:
		return model.JobKey{Namespace: o.GetNamespace(), Name: o.GetName(), Source: sourceOf(one.kind)}
	}
	return model.JobKey{}
}

// queues are the Queues that the process has received.
func (p *process) queues() invariants.Tree {
	all := invariants.Tree{}
	for name, one := range p.told[kindQueue] {
		all[name] = one.object.(*v1alpha1.Queue)
	}
	return all
}

func (p *process) namespace(name string) *corev1.Namespace {
	namespace, _ := p.told[kindNamespace][name].object.(*corev1.Namespace)
	return namespace
}

// pods returns the pods that the process has received, in order of their names.
func (p *process) pods() []*corev1.Pod {
	if p.config.Devices {
		return p.counted().all
	}
	return p.podsAsTold()
}

// podsAsTold returns them without the devices of their claims.
func (p *process) podsAsTold() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, name := range sortedNames(p.told[kindPod]) {
		pods = append(pods, p.pod(name))
	}
	return pods
}

// watched are the kinds of objects that processes receive.
func (s *Simulation) watched() []objectKind {
	all := []objectKind{kindPod, kindNode, kindGroup, kindBudget}
	if s.config.Queues {
		all = append(all, kindQueue, kindNamespace)
	}
	if s.config.Devices {
		all = append(all, kindClaim, kindClass, kindSlice)
	}
	if s.config.Foreign {
		for _, source := range objectSources() {
			all = append(all, kindOf(source))
		}
	}
	return all
}

// observedVersions is up to which versions a process has received objects, by kind.
type observedVersions [kinds]uint64

func (p *process) sight() (seen observedVersions) {
	for _, s := range p.streams {
		if s.position > 0 {
			seen[s.kind] = p.server.log[s.kind][s.position-1].version
		}
	}
	return seen
}

// task is a pod as the session sees it, also one of another scheduler; nil when it does not see it.
func (p *process) task(pod *corev1.Pod) *model.Task {
	var tasks []*model.Task
	if job := p.snapshot.Job(jobKeyOf(pod)); job != nil {
		tasks = job.Tasks
	} else if node := p.snapshot.Node(pod.Spec.NodeName); node != nil {
		tasks = node.Tasks
	}
	if i := slices.IndexFunc(tasks, func(task *model.Task) bool { return task.UID == pod.UID }); i >= 0 {
		return tasks[i]
	}
	return nil
}

// place is where a pod is or is assumed to be, to this process; empty when nowhere.
func (p *process) place(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	if p.state.Assumed(pod.UID) {
		return p.chosen[pod.UID]
	}
	return ""
}

// headroom names the queues below whose limits the process keeps capacity free, by its last session.
func (p *process) headroom() map[string]bool {
	queues := map[string]bool{}
	for _, queue := range p.snapshot.Queues {
		if queue.Headroom != nil {
			queues[queue.Name] = true
		}
	}
	return queues
}

// heldFor is where capacity is nominated to a pod, by what its process has decided since, too.
func (p *process) heldFor(pod *corev1.Pod) string {
	if since, decided := p.nominated[pod.UID]; decided {
		return since
	}
	if task := p.task(pod); task == nil || task.Nominated == "" {
		return "" // it was taken back, or the node is gone
	}
	return pod.Status.NominatedNodeName
}
