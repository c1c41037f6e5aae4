package release

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/process"
)

// startTimeout is how long the scheduler may take to become ready.
const startTimeout = time.Minute

// Start runs the scheduler program as the release has it, beside the cluster, and returns when it is ready. Three things
// differ from a pod: a kubeconfig carries the token, mounted files lie elsewhere, and the ports are free ones of the
// loopback interface.
func (r *Release) Start(ctx context.Context, c *cluster.Cluster, name, program string) (*process.Process, error) {
	kubeconfig, err := c.KubeconfigFor(ctx, Namespace, r.ServiceAccount)
	if err != nil {
		return nil, err
	}
	health, err := freeAddress()
	if err != nil {
		return nil, err
	}
	args, err := r.localArgs(filepath.Join(c.Dir(), name), health)
	if err != nil {
		return nil, err
	}
	p, err := c.Run(name, program, append(args, "--kubeconfig="+kubeconfig)...)
	if err != nil {
		return nil, err
	}
	if err := cluster.WaitReady(ctx, p, "http://"+health+"/readyz", startTimeout); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// localArgs are the release's arguments with mounted paths replaced by copies below dir, and addresses by local ones.
func (r *Release) localArgs(dir, health string) ([]string, error) {
	args := make([]string, len(r.Args))
	for i, arg := range r.Args {
		flag, value, _ := strings.Cut(arg, "=")
		switch flag {
		case "--health-probe-bind-address":
			value = health
		case "--metrics-bind-address":
			value = "127.0.0.1:0"
		default:
			local, err := r.localFile(dir, value)
			if err != nil {
				return nil, err
			}
			if local == "" {
				args[i] = arg
				continue
			}
			value = local
		}
		args[i] = flag + "=" + value
	}
	return args, nil
}

// localFile writes the mounted file that an argument names below dir and returns its path, or empty if the argument
// names none.
func (r *Release) localFile(dir, value string) (string, error) {
	for _, m := range r.mounts {
		key, inside := strings.CutPrefix(value, m.path+"/")
		if !inside {
			continue
		}
		text, found := m.data[key]
		if !found {
			return "", fmt.Errorf("argument %s: the config map has no key %s", value, key)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", fmt.Errorf("folder of mounted files: %w", err)
		}
		path := filepath.Join(dir, key)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return "", fmt.Errorf("mounted file: %w", err)
		}
		return path, nil
	}
	return "", nil
}

// freeAddress is an address on the loopback interface that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}
