package sources

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/tutti-sched/tutti/pkg/model"
)

// TestObjectsThatOwnPods: how many of their pods start together, by role.
func TestObjectsThatOwnPods(t *testing.T) {
	late := func(name string, n int32) model.Role { return model.Role{Name: name, MinMember: n, MadeLater: true} }
	role := func(name string, n int32) model.Role { return model.Role{Name: name, MinMember: n} }
	for name, c := range map[string]struct {
		source        model.Source
		object        string
		minMember     int32 // 0 is no gang
		roles         []model.Role
		contradiction string
		remark        string
	}{
		"jobset": {model.SourceJobSet, `{spec: {replicatedJobs: [{name: w, replicas: 2, template: {spec: {parallelism: 3}}}, {name: d, template: {spec: {completions: 1}}}]}}`,
			7, []model.Role{role("d", 1), role("w", 6)}, "", ""},
		"fewer completions":  {model.SourceJobSet, `{spec: {replicatedJobs: [{name: w, template: {spec: {parallelism: 3, completions: 2}}}]}}`, 2, []model.Role{role("w", 2)}, "", ""},
		"a job with parents": {model.SourceJobSet, `{spec: {replicatedJobs: [{name: a}, {name: b, replicas: 8, dependsOn: [{name: a, status: Complete}]}]}}`, 9, []model.Role{role("a", 1), late("b", 8)}, "", ""},
		"in order": {model.SourceJobSet, `{spec: {startupPolicy: {startupPolicyOrder: InOrder}, replicatedJobs: [{name: b}, {name: a, replicas: 2}]}}`, 3,
			[]model.Role{late("a", 2), role("b", 1)}, "", ""},
		"exclusive": {model.SourceJobSet, `{metadata: {annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: rack}}, spec: {replicatedJobs: [{name: w, replicas: 4}]}}`, 1, nil, "",
			"with an exclusive topology most pods are made when others have a node: each starts when it fits"},
		"no jobs": {model.SourceJobSet, `{spec: {}}`, 1, nil, "", ""},
		"no pods": {model.SourceJobSet, `{spec: {replicatedJobs: [{name: w, replicas: 0}]}}`, 1, nil, "", ""},
		"stated":  {model.SourceJobSet, `{metadata: {annotations: {scheduling.tutti.dev/min-member: "2"}}, spec: {replicatedJobs: [{name: w, replicas: 4}]}}`, 2, nil, "", ""},
		"not one": {model.SourceJobSet, `{metadata: {annotations: {scheduling.tutti.dev/min-member: "0"}}, spec: {replicatedJobs: [{name: w, replicas: 4}]}}`, 1, nil, "", ""},
		"misstated": {model.SourceJobSet, `{metadata: {annotations: {scheduling.tutti.dev/min-member: all}}, spec: {}}`, 1, nil,
			`annotation scheduling.tutti.dev/min-member is "all", it must be a whole number from 0 up`, ""},
		"another type": {model.SourceJobSet, `{spec: {replicatedJobs: [{name: w}, {name: x, replicas: many}]}}`, 1, []model.Role{role("w", 1)},
			"spec.replicatedJobs[1].replicas is a text, it must be a whole number", ""},
		"another list": {model.SourceJobSet, `{spec: {replicatedJobs: [w]}}`, 1, nil, "spec.replicatedJobs[0] is a text, it must be an object", ""},
		"very many": {model.SourceJobSet, `{spec: {replicatedJobs: [{name: w, replicas: 2000000000, template: {spec: {parallelism: 2000000000}}}]}}`, 1, nil,
			"the members of all roles are more than 2147483647", ""},

		"mpi":                   {model.SourceMPIJob, `{spec: {mpiReplicaSpecs: {Launcher: {replicas: 1}, Worker: {replicas: 4}}}}`, 5, []model.Role{role("launcher", 1), role("worker", 4)}, "", ""},
		"mpi, late":             {model.SourceMPIJob, `{spec: {launcherCreationPolicy: WaitForWorkersReady, mpiReplicaSpecs: {Worker: {replicas: 4}}}}`, 5, []model.Role{late("launcher", 1), role("worker", 4)}, "", ""},
		"mpi, late, all stated": {model.SourceMPIJob, `{spec: {launcherCreationPolicy: WaitForWorkersReady, runPolicy: {schedulingPolicy: {minAvailable: 5}}, mpiReplicaSpecs: {Worker: {replicas: 4}}}}`, 5, []model.Role{late("launcher", 1), role("worker", 4)}, "", ""},
		"mpi, stated":           {model.SourceMPIJob, `{spec: {launcherCreationPolicy: WaitForWorkersReady, runPolicy: {schedulingPolicy: {minAvailable: 4}}, mpiReplicaSpecs: {Worker: {replicas: 4}}}}`, 4, nil, "", ""},

		"pytorch": {model.SourcePyTorchJob, `{spec: {pytorchReplicaSpecs: {Master: {}, Worker: {replicas: 3}}}}`, 4, []model.Role{role("master", 1), role("worker", 3)}, "", ""},
		"elastic": {model.SourcePyTorchJob, `{spec: {elasticPolicy: {minReplicas: 2}, pytorchReplicaSpecs: {Master: {replicas: 1}, Worker: {replicas: 8}}}}`, 3, []model.Role{role("master", 1), role("worker", 2)}, "", ""},
		"tf":      {model.SourceTFJob, `{spec: {tfReplicaSpecs: {Evaluator: {replicas: 1}, PS: {replicas: 2}, Worker: {replicas: 3}}}}`, 5, []model.Role{role("ps", 2), role("worker", 3)}, "", ""},
		"jax":     {model.SourceJAXJob, `{spec: {jaxReplicaSpecs: {Worker: {replicas: 3}}, runPolicy: {schedulingPolicy: {minAvailable: 2}}}}`, 2, nil, "", ""},

		"ray": {model.SourceRayCluster, `{spec: {workerGroupSpecs: [{groupName: a, replicas: 2}, {groupName: b, replicas: 1, numOfHosts: 4}, {groupName: c, replicas: 9, suspend: true}]}}`, 7,
			[]model.Role{role("a", 2), role("b", 4), role("headgroup", 1)}, "", ""},
		"ray, beyond its bounds": {model.SourceRayCluster, `{spec: {workerGroupSpecs: [{groupName: a, replicas: 5, maxReplicas: 3}, {groupName: b, replicas: 1, minReplicas: 2}, {groupName: c, minReplicas: 4}]}}`, 10,
			[]model.Role{role("a", 3), role("b", 2), role("c", 4), role("headgroup", 1)}, "", ""},
		"ray, autoscaled": {model.SourceRayCluster, `{spec: {enableInTreeAutoscaling: true, workerGroupSpecs: [{groupName: a, replicas: 5, minReplicas: 2}, {groupName: b, replicas: 3}]}}`, 3,
			[]model.Role{role("a", 2), role("headgroup", 1)}, "", ""},

		"job":                  {model.SourceJob, `{spec: {completionMode: Indexed, parallelism: 4, completions: 4}}`, 4, nil, "", ""},
		"job, of a CronJob":    {model.SourceJob, `{metadata: {ownerReferences: [{kind: CronJob, controller: true}]}, spec: {completionMode: Indexed, parallelism: 4, completions: 4}}`, 4, nil, "", ""},
		"job, of another":      {model.SourceJob, `{metadata: {ownerReferences: [{kind: JobSet, controller: true}]}, spec: {completionMode: Indexed, parallelism: 4, completions: 4}}`, 0, nil, "", ""},
		"job, not indexed":     {model.SourceJob, `{spec: {completionMode: NonIndexed, parallelism: 4, completions: 4}}`, 0, nil, "", ""},
		"job, more indexes":    {model.SourceJob, `{spec: {completionMode: Indexed, parallelism: 4, completions: 8}}`, 0, nil, "", ""},
		"job, fewer indexes":   {model.SourceJob, `{spec: {completionMode: Indexed, parallelism: 4, completions: 2}}`, 0, nil, "", ""},
		"job, by index":        {model.SourceJob, `{spec: {completionMode: Indexed, parallelism: 4, completions: 4, backoffLimitPerIndex: 1}}`, 0, nil, "", ""},
		"job, some suffice":    {model.SourceJob, `{spec: {completionMode: Indexed, parallelism: 4, completions: 4, successPolicy: {rules: []}}}`, 0, nil, "", ""},
		"job, stated":          {model.SourceJob, `{metadata: {annotations: {scheduling.tutti.dev/min-member: "2"}}, spec: {completionMode: Indexed, parallelism: 4, completions: 8}}`, 2, nil, "", ""},
		"job, of one":          {model.SourceJob, `{spec: {completionMode: Indexed, completions: 1}}`, 1, nil, "", ""},
		"job, stopped":         {model.SourceJob, `{spec: {completionMode: Indexed, parallelism: 0, completions: 0}}`, 0, nil, "", ""},
		"job, of another type": {model.SourceJob, `{spec: {completionMode: Indexed, parallelism: few, completions: 4}}`, 1, nil, "spec.parallelism is a text, it must be a whole number", ""},
	} {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(c.object), &object); err != nil {
			t.Fatal(err)
		}
		watch := WatchOf(c.source)
		got := watch.Decode(&unstructured.Unstructured{Object: asRead(object).(map[string]any)})
		got.OwnerReferences, got.Left = nil, 0
		if diff := cmp.Diff(&Spec{
			Source: c.source, MinMember: max(1, c.minMember), NoGang: c.minMember == 0, Roles: c.roles, Contradiction: c.contradiction, Remark: c.remark,
			Exclusive: c.remark != "",
		}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// asRead returns the value with whole numbers as the dynamic client reads them.
func asRead(value any) any {
	switch value := value.(type) {
	case float64:
		return int64(value)
	case []any:
		for i := range value {
			value[i] = asRead(value[i])
		}
	case map[string]any:
		for key := range value {
			value[key] = asRead(value[key])
		}
	}
	return value
}

// TestPodsOfOwners are known by their labels, and by their controller where others have the label, too.
func TestPodsOfOwners(t *testing.T) {
	kubeflow := func(operator, role string) map[string]string {
		return map[string]string{kubeflowJob: "j", kubeflowOperator: operator, kubeflowRole: role, kubeflowReplica: "worker"}
	}
	for name, c := range map[string]struct {
		labels     map[string]string
		controller string
		want, role string
	}{
		"jobset":          {map[string]string{"jobset.sigs.k8s.io/jobset-name": "s", jobSetRole: "w"}, "Job", "JobSet ns/s", "w"},
		"mpi":             {kubeflow("mpi-operator", "launcher"), "Job", "MPIJob ns/j", "launcher"},
		"pytorch":         {kubeflow("pytorchjob-controller", "master"), "PyTorchJob", "PyTorchJob ns/j", "worker"},
		"mpi v1":          {kubeflow("mpijob-controller", ""), "MPIJob", "pod ns/p", ""},
		"ray":             {map[string]string{"ray.io/cluster": "r", "ray.io/group": "headgroup"}, "RayCluster", "RayCluster ns/r", "headgroup"},
		"ray's submitter": {map[string]string{"ray.io/cluster": "r"}, "Job", "pod ns/p", ""},
		"job":             {map[string]string{"batch.kubernetes.io/job-name": "j", jobIndex: "0"}, "Job", "Job ns/j", ""},
		"job, no index":   {map[string]string{"batch.kubernetes.io/job-name": "j"}, "Job", "pod ns/p", ""},
		"labels alone":    {map[string]string{"batch.kubernetes.io/job-name": "j", jobIndex: "0"}, "Mine", "pod ns/p", ""},
		"job of a jobset": {map[string]string{"batch.kubernetes.io/job-name": "j", jobIndex: "0", "jobset.sigs.k8s.io/jobset-name": "s"}, "Job", "JobSet ns/s", ""},
		"a group, too":    {map[string]string{"jobset.sigs.k8s.io/jobset-name": "s", jobSetRole: "w", LabelCoscheduling: "g"}, "Job", "PodGroup.scheduling.x-k8s.io ns/g", "w"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "p", Labels: c.labels, OwnerReferences: []metav1.OwnerReference{{Kind: c.controller, Name: "o", Controller: new(true)}},
		}}
		if m := All().Of(pod); m.Job.Describe() != c.want || m.Role != c.role {
			t.Errorf("%s: %s as %q, want %s as %q", name, m.Job.Describe(), m.Role, c.want, c.role)
		}
		if m := Of(pod); m.Job.Source == model.SourceJob {
			t.Errorf("%s: %s by default", name, m.Job.Describe())
		}
	}
}

// TestPodsOfAJobBefore, of the same name, do not count for the one that was made again.
func TestPodsOfAJobBefore(t *testing.T) {
	of := func(uid types.UID) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: "train", UID: uid, Controller: new(true)}}}}
	}
	job := &model.Job{Key: model.JobKey{Namespace: "ns", Name: "train", Source: model.SourceJob}}
	for _, status := range []model.Status{model.Succeeded, model.Succeeded, model.Succeeded} {
		job.Tasks = append(job.Tasks, &model.Task{Placement: model.Placement{Status: status}, Pod: of("before")})
	}
	job.Tasks = append(job.Tasks, &model.Task{Placement: model.Placement{Status: model.Pending}, Pod: of("now")})
	FillForeign(job, &Spec{ObjectMeta: metav1.ObjectMeta{UID: "now"}, Source: model.SourceJob, MinMember: 3, Left: 3}, model.Minima{})
	if job.MinMember != 6 {
		t.Errorf("needs %d, want 3 beside the 3 of before", job.MinMember)
	}
}

// TestIndexesThatAreDone are not needed where their pods are gone; a status that cannot be read says nothing.
func TestIndexesThatAreDone(t *testing.T) {
	for name, c := range map[string]struct {
		completions int
		status      string
		tasks       []model.Status
		minMember   int32
	}{
		"none":                       {4, "{}", []model.Status{model.Pending}, 4},
		"two, whose pods are there":  {4, "{succeeded: 2}", []model.Status{model.Succeeded, model.Succeeded, model.Pending}, 4},
		"two, of which one is there": {4, "{succeeded: 2}", []model.Status{model.Succeeded, model.Pending}, 3},
		"two, whose pods are gone":   {4, "{succeeded: 2}", []model.Status{model.Pending}, 2},
		"the status lags":            {4, "{succeeded: 1}", []model.Status{model.Succeeded, model.Succeeded, model.Pending}, 4},
		"all":                        {4, "{succeeded: 4}", []model.Status{model.Succeeded}, 4},
		"no number":                  {4, "{succeeded: two}", []model.Status{model.Pending}, 4},
		"stated, enough are left":    {8, "{succeeded: 3}", []model.Status{model.Pending}, 4},
		"stated, fewer are left":     {5, "{succeeded: 4}", []model.Status{model.Pending}, 1},
	} {
		var object map[string]any
		text := fmt.Sprintf(`{metadata: {annotations: {scheduling.tutti.dev/min-member: "4"}}, spec: {completionMode: Indexed, parallelism: 4, completions: %d}, status: %s}`,
			c.completions, c.status)
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		watch := WatchOf(model.SourceJob)
		spec := watch.Decode(&unstructured.Unstructured{Object: asRead(object).(map[string]any)})
		job := &model.Job{}
		for _, status := range c.tasks {
			job.Tasks = append(job.Tasks, &model.Task{Placement: model.Placement{Status: status}, Pod: &corev1.Pod{}})
		}
		if FillForeign(job, spec, model.Minima{}); job.MinMember != c.minMember || job.Invalid != nil {
			t.Errorf("%s: needs %d, %v, want %d", name, job.MinMember, job.Invalid, c.minMember)
		}
		if c.completions == 4 {
			if other := *spec; spec.Left != 0 {
				if other.Left--; spec.Same(&other) {
					t.Errorf("%s: fewer that are left is the same", name)
				}
			}
		}
	}
}

// TestStepsThatAreDone are in no minimum: their pods may be gone, and those of the next step must not wait for them.
func TestStepsThatAreDone(t *testing.T) {
	decode := func(succeeded int) *Spec {
		var object map[string]any
		text := `{spec: {replicatedJobs: [{name: a, replicas: 2}, {name: b, replicas: 8, dependsOn: [{name: a, status: Complete}]}]},
			status: {replicatedJobsStatus: [{name: a, succeeded: ` + strconv.Itoa(succeeded) + `}, {name: b}]}}`
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		watch := WatchOf(model.SourceJobSet)
		return watch.Decode(&unstructured.Unstructured{Object: asRead(object).(map[string]any)})
	}
	a, b := model.Role{Name: "a", MinMember: 2}, model.Role{Name: "b", MinMember: 8, MadeLater: true}
	want := &Spec{Source: model.SourceJobSet, MinMember: 10, Roles: []model.Role{a, b}}
	begun, done := decode(1), decode(2)
	if diff := cmp.Diff(want, begun); diff != "" {
		t.Errorf("one of two (-want +got):\n%s", diff)
	}
	if want.Done = []string{"a"}; cmp.Diff(want, done) != "" || done.Same(begun) {
		t.Errorf("all: the same %t, (-want +got):\n%s", done.Same(begun), cmp.Diff(want, done))
	}
	tasks := func(statuses ...model.Status) (tasks []*model.Task) {
		for _, status := range statuses {
			tasks = append(tasks, &model.Task{Role: "a", Placement: model.Placement{Status: status}, Pod: &corev1.Pod{}})
		}
		for range 8 {
			tasks = append(tasks, &model.Task{Role: "b", Placement: model.Placement{Status: model.Pending}, Pod: &corev1.Pod{}})
		}
		return tasks
	}
	for name, c := range map[string]struct {
		tasks     []*model.Task
		minMember int32
	}{
		"both are there":        {tasks(model.Succeeded, model.Succeeded), 10},
		"one is gone":           {tasks(model.Succeeded), 9},
		"both are gone":         {tasks(), 8},
		"only a failed is left": {tasks(model.Failed), 8},
		"it has begun again":    {tasks(model.Pending), 10},
	} {
		for _, spec := range []*Spec{done, (&Spec{MinMember: 10}).WithLate(done)} {
			job := &model.Job{Tasks: c.tasks}
			if FillForeign(job, spec, model.Minima{}); job.MinMember != c.minMember {
				t.Errorf("%s: needs %d, %v, want %d", name, job.MinMember, job.Roles, c.minMember)
			}
		}
	}
}
