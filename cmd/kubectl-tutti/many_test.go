package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tutti-sched/tutti/internal/sources"
)

// manyPods is an API server with pods, and objects that own some of them, that answers lists page by page. It counts requests by
// path.
type manyPods struct {
	*httptest.Server
	requests map[string]*atomic.Int32
	other    atomic.Int32
}

const mpiJobsPath = "/apis/kubeflow.org/v2beta1/mpijobs"

// newManyPods has plain pods, of which one in ten waits, Jobs of ten pods each, and MPIJobs of two.
func newManyPods(t testing.TB, plain, jobs, mpiJobs int) *manyPods {
	pods := make([]any, 0, plain+10*jobs+2*mpiJobs)
	created := metav1.NewTime(time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC))
	add := func(name string, waits bool, change func(*corev1.Pod)) {
		pod := corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns-" + strconv.Itoa(len(pods)%20), Name: name, UID: types.UID(name), CreationTimestamp: created, Labels: map[string]string{"app": "x"}},
			Spec:       corev1.PodSpec{SchedulerName: "tutti", NodeName: "n1"},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		}
		if waits {
			pod.Spec.NodeName, pod.Status.Phase = "", corev1.PodPending
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "no node"}}
		}
		if change != nil {
			change(&pod)
		}
		pods = append(pods, pod)
	}
	owner := func(kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: kind, Name: name, UID: types.UID(name), Controller: new(true)}}
	}
	for i := range plain {
		add(fmt.Sprintf("pod-%05d", i), i%10 == 0, nil)
	}
	for i := range jobs {
		name := fmt.Sprintf("job-%04d", i)
		for k := range 10 {
			add(fmt.Sprintf("%s-%d", name, k), i%10 == 0, func(pod *corev1.Pod) {
				pod.Labels[batchv1.JobNameLabel], pod.Labels[batchv1.JobCompletionIndexAnnotation] = name, strconv.Itoa(k)
				pod.OwnerReferences = owner("Job", name)
			})
		}
	}
	owners := []any{}
	for i := range mpiJobs {
		name, namespace := fmt.Sprintf("mpi-%04d", i), ""
		for k := range 2 {
			add(fmt.Sprintf("%s-%d", name, k), i%10 == 0, func(pod *corev1.Pod) {
				if namespace == "" {
					namespace = pod.Namespace
				}
				pod.Namespace, pod.OwnerReferences = namespace, owner("MPIJob", name)
				pod.Labels["training.kubeflow.org/job-name"], pod.Labels["training.kubeflow.org/operator-name"] = name, "mpi-operator"
				pod.Labels["training.kubeflow.org/job-role"] = []string{"launcher", "worker"}[k]
			})
		}
		owners = append(owners, map[string]any{
			"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": map[string]any{"namespace": namespace, "name": name, "uid": name},
			"spec": map[string]any{"mpiReplicaSpecs": map[string]any{"Worker": map[string]any{"replicas": 1}}},
		})
	}
	lists := map[string][]any{"/api/v1/pods": pods, "/apis/scheduling.tutti.dev/v1alpha1/podgroups": {}, mpiJobsPath: owners}
	m := &manyPods{requests: map[string]*atomic.Int32{}}
	for path := range lists {
		m.requests[path] = new(atomic.Int32)
	}
	m.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		all, known := lists[request.URL.Path]
		if !known {
			m.other.Add(1)
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`))
			return
		}
		m.requests[request.URL.Path].Add(1)
		m.page(t, w, request, all)
	}))
	t.Cleanup(m.Close)
	return m
}

// page answers with a page of what a list selects, as far as pods are selected by labels.
func (m *manyPods) page(t testing.TB, w http.ResponseWriter, request *http.Request, all []any) {
	query := request.URL.Query()
	selector, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		t.Error(err)
	}
	from, _ := strconv.Atoi(query.Get("continue"))
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil {
		t.Errorf("%s: a list without a limit", request.URL)
	}
	items, next := []any{}, ""
	for i := from; i < len(all) && next == ""; i++ {
		if pod, is := all[i].(corev1.Pod); is && !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if items = append(items, all[i]); len(items) == limit && i+1 < len(all) {
			next = strconv.Itoa(i + 1)
		}
	}
	kind := map[string]any{"items": items, "metadata": map[string]any{"continue": next}}
	if request.URL.Path == mpiJobsPath {
		kind["kind"], kind["apiVersion"] = "MPIJobList", "kubeflow.org/v2beta1"
	}
	if err := json.NewEncoder(w).Encode(kind); err != nil {
		t.Error(err)
	}
}

// status runs the command for all namespaces.
func (m *manyPods) status(t testing.TB) string {
	a := newClientFlags()
	a.now = func() time.Time { return time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC) }
	*a.KubeConfig, *a.APIServer, *a.Insecure, *a.BearerToken = os.DevNull, m.URL, true, "token"
	a.WithWrapConfigFn(func(config *rest.Config) *rest.Config {
		config.QPS = -1
		return config
	})
	command := newCommand(a)
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetArgs([]string{"status", "-A"})
	if err := command.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestStatusOfManyPods lists pods once, page by page, and the objects of the kinds that they name: nothing of each pod or object.
func TestStatusOfManyPods(t *testing.T) {
	const plain, jobs, mpiJobs = 10_000, 1_000, 1_000
	m := newManyPods(t, plain, jobs, mpiJobs)
	out := m.status(t)
	if lines, want := strings.Count(out, "\npod/")+strings.Count(out, "  pod/"), plain/10+jobs; lines != want {
		t.Errorf("%d pods are shown, want %d that wait", lines, want)
	}
	if n := strings.Count(out, "MPIJob/"); n != mpiJobs {
		t.Errorf("%d MPIJobs are shown", n)
	}
	all := plain + 10*jobs + 2*mpiJobs
	for path, most := range map[string]int{"/api/v1/pods": all/500 + 2, mpiJobsPath: mpiJobs / 500} {
		if n := int(m.requests[path].Load()); n > most {
			t.Errorf("%s: %d requests, want at most %d", path, n, most)
		}
	}
	if n := int(m.other.Load()); n > len(sources.All()) {
		t.Errorf("%d requests for other things", n)
	}
}

// BenchmarkStatus is the whole command against an API server in this process.
func BenchmarkStatus(b *testing.B) {
	for _, c := range []struct{ plain, jobs, mpiJobs int }{{10_000, 0, 0}, {10_000, 1_000, 0}, {0, 0, 1_000}, {0, 0, 10_000}} {
		b.Run(fmt.Sprintf("pods=%d/jobs=%d/mpijobs=%d", c.plain, c.jobs, c.mpiJobs), func(b *testing.B) {
			m := newManyPods(b, c.plain, c.jobs, c.mpiJobs)
			for b.Loop() {
				m.status(b)
			}
		})
	}
}
