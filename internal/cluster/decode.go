package cluster

import (
	"cmp"
	stdjson "encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"

	"github.com/tutti-sched/tutti/apis/client/clientset/versioned"
	"github.com/tutti-sched/tutti/apis/client/clientset/versioned/scheme"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is how PodGroups and Queues are decoded. The API server stores what the schema of a CRD takes, which may be of
// another version or was loosened, so that a field may have another type than ours. Any client fails with the whole list then,
// or ends the watch. Here a list is decoded object by object, which takes less memory and hardly more time. Of an object that
// cannot be decoded as much is kept as can be, with a mark that says which field cannot. Objects of other projects are read
// field by field, see groups, and built-in kinds have no schema that could be loosened.

// NewGroupClient returns a client of PodGroups and Queues for which an object that cannot be decoded is an object with a mark,
// see Malformed, and no error of the request.
func NewGroupClient(config *rest.Config) (*versioned.Clientset, error) {
	config = rest.CopyConfig(config)
	version := v1alpha1.SchemeGroupVersion
	config.GroupVersion, config.APIPath = &version, "/apis"
	config.NegotiatedSerializer = tolerantSerializer{rest.CodecFactoryForGeneratedClient(scheme.Scheme, scheme.Codecs).WithoutConversion()}
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client for PodGroups and Queues: %w", err)
	}
	return versioned.New(client), nil
}

// tolerantSerializer is a serializer with decoders that are tolerant.
type tolerantSerializer struct{ runtime.NegotiatedSerializer }

// DecoderToVersion returns the decoder of an answer, or of the object of an event.
func (s tolerantSerializer) DecoderToVersion(decoder runtime.Decoder, version runtime.GroupVersioner) runtime.Decoder {
	return tolerantDecoder{s.NegotiatedSerializer.DecoderToVersion(decoder, version)}
}

type tolerantDecoder struct{ runtime.Decoder }

// Decode decodes a list object by object, and of an object that cannot be decoded as much as can.
func (d tolerantDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	switch list := into.(type) {
	case *v1alpha1.PodGroupList:
		if decodeItems(data, "PodGroupList", &list.ListMeta, &list.Items) {
			return list, defaults, nil
		}
	case *v1alpha1.QueueList:
		if decodeItems(data, "QueueList", &list.ListMeta, &list.Items) {
			return list, defaults, nil
		}
	}
	object, kind, err := d.Decoder.Decode(data, defaults, into)
	if err == nil || kind == nil {
		return object, kind, err
	}
	made, unknown := scheme.Scheme.New(*kind)
	if unknown != nil {
		return object, kind, err
	}
	switch made.(type) {
	case *v1alpha1.PodGroup, *v1alpha1.Queue:
		if into == nil {
			into = made
		}
		if reflect.TypeOf(into) == reflect.TypeOf(made) && decodeParts(data, into.(metav1.Object)) {
			into.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as the decoder does
			return into, kind, nil
		}
	}
	return object, kind, err
}

// decodeItems decodes a list of a kind object by object, and reports whether it could.
func decodeItems[T any](data []byte, kind string, meta *metav1.ListMeta, items *[]T) bool {
	var list struct {
		Kind     string               `json:"kind"`
		Metadata metav1.ListMeta      `json:"metadata"`
		Items    []stdjson.RawMessage `json:"items"`
	}
	if json.Unmarshal(data, &list) != nil || list.Kind != kind {
		return false
	}
	*meta, *items = list.Metadata, make([]T, len(list.Items))
	for i, item := range list.Items {
		one := &(*items)[i]
		if json.Unmarshal(item, one) != nil && !decodeParts(item, any(one).(metav1.Object)) {
			return false
		}
	}
	return true
}

// decodeParts decodes of an object what can be, marks it with the first field that cannot, and reports whether it has a name
// then.
func decodeParts(data []byte, object metav1.Object) bool {
	why := ""
	decodeValue(data, reflect.ValueOf(object).Elem(), "", func(field string) { why = cmp.Or(why, field) })
	if why == "" || object.GetName() == "" {
		return false
	}
	mark(object, why)
	return true
}

// decodeValue decodes a value or, where that fails, those in it that can be; those that cannot are left out. It reports whether
// anything of it could, and calls failed for each that could not, in the order of the fields and keys.
func decodeValue(data []byte, value reflect.Value, at string, failed func(why string)) bool {
	pointer := value.Addr().Interface()
	value.SetZero()
	if json.Unmarshal(data, pointer) == nil {
		return true
	}
	value.SetZero()
	var fields map[string]stdjson.RawMessage
	var items []stdjson.RawMessage
	_, is := pointer.(stdjson.Unmarshaler)
	switch kind := value.Kind(); {
	case is:
	case kind == reflect.Pointer:
		inner := reflect.New(value.Type().Elem())
		decoded := decodeValue(data, inner.Elem(), at, failed)
		if decoded {
			value.Set(inner)
		}
		return decoded
	case kind == reflect.Struct && json.Unmarshal(data, &fields) == nil:
		for i := range value.NumField() {
			name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
			if name == "" { // the fields of an embedded one are among those here
				decodeValue(data, value.Field(i), at, failed)
			} else if field, there := fields[name]; there {
				decodeValue(field, value.Field(i), strings.TrimPrefix(at+"."+name, "."), failed)
			}
		}
		return true
	case kind == reflect.Map && json.Unmarshal(data, &fields) == nil:
		value.Set(reflect.MakeMap(value.Type()))
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			element := reflect.New(value.Type().Elem()).Elem()
			if decodeValue(fields[key], element, fmt.Sprintf("%s[%s]", at, key), failed) {
				value.SetMapIndex(reflect.ValueOf(key).Convert(value.Type().Key()), element)
			}
		}
		return true
	case kind == reflect.Slice && json.Unmarshal(data, &items) == nil:
		for i, item := range items {
			element := reflect.New(value.Type().Elem()).Elem()
			if decodeValue(item, element, fmt.Sprintf("%s[%d]", at, i), failed) {
				value.Set(reflect.Append(value, element))
			}
		}
		return true
	}
	failed(fmt.Sprintf("%s is %s, it must be %s", at, model.Brief(string(data), maxQuoted), typeNamed(value.Type())))
	return false
}

// typeNamed says what a value of a type is in JSON.
func typeNamed(of reflect.Type) string {
	switch of {
	case reflect.TypeFor[resource.Quantity]():
		return "an amount of a resource"
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return "a time"
	}
	switch of.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Int32, reflect.Int64:
		return fmt.Sprintf("a whole number of %d bits", of.Bits())
	}
	return "an object"
}
