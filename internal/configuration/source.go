package configuration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
)

// DefaultKey is the key of the ConfigMap that holds the configuration unless another one is named.
const DefaultKey = "scheduler.yaml"

// Source is where the configuration comes from: a file, a key of a ConfigMap, or, when it is zero, the program itself.
type Source struct {
	File                 string
	Namespace, Name, Key string
}

// ParseConfigMap reads NAMESPACE/NAME or NAMESPACE/NAME/KEY.
func ParseConfigMap(text string) (Source, error) {
	parts := strings.Split(text, "/")
	if len(parts) == 2 {
		parts = append(parts, DefaultKey)
	}
	if len(parts) != 3 || slices.Contains(parts, "") {
		return Source{}, fmt.Errorf("%q is not NAMESPACE/NAME or NAMESPACE/NAME/KEY", text)
	}
	return Source{Namespace: parts[0], Name: parts[1], Key: parts[2]}, nil
}

// String names the source in messages.
func (s Source) String() string {
	switch {
	case s.Name != "":
		return fmt.Sprintf("ConfigMap %s/%s, key %s", s.Namespace, s.Name, s.Key)
	case s.File != "":
		return "file " + s.File
	default:
		return "built-in"
	}
}

// file is the prefix of messages about its text.
func (s Source) file() string {
	switch {
	case s.Name != "":
		return s.Namespace + "/" + s.Name + "/" + s.Key
	case s.File != "":
		return s.File
	default:
		return config.DefaultFile
	}
}

// sourceContent is the content of a source at one time.
type sourceContent struct {
	version Version
	// missing says that there is no text, and why; nil when there is.
	missing error
	// object is the ConfigMap, nil when there is none.
	object *corev1.ObjectReference
}

// read reads the source once. The error is that of missing.
func (s Source) read(ctx context.Context, client kubernetes.Interface) (sourceContent, error) {
	var f sourceContent
	switch {
	case s.Name != "":
		object, err := client.CoreV1().ConfigMaps(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
		if err != nil {
			return f, fmt.Errorf("configuration: ConfigMap %s/%s: %w", s.Namespace, s.Name, err)
		}
		f = s.inside(object)
	case s.File != "":
		f = s.onDisk()
	default:
		f = s.holding(string(config.DefaultYAML()), "")
	}
	return f, f.missing
}

// onDisk reads the file.
func (s Source) onDisk() sourceContent {
	text, err := os.ReadFile(s.File)
	if err != nil {
		return sourceContent{version: Version{Source: s.String()}, missing: fmt.Errorf("configuration: %w", err)}
	}
	return s.holding(string(text), "")
}

// inside takes the text out of the ConfigMap.
func (s Source) inside(object *corev1.ConfigMap) sourceContent {
	text, there := object.Data[s.Key]
	f := s.holding(text, object.ResourceVersion)
	f.object = &corev1.ObjectReference{
		APIVersion: "v1", Kind: "ConfigMap", Namespace: object.Namespace, Name: object.Name, UID: object.UID,
		ResourceVersion: object.ResourceVersion,
	}
	if !there {
		keys := strings.Join(slices.Sorted(maps.Keys(object.Data)), ", ")
		if keys == "" {
			keys = "none"
		}
		f.version.Hash = "" // there is no text
		f.missing = fmt.Errorf("%s/%s: the ConfigMap has no key %s; its keys: %s", s.Namespace, s.Name, s.Key, keys)
	}
	return f
}

// gone is the content after the ConfigMap was deleted.
func (s Source) gone() sourceContent {
	return sourceContent{version: Version{Source: s.String()}, missing: errors.New(s.Namespace + "/" + s.Name + ": the ConfigMap is gone")}
}

func (s Source) holding(text, resourceVersion string) sourceContent {
	sum := sha256.Sum256([]byte(text))
	return sourceContent{version: Version{
		Source: s.String(), ResourceVersion: resourceVersion, Hash: hex.EncodeToString(sum[:6]), Text: text,
	}}
}
