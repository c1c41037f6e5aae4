package extender

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
)

// read reads arguments; the first of their lines is line 6.
func read(t *testing.T, text string) ([]Options, error) {
	t.Helper()
	file := "actions: allocate\ntiers:\n- plugins:\n  - name: extender\n    arguments:\n" + text
	known := config.Known{Actions: []string{"allocate"}, Plugins: []string{Name}}
	configuration, _, err := config.Decode("f", []byte(file), known)
	if err != nil {
		t.Fatalf("%v\n%s", err, file)
	}
	reader := configuration.Tiers[0].Plugins[0].Arguments.Reader()
	return ReadArguments(reader), reader.Finish()
}

func TestReadArguments(t *testing.T) {
	got, err := read(t, `
      extenders:
      - urlPrefix: https://gpu.example.com:8888/scheduler
        filterVerb: filter
        prioritizeVerb: prioritize
        preemptVerb: preempt
        bindVerb: bind
        weight: 5
        enableHTTPS: true
        tlsConfig:
          serverName: gpu
          caFile: /etc/ca.crt
          certFile: /etc/tls.crt
          keyFile: /etc/tls.key
        httpTimeout: 30s
        nodeCacheCapable: true
        managedResources:
        - name: example.com/gpu-mem
          ignoredByScheduler: true
        - name: example.com/nic
        ignorable: true
        maxResponseBytes: 1Mi
        distinguishBy: [b, a]
      - {urlPrefix: http://x, filterVerb: f}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []Options{
		{
			URLPrefix: "https://gpu.example.com:8888/scheduler", FilterVerb: "filter", PrioritizeVerb: "prioritize", PreemptVerb: "preempt",
			BindVerb: "bind", Weight: 5, Timeout: 30 * time.Second, MaxResponseBytes: 1 << 20, NodeCacheCapable: true, Ignorable: true,
			TLS:              TLS{ServerName: "gpu", CAFile: "/etc/ca.crt", CertFile: "/etc/tls.crt", KeyFile: "/etc/tls.key"},
			ManagedResources: []ManagedResource{{"example.com/gpu-mem", true}, {"example.com/nic", false}},
			DistinguishBy:    []string{"a", "b"},
		},
		{URLPrefix: "http://x", FilterVerb: "f", Timeout: 5 * time.Second, MaxResponseBytes: 32 << 20},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}

// TestTheDocumentedExampleIsGood reads it from the documentation.
func TestTheDocumentedExampleIsGood(t *testing.T) {
	page, err := os.ReadFile("../../../docs/plugins/extender.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(page), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		if !strings.Contains(text, "extenders:") {
			continue
		}
		configuration, _, err := config.Decode("docs", []byte(text), config.Known{
			Actions: []string{"allocate", "backfill", "preempt"},
			Plugins: []string{"priority", "gang", "conformance", "predicates", "nodeorder", Name},
		})
		if err != nil {
			t.Fatal(err)
		}
		reader := configuration.Tiers[1].Plugins[2].Arguments.Reader()
		options := ReadArguments(reader)
		if err := reader.Finish(); err != nil {
			t.Fatal(err)
		}
		if _, err := New(options); err != nil || len(options) != 1 {
			t.Errorf("%d extenders, %v", len(options), err)
		}
		return
	}
	t.Error("there is no example")
}

func TestReadArgumentsRefuses(t *testing.T) {
	const withCredentials = `argument extenders[0].urlPrefix must hold no user and password: a configuration is no place for credentials; ` +
		`name a certFile and a keyFile in tlsConfig`
	for _, c := range []struct{ text, want string }{
		{`{}`, `f:4: plugin extender: argument extenders is missing`},
		{`{extenders: []}`, `f:6: plugin extender: argument extenders must name at least one extender, not a list`},
		{`{urlPrefix: http://x}`, `f:4: plugin extender: argument extenders is missing` + "\n" +
			`f:6: plugin extender: unknown argument "urlPrefix"; it takes extenders`},
		{`{extenders: [{filterVerb: f}]}`, `argument extenders[0].urlPrefix is missing`},
		{`{extenders: [{urlPrefix: x, filterVerb: f}]}`,
			`argument extenders[0].urlPrefix must be a URL that begins with http:// or https://, not "x"`},
		{`{extenders: [{urlPrefix: "http://x?a=b", filterVerb: f}]}`,
			`argument extenders[0].urlPrefix must end in a path, since the verb is put behind it, not "http://x?a=b"`},
		{`{extenders: [{urlPrefix: http://x}]}`,
			`argument extenders[0].urlPrefix must come with a filterVerb, a prioritizeVerb, a preemptVerb or a bindVerb, not "http://x"`},
		{`{extenders: [{urlPrefix: http://x, prioritizeVerb: p}]}`, `argument extenders[0].weight is missing`},
		{`{extenders: [{urlPrefix: http://x, prioritizeVerb: p, weight: 0}]}`,
			`argument extenders[0].weight must be at least 1 when there is a prioritizeVerb, not "0"`},
		{`{extenders: [{urlPrefix: http://x, fliterVerb: f, filterVerb: f}]}`,
			`unknown argument "fliterVerb" in extenders[0]; did you mean "filterVerb"?`},
		{`{extenders: [{urlPrefix: http://x, filterVerb: f, httpTimeout: 5}]}`,
			`argument extenders[0].httpTimeout must be a time span with its unit, such as 90s or 10m, not "5"`},
		{`{extenders: [{urlPrefix: http://x, filterVerb: f, httpTimeout: 31s}]}`,
			`argument extenders[0].httpTimeout must not be longer than 30s, since all jobs wait for an answer, not "31s"`},
		{`{extenders: [{urlPrefix: http://x, filterVerb: f, maxResponseBytes: much}]}`,
			`argument extenders[0].maxResponseBytes must be a number of bytes such as 32Mi, at least 1, not "much"`},
		{`{extenders: [{urlPrefix: http://x, filterVerb: f, managedResources: [{name: cpu}]}]}`,
			`argument extenders[0].managedResources[0].name must be an extended resource, such as example.com/device, not "cpu"`},
		{`{extenders: [{urlPrefix: http://x, filterVerb: f, managedResources: [{name: a.b/c}, {name: a.b/c}]}]}`,
			`argument extenders[0].managedResources[1].name must be another one each time, not "a.b/c"`},
		{`{extenders: [{urlPrefix: http://x, filterVerb: f, managedResources: [a.b/c]}]}`,
			`argument extenders[0].managedResources[0] must be a mapping of names to values, not "a.b/c"`},
		{`{extenders: [{urlPrefix: http://x, filterVerb: f}, {urlPrefix: http://x/, filterVerb: f}]}`,
			`argument extenders[1].urlPrefix must be another one for each extender, since refusals and binds name it, not "http://x/"`},
		{`{extenders: [{urlPrefix: http://x, bindVerb: f}, {urlPrefix: http://y, bindVerb: f}]}`,
			`argument extenders[1].bindVerb must be given to one extender only, not "f"`},
		{`{extenders: [{urlPrefix: http://x, bindVerb: f, managedResources: [{name: a.b/c}]}, {urlPrefix: http://y, filterVerb: f, managedResources: [{name: a.b/c}]}]}`,
			`argument extenders[1].managedResources must not name a.b/c, which another extender manages, not a list`},
		{`{extenders: [{urlPrefix: http://x, filterVerb: f, enableHTTPS: true, tlsConfig: {insecure: true}}]}`,
			`argument extenders[0].enableHTTPS must go with a urlPrefix that begins with https://, not "true"`},
		{`{extenders: [{urlPrefix: https://x, filterVerb: f, enableHTTPS: true}]}`,
			`argument extenders[0].enableHTTPS must go with a caFile in tlsConfig, or with insecure: true, which is what it means without one, not "true"`},
		{`{extenders: [{urlPrefix: https://x, filterVerb: f, tlsConfig: {insecure: true, caFile: f}}]}`,
			`argument extenders[0].tlsConfig.insecure must be false when there is a caFile, not "true"`},
		{`{extenders: [{urlPrefix: https://x, filterVerb: f, tlsConfig: {certFile: f}}]}`,
			`argument extenders[0].tlsConfig.certFile must go with a keyFile, not "f"`},
		{`{extenders: [{urlPrefix: https://x, filterVerb: f, tlsConfig: {caData: f}}]}`,
			`argument extenders[0].tlsConfig.caData must be left out: a configuration is no place for keys; name a file`},
		{`{extenders: [{urlPrefix: "https://user:secret@x/p", filterVerb: f}]}`, withCredentials},
		{`{extenders: [{urlPrefix: "https://secret@x", filterVerb: f}]}`, withCredentials},
		{`{extenders: [{urlPrefix: "https://user:se cret@x", filterVerb: f}]}`, withCredentials},
	} {
		want := c.want
		if !strings.HasPrefix(want, "f:") {
			want = "f:6: plugin extender: " + want
		}
		if _, err := read(t, "      "+c.text+"\n"); fmt.Sprint(err) != want {
			t.Errorf("%s:\ngot  %v\nwant %s", c.text, err, want)
		}
	}
}
