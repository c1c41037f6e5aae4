package commit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// binder is a model.PodBinder with preset answers that records its calls.
type binder struct {
	refusal   *model.Refusal
	err       error
	ignorable bool
	asked     []string
}

func (b *binder) BinderName() string { return "http://x" }
func (b *binder) Ignorable() bool    { return b.ignorable }

func (b *binder) BindPod(ctx context.Context, pod model.PodRef, node string) (*model.Refusal, error) {
	b.asked = append(b.asked, fmt.Sprint(pod, " ", pod.UID, " ", node))
	if _, bounded := ctx.Deadline(); !bounded {
		b.asked = append(b.asked, "without end")
	}
	return b.refusal, b.err
}

func TestBindByAnotherClient(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	for _, c := range []struct {
		name   string
		binder *binder
		want   class
		// requests is how many the API server gets.
		requests int
	}{
		{"bound", &binder{}, done, 0},
		{"refused", &binder{refusal: &model.Refusal{Code: model.BindFailed, Detail: "no capacity"}}, refused, 0},
		{"no answer", &binder{err: context.DeadlineExceeded}, unknown, 0},
		{"an answer that means nothing", &binder{err: errors.New("it answers 500")}, unknown, 0},
		{"never heard of it", &binder{err: fmt.Errorf("bind: %w", dial)}, rejected, 0},
		{"ignorable, bound", &binder{ignorable: true}, done, 0},
		{"ignorable, refused", &binder{ignorable: true, refusal: &model.Refusal{}}, done, 1},
		{"ignorable, no answer", &binder{ignorable: true, err: context.DeadlineExceeded}, done, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, client := serve(t, success)
			client.UseBinders([]model.PodBinder{c.binder})
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			err := client.Do(ctx, Call{Kind: CallBind, Pod: pod("a"), Node: "n", Binder: "http://x"})
			if got := classify(CallBind, err).class; got != c.want {
				t.Errorf("class %d of %v, want %d", got, err, c.want)
			}
			if want := []string{"ns/a uid-a n"}; len(c.binder.asked) != 1 || c.binder.asked[0] != want[0] {
				t.Errorf("asked %v, want %v", c.binder.asked, want)
			}
			if len(s.requests) != c.requests {
				t.Errorf("the API server was sent %v, want %d requests", s.requests, c.requests)
			}
		})
	}
}

func TestABinderThatIsNotThereBindsNothing(t *testing.T) {
	s, client := serve(t, success)
	other := &binder{}
	for range 2 {
		err := client.Do(t.Context(), Call{Kind: CallBind, Pod: pod("a"), Node: "n", Binder: "http://y"})
		if classify(CallBind, err).class != refused {
			t.Errorf("error %v, want one that ends the bind", err)
		}
		client.UseBinders([]model.PodBinder{other})
	}
	if len(s.requests)+len(other.asked) > 0 {
		t.Errorf("the API server was sent %v, another binder %v", s.requests, other.asked)
	}
	if err := client.Do(t.Context(), Call{Kind: CallBind, Pod: pod("a"), Node: "n"}); err != nil || len(other.asked) > 0 {
		t.Errorf("a bind without a binder: %v, %v", err, other.asked)
	}
}

// TestARefusalAfterABinderThatGaveNoAnswer: the API server refuses to bind a pod that is bound already, which the binder may
// have done.
func TestARefusalAfterABinderThatGaveNoAnswer(t *testing.T) {
	lost, dial := context.DeadlineExceeded, &net.OpError{Op: "dial", Err: errors.New("refused")}
	for name, c := range map[string]struct {
		binder *binder
		server *apierrors.StatusError
		want   class
	}{
		"lost, bound already":    {&binder{err: lost}, errTaken, unknown},
		"lost, denied":           {&binder{err: lost}, errDenied, unknown},
		"lost, busy":             {&binder{err: lost}, errBusy, unknown},
		"lost, gone":             {&binder{err: lost}, errGone, gone},
		"lost, another one":      {&binder{err: lost}, errUID, gone},
		"refused, bound already": {&binder{refusal: &model.Refusal{}}, errTaken, refused},
		"unheard, bound already": {&binder{err: dial}, errTaken, refused},
		"unheard, busy":          {&binder{err: dial}, errBusy, rejected},
	} {
		t.Run(name, func(t *testing.T) {
			c.binder.ignorable = true
			_, client := serve(t, func() *metav1.Status { status := c.server.Status(); return &status })
			client.UseBinders([]model.PodBinder{c.binder})
			err := client.Do(t.Context(), Call{Kind: CallBind, Pod: pod("a"), Node: "n", Binder: "http://x"})
			if got := classify(CallBind, err).class; got != c.want {
				t.Errorf("class %d of %v, want %d", got, err, c.want)
			}
		})
	}
}

// TestMachineNamesTheBinder: a decision's binder is in the call, and an unknown result is resolved as with the API server.
func TestMachineNamesTheBinder(t *testing.T) {
	m := New(Options{})
	decision := model.Decision{Job: model.JobKey{Namespace: "ns", Name: "g"}, MinBinds: 1, Binds: []model.Bind{
		{Pod: pod("a"), Node: "n", Binder: "http://x"},
	}}
	m.Submit(start, decision)
	calls := m.Calls(start)
	if len(calls) != 1 || calls[0].Binder != "http://x" {
		t.Fatalf("calls %+v", calls)
	}
	m.Reply(start, Reply{ID: calls[0].ID, Err: context.DeadlineExceeded})
	at, ok := m.NextWake()
	if !ok {
		t.Fatal("no further attempt")
	}
	calls = m.Calls(at)
	if len(calls) != 1 || calls[0].Attempt != 2 {
		t.Fatalf("calls %+v", calls)
	}
	outcomes := m.Reply(at, Reply{ID: calls[0].ID, Err: fmt.Errorf("bound already: %w", errBinderRefused)})
	calls = m.Calls(at)
	if len(outcomes) != 0 || len(calls) != 1 || calls[0].Kind != CallGetPod || calls[0].Node != "n" {
		t.Fatalf("outcomes %+v, calls %+v, want a look at the pod", outcomes, calls)
	}
	outcomes = m.Reply(at, Reply{ID: calls[0].ID})
	if len(outcomes) != 2 || outcomes[0].Kind != Bound || outcomes[0].Binder != "http://x" {
		t.Errorf("outcomes %+v, want a bind that has taken effect", outcomes)
	}
}
