package cluster

import (
	"context"
	"crypto/tls"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/process"
)

// Patience is how long anything in the lab is waited for that must come: it tells what never comes from what a slow machine takes
// long for, and says nothing about how long something may take. On an idle machine no wait takes more than a minute or so.
const Patience = 10 * time.Minute

//go:embed stages/*.yaml
var stages embed.FS

// part is a program of the control plane.
type part struct {
	name  string
	args  []string
	files map[string]string // written before it starts: path → text
	ready string            // the address that answers 200 when it is ready
}

// ports are free ports on the loopback interface.
type ports struct {
	etcd, etcdPeer, apiServer, controllerManager, scheduler, kwok int
}

// freePorts finds a port for each part.
func freePorts() (p ports, err error) {
	for _, port := range []*int{&p.etcd, &p.etcdPeer, &p.apiServer, &p.controllerManager, &p.scheduler, &p.kwok} {
		if *port, err = FreePort(); err != nil {
			return ports{}, err
		}
	}
	return p, nil
}

// run starts a part and waits until it is ready.
func (c *Cluster) run(ctx context.Context, part part) error {
	for path, text := range part.files {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return fmt.Errorf("file for %s: %w", part.name, err)
		}
	}
	start := time.Now()
	p, err := c.Run(part.name, c.programs.Path(part.name), part.args...)
	if err != nil {
		return err
	}
	if err := WaitReady(ctx, p, part.ready); err != nil {
		return err
	}
	fmt.Fprintf(c.options.Out, "  %s ready after %s\n", part.name, time.Since(start).Round(10*time.Millisecond))
	return nil
}

// WaitReady waits until an address answers 200, and gives up when Patience is over or the process behind it has ended.
// The certificate of the answer is not looked at.
func WaitReady(ctx context.Context, p *process.Process, url string) error {
	client := &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
	}
	last := errors.New("not asked yet")
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, Patience, true, func(ctx context.Context) (bool, error) {
		select {
		case <-p.Done():
			return false, errors.New("it ended")
		default:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, err
		}
		response, err := client.Do(request)
		if err != nil {
			last = err
			return false, nil
		}
		response.Body.Close()
		last = fmt.Errorf("it answers %s", response.Status)
		return response.StatusCode == http.StatusOK, nil
	})
	if err != nil {
		return fmt.Errorf("%s did not become ready at %s: %w (%w)\n%w", p.Name(), url, err, last, p.Failure())
	}
	return nil
}

func (c *Cluster) etcd() part {
	// No other member catches up from the log, so few of its entries are kept in memory: of 10,000 writes of a megabyte, as etcd
	// keeps them by default, 10 GB.
	client := fmt.Sprintf("http://127.0.0.1:%d", c.ports.etcd)
	peer := fmt.Sprintf("http://127.0.0.1:%d", c.ports.etcdPeer)
	return part{
		name: binaries.Etcd,
		args: []string{
			"--name=lab", "--data-dir=" + filepath.Join(c.scratch.dir, "etcd"), "--unsafe-no-fsync",
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=lab=" + peer,
			"--quota-backend-bytes=8589934592", "--snapshot-count=1000", "--snapshot-catchup-entries=100", "--log-level=warn",
		},
		ready: client + "/health",
	}
}

func (c *Cluster) apiServer() part {
	args := []string{
		fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", c.ports.etcd),
		"--bind-address=" + c.address(), fmt.Sprintf("--secure-port=%d", c.ports.apiServer),
		"--cert-dir=" + c.key(""),
		"--token-auth-file=" + c.key("tokens.csv"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.key("service-account.pub"),
		"--service-account-signing-key-file=" + c.key("service-account.key"),
		"--service-cluster-ip-range=10.0.0.0/24",
		"--authorization-mode=RBAC",
		"--allow-privileged=true",
		"--kubelet-preferred-address-types=InternalIP",
		"--profiling=false",
	}
	var disabled []string
	if c.network == nil {
		args = append(args, "--endpoint-reconciler-type=none") // no client reaches the server through its Service
		// Nodes are born without the taint that the node lifecycle controller, which does not run, would take off.
		disabled = append(disabled, "TaintNodesByCondition")
	}
	if !c.options.ControllerManager {
		disabled = append(disabled, "ServiceAccount") // no controller makes the default ServiceAccounts
	}
	args = append(args, "--disable-admission-plugins="+strings.Join(disabled, ","))
	return part{
		name:  binaries.APIServer,
		args:  append(args, c.options.APIServerArgs...),
		ready: c.host() + "/readyz",
	}
}

func (c *Cluster) controllerManager() part {
	controllers := "--controllers=*"
	if c.network == nil {
		controllers += ",-node-lifecycle-controller,-taint-eviction-controller"
	}
	args := append(c.clientArgs(c.ports.controllerManager),
		"--kubeconfig="+c.Kubeconfig(),
		"--leader-elect=false",
		controllers,
		"--service-account-private-key-file="+c.key("service-account.key"),
		"--root-ca-file="+c.key("apiserver.crt"),
		"--kube-api-qps=2000", "--kube-api-burst=4000",
		"--concurrent-job-syncs=20",
	)
	return part{
		name:  binaries.ControllerManager,
		args:  append(args, c.options.ControllerManagerArgs...),
		ready: fmt.Sprintf("https://127.0.0.1:%d/healthz", c.ports.controllerManager),
	}
}

func (c *Cluster) scheduler() part {
	scheduler := part{name: binaries.Scheduler, ready: fmt.Sprintf("https://127.0.0.1:%d/healthz", c.ports.scheduler)}
	config := c.options.SchedulerConfig
	if config == "" {
		config = filepath.Join(c.dir, "kubeconfig", "kube-scheduler.yaml")
		scheduler.files = map[string]string{config: fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 5000, burst: 10000}
leaderElection: {leaderElect: false}
`, c.Kubeconfig())}
	}
	scheduler.args = append(c.clientArgs(c.ports.scheduler), "--config="+config)
	scheduler.args = append(scheduler.args, c.options.SchedulerArgs...)
	return scheduler
}

// clientArgs are the flags that the controller manager and the scheduler share.
func (c *Cluster) clientArgs(port int) []string {
	return []string{
		"--authentication-kubeconfig=" + c.Kubeconfig(), "--authorization-kubeconfig=" + c.Kubeconfig(),
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
	}
}

func (c *Cluster) kwok() part {
	config := filepath.Join(c.dir, "kubeconfig", "kwok.yaml")
	return part{
		name:  binaries.Kwok,
		files: map[string]string{config: stageText(c.options.JobsRun, c.network != nil)},
		args: []string{
			"--kubeconfig=" + c.Kubeconfig(), "--config=" + config,
			fmt.Sprintf("--server-address=127.0.0.1:%d", c.ports.kwok),
		},
		ready: fmt.Sprintf("http://127.0.0.1:%d/readyz", c.ports.kwok),
	}
}

// ownCommand leaves pods alone that run something else than what their image is made for.
const ownCommand = `    - jq:
        key: '.spec.containers[0].command'
        operator: DoesNotExist
`

// besideReal has kwok leave real nodes to their kubelets, and show that those of its own live, which is judged then.
var besideReal = strings.NewReplacer(
	"manageAllNodes: true", "manageNodesWithAnnotationSelector: kwok.x-k8s.io/node=fake",
	"nodeLeaseDurationSeconds: 0", "nodeLeaseDurationSeconds: 40\n  nodeLeaseParallelism: 4",
)

// stageText joins the embedded files into one configuration for kwok. jobsRun is as in Options; real is whether there are real
// nodes.
func stageText(jobsRun, real bool) string {
	files, _ := fs.Glob(stages, "stages/*.yaml") // the pattern is well-formed
	var text strings.Builder
	for _, file := range files {
		body, _ := stages.ReadFile(file) // embedded, so it is there
		if jobsRun && file == "stages/pod-complete-job.yaml" {
			const list = "    matchExpressions:\n"
			body = []byte(strings.Replace(string(body), list, list+ownCommand, 1))
		}
		if real {
			body = []byte(besideReal.Replace(string(body)))
		}
		text.WriteString("---\n")
		text.Write(body)
	}
	return text.String()
}
