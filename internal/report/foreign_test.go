package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// foreignDesk is a reporter of foreign groups with virtual time, and an API server that takes every write and shows it.
type foreignDesk struct {
	*ForeignReporter
	source   model.Source
	now      time.Time
	specs    map[model.JobKey]*sources.Spec
	news     []model.JobKey
	others   map[model.JobKey]bool
	snapshot *model.Snapshot
	refusals map[model.JobKey]*model.Refusal
	wake     time.Time
	version  int
	// hidden says that the watch shows nothing; told are the texts of the events; total counts the writes.
	hidden bool
	told   []string
	total  int
	// last is the last write, and prune what an API server does with each that drops something.
	last  *commit.ForeignStatus
	prune func(commit.ForeignStatus)
}

func volcanoKey(name string) model.JobKey {
	return model.JobKey{Namespace: "ns", Name: name, Source: model.SourceVolcano}
}

func newForeignDesk(names ...string) *foreignDesk { return newDeskOf(model.SourceVolcano, names...) }

func newDeskOf(source model.Source, names ...string) *foreignDesk {
	d := &foreignDesk{
		source: source,
		now:    time.Unix(1_700_000_000, 0), specs: map[model.JobKey]*sources.Spec{}, refusals: map[model.JobKey]*model.Refusal{},
		others: map[model.JobKey]bool{}, snapshot: &model.Snapshot{Dimensions: model.NewDimensions()},
	}
	d.ForeignReporter = NewForeignReporter(ForeignSource{
		News:     func() []model.JobKey { news := d.news; d.news = nil; return news },
		Spec:     func(key model.JobKey) *sources.Spec { return d.specs[key] },
		OfOthers: func(key model.JobKey) bool { return d.others[key] },
	})
	for _, name := range names {
		d.object(name, nil)
	}
	return d
}

func (d *foreignDesk) key(name string) model.JobKey {
	return model.JobKey{Namespace: "ns", Name: name, Source: d.source}
}

// object adds or changes the object of a group.
func (d *foreignDesk) object(name string, change func(*sources.Spec)) {
	spec := &sources.Spec{Source: d.source, MinMember: 2}
	spec.Namespace, spec.Name, spec.UID = "ns", name, types.UID(name)
	if before := d.specs[spec.Key()]; before != nil {
		*spec = *before
	}
	d.version++
	spec.ResourceVersion = fmt.Sprint(d.version)
	if change != nil {
		change(spec)
	}
	d.specs[spec.Key()] = spec
	d.news = append(d.news, spec.Key())
}

// shows is what another writer puts into the status.
func (d *foreignDesk) shows(name, phase, kind, reason string) {
	d.object(name, func(s *sources.Spec) {
		s.Shown.HasStatus, s.Shown.Phase, s.Shown.Type, s.Shown.Reason = true, phase, kind, reason
	})
}

// members sets the members of a group by their states; none takes the job away.
func (d *foreignDesk) members(name string, states ...model.Status) *model.Job {
	job := &model.Job{Key: d.key(name), Need: model.Need{MinMember: 2}}
	for _, state := range states {
		job.Tasks = append(job.Tasks, &model.Task{Placement: model.Placement{Status: state}})
		job.Whole = job.Whole || state == model.Running
	}
	d.snapshot.Jobs, d.news = nil, append(d.news, job.Key)
	if len(states) > 0 {
		d.snapshot.Jobs = []*model.Job{job}
	}
	delete(d.refusals, job.Key)
	return job
}

func (d *foreignDesk) refuse(name string, refusal *model.Refusal) {
	d.refusals[d.key(name)] = refusal
}

// report lets the reporter write, and returns what was written.
func (d *foreignDesk) report() string {
	writes, wake := d.Report(d.snapshot, d.refusals, d.now, func(_ model.JobKey, look func()) { look() })
	var said []string
	for d.wake = wake; len(writes) > 0; writes = writes[1:] {
		if event, is := writes[0].(*commit.Event); is {
			d.told = append(d.told, event.Reason+" "+event.Regarding.APIVersion+" "+event.Regarding.Name)
			continue
		}
		d.total++
		status := writes[0].(*commit.ForeignStatus)
		d.last = status
		words := status.Group.Name
		if status.Phase != "" {
			words += " " + status.Phase
		}
		if n := status.Counts; n != nil {
			words += fmt.Sprintf(" %d/%d/%d", n.Running, n.Succeeded, n.Failed)
		}
		if c := status.Condition; c != nil {
			words += fmt.Sprintf(" %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
		if said = append(said, words); !d.hidden {
			d.take(status)
		}
		if d.prune != nil {
			d.prune(*status)
		}
	}
	return strings.Join(said, ", ")
}

func (d *foreignDesk) take(status *commit.ForeignStatus) {
	d.object(status.Group.Name, func(s *sources.Spec) {
		s.Shown.HasStatus = true
		if status.Phase != "" {
			s.Shown.Phase = status.Phase
		}
		if n := status.Counts; n != nil {
			s.Shown.Running, s.Shown.Succeeded, s.Shown.Failed = n.Running, n.Succeeded, n.Failed
		}
		if c := status.Condition; c != nil {
			s.Shown.HasConditions = true
			s.Shown.Type, s.Shown.Status, s.Shown.Reason, s.Shown.Message = c.Type, string(c.Status), c.Reason, c.Message
		}
	})
}

func (d *foreignDesk) expect(t *testing.T, want string) {
	t.Helper()
	if got := d.report(); got != want {
		t.Fatalf("written: %q, want %q", got, want)
	}
}

// rests expects that nothing is written for an hour, and nothing is waited for.
func (d *foreignDesk) rests(t *testing.T) {
	t.Helper()
	d.expect(t, "")
	d.now = d.now.Add(time.Hour)
	d.expect(t, "")
	if !d.wake.IsZero() || len(d.open) != 0 {
		t.Fatalf("at rest it asks to be called again at %s, for %v", d.wake, d.open)
	}
}

// TestTheLifeOfAForeignGroup takes six writes at most, and its phase never goes back.
func TestTheLifeOfAForeignGroup(t *testing.T) {
	d := newForeignDesk("g")
	d.expect(t, "g Inqueue")
	d.rests(t)
	d.members("g", model.Pending)
	d.refuse("g", &model.Refusal{Code: model.NotEnoughMembers, Needs: 2, Has: 1})
	d.expect(t, "g Unschedulable=True NotEnoughTasks: needs 2, 1 exist")
	d.members("g", model.Pending, model.Pending)
	d.refuse("g", &model.Refusal{Code: model.InsufficientResources, Needs: 2, Has: 1})
	d.expect(t, "g Unschedulable=True NotEnoughResources: needs 2, 1 would fit")
	d.now = d.now.Add(foreignMessageInterval - time.Second)
	d.members("g", model.Bound, model.Bound)
	d.expect(t, "g Running Scheduled=True Scheduled: the minimum is bound")
	d.members("g", model.Bound, model.Running)
	d.expect(t, "")
	d.now = d.now.Add(foreignCountInterval - time.Second)
	d.members("g", model.Running, model.Running)
	d.expect(t, "")
	if d.now = d.wake; d.report() != "g 2/0/0" {
		t.Error("the numbers are not written after their interval")
	}
	d.rests(t)
	d.members("g", model.Succeeded, model.Succeeded)
	d.expect(t, "g Completed 0/2/0")
	d.rests(t)
	if d.total > 6 {
		t.Errorf("%d writes", d.total)
	}
	d.members("g")
	d.rests(t)
	d.members("g", model.Succeeded, model.Succeeded, model.Running)
	d.expect(t, "g Running 1/2/0")
	d.object("g", func(s *sources.Spec) { s.UID, s.Shown = "another", sources.Shown{} })
	d.members("g")
	d.expect(t, "g Inqueue")
	d.specs = nil
	d.news = append(d.news, volcanoKey("g"))
	if d.expect(t, ""); len(d.sent) != 0 || len(d.writer.sent) != 0 {
		t.Errorf("it keeps %+v and %+v", d.sent, d.writer.sent)
	}
}

// TestWhatAForeignStatusShows, from each phase, with each kind of members.
func TestWhatAForeignStatusShows(t *testing.T) {
	const scheduled = " Scheduled=True Scheduled: the minimum is bound"
	waits := &model.Refusal{Code: model.QueueLimit, Detail: "why"}
	for _, c := range []struct {
		phase   string
		members []model.Status
		refusal *model.Refusal
		want    string
	}{
		{"", nil, nil, "g Inqueue"},
		{"Pending", nil, nil, "g Inqueue"},
		{"Inqueue", nil, nil, ""},
		{"Unknown", nil, nil, ""},
		{"Running", nil, nil, ""},
		{"Completed", nil, nil, ""},
		{"", []model.Status{model.Pending}, waits, "g Inqueue Unschedulable=True NotEnoughResources: " + waits.String()},
		{"Pending", []model.Status{model.Binding, model.Binding}, nil, "g Inqueue"},
		{"Running", []model.Status{model.Pending, model.Pending}, waits, "g Unschedulable=True NotEnoughResources: " + waits.String()},
		{"Running", []model.Status{model.Running, model.Pending}, waits, "g 1/0/0"},
		{"Running", []model.Status{model.Running, model.Releasing}, nil, "g 1/0/0"},
		{"Unknown", []model.Status{model.Running, model.Succeeded}, nil, "g Running 1/1/0" + scheduled},
		{"Pending", []model.Status{model.Bound, model.Running}, nil, "g Running 1/0/0" + scheduled},
		{"Running", []model.Status{model.Succeeded, model.Failed}, nil, "g 0/1/1"},
		{"Running", []model.Status{model.Succeeded, model.Succeeded, model.Failed}, nil, "g Completed 0/2/1"},
		{"Inqueue", []model.Status{model.Succeeded, model.Succeeded}, nil, "g Completed 0/2/0"},
		{"Completed", []model.Status{model.Succeeded}, nil, "g 0/1/0"},
	} {
		d := newForeignDesk("g")
		d.shows("g", c.phase, "", "")
		d.members("g", c.members...)
		d.refuse("g", c.refusal)
		if got := d.report(); got != c.want {
			t.Errorf("%s with %v: %q, want %q", c.phase, c.members, got, c.want)
		}
		d.rests(t)
	}
}

// TestNumbersOfAGroupWithoutMembers: none of it runs; what has ended stays counted.
func TestNumbersOfAGroupWithoutMembers(t *testing.T) {
	d := newForeignDesk()
	d.object("g", func(s *sources.Spec) {
		s.Shown = sources.Shown{HasStatus: true, Phase: "Running", Running: 2, Succeeded: 1}
	})
	d.expect(t, "g 0/1/0")
	d.rests(t)
}

// TestAContradictionIsNotAdmitted, and says why.
func TestAContradictionIsNotAdmitted(t *testing.T) {
	d := newForeignDesk()
	d.object("g", func(s *sources.Spec) { s.Contradiction = "spec.minMember is a text, it must be a whole number" })
	const why = "PodGroup.scheduling.volcano.sh ns/g: spec.minMember is a text, it must be a whole number"
	d.expect(t, "g Unschedulable=True InvalidGroup: "+why)
	d.rests(t)
	d.object("g", func(s *sources.Spec) { s.Contradiction = "" })
	d.expect(t, "g Inqueue")
}

// TestAGroupOfOthersIsNotWritten: one whose members all name other schedulers. Without members it is admitted.
func TestAGroupOfOthersIsNotWritten(t *testing.T) {
	d := newForeignDesk("g")
	d.others[volcanoKey("g")] = true
	d.rests(t)
	delete(d.others, volcanoKey("g"))
	d.news = append(d.news, volcanoKey("g"))
	d.expect(t, "g Inqueue")
}

// TestMessagesOfAForeignGroup: another reason is written immediately, unless it is the one before; other numbers later.
func TestMessagesOfAForeignGroup(t *testing.T) {
	d := newForeignDesk("g")
	d.members("g", model.Pending, model.Pending)
	refuse := func(code model.Code, has int64) string {
		d.refuse("g", &model.Refusal{Code: code, Needs: 2, Has: has})
		return d.report()
	}
	if got := refuse(model.InsufficientResources, 0); got != "g Inqueue Unschedulable=True NotEnoughResources: needs 2, 0 would fit" {
		t.Error(got)
	}
	d.now = d.now.Add(foreignMessageInterval - time.Second)
	if got := refuse(model.InsufficientResources, 1); got != "" {
		t.Errorf("before its time: %s", got)
	}
	if d.now = d.wake; refuse(model.InsufficientResources, 1) == "" {
		t.Error("other numbers are not written")
	}
	if got := refuse(model.NotEnoughMembers, 1); got != "g Unschedulable=True NotEnoughTasks: needs 2, 1 exist" {
		t.Error(got)
	}
	if got := refuse(model.InsufficientResources, 1); got != "" {
		t.Errorf("to and fro: %s", got)
	}
	d.now = d.now.Add(flipInterval)
	if got := refuse(model.InsufficientResources, 1); got == "" {
		t.Error("the reason before is never written")
	}
	if got := refuse(model.QueueLimit, 1); got != "" {
		t.Errorf("other words for the same reason: %s", got)
	}
	d.now = d.now.Add(foreignMessageInterval)
	d.refuse("g", &model.Refusal{Code: model.QueueLimit, Detail: strings.Repeat("ä\n", 9000)})
	d.report()
	if said := d.specs[volcanoKey("g")].Shown.Message; len(said) > sources.MaxMessage || sources.MaxMessage >= sources.MaxShown {
		t.Errorf("a message of %d bytes is written", len(said))
	}
	d.rests(t)
}

// TestAWriteThatTheWatchDoesNotShow is waited for. It is not made again, since the API server has taken it, but what is to be
// said by then is written. A watch that lags is no other writer.
func TestAWriteThatTheWatchDoesNotShow(t *testing.T) {
	d := newForeignDesk("g")
	d.hidden = true
	if d.expect(t, "g Inqueue"); !d.wake.Equal(d.now.Add(echoTimeout)) {
		t.Errorf("a write that is not shown is looked at again at %s", d.wake)
	}
	for range 5 {
		d.members("g", model.Bound, model.Bound)
		d.expect(t, "") // it would be based on a status that is about to change
		d.members("g")
		d.now = d.now.Add(echoTimeout / 5)
	}
	d.rests(t)
	d.members("g", model.Bound, model.Bound)
	if d.hidden = false; d.report() != "g Running Scheduled=True Scheduled: the minimum is bound" || len(d.told) != 0 {
		t.Errorf("after a write that was not shown: events %q", d.told)
	}
	d.rests(t)
}

// TestARefusalOfWhatIsWrittenAlready: a write that took effect, and whose answer was lost, is refused when it is sent
// again. That is no refusal of the status.
func TestARefusalOfWhatIsWrittenAlready(t *testing.T) {
	d := newForeignDesk("a")
	refused := &commit.Outcome{
		Kind: commit.WriteFailed, Write: &commit.ForeignStatus{Group: volcanoKey("a"), UID: "a"}, Message: "the test failed",
	}
	for _, states := range [][]model.Status{nil, {model.Bound, model.Bound}, {model.Succeeded, model.Succeeded}} {
		d.members("a", states...)
		d.hidden = true
		written := d.report()
		if events, first := d.Failed(refused, d.now); written == "" || len(events) != 0 || first {
			t.Errorf("%v: written %q, events %v, first %t", states, written, events, first)
		}
		d.take(d.last) // the watch is late
		d.rests(t)
	}
}

// TestARefusedForeignStatus is tried again with a back-off, and said once about each group, when it has lasted
// as long as a watch may take.
func TestARefusedForeignStatus(t *testing.T) {
	d := newForeignDesk("a", "b")
	d.hidden = true
	d.expect(t, "a Inqueue, b Inqueue")
	fail := func(name string, gone bool) (told int, first bool) {
		write := &commit.ForeignStatus{Group: volcanoKey(name), UID: types.UID(name)}
		events, first := d.Failed(&commit.Outcome{Kind: commit.WriteFailed, Write: write, PodGone: gone, Message: "no"}, d.now)
		return len(events), first
	}
	began := d.now
	for _, c := range []struct {
		name  string
		told  int
		first bool
	}{{"a", 1, true}, {"b", 1, false}} {
		d.now = began
		if told, first := fail(c.name, false); told != 0 || first {
			t.Errorf("%s: %d events by the first refusal, first %t", c.name, told, first)
		}
		d.now = began.Add(echoTimeout)
		if told, first := fail(c.name, false); told != c.told || first != c.first {
			t.Errorf("%s: %d events, first %t", c.name, told, first)
		}
	}
	writes := 0
	for end := d.now.Add(time.Hour); d.now.Before(end); d.now = d.wake {
		for _, name := range strings.Fields(strings.ReplaceAll(strings.ReplaceAll(d.report(), " Inqueue", ""), ",", "")) {
			if writes++; d.hidden {
				if told, first := fail(name, false); told != 0 || first {
					t.Errorf("%s is said again", name)
				}
			}
		}
		if d.expect(t, ""); d.wake.IsZero() {
			t.Fatal("it is not tried again")
		}
	}
	if writes < 10 || writes > 40 {
		t.Errorf("%d writes in an hour in which they are refused", writes)
	}
	d.hidden = false
	d.expect(t, "a Inqueue, b Inqueue")
	d.rests(t)
	if told, first := fail("a", true); told != 0 || first {
		t.Error("a group that is gone is said to be refused")
	}
	if told, first := fail("a", false); told != 0 && !first {
		t.Error("after a success the next refusal is not the first")
	}
	write := &commit.ForeignStatus{Group: volcanoKey("a"), UID: "another"}
	if events, first := d.Failed(&commit.Outcome{Write: write}, d.now); len(events) != 0 || first {
		t.Error("an earlier group of the name counts")
	}
}

// TestAnotherWriterOfAForeignStatus that puts back what was written is left alone the second time.
func TestAnotherWriterOfAForeignStatus(t *testing.T) {
	for name, puts := range map[string]func(*foreignDesk){
		"phase": func(d *foreignDesk) {
			d.shows("g", "Pending", d.specs[volcanoKey("g")].Shown.Type, "NotEnoughResources")
		},
		"condition": func(d *foreignDesk) { d.shows("g", "Inqueue", "Unschedulable", "Theirs") },
	} {
		for _, late := range []bool{false, true} {
			d := newForeignDesk("g")
			d.members("g", model.Pending, model.Pending)
			d.refuse("g", &model.Refusal{Code: model.InsufficientResources, Needs: 2})
			for range 1000 {
				d.hidden = late // the watch shows only what is there last
				if d.report(); d.hidden {
					d.now = d.now.Add(echoTimeout)
				}
				puts(d)
				d.now = d.now.Add(time.Second)
				d.report()
			}
			if d.total > 3 || len(d.told) != 1 || d.told[0] != "StatusContested scheduling.volcano.sh/v1beta1 g" {
				t.Errorf("%s, late %t: %d writes, events %q", name, late, d.total, d.told)
			}
			d.rests(t)
			d.object("g", func(s *sources.Spec) { s.UID, s.Shown = "another", sources.Shown{} })
			if d.hidden = false; !strings.HasPrefix(d.report(), "g Inqueue") {
				t.Errorf("%s: a new group is not written", name)
			}
		}
	}
	// One that writes what we want to write is no matter, and one that changes numbers neither.
	d := newForeignDesk("g")
	d.expect(t, "g Inqueue")
	for range 10 {
		d.object("g", func(s *sources.Spec) { s.Shown.Phase, s.Shown.Running = sources.VolcanoRunning, s.Shown.Running+1 })
		d.now = d.now.Add(foreignCountInterval)
		d.report()
	}
	if len(d.told) != 0 {
		t.Errorf("events %q", d.told)
	}
}

// TestManyForeignGroupsAtATime: a hundred a second, those first that wait for a phase, and no namespace takes all.
func TestManyForeignGroupsAtATime(t *testing.T) {
	d := newForeignDesk()
	for i := range 300 {
		d.object(fmt.Sprintf("g%03d", i), nil)
	}
	began := d.now
	for second, want := range []int{100, 100, 100, 0} {
		if got := strings.Count(d.report(), "Inqueue"); got != want {
			t.Errorf("second %d: %d writes, want %d", second, got, want)
		}
		d.expect(t, "")
		if d.now.Sub(began) != time.Duration(second)*time.Second || second < 2 && d.wake.Sub(d.now) != time.Second {
			t.Errorf("second %d: at %s, called again after %s", second, d.now.Sub(began), d.wake.Sub(d.now))
		}
		d.now = d.now.Add(time.Second)
	}
	for i := range 300 {
		d.object(fmt.Sprintf("more%03d", i), nil)
	}
	for d.now.Sub(began) < budgetWindow {
		d.report()
		d.now = d.now.Add(time.Second)
	}
	if d.total != mostRepeated {
		t.Errorf("%d writes about one namespace in ten seconds", d.total)
	}
	for range 8 {
		d.report()
		d.now = d.now.Add(time.Second)
	}
	if d.total != 600 {
		t.Errorf("%d writes, want one for each group", d.total)
	}
	d.rests(t)
}

// refusedAt records that the API server refuses what is written about a group, and returns how many events say so.
func (d *foreignDesk) refusedAt(key model.JobKey) (told int, first bool) {
	events, first := d.Failed(&commit.Outcome{
		Kind: commit.WriteFailed, Message: "no",
		Write: &commit.ForeignStatus{Group: key, UID: d.specs[key].UID},
	}, d.now)
	return len(events), first
}

// TestOneRefusalLongAfterAnother is none that lasts: between the two the group showed what it was to show, or a write was taken.
func TestOneRefusalLongAfterAnother(t *testing.T) {
	for name, between := range map[string]func(*foreignDesk){
		"another writer has written it":      func(d *foreignDesk) { d.shows("g", sources.VolcanoInqueue, "", "") },
		"it is taken":                        func(d *foreignDesk) { d.hidden = false },
		"it is taken, and dropped":           func(*foreignDesk) {},
		"there is nothing to say until then": func(d *foreignDesk) { d.shows("g", sources.VolcanoRunning, "", "") },
	} {
		d := newForeignDesk("g")
		d.hidden = true
		d.expect(t, "g Inqueue")
		if told, _ := d.refusedAt(volcanoKey("g")); told != 0 {
			t.Errorf("%s: the first refusal has an event", name)
		}
		between(d)
		for end := d.now.Add(time.Hour); d.now.Before(end); d.now = d.now.Add(time.Second) {
			d.report()
		}
		d.members("g", model.Bound, model.Bound)
		if d.hidden = true; d.report() == "" {
			t.Fatalf("%s: nothing is written", name)
		}
		if told, _ := d.refusedAt(volcanoKey("g")); told != 0 {
			t.Errorf("%s: one refusal an hour later has an event", name)
		}
		d.now = d.now.Add(echoTimeout)
		d.report()
		if told, first := d.refusedAt(volcanoKey("g")); told != 1 || !first {
			t.Errorf("%s: %d events of a refusal that lasts, first %t", name, told, first)
		}
	}
}

// TestAKindThatIsRefused is said once, whatever is said of another kind, and once more when it was taken in between.
func TestAKindThatIsRefused(t *testing.T) {
	d := newForeignDesk("a", "b")
	d.hidden = true
	other := model.JobKey{Namespace: "ns", Name: "c", Source: model.SourceNative}
	d.specs[other] = &sources.Spec{Source: other.Source}
	d.specs[other].Namespace, d.specs[other].Name, d.specs[other].UID = "ns", "c", "c"
	d.expect(t, "a Inqueue, b Inqueue")
	lasts := func(key model.JobKey) bool {
		d.refusedAt(key)
		d.now = d.now.Add(echoTimeout)
		told, first := d.refusedAt(key)
		if told != 1 {
			t.Errorf("%s: %d events", key, told)
		}
		return first
	}
	if !lasts(volcanoKey("a")) || lasts(volcanoKey("b")) || !lasts(other) {
		t.Error("want the first of each kind")
	}
	d.shows("a", sources.VolcanoInqueue, "", "")
	if d.report(); lasts(volcanoKey("a")) {
		t.Error("another one of the kind is refused still")
	}
	for _, name := range []string{"a", "b"} {
		d.shows(name, sources.VolcanoInqueue, "", "")
	}
	d.report()
	if !lasts(volcanoKey("b")) {
		t.Error("all of the kind were taken in between")
	}
}

// TestAGroupRunsWithoutWhatIsMadeLater: what is made first has started, and a launcher that was made since waits for a place. The
// phase says that the group runs, whichever of the two was seen first.
func TestAGroupRunsWithoutWhatIsMadeLater(t *testing.T) {
	d := newForeignDesk("g")
	d.expect(t, "g Inqueue")
	d.now = d.now.Add(time.Minute)
	job := d.members("g", model.Bound, model.Bound, model.Pending)
	job.MinMember, job.Roles = 3, []model.Role{{Name: "launcher", MinMember: 1, NotBegun: true, MadeLater: true}}
	job.Tasks[2].Role = "launcher"
	d.refuse("g", &model.Refusal{Code: model.InsufficientResources, Needs: 3, Has: 2})
	d.expect(t, "g Running Unschedulable=True NotEnoughResources: needs 3, 2 would fit")
}
