package groups

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// owned is a kind of objects that own pods and for which no group object is needed: what they say of their pods is enough. Pods
// are known by labels, since between the object and its pods there may be others.
type owned struct {
	name     string
	source   model.Source
	resource schema.GroupVersionResource
	// job and role are the labels with the name of the object and with the role, empty when there are none; is reports whether the
	// pod is of this kind.
	job, role string
	is        func(pod *corev1.Pod) bool
	marks     []string
	// decode reads the roles of an object and how many members start together.
	decode func(f *fields, spec *Spec)
}

func (o *owned) Name() string { return o.name }

func (o *owned) Marks() Marks {
	labels := append([]string{o.job}, o.marks...)
	if o.role != "" {
		labels = append(labels, o.role)
	}
	return Marks{Labels: labels}
}

func (o *owned) Of(pod *corev1.Pod) (Membership, bool) {
	name := pod.Labels[o.job]
	if name == "" || !o.is(pod) {
		return Membership{}, false
	}
	return Membership{Job: model.JobKey{Namespace: pod.Namespace, Name: name, Source: o.source}, Role: pod.Labels[o.role]}, true
}

func (o *owned) Watches() []Watch {
	return []Watch{{Source: o.source, Resource: o.resource, Decode: func(object *unstructured.Unstructured) *Spec {
		f := fields{object: object.Object}
		spec := &Spec{ObjectMeta: Identity(object), Source: o.source}
		o.decode(&f, spec)
		if text, ok := object.GetAnnotations()[v1alpha1.AnnotationMinMember]; ok {
			spec.MinMember, spec.Roles, spec.Done = f.override(text), nil, nil
		}
		spec.readTopology(&f, object.GetAnnotations())
		if spec.NoGang = o.source == model.SourceJob && spec.MinMember == 0 && f.contradiction == ""; spec.NoGang {
			spec.Left = 0 // what is not read is no change of it
		}
		spec.MinMember, spec.Contradiction = max(1, spec.MinMember), f.contradiction
		return spec
	}}}
}

// override reads the annotation on an object that says how many of its pods start together; 0 is as 1: each starts when it fits.
func (f *fields) override(text string) int32 {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		f.contradict("annotation %s is %q, it must be a whole number from 0 up", v1alpha1.AnnotationMinMember, model.Brief(text, maxQuoted))
	}
	return int32(n)
}

// addRole adds a role, and its members to those that start together. One that needs none is left out.
func (s *Spec) addRole(f *fields, role model.Role, members int64) {
	if members <= 0 {
		return
	}
	if members > math.MaxInt32-int64(s.MinMember) {
		f.contradict("the members of all roles are more than %d", math.MaxInt32)
		return
	}
	role.MinMember = int32(members)
	s.MinMember += role.MinMember
	s.Roles = append(s.Roles, role)
}

// sortRoles sorts the roles by name, as a job has them. Of two with one name the minima are added up.
func (s *Spec) sortRoles() {
	slices.SortStableFunc(s.Roles, func(a, b model.Role) int { return strings.Compare(a.Name, b.Name) })
	for i := len(s.Roles) - 1; i > 0; i-- {
		if s.Roles[i].Name == s.Roles[i-1].Name {
			s.Roles[i-1].MinMember += s.Roles[i].MinMember
			s.Roles = slices.Delete(s.Roles, i, i+1)
		}
	}
}

// foreignRole returns the role of a pod in a group object of its operator: ours, or by the labels of those whose roles may be
// late.
func foreignRole(pod *corev1.Pod) string {
	return cmp.Or(pod.Labels[v1alpha1.LabelRole], pod.Labels[kubeflowRole], pod.Labels[jobSetRole], lwsRole(pod))
}

// labelled reports whether a label of the pod has the value.
func labelled(key, value string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool { return pod.Labels[key] == value }
}

// jobSet is a JobSet, whose Jobs start together; those that depend on others are made later (pkg/controllers/jobset_controller.go
// of kubernetes-sigs/jobset), and may begin when the pods of those that have succeeded are gone. With an exclusive topology its
// webhook admits most pods only when the first one of each Job has a node: no minimum can hold then.
var jobSet = &owned{
	name: "jobset", source: model.SourceJobSet, job: jobSetName, role: jobSetRole, marks: []string{jobSetUID, jobSetAttempt},
	resource: schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"},
	is:       func(*corev1.Pod) bool { return true },
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
}

// The labels of a pod of a JobSet with the name and UID of that, with the role and with the attempt, and the annotation of an
// exclusive topology.
const (
	jobSetName        = "jobset.sigs.k8s.io/jobset-name"
	jobSetUID         = "jobset.sigs.k8s.io/jobset-uid"
	jobSetRole        = "jobset.sigs.k8s.io/replicatedjob-name"
	jobSetAttempt     = "jobset.sigs.k8s.io/restart-attempt"
	exclusiveTopology = "alpha.jobset.sigs.k8s.io/exclusive-topology"
)

// The labels of the pods of training-operator and mpi-operator.
const (
	kubeflowJob      = "training.kubeflow.org/job-name"
	kubeflowOperator = "training.kubeflow.org/operator-name"
	kubeflowRole     = "training.kubeflow.org/job-role"
	kubeflowReplica  = "training.kubeflow.org/replica-type"
)

// mpiJob is an MPIJob of mpi-operator (pkg/controller/podgroup.go of kubeflow/mpi-operator): its workers and the launcher. A
// stated minimum that is below the number of both says nothing of roles.
var mpiJob = &owned{
	name: "kubeflow", source: model.SourceMPIJob, job: kubeflowJob, role: kubeflowRole, marks: []string{kubeflowOperator},
	resource: schema.GroupVersionResource{Group: "kubeflow.org", Version: "v2beta1", Resource: "mpijobs"},
	is:       labelled(kubeflowOperator, "mpi-operator"),
	decode: func(f *fields, spec *Spec) {
		later := f.text("spec", "launcherCreationPolicy") == "WaitForWorkersReady"
		spec.addRole(f, model.Role{Name: "launcher", MadeLater: later}, 1)
		if later {
			spec.addLater("launcher", 1, f.value("spec", "mpiReplicaSpecs", "Launcher", "template"))
		}
		spec.addRole(f, model.Role{Name: "worker"}, int64(f.integerOr(0, "spec", "mpiReplicaSpecs", "Worker", "replicas")))
		if stated := f.integer("spec", "runPolicy", "schedulingPolicy", "minAvailable"); stated > 0 {
			if stated < spec.MinMember {
				spec.Roles = nil
			}
			spec.MinMember = stated
		}
	},
}

// trainingJob returns a kind of training-operator v1 (pkg/controller.v1/common/job.go of kubeflow/trainer): all replicas, but for
// evaluators, which are no part of the training; an elastic PyTorchJob needs as many workers as its elasticPolicy says.
func trainingJob(source model.Source, resource, operator, replicas string) *owned {
	return &owned{
		name: "kubeflow", source: source, job: kubeflowJob, role: kubeflowReplica, marks: []string{kubeflowOperator},
		resource: schema.GroupVersionResource{Group: "kubeflow.org", Version: "v1", Resource: resource},
		is:       labelled(kubeflowOperator, operator),
		decode: func(f *fields, spec *Spec) {
			for _, kind := range f.keys("spec", replicas) {
				n := f.integerOr(1, "spec", replicas, kind, "replicas")
				if least := f.integer("spec", "elasticPolicy", "minReplicas"); kind == "Worker" && least > 0 {
					n = min(n, least)
				}
				if kind != "Evaluator" {
					spec.addRole(f, model.Role{Name: strings.ToLower(kind)}, int64(n))
				}
			}
			spec.sortRoles()
			if stated := f.integer("spec", "runPolicy", "schedulingPolicy", "minAvailable"); stated > 0 {
				spec.MinMember, spec.Roles = stated, nil
			}
		},
	}
}

var (
	pyTorchJob = trainingJob(model.SourcePyTorchJob, "pytorchjobs", "pytorchjob-controller", "pytorchReplicaSpecs")
	tfJob      = trainingJob(model.SourceTFJob, "tfjobs", "tfjob-controller", "tfReplicaSpecs")
	xgBoostJob = trainingJob(model.SourceXGBoostJob, "xgboostjobs", "xgboostjob-controller", "xgbReplicaSpecs")
	paddleJob  = trainingJob(model.SourcePaddleJob, "paddlejobs", "paddlejob-controller", "paddleReplicaSpecs")
	jaxJob     = trainingJob(model.SourceJAXJob, "jaxjobs", "jaxjob-controller", "jaxReplicaSpecs")
)

// rayCluster is a RayCluster of KubeRay (ray-operator/controllers/ray/utils): its head and the workers of all groups, of each
// no fewer and no more than it says; with the autoscaler as many as each group has at least.
var rayCluster = &owned{
	name: "raycluster", source: model.SourceRayCluster, job: "ray.io/cluster", role: "ray.io/group",
	resource: schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayclusters"},
	is: func(pod *corev1.Pod) bool {
		controller := metav1.GetControllerOf(pod)
		return controller != nil && controller.Kind == "RayCluster"
	},
	decode: func(f *fields, spec *Spec) {
		autoscales := f.value("spec", "enableInTreeAutoscaling") == true
		spec.addRole(f, model.Role{Name: "headgroup"}, 1)
		for _, group := range f.list("spec", "workerGroupSpecs") {
			least, most := group.integer("minReplicas"), group.integerOr(math.MaxInt32, "maxReplicas")
			n := min(max(group.integerOr(least, "replicas"), least), most)
			if autoscales {
				n = min(least, most)
			}
			if group.value("suspend") != true {
				spec.addRole(f, model.Role{Name: group.text("groupName")}, int64(n)*int64(max(1, group.integer("numOfHosts"))))
			}
		}
		spec.sortRoles()
	},
}

// indexedJob is a Job of Kubernetes whose pods have an index each and run together: as many at a time as there are indexes. One
// that goes on without some of its indexes is no gang, nor is a Job of a controller, which may have more pods than the Job
// states; a CronJob has not. The pods of one that is no gang are jobs of their own, and pods of other Jobs have no index.
var indexedJob = &owned{
	name: "job", source: model.SourceJob, job: batchv1.JobNameLabel, marks: []string{jobIndex},
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
}

// jobIndex is the label of pods of an indexed Job.
const jobIndex = batchv1.JobCompletionIndexAnnotation
