package commit

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// TestReadAsksWhatAQuorumKnows: no resource version, which would let the server answer from its cache, and no other pod.
func TestReadAsksWhatAQuorumKnows(t *testing.T) {
	for name, c := range map[string]struct {
		uid, node string
		want      func(error) bool
	}{
		"there":       {"uid-a", "n", func(err error) bool { return err == nil }},
		"elsewhere":   {"uid-a", "m", func(err error) bool { return errors.Is(err, ErrElsewhere) }},
		"not bound":   {"uid-a", "", func(err error) bool { return errors.Is(err, ErrNotBound) }},
		"another pod": {"uid-b", "n", apierrors.IsNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || r.URL.Path != "/api/v1/namespaces/ns/pods/a" || r.URL.Query().Has("resourceVersion") {
					t.Errorf("request %s %s", r.Method, r.URL)
				}
				w.Header().Set("Content-Type", "application/json")
				if err := json.NewEncoder(w).Encode(&corev1.Pod{
					TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
					ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: types.UID(c.uid)},
					Spec:       corev1.PodSpec{NodeName: c.node},
				}); err != nil {
					t.Errorf("answer: %v", err)
				}
			}))
			defer server.Close()
			client, err := NewClient(ClientConfig(&rest.Config{Host: server.URL}), Reporter{})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if err := client.Do(t.Context(), Call{Kind: CallGetPod, Pod: pod("a"), Node: "n"}); !c.want(err) {
				t.Errorf("answer %v", err)
			}
		})
	}
}

func TestUndoNamesUID(t *testing.T) {
	s, client := serve(t, success)
	if err := client.Do(t.Context(), Call{Kind: CallDeleteStarted, Pod: pod("a"), Node: "n"}); err != nil {
		t.Fatal(err)
	}
	r := s.only(t)
	r.expect(t, "DELETE /api/v1/namespaces/ns/pods/a", "application/vnd.kubernetes.protobuf")
	options := decode(t, r.body, &metav1.DeleteOptions{})
	if *options.Preconditions.UID != "uid-a" || options.GracePeriodSeconds != nil {
		t.Errorf("options %+v", options)
	}
}
