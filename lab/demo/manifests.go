package demo

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

//go:embed manifests/*.yaml
var manifests embed.FS

// objects reads a manifest.
func objects(name string) ([]*unstructured.Unstructured, error) {
	file, err := manifests.Open("manifests/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	defer file.Close()
	var all []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("manifest %s: %w", name, err)
		}
		all = append(all, object)
	}
}

// submit creates objects in the demo's namespace, as a user would.
func submit(ctx context.Context, c client.Client, all ...*unstructured.Unstructured) error {
	for _, object := range all {
		object = object.DeepCopy()
		if object.GetKind() != "PriorityClass" { // which is in no namespace
			object.SetNamespace(namespace)
		}
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}
