package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/internal/agent"
	"github.com/tutti-sched/tutti/internal/agent/hooks"
	"github.com/tutti-sched/tutti/internal/agent/publish"
	"github.com/tutti-sched/tutti/internal/metrics"
	"github.com/tutti-sched/tutti/pkg/isolated"
)

// run wires the agent and runs it until the context ends.
func (o *options) run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		if o.kubeconfig == "" {
			return fmt.Errorf("no --kubeconfig given and not inside a cluster: %w", err)
		}
		return fmt.Errorf("kubeconfig %s: %w", o.kubeconfig, err)
	}
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "tutti-agent"))
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	registry := prometheus.NewRegistry()
	works, err := o.wire(client, registry)
	if err != nil {
		return err
	}
	if o.listen == "0" || o.listen == "" {
		return works.Run(ctx)
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", o.listen, err)
	}
	return serveBeside(ctx, listener, handler(works, registry), works.Run)
}

// wire creates the agent; nothing runs yet.
func (o *options) wire(client kubernetes.Interface, registry *prometheus.Registry) (*agent.Agent, error) {
	sources, err := o.sources()
	if err != nil {
		return nil, err
	}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	measured := metrics.Make(metrics.Agent())
	registry.MustRegister(measured)
	hooked := hooks.Options{
		Node: o.nodeName, StrictMemory: o.strictMemory, Metrics: measured, Log: klog.Background(), Clock: clock.RealClock{},
	}
	if o.cgroupRoot != "" {
		hooked.Cgroups = os.DirFS(o.cgroupRoot)
	}
	instance, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("this pod's name: %w", err)
	}
	return agent.New(agent.Options{
		Sources: sources, Mode: isolated.Mode(o.mode), Socket: o.nriSocket,
		Publisher: publish.New(client, o.nodeName, o.namespace, instance), Clock: clock.RealClock{},
	}, hooked), nil
}

// handler serves metrics, liveness (whether the agent hangs), and readiness (whether the node's isolated CPUs can be used).
func handler(works *agent.Agent, registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	for path, check := range map[string]func() error{"GET /healthz": works.Alive, "GET /readyz": works.Ready} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			if err := check(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintln(w, "ok")
		})
	}
	return mux
}

// serveBeside serves while the work runs, and ends both when either ends.
func serveBeside(ctx context.Context, listener net.Listener, served http.Handler, work func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{Handler: served, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() {
		ended <- server.Serve(listener)
		cancel()
	}()
	err := work(ctx)
	closing := server.Close()
	if serving := <-ended; !errors.Is(serving, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("server: %w", serving))
	}
	return errors.Join(err, closing)
}
