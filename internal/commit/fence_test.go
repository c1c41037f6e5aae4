package commit

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
)

// TestFencedConnections: a request made while nothing may be written never reaches the server, also on an open connection;
// once writing is allowed again, a request does, on another one.
func TestFencedConnections(t *testing.T) {
	var requests, asked, may atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.ProtoMajor != 2 {
			t.Errorf("protocol %s, want HTTP/2, on which requests share a connection", r.Proto)
		}
		w.WriteHeader(http.StatusCreated)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	config := ClientConfig(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	client, err := NewClient(Fenced(config, func() bool {
		asked.Add(1)
		return may.Load() == 1
	}), Reporter{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	call := Call{Kind: CallBind, Node: "n1"}
	call.Pod.Namespace, call.Pod.Name, call.Pod.UID = "default", "p", "u"
	for i, step := range []struct {
		may  int32
		seen int32
	}{{0, 0}, {1, 1}, {1, 2}, {0, 2}, {0, 2}, {1, 3}} {
		may.Store(step.may)
		err := client.Do(t.Context(), call)
		if (err == nil) != (step.may == 1) || requests.Load() != step.seen {
			t.Errorf("step %d: %v, and the server has seen %d requests, want %d", i, err, requests.Load(), step.seen)
		}
		if errors.Is(err, ErrNotLeading) {
			t.Errorf("step %d: a request that may have been sent is taken for one that was not: %v", i, err)
		}
	}
	if asked.Load() == 0 {
		t.Error("no call was made")
	}
}
