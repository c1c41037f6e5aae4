package capture

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/lifecycle"
	"github.com/tutti-sched/tutti/internal/scheduler"
)

// moment is of a node, and of a pod with a volume claim that waits.
func moment() *scheduler.Moment {
	state := cluster.New(cluster.Options{SchedulerNames: []string{"tutti"}})
	state.Apply(&cluster.NodeSeen{Node: &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1"},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{"cpu": resource.MustParse("2")}},
	}})
	state.Apply(&cluster.PodSeen{Pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "p1", UID: "p1"},
		Spec: corev1.PodSpec{SchedulerName: "tutti", Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}})
	state.Snapshot(time.Unix(1_800_000_000, 0))
	delays := backoff.NewDelays()
	return &scheduler.Moment{Contents: state.Contents(), Delays: delays, Gangs: lifecycle.New(0, delays), Cycle: 7, Leading: true}
}

func write(t *testing.T) []byte {
	t.Helper()
	var file bytes.Buffer
	if err := Write(&file, Header{Version: "0.1.0", Configuration: "actions: allocate"}, moment(), nil); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// edit changes the lines of a capture.
func edit(t *testing.T, file []byte, change func(lines []string) []string) []byte {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	var changed bytes.Buffer
	again := gzip.NewWriter(&changed)
	if _, err := io.WriteString(again, strings.Join(change(strings.SplitAfter(string(text), "\n")), "")); err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	return changed.Bytes()
}

// What was written is read, with what is inexact of it; the same moment has the same bytes.
func TestACaptureIsReadAgain(t *testing.T) {
	file := write(t)
	if !bytes.Equal(file, write(t)) {
		t.Error("the same moment has other bytes")
	}
	read, err := Read(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if read.Cycle != 7 || read.Version != "0.1.0" || read.Configuration != "actions: allocate" || !read.At.Equal(time.Unix(1_800_000_000, 0)) {
		t.Errorf("the header is %+v", read.Header)
	}
	if len(read.Inexact) != 1 || !strings.HasPrefix(read.Inexact[0], "volumes: 1 pods that wait") {
		t.Errorf("inexact is %q", read.Inexact)
	}
	again, err := read.Moment(nil)
	if err != nil {
		t.Fatal(err)
	}
	if again.Cycle != 7 || !again.Leading || !again.Contents.At.Equal(read.At) {
		t.Errorf("the moment is %+v", again)
	}
}

// A file that is not what was written is refused, and the error says why.
func TestAWrongFileIsRefused(t *testing.T) {
	file := write(t)
	replace := func(from, to string) []byte {
		return edit(t, file, func(lines []string) []string {
			for i := range lines {
				lines[i] = strings.Replace(lines[i], from, to, 1)
			}
			return lines
		})
	}
	for name, one := range map[string]struct {
		file []byte
		is   error
		says string
	}{
		"another format":   {replace(`"format":1`, `"format":2`), ErrFormat, "its format is 2, and this version reads format 1"},
		"no capture":       {edit(t, file, func([]string) []string { return []string{"{}\n"} }), ErrFormat, "format 1"},
		"not compressed":   {[]byte("capture"), ErrFormat, "not compressed"},
		"cut":              {file[:len(file)-20], ErrCut, "cut"},
		"without its end":  {edit(t, file, func(lines []string) []string { return lines[:len(lines)-2] }), ErrCut, "cut after line"},
		"without a line":   {edit(t, file, func(lines []string) []string { return append(lines[:3:3], lines[4:]...) }), ErrChanged, "changed"},
		"another text":     {replace(`"name":"p1"`, `"name":"p2"`), ErrChanged, "another text"},
		"an unknown field": {replace(`{"pod":{`, `{"pods":{`), ErrFormat, "unknown field"},
		"more behind it":   {edit(t, file, func(lines []string) []string { return append(lines, "{}\n") }), ErrChanged, "follows its end"},
		"a wrong checksum": {append(bytes.Clone(file[:len(file)-8]), 1, 2, 3, 4, file[len(file)-4], file[len(file)-3], file[len(file)-2], file[len(file)-1]), ErrChanged, "changed"},
	} {
		if _, err := Read(bytes.NewReader(one.file)); !errors.Is(err, one.is) || !strings.Contains(err.Error(), one.says) {
			t.Errorf("%s: %v, want %v with %q", name, err, one.is, one.says)
		}
	}
	read, err := Read(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	read.snapshot = "another"
	if _, err := read.Moment(nil); !errors.Is(err, ErrDiffers) {
		t.Errorf("another digest: %v", err)
	}
}
