package main

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/connect"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/diagnose"
)

// This file finds what the scheduler cannot say: whether one leads, and why the pods of a group are not made. It asks the API
// server, and says nothing of what the user may not read.

// findUnsaid adds notes to the jobs: whether a scheduler leads, to the first of them that has not been looked at, and why there
// are too few pods, to a PodGroup that lacks some.
func (k *endpointFlags) findUnsaid(ctx context.Context, jobs ...*diagnose.Diagnosis) {
	asked := false
	for _, of := range jobs {
		if of.Group != nil {
			of = of.Group
		}
		if of.LacksPods() && of.Kind == string(diagnose.PodGroup) && of.State != diagnose.Ended {
			of.Notes = append(of.Notes, k.whyNoPods(ctx, of.Namespace, func(job *batchv1.Job) bool {
				return job.Spec.Template.Labels[v1alpha1.LabelPodGroup] == of.Name
			})...)
		}
		if of.State == diagnose.Unprocessed && !asked {
			asked = true
			if leads := k.whoLeads(ctx); leads != "" {
				of.Notes = append(of.Notes, leads)
			}
		}
	}
}

// whoLeads says whether a scheduler holds the Lease; it is empty where there is no access to the API server.
func (k *endpointFlags) whoLeads(ctx context.Context) string {
	client := k.typed()
	if client == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	return connect.WhoLeads(ctx, client, k.options, k.now())
}

// typed returns a client for the API server; nil where there is no access, which other requests report.
func (k *endpointFlags) typed() kubernetes.Interface {
	config, _, err := k.load()
	if err != nil {
		return nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil
	}
	return client
}

// whyNoPods says why each of the Jobs that match has made no pods: it is suspended, or the API server refuses its pods.
func (k *endpointFlags) whyNoPods(ctx context.Context, namespace string, matches func(*batchv1.Job) bool) (notes []string) {
	client := k.typed()
	if client == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	jobs, err := client.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		switch {
		case !matches(job):
		case job.Spec.Suspend != nil && *job.Spec.Suspend:
			notes = append(notes, fmt.Sprintf("Job %q is suspended (spec.suspend), so that it makes no pods", job.Name))
		default:
			if refused := lastFailure(ctx, client, job); refused != "" {
				notes = append(notes, fmt.Sprintf("Job %q: %s", job.Name, refused))
			}
		}
	}
	return notes
}

// lastFailure is the last event that says why a pod of the Job could not be made; empty when there is none.
func lastFailure(ctx context.Context, client kubernetes.Interface, job *batchv1.Job) (message string) {
	events, err := client.CoreV1().Events(job.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=FailedCreate,involvedObject.uid=" + string(job.UID)})
	if err != nil {
		return ""
	}
	var last time.Time
	for i := range events.Items {
		event := &events.Items[i]
		at := event.LastTimestamp.Time
		if at.IsZero() {
			at = event.EventTime.Time
		}
		if event.Type == corev1.EventTypeWarning && (message == "" || at.After(last)) {
			message, last = event.Message, at
		}
	}
	return message
}
