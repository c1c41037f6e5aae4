package app

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tutti-sched/tutti/internal/commit"
)

// slow answers after a while. It does not answer a request whose caller no longer waits.
type slow struct{ takes time.Duration }

func (s slow) RoundTrip(request *http.Request) (*http.Response, error) {
	select {
	case <-time.NewTimer(s.takes).C:
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}")), Request: request}, nil
	case <-request.Context().Done():
		return nil, request.Context().Err()
	}
}

func preparingClient(t *testing.T, takes time.Duration) *http.Client {
	t.Helper()
	client, err := rest.HTTPClientFor(prepareConfig(&rest.Config{Host: "http://server", Transport: slow{takes}}, func() bool { return true }))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestWaitingForAPlaceIsNoTimeOut: many more requests than may be under way at the same time, to a server that takes its time,
// all get their answer.
func TestWaitingForAPlaceIsNoTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := preparingClient(t, prepareTimeout-time.Second)
		var asking sync.WaitGroup
		for range 4 * preparers {
			asking.Go(func() {
				response, err := client.Get("http://server/")
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := io.ReadAll(response.Body); err != nil {
					t.Error(err)
				}
				response.Body.Close()
			})
		}
		asking.Wait()
	})
}

// TestWithoutAnAnswerAPlaceIsGivenUp: a request that is never answered does not keep the
// others waiting indefinitely.
func TestWithoutAnAnswerAPlaceIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, began := preparingClient(t, 24*time.Hour), time.Now()
		var asking sync.WaitGroup
		for range 2 * preparers {
			asking.Go(func() {
				if _, err := client.Get("http://server/"); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v, want that the time is over", err)
				}
			})
		}
		asking.Wait()
		if took := time.Since(began); took != 2*prepareTimeout {
			t.Errorf("took %s, want two times %s", took, prepareTimeout)
		}
	})
}

// TestNothingIsPreparedWithoutTheLease: a volume or a claim is read, and not written.
func TestNothingIsPreparedWithoutTheLease(t *testing.T) {
	client, err := rest.HTTPClientFor(prepareConfig(&rest.Config{Host: "http://server", Transport: slow{}}, func() bool { return false }))
	if err != nil {
		t.Fatal(err)
	}
	if response, err := client.Get("http://server/"); err != nil {
		t.Error(err)
	} else {
		response.Body.Close()
	}
	if _, err := client.Post("http://server/", "", nil); !errors.Is(err, commit.ErrNotLeading) {
		t.Errorf("error %v, want that nothing was sent", err)
	}
}

// TestNothingIsSentOnceTheLeaseIsOver, not by a request that was allowed and has come to its connection only then.
func TestNothingIsSentOnceTheLeaseIsOver(t *testing.T) {
	var got atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) }))
	defer server.Close()
	var asked atomic.Int32
	client, err := rest.HTTPClientFor(prepareConfig(&rest.Config{Host: server.URL}, func() bool { return asked.Add(1) == 1 }))
	if err != nil {
		t.Fatal(err)
	}
	if response, err := client.Post(server.URL, "application/json", strings.NewReader("{}")); err == nil {
		response.Body.Close()
		t.Error("sent although the Lease was over")
	}
	if asked.Load() < 2 || got.Load() != 0 {
		t.Errorf("asked %d times, %d requests have come", asked.Load(), got.Load())
	}
}
