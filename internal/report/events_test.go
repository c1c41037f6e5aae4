package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestEventsAreAboutObjectsOfKnownKinds: users write the controllers of their pods as they like.
func TestEventsAreAboutObjectsOfKnownKinds(t *testing.T) {
	yes := true
	for _, c := range []struct{ version, kind, want string }{
		{"batch/v1", "Job", "batch/v1 Job c"},
		{"apps/v1", "ReplicaSet", "apps/v1 ReplicaSet c"},
		{"apps/v1", "StatefulSet", "apps/v1 StatefulSet c"},
		{"v1", "Namespace", "v1 Pod p"},
		{"batch/v1", "Secret", "v1 Pod p"},
		{"kubeflow.org/v1", "PyTorchJob", "v1 Pod p"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: c.version, Kind: c.kind, Name: "c", UID: "c", Controller: &yes},
		}}}
		job := &model.Job{Key: model.JobKey{Name: "g", Source: model.SourceImplicit}, Tasks: []*model.Task{{Pod: pod}}}
		got := referenceTo(job)
		if text := got.APIVersion + " " + got.Kind + " " + got.Name; text != c.want || got.Name != string(got.UID) {
			t.Errorf("%s %s: event about %s, want %s", c.version, c.kind, text, c.want)
		}
	}
}

// TestNotesNameNothingOfOtherNamespaces: neither the victims nor the job that they were evicted for.
func TestNotesNameNothingOfOtherNamespaces(t *testing.T) {
	job := &model.Job{Key: model.JobKey{Namespace: "ns", Name: "j"}, UID: "u", Priority: 7}
	loser := &model.Job{Key: model.JobKey{Namespace: "other", Name: "l"}, UID: "l", HasGroup: true}
	victims := []model.Eviction{
		{Pod: model.PodRef{Namespace: "other", Name: "l-1"}, Job: loser.Key, Node: "n"}, {Pod: model.PodRef{Namespace: "ns", Name: "a"}, Node: "n"},
	}
	outcome := commit.Outcome{Job: job.Key, Victims: victims, Members: 2, Pod: victims[0].Pod, Node: "n"}
	jobs := map[model.JobKey]*model.Job{job.Key: job, loser.Key: loser}
	writes := Preemption(&outcome, func(key model.JobKey) *model.Job { return jobs[key] }, time.Time{})
	for i, want := range []string{
		"Evicted 2 pods on 1 node to free capacity for 2 members: ns/a and 1 pod of another namespace",
		"Evicted 1 member to free capacity for a job of another namespace, whose priority is 7",
		"Evicted from node n to free capacity for a job of another namespace, whose priority is 7",
	} {
		if event := append(writes, Preempted(&outcome, job, time.Time{}))[i].(*commit.Event); event.Note != want || event.Related != nil {
			t.Errorf("event %q, related to %v, want %q", event.Note, event.Related, want)
		}
	}
}

// TestEventsOfAForeignGroup are about its object.
func TestEventsOfAForeignGroup(t *testing.T) {
	for source, want := range map[model.Source]string{
		model.SourceCoscheduling: "scheduling.x-k8s.io/v1alpha1 PodGroup g", model.SourceNative: "scheduling.k8s.io/v1beta1 PodGroup g",
	} {
		job := &model.Job{Key: model.JobKey{Namespace: "ns", Name: "g", Source: source}, UID: "u"}
		if got := referenceTo(job); got.APIVersion+" "+got.Kind+" "+got.Name != want || got.UID != "u" {
			t.Errorf("%+v", got)
		}
	}
}

// TestARemarkIsToldOnThePods where no status has a place for it.
func TestARemarkIsToldOnThePods(t *testing.T) {
	d := newDesk()
	key := d.gang("a", "g", 2, model.InsufficientResources)
	job := d.jobs[0]
	job.HasGroup, job.Key.Source, job.Warning = false, model.SourceCoscheduling, "noted"
	d.refusals[job.Key] = d.refusals[key]
	d.after(time.Minute)
	if first := model.PodScheduled(job.Tasks[0].Pod); first == nil || !strings.HasSuffix(first.Message, "; noted") {
		t.Errorf("the oldest says %+v", first)
	}
	if second := model.PodScheduled(job.Tasks[1].Pod); second == nil || strings.Contains(second.Message, "noted") {
		t.Errorf("another one says %+v", second)
	}
}

func TestNotesNameAFew(t *testing.T) {
	job := &model.Job{Key: model.JobKey{Namespace: "ns", Name: "p", Source: model.SourcePod}, UID: "u"}
	var pods []model.Eviction
	for i, name := range []string{"d", "a", "c", "b"} {
		pods = append(pods, model.Eviction{Pod: model.PodRef{Namespace: "ns", Name: name}, Node: fmt.Sprint(i % 2)})
	}
	for want, outcome := range map[string]commit.Outcome{
		"Evicted 1 pod on 1 node to free capacity for 1 member: ns/d": {Victims: pods[:1], Members: 1},
		"Evicted 4 pods on 2 nodes to free capacity for 3 members: ns/a, ns/b, ns/c and 1 more; 2 pods stayed": {
			Victims: pods, Members: 3, Failed: 2,
		},
	} {
		event := preempting(&outcome, job, time.Time{}).(*commit.Event)
		if event.Note != want || event.Regarding.Kind != "Pod" || event.Regarding.UID != "u" || event.Regarding.APIVersion != "v1" {
			t.Errorf("event %+v, want %q", event, want)
		}
	}
}
