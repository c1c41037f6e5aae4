package debugapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/tutti-sched/tutti/pkg/model"
)

// shownLoop is a loop that is idle, and counts what it is asked for.
type shownLoop struct {
	shown Inspected
	asked int
}

func (l *shownLoop) Inspect(read Inspection) {
	l.asked++
	read(l.shown)
}

// newShownLoop has these jobs, all of which wait in that order.
func newShownLoop(snapshot *model.Snapshot, jobs ...*model.Job) *shownLoop {
	return &shownLoop{shown: Inspected{
		Snapshot: snapshot,
		Waiting:  func() []*model.Job { return jobs },
		Counts:   func() map[*model.Queue]QueueCounts { return nil },
		Jobs: func(string) (shown []Job, keys []model.JobKey) {
			for _, job := range jobs {
				about := metav1.ObjectMeta{Namespace: job.Key.Namespace, Name: job.Key.Name, UID: job.Key.Owner}
				shown, keys = append(shown, Job{ObjectMeta: about, Source: job.Key.Source.Kind()}), append(keys, job.Key)
			}
			return shown, keys
		},
	}}
}

// TestTurnsOfTwoGroupsOfOneName: each has its own, since their controllers differ.
func TestTurnsOfTwoGroupsOfOneName(t *testing.T) {
	var jobs []*model.Job
	for _, owner := range []types.UID{"b", "a", "c"} {
		jobs = append(jobs, &model.Job{Key: model.JobKey{Namespace: "ml", Name: "train", Source: model.SourceImplicit, Owner: owner}})
	}
	source := NewSource(newShownLoop(&model.Snapshot{Now: time.Unix(1000, 0), Dimensions: model.NewDimensions()}, jobs...).Inspect, clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
	list, err := source.Jobs(t.Context(), "ml", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range list.Items {
		want := map[types.UID]string{"b": "1st", "a": "2nd", "c": "3rd"}[job.UID] + " of 3 waiting jobs"
		if job.Turn != want {
			t.Errorf("%s has turn %q, want %q", job.UID, job.Turn, want)
		}
	}
}

// TestTheLoopDoesNothingForEachQueue of which no job waits: a document of jobs costs it fewer allocations than there are queues.
func TestTheLoopDoesNothingForEachQueue(t *testing.T) {
	const queues = 500
	snapshot := &model.Snapshot{Now: time.Unix(1000, 0), Dimensions: model.NewDimensions()}
	var all []*model.Queue
	for i := range queues {
		all = append(all, &model.Queue{Name: fmt.Sprintf("q%04d", i)})
	}
	snapshot.SetQueues(all)
	loop := newShownLoop(snapshot)
	if n := testing.AllocsPerRun(3, func() { readJobs(loop.shown, "") }); n > queues/10 {
		t.Errorf("%.0f allocations for %d queues", n, queues)
	}
}

// TestABadSelectorIsTheClientsError, and costs the loop nothing.
func TestABadSelectorIsTheClientsError(t *testing.T) {
	for selector, want := range map[string]int{"a==": http.StatusOK, "a in (b": http.StatusBadRequest} {
		loop := newShownLoop(&model.Snapshot{Now: time.Unix(1000, 0), Dimensions: model.NewDimensions()})
		source := NewSource(loop.Inspect, clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
		answer := httptest.NewRecorder()
		path := PathJobs + "?" + url.Values{"labelSelector": {selector}}.Encode()
		source.Handlers()[PathJobs].ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if asked := loop.asked > 0; answer.Code != want || asked && want != http.StatusOK {
			t.Errorf("%q: %d %s, the loop was asked: %t", selector, answer.Code, answer.Body, asked)
		}
	}
}

// TestOwnersAreAddedOnce: one whose UID is not known is another of its kind and name.
func TestOwnersAreAddedOnce(t *testing.T) {
	const owners = 40
	job, met := &Job{}, map[types.UID]bool{}
	job.AddOwner(&metav1.OwnerReference{Kind: "Job", Name: "0"}, met)
	for i := range 2 * owners {
		name := fmt.Sprint(i % owners)
		job.AddOwner(&metav1.OwnerReference{Kind: "Job", Name: name, UID: types.UID("u" + name)}, met)
	}
	job.AddOwner(nil, met)
	if len(job.OwnerReferences) != owners || job.OwnerReferences[0].UID != "u0" {
		t.Errorf("%d owners, the first %+v", len(job.OwnerReferences), job.OwnerReferences[0])
	}
}
