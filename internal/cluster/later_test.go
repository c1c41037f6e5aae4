package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// The objects of operators whose members are made later, each with what its pods request that are.
const (
	mpiJobThatWaits = `
spec:
  launcherCreationPolicy: WaitForWorkersReady
  mpiReplicaSpecs:
    Worker: {replicas: 1}
    Launcher: {template: {spec: {containers: [{resources: {limits: {cpu: "1"}}}]}}}`
	jobSetInSteps = `
spec:
  replicatedJobs:
  - {name: lead, replicas: 1}
  - name: work
    replicas: 2
    dependsOn: [{name: lead, status: Ready}]
    template: {spec: {template: {spec: {
      initContainers: [{restartPolicy: Always, resources: {requests: {cpu: 500m}}}],
      containers: [{resources: {requests: {cpu: 500m}}}]}}}}`
	leaderWorkerSetReady = `
spec:
  startupPolicy: LeaderReady
  leaderWorkerTemplate:
    size: 3
    workerTemplate: {spec: {containers: [{resources: {requests: {cpu: "1"}}}]}}`
)

// objectFrom is an object as its operator writes it, and what is kept of it.
func objectFrom(t *testing.T, source model.Source, text string, generation int64) *sources.Spec {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	object.SetNamespace("ns")
	object.SetName("j")
	object.SetUID("uid")
	object.SetGeneration(generation)
	object.SetResourceVersion(string(rune('0' + generation)))
	object.SetCreationTimestamp(metav1.NewTime(start))
	watch := sources.WatchOf(source)
	return watch.Decode(object)
}

// TestTheTurnOfMembersThatAreMadeLater, of each operator that makes some later, and how a user could claim it.
func TestTheTurnOfMembersThatAreMadeLater(t *testing.T) {
	labels := func(pairs ...string) podOption {
		return func(p *corev1.Pod) {
			for i := 0; i < len(pairs); i += 2 {
				label(pairs[i], pairs[i+1])(p)
			}
		}
	}
	inJobSet := func(role string) podOption {
		return labels("jobset.sigs.k8s.io/jobset-name", "j", "jobset.sigs.k8s.io/replicatedjob-name", role)
	}
	inSet := func(index string) podOption {
		return func(p *corev1.Pod) {
			labels(sources.LWSGroupKey, "k", sources.LWSName, "j", sources.LWSGroupIndex, "0", sources.LWSWorkerIndex, index)(p)
			annotation(sources.LWSSize, "3")(p)
		}
	}
	for name, c := range map[string]struct {
		source      model.Source
		object      string
		key         model.JobKey
		first, late podOption
		members     int
	}{
		"an MPIJob that waits for its workers": {
			model.SourceMPIJob, mpiJobThatWaits, model.JobKey{Source: model.SourceMPIJob}, inMPIJob("j", "worker"), inMPIJob("j", "launcher"), 1,
		},
		"a JobSet": {model.SourceJobSet, jobSetInSteps, model.JobKey{Source: model.SourceJobSet}, inJobSet("lead"), inJobSet("work"), 2},
		"a LeaderWorkerSet": {
			model.SourceLeaderWorkerSetObject, leaderWorkerSetReady, model.JobKey{Source: model.SourceLeaderWorkerSet}, inSet("0"), inSet("1"), 2,
		},
	} {
		type claim struct {
			// seen reports that the process has seen the gang before it started; changed that its object was changed since, and changedBefore
			// that it was before.
			seen, changed, changedBefore bool
			more                         int
			late                         []podOption
			continues                    bool
		}
		for what, abuse := range map[string]claim{
			"as its object says":                    {seen: true, continues: true},
			"seen by another process":               {continues: true},
			"changed before the start":              {seen: true, changedBefore: true, continues: true},
			"of which it is not known when changed": {changedBefore: true},
			"changed after the start":               {seen: true, changed: true, late: []podOption{asking("cpu", "2")}},
			"changed, as another process reads":     {changed: true, late: []podOption{asking("cpu", "2")}},
			"changed, and asks for what it said":    {seen: true, changed: true, continues: true},
			"asks for more":                         {seen: true, late: []podOption{asking("cpu", "1001m")}},
			"asks for another resource":             {seen: true, late: []podOption{asking("cpu", "1", "x/gpu", "1")}},
			"more members":                          {seen: true, more: 1},
			"made by hand":                          {seen: true, late: []podOption{func(p *corev1.Pod) { p.OwnerReferences = nil }}},
		} {
			t.Run(name+": "+what, func(t *testing.T) {
				s := newState(node("n"))
				s.Apply(&ReadingChanged{Source: c.source, Reading: IsRead})
				generation := int64(1)
				if abuse.changedBefore {
					generation++
				}
				s.Apply(seen(objectFrom(t, c.source, c.object, generation)))
				first := []podOption{c.first, controlled("Job", "by", "by"), asking("cpu", "1"), created(start.Add(time.Second))}
				if abuse.seen {
					s.Apply(seen(pod("first", first...)))
					snap(t, s, start)
				}
				s.Apply(seen(pod("first", append(first, on("n"), phase(corev1.PodRunning), revised(2))...)))
				if abuse.changed {
					if abuse.seen {
						snap(t, s, start)
					}
					changed := objectFrom(t, c.source, c.object, generation+1)
					for i := range changed.Later {
						changed.Later[i].Requests = amountsIn(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")})
					}
					s.Apply(seen(changed))
				}
				for i := range c.members + abuse.more {
					options := append([]podOption{c.late, controlled("Job", "by", "by"), asking("cpu", "1"), created(start.Add(time.Minute))}, abuse.late...)
					s.Apply(seen(pod("late-"+string(rune('0'+i)), options...)))
				}
				for _, job := range snap(t, s, start.Add(time.Hour)).Jobs {
					if job.Key.Source != c.key.Source {
						t.Fatalf("there is a job %v", job.Key)
					}
					if job.Continues != abuse.continues || job.BegunSince.IsZero() == abuse.continues {
						t.Errorf("it continues: %v, since %v", job.Continues, job.BegunSince)
					}
					if abuse.continues && !job.BegunSince.Equal(start.Add(time.Second)) {
						t.Errorf("it is as old as %v", job.BegunSince)
					}
				}
			})
		}
	}
}
