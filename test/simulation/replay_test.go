package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tutti-sched/tutti/internal/capture"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/rehearse"
	"github.com/tutti-sched/tutti/internal/scheduler"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// replayer captures each moment of which the cycle that follows is known, and replays that.
type replayer struct {
	t *testing.T
	// steps are the last two of each process.
	steps map[*process][2]replayedStep
	// cycles counts the cycles that were compared, deciding those that decided something.
	cycles, deciding int
	// parted counts those in which another configuration has decided otherwise.
	parted int
	// delayed counts those with delays after failures.
	delayed int
	// waiting counts the moments at which the loop had nothing left to decide, and jobs waited.
	waiting int
	// Each so many cycles one is redacted; redacted counts them, redactedDeciding those that decided something.
	redactsEach, redacted, redactedDeciding int
}

const anotherConfiguration = `
actions: "allocate"
tiers:
- plugins:
  - name: gang
`

// replayedStep is a step of a process: how many letters had come before it, when it was, what it decided, and the moment after
// it.
type replayedStep struct {
	letters   int
	at        time.Time
	decisions []model.Decision
	moment    *scheduler.Moment
	refusals  map[model.JobKey]*model.Refusal
}

// beforeStep looks at the step before, and has the next one hand over its moment. Nothing came into the mailbox before and
// during the step before the last one, so that the last one began where the moment was.
func (r *replayer) beforeStep(p *process) {
	steps := r.steps[p]
	if steps[0].moment != nil && steps[1].moment != nil && steps[0].letters == steps[1].letters && steps[0].moment.Leading &&
		steps[1].moment.Cycle == steps[0].moment.Cycle+1 {
		r.compare(p, steps[0].moment, steps[1])
	}
	r.steps[p] = [2]replayedStep{steps[1], {letters: p.letters, at: p.clock.Now()}}
	p.loop.Moment(func(moment *scheduler.Moment) {
		if len(moment.Waiting) > 0 {
			r.checkItself(p, moment)
		}
		last := r.steps[p]
		last[1].moment, last[1].refusals = moment, p.loop.Refusals()
		r.steps[p] = last
	})
}

func (r *replayer) decided(p *process, decision model.Decision) {
	steps := r.steps[p]
	steps[1].decisions = append(steps[1].decisions, decision)
	r.steps[p] = steps
}

// checkItself asks the copy of a moment at which the loop has nothing left to decide.
func (r *replayer) checkItself(p *process, moment *scheduler.Moment) {
	r.waiting++
	live := p.lister.SharedLister
	defer func() { p.lister.SharedLister = live }()
	difference, err := rehearse.Difference(context.Background(), moment, r.setting(p))
	if err != nil || difference != "" {
		r.t.Fatalf("seed %d, %s at %s: the copy decides otherwise: %s, %v", p.config.Seed, p, moment.Contents.At, difference, err)
	}
}

// setting lets a process rehearse over its own plugins.
func (r *replayer) setting(p *process) *rehearse.Setting {
	return &rehearse.Setting{
		Profile: func([]byte) (*engine.Profile, error) { return p.profile(p), nil },
		Show:    func(state *cluster.State) { p.lister.SharedLister = state.View() },
		Reset:   func() {},
	}
}

// compare replays the cycle after a moment, from a file.
func (r *replayer) compare(p *process, moment *scheduler.Moment, then replayedStep) {
	profile := p.profile(p)
	var file bytes.Buffer
	if err := capture.Write(&file, capture.Header{}, moment, profile.Translators()); err != nil {
		r.t.Fatal(err)
	}
	read, err := capture.Read(&file)
	if err != nil {
		r.t.Fatal(err)
	}
	again, err := read.Moment(profile.Translators())
	if err != nil {
		r.t.Fatal(err)
	}
	live := p.lister.SharedLister
	defer func() { p.lister.SharedLister = live }()
	setting := r.setting(p)
	decisions, refusals, err := rehearse.Replay(context.Background(), again, setting, nil, then.at)
	if err != nil {
		r.t.Fatal(err)
	}
	want, got := decisionsText(r.t, then.decisions), decisionsText(r.t, decisions)
	if want != got {
		r.t.Fatalf("seed %d, %s at %s: cycle %d decided\n%s\nand its replay\n%s", p.config.Seed, p, then.at, moment.Cycle+1, want, got)
	}
	if want, got := codesOf(then.refusals), codesOf(refusals); !maps.Equal(want, got) {
		r.t.Fatalf("seed %d, %s at %s: cycle %d refused\n%s\nand its replay\n%s", p.config.Seed, p, then.at, moment.Cycle+1, want, got)
	}
	if r.cycles%r.redactsEach == 0 {
		r.redact(p, read, setting, then, decisions, refusals)
	}
	setting.Profile = func(text []byte) (*engine.Profile, error) { return p.filters.buildWith(p.kubeOf(p), text) }
	var with [2]string
	for i, from := range []*scheduler.Moment{moment, again} {
		decisions, _, err := rehearse.Replay(context.Background(), from, setting, []byte(anotherConfiguration), then.at)
		if err != nil {
			r.t.Fatal(err)
		}
		with[i] = decisionsText(r.t, decisions)
	}
	if with[0] != with[1] {
		r.t.Fatalf("seed %d, %s at %s: with another configuration the moment leads to\n%s\nand its file to\n%s", p.config.Seed, p, then.at, with[0], with[1])
	}
	if with[0] != want {
		r.parted++
	}
	if moment.Delays.Len() > 0 {
		r.delayed++
	}
	if r.cycles++; len(decisions) > 0 {
		r.deciding++
	}
}

// redact replays the redacted file, whose decisions and refusals must be the same about other names.
func (r *replayer) redact(
	p *process, file *capture.File, setting *rehearse.Setting, then replayedStep, decisions []model.Decision, refusals map[model.JobKey]*model.Refusal,
) {
	translators := p.profile(p).Translators()
	redacted, err := file.Redact(translators)
	if err != nil {
		r.t.Fatal(err)
	}
	moment, err := redacted.Moment(translators)
	if err != nil {
		r.t.Fatal(err)
	}
	again, refused, err := rehearse.Replay(context.Background(), moment, setting, nil, then.at)
	if err != nil {
		r.t.Fatal(err)
	}
	other := map[string]string{}
	type refusal struct {
		Job  model.JobKey
		Code model.Code
	}
	listed := func(of map[model.JobKey]*model.Refusal) (list []refusal) {
		for _, job := range slices.SortedFunc(maps.Keys(of), model.JobKey.Compare) {
			list = append(list, refusal{job, of[job].Code})
		}
		return list
	}
	for _, pair := range [][2]any{{decisions, again}, {listed(refusals), listed(refused)}} {
		if why := renamed(treeOf(r.t, pair[0]), treeOf(r.t, pair[1]), other); why != "" {
			r.t.Fatalf("seed %d, %s at %s: the redacted cycle %d differs: %s\n%s\n%s", p.config.Seed, p, then.at, moment.Cycle+1, why,
				decisionsText(r.t, decisions), decisionsText(r.t, again))
		}
	}
	if r.redacted++; len(decisions) > 0 {
		r.redactedDeciding++
	}
}

func treeOf(t *testing.T, value any) (tree any) {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &tree)
	}
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// renamed says in what two values differ beside their strings, and which string stands for two others; empty where they are the
// same about other names. other has what each string became.
func renamed(before, after any, other map[string]string) string {
	switch before := before.(type) {
	case map[string]any:
		after, _ := after.(map[string]any)
		if len(before) != len(after) {
			return fmt.Sprintf("%v and %v", before, after)
		}
		for _, key := range slices.Sorted(maps.Keys(before)) {
			if why := renamed(before[key], after[key], other); why != "" {
				return key + ": " + why
			}
		}
	case []any:
		after, _ := after.([]any)
		if len(before) != len(after) {
			return fmt.Sprintf("%d and %d", len(before), len(after))
		}
		for i := range before {
			if why := renamed(before[i], after[i], other); why != "" {
				return fmt.Sprintf("%d: %s", i, why)
			}
		}
	case string:
		after, _ := after.(string)
		known, is := other[before]
		if other[before] = after; is && known != after {
			return fmt.Sprintf("%q became %q and %q", before, known, after)
		}
		if first, is := other["from "+after]; is && first != before {
			return fmt.Sprintf("%q and %q became %q", first, before, after)
		}
		other["from "+after] = before
	default:
		if before != after {
			return fmt.Sprintf("%v and %v", before, after)
		}
	}
	return ""
}

// decisionsText is a list of decisions as text. Each has the number of its cycle.
func decisionsText(t *testing.T, decisions []model.Decision) string {
	text, err := json.MarshalIndent(decisions, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// codesOf returns why jobs were refused. The numbers in the words may be those of another job that asks for the same.
func codesOf(refusals map[model.JobKey]*model.Refusal) map[string]model.Code {
	codes := map[string]model.Code{}
	for job, refusal := range refusals {
		codes[job.String()] = refusal.Code
	}
	return codes
}

// The replay of a captured moment decides what the cycle that followed has decided, byte for byte, with binds, evictions,
// nominations, reservations and starts in flight, and delays after failures.
func TestAReplayDecidesTheSame(t *testing.T) {
	filters := open(t)
	r := &replayer{t: t, steps: map[*process][2]replayedStep{}, redactsEach: int(setting(t, "SIM_REDACTS_EACH", 10))}
	for seed := setting(t, "SIM_SEED", 1); r.deciding < 100 || r.parted < 20 || r.delayed < 100; seed++ {
		config := Config{Seed: seed, Queues: seed%3 == 1, Foreign: seed%3 == 2}
		config.Sabotage.Rogue, config.Sabotage.Decided = r.beforeStep, r.decided
		calls := 0
		config.Sabotage.Refuse = func(call commit.Call) error { // so that starts are interrupted, and delays begin
			if calls++; calls%4 != 0 || call.Kind != commit.CallBind && call.Kind != commit.CallEvict {
				return nil
			}
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, call.Pod.Name, errors.New("refused by the test"))
		}
		run(t, filters, config)
		clear(r.steps)
	}
	t.Logf("%d cycles, of which %d decided something, %d had delays, and %d decide otherwise with another configuration; "+
		"at %d moments jobs waited and the loop had nothing left to decide; %d redacted cycles, of which %d decided something",
		r.cycles, r.deciding, r.delayed, r.parted, r.waiting, r.redacted, r.redactedDeciding)
	if r.waiting < 100 {
		t.Errorf("only %d moments for the copy to check itself", r.waiting)
	}
}
