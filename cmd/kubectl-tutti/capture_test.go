package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/capture"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/lifecycle"
	"github.com/tutti-sched/tutti/internal/scheduler"
)

const captured = `actions: "allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: predicates
`

// captureOf writes a capture of a node for two pods, of a gang of two pods, and of one of three.
func captureOf(t *testing.T) string {
	t.Helper()
	state := cluster.New(cluster.Options{SchedulerNames: []string{"tutti"}})
	state.Apply(&cluster.NodeSeen{Node: &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1"},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			"cpu": resource.MustParse("2"), "pods": resource.MustParse("10"),
		}},
	}})
	for gang, members := range map[string]int32{"train": 2, "big": 3} {
		state.Apply(&cluster.GroupSeen{Group: &v1alpha1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: gang, UID: types.UID(gang), CreationTimestamp: metav1.Unix(1_799_999_000, 0)},
			Spec:       v1alpha1.PodGroupSpec{MinMember: members},
		}})
		for i := range members {
			name := gang + "-" + string('0'+rune(i))
			state.Apply(&cluster.PodSeen{Pod: &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "ml", Name: name, UID: types.UID(name), Labels: map[string]string{v1alpha1.LabelPodGroup: gang},
					CreationTimestamp: metav1.Unix(1_799_999_000, 0),
				},
				Spec: corev1.PodSpec{SchedulerName: "tutti", Containers: []corev1.Container{{
					Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}},
				}}},
				Status: corev1.PodStatus{Phase: corev1.PodPending},
			}})
		}
	}
	state.Snapshot(time.Unix(1_800_000_000, 0))
	delays := backoff.NewDelays()
	moment := &scheduler.Moment{Contents: state.Contents(), Delays: delays, Gangs: lifecycle.New(0, delays), Cycle: 41, Leading: true}
	var file bytes.Buffer
	if err := capture.Write(&file, capture.Header{Version: "0.1.0", Configuration: captured}, moment, nil); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "file.tutti")
	if err := os.WriteFile(name, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// The decisions of the cycle after a capture are printed without a cluster, and those that another configuration changes.
func TestReplay(t *testing.T) {
	file := captureOf(t)
	run := func(args ...string) (string, error) {
		command := newCommand(newClientFlags())
		var out bytes.Buffer
		command.SetOut(&out)
		command.SetArgs(append([]string{"replay"}, args...))
		err := command.ExecuteContext(t.Context())
		return out.String(), err
	}
	text, err := run(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"Cycle 42, as of 2027-01-15 08:00:00, captured with version 0.1.0;", "PodGroup ml/train: train-0 is bound to n1",
		"PodGroup ml/train: train-1 is bound to n1", "PodGroup ml/big waits: InsufficientResources:",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is not in\n%s", line, text)
		}
	}
	other := filepath.Join(t.TempDir(), "other.yaml")
	for config, want := range map[string]string{
		captured: "Both configurations decide the same: 3 lines.",
		strings.Replace(captured, "allocate", "preempt", 1): "- PodGroup ml/train: train-0 is bound to n1",
	} {
		if err := os.WriteFile(other, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		if text, err := run(file, "--config", other); err != nil || !strings.Contains(text, want) {
			t.Errorf("%v: %q is not in\n%s", err, want, text)
		}
	}
	if err := os.WriteFile(other, []byte("no capture"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := run(other); err == nil || !strings.Contains(err.Error(), "not a capture") {
		t.Errorf("a file that is none: %v", err)
	}
}

// What the scheduler sends is written to a new file, which can be replayed, unless it is no capture.
func TestCapture(t *testing.T) {
	s, file := newServer(t), filepath.Join(t.TempDir(), "night.tutti")
	run := func(args ...string) string {
		return s.execute(t, append(args, "--scheduler-server", "$SERVER", "--scheduler-insecure-skip-tls-verify", "--scheduler-token", "t")...)
	}
	s.objects[debugapi.PathCapture] = captureOf(t)
	if text, want := run("capture", "-f", file), file+" has the cluster as of 2027-01-15 08:00:00, after cycle 41.\n"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
	if text := s.execute(t, "replay", file); !strings.Contains(text, "train-0 is bound to n1") {
		t.Errorf("the replay is\n%s", text)
	}
	if text := run("capture", "-f", file); !strings.Contains(text, "exists") {
		t.Errorf("a file that exists: %s", text)
	}
	s.objects[debugapi.PathCapture] = os.DevNull
	if text := run("capture", "-f", file+"2"); !strings.Contains(text, "answer of the scheduler: not a capture") {
		t.Errorf("an answer that is no capture: %s", text)
	}
	if _, err := os.Stat(file + "2"); err == nil {
		t.Error("an answer that is no capture was written")
	}
}

// A redacted capture has the same decisions, about other names.
func TestARedactedCapture(t *testing.T) {
	s, file := newServer(t), filepath.Join(t.TempDir(), "report.tutti")
	if text := s.execute(t, "capture", "--from", captureOf(t), "--redact", "-f", file); !strings.Contains(text, "after cycle 41.") {
		t.Fatalf("capture: %s", text)
	}
	text := s.execute(t, "replay", file)
	if strings.Contains(text, "train") || strings.Contains(text, "ml/") || strings.Count(text, " is bound to ") != 2 || !strings.Contains(text, "waits: InsufficientResources") {
		t.Errorf("the replay is\n%s", text)
	}
}

// A question about a capture is answered without a scheduler.
func TestQuestionsAboutACapture(t *testing.T) {
	s, file := newServer(t), captureOf(t)
	text := s.execute(t, "what-if", "--from", file, "--add-nodes", "2", "--like", "n1")
	if !strings.Contains(text, "PodGroup ml/big") || !strings.Contains(text, "starts") || !strings.Contains(text, "As of 08:00:00") {
		t.Errorf("what-if answers\n%s", text)
	}
	if text := s.execute(t, "when", "--from", file, "-n", "ml"); !strings.Contains(text, "PodGroup ml/big") {
		t.Errorf("when answers\n%s", text)
	}
	if text := s.execute(t, "when", "--from", os.DevNull); !strings.Contains(text, "not a capture") {
		t.Errorf("a file that is no capture: %s", text)
	}
}

// The lists of a capture are those that the scheduler would show.
func TestListsOfACapture(t *testing.T) {
	s, file := newServer(t), captureOf(t)
	for kind, want := range map[string]string{
		"nodes":   "n1",
		"queues":  "There are no Queues",
		"domains": "declares no topologies",
		"cycles":  "a capture has queues, nodes and domains",
	} {
		if text := s.execute(t, "get", kind, "--from", file); !strings.Contains(text, want) {
			t.Errorf("get %s: %q is not in\n%s", kind, want, text)
		}
	}
	if text := s.execute(t, "get", "nodes", "--from", file, "-o", "jsonpath={.items[0].idle.cpu} {.leading}"); text != "2 true" {
		t.Errorf("the node as JSON says %q", text)
	}
	if text := s.execute(t, "get", "nodes", "n2", "--from", file); !strings.Contains(text, `knows no node "n2"`) {
		t.Errorf("a node that is not there: %s", text)
	}
}
