package operators

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// The kinds of configurations of webhooks.
const (
	mutating   = "MutatingWebhookConfiguration"
	validating = "ValidatingWebhookConfiguration"
)

// manifests are the objects of a kustomization in a module.
func (i *Installation) manifests(ctx context.Context, folder File) ([]*unstructured.Unstructured, error) {
	path, err := i.path(ctx, folder)
	if err != nil {
		return nil, err
	}
	text, err := i.Kubectl(ctx, "kustomize", path)
	if err != nil {
		return nil, fmt.Errorf("manifests of %s: %w", i.operator.Name, err)
	}
	var objects []*unstructured.Unstructured
	for _, document := range strings.Split(text, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return nil, fmt.Errorf("manifests of %s: %w", i.operator.Name, err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// reachWebhooks has the webhooks of a configuration called through their service in a namespace, at a port.
func reachWebhooks(configuration *unstructured.Unstructured, namespace string, port int) error {
	webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil {
		return err
	}
	for _, webhook := range webhooks {
		webhook := webhook.(map[string]any)
		service := webhook["clientConfig"].(map[string]any)["service"].(map[string]any)
		service["namespace"], service["port"] = namespace, int64(port)
	}
	return unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks")
}
