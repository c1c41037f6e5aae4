package sources

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// indexedJob is a Job of Kubernetes whose pods have an index each and run together: as many at a time as there are indexes. One
// that goes on without some of its indexes is no gang, nor is a Job of a controller, which may have more pods than the Job
// states; a CronJob has not. The pods of one that is no gang are jobs of their own, and pods of other Jobs have no index.
var indexedJob = owned{
	name: "job", kind: model.SourceJob, job: batchv1.JobNameLabel, marks: []string{jobIndex},
	resource: batchv1.SchemeGroupVersion.WithResource("jobs"),
	is: func(pod *corev1.Pod) bool {
		controller := metav1.GetControllerOf(pod)
		return controller != nil && controller.Kind == "Job" && pod.Labels[jobIndex] != ""
	},
	decode: func(f *fields, spec *Spec) {
		parallelism, completions := f.integerOr(1, "spec", "parallelism"), f.integer("spec", "completions")
		owned := slices.ContainsFunc(spec.OwnerReferences, func(by metav1.OwnerReference) bool { return by.Kind != "CronJob" })
		indexed := f.text("spec", "completionMode") == string(batchv1.IndexedCompletion)
		if indexed && parallelism == completions && !owned && f.value("spec", "backoffLimitPerIndex") == nil && f.value("spec", "successPolicy") == nil {
			spec.MinMember = parallelism
		}
		status := fields{object: f.object} // what cannot be read of it is no contradiction
		spec.Left = max(0, completions-status.integer("status", "succeeded"))
	},
}.source()

// jobIndex is the label of pods of an indexed Job.
const jobIndex = batchv1.JobCompletionIndexAnnotation
