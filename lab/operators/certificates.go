package operators

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/process"
)

// onThisMachine is a service whose webhook the API server finds on this machine, under the service's own name, which is the one
// that the certificate has.
func onThisMachine(name string, port int) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeExternalName, ExternalName: "localhost",
			Ports: []corev1.ServicePort{{Port: int32(port)}},
		},
	}
}

// servingCertificates is where operators wait for their certificate to be mounted. Their webhooks read it from the folder
// certificates: so several operators may run.
const servingCertificates = "/tmp/k8s-webhook-server/serving-certs"

// certificates is the folder among the operator's temporary files that its webhooks read their certificate from, where its
// configuration names none.
func (i *Installation) certificates() string {
	return filepath.Join(i.temporary(), "k8s-webhook-server", "serving-certs")
}

// runWithWebhooks starts an operator that signs the certificate of its webhooks itself, mounts that, and waits until it is
// ready, as it says at the address health.
func (i *Installation) runWithWebhooks(ctx context.Context, mount mount, health string, args ...string) (*process.Process, error) {
	mount.dirs = []string{i.certificates(), servingCertificates}
	if err := mount.empty(); err != nil {
		return nil, err
	}
	p, err := i.run(args...)
	if err != nil {
		return nil, err
	}
	if err := mount.fill(ctx); err != nil {
		return nil, fmt.Errorf("%w\n%w", err, p.Failure())
	}
	return p, cluster.WaitReady(ctx, p, "http://"+health+"/readyz")
}

// mount is a secret as a kubelet mounts it: its keys are files in folders.
type mount struct {
	client            kubernetes.Interface
	namespace, secret string
	dirs              []string
}

// empty makes the folders, without what an earlier run left there.
func (m mount) empty() error {
	for _, dir := range m.dirs {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("folder of certificates: %w", err)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("folder of certificates: %w", err)
		}
	}
	return nil
}

// fill waits until the secret has data, and writes it. The certificate in the last folder comes last: an operator may wait for
// that file alone.
func (m mount) fill(ctx context.Context) error {
	var data map[string][]byte
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, cluster.Patience, true, func(ctx context.Context) (bool, error) {
		secret, err := m.client.CoreV1().Secrets(m.namespace).Get(ctx, m.secret, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		data = secret.Data
		return data[corev1.TLSCertKey] != nil, nil
	})
	if err != nil {
		return fmt.Errorf("certificate in secret %s/%s: %w", m.namespace, m.secret, err)
	}
	for _, dir := range m.dirs {
		for _, name := range []string{corev1.TLSPrivateKeyKey, corev1.TLSCertKey} {
			if err := os.WriteFile(filepath.Join(dir, name), data[name], 0o600); err != nil {
				return fmt.Errorf("certificate: %w", err)
			}
		}
	}
	return nil
}
