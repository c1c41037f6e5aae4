package main

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// deadlines notes how much time a request for a Job or an event has.
type deadlines struct {
	http.RoundTripper
	left map[string]time.Duration
}

func (d deadlines) RoundTrip(request *http.Request) (*http.Response, error) {
	path := request.URL.Path
	if what := path[strings.LastIndex(path, "/")+1:]; what == "jobs" || what == "events" {
		at, _ := request.Context().Deadline()
		d.left[what] = time.Until(at)
	}
	return d.RoundTripper.RoundTrip(request)
}

// TestNotesTakeLimitedTime, also where the requests of the command have no limit.
func TestNotesTakeLimitedTime(t *testing.T) {
	s := newServer(t)
	s.objects["/apis/scheduling.tutti.dev/v1alpha1/namespaces/ml/podgroups"] = `items: [{metadata: {namespace: ml, name: train},
  spec: {minMember: 2}, status: {phase: Pending, conditions: [{type: Scheduled, status: "False", reason: NotEnoughMembers, message: "needs 2"}]}}]`
	s.objects["/api/v1/namespaces/ml/pods"] = `items: []`
	s.objects["/apis/batch/v1/namespaces/ml/jobs"] = `items: [{metadata: {namespace: ml, name: steps, uid: u},
  spec: {template: {metadata: {labels: {scheduling.tutti.dev/pod-group: train}}, spec: {containers: []}}}}]`
	s.objects["/api/v1/namespaces/ml/events"] = `items: []`
	a := newClientFlags()
	*a.KubeConfig, *a.APIServer, *a.Insecure, *a.BearerToken, *a.Timeout = os.DevNull, s.URL, true, "token", "0"
	d := deadlines{left: map[string]time.Duration{}}
	a.WithWrapConfigFn(func(config *rest.Config) *rest.Config {
		config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return deadlines{inner, d.left} })
		return config
	})
	command := newCommand(a)
	command.SetOut(io.Discard)
	command.SetErr(io.Discard)
	command.SetArgs([]string{"why", "-n", "ml", "train"})
	if err := command.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"jobs", "events"} {
		if left, asked := d.left[what]; !asked || left <= 0 || left > askTimeout {
			t.Errorf("%s: asked for: %v, within %v; want at most %v", what, asked, left, askTimeout)
		}
	}
}
