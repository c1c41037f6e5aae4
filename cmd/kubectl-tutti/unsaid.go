package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file finds what the scheduler cannot say: why the pods of a group are not made or do not name it. It asks the API server,
// and says nothing of what the user may not read.

// findUnsaid adds notes to a job that waits.
func (k *known) findUnsaid(ctx context.Context, job *debugapi.Job) {
	if !job.Waits() || job.Reason == reasonOtherScheduler {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if job.Source == model.SourcePodGroup.Kind() && (job.Has < job.Needs || job.Phase == "") {
		k.findMisspelt(job)
		ofGroup := func(of *batchv1.Job) bool { return of.Spec.Template.Labels[v1alpha1.LabelPodGroup] == job.Name }
		if job.Phase != "" {
			job.Notes = append(job.Notes, k.whyNoPods(ctx, ofGroup)...)
		}
	}
	if strings.Contains(job.Message, "ResourceClaim not created yet") {
		job.Notes = append(job.Notes, k.whyNoClaim(ctx, job)...)
	}
}

// findMisspelt says which pods were probably meant for a PodGroup that lacks some: those of a group with a similar name that does
// not exist. Of pods whose PodGroup does not exist it says which was probably meant.
func (k *known) findMisspelt(job *debugapi.Job) {
	groups, lost := groupNames(&k.JobList)
	if near := config.Nearest(job.Name, groups); job.Phase == "" && near != "" {
		job.Notes = append(job.Notes, fmt.Sprintf("did you mean PodGroup %q?", near))
	} else if job.Phase == "" && len(groups) == 0 {
		job.Notes = append(job.Notes, "there is no PodGroup in this namespace at all")
	}
	if near := config.Nearest(job.Name, lost); job.Phase != "" && near != "" && config.Nearest(near, groups) == job.Name {
		var pods []string
		for _, member := range among(&k.JobList, job.Source, near).jobs[0].Members {
			pods = append(pods, member.Name)
		}
		job.Notes = append(job.Notes, fmt.Sprintf("%s: of PodGroup %q, which does not exist; is the label misspelt?", printer.Few(pods), near))
	}
}

// groupNames returns the PodGroups of a list, and those that pods name and that do not exist.
func groupNames(list *debugapi.JobList) (groups, lost []string) {
	for i := range list.Items {
		switch job := &list.Items[i]; {
		case job.Source != model.SourcePodGroup.Kind():
		case job.Phase != "":
			groups = append(groups, job.Name)
		default:
			lost = append(lost, job.Name)
		}
	}
	return groups, lost
}

// whyNoPods says why each of the Jobs that match makes no pods: it is suspended or has ended, or the API server refuses its pods.
func (k *known) whyNoPods(ctx context.Context, matches func(*batchv1.Job) bool) (notes []string) {
	jobs, err := k.read.pods.BatchV1().Jobs(k.read.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		switch {
		case !matches(job):
		case job.Spec.Suspend != nil && *job.Spec.Suspend:
			notes = append(notes, fmt.Sprintf("Job %q is suspended (spec.suspend), so that it makes no pods", job.Name))
		case ended(job) != "":
			notes = append(notes, fmt.Sprintf("Job %q %s, so that it makes no more pods", job.Name, ended(job)))
		default:
			if refused := k.lastWarning(ctx, "involvedObject.uid="+string(job.UID), "FailedCreate", "SuccessfulCreate"); refused != "" {
				notes = append(notes, fmt.Sprintf("Job %q: %s", job.Name, refused))
			}
		}
	}
	return notes
}

// ended says how a Job has ended; empty when it has not.
func ended(job *batchv1.Job) string {
	for _, condition := range job.Status.Conditions {
		switch {
		case condition.Status != corev1.ConditionTrue:
		case condition.Type == batchv1.JobComplete:
			return "is complete"
		case condition.Type == batchv1.JobFailed:
			return fmt.Sprintf("has failed (%s: %s)", condition.Reason, condition.Message)
		}
	}
	return ""
}

// maxAsked is for how many members of a job events are looked for.
const maxAsked = 5

// whyNoClaim quotes the event of a member that says why its ResourceClaim could not be made.
func (k *known) whyNoClaim(ctx context.Context, job *debugapi.Job) []string {
	for _, member := range job.Members[:min(len(job.Members), maxAsked)] {
		if refused := k.lastWarning(ctx, "involvedObject.name="+member.Name, "FailedResourceClaimCreation", ""); refused != "" {
			return []string{fmt.Sprintf("pod %q: %s", member.Name, refused)}
		}
	}
	return nil
}

// lastWarning is the message of the last warning with a reason among the events of an object; empty when there is none, or when
// an event with the reason solved came later. object is a field selector.
func (k *known) lastWarning(ctx context.Context, object, reason, solved string) (message string) {
	events, err := k.read.pods.CoreV1().Events(k.read.namespace).List(ctx, metav1.ListOptions{FieldSelector: object})
	if err != nil {
		return ""
	}
	var last, after time.Time
	for i := range events.Items {
		event := &events.Items[i]
		at := event.LastTimestamp.Time
		if at.IsZero() {
			at = event.EventTime.Time
		}
		switch {
		case event.Reason == solved && at.After(after):
			after = at
		case event.Reason == reason && event.Type == corev1.EventTypeWarning && (message == "" || at.After(last)):
			message, last = event.Message, at
		}
	}
	if after.After(last) {
		return ""
	}
	return message
}
