package extender

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/bounds"
)

// parrot answers every request with the same text.
type parrot []byte

func (s parrot) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(s))}, nil
}

// FuzzAnswer lets an extender answer anything to both verbs: each node passes or has a reason, in one line, and no score is
// beyond its bound.
func FuzzAnswer(f *testing.F) {
	for _, answer := range []string{
		`{"NodeNames":["n1"],"FailedNodes":{"n2":"no"},"FailedAndUnresolvableNodes":{"n2":"never"}}`,
		`{"Nodes":{"items":[{"metadata":{"name":"n2"}}]}}`, `{"Nodes":{"items":null}}`, `{"NodeNames":["n9"]}`, `{"Error":"\n\u0000"}`,
		`[{"Host":"n1","Score":9223372036854775807},{"Host":"n1","Score":1},{"Host":"","Score":-9223372036854775808}]`,
		`null`, ``, `{`, `[{}]`, `{"FailedNodes":{"n1":"","n2":"\ud800"}}`,
	} {
		f.Add([]byte(answer), true)
		f.Add([]byte(answer), false)
	}
	snapshot := cluster("n1", "n2")
	snapshot.AssignIndexes()
	f.Fuzz(func(t *testing.T, text []byte, cached bool) {
		bounds.Hold(t, func() {
			r, err := newRemote(Options{
				URLPrefix: "http://e", FilterVerb: "filter", PrioritizeVerb: "prioritize", Weight: 1, NodeCacheCapable: cached, MaxResponseBytes: 1 << 12,
			})
			if err != nil {
				t.Fatal(err)
			}
			r.client.Transport = parrot(text)
			for _, verb := range []string{"filter", "prioritize"} {
				c := cycle{time.Unix(1, 0), framework.NewBudget[requestKey](cycleBudget, time.Now)}
				a := &extenderResult{remotes: []*extenderClient{r}}
				if verb == "filter" {
					a.filter(c, &corev1.Pod{}, snapshot.Nodes)
					check(t, a, snapshot.Nodes)
				}
				a.score(c, &corev1.Pod{}, snapshot.Nodes)
				for _, score := range a.scores {
					for _, node := range snapshot.Nodes {
						if raw := score.Score(node); raw > normalizeScore*maxExtenderScore || raw < -normalizeScore*maxExtenderScore {
							t.Fatalf("%s has %d", node.Name, raw)
						}
					}
				}
			}
		})
	})
}

func check(t *testing.T, a *extenderResult, nodes []*model.Node) {
	t.Helper()
	readable := func(refusal *model.Refusal) {
		if text := refusal.String(); text == "" || !utf8.ValidString(text) || bytes.ContainsAny([]byte(text), "\n\x00") || len(text) > 2*longestReason {
			t.Fatalf("an unreadable reason: %q", text)
		}
	}
	if a.refused != nil {
		readable(a.refused)
		return
	}
	if len(a.passed)+len(a.rejected) != len(nodes) {
		t.Fatalf("%d nodes pass, %d do not, of %d", len(a.passed), len(a.rejected), len(nodes))
	}
	for _, refusal := range a.rejected {
		readable(refusal)
	}
}
