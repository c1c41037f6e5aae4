package commit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// request is a request that a server got.
type request struct {
	line, query, contentType, userAgent string
	body                                []byte
}

// server answers with the result of the handler, nil being success, and keeps the requests.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	requests []request
}

func serve(t *testing.T, answer func() *metav1.Status) (*server, *Client) {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("request body: %v", err)
		}
		s.mu.Lock()
		s.requests = append(s.requests, request{
			r.Method + " " + r.URL.Path, r.URL.RawQuery, r.Header.Get("Content-Type"), r.UserAgent(), body,
		})
		s.mu.Unlock()
		status := answer()
		w.Header().Set("Content-Type", "application/json")
		if status == nil {
			status = &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}
		} else if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
			w.Header().Set("Retry-After", fmt.Sprint(status.Details.RetryAfterSeconds))
		}
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		w.WriteHeader(int(status.Code))
		if err := json.NewEncoder(w).Encode(status); err != nil {
			t.Errorf("answer: %v", err)
		}
	}))
	config := ClientConfig(&rest.Config{Host: s.URL})
	client, err := NewClient(config, Reporter{Controller: "tutti", Instance: "tutti-0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, client
}

func (s *server) only(t *testing.T) request {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) != 1 {
		t.Fatalf("requests: got %d, want exactly one", len(s.requests))
	}
	return s.requests[0]
}

func success() *metav1.Status { return nil }

func (r request) expect(t *testing.T, line, contentType string) {
	t.Helper()
	if r.line != line || r.contentType != contentType {
		t.Errorf("request: got %q as %q, want %q as %q", r.line, r.contentType, line, contentType)
	}
	if !strings.HasSuffix(r.userAgent, "/commit") {
		t.Errorf("user agent: got %q", r.userAgent)
	}
}

func decode[T runtime.Object](t *testing.T, body []byte, into T) T {
	t.Helper()
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, into); err != nil {
		t.Fatal(err)
	}
	return into
}

func TestBindNamesUIDAndNode(t *testing.T) {
	s, client := serve(t, success)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if err := client.Do(ctx, Call{Kind: CallBind, Pod: pod("a"), Node: "n"}); err != nil {
		t.Fatal(err)
	}
	r := s.only(t)
	r.expect(t, "POST /api/v1/namespaces/ns/pods/a/binding", runtime.ContentTypeProtobuf)
	binding := decode(t, r.body, &corev1.Binding{})
	if binding.UID != "uid-a" || binding.Name != "a" || binding.Target.Name != "n" || binding.Target.Kind != "Node" {
		t.Errorf("binding: got %+v", binding)
	}
}

// TestBindCarriesAnnotations: they are written with the node. Those of isolated CPUs are for the given version of the pod, and
// the job is named where marks of other projects name the group.
func TestBindCarriesAnnotations(t *testing.T) {
	isolated := &model.Isolation{Annotations: map[string]string{"x/y": "z"}, ResourceVersion: "7"}
	own := model.JobKey{Namespace: "default", Name: "train"}
	foreign := model.JobKey{Namespace: "default", Name: "train", Source: model.SourceJobSet}
	for _, c := range []struct {
		isolated *model.Isolation
		job      model.JobKey
		want     map[string]string
		version  string
	}{
		{nil, own, nil, ""},
		{isolated, own, map[string]string{"x/y": "z"}, "7"},
		{nil, foreign, map[string]string{v1alpha1.AnnotationJob: "default/train/JobSet 3"}, ""},
		{isolated, foreign, map[string]string{"x/y": "z", v1alpha1.AnnotationJob: "default/train/JobSet 3"}, "7"},
	} {
		s, client := serve(t, success)
		if err := client.Do(t.Context(), Call{Kind: CallBind, Pod: pod("a"), Node: "n", Isolated: c.isolated, Job: c.job, MinBinds: 3}); err != nil {
			t.Fatal(err)
		}
		binding := decode(t, s.only(t).body, &corev1.Binding{})
		if binding.UID != "uid-a" || binding.ResourceVersion != c.version || !maps.Equal(binding.Annotations, c.want) {
			t.Errorf("%v, isolated %t: binding: got %+v", c.job, c.isolated != nil, binding)
		}
	}
	if len(isolated.Annotations) != 1 {
		t.Errorf("what the decision shares is changed: %v", isolated.Annotations)
	}
}

func TestEvictionNamesUID(t *testing.T) {
	s, client := serve(t, success)
	if err := client.Do(t.Context(), Call{Kind: CallEvict, Pod: pod("a")}); err != nil {
		t.Fatal(err)
	}
	r := s.only(t)
	r.expect(t, "POST /api/v1/namespaces/ns/pods/a/eviction", runtime.ContentTypeProtobuf)
	eviction := decode(t, r.body, &policyv1.Eviction{})
	if eviction.Name != "a" || *eviction.DeleteOptions.Preconditions.UID != "uid-a" {
		t.Errorf("eviction: got %+v", eviction)
	}
}

// TestEvictionsAndDeletionsSayHowLongThePodMayTake where the decision does, and leave it to the pod where it does not.
func TestEvictionsAndDeletionsSayHowLongThePodMayTake(t *testing.T) {
	decided := model.Eviction{Pod: pod("a"), GraceSeconds: 300}
	undone := New(Options{})
	undone.Undo(start, model.JobKey{Namespace: "ns", Name: "j"}, []model.Eviction{decided})
	marked := evictionCall(start, model.JobKey{}, model.Eviction{Pod: pod("a"), GraceSeconds: 300, Method: model.ByDeletion})
	marked.Kind, marked.Write = CallDelete, nil // as the machine does once the mark is written
	for name, call := range map[string]Call{
		"evict": evictionCall(start, model.JobKey{}, decided), "delete": marked, "undo": undone.Calls(start)[0],
	} {
		s, client := serve(t, success)
		if err := client.Do(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		options := &metav1.DeleteOptions{}
		if call.Kind == CallEvict {
			options = decode(t, s.only(t).body, &policyv1.Eviction{}).DeleteOptions
		} else {
			options = decode(t, s.only(t).body, options)
		}
		if *options.Preconditions.UID != "uid-a" || options.GracePeriodSeconds == nil || *options.GracePeriodSeconds != 300 {
			t.Errorf("%s: got %+v", name, options)
		}
	}
}

func TestDeletionNamesUIDAndLeavesTheGraceToThePod(t *testing.T) {
	s, client := serve(t, success)
	if err := client.Do(t.Context(), Call{Kind: CallDelete, Pod: pod("a")}); err != nil {
		t.Fatal(err)
	}
	r := s.only(t)
	r.expect(t, "DELETE /api/v1/namespaces/ns/pods/a", runtime.ContentTypeProtobuf)
	options := decode(t, r.body, &metav1.DeleteOptions{})
	if *options.Preconditions.UID != "uid-a" || options.GracePeriodSeconds != nil {
		t.Errorf("options: got %+v", options)
	}
}

func TestPatchesOfPodsOnTheWire(t *testing.T) {
	mark := evictionCall(start, model.JobKey{Namespace: "ns", Name: "a", Source: model.SourcePod}, model.Eviction{Pod: pod("v"), Method: model.ByDeletion})
	mark.Write.(*PodCondition).Condition.LastTransitionTime = metav1.Time{} // its zone is the machine's
	for name, test := range map[string]struct {
		call Call
		body string
	}{
		"promise": {
			Call{Kind: CallNominate, Pod: pod("v"), Node: "n"}, `{"metadata":{"uid":"uid-v"},"status":{"nominatedNodeName":"n"}}`,
		},
		"nomination taken back": {
			Call{Kind: CallNominate, Pod: pod("v")}, `{"metadata":{"uid":"uid-v"},"status":{"nominatedNodeName":null}}`,
		},
		"mark": {
			mark, `{"metadata":{"uid":"uid-v"},"status":{"conditions":[{"type":"DisruptionTarget","status":"True","lastProbeTime":null,` +
				`"lastTransitionTime":null,"reason":"PreemptionByScheduler","message":"deleted to free capacity for pod ns/a"}]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, client := serve(t, success)
			if err := client.Do(t.Context(), test.call); err != nil {
				t.Fatal(err)
			}
			r := s.only(t)
			r.expect(t, "PATCH /api/v1/namespaces/ns/pods/v/status", "application/strategic-merge-patch+json")
			if string(r.body) != test.body {
				t.Errorf("body:\n got %s\nwant %s", r.body, test.body)
			}
			if named := r.query == "fieldManager="+model.NominationManager; named != (test.call.Kind == CallNominate) {
				t.Errorf("query %q: nominations, and no other patch, have a field manager of their own", r.query)
			}
		})
	}
}

// TestRefusalsOnTheWire: the bodies are those of a kube-apiserver 1.37.
func TestRefusalsOnTheWire(t *testing.T) {
	status := func(text string) *metav1.Status {
		status := &metav1.Status{}
		if err := json.Unmarshal([]byte(text), status); err != nil {
			t.Fatal(err)
		}
		return status
	}
	for name, test := range map[string]struct {
		kind Kind
		body string
		want verdict
	}{
		"a budget says no": {CallEvict, `{"status":"Failure","message":"Cannot evict pod as it would violate the pod's disruption budget.",
			"reason":"TooManyRequests","details":{"causes":[{"reason":"DisruptionBudget",
			"message":"The disruption budget b needs 1 healthy pods and has 1 currently"}]},"code":429}`, verdict{class: refused, protected: true}},
		"a budget is being worked out": {CallEvict, `{"status":"Failure","message":"Cannot evict pod as it would violate the pod's disruption budget.",
			"reason":"TooManyRequests","details":{"causes":[{"reason":"DisruptionBudget",
			"message":"The disruption budget b is still being processed by the server."}],"retryAfterSeconds":10},"code":429}`,
			verdict{class: refused, protected: true, retryAfter: 10 * time.Second}},
		"a budget that allows less than none": {CallEvict, `{"status":"Failure","message":"poddisruptionbudgets.policy \"b\" is forbidden: pdb disruptions ` +
			`allowed is negative","reason":"Forbidden","details":{"causes":[{"reason":"DisruptionBudget","message":"The disruption budget b does ` +
			`not allow evicting pods currently: pdb disruptions allowed is negative"}]},"code":403}`, verdict{class: refused, protected: true}},
		"a right that is missing": {CallEvict, `{"status":"Failure","message":"no","reason":"Forbidden","code":403}`, verdict{class: refused}},
		"several budgets": {CallEvict, `{"status":"Failure","message":"This pod has more than one PodDisruptionBudget, which the eviction ` +
			`subresource does not support.","code":500}`, verdict{class: refused, protected: true}},
		"a budget that changes too fast": {CallEvict, `{"status":"Failure","message":"Timeout: couldn't update PodDisruptionBudget \"b\" due to conflicts",
			"reason":"Timeout","details":{"retryAfterSeconds":10},"code":504}`, verdict{class: unknown, retryAfter: 10 * time.Second}},
		"another pod, evicted": {CallEvict, `{"status":"Failure","message":"Operation cannot be fulfilled on Pod \"v\": the UID in the precondition (a) ` +
			`does not match the UID in record (b). The object might have been deleted and then recreated","reason":"Conflict","code":409}`,
			verdict{class: gone}},
		"another pod, patched": {CallNominate, `{"status":"Failure","message":"Pod \"v\" is invalid: metadata.uid: Invalid value: \"b\": field is ` +
			`immutable","reason":"Invalid","details":{"name":"v","kind":"Pod","causes":[{"reason":"FieldValueInvalid","message":"Invalid value: ` +
			`\"b\": field is immutable","field":"metadata.uid"}]},"code":422}`, verdict{class: gone}},
		"a pod that is bound": {CallNominate, `{"status":"Failure","message":"Pod \"v\" is invalid: status.nominatedNodeName: Forbidden: may not be ` +
			`set on pods that are already bound to a node","reason":"Invalid","details":{"name":"v","kind":"Pod","causes":[{"reason":"FieldValueForbidden",` +
			`"message":"Forbidden: may not be set on pods that are already bound to a node","field":"status.nominatedNodeName"}]},"code":422}`,
			verdict{class: refused}},
		"a conflict with another write": {CallDelete, `{"status":"Failure","message":"Operation cannot be fulfilled on pods \"v\": the object has ` +
			`been modified; please apply your changes to the latest version and try again","reason":"Conflict","code":409}`,
			verdict{class: rejected}},
		"no pod":    {CallDelete, `{"status":"Failure","message":"pods \"v\" not found","reason":"NotFound","code":404}`, verdict{class: gone}},
		"no rights": {CallDelete, `{"status":"Failure","message":"pods \"v\" is forbidden","reason":"Forbidden","code":403}`, verdict{class: refused}},
	} {
		t.Run(name, func(t *testing.T) {
			_, client := serve(t, func() *metav1.Status { return status(test.body) })
			err := client.Do(t.Context(), Call{Kind: test.kind, Pod: pod("v"), Node: "n"})
			if got := classify(test.kind, err); got != test.want {
				t.Errorf("%v is read as %+v, want %+v", err, got, test.want)
			}
		})
	}
}

// foreignCondition sets the condition of a group of another project that has a status, and nothing of its phase.
func foreignCondition(condition *ForeignCondition) *ForeignStatus {
	write := foreign("g", "").(*ForeignStatus)
	write.HasStatus, write.Condition = true, condition
	return write
}

// TestConditionsOfOthersKeepTheirPlaces: the patch is applied to lists with conditions of other writers.
func TestConditionsOfOthersKeepTheirPlaces(t *testing.T) {
	const other, ours = `{"type":"Other","status":"x"}`, `{"lastTransitionTime":"then","message":"old","reason":"old","status":"True","transitionID":"old","type":"Unschedulable"}`
	then := metav1.Unix(0, 0)
	again := &ForeignCondition{Replaces: "Unschedulable", Was: "True", Type: "Unschedulable", Status: "True", Reason: "r", Message: "m"}
	turned := &ForeignCondition{Replaces: "Unschedulable", Was: "True", Type: "Scheduled", Status: "True", TransitionID: "id", LastTransitionTime: then, Reason: "r", Message: "m"}
	added := &ForeignCondition{Type: "Scheduled", Status: "True", TransitionID: "id", LastTransitionTime: then, Reason: "r", Message: "m"}
	const whole = `{"type":"Scheduled","status":"True","transitionID":"id","lastTransitionTime":"1970-01-01T00:00:00Z","reason":"r","message":"m"}`
	for name, c := range map[string]struct {
		condition *ForeignCondition
		at        int
		listed    bool
		status    string
		// conditions are those afterwards; empty is a patch that is refused.
		conditions string
	}{
		"the first":                   {added, 0, false, `{}`, `[` + whole + `]`},
		"added":                       {added, 0, true, `{"conditions":[` + other + `]}`, `[` + other + `,` + whole + `]`},
		"added to an empty list":      {added, 0, true, `{"conditions":[]}`, `[` + whole + `]`},
		"turned":                      {turned, 1, true, `{"conditions":[` + other + `,` + ours + `,` + other + `]}`, `[` + other + `,` + whole + `,` + other + `]`},
		"the same with other words":   {again, 0, true, `{"conditions":[` + ours + `]}`, `[` + strings.ReplaceAll(strings.Replace(ours, `"message":"old","reason":"old"`, `"message":"m","reason":"r"`, 1), " ", "") + `]`},
		"another writer was first":    {added, 0, false, `{"conditions":[` + other + `]}`, ""},
		"one before it has gone":      {turned, 1, true, `{"conditions":[` + ours + `]}`, ""},
		"one before it was added":     {turned, 0, true, `{"conditions":[` + other + `,` + ours + `]}`, ""},
		"one before it was added, 2":  {again, 0, true, `{"conditions":[` + other + `,` + ours + `]}`, ""},
		"the list has gone":           {again, 0, true, `{}`, ""},
		"another writer turned it":    {again, 0, true, `{"conditions":[` + strings.Replace(ours, `"status":"True"`, `"status":"False"`, 1) + `]}`, ""},
		"another writer turned it, 2": {turned, 0, true, `{"conditions":[` + strings.Replace(ours, `"status":"True"`, `"status":"False"`, 1) + `]}`, ""},
	} {
		condition := *c.condition
		condition.At = c.at
		write := foreignCondition(&condition)
		write.HasConditions = c.listed
		s, client := serve(t, success)
		kind, _, _ := write.about()
		if err := client.Do(t.Context(), Call{Kind: kind, Write: write}); err != nil {
			t.Fatal(err)
		}
		patch, err := jsonpatch.DecodePatch(s.only(t).body)
		if err != nil {
			t.Fatal(err)
		}
		after, err := patch.Apply([]byte(`{"metadata":{"uid":"uid-foreign-g"},"status":` + c.status + `}`))
		var got struct {
			Status struct{ Conditions json.RawMessage }
		}
		if err == nil {
			err = json.Unmarshal(after, &got)
		}
		var wanted, found any
		if c.conditions == "" {
			if err == nil {
				t.Errorf("%s: the patch is applied: %s", name, after)
			}
			continue
		}
		if err := errors.Join(err, json.Unmarshal([]byte(c.conditions), &wanted), json.Unmarshal(got.Status.Conditions, &found)); err != nil || !reflect.DeepEqual(wanted, found) {
			t.Errorf("%s: %v, the conditions are %s, want %s", name, err, got.Status.Conditions, c.conditions)
		}
	}
}

func TestWritesOnTheWire(t *testing.T) {
	long := strings.Repeat("ä", 600)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	happening := event("a", "Scheduled", long).(*Event)
	happening.At = at
	numbers := foreignCondition(nil)
	numbers.Counts = &ForeignCounts{Running: 1, Succeeded: 2, Failed: 3}
	native := foreignCondition(&ForeignCondition{
		Replaces: "T", Was: "False", Type: "T", Status: "True", LastTransitionTime: metav1.Unix(0, 0), Reason: "r", Message: "m",
	})
	native.Resource = schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups")
	native.HasConditions, native.Subresource = true, true
	onNode := &Event{Regarding: corev1.ObjectReference{Kind: "Node", Name: "n"}, Reason: "R"}
	tests := map[string]struct {
		write             Write
		line, contentType string
		body              string
	}{
		"group status": {
			group("g", 3), "PATCH /apis/scheduling.tutti.dev/v1alpha1/namespaces/ns/podgroups/g/status",
			"application/json-patch+json",
			`[{"op":"test","path":"/metadata/uid","value":"uid-group-g"},` +
				`{"op":"add","path":"/status","value":{"members":0,"placed":3,"running":0,"succeeded":0,"failed":0}}]`,
		},
		"first status of a group of another project": {
			foreign("g", "Inqueue"), "PATCH /apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups/g", "application/json-patch+json",
			`[{"op":"test","path":"/metadata/uid","value":"uid-foreign-g"},{"op":"test","path":"/status","value":null},` +
				`{"op":"add","path":"/status","value":{}},{"op":"add","path":"/status/phase","value":"Inqueue"}]`,
		},
		"numbers of a group of another project": {
			numbers, "PATCH /apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups/g", "application/json-patch+json",
			`[{"op":"test","path":"/metadata/uid","value":"uid-foreign-g"},{"op":"add","path":"/status/running","value":1},` +
				`{"op":"add","path":"/status/succeeded","value":2},{"op":"add","path":"/status/failed","value":3}]`,
		},
		"first condition of a group of another project": {
			foreignCondition(&ForeignCondition{Type: "T", Status: "True", TransitionID: "id", Reason: "r", Message: "m"}),
			"PATCH /apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups/g", "application/json-patch+json",
			`[{"op":"test","path":"/metadata/uid","value":"uid-foreign-g"},{"op":"test","path":"/status/conditions","value":null},` +
				`{"op":"add","path":"/status/conditions","value":[` +
				`{"type":"T","status":"True","transitionID":"id","lastTransitionTime":null,"reason":"r","message":"m"}]}]`,
		},
		"condition of a group of Kubernetes": {
			native, "PATCH /apis/scheduling.k8s.io/v1beta1/namespaces/ns/podgroups/g/status", "application/json-patch+json",
			`[{"op":"test","path":"/metadata/uid","value":"uid-foreign-g"},{"op":"test","path":"/status/conditions/0/type","value":"T"},` +
				`{"op":"test","path":"/status/conditions/0/status","value":"False"},{"op":"replace","path":"/status/conditions/0","value":` +
				`{"type":"T","status":"True","lastTransitionTime":"1970-01-01T00:00:00Z","reason":"r","message":"m"}}]`,
		},
		"queue status": {
			queueStatus("q", 3), "PATCH /apis/scheduling.tutti.dev/v1alpha1/queues/q/status",
			"application/json-patch+json",
			`[{"op":"test","path":"/metadata/uid","value":"uid-queue-q"},{"op":"add","path":"/status","value":{"waiting":0,"running":3}}]`,
		},
		"pod condition": {
			condition("a", "waits"), "PATCH /api/v1/namespaces/ns/pods/a/status",
			"application/strategic-merge-patch+json",
			`{"metadata":{"uid":"uid-a"},"status":{"conditions":[{"type":"PodScheduled","status":"False",` +
				`"lastProbeTime":null,"lastTransitionTime":null,"message":"waits"}]}}`,
		},
		"deletion of a group": {
			deletion("g"), "DELETE /apis/scheduling.tutti.dev/v1alpha1/namespaces/ns/podgroups/g", runtime.ContentTypeJSON,
			`{"kind":"DeleteOptions","apiVersion":"scheduling.tutti.dev/v1alpha1","preconditions":{"uid":"uid-group-g","resourceVersion":"7"},` +
				`"propagationPolicy":"Background"}` + "\n",
		},
		"event": {happening, "POST /apis/events.k8s.io/v1/namespaces/ns/events", runtime.ContentTypeProtobuf, ""},
		"event about an object without a namespace": {
			onNode, "POST /apis/events.k8s.io/v1/namespaces/default/events", runtime.ContentTypeProtobuf, "",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, client := serve(t, success)
			kind, _, _ := test.write.about()
			if err := client.Do(t.Context(), Call{Kind: kind, Write: test.write}); err != nil {
				t.Fatal(err)
			}
			r := s.only(t)
			r.expect(t, test.line, test.contentType)
			if test.body != "" && string(r.body) != test.body {
				t.Errorf("body:\n got %s\nwant %s", r.body, test.body)
			}
			if test.write == happening {
				event := decode(t, r.body, &eventsv1.Event{})
				if len(event.Note) > 1024 || len(event.Note) < 1020 || event.ReportingController != "tutti" || event.ReportingInstance != "tutti-0" ||
					!event.EventTime.Equal(&metav1.MicroTime{Time: at}) || event.Name != eventName(happening) {
					t.Errorf("event: got %+v", event)
				}
			}
		})
	}
}

func TestEventNames(t *testing.T) {
	one := event("a", "Scheduled", "x").(*Event)
	other := *one
	other.At = start
	if eventName(one) == eventName(&other) {
		t.Errorf("two events are named %q", eventName(one))
	}
	other.Regarding.Name = strings.Repeat("x", 235) + "." + strings.Repeat("y", 17)
	if name := eventName(&other); len(name) > 253 || strings.Contains(name, "..") {
		t.Errorf("name %q has %d bytes", name, len(name))
	}
}

// TestClientNeitherWaitsNorRepeats: a server that replies with Retry-After gets one request, and the machine gets the delay.
func TestClientNeitherWaitsNorRepeats(t *testing.T) {
	for _, code := range []int32{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		s, client := serve(t, func() *metav1.Status {
			return &metav1.Status{
				Status: metav1.StatusFailure, Code: code, Reason: metav1.StatusReasonTooManyRequests,
				Details: &metav1.StatusDetails{RetryAfterSeconds: 9},
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := client.Do(ctx, Call{Kind: CallBind, Pod: pod("a"), Node: "n"})
		if ctx.Err() != nil {
			t.Errorf("%d: waited", code)
		}
		s.only(t)
		if v := classify(CallBind, err); v.retryAfter != 9*time.Second || v.class == refused {
			t.Errorf("%d: verdict %+v of %v", code, v, err)
		}
	}
}

func TestErrorsFromTheWire(t *testing.T) {
	s, client := serve(t, success)
	s.Close()
	bind := Call{Kind: CallBind, Pod: pod("a"), Node: "n"}
	if err := client.Do(t.Context(), bind); classify(CallBind, err).class != rejected {
		t.Errorf("no listener: %v is read as %v, want never sent", err, classify(CallBind, err))
	}
	_, client = serve(t, func() *metav1.Status { panic(http.ErrAbortHandler) })
	if err := client.Do(t.Context(), bind); classify(CallBind, err).class != unknown {
		t.Errorf("broken off: %v is read as %v, want unknown", err, classify(CallBind, err))
	}
	if err := client.Do(t.Context(), Call{Kind: kinds}); err == nil {
		t.Error("a call of no kind: no error")
	}
	if _, err := NewClient(&rest.Config{Host: "://"}, Reporter{}); err == nil {
		t.Error("a configuration that is no good: no error")
	}
}

func TestClientConfigIsACopyWithoutThrottle(t *testing.T) {
	given := &rest.Config{Host: "h", QPS: 5, UserAgent: "given"}
	config := ClientConfig(given)
	if config.QPS >= 0 || given.QPS != 5 || given.UserAgent != "given" {
		t.Errorf("got %+v from %+v", config, given)
	}
	client, err := NewClient(config, Reporter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []rest.Interface{client.core, client.events, client.groups} {
		if part.GetRateLimiter() != nil {
			t.Errorf("%s: is throttled", part.APIVersion())
		}
	}
}

// TestTogether: the machine, the driver and the client together bind everything, with one request each, and end empty.
func TestTogether(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s, client := serve(t, success)
	replies := make(chan Reply, 100)
	driver := NewDriver(client, DriverOptions{Workers: 8}, func(r Reply) { replies <- r })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { driver.Run(ctx); close(ended) }()

	const pods = 300
	var names []string
	for n := range pods {
		names = append(names, fmt.Sprintf("p%d", n))
	}
	machine := New(Options{Workers: 32})
	machine.Submit(start, binds("j", names...))
	var last Outcome
	for !machine.Idle() {
		for _, call := range machine.Calls(start) {
			driver.Send(call)
		}
		for _, outcome := range machine.Reply(start, <-replies) {
			last = outcome
		}
	}
	cancel()
	<-ended
	if last.Kind != Committed || last.Bound != pods || len(s.requests) != pods {
		t.Errorf("got %+v after %d requests, want %d pods bound by as many", last, len(s.requests), pods)
	}
	client.Close()
	s.Close()
	goleak.VerifyNone(t, before)
}

func TestErrorsKeepTheirKind(t *testing.T) {
	_, client := serve(t, func() *metav1.Status {
		return &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound}
	})
	err := client.Do(t.Context(), Call{Kind: CallBind, Pod: pod("a"), Node: "n"})
	if errors.Unwrap(err) == nil || classify(CallBind, err).class != gone {
		t.Errorf("got %v, want a wrapped not found", err)
	}
}
