package commit

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// This file is the part of the fault matrix between the machine and the API server: the client and the driver. How the
// machine handles their errors is in faults_test.go.

// wireCalls are calls of all kinds that the client sends to the API server.
func wireCalls() map[Kind]Call {
	calls := map[Kind]Call{
		CallGroupStatus:   {Kind: CallGroupStatus, Write: group("a", 1)},
		CallForeignStatus: {Kind: CallForeignStatus, Write: foreign("a", "Inqueue")},
		CallQueueStatus:   {Kind: CallQueueStatus, Write: queueStatus("a", 1)},
		CallPodCondition:  {Kind: CallPodCondition, Write: condition("a", "x"), Pod: pod("a")},
		CallSetCondition:  {Kind: CallSetCondition, Write: condition("a", "x"), Pod: pod("a")},
		CallEvent:         {Kind: CallEvent, Write: event("a", "R", "x")},
	}
	for _, kind := range []Kind{CallGetPod, CallDeleteStarted, CallBind, CallNominate, CallEvict, CallDelete} {
		calls[kind] = Call{Kind: kind, Pod: pod("a"), Node: "n"}
	}
	return calls
}

// TestEveryFaultOnTheWire: each answer has the same class for each kind of call, whether it is made in memory, as in the rest
// of the matrix, or comes by HTTP; and each call is one request.
func TestEveryFaultOnTheWire(t *testing.T) {
	for kind, call := range wireCalls() {
		for _, f := range faults {
			var said apierrors.APIStatus
			if !errors.As(f.err, &said) && !errors.Is(f.err, errLost) {
				continue // it is not a server's answer
			}
			t.Run(kind.String()+"/"+f.name, func(t *testing.T) {
				s, client := serve(t, func() *metav1.Status {
					if said == nil {
						panic(http.ErrAbortHandler)
					}
					status := said.Status()
					return &status
				})
				err := client.Do(t.Context(), call)
				if got, want := classify(kind, err), classify(kind, f.err); got != want {
					t.Errorf("%v is read as %+v, in memory as %+v", err, got, want)
				}
				if err == nil || !strings.HasPrefix(err.Error(), kind.String()+": ") {
					t.Errorf("error %v does not say what was asked for", err)
				}
				s.only(t)
			})
		}
		t.Run(kind.String()+"/no listener", func(t *testing.T) {
			s, client := serve(t, success)
			s.Close()
			if err := client.Do(t.Context(), call); classify(kind, err).class != rejected {
				t.Errorf("%v is not read as one that was never sent", err)
			}
		})
		t.Run(kind.String()+"/no time", func(t *testing.T) {
			_, client := serve(t, success)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := client.Do(ctx, call); err == nil || classify(kind, err).class != unknown {
				t.Errorf("%v is read as %+v", err, classify(kind, err))
			}
		})
	}
}

// backend is an API and a Preparer that answers, panics, or blocks until the timeout.
type backend struct {
	err   error
	panic bool
	stuck bool
}

func (b backend) answer(ctx context.Context) error {
	if b.panic {
		panic("dropped")
	}
	if b.stuck {
		<-ctx.Done()
		return ctx.Err()
	}
	return b.err
}

func (b backend) Do(ctx context.Context, _ Call) error                 { return b.answer(ctx) }
func (b backend) Prepare(ctx context.Context, _ types.UID) error       { return b.answer(ctx) }
func (b backend) Release(ctx context.Context, _ types.UID) (err error) { return b.answer(ctx) }

// TestEveryFaultOfTheDriver: for every kind of call and every fault exactly one reply comes back, with what the machine
// needs.
func TestEveryFaultOfTheDriver(t *testing.T) {
	no := errors.New("no")
	for name, c := range map[string]struct {
		backend  backend
		mayWrite bool
		want     func(error) bool
	}{
		"yes":         {backend{}, true, func(err error) bool { return err == nil }},
		"no":          {backend{err: no}, true, func(err error) bool { return errors.Is(err, no) }},
		"panic":       {backend{panic: true}, true, func(err error) bool { return err != nil && err.Error() == "panic: dropped" }},
		"no answer":   {backend{stuck: true}, true, func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }},
		"not leading": {backend{err: no}, false, func(err error) bool { return errors.Is(err, ErrNotLeading) }},
	} {
		for kind := CallPrepare; kind < kinds; kind++ {
			if kind == CallRelease && (c.backend.stuck || !c.mayWrite) {
				continue // it has a minute, and is carried out in any case
			}
			options := DriverOptions{
				Workers: 1, Timeout: time.Millisecond, PrepareTimeout: time.Millisecond, Preparer: c.backend,
				MayWrite: func() bool { return c.mayWrite },
			}
			if got := replyTo(t, c.backend, options, kind); !c.want(got) {
				t.Errorf("%s of %s: reply %v", name, kind, got)
			}
		}
	}
	for _, kind := range []Kind{CallPrepare, CallRelease} {
		if got := replyTo(t, backend{}, DriverOptions{Workers: 1}, kind); got == nil {
			t.Errorf("%s without a preparer: no error", kind)
		}
	}
}

// replyTo returns the only reply to a call.
func replyTo(t *testing.T, api API, options DriverOptions, kind Kind) error {
	t.Helper()
	replies := make(chan Reply, 2)
	driver := NewDriver(api, options, func(reply Reply) { replies <- reply })
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { driver.Run(ctx) })
	driver.Send(Call{ID: 7, Kind: kind, Pod: pod("a")})
	reply := <-replies
	cancel()
	running.Wait()
	if len(replies) > 0 || reply.ID != 7 {
		t.Errorf("%s: reply %+v, and %d more", kind, reply, len(replies))
	}
	return reply.Err
}

// TestEveryFaultOfABeginning: errors before the first request.
func TestEveryFaultOfABeginning(t *testing.T) {
	for name, config := range map[string]*rest.Config{
		"certificates": {Host: "https://x", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("none")}},
		"address":      {Host: "://"},
	} {
		if _, err := NewClient(config, Reporter{}); err == nil || !strings.HasPrefix(err.Error(), "commit client: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, client := serve(t, success)
	if _, err := withJSON(client.core.Post(), make(chan int)); err == nil {
		t.Error("a body that is no JSON: no error")
	}
	no := errors.New("no route")
	fenced := Fenced(&rest.Config{Dial: func(context.Context, string, string) (net.Conn, error) { return nil, no }}, func() bool { return true })
	if _, err := fenced.Dial(t.Context(), "tcp", "x"); !errors.Is(err, no) {
		t.Errorf("a connection that cannot be made: %v", err)
	}
	if name := Kind(kinds).String() + OutcomeKind(-1).String(); name != "UnknownUnknown" {
		t.Errorf("what has no name is called %s", name)
	}
}
