package report

import (
	"fmt"
	"testing"
	"time"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

func TestNotesNameAFew(t *testing.T) {
	job := &model.Job{Key: model.JobKey{Namespace: "ns", Name: "p", IsPod: true}, UID: "u"}
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
		event := preempting(&outcome, job, time.Time{}).Event
		if event.Note != want || event.Regarding.Kind != "Pod" || event.Regarding.UID != "u" || event.Regarding.APIVersion != "v1" {
			t.Errorf("event %+v, want %q", event, want)
		}
	}
}
