package operators

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/process"
)

const trainerModule = "github.com/kubeflow/trainer/v2"

// Trainer is the controller of Trainer v2, with its webhooks. It makes a JobSet of a TrainJob, and a PodGroup of either kind, as
// the runtime of the TrainJob says. Of these kinds it watches those that are there when it starts.
func Trainer() Operator {
	return Operator{
		Name: "trainer", Package: trainerModule + "/cmd/trainer-controller-manager", Needs: []Operator{JobSet()},
		CRDs:  append(append(groups("tutti"), groups(Volcano)...), File{trainerModule, "manifests/base/crds"}),
		Start: startTrainer,
	}
}

// startTrainer does what the operator's manifests do: a namespace, a secret for the certificate that it signs itself, a service
// in front of its webhooks, and their configurations; and starts it with a configuration of its own kind.
func startTrainer(ctx context.Context, i *Installation) (*process.Process, error) {
	const namespace, name, secret = "kubeflow-system", "kubeflow-trainer-controller-manager", "kubeflow-trainer-webhook-cert"
	port, err := cluster.FreePort()
	if err != nil {
		return nil, err
	}
	health, err := cluster.FreeAddress()
	if err != nil {
		return nil, err
	}
	clients, err := i.Client()
	if err != nil {
		return nil, err
	}
	writer, err := client.New(i.Config(), client.Options{})
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", name, err)
	}
	service := onThisMachine(name, port)
	service.Namespace = namespace
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secret}},
		service,
	}
	webhooks, err := i.manifests(ctx, File{trainerModule, "manifests/base/webhook"})
	if err != nil {
		return nil, err
	}
	for _, configuration := range webhooks {
		if err := reachWebhooks(configuration, namespace, port); err != nil {
			return nil, fmt.Errorf("webhooks of %s: %w", name, err)
		}
		objects = append(objects, configuration)
	}
	for _, object := range objects {
		if err := writer.Create(ctx, object); err != nil {
			return nil, fmt.Errorf("%s of %s: %w", object.GetName(), name, err)
		}
	}
	config := filepath.Join(i.Dir(), "kubeconfig", "trainer.yaml")
	text := fmt.Sprintf(`apiVersion: config.trainer.kubeflow.org/v1alpha1
kind: Configuration
leaderElection: {leaderElect: false}
metrics: {bindAddress: "0"}
health: {healthProbeBindAddress: %q}
webhook: {port: %d}
certManagement: {enable: true, webhookServiceName: %s, webhookSecretName: %s}
`, health, port, name, secret)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("configuration of %s: %w", name, err)
	}
	return i.runWithWebhooks(ctx, mount{client: clients, namespace: namespace, secret: secret}, health, "--config="+config)
}
