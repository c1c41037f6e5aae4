package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file makes a list of jobs of what stands in the PodGroups and the pods, for who may not ask the scheduler, and of what
// the scheduler leaves to others. It repeats what a scheduler has written and counts pods. How many members a group without a
// PodGroup needs it does not work out: the scheduler's message has that.

// defaultScheduler is the name of Tutti's that pods give unless it is configured otherwise.
const defaultScheduler = sources.DefaultScheduler

// The reasons that this file gives where no scheduler has said anything.
const (
	reasonOtherScheduler = "OtherScheduler"
	reasonGroupNotFound  = string(model.GroupNotFound)
)

// objects are PodGroups and pods.
type objects struct {
	groups []v1alpha1.PodGroup
	pods   []*corev1.Pod
	// unheld reports that pods of PodGroups were not read.
	unheld bool
}

// objects reads the PodGroups of a namespace and its pods. With names of schedulers it reads, of their pods alone, those that
// no PodGroup's status covers.
func (r *reader) objects(ctx context.Context, namespace string, schedulers []string) (*objects, error) {
	o := &objects{unheld: len(schedulers) > 0}
	var err error
	if o.groups, err = r.listGroups(ctx, namespace); err != nil {
		return nil, err
	}
	held := map[model.JobKey]bool{}
	for i := range o.groups {
		held[sources.Key(&o.groups[i])] = true
	}
	o.pods, err = r.listPods(ctx, namespace, func(pod *corev1.Pod) bool {
		job, waits := sources.Of(pod).Job, stateOf(pod) == debugapi.MemberWaiting || stateOf(pod) == debugapi.MemberGated
		return !o.unheld || slices.Contains(schedulers, pod.Spec.SchedulerName) && !held[job] && (!job.IsPod() || waits)
	})
	return o, err
}

// gathered is a job while its pods are counted.
type gathered struct {
	debugapi.Job
	key   model.JobKey
	group *v1alpha1.PodGroup
	// pods are its members, the oldest first, and others the pods that are left to another scheduler, by its name; these have
	// members, too, of which no scheduler has said anything.
	pods   []*corev1.Pod
	others map[string][]string
	// owners are the UIDs of its owners.
	owners map[types.UID]bool
}

// jobs returns the list. ours are the names of Tutti's schedulers.
func (o *objects) jobs(now time.Time, ours []string) *debugapi.JobList {
	byKey := map[model.JobKey]*gathered{}
	for i := range o.groups {
		group := &o.groups[i]
		byKey[sources.Key(group)] = newGroup(group)
	}
	slices.SortFunc(o.pods, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Name, b.Name))
	})
	for _, pod := range o.pods {
		membership := sources.Of(pod)
		// Where no PodGroup of ours has the name, the mark means another group, whose object is not read.
		for membership.Otherwise != nil && membership.Job.Source == model.SourcePodGroup && byKey[membership.Job] == nil {
			membership = *membership.Otherwise
		}
		key := membership.Job
		if byKey[key] == nil {
			byKey[key] = newGathered(key, pod)
		}
		if named := byKey[key]; named.leaves(pod) { // it is no member, and a job of its own
			named.others[pod.Spec.SchedulerName] = append(named.others[pod.Spec.SchedulerName], pod.Name)
			key = model.JobKey{Namespace: pod.Namespace, Name: pod.Name, Source: model.SourcePod}
			byKey[key] = newGathered(key, pod)
			byKey[key].Notes = []string{fmt.Sprintf("by its spec.schedulerName it is no member of %s %q, which it names", named.Source, named.Name)}
		}
		byKey[key].add(pod)
	}
	list := &debugapi.JobList{Items: make([]debugapi.Job, 0, len(byKey))}
	list.Kind, list.APIVersion, list.At = "JobList", debugapi.GroupVersion, now
	for _, key := range slices.SortedFunc(maps.Keys(byKey), model.JobKey.Compare) {
		job := byKey[key]
		job.conclude(o.unheld, ours)
		list.Items = append(list.Items, job.Job)
	}
	return list
}

// gather begins a job, with the marks of its PodGroup or of its oldest pod.
func gather(key model.JobKey, of metav1.Object) *gathered {
	g := &gathered{key: key, others: map[string][]string{}, owners: map[types.UID]bool{}}
	g.ObjectMeta = metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, Labels: of.GetLabels(), CreationTimestamp: of.GetCreationTimestamp(),
	}
	g.Source = key.Source.Kind()
	return g
}

func newGroup(group *v1alpha1.PodGroup) *gathered {
	g := gather(sources.Key(group), group)
	g.group, g.Needs = group, group.Spec.MinMember
	for i := range group.OwnerReferences {
		g.AddOwner(&group.OwnerReferences[i], g.owners)
	}
	for _, role := range group.Spec.Roles {
		g.Roles = append(g.Roles, debugapi.Role{Name: role.Name, Needs: role.MinMember})
	}
	explanation := sources.Explanation(group.Status.Conditions)
	if g.SetStatus(&group.Status, explanation); g.Phase == "" {
		g.Phase = v1alpha1.PodGroupPending
	}
	if explanation != nil && explanation.ObservedGeneration < group.Generation {
		g.Notes = append(g.Notes, "the PodGroup has been changed since; the scheduler has not looked at it again yet")
	}
	return g
}

func newGathered(key model.JobKey, oldest *corev1.Pod) *gathered {
	g := gather(key, oldest)
	if key.IsPod() {
		g.UID, g.Needs = oldest.UID, 1
	}
	if set, isOfSet := sources.SetOf(key); isOfSet {
		key = set
	}
	if key.Source.OwnsPods() {
		watch := sources.WatchOf(key.Source)
		g.OwnerReferences = []metav1.OwnerReference{{APIVersion: watch.Resource.GroupVersion().String(), Kind: key.Source.Kind(), Name: key.Name}}
	}
	return g
}

// add adds a member.
func (g *gathered) add(pod *corev1.Pod) {
	g.pods = append(g.pods, pod)
	g.AddOwner(metav1.GetControllerOfNoCopy(pod), g.owners)
	member := debugapi.Member{Name: pod.Name, Role: sources.Of(pod).Role, State: stateOf(pod), Node: pod.Spec.NodeName, Nominated: pod.Status.NominatedNodeName}
	g.AddMember(member)
}

// leaves reports whether a pod that names the group is for another scheduler than the group: one that is not Tutti's, or not the
// one that has written the status.
func (g *gathered) leaves(pod *corev1.Pod) bool {
	writer := ""
	if g.group != nil {
		writer = g.group.Status.SchedulerName
	}
	return !g.key.IsPod() && (leftToOthers(pod) || writer != "" && pod.Spec.SchedulerName != writer)
}

// leftToOthers reports whether a pod certainly is for another scheduler.
func leftToOthers(pod *corev1.Pod) bool {
	return pod.Spec.SchedulerName == "" || pod.Spec.SchedulerName == corev1.DefaultSchedulerName
}

func stateOf(pod *corev1.Pod) debugapi.MemberState {
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		return debugapi.MemberSucceeded
	case pod.Status.Phase == corev1.PodFailed:
		return debugapi.MemberFailed
	case pod.DeletionTimestamp != nil:
		return debugapi.MemberDeleting
	case pod.Status.Phase == corev1.PodRunning:
		return debugapi.MemberRunning
	case pod.Spec.NodeName != "":
		return debugapi.MemberBound
	case len(pod.Spec.SchedulingGates) > 0:
		return debugapi.MemberGated
	}
	return debugapi.MemberWaiting
}

// conclude reads why the members wait, when all of them are known. unheld reports that pods of PodGroups were not read, ours are
// the names of Tutti's schedulers.
func (g *gathered) conclude(unheld bool, ours []string) {
	heard := true
	for i, pod := range g.pods {
		condition := model.PodScheduled(pod)
		waits := g.Members[i].State == debugapi.MemberWaiting
		switch {
		case waits && condition == nil && !slices.Contains(ours, pod.Spec.SchedulerName) && !leftToOthers(pod):
			g.others[pod.Spec.SchedulerName], heard = append(g.others[pod.Spec.SchedulerName], pod.Name), false
		case !waits || condition == nil || condition.Message == "" || strings.HasPrefix(condition.Message, "waits with its "):
		case g.group == nil && g.Reason == "": // the oldest has the numbers of a group without a PodGroup
			g.Reason, g.Message = condition.Reason, condition.Message
		case condition.Message != g.Message:
			g.Members[i].Message = condition.Reason + ": " + condition.Message
		}
	}
	if g.group == nil {
		g.count()
	} else if unheld {
		g.Has = g.group.Status.Members
	}
	for _, name := range slices.Sorted(maps.Keys(g.others)) {
		switch {
		case strings.Contains(g.Message, "pods with another schedulerName are no members"):
		case name == "" || name == corev1.DefaultSchedulerName:
			g.Notes = append(g.Notes, fmt.Sprintf("%s: left to %s, since spec.schedulerName names no other", printer.Few(g.others[name]), corev1.DefaultSchedulerName))
		default:
			g.Notes = append(g.Notes, leftTo(printer.Few(g.others[name]), name))
		}
	}
	if g.group != nil && g.Reason == "" && heard && g.group.Spec.SchedulerName != "" &&
		!slices.Contains(ours, g.group.Spec.SchedulerName) {
		g.Notes = append(g.Notes, leftTo("the PodGroup", g.group.Spec.SchedulerName))
	}
	if g.group != nil && g.Reason == "" && !unheld && len(g.Members)+len(g.others) == 0 {
		g.Notes = append(g.Notes, fmt.Sprintf("no pod names it: a pod does by the label %s: %s", v1alpha1.LabelPodGroup, g.Name))
	}
}

// leftTo says that no scheduler of a name has said anything.
func leftTo(what, scheduler string) string {
	return fmt.Sprintf("%s: left to %q by spec.schedulerName, and no scheduler of that name has said anything about it; is the name misspelt? "+
		"Tutti's is %q unless it is configured otherwise", what, scheduler, defaultScheduler)
}

// count says how a group stands that has no PodGroup.
func (g *gathered) count() {
	in := map[debugapi.MemberState]int32{}
	for i := range g.Members {
		in[g.Members[i].State]++
	}
	g.Running, g.Succeeded, g.Failed = in[debugapi.MemberRunning], in[debugapi.MemberSucceeded], in[debugapi.MemberFailed]
	g.Bound = in[debugapi.MemberBound] + g.Running + g.Succeeded
	g.Phase = v1alpha1.PodGroupPending
	switch {
	case len(g.pods) == 0:
		g.Reason, g.Message = reasonOtherScheduler, "spec.schedulerName of its pods names another scheduler: Tutti leaves them alone"
	case g.key.IsPod() && leftToOthers(g.pods[0]) && g.Bound == 0:
		g.Reason, g.Message = reasonOtherScheduler, fmt.Sprintf("its spec.schedulerName is %q: Tutti leaves it alone", g.pods[0].Spec.SchedulerName)
	case g.Failed > 0 && int(g.Failed+g.Succeeded) == len(g.Members):
		g.Phase = v1alpha1.PodGroupFailed
	case int(g.Succeeded) == len(g.Members):
		g.Phase = v1alpha1.PodGroupSucceeded
	case g.Bound > 0:
		if g.Phase = v1alpha1.PodGroupStarting; g.Running > 0 {
			g.Phase = v1alpha1.PodGroupRunning
		}
		said := g.Message
		g.Reason, g.Message = v1alpha1.ConditionScheduled, fmt.Sprintf("pods that are bound: %d", g.Bound)
		if said != "" {
			g.Message += fmt.Sprintf("; pods that wait: %d, and with them it %s", in[debugapi.MemberWaiting], said)
		}
	case g.key.Source == model.SourcePodGroup:
		g.Phase, g.Reason = "", reasonGroupNotFound
		g.Message = fmt.Sprintf("PodGroup %q does not exist in namespace %s, and its pods wait for it", g.Name, g.Namespace)
	case in[debugapi.MemberGated] > 0 && g.Reason == "":
		g.Reason, g.Message = corev1.PodReasonSchedulingGated, "its pods carry scheduling gates, which another controller removes"
	}
}
