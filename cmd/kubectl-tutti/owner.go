package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/owners"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// ofOwner returns the jobs of an object of any kind, such as an MPIJob: those whose owners lead to it.
func (k *known) ofOwner(ctx context.Context, word, name string) (answer, error) {
	read, err := owners.NewReader(ctx, k.read.config)
	if err != nil {
		return answer{}, err
	}
	object, err := read.Find(ctx, k.read.namespace, word, name)
	if err != nil {
		return answer{}, err
	}
	if source := groupSource(object); source != "" {
		found, err := k.byName(ctx, source, name)
		if _, none := errors.AsType[noJob](err); none && object.Unread == nil {
			return answer{jobs: []*debugapi.Job{withoutPods(source, k.read.namespace, name)}}, nil
		}
		return found, err
	}
	// Those of another scheduler are not in the list of ours.
	found, list, err := k.search(ctx, func(list *debugapi.JobList) answer { return k.owned(ctx, read, object, list) })
	if err != nil {
		return answer{}, err
	}
	switch {
	case apierrors.IsNotFound(object.Unread) && len(found.jobs)+len(found.details) == 0:
		return answer{}, noObject(object, list)
	case apierrors.IsNotFound(object.Unread):
		found.notes = append(found.notes, "it is gone; these still name it")
	case apierrors.IsForbidden(object.Unread):
		found.notes = append(found.notes, fmt.Sprintf("you may not get %s: whether it exists is not known", object.Kind.String()))
	case object.Unread != nil:
		found.notes = append(found.notes, "it cannot be read: "+object.Unread.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	isJob := object.Group == batchv1.GroupName && object.Kind.Kind == "Job"
	lacks := func(of *debugapi.Job) bool {
		return of.Source != model.SourcePodGroup.Kind() && of.Has < max(of.Needs, 1)
	} // a PodGroup says it itself
	if isJob && (len(found.jobs) == 0 || slices.ContainsFunc(found.jobs, lacks)) {
		found.details = append(found.details, k.whyNoPods(ctx, func(job *batchv1.Job) bool { return job.Name == object.Name })...)
	}
	found.setHead(object)
	if isJob && len(found.jobs) == 0 {
		found.jobs = k.ofTemplate(ctx, object.Name)
	}
	return found, nil
}

// ofTemplate returns the PodGroup that the pods of a Job name, which says why the Job has none; none when there is no such group,
// or the Job may not be read.
func (k *known) ofTemplate(ctx context.Context, name string) []*debugapi.Job {
	job, err := k.read.pods.BatchV1().Jobs(k.read.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	found := among(&k.JobList, model.SourcePodGroup.Kind(), job.Spec.Template.Labels[v1alpha1.LabelPodGroup]).jobs
	return slices.DeleteFunc(found, func(of *debugapi.Job) bool { return of.Phase == "" })
}

// setHead says whose jobs they are, unless the first line of the only job does.
func (a *answer) setHead(object *owners.Object) {
	name, has := object.Name, "has no jobs"
	if object.Namespace != "" {
		name = object.Namespace + "/" + object.Name
	}
	switch own := object.Kind.Kind + "/" + object.Name; {
	case len(a.jobs) == 0 && len(a.details) > 0:
		has = "has no pods for Tutti to place"
	case len(a.jobs) == 0 && len(a.notes) > 0:
		a.details = []string{"no pods are known to be its own, as far as what controls them can be read"}
	case len(a.jobs) == 0:
		has = "has no pods"
		a.details = []string{"no pod of it exists: its controller has made none yet, or they are gone and are not made again yet; its own status and events say why"}
	case len(a.jobs) == 1 && len(a.details)+len(a.notes) == 0 && (a.jobs[0].Source+"/"+a.jobs[0].Name == own || a.jobs[0].Owner() == own):
		return
	case len(a.jobs) == 1:
		has = "has 1 job"
	default:
		has = fmt.Sprintf("has %d jobs: %s", len(a.jobs), verbs(a.jobs))
	}
	a.head = fmt.Sprintf("%s %s %s", object.Kind.Kind, name, has)
}

// owned returns the jobs of a list that an object owns, those that wait first. Pods that are left to another scheduler are no
// jobs.
func (k *known) owned(ctx context.Context, read *owners.Reader, object *owners.Object, list *debugapi.JobList) (found answer) {
	pods := map[types.UID]*metav1.OwnerReference{} // a pod may own others
	for i := range list.Items {
		if job := &list.Items[i]; job.Source == model.SourcePod.Kind() {
			pods[job.UID] = metav1.GetControllerOf(job)
		}
	}
	chain := read.To(object, k.read.namespace, pods)
	left := map[string][]string{}
	for i := range list.Items {
		job, leads := &list.Items[i], false
		for j := range job.OwnerReferences { // all of them, so that the notes name each that may not be read
			leads = chain.Leads(ctx, &job.OwnerReferences[j]) || leads
		}
		switch {
		case !leads:
		case job.Reason == reasonOtherScheduler:
			left[job.Message] = append(left[job.Message], job.Name)
		default:
			found.jobs = append(found.jobs, job)
		}
	}
	slices.SortStableFunc(found.jobs, func(a, b *debugapi.Job) int {
		first, _, _ := standing(a)
		second, _, _ := standing(b)
		return rank(first) - rank(second)
	})
	for message, names := range left {
		found.details = append(found.details, fmt.Sprintf("%s: %s; it is set in the pod template", printer.Few(names), message))
	}
	slices.Sort(found.details)
	found.notes = chain.Unread()
	return found
}

// groupSource is the source of a kind of objects that are jobs themselves, by another of its names; empty for others.
func groupSource(object *owners.Object) string {
	switch {
	case object.Group == v1alpha1.SchemeGroupVersion.Group && object.Kind.Name == "podgroups":
		return model.SourcePodGroup.Kind()
	case object.Group == "" && object.Kind.Name == "pods":
		return model.SourcePod.Kind()
	}
	for _, source := range sources.All() {
		watch := source.Watch()
		if watch != nil && object.Group == watch.Resource.Group && object.Kind.Name == watch.Resource.Resource && !watch.Source.OwnsPods() {
			return watch.Source.Kind()
		}
	}
	return ""
}

// emptyGroup returns the group of another project of that name, which no pod names; nil when there is none, or none that may
// be read.
func (k *known) emptyGroup(ctx context.Context, name string) *debugapi.Job {
	read, err := owners.NewReader(ctx, k.read.config)
	if err != nil {
		return nil
	}
	for _, source := range sources.All() {
		watch := source.Watch()
		if watch == nil || watch.Source.OwnsPods() {
			continue // its pods name no group: they are its own
		}
		object, err := read.Find(ctx, k.read.namespace, watch.Resource.Resource+"."+watch.Resource.Group, name)
		if err == nil && object.Unread == nil {
			return withoutPods(watch.Source.Kind(), k.read.namespace, name)
		}
	}
	return nil
}

// withoutPods is a group that no pod names.
func withoutPods(source, namespace, name string) *debugapi.Job {
	return &debugapi.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Source: source, Phase: v1alpha1.PodGroupPending,
		Reason: string(model.NotEnoughMembers), Message: "no pod names it",
	}
}

// noObject says that there is no such object, and gives the most similar one that a list names as an owner.
func noObject(object *owners.Object, list *debugapi.JobList) error {
	var names []string
	for i := range list.Items {
		for _, owner := range list.Items[i].OwnerReferences {
			if owner.Kind == object.Kind.Kind {
				names = append(names, owner.Name)
			}
		}
	}
	text := fmt.Sprintf("there is no %s %q", object.Kind.String(), object.Name)
	if object.Namespace != "" {
		text += " in namespace " + object.Namespace
	}
	return errors.New(text + config.DidYouMean(object.Name, names))
}
