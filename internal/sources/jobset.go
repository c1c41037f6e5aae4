package sources

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// jobSet is a JobSet, whose Jobs start together; those that depend on others are made later (pkg/controllers/jobset_controller.go
// of kubernetes-sigs/jobset), and may begin when the pods of those that have succeeded are gone. With an exclusive topology its
// webhook admits most pods only when the first one of each Job has a node: no minimum can hold then.
var jobSet = owned{
	name: "jobset", kind: model.SourceJobSet, job: jobSetName, role: jobSetRole, marks: []string{jobSetUID, jobSetAttempt, jobSetJobIndex}, isCaster: true,
	resource: schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"},
	is:       func(*corev1.Pod) bool { return true },
	member:   readJobSet,
	owns: func(owner *metav1.OwnerReference) bool { // the JobSet of a TrainJob has its name (pkg/runtime of kubeflow/trainer)
		return owner.Kind == "JobSet" || owner.Kind == "TrainJob"
	},
	setting: "; a runtime whose steps depend on each other must not have a podGroupPolicy",
	lacking: func(job *model.Job) string { // no object says that pods of a Job have succeeded and are gone
		note := "pods that have succeeded and are gone are not made again: if it waits for such, delete the Job of the step, which is then made again"
		if job.Key.Source == model.SourceJobSet {
			note += fmt.Sprintf("; or set the annotation %s: \"0\" on the JobSet, and each pod starts when it fits", v1alpha1.AnnotationMinMember)
		}
		return note
	},
	decode: func(f *fields, spec *Spec) {
		inOrder := f.text("spec", "startupPolicy", "startupPolicyOrder") == "InOrder"
		exclusive := f.value("metadata", "annotations", exclusiveTopology) != nil
		succeeded := map[string]int32{} // replicated jobs, by name
		status := fields{object: f.object}
		for _, jobs := range status.list("status", "replicatedJobsStatus") {
			succeeded[jobs.text("name")] = jobs.integer("succeeded")
		}
		for i, job := range f.list("spec", "replicatedJobs") {
			parallelism := job.integerOr(1, "template", "spec", "parallelism")
			if completions := job.value("template", "spec", "completions"); completions != nil {
				parallelism = min(parallelism, job.integer("template", "spec", "completions"))
			}
			later := inOrder && i > 0 || len(job.list("dependsOn")) > 0
			exclusive = exclusive || job.value("template", "metadata", "annotations", exclusiveTopology) != nil
			replicas := job.integerOr(1, "replicas")
			spec.addRole(f, model.Role{Name: job.text("name"), MadeLater: later}, int64(replicas)*int64(parallelism))
			if later {
				spec.addLater(job.text("name"), int64(replicas)*int64(parallelism), job.value("template", "spec", "template"))
			}
			if replicas > 0 && succeeded[job.text("name")] >= replicas {
				spec.Done = append(spec.Done, job.text("name"))
			}
		}
		spec.sortRoles()
		if exclusive {
			spec.MinMember, spec.Roles, spec.Done, spec.Exclusive = 1, nil, nil, true
			spec.Remark = "with an exclusive topology most pods are made when others have a node: each starts when it fits"
		}
	},
}.source()

// The labels of a pod of a JobSet with the name and UID of that, with the role, with the attempt and with the number of its Job
// among those of its role, and the annotation of an exclusive topology.
const (
	jobSetName        = "jobset.sigs.k8s.io/jobset-name"
	jobSetUID         = "jobset.sigs.k8s.io/jobset-uid"
	jobSetRole        = "jobset.sigs.k8s.io/replicatedjob-name"
	jobSetAttempt     = "jobset.sigs.k8s.io/restart-attempt"
	jobSetJobIndex    = "jobset.sigs.k8s.io/job-index"
	exclusiveTopology = "alpha.jobset.sigs.k8s.io/exclusive-topology"
)

// readJobSet reads the JobSet that a pod was made for, and the attempt.
func readJobSet(pod *corev1.Pod, m *model.Member) {
	uid, attempt := pod.Labels[jobSetUID], pod.Labels[jobSetAttempt]
	if uid == "" && attempt == "" {
		return
	}
	m.Made = model.Made{Kind: model.SourceJobSet.Kind(), Name: pod.Labels[jobSetName], UID: types.UID(uid)}
	if n, err := strconv.ParseUint(attempt, 10, 31); err == nil {
		m.Made.Attempt = model.NumberOf(int(n))
	}
}
