package operators

import (
	"context"
	"fmt"
	"os"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/process"
)

const trainingModule = "github.com/kubeflow/training-operator"

// Training is training-operator v1, which gives the pods of a PyTorchJob to a scheduler of that name where their templates have
// none. Without a name it writes no groups. Its other kinds are off: among them is a version of MPIJob that excludes
// mpi-operator's.
func Training(scheduler string) Operator {
	return Operator{
		Name: "training-operator", Package: trainingModule + "/cmd/training-operator.v1",
		CRDs: append(groups(scheduler), File{trainingModule, "manifests/base/crds/kubeflow.org_pytorchjobs.yaml"}),
		Start: func(ctx context.Context, i *Installation) (*process.Process, error) {
			return startTraining(ctx, i, scheduler)
		},
	}
}

// startTraining does what the operator's manifests do: a namespace, a secret for the certificate that the operator signs itself,
// a service in front of its webhook, and the webhook's configuration.
func startTraining(ctx context.Context, i *Installation, scheduler string) (*process.Process, error) {
	const namespace, name, secret = "kubeflow", "training-operator", "training-operator-webhook-cert"
	port, err := cluster.FreePort()
	if err != nil {
		return nil, err
	}
	health, err := cluster.FreeAddress()
	if err != nil {
		return nil, err
	}
	webhooks, err := trainingWebhooks(ctx, i)
	if err != nil {
		return nil, err
	}
	webhooks.Name = "validator.training-operator.kubeflow.org"
	for n := range webhooks.Webhooks {
		service := webhooks.Webhooks[n].ClientConfig.Service
		number := int32(port)
		service.Namespace, service.Name, service.Port = namespace, name, &number
	}
	client, err := i.Client()
	if err != nil {
		return nil, err
	}
	core, create := client.CoreV1(), metav1.CreateOptions{}
	if _, err := core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, create); err != nil {
		return nil, fmt.Errorf("namespace of %s: %w", name, err)
	}
	if _, err := core.Secrets(namespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secret}}, create); err != nil {
		return nil, fmt.Errorf("secret of %s: %w", name, err)
	}
	if _, err := core.Services(namespace).Create(ctx, onThisMachine(name, port), create); err != nil {
		return nil, fmt.Errorf("service of %s: %w", name, err)
	}
	if _, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, webhooks, create); err != nil {
		return nil, fmt.Errorf("webhooks of %s: %w", name, err)
	}
	mount := mount{client: client, namespace: namespace, secret: secret}
	return i.runWithWebhooks(ctx, mount, health, "--enable-scheme=pytorchjob", "--gang-scheduler-name="+scheduler, "--metrics-bind-address=0",
		"--health-probe-bind-address="+health, fmt.Sprintf("--webhook-server-port=%d", port))
}

// trainingWebhooks are the webhooks as the module has them: its kustomization gives them name and service.
func trainingWebhooks(ctx context.Context, i *Installation) (*admissionv1.ValidatingWebhookConfiguration, error) {
	path, err := i.path(ctx, File{trainingModule, "manifests/base/webhook/manifests.yaml"})
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("webhooks: %w", err)
	}
	webhooks := &admissionv1.ValidatingWebhookConfiguration{}
	if err := yaml.UnmarshalStrict(text, webhooks); err != nil {
		return nil, fmt.Errorf("webhooks in %s: %w", path, err)
	}
	return webhooks, nil
}
