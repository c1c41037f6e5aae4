package operators

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/process"
)

// JobSet is the controller of JobSet, with its webhooks.
func JobSet() Operator {
	return scaffold{name: "jobset", module: "sigs.k8s.io/jobset"}.operator()
}

// LeaderWorkerSet is the controller of LeaderWorkerSet, with its webhooks.
func LeaderWorkerSet() Operator {
	return scaffold{name: "lws", module: "sigs.k8s.io/lws", program: "/cmd"}.operator()
}

// Kueue is Kueue's controller for Jobs and for pods, with its webhooks. It takes quota back from a job that does not run after so
// long. What it serves beside them is off: it has a port of its own.
func Kueue(patience time.Duration) Operator {
	return scaffold{
		name: "kueue", module: "sigs.k8s.io/kueue", program: "/cmd/kueue", version: "v1beta2",
		configuration: fmt.Sprintf(`
integrations: {frameworks: [batch/job, pod]}
waitForPodsReady: {timeout: %s, requeuingStrategy: {backoffBaseSeconds: 1}}
featureGates: {VisibilityOnDemand: false}
`, patience),
	}.operator()
}

// scaffold is an operator whose repository was made by kubebuilder: config/default has its manifests, all of whose names begin
// with its own. It signs the certificate of its webhooks itself.
type scaffold struct {
	name, module string
	// program is the folder of its main function in the module.
	program string
	// version is that of the kind of its configuration; empty means v1alpha1. configuration is what it has beside the usual.
	version, configuration string
}

func (s scaffold) operator() Operator {
	return Operator{Name: s.name, Package: s.module + s.program, Start: s.start}
}

// start makes what the manifests have for the webhooks, and starts the program with a configuration of its own kind.
func (s scaffold) start(ctx context.Context, i *Installation) (*process.Process, error) {
	port, err := cluster.FreePort()
	if err != nil {
		return nil, err
	}
	health, err := cluster.FreeAddress()
	if err != nil {
		return nil, err
	}
	if err := s.install(ctx, i, port); err != nil {
		return nil, err
	}
	config := filepath.Join(i.Dir(), "kubeconfig", s.name+".yaml")
	text := fmt.Sprintf(`apiVersion: config.%s.x-k8s.io/%s
kind: Configuration
leaderElection: {leaderElect: false}
internalCertManagement: {enable: true}
metrics: {bindAddress: "0"}
health: {healthProbeBindAddress: %q}
webhook: {port: %d, certDir: %q}
%s`, s.name, cmp.Or(s.version, "v1alpha1"), health, port, i.certificates(), s.configuration)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("configuration of %s: %w", s.name, err)
	}
	client, err := i.Client()
	if err != nil {
		return nil, err
	}
	mount := mount{client: client, namespace: s.name + "-system", secret: s.name + "-webhook-server-cert"}
	p, err := i.runWithWebhooks(ctx, mount, health, "--config="+config)
	if err != nil {
		return nil, err
	}
	// Not all say that they are ready when the webhooks are. One without a body is answered, with an error in the answer.
	return p, cluster.WaitReady(ctx, p, fmt.Sprintf("https://127.0.0.1:%d/validate--v1-pod", port))
}

// install creates the kinds, the namespace, the secret for the certificate, the service and the webhooks, as config/default has
// them. The port of the webhooks is the one given.
func (s scaffold) install(ctx context.Context, i *Installation, port int) error {
	objects, err := i.manifests(ctx, File{s.module, "config/default"})
	if err != nil {
		return err
	}
	writer, err := client.New(i.Config(), client.Options{})
	if err != nil {
		return fmt.Errorf("client for %s: %w", s.name, err)
	}
	for _, object := range objects {
		if err := s.create(ctx, writer, object, port); err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	if err := i.AwaitKinds(ctx); err != nil {
		return fmt.Errorf("kinds of %s: %w", s.name, err)
	}
	return nil
}

// conversion is where a kind says which webhook converts it.
var conversion = []string{"spec", "conversion", "webhook", "clientConfig", "service"}

// create creates an object if it is a kind, or is for the webhooks.
func (s scaffold) create(ctx context.Context, writer client.Writer, object *unstructured.Unstructured, port int) error {
	switch object.GetKind() {
	case "Namespace", "Secret":
		return writer.Create(ctx, object)
	case "Service":
		if object.GetName() != s.name+"-webhook-service" {
			return nil
		}
		service := onThisMachine(object.GetName(), port)
		service.Namespace = object.GetNamespace()
		return writer.Create(ctx, service)
	case "CustomResourceDefinition":
		if service, converts, _ := unstructured.NestedMap(object.Object, conversion...); converts {
			service["port"] = int64(port)
			if err := unstructured.SetNestedMap(object.Object, service, conversion...); err != nil {
				return err
			}
		}
		return writer.Create(ctx, object)
	case mutating, validating:
		if err := reachWebhooks(object, s.name+"-system", port); err != nil {
			return err
		}
		return writer.Create(ctx, object)
	}
	return nil
}
