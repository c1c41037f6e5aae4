package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	groupfake "github.com/tutti-sched/tutti/apis/client/clientset/versioned/fake"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
)

// TestFlagsMeanWhatTheyMeanToKubectl: what the API server receives.
func TestFlagsMeanWhatTheyMeanToKubectl(t *testing.T) {
	var got string
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		header := request.Header
		got = fmt.Sprint(request.URL.Path, " ", header.Get("Authorization"), " ", header.Get("Impersonate-User"), " ", header["Impersonate-Group"])
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"items": []}`)
	}))
	t.Cleanup(s.Close)
	kubeconfig := filepath.Join(t.TempDir(), "config")
	text := strings.ReplaceAll(`apiVersion: v1
kind: Config
current-context: dev
contexts: [{name: dev, context: {cluster: down, user: me, namespace: home}}]
clusters: [{name: down, cluster: {server: https://127.0.0.1:1}}, {name: up, cluster: {server: $URL, insecure-skip-tls-verify: true}}]
users: [{name: me, user: {token: mine}}, {name: other, user: {token: others}}]
`, "$URL", s.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const path = "/api/v1/namespaces/home/pods"
	for line, want := range map[string]string{
		"--cluster up":              path + " Bearer mine  []",
		"--cluster up --user other": path + " Bearer others  []",
		"--cluster up --as ops --as-group a --as-group b -n x":  "/api/v1/namespaces/x/pods Bearer mine ops [a b]",
		"-s " + s.URL + " --insecure-skip-tls-verify --token t": path + " Bearer t  []",
	} {
		got = ""
		command := newCommand()
		command.SetOut(io.Discard)
		command.SetArgs(append([]string{"status", "--kubeconfig", kubeconfig}, strings.Fields(line)...))
		if err := command.ExecuteContext(t.Context()); err != nil || got != want {
			t.Errorf("%s: %v, the API server received %q, want %q", line, err, got, want)
		}
	}
}

func TestCompletesForKubectl(t *testing.T) {
	for line, want := range map[string]string{
		"/usr/bin/kubectl-tutti why x": "why x", "/usr/bin/kubectl_complete-tutti why x": "__complete why x",
	} {
		if got := strings.Join(arguments(strings.Fields(line)), " "); got != want {
			t.Errorf("%s: arguments %q, want %q", line, got, want)
		}
	}
}

// screen is where a command writes while a test reads.
type screen chan string

// Write hands the text to the test.
func (s screen) Write(text []byte) (int, error) {
	s <- string(text)
	return len(text), nil
}

// take waits until a text has been written, and returns all that was written meanwhile.
func (s screen) take(t *testing.T, want string) (text string) {
	t.Helper()
	for !strings.Contains(text, want) {
		text += <-s
	}
	return text
}

// TestWatchShowsWhatChanges: all jobs at first, then each one that has changed and no other.
func TestWatchShowsWhatChanges(t *testing.T) {
	group := func(name string, bound int32) *v1alpha1.PodGroup {
		return &v1alpha1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, CreationTimestamp: metav1.Unix(0, 0)},
			Spec:       v1alpha1.PodGroupSpec{MinMember: 2},
			Status:     v1alpha1.PodGroupStatus{Phase: v1alpha1.PodGroupPending, Members: 2, Placed: bound},
		}
	}
	groups, pods := groupfake.NewSimpleClientset(group("still", 0), group("train", 0)), fake.NewClientset()
	r, out := &reader{pods: pods, groups: groups}, make(screen, 100)
	look := &statusView{namespace: "ml", selector: labels.Everything(), schedulers: []string{"tutti"}, now: func() time.Time { return time.Unix(60, 0) }}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.watch(ctx, printer.New(out, os.Getenv), look) }()
	out.take(t, "NAME    PHASE     MEMBERS   BOUND   RUNNING   REASON   WAITS   AGE\n"+
		"still   Pending   2/2       0       0         -        -       60s\ntrain   Pending   2/2       0       0         -        -       60s\n")
	if _, err := groups.SchedulingV1alpha1().PodGroups("ml").Update(ctx, group("train", 2), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	out.take(t, "train   Pending   2/2       2       0         -        -       60s\n")
	alone := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "alone", CreationTimestamp: metav1.Unix(0, 0)}, Spec: corev1.PodSpec{SchedulerName: "tutti"},
	}
	if _, err := pods.CoreV1().Pods("ml").Create(ctx, alone, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if text := out.take(t, "pod/alone   Pending"); strings.Contains(text, "still") {
		t.Errorf("what has not changed is shown again:\n%s", text)
	}
	if err := groups.SchedulingV1alpha1().PodGroups("ml").Delete(ctx, "train", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	out.take(t, "train       Gone      0/2       0       0         -        -       60s\n")
	if err := pods.CoreV1().Pods("ml").Delete(ctx, "alone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if text := out.take(t, "pod/alone   Bound or gone"); strings.Contains(text, "train") {
		t.Errorf("what is gone is shown again:\n%s", text)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("interrupted: %v", err)
	}
}

func TestWatchWithoutTheRightFails(t *testing.T) {
	groups, pods := groupfake.NewSimpleClientset(), fake.NewClientset()
	pods.PrependReactor("list", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "", nil)
	})
	pods.PrependWatchReactor("pods", func(ktesting.Action) (bool, watch.Interface, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "", nil)
	})
	look := &statusView{namespace: "ml", selector: labels.Everything(), now: time.Now}
	err := (&reader{pods: pods, groups: groups}).watch(t.Context(), printer.New(io.Discard, os.Getenv), look)
	if !apierrors.IsForbidden(err) {
		t.Errorf("error %v", err)
	}
}
