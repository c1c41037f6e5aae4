package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/diagnose"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/owners"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// writeWhyOwner prints why the jobs of an object wait, such as an MPIJob, and, if verbose is set, what each action said of the
// only one.
func (k *endpointFlags) writeWhyOwner(command *cobra.Command, known *diagnose.Namespace, what string, verbose bool) error {
	ctx := command.Context()
	word, name, _ := strings.Cut(what, "/")
	if word == "" || name == "" || strings.Contains(name, "/") {
		return fmt.Errorf("%q: say the name of a PodGroup or a pod, or KIND/NAME", what)
	}
	config, _, err := k.load()
	if err != nil {
		return err
	}
	read, err := owners.NewReader(ctx, config)
	if err != nil {
		return err
	}
	object, err := read.Find(ctx, known.Name, word, name)
	if err != nil {
		return err
	}
	if kind := groupKind(object); kind != diagnose.Any {
		return k.writeWhy(command, known, kind, name, verbose)
	}
	found, err := k.diagnoseOwned(ctx, known, read, object)
	if err != nil {
		return err
	}
	shown := found.Jobs[:min(len(found.Jobs), diagnose.Shown)]
	k.findTurn(ctx, shown...)
	k.findUnsaid(ctx, shown...)
	lacks := found.Pods == 0 || slices.ContainsFunc(found.Jobs, func(of *diagnose.Diagnosis) bool { // a PodGroup says it itself
		return of.Kind != string(diagnose.PodGroup) && of.LacksPods()
	})
	if lacks && object.Kind.Group == batchv1.GroupName && object.Kind.Kind == "Job" {
		found.Details = append(found.Details, k.whyNoPods(ctx, known.Name, func(job *batchv1.Job) bool { return job.Name == object.Name })...)
	}
	explained := ownedExplanation{Owned: found}
	if verbose {
		if len(found.Jobs) != 1 {
			return fmt.Errorf("-v asks the scheduler about one job, and %s has %d: give the name of one", what, len(found.Jobs))
		}
		if explained.Refusals, err = k.refusals(ctx, found.Jobs[0]); err != nil {
			return err
		}
	}
	p := k.command(command)
	if printed, err := k.structured(p, explained); printed {
		return err
	}
	found.Write(p, k.now())
	if verbose {
		writeRefusals(p, explained.Refusals)
	}
	return nil
}

// ownedExplanation is what is found of an object, with how the scheduler came to it.
type ownedExplanation struct {
	*diagnose.Owned
	Refusals *debugapi.RefusalList `json:"refusals,omitempty"`
}

// groupKind is the kind of an object that is a job itself, by another of its names; Any for others.
func groupKind(object *owners.Object) diagnose.Kind {
	switch {
	case object.Group == v1alpha1.SchemeGroupVersion.Group && object.Resource == "podgroups":
		return diagnose.PodGroup
	case object.Group == "" && object.Resource == "pods":
		return diagnose.Pod
	}
	for _, source := range sources.All() {
		for _, watch := range source.Watches() {
			if object.Group == watch.Resource.Group && object.Resource == watch.Resource.Resource && !watch.Source.OwnsPods() {
				return diagnose.Kind(watch.Source.Kind())
			}
		}
	}
	return diagnose.Any
}

// diagnoseOwned diagnoses the jobs of an object. It is an error when the object does not exist, unless pods name it still.
func (k *endpointFlags) diagnoseOwned(
	ctx context.Context, known *diagnose.Namespace, read *owners.Reader, object *owners.Object,
) (*diagnose.Owned, error) {
	all, err := k.allForeign(ctx, known)
	if err != nil {
		return nil, err
	}
	known.Foreign = all
	refs := referencesOf(known)
	chain := read.Climb(ctx, known.Name, known.Pods, refs, object)
	unread := chain.Unread
	switch {
	case apierrors.IsNotFound(object.Unread):
		unread = append(unread, "it does not exist any more; these name it still")
	case apierrors.IsForbidden(object.Unread):
		unread = append(unread, fmt.Sprintf("you may not get %s: whether it exists is not known", object.Kind.String()))
	case object.Unread != nil:
		unread = append(unread, "it cannot be read: "+object.Unread.Error())
	}
	found := diagnose.DiagnoseOwned(known, object.Kind.Kind, object.Name, chain.Leads, unread)
	found.Namespace = object.Namespace
	if apierrors.IsNotFound(object.Unread) && len(found.Jobs)+found.Pods == 0 {
		return nil, noObject(object, refs)
	}
	return found, nil
}

// allForeign returns the groups of other projects in the namespace, with and without pods.
func (k *endpointFlags) allForeign(ctx context.Context, known *diagnose.Namespace) ([]*sources.Spec, error) {
	read, _, err := k.reader()
	if err != nil {
		return nil, err
	}
	return read.listForeign(ctx, known.Name, known.On(), func(model.Source) bool { return true })
}

// referencesOf are the controllers of the pods, and the owners of the groups.
func referencesOf(known *diagnose.Namespace) (refs []metav1.OwnerReference) {
	for i := range known.Pods {
		if controller := metav1.GetControllerOf(&known.Pods[i]); controller != nil {
			refs = append(refs, *controller)
		}
	}
	for i := range known.Groups {
		refs = append(refs, known.Groups[i].OwnerReferences...)
	}
	for _, spec := range known.Foreign {
		refs = append(refs, spec.OwnerReferences...)
	}
	return refs
}

// noObject says that there is no such object, and gives the most similar one that anything names as its owner.
func noObject(object *owners.Object, refs []metav1.OwnerReference) error {
	text := fmt.Sprintf("there is no %s %q", object.Kind.String(), object.Name)
	if object.Namespace != "" {
		text += " in namespace " + object.Namespace
	}
	var names []string
	for i := range refs {
		if refs[i].Kind == object.Kind.Kind {
			names = append(names, refs[i].Name)
		}
	}
	if near := diagnose.Nearest(object.Name, names); near != "" {
		return fmt.Errorf("%s; did you mean %q?", text, near)
	}
	return fmt.Errorf("%s", text)
}
