package sources

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tutti-sched/tutti/pkg/model"
)

// The labels of the pods of training-operator and mpi-operator.
const (
	kubeflowJob      = "training.kubeflow.org/job-name"
	kubeflowOperator = "training.kubeflow.org/operator-name"
	kubeflowRole     = "training.kubeflow.org/job-role"
	kubeflowReplica  = "training.kubeflow.org/replica-type"
	kubeflowIndex    = "training.kubeflow.org/replica-index"
)

// mpiJob is an MPIJob of mpi-operator (pkg/controller/podgroup.go of kubeflow/mpi-operator): its workers and the launcher. A
// stated minimum that is below the number of both says nothing of roles.
var mpiJob = owned{
	name: "kubeflow", kind: model.SourceMPIJob, job: kubeflowJob, role: kubeflowRole, marks: []string{kubeflowOperator}, index: kubeflowIndex, isCaster: true,
	resource: schema.GroupVersionResource{Group: "kubeflow.org", Version: "v2beta1", Resource: "mpijobs"},
	is:       labelled(kubeflowOperator, "mpi-operator"),
	owns: func(owner *metav1.OwnerReference) bool { // the MPIJob of training-operator is of another version
		return owner.Kind == "MPIJob" && owner.APIVersion != "kubeflow.org/v1"
	},
	setting: "; with launcherCreationPolicy: WaitForWorkersReady set runPolicy.schedulingPolicy.minAvailable to the number of workers",
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
}.source()

// trainingJob returns a kind of training-operator v1 (pkg/controller.v1/common/job.go of kubeflow/trainer): all replicas except
// evaluators, which are no part of the training; an elastic PyTorchJob needs as many workers as its elasticPolicy says.
func trainingJob(source model.Source, resource, operator, replicas string) *Source {
	return owned{
		name: "kubeflow", kind: source, job: kubeflowJob, role: kubeflowReplica, marks: []string{kubeflowOperator}, index: kubeflowIndex,
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
	}.source()
}

var (
	pyTorchJob = trainingJob(model.SourcePyTorchJob, "pytorchjobs", "pytorchjob-controller", "pytorchReplicaSpecs")
	tfJob      = trainingJob(model.SourceTFJob, "tfjobs", "tfjob-controller", "tfReplicaSpecs")
	xgBoostJob = trainingJob(model.SourceXGBoostJob, "xgboostjobs", "xgboostjob-controller", "xgbReplicaSpecs")
	paddleJob  = trainingJob(model.SourcePaddleJob, "paddlejobs", "paddlejob-controller", "paddleReplicaSpecs")
	jaxJob     = trainingJob(model.SourceJAXJob, "jaxjobs", "jaxjob-controller", "jaxReplicaSpecs")
)
