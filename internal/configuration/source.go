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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// Override is the name of a second ConfigMap in the namespace, which need not exist: what it has under Key is used in place of
	// what the first one has there, and its key PauseKey pauses the scheduler. An empty name is none. So a tool that owns the
	// first one, such as helm, and an operator who changes the configuration write two objects.
	Override string
}

// PauseKey is the key of the second ConfigMap that pauses the scheduler, unless it is empty or "false".
const PauseKey = "pause"

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
	// from is where the text is.
	from Source
	// object is the ConfigMap, nil when there is none.
	object *corev1.ObjectReference
	// paused says why the scheduler is paused, also where the text does not say so; empty when it is not.
	paused string
}

// inProcess returns the content of a source that is no ConfigMap.
func (s Source) inProcess() sourceContent {
	if s.File != "" {
		return s.onDisk()
	}
	return s.holding(string(config.DefaultYAML()), "")
}

// configMaps are the ConfigMaps of a source as they were read last; nil is one that does not exist.
type configMaps struct{ base, override *corev1.ConfigMap }

// get reads the ConfigMaps of the source. One that does not exist is no error.
func (s Source) get(ctx context.Context, client kubernetes.Interface) (configMaps, error) {
	read := func(name string) (*corev1.ConfigMap, error) {
		if name == "" {
			return nil, nil
		}
		object, err := client.CoreV1().ConfigMaps(s.Namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("configuration: ConfigMap %s/%s: %w", s.Namespace, name, err)
		}
		return object, nil
	}
	base, err := read(s.Name)
	if err != nil {
		return configMaps{}, err
	}
	override, err := read(s.Override)
	return configMaps{base, override}, err
}

// of returns what the ConfigMaps of the source say together.
func (s Source) of(both configMaps) sourceContent {
	f := sourceContent{
		from: s, version: Version{Source: s.String()}, missing: errors.New(s.Namespace + "/" + s.Name + ": the ConfigMap does not exist"),
	}
	over := Source{Namespace: s.Namespace, Name: s.Override, Key: s.Key}
	if both.base != nil {
		f = s.inside(both.base)
	}
	if both.override == nil {
		return f
	}
	if _, there := both.override.Data[s.Key]; there {
		f = over.inside(both.override)
	}
	if pause := strings.TrimSpace(both.override.Data[PauseKey]); pause != "" && pause != "false" {
		f.paused = fmt.Sprintf("ConfigMap %s/%s says %s: %s", s.Namespace, s.Override, PauseKey, pause)
	}
	return f
}

// onDisk reads the file.
func (s Source) onDisk() sourceContent {
	text, err := os.ReadFile(s.File)
	if err != nil {
		return sourceContent{from: s, version: Version{Source: s.String()}, missing: fmt.Errorf("configuration: %w", err)}
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

func (s Source) holding(text, resourceVersion string) sourceContent {
	sum := sha256.Sum256([]byte(text))
	return sourceContent{from: s, version: Version{
		Source: s.String(), ResourceVersion: resourceVersion, Hash: hex.EncodeToString(sum[:6]), Text: text,
	}}
}
