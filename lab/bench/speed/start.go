package speed

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tutti-sched/tutti/lab/bench/page"
	"github.com/tutti-sched/tutti/lab/bench/stage"
)

// Phase is a part of the scheduler's start, and how long it took.
type Phase struct {
	Name string
	Took time.Duration
}

// marks are the messages of the scheduler's log that end a phase, in order. "Cycle" needs verbosity 2.
var marks = []mark{
	{"the process: program load, initialization of packages", "Starting"},
	{"configuration, clients, plugins", "Starting metrics server"},
	{"lists of all kinds", "Informers are synced"},
	{"the loop takes over what was listed", "Leading: scheduling starts"},
	{"first cycle", "Cycle"},
}

// mark is the message that ends a phase.
type mark struct{ phase, message string }

// toFirstBind is the phase after the last mark.
const toFirstBind = "first bind: request, write, watch"

// logged is a line of klog: the date without a year, the time, the thread, the file and the message.
var logged = regexp.MustCompile(`(?m)^I(\d{4} \d\d:\d\d:\d\d\.\d{6})\s+\d+ \S+\] "([^"]+)"`)

// phases divides the time from the start of the process to its first bind, by what the process has logged. A phase that is not in
// the log counts with the next.
func phases(log string, start time.Time, firstBind time.Duration) []Phase {
	var all []Phase
	lines, from := logged.FindAllStringSubmatch(log, -1), start
	for _, mark := range marks {
		i := slices.IndexFunc(lines, func(line []string) bool { return line[2] == mark.message })
		if i < 0 {
			continue
		}
		at, err := time.ParseInLocation("20060102 15:04:05.000000", start.Format("2006")+lines[i][1], start.Location())
		if err != nil {
			continue
		}
		if bound := start.Add(firstBind); at.After(bound) { // binds leave while the first cycle runs
			at = bound
		}
		all = append(all, Phase{mark.phase, at.Sub(from)})
		from = at
	}
	return append(all, Phase{toFirstBind, start.Add(firstBind).Sub(from)})
}

// readPhases takes the phases down.
func (r *Run) readPhases(file string, start time.Time) error {
	log, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("log of the scheduler: %w", err)
	}
	r.Phases = phases(string(log), start, r.FirstBind)
	return nil
}

// StartMarkdown is the part of the page about the start.
func (o *Options) StartMarkdown(kubernetes string, rounds []Round) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n    cd lab && go run ./cmd/lab bench start --pods %d --gang-size %d --nodes %d --rounds %d\n\n",
		o.Name(), o.Pods, o.GangSize, o.Nodes, o.Rounds)
	fmt.Fprintf(&b, "Kubernetes %s; %s.\n\n| phase |", kubernetes, page.Machine())
	for i := range rounds {
		fmt.Fprintf(&b, " round %d |", i+1)
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(rounds)) + "\n")
	row := func(name string, cell func(round Round, run Run) string) {
		fmt.Fprintf(&b, "| %s |", name)
		for _, round := range rounds {
			run, _ := round.Of(stage.Tutti)
			fmt.Fprintf(&b, " %s |", cell(round, run))
		}
		b.WriteString("\n")
	}
	seconds := func(took time.Duration) string { return fmt.Sprintf("%.2f s", took.Seconds()) }
	for _, mark := range append(slices.Clone(marks), mark{phase: toFirstBind}) {
		row(mark.phase, func(_ Round, run Run) string { return seconds(run.phase(mark.phase)) })
	}
	row("**from the start of the process to the first bind**", func(_ Round, run Run) string { return seconds(run.FirstBind) })
	row("the floor, from its first list to its first bind", func(round Round, _ Run) string {
		floor, _ := round.Of(stage.Floor)
		return seconds(floor.FirstBind)
	})
	row("from the start of the process to the last bind", func(_ Round, run Run) string { return seconds(run.LastBind) })
	row("the same, times the floor's", func(round Round, run Run) string { return fmt.Sprintf("%.2f", round.Ratio(run, stage.Floor)) })
	row("other programs", func(_ Round, run Run) string { return fmt.Sprintf("%.0f %%", 100*run.Others) })
	return b.String()
}

func (r Run) phase(name string) time.Duration {
	for _, phase := range r.Phases {
		if phase.Name == name {
			return phase.Took
		}
	}
	return 0
}
