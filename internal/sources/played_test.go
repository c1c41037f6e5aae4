package sources

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/tutti-sched/tutti/pkg/model"
)

// played is what an operator writes for one job: its group, as text, and the metadata of its pods.
type played struct {
	decode func(*unstructured.Unstructured) *Spec
	group  string
	pods   []string
	// job is where each pod looks for its job, in this order; roles are those of the pods.
	job   string
	roles []string
	// minimum is what the group says of it, owner who controls it, phase that in its status.
	minimum      int32
	tasks        []model.Role
	owner, phase string
}

// TestWhatOperatorsWriteIsRead: the marks of the pods lead to the group, and the group says how many start together. The
// objects are as the controllers write them:
//
//   - KubeRay 1.6.1, ray-operator/controllers/ray: batchscheduler/volcano/volcano_scheduler.go (createPodGroup, and
//     populateAnnotations), raycluster_controller.go, rayjob_controller.go (createK8sJobIfNeed, constructRayClusterForRayJob);
//   - Volcano, pkg/controllers/job/job_controller_util.go (createJobPod) and job_controller_actions.go (createOrUpdatePodGroup);
//   - spark-operator v2, internal/scheduler/kubescheduler/scheduler.go and internal/scheduler/volcano/scheduler.go (Schedule);
//     Spark itself adds the labels of driver and executors, and makes the driver the controller of executors.
func TestWhatOperatorsWriteIsRead(t *testing.T) {
	for name, c := range map[string]played{
		"KubeRay's RayJob: the submitter is a member, and not needed": {
			decode: decodeVolcano,
			group: `
metadata:
  name: ray-train-pg
  ownerReferences: [{apiVersion: ray.io/v1, kind: RayJob, name: train, uid: u1, controller: true, blockOwnerDeletion: true}]
spec: {minMember: 3, minResources: {cpu: "7", memory: 14Gi}, queue: default}
status: {phase: Pending}`,
			pods: []string{`
labels: {ray.io/cluster: train-x7k2p, ray.io/node-type: head, ray.io/group: headgroup, ray.io/is-ray-node: "yes"}
annotations: {scheduling.k8s.io/group-name: ray-train-pg, volcano.sh/task-spec: headgroup}
ownerReferences: [{apiVersion: ray.io/v1, kind: RayCluster, name: train-x7k2p, uid: u2, controller: true}]`, `
labels: {ray.io/cluster: train-x7k2p, ray.io/node-type: worker, ray.io/group: small, ray.io/is-ray-node: "yes"}
annotations: {scheduling.k8s.io/group-name: ray-train-pg, volcano.sh/task-spec: small}
ownerReferences: [{apiVersion: ray.io/v1, kind: RayCluster, name: train-x7k2p, uid: u2, controller: true}]`, `
labels: {batch.kubernetes.io/job-name: train, job-name: train}
annotations: {scheduling.k8s.io/group-name: ray-train-pg, volcano.sh/task-spec: submittergroup}
ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train, uid: u3, controller: true}]`},
			job:   "PodGroup ns/ray-train-pg; PodGroup.scheduling.volcano.sh ns/ray-train-pg",
			roles: []string{"headgroup", "small", "submittergroup"}, minimum: 3, owner: "RayJob train", phase: "Pending",
		},
		"Volcano's Job: a minimum for each task, in a group with the UID in its name": {
			decode: decodeVolcano,
			group: `
metadata:
  name: mnist-0c8f2a54-3f0e-4a86-9f0b-0f6a2a5d1c11
  ownerReferences: [{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: mnist, uid: 0c8f2a54-3f0e-4a86-9f0b-0f6a2a5d1c11, controller: true}]
spec: {minMember: 3, minTaskMember: {ps: 1, worker: 2}, queue: default, minResources: {count/pods: "3", pods: "3", cpu: "3", requests.cpu: "3"}}
status: {phase: Pending}`,
			pods: []string{`
labels: {volcano.sh/job-name: mnist, volcano.sh/job-namespace: ns, volcano.sh/queue-name: default, volcano.sh/task-index: "0", volcano.sh/task-spec: ps}
annotations: {volcano.sh/task-index: "0", volcano.sh/task-spec: ps, scheduling.k8s.io/group-name: mnist-0c8f2a54-3f0e-4a86-9f0b-0f6a2a5d1c11, volcano.sh/job-name: mnist, volcano.sh/queue-name: default, volcano.sh/job-version: "0", volcano.sh/template-uid: mnist-ps, volcano.sh/job-retry-count: "0"}
ownerReferences: [{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: mnist, uid: 0c8f2a54-3f0e-4a86-9f0b-0f6a2a5d1c11, controller: true}]`, `
labels: {volcano.sh/job-name: mnist, volcano.sh/job-namespace: ns, volcano.sh/queue-name: default, volcano.sh/task-index: "1", volcano.sh/task-spec: worker}
annotations: {volcano.sh/task-index: "1", volcano.sh/task-spec: worker, scheduling.k8s.io/group-name: mnist-0c8f2a54-3f0e-4a86-9f0b-0f6a2a5d1c11, volcano.sh/job-name: mnist, volcano.sh/queue-name: default, volcano.sh/job-version: "0", volcano.sh/template-uid: mnist-worker, volcano.sh/job-retry-count: "0"}
ownerReferences: [{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: mnist, uid: 0c8f2a54-3f0e-4a86-9f0b-0f6a2a5d1c11, controller: true}]`},
			job: "PodGroup ns/mnist-0c8f2a54-3f0e-4a86-9f0b-0f6a2a5d1c11; " +
				"PodGroup.scheduling.volcano.sh ns/mnist-0c8f2a54-3f0e-4a86-9f0b-0f6a2a5d1c11",
			roles: []string{"ps", "worker"}, minimum: 3, tasks: []model.Role{{Name: "ps", MinMember: 1}, {Name: "worker", MinMember: 2}},
			owner: "Job mnist", phase: "Pending",
		},
		"spark-operator with a scheduler's name: the driver is needed alone": {
			decode: decodeCoscheduling,
			group: `
metadata:
  name: pi-pg
  ownerReferences: [{apiVersion: sparkoperator.k8s.io/v1beta2, kind: SparkApplication, name: pi, uid: u1, controller: true, blockOwnerDeletion: true}]
spec: {minMember: 1, minResources: {cpu: "3", memory: 3Gi}}`,
			pods: []string{`
labels: {scheduling.x-k8s.io/pod-group: pi-pg, spark-role: driver, spark-app-selector: spark-1, sparkoperator.k8s.io/app-name: pi}
ownerReferences: [{apiVersion: sparkoperator.k8s.io/v1beta2, kind: SparkApplication, name: pi, uid: u1, controller: true}]`, `
labels: {scheduling.x-k8s.io/pod-group: pi-pg, spark-role: executor, spark-exec-id: "1", spark-app-selector: spark-1, sparkoperator.k8s.io/app-name: pi}
ownerReferences: [{apiVersion: v1, kind: Pod, name: pi-driver, uid: u2, controller: true}]`},
			job: "PodGroup.scheduling.x-k8s.io ns/pi-pg", roles: []string{"", ""}, minimum: 1, owner: "SparkApplication pi",
		},
		"spark-operator with Volcano": {
			decode: decodeVolcano,
			group: `
metadata:
  name: spark-pi-pg
  ownerReferences: [{apiVersion: sparkoperator.k8s.io/v1beta2, kind: SparkApplication, name: pi, uid: u1, controller: true, blockOwnerDeletion: true}]
spec: {minMember: 1, minResources: {cpu: "3", memory: 3Gi}, queue: default}
status: {phase: Pending}`,
			pods: []string{`
labels: {spark-role: driver, spark-app-selector: spark-1, sparkoperator.k8s.io/app-name: pi}
annotations: {scheduling.k8s.io/group-name: spark-pi-pg}
ownerReferences: [{apiVersion: sparkoperator.k8s.io/v1beta2, kind: SparkApplication, name: pi, uid: u1, controller: true}]`, `
labels: {spark-role: executor, spark-exec-id: "1", spark-app-selector: spark-1, sparkoperator.k8s.io/app-name: pi}
annotations: {scheduling.k8s.io/group-name: spark-pi-pg}
ownerReferences: [{apiVersion: v1, kind: Pod, name: pi-driver, uid: u2, controller: true}]`},
			job:   "PodGroup ns/spark-pi-pg; PodGroup.scheduling.volcano.sh ns/spark-pi-pg",
			roles: []string{"", ""}, minimum: 1, owner: "SparkApplication pi", phase: "Pending",
		},
	} {
		t.Run(name, c.read)
	}
}

func (c played) read(t *testing.T) {
	group := &unstructured.Unstructured{}
	text, err := yaml.YAMLToJSONStrict([]byte("apiVersion: group/v1\nkind: PodGroup" + c.group))
	if err == nil {
		err = group.UnmarshalJSON(text) // numbers as a client reads them
	}
	if err != nil {
		t.Fatal(err)
	}
	group.SetNamespace("ns")
	spec := c.decode(group)
	if spec.MinMember != c.minimum || spec.Contradiction != "" || spec.Remark != "" || spec.Queue != "" || spec.Shown.Phase != c.phase {
		t.Errorf("the group says %+v, want a minimum of %d in the phase %q, and nothing else", *spec, c.minimum, c.phase)
	}
	if diff := cmp.Diff(c.tasks, spec.Roles); diff != "" {
		t.Errorf("roles of the group (-want +got):\n%s", diff)
	}
	if len(spec.OwnerReferences) != 1 || spec.OwnerReferences[0].Kind+" "+spec.OwnerReferences[0].Name != c.owner {
		t.Errorf("the group is controlled by %+v, want %s", spec.OwnerReferences, c.owner)
	}
	for i, text := range c.pods {
		pod := &corev1.Pod{}
		if err := yaml.UnmarshalStrict([]byte(text), &pod.ObjectMeta); err != nil {
			t.Fatal(err)
		}
		pod.Namespace, pod.Name = "ns", "p"
		membership := Of(pod)
		var jobs []string
		last := &membership
		for one := range membership.All() {
			jobs, last = append(jobs, one.Job.Describe()), one
		}
		if got := strings.Join(jobs, "; "); got != c.job || last.Malformed != nil {
			t.Errorf("pod %d looks for %s (%v), want %s", i, got, last.Malformed, c.job)
		}
		if !slices.ContainsFunc(jobs, func(job string) bool { return strings.HasSuffix(job, " ns/"+spec.Name) }) || last.Job.Source != spec.Source {
			t.Errorf("pod %d does not lead to the group %s of source %v", i, spec.Name, spec.Source)
		}
		if last.Role != c.roles[i] {
			t.Errorf("pod %d has the role %q, want %q", i, last.Role, c.roles[i])
		}
	}
}
