package commit

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// errInvalid is a 422 that does not mention the UID, errOtherUID one that does: a patch that names another UID.
var (
	errInvalid  = &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid}}
	errOtherUID = &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "metadata.uid"}}},
	}}
	// errStore is the server's answer to a bind when etcd was killed during it.
	errStore = apierrors.NewConflict(bindings, "p", errors.New(
		"rpc error: code = Unavailable desc = error reading from server: connection reset by peer"))
	errAfter = apierrors.NewTooManyRequests("later", 7)
)

// fault is an answer to a call. If the call is retried, it then succeeds.
type fault struct {
	name string
	err  error
	// wait is the minimal delay of the next attempt; zero for answers that are final for some kind.
	wait time.Duration
}

var faults = []fault{
	{"409 other UID", errUID, 0},
	{"409 assigned", errTaken, 0},
	{"409 being deleted", errLeave, 0},
	{"409 without the store", errStore, 0},
	{"404", errGone, 0},
	{"422", errInvalid, 0},
	{"422 other UID", errOtherUID, 0},
	{"403", errDenied, 0},
	{"401", errRotated, 0},
	{"429", errBusy, 0},
	{"429 Retry-After", errAfter, 7 * time.Second},
	{"500", errServer, 0},
	{"lost", errLost, 0},
	{"not leading", ErrNotLeading, 0},
}

// subject is one kind of call, about to be sent for a pod or object named a, and the result of each answer: its outcome, or
// "again" for another attempt, which succeeds.
type subject struct {
	begin func(*player)
	sent  string
	// success is the outcome of a confirmed call.
	success string
	// outcomes are those of faults, by name.
	outcomes map[string]string
}

const again = "again"

func subjects() map[string]subject {
	transient := map[string]string{
		"409 without the store": again, "401": again, "429": again, "429 Retry-After": again, "500": again, "lost": again, "not leading": again,
	}
	with := func(final map[string]string) map[string]string {
		for name, want := range transient {
			if final[name] == "" {
				final[name] = want
			}
		}
		return final
	}
	all := func(want string) map[string]string {
		final := map[string]string{}
		for _, f := range faults {
			final[f.name] = want
		}
		return final
	}
	deletion := evictions("j", "a")
	deletion.Evictions[0].Method = model.ByDeletion
	nomination := model.Decision{Job: model.JobKey{Namespace: "ns", Name: "j"}, Nominations: []model.Nomination{{Pod: pod("a"), Node: "n"}}}
	return map[string]subject{
		"Bind": {func(p *player) { p.submit(binds("j", "a")) }, "Bind a", "Bound a", with(map[string]string{
			"409 other UID": "BindFailed a gone", "409 assigned": "BindFailed a refused", "409 being deleted": "BindFailed a refused gone",
			"404": "BindFailed a gone", "422": "BindFailed a refused", "422 other UID": "BindFailed a gone", "403": "BindFailed a refused",
		})},
		"Read": {func(p *player) { *p = *doubted(p.t, errTaken) }, "", "Bound a", with(map[string]string{
			"409 other UID": "BindFailed a refused gone", "409 assigned": again, "409 being deleted": again,
			"404": "BindFailed a refused gone", "422": "BindUncertain a", "422 other UID": "BindFailed a refused gone", "403": "BindUncertain a",
		})},
		"Undo": {func(p *player) { p.undo("j", "a") }, "Undo a", "StartUndone a", with(map[string]string{
			"409 other UID": "StartUndone a gone", "409 assigned": again, "409 being deleted": again,
			"404": "StartUndone a gone", "422": "UndoFailed a", "422 other UID": "StartUndone a gone", "403": "UndoFailed a",
		})},
		"Nominate": {func(p *player) { p.submit(nomination) }, "Nominate a", "Nominated a", with(map[string]string{
			"409 other UID": "NominationFailed a gone", "409 assigned": again, "409 being deleted": again,
			"404": "NominationFailed a gone", "422": "NominationFailed a refused", "422 other UID": "NominationFailed a gone", "403": "NominationFailed a refused",
		})},
		"Evict": {func(p *player) { p.submit(evictions("j", "a")) }, "Evict a", "Evicted a", with(map[string]string{
			"409 other UID": "Evicted a gone", "409 assigned": again, "409 being deleted": again,
			"404": "Evicted a gone", "422": "EvictFailed a refused", "422 other UID": "Evicted a gone", "403": "EvictFailed a refused",
		})},
		"Delete": {func(p *player) { p.submit(deletion); p.calls(); p.reply("a", nil) }, "Delete a", "Evicted a", with(map[string]string{
			"409 other UID": "Evicted a gone", "409 assigned": again, "409 being deleted": again,
			"404": "Evicted a gone", "422": "EvictFailed a refused", "422 other UID": "Evicted a gone", "403": "EvictFailed a refused",
		})},
		"DisruptionTarget": {func(p *player) { p.submit(deletion) }, "DisruptionTarget a", "Evicted a", with(map[string]string{
			"409 other UID": "Evicted a gone", "409 assigned": again, "409 being deleted": again,
			"404": "Evicted a gone", "422": "EvictFailed a refused", "422 other UID": "Evicted a gone", "403": "EvictFailed a refused",
		})},
		"GroupStatus": {func(p *player) { p.write(group("a", 1)) }, "GroupStatus a=1", "", with(map[string]string{
			"409 other UID": "WriteFailed  gone", "409 assigned": again, "409 being deleted": again,
			"404": "WriteFailed  gone", "422": "WriteFailed ", "422 other UID": "WriteFailed  gone", "403": "WriteFailed ",
		})},
		"ForeignStatus": {func(p *player) { p.write(foreign("a", "Inqueue")) }, "ForeignStatus a=Inqueue", "", with(map[string]string{
			"409 other UID": "WriteFailed  gone", "409 assigned": again, "409 being deleted": again,
			"404": "WriteFailed  gone", "422": "WriteFailed ", "422 other UID": "WriteFailed  gone", "403": "WriteFailed ",
		})},
		"QueueStatus": {func(p *player) { p.write(queueStatus("a", 1)) }, "QueueStatus a=1", "", with(map[string]string{
			"409 other UID": "WriteFailed  gone", "409 assigned": again, "409 being deleted": again,
			"404": "WriteFailed  gone", "422": "WriteFailed ", "422 other UID": "WriteFailed  gone", "403": "WriteFailed ",
		})},
		"PodCondition": {func(p *player) { p.write(condition("a", "x")) }, "PodCondition a=x", "", with(map[string]string{
			"409 other UID": "WriteFailed a gone", "409 assigned": again, "409 being deleted": again,
			"404": "WriteFailed a gone", "422": "WriteFailed a", "422 other UID": "WriteFailed a gone", "403": "WriteFailed a",
		})},
		"Event": {func(p *player) { p.write(event("a", "R", "x")) }, "Event a=x", "", with(map[string]string{
			"409 other UID": "", "409 assigned": again, "409 being deleted": again, "404": "", "422": "", "422 other UID": "", "403": "",
		})},
		"Prepare": {func(p *player) { p.submit(prepared("j", "*a")) }, "Prepare a", "", all("BindFailed a refused")},
		"Release": {func(p *player) { p.ReleasePrepared(p.now, pod("a")) }, "Release a", "Released a", all("Released a")},
	}
}

// TestEveryFaultOfEveryCall: the result of each answer, for each kind of call.
func TestEveryFaultOfEveryCall(t *testing.T) {
	for kind, s := range subjects() {
		for _, f := range faults {
			t.Run(kind+"/"+f.name, func(t *testing.T) {
				want, known := s.outcomes[f.name]
				if !known {
					t.Fatal("no outcome")
				}
				p := play(t, Options{})
				s.begin(p)
				if got := p.calls(); got != s.sent {
					t.Fatalf("calls %q, want %q", got, s.sent)
				}
				p.reply("a", f.err)
				if want == again {
					p.expect()
					p.awaitRetry(f.wait)
					p.reply("a", nil)
					want = s.success
				}
				p.follow()
				if got := strings.Join(p.said, ", "); got != want && !strings.HasPrefix(got, want+", ") {
					t.Errorf("outcomes %q, want %q", got, want)
				}
				p.said = nil
				p.pass(time.Hour)
				p.end()
			})
		}
	}
}

// awaitRetry expects the next attempt after that time, and not immediately.
func (p *player) awaitRetry(wait time.Duration) {
	p.t.Helper()
	p.expectCalls("")
	at, ok := p.NextWake()
	if !ok || at.Sub(p.now) < wait || at.Sub(p.now) > wait+2*time.Second {
		p.t.Fatalf("the next attempt is in %s, %t, want it in %s or a little more", at.Sub(p.now), ok, wait)
	}
	for range 2 { // first all calls are paused, then the call has its own back-off
		p.pass(at.Sub(p.now))
		if p.calls() != "" {
			return
		}
		at, _ = p.NextWake()
	}
	p.t.Fatal("not tried again")
}

// follow answers the calls that follow: what was reserved is released, a pod with the condition is deleted.
func (p *player) follow() {
	p.pass(time.Second)
	if calls := p.calls(); calls == "Release a" || calls == "Delete a" {
		p.reply("a", nil)
	}
}

// TestEveryFaultAfterTheDeadline: a call that would be retried ends after its deadline; for a bind that may have taken effect
// the pod is read. A call without deadline goes on.
func TestEveryFaultAfterTheDeadline(t *testing.T) {
	failed := map[string]string{
		"Bind": "BindFailed a", "Nominate": "NominationFailed a refused", "Evict": "EvictFailed a refused", "DisruptionTarget": "EvictFailed a refused",
		"Delete": "EvictFailed a refused",
	}
	for kind, want := range failed {
		s := subjects()[kind]
		for _, f := range faults {
			if s.outcomes[f.name] != again {
				continue
			}
			t.Run(kind+"/"+f.name, func(t *testing.T) {
				p := play(t, Options{})
				s.begin(p)
				p.expectCalls(s.sent)
				p.said = nil
				p.pass(time.Hour)
				p.expect() // a call in flight keeps its attempt
				p.reply("a", f.err)
				want := want
				if kind == "Bind" && classify(CallBind, f.err).class == unknown {
					p.pass(10 * time.Second)
					p.expectCalls("Read a")
					p.reply("a", nil)
					want = "Bound a"
				}
				if got := strings.Join(p.said, ", "); !strings.HasPrefix(got, want+", ") && got != want {
					t.Errorf("outcomes %q, want %q", got, want)
				}
				p.said = nil
				p.pass(time.Hour)
				p.end()
			})
		}
	}
}

// TestEveryFaultAfterThePodIsGone: no call is retried for a pod that was deleted while the call was in flight, and each
// decision about it still has one outcome.
func TestEveryFaultAfterThePodIsGone(t *testing.T) {
	for kind, s := range subjects() {
		if kind == "GroupStatus" || kind == "ForeignStatus" || kind == "QueueStatus" || kind == "Event" {
			continue // which are not about a pod
		}
		for _, f := range append([]fault{{"yes", nil, 0}}, faults...) {
			t.Run(kind+"/"+f.name, func(t *testing.T) {
				p := play(t, Options{})
				s.begin(p)
				p.calls()
				p.said = nil
				p.cancel("a")
				p.reply("a", f.err)
				p.follow()
				outcomes := slices.DeleteFunc(p.said, func(said string) bool {
					return strings.HasPrefix(said, "Committed") || strings.HasPrefix(said, "VictimsGone") || strings.HasPrefix(said, "Obsolete")
				})
				switch {
				case kind == "PodCondition" && len(outcomes) == 0:
				case len(outcomes) != 1:
					t.Errorf("outcomes %q, want one", outcomes)
				case f.err != nil && !strings.HasSuffix(outcomes[0], " gone") && outcomes[0] != "Evicted a" && kind != "Release":
					t.Errorf("outcome %q, of a pod that is gone", outcomes[0])
				}
				p.said = nil
				p.pass(time.Hour)
				p.end()
			})
		}
	}
}
