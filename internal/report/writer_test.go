package report

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// paper is a writer with virtual time.
type paper struct {
	*writer
	now time.Time
}

func newPaper() *paper {
	return &paper{newWriter(backoff.Policy{Min: 10 * time.Second, Max: 10 * time.Minute}), time.Unix(1_700_000_000, 0)}
}

// plain is an offer to write about an object whenever ten seconds have passed since the last write.
func plain(object string) offer {
	return offer{object: types.UID(object), every: 10 * time.Second, from: account{"ns", ofGroups}}
}

// report makes a report of the offers, and returns what was written about which objects, in order.
func (p *paper) report(offers ...offer) string {
	p.begin()
	for _, o := range offers {
		o.write = func() []commit.Write { return []commit.Write{&commit.GroupStatus{Name: string(o.object)}} }
		p.offer(o, p.now)
	}
	return p.end()
}

func (p *paper) end() string {
	var names []string
	for _, write := range p.writes(p.now) {
		names = append(names, write.(*commit.GroupStatus).Name)
	}
	p.prune()
	return strings.Join(names, " ")
}

func (p *paper) expect(t *testing.T, want, got string, wake time.Duration) {
	t.Helper()
	if got != want {
		t.Errorf("%q is written, want %q", got, want)
	}
	if at := p.now.Add(wake); wake == 0 && !p.wake.IsZero() || wake != 0 && !p.wake.Equal(at) {
		t.Errorf("to be called at %s, want %s", p.wake, at)
	}
}

// TestWhatIsDueIsWrittenInOrder of rank, then of the last write, then of the key.
func TestWhatIsDueIsWrittenInOrder(t *testing.T) {
	p := newPaper()
	p.report(plain("young"))
	p.now = p.now.Add(-time.Minute)
	p.expect(t, "old", p.report(plain("old"), plain("young")), 70*time.Second)
	p.now = p.now.Add(2 * time.Minute)
	keyed := func(name string) offer {
		o := plain(name)
		o.key = model.JobKey{Namespace: "ns", Name: name}
		return o
	}
	later := plain("later")
	later.rank = 1
	p.expect(t, "a b old young later", p.report(later, keyed("b"), keyed("a"), plain("young"), plain("old")), 0)
}

// TestAWriteIsAwaited: while the watch does not show it, another report is due when that no longer counts. Once it shows it, the
// record is kept for as long as the next write has a delay, or others come first.
func TestAWriteIsAwaited(t *testing.T) {
	p := newPaper()
	settle := func(shown bool) bool {
		p.begin()
		return p.settle("g", account{"ns", ofGroups}, shown, p.now)
	}
	p.report(plain("g"))
	if p.now = p.now.Add(time.Second); !settle(false) || !p.wake.Equal(p.now.Add(echoTimeout-time.Second)) {
		t.Errorf("called at %s", p.wake)
	}
	if p.end(); !settle(true) || !p.wake.IsZero() {
		t.Error("the next write has no delay")
	}
	if p.end(); len(p.sent) != 1 {
		t.Error("what was settled is dropped")
	}
	p.now = p.now.Add(messageInterval)
	for range mostRepeated {
		p.budget.take(account{"ns", ofGroups}, p.now)
	}
	if !settle(true) {
		t.Error("it is forgotten when it was written last, although the budget is used up")
	}
	p.now = p.now.Add(2 * budgetWindow)
	if settle(true) {
		t.Error("it is kept for no reason")
	}
	if p.end(); len(p.sent) != 0 {
		t.Errorf("kept: %v", p.sent)
	}
}

// TestWhatIsRefusedWaitsLongerEachTime, until the object is gone, or shows what it is to show.
func TestWhatIsRefusedWaitsLongerEachTime(t *testing.T) {
	p := newPaper()
	refused := func(wait time.Duration) {
		t.Helper()
		p.expect(t, "g", p.report(plain("g")), 0)
		p.fail("g", p.now)
		p.expect(t, "", p.report(plain("g")), wait)
		p.now = p.wake
	}
	refused(10 * time.Second)
	refused(20 * time.Second)
	p.taken("g")
	refused(10 * time.Second)
	refused(20 * time.Second)
	p.report()
	refused(10 * time.Second)
}

// TestSoManyWritesASecond: the next report is made when there is one more write, or when the pause is over.
func TestSoManyWritesASecond(t *testing.T) {
	p := newPaper()
	p.most = newWindow(2)
	p.expect(t, "a", p.report(plain("a")), 0)
	p.now = p.now.Add(400 * time.Millisecond)
	p.expect(t, "b", p.report(plain("b"), plain("c")), 600*time.Millisecond)
	p.pause = time.Second
	p.expect(t, "", p.report(plain("c")), time.Second)
	p.now = p.now.Add(time.Second)
	p.expect(t, "c d", p.report(plain("c"), plain("d")), 0)
}
