package scenario

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// pipeline is the line of a configuration that names the actions.
var pipeline = regexp.MustCompile(`(?m)^actions: .*$`)

// Run plays the stories of one file and compares with what is recorded there.
func Run(t *testing.T, path string) {
	t.Helper()
	play(t, path, newStage)
}

// RunWith is Run with more plugins that a story's configuration may name.
func RunWith(extra ...framework.PluginRegistration) func(t *testing.T, path string) {
	return func(t *testing.T, path string) {
		t.Helper()
		play(t, path, func() *environment {
			s := newStage()
			s.extra = extra
			return s
		})
	}
}

// RunOnly is Run with no other actions than these, which are written as in a configuration, where a story has none of its own.
func RunOnly(actions string) func(t *testing.T, path string) {
	return func(t *testing.T, path string) {
		t.Helper()
		play(t, path, func() *environment {
			s := newStage()
			s.configuration = pipeline.ReplaceAll(s.configuration, []byte("actions: "+strconv.Quote(actions)))
			return s
		})
	}
}

func play(t *testing.T, path string, newStage func() *environment) {
	t.Helper()
	p := &player{newStage: newStage, stage: newStage()}
	defer func() { p.stage.end() }()
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "skip" {
			_, p.skipped, _ = strings.Cut(d.FullCmd(), " ")
			t.Run(p.title, func(t *testing.T) { t.Skipf("still to come: %s", p.skipped) })
		}
		if p.skipped != "" && d.Cmd != "story" {
			return d.Expected
		}
		answer, err := p.play(d)
		if err != nil {
			d.Fatalf(t, "%s: %v", p.title, err)
		}
		return answer
	})
	if err := p.end(); err != nil {
		t.Errorf("%s: %s: %v", path, p.title, err)
	}
}

// player plays one file.
type player struct {
	newStage func() *environment
	stage    *environment
	title    string
	// skipped is why the story is not played; empty when it is.
	skipped string
	// last is what the cycle before came to, nil when something has happened since.
	last *outcome
}

func (p *player) play(d *datadriven.TestData) (string, error) {
	switch d.Cmd {
	case "story":
		return "", p.begin(d)
	case "cycle":
		return p.cycle(d.HasArg("unconfirmed"))
	case "ask":
		return p.stage.ask(d.Input)
	case "advise":
		return p.stage.advise()
	case "guarantees":
		return p.stage.guarantees(), nil
	case "explain":
		if err := p.stage.open(); err != nil {
			return "", err
		}
		return p.stage.profile.Explain(), nil
	}
	p.last = nil
	return "", p.applyEvent(d)
}

// begin ends the story before and begins another one.
func (p *player) begin(d *datadriven.TestData) error {
	if err := p.end(); err != nil {
		return fmt.Errorf("at its end: %w", err)
	}
	p.stage.end()
	p.stage, p.last, p.skipped = p.newStage(), nil, ""
	_, p.title, _ = strings.Cut(d.FullCmd(), " ")
	return p.stage.world.apply(d.Input)
}

// cycle plays one cycle. What it binds is seen immediately, or is left in flight.
func (p *player) cycle(unconfirmed bool) (string, error) {
	outcome, err := p.stage.cycle()
	if err != nil {
		return "", err
	}
	p.last = outcome
	answer := p.stage.maskURLs(outcome.String())
	if unconfirmed {
		return answer, nil
	}
	return answer, p.stage.confirm()
}

// end plays a story's last cycle, in which nothing may change; and if binds are in flight, another one when they are
// seen.
func (p *player) end() error {
	if p.stage.cycles == 0 {
		if p.title != "" && p.skipped == "" {
			return errors.New("the story has no cycle")
		}
		return nil
	}
	for range 2 {
		before, unmet := p.last, p.stage.guarantees()
		outcome, err := p.stage.cycle()
		if err != nil {
			return err
		}
		if len(outcome.decisions) > 0 {
			return fmt.Errorf("one more cycle still decides:\n%s", outcome)
		}
		// What was decided after the reason of a job was recorded may have changed the numbers.
		if before != nil && len(before.decisions) == 0 && before.waits() != outcome.waits() {
			return fmt.Errorf("one more cycle gives other reasons:\n%s\ninstead of\n%s", outcome.waits(), before.waits())
		}
		if after := p.stage.guarantees(); before != nil && len(before.decisions) == 0 && after != unmet {
			return fmt.Errorf("after one more cycle guarantees are\n%s\ninstead of\n%s", after, unmet)
		}
		p.last = outcome
		if err := p.stage.confirm(); err != nil {
			return err
		}
	}
	return nil
}

// applyEvent does what a command says to the cluster.
func (p *player) applyEvent(d *datadriven.TestData) error {
	switch d.Cmd {
	case "config":
		if p.stage.profile != nil {
			return errors.New("the configuration comes before the first cycle")
		}
		p.stage.configuration = []byte(d.Input)
		return nil
	case "object":
		objects, err := decodeObjects(d.Input)
		for _, object := range objects {
			if p.stage.world.applyDevices(object) {
				continue
			}
			if p.stage.profile != nil {
				return errors.New("objects come before the first cycle, except those of devices")
			}
			p.stage.objects = append(p.stage.objects, object)
		}
		return err
	case "extender":
		return p.stage.command(d.Input)
	case "cluster":
		return p.stage.world.apply(d.Input)
	case "page":
		return p.stage.world.applyPage(d.Input)
	case "confirm":
		return p.stage.confirm()
	case "restart":
		return p.stage.restart()
	case "deallocate":
		p.stage.world.deallocate()
		return nil
	case "advance":
		by, err := time.ParseDuration(d.CmdArgs[0].Key)
		p.stage.world.now = p.stage.world.now.Add(by)
		return err
	}
	names, options, err := readNames(d)
	if err != nil {
		return err
	}
	return p.stage.applyEvents(d.Cmd, names, options)
}

// readNames spells out the names in a command and reads its options.
func readNames(d *datadriven.TestData) (names []string, options map[string]string, err error) {
	options = map[string]string{}
	for _, argument := range d.CmdArgs {
		if len(argument.Vals) > 0 {
			options[argument.Key] = argument.Vals[0]
			continue
		}
		more, err := expand(argument.Key)
		if err != nil {
			return nil, nil, err
		}
		names = append(names, more...)
	}
	return names, options, nil
}

// applyEvents does one thing to all of the names.
func (s *environment) applyEvents(command string, names []string, options map[string]string) error {
	w := s.world
	phase := func(phase corev1.PodPhase) error {
		return w.changePods(names, func(pod *corev1.Pod) {
			end := &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(w.now)}
			pod.Status.Phase = phase
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Terminated: end}}}
		})
	}
	switch command {
	case "run":
		if len(names) == 0 {
			names = w.podNames(func(pod *corev1.Pod) bool {
				return pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodPending
			})
		}
		return w.changePods(names, func(pod *corev1.Pod) {
			began := metav1.NewTime(w.now)
			pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &began
			setReady(pod, true)
		})
	case "ready", "unready":
		return w.changePods(names, func(pod *corev1.Pod) { setReady(pod, command == "ready") })
	case "finish":
		return phase(corev1.PodSucceeded)
	case "fail":
		return phase(corev1.PodFailed)
	case "terminate":
		grace, err := time.ParseDuration(options["grace"])
		if err != nil {
			return fmt.Errorf("grace: %w", err)
		}
		return w.changePods(names, func(pod *corev1.Pod) { deletedAt(pod, w.now, grace) })
	case "leave":
		if len(names) == 0 {
			names = w.podNames(func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
		}
		return w.remove("pod", names)
	case "ungate":
		return w.changePods(names, func(pod *corev1.Pod) { pod.Spec.SchedulingGates = nil })
	case "delete":
		return w.remove(names[0], names[1:])
	case "read":
		return w.read(names[0], names[1])
	case "take":
		w.take(names)
		return nil
	case "cordon", "uncordon":
		return w.cordon(names, command == "cordon")
	case "spare":
		for _, name := range names {
			s.spared[w.pods[name].UID] = &model.Refusal{Code: model.NodesFiltered, Detail: "the API server has refused to evict it"}
		}
		return nil
	case "reject":
		return s.reject(names, options)
	}
	return fmt.Errorf("no such command: %s", command)
}
