package node

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"
)

// The configuration of a node's programs, as templates.
//
//go:embed files
var files embed.FS

// writeFiles makes the folder of a node, with the configuration of its programs.
func (m *Machine) writeFiles() error {
	for _, folder := range []string{"run", "lib/kubelet", "lib/containerd", "lib/cni", "log/pods", "log/containers", "etc/net.d"} {
		if err := os.MkdirAll(filepath.Join(m.dir, folder), 0o755); err != nil {
			return fmt.Errorf("folder: %w", err)
		}
	}
	templates, err := template.ParseFS(files, "files/*")
	if err != nil {
		return fmt.Errorf("files: %w", err)
	}
	for _, t := range templates.Templates() {
		path := filepath.Join(m.dir, "etc", t.Name())
		if filepath.Ext(path) == ".conflist" {
			path = filepath.Join(m.dir, "etc", "net.d", t.Name())
		}
		var text strings.Builder
		if err := t.Execute(&text, m.values()); err != nil {
			return fmt.Errorf("file %s: %w", t.Name(), err)
		}
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			return fmt.Errorf("file %s: %w", t.Name(), err)
		}
	}
	return nil
}

// values are what the templates are filled with.
func (m *Machine) values() map[string]any {
	return map[string]any{
		"Name": m.spec.Name, "Address": m.Address(), "Group": "/" + m.group(), "Etc": filepath.Join(m.dir, "etc"),
		"Pods": m.network.pods(m.index), "AllPods": "198.19.0.0/16", "DNS": m.network.Address(),
		"Kubeconfig": m.spec.Kubeconfig, "Server": m.spec.Server, "Programs": m.spec.Programs,
		"RestrictOOM": !mayRaise(), "Busybox": Busybox,
	}
}

// command is how a program of the node is started, and what succeeds when it is ready.
func (m *Machine) command(name string) (path string, args, ready []string) {
	etc := func(file string) string { return filepath.Join(m.dir, "etc", file) }
	switch name {
	case Containerd:
		return m.spec.Programs.Containerd, []string{"--config", etc("containerd.toml")}, []string{m.spec.Programs.Ctr, "version"}
	case Proxy:
		return m.spec.Programs.Proxy, []string{"--config", etc("kube-proxy.yaml"), "--v=1"}, []string{"bash", "-c", answers(10256)}
	}
	labels := make([]string, 0, len(m.spec.Labels))
	for name, value := range m.spec.Labels {
		labels = append(labels, name+"="+value)
	}
	sort.Strings(labels)
	return m.spec.Programs.Kubelet, []string{
		"--config", etc("kubelet.yaml"), "--kubeconfig", m.spec.Kubeconfig, "--hostname-override", m.spec.Name,
		"--node-ip", m.Address(), "--node-labels", strings.Join(labels, ","), "--v=2",
	}, []string{"bash", "-c", answers(10248)}
}

// answers is a command that succeeds when a port of the node answers /healthz with 200.
func answers(port int) string {
	return fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/%d && printf 'GET /healthz HTTP/1.0\r\n\r\n' >&3 && read -r line <&3 && [[ $line == *" 200 "* ]]`, port)
}

// mayRaise is whether this process may make the kernel end another process later than its parent (CAP_SYS_RESOURCE).
func mayRaise() bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	var effective uint64
	for line := range strings.Lines(string(status)) {
		if text, found := strings.CutPrefix(line, "CapEff:"); found {
			fmt.Sscanf(strings.TrimSpace(text), "%x", &effective)
		}
	}
	const capSysResource = 24
	return effective>>capSysResource&1 == 1
}
