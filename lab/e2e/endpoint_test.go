package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/demo/release"
	"github.com/tutti-sched/tutti/lab/harness"
)

// freeAddress is an address on the loopback interface that no process listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := cluster.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// accountWith makes a ServiceAccount that is bound to a ClusterRole of the chart, to none when that is empty, and returns a
// token.
func accountWith(t *testing.T, lab *harness.Env, name, role string) (token string) {
	t.Helper()
	const namespace = metav1.NamespaceDefault
	lab.Create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	if role != "" {
		lab.Create(t, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
		})
	}
	return tokenOf(t, lab, namespace, name)
}

// tokenOf returns a token of an account, for the API server unless an audience is given.
func tokenOf(t *testing.T, lab *harness.Env, namespace, name string, audiences ...string) string {
	t.Helper()
	request, err := lab.Clientset.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// withoutVerification connects to a scheduler that has made a certificate of its own.
func withoutVerification() *http.Transport {
	return &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
}

// status is what an endpoint answers to who sends a token, or none.
func status(t *testing.T, address, path, token string) (int, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := withoutVerification()
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}

// assertGuarded wants the endpoint of a scheduler that runs as the chart has it to answer the accounts that may read
// it, and no other caller.
func assertGuarded(t *testing.T, lab *harness.Env, address string) {
	t.Helper()
	tokens := map[string]string{
		"no token": "", "a forged token": "eyJhbGciOiJub25lIn0.e30.", "an account": accountWith(t, lab, "stranger", ""),
		"an account, for the scheduler":   tokenOf(t, lab, metav1.NamespaceDefault, "stranger", debugapi.Audience),
		"Prometheus":                      accountWith(t, lab, "prometheus", "tutti-scheduler-metrics"),
		"kubectl tutti":                   tokenOf(t, lab, release.Namespace, debugapi.Account, debugapi.Audience),
		"its account, for the API server": tokenOf(t, lab, release.Namespace, debugapi.Account),
	}
	const yes, unknown, no = http.StatusOK, http.StatusUnauthorized, http.StatusForbidden
	for who, want := range map[string]struct{ metrics, debug int }{
		"no token": {unknown, unknown}, "a forged token": {unknown, unknown}, "an account": {no, unknown},
		"an account, for the scheduler": {unknown, no}, "Prometheus": {yes, unknown}, "kubectl tutti": {unknown, yes},
		"its account, for the API server": {no, unknown},
	} {
		for path, want := range map[string]int{
			"/metrics": want.metrics, "/debug/nodes": want.debug, "/debug/cycles": want.debug, "/debug/config": want.debug,
			"/debug/jobs": want.debug, "/debug/queues": want.debug, "/debug/domains": want.debug,
		} {
			lab.Eventually(t, func() error { // it may not listen yet
				got, err := status(t, address, path, tokens[who])
				if err == nil && got != want {
					err = fmt.Errorf("%s asks for %s: status %d, want %d", who, path, got, want)
				}
				return err
			})
		}
	}
}
