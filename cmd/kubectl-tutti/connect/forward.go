package connect

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/utils/ptr"
)

// portName is the chart's name for the port of the endpoint, and portNumber its default.
const (
	portName   = "metrics"
	portNumber = 8443
)

// forward opens a local port to the endpoint of the leading scheduler, and returns its address.
func (e *Client) forward(ctx context.Context, client kubernetes.Interface, config *rest.Config, options Options, now time.Time) (address string, err error) {
	pod, err := leader(ctx, client, options, now)
	if err != nil {
		return "", err
	}
	e.what = "pod " + pod.Namespace + "/" + pod.Name
	defer func() {
		if err != nil {
			err = fmt.Errorf("port-forward to %s: %w%s", e.what, err, rights(err))
		}
	}()
	url := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return "", err
	}
	// As kubectl does: proxies in front of the API server often support only one of the two protocols.
	newer, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, config)
	if err != nil {
		return "", err
	}
	older := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	dialer := portforward.NewFallbackDialerForStreaming(newer, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	ready, stop := make(chan struct{}), make(chan struct{})
	ports, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"}, []string{"0:" + strconv.Itoa(int(port(pod)))}, stop, ready,
		io.Discard, io.Discard)
	if err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- ports.ForwardPorts() }()
	select {
	case err := <-ended:
		return "", err
	case <-ctx.Done():
		err = ctx.Err()
	case <-ready:
		var local []portforward.ForwardedPort
		if local, err = ports.GetPorts(); err == nil {
			e.close = func() { close(stop); <-ended }
			return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(local[0].Local))), nil
		}
	}
	close(stop)
	<-ended
	return "", err
}

// leader returns the pod of the scheduler that holds the Lease.
func leader(ctx context.Context, client kubernetes.Interface, options Options, now time.Time) (*corev1.Pod, error) {
	const otherwise = "; where it runs elsewhere, say --scheduler-namespace, or --scheduler-server"
	lease, err := client.CoordinationV1().Leases(options.Namespace).Get(ctx, options.Lease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no Lease %s in namespace %s, so no scheduler leads there; one that runs without an election "+
			"(leaderElection.enabled=false) has none, and takes --scheduler-server%s", options.Lease, options.Namespace, otherwise)
	}
	if err != nil {
		return nil, fmt.Errorf("lease of the scheduler: %w%s%s", err, rights(err), otherwise)
	}
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	if holder == "" {
		return nil, fmt.Errorf("no scheduler holds the Lease %s/%s: no scheduler leads at the moment", options.Namespace, options.Lease)
	}
	name, _, _ := strings.Cut(holder, "_") // the host's name, which is the pod's, and a random part
	pod, err := client.CoreV1().Pods(options.Namespace).Get(ctx, name, metav1.GetOptions{})
	renewed, lasts := lease.Spec.RenewTime, time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0))*time.Second
	switch expired := renewed != nil && renewed.Add(lasts).Before(now); {
	case apierrors.IsNotFound(err) && expired:
		return nil, fmt.Errorf("no scheduler leads: the Lease %s/%s was renewed last at %s, by %s, which is no pod of that namespace%s",
			options.Namespace, options.Lease, renewed.UTC().Format(time.RFC3339), name, otherwise)
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("the scheduler that leads is %q, which is no pod of namespace %s%s", name, options.Namespace, otherwise)
	case err != nil:
		return nil, fmt.Errorf("pod of the scheduler that leads: %w%s", err, rights(err))
	}
	return pod, nil
}

// rights says which role has the missing permission; empty when none is missing.
func rights(err error) string {
	if !apierrors.IsForbidden(err) {
		return ""
	}
	return "; the Role tutti-scheduler-inspect there gives that right (rbac.operators of the chart)"
}

// port is the port of the pod's endpoint.
func port(pod *corev1.Pod) int32 {
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			if port.Name == portName {
				return port.ContainerPort
			}
		}
	}
	return portNumber
}
