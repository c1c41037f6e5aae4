package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		command := newCommand(newClientFlags())
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
