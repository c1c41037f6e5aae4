package extender

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// partly is an extender in this process, in a bubble of synctest, so that a call takes just the time that it waits. It answers
// calls with the text, and those about pods in whose body the word is never. Without a word it answers none.
func partly(t *testing.T, word string, options func(s *server) Options) (*server, *engine.Profile) {
	t.Helper()
	s := &server{Server: &httptest.Server{URL: "http://extender"}}
	p := profile(t, []Options{options(s)})
	p.Tiers[0][0].Factory().(*plugin).remotes[0].client.Transport = wire(func(r *http.Request) (*http.Response, error) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("request body: %v", err)
		}
		s.calls = append(s.calls, strings.TrimPrefix(r.URL.Path, "/ext/")+" "+string(text))
		if strings.Contains(string(text), word) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"NodeNames":["a"]}`))}, nil
	})
	return s, p
}

// wire carries out requests.
type wire func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (w wire) RoundTrip(request *http.Request) (*http.Response, error) { return w(request) }

func TestAnExtenderThatDoesNotAnswerHoldsUpOneCallAndNotEach(t *testing.T) {
	synctest.Test(t, holdsUpOneCall)
}

func holdsUpOneCall(t *testing.T) {
	var options Options
	s, p := partly(t, "", func(s *server) Options {
		options = all(s)
		options.Timeout = 200 * time.Millisecond
		return options
	})
	want := "; 2 nodes: extender " + s.prefix() + ": filter: no answer within 200ms evictable=false expires=true"
	at := func(now time.Time) {
		t.Helper()
		snapshot := cluster("a", "b")
		snapshot.Now = now
		session := engine.Open(snapshot, p, engine.Options{})
		defer session.Close()
		for _, task := range []*model.Task{task("p"), task("q", "example.com/share", "1")} {
			if got := chosen(session, task); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
	}
	at(start)
	at(start.Add(backoffPeriod))
	if n := len(s.taken()); n != 1 {
		t.Errorf("%d calls by two kinds of pods in two sessions, want 1", n)
	}
	at(start.Add(backoffPeriod + options.Timeout))
	if n := len(s.taken()); n != 1 {
		t.Errorf("%d calls after the rest, want 1", n)
	}
}

// TestAPodThatIsNeverAnsweredAboutDoesNotKeepOthersWaiting: the session calls for its kind first each time.
func TestAPodThatIsNeverAnsweredAboutDoesNotKeepOthersWaiting(t *testing.T) {
	synctest.Test(t, othersAreServed)
}

func othersAreServed(t *testing.T) {
	span := backoffPeriod + 200*time.Millisecond
	_, p := partly(t, "example.com/bad", func(s *server) Options {
		return Options{URLPrefix: s.prefix(), FilterVerb: "filter", NodeCacheCapable: true, Timeout: span - backoffPeriod}
	})
	served := 0
	for i := range 6 {
		snapshot := cluster("a")
		snapshot.Now = start.Add(time.Duration(i) * span)
		session := engine.Open(snapshot, p, engine.Options{})
		for _, name := range []string{"bad", "bad2"} {
			if got := chosen(session, task("p", "example.com/"+name, "1")); got == "a" {
				t.Errorf("a pod without an answer was let pass")
			}
		}
		if chosen(session, task("q")) == "a" {
			served++
		}
		session.Close()
	}
	if served < 2 {
		t.Errorf("the other pod was answered about in %d of 6 sessions, want 2 at least", served)
	}
}

func TestAnIgnorableExtenderThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := partly(t, "", func(s *server) Options {
			options := all(s)
			options.Timeout, options.Ignorable = 20*time.Millisecond, true
			return options
		})
		if got := choose(p, cluster("a", "b"), task("p")); got != "a" {
			t.Errorf("got %s", got)
		}
		if n := len(s.taken()); n != 1 {
			t.Errorf("%d calls, want one for both verbs", n)
		}
	})
}

func TestAnAnswerThatStopsInTheMiddle(t *testing.T) {
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"NodeNames":[`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	options := all(s)
	options.Timeout = 20 * time.Millisecond
	got := choose(profile(t, []Options{options}), cluster("a"), task("p"))
	if !strings.Contains(got, "filter: no answer within 20ms") {
		t.Errorf("got %s", got)
	}
}

func TestAnAnswerMayBeJustSoLong(t *testing.T) {
	answer := `{"NodeNames":["a"]}`
	for limit, want := range map[int]string{
		len(answer):     "a",
		len(answer) - 1: "filter: its answer is longer than 18 bytes (maxResponseBytes)",
	} {
		s := says(t, map[string]string{"filter": answer, "prioritize": "[]"})
		options := all(s)
		options.MaxResponseBytes = int64(limit)
		if got := choose(profile(t, []Options{options}), cluster("a"), task("p")); !strings.Contains(got, want) {
			t.Errorf("limit %d: got %s, want %s", limit, got, want)
		}
	}
}

func TestRedirectsStayOnTheHost(t *testing.T) {
	other := says(t, map[string]string{"filter": allPass})
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/ext/there":
			fmt.Fprint(w, `{"NodeNames":["b"]}`)
		case r.URL.Path == "/ext/away":
			http.Redirect(w, r, other.prefix()+"/filter", http.StatusTemporaryRedirect)
		case r.URL.Path == "/ext/round":
			http.Redirect(w, r, "/ext/round", http.StatusTemporaryRedirect)
		default:
			http.Redirect(w, r, "/ext/there", http.StatusTemporaryRedirect)
		}
	}))
	t.Cleanup(s.Close)
	for verb, want := range map[string]string{
		"here":  "b",
		"away":  "away: it redirects to another host, which is not followed",
		"round": "round: it redirects again and again",
	} {
		options := Options{URLPrefix: s.prefix(), FilterVerb: verb, NodeCacheCapable: true}
		if got := choose(profile(t, []Options{options}), cluster("a", "b"), task("p")); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", verb, got, want)
		}
	}
	if calls := other.taken(); len(calls) > 0 {
		t.Errorf("the other host was sent %v", calls)
	}
}

// TestWordsOfErrorsStayTheSame: conditions show them, and are written when they change.
func TestWordsOfErrorsStayTheSame(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := listener.Addr().String()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_ = connection.(*net.TCPConn).SetLinger(0) // a reset, whose error contains both ports
			_ = connection.Close()
		}
	}()
	options := Options{URLPrefix: "http://" + host, FilterVerb: "filter", NodeCacheCapable: true}
	p := profile(t, []Options{options})
	for range 3 {
		got := choose(p, cluster("a"), task("p"))
		if strings.Count(got, ":")-strings.Count(got, host) > 6 || strings.Contains(got, "->") {
			t.Errorf("got %s", got)
		}
	}
	_ = listener.Close()
	<-done
	want := "; 1 node: extender http://" + host + ": filter: dial: connect: connection refused evictable=false expires=true"
	if got := choose(p, cluster("a"), task("p")); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"NodeNames":["a"]}`)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // bad certificates are intended here
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		tls  TLS
		want string
	}{
		{"the system's authorities", TLS{}, "tls: failed to verify certificate"},
		{"its authority", TLS{CAFile: ca}, "a"},
		{"another name", TLS{CAFile: ca, ServerName: "other.example.net"}, "other.example.net"},
		{"a name of the certificate's", TLS{CAFile: ca, ServerName: "example.com"}, "a"},
		{"insecure", TLS{Insecure: true}, "a"},
	} {
		options := Options{URLPrefix: s.URL, FilterVerb: "filter", NodeCacheCapable: true, TLS: c.tls}
		got := choose(profile(t, []Options{options}), cluster("a"), task("p"))
		if c.want == "a" && got != "a" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
	for file, options := range map[string]TLS{
		"nowhere.crt":          {CAFile: filepath.Join(t.TempDir(), "nowhere.crt")},
		"certFile and keyFile": {CertFile: ca, KeyFile: ca},
		"holds no certificate": {CAFile: os.DevNull},
	} {
		if _, err := New([]Options{{URLPrefix: "https://x", FilterVerb: "f", TLS: options}}); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%+v: error %v", options, err)
		}
	}
}
