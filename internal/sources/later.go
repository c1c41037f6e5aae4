package sources

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"

	"github.com/tutti-sched/tutti/pkg/gang"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is about what an object says of the members that are made later, and what a gang gets by that: see ReadTurn.

// Later is what an object says of the members of one role that are made later: how many there are, and what each requests.
type Later struct {
	Role     string
	Members  int32
	Requests []Amount
}

// addLater takes note of what members request that are made later, by the template of their pods. One that cannot be read says
// nothing.
func (s *Spec) addLater(role string, members int64, template any) {
	object, _ := template.(map[string]any)
	f := &fields{object: object}
	pod := corev1.Pod{Spec: corev1.PodSpec{Overhead: listOf(f.resources("spec", "overhead"))}}
	for _, container := range f.list("spec", "containers") {
		pod.Spec.Containers = append(pod.Spec.Containers, container.container())
	}
	for _, container := range f.list("spec", "initContainers") {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container.container())
	}
	if f.value("spec", "resources") != nil {
		whole := f.requirements("spec", "resources")
		pod.Spec.Resources = &whole
	}
	if members <= 0 || members > maxMembers || f.contradiction != "" || len(pod.Spec.Containers) == 0 {
		return
	}
	later := Later{Role: role, Members: int32(members)}
	for name, quantity := range resource.PodRequests(&pod, resource.PodResourcesOptions{}) {
		later.Requests = append(later.Requests, Amount{name, quantity})
	}
	slices.SortFunc(later.Requests, func(a, b Amount) int { return cmp.Compare(a.Name, b.Name) })
	s.Later = append(s.Later, later)
}

func (f *fields) container() corev1.Container {
	container := corev1.Container{Resources: f.requirements("resources")}
	if policy := corev1.ContainerRestartPolicy(f.text("restartPolicy")); policy == corev1.ContainerRestartPolicyAlways {
		container.RestartPolicy = &policy
	}
	return container
}

// requirements reads requests and limits. As in the API server, what has a limit and no request requests that.
func (f *fields) requirements(path ...string) (required corev1.ResourceRequirements) {
	required.Requests = listOf(f.resources(append(slices.Clone(path), "limits")...))
	for name, quantity := range listOf(f.resources(append(slices.Clone(path), "requests")...)) {
		required.Requests[name] = quantity
	}
	return required
}

func listOf(amounts []Amount) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, amount := range amounts {
		list[amount.Name] = amount.Quantity
	}
	return list
}

// ObjectOfPods returns the key of the LeaderWorkerSet that the pods of a group name; ok is false when they name none.
func ObjectOfPods(job *model.Job) (set model.JobKey, ok bool) {
	if len(job.Tasks) == 0 {
		return set, false
	}
	name := job.Tasks[0].Says().Set
	return model.JobKey{Namespace: job.Key.Namespace, Name: name, Source: model.SourceLeaderWorkerSetObject}, name != ""
}

// ReadTurn gives a gang of which nothing waits but members that are made later its place in the order of jobs. object is
// what says of them which there are, and later what it said when the gang started; requested returns what a pod requests.
//
// While other members of the gang hold capacity, which is idle without these, it comes before the jobs of its priority that
// hold nothing. When the others have ended it is as old as it was when it first started. Any user could claim either by a
// change of the object, or by pods that are labelled as members, so that it goes no further than what the object said:
// members that are more, that request more, or that no controller has made wait in the turn of their own.
func ReadTurn(job *model.Job, object metav1.Object, later []Later, requested func(*corev1.Pod) corev1.ResourceList) {
	job.Continues, job.BegunSince = false, time.Time{}
	waiting := job.Pending()
	if len(waiting) == 0 {
		return
	}
	for i, task := range waiting {
		at := slices.IndexFunc(later, func(one Later) bool { return one.Role == task.Role })
		if at < 0 || !job.InRoleNotBegun(task) || metav1.GetControllerOfNoCopy(task.Pod) == nil {
			return
		}
		asBefore := i > 0 && task.Role == waiting[i-1].Role && task.Shape == waiting[i-1].Shape // one shape is one request
		if !asBefore && !later[at].covers(requested(task.Pod)) {
			return
		}
	}
	for _, one := range later {
		if job.Present.Count(func(task *model.Task) bool { return task.Role == one.Role && task.Exists() }) > int(one.Members) {
			return
		}
	}
	first, of := gang.First(job.Present.Minima, job.Present.Tasks)
	if at := completeAt(&first, of); !at.IsZero() {
		job.BegunSince = latest(job.Created, at)
	}
	made := object.GetCreationTimestamp()
	job.Continues = slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { // not one of an object of this name that was deleted
		return gang.HasNode(task) && !task.Deleted() && !job.InRoleNotBegun(task) && !task.Created.Before(made.Time)
	})
}

// covers reports whether a pod that requests that requests no more than the object says.
func (l Later) covers(list corev1.ResourceList) bool {
	for name, quantity := range list {
		i := slices.IndexFunc(l.Requests, func(said Amount) bool { return said.Name == name })
		if !quantity.IsZero() && (i < 0 || quantity.Cmp(l.Requests[i].Quantity) > 0) {
			return false
		}
	}
	return true
}
