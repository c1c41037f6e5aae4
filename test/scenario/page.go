package scenario

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// applyPage applies the Queues and Namespaces in the YAML under a heading of a page, so that what a page shows is what is played.
func (w *world) applyPage(about string) error {
	file, heading, _ := strings.Cut(strings.TrimSpace(about), ": ")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	blocks := blocksUnder(string(text), heading)
	if len(blocks) == 0 {
		return fmt.Errorf("%s: no YAML under %q", file, heading)
	}
	reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(strings.Join(blocks, "---\n"))))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = w.applyYAML(document)
		}
		if err != nil {
			return fmt.Errorf("%s: %s: %w", file, heading, err)
		}
	}
}

// blocksUnder returns the blocks of YAML under a heading.
func blocksUnder(page, heading string) (blocks []string) {
	_, section, _ := strings.Cut(page, "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for {
		_, rest, found := strings.Cut(section, "\n```yaml\n")
		if !found {
			return blocks
		}
		block, after, _ := strings.Cut(rest, "\n```")
		blocks, section = append(blocks, block+"\n"), after
	}
}

func (w *world) applyYAML(document []byte) error {
	var about metav1.PartialObjectMetadata
	if err := sigsyaml.Unmarshal(document, &about); err != nil {
		return err
	}
	one := line{name: about.Name}
	switch about.Kind {
	case "Queue":
		queue := &v1alpha1.Queue{}
		if err := sigsyaml.UnmarshalStrict(document, queue); err != nil {
			return err
		}
		return w.setQueue(queue, one)
	case "Namespace":
		namespace := &corev1.Namespace{}
		if err := sigsyaml.UnmarshalStrict(document, namespace); err != nil {
			return err
		}
		return w.setNamespace(namespace, one)
	}
	return fmt.Errorf("%q is neither a Queue nor a Namespace", bytes.TrimSpace(document))
}
