package capture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file redacts a capture. Each run of letters in names, in values of labels and in messages becomes another one, in such a
// way that all strings keep their order, equality, prefixes and lengths: jobs, nodes and ties are decided as before. Digits stay,
// and so does what is compared with words of this program or of Kubernetes.

// verbatim are the fields, in lower case, whose strings stay: kinds, enumerations, keys of labels, names of resources.
var verbatim = words(`accessmodes action apiversion code declaredfeatures dimension dimensions driver effect expression key kind level
	matchlabelkeys mismatchlabelkeys mode nodeaffinitypolicy nodetaintspolicy operator phase policy preemptionpolicy protocol qosclass reason
	resourcename restartpolicy scheduler schedulername schedulers sources stage status topologykey type whenunsatisfiable`)

// named are the maps, in lower case, whose keys are names.
var named = words(`conflicts lastStarts leases namespaces priorityClasses`)

// labelled are the maps, in lower case, from keys of labels and annotations to their values.
var labelled = words(`annotations labels matchlabels nodeselector`)

// amounts are the maps, in lower case, from names of resources to quantities.
var amounts = words(`allocatable allocatedresources capacity counters guarantee least limit limits minresources overhead quantity requests
	resources startedrequests unoffered`)

// vocabulary are words that this program, or kube-scheduler, compares names and values of labels with.
var vocabulary = words(`chief cluster critical default evaluator false headgroup kube launcher leader lease master node ps public system
	true worker`)

// read are the domains of labels and annotations whose values are read. Those that end as naming ones do are names.
var (
	read   = regexp.MustCompile(`(^|\.)(tutti\.dev|x-k8s\.io|kubeflow\.org|volcano\.sh|kai\.scheduler|ray\.io|scheduling\.k8s\.io|batch\.kubernetes\.io|sigs\.k8s\.io)/`)
	naming = regexp.MustCompile(`(^|[-/])(name|group|queue|cluster|key|uid|hash|job|role|domain|slice|topology)$`)
)

var address = regexp.MustCompile(`https?://[^\s"']+`)

func words(text string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(strings.ToLower(text)) {
		set[word] = true
	}
	return set
}

// Redact returns the capture without its names. The translators are those of the profile by the configuration of the file. An
// error wraps ErrDiffers where this version reads the objects otherwise than the one that has written them.
func (f *File) Redact(translators []model.RequestTranslator) (*File, error) {
	if _, err := f.Moment(translators); err != nil {
		return nil, err // with a digest of this version nothing would say so
	}
	redacted := &File{Header: f.Header}
	redacted.Redacted, redacted.Configuration = true, address.ReplaceAllString(f.Configuration, "https://redacted.invalid")
	r := &redaction{keys: map[string]bool{}, root: &letter{}}
	for _, word := range letters.FindAllString(redacted.Configuration, -1) {
		r.root.add(word, true)
	}
	for word := range vocabulary {
		r.root.add(word, true)
	}
	for _, record := range f.records {
		if record.Node != nil {
			for key := range record.Node.Object.Labels {
				r.keys[key] = true
			}
		}
	}
	for r.learns = true; ; r.learns = false { // once to learn all words, then to replace them
		redacted.records = nil
		known, err := replace(r, f.known)
		if err != nil {
			return nil, err
		}
		for i := range f.records {
			record, err := replace(r, &f.records[i])
			if err != nil {
				return nil, err
			}
			redacted.records = append(redacted.records, *record)
		}
		if redacted.known, redacted.Paused = known, r.text(f.Paused); !r.learns {
			break
		}
		r.root.assign()
	}
	contents, err := cluster.Load(redacted.records, translators)
	if err != nil {
		return nil, fmt.Errorf("redacted capture: %w", err)
	}
	redacted.snapshot = cluster.Restore(contents, translators).Snapshot(contents.At).Digest()
	return redacted, nil
}

// redaction replaces words. While it learns, it replaces none.
type redaction struct {
	learns bool
	// keys are the keys of labels of nodes: a string that is one is no name.
	keys map[string]bool
	root *letter
}

// replace returns a value with other words in it.
func replace[T any](r *redaction, value *T) (*T, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("redacted capture: %w", err)
	}
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("redacted capture: %w", err)
	}
	if text, err = json.Marshal(r.walk(tree, "", "")); err != nil {
		return nil, fmt.Errorf("redacted capture: %w", err)
	}
	replaced := new(T)
	if err := json.Unmarshal(text, replaced); err != nil && !r.learns {
		return nil, fmt.Errorf("redacted capture: %w", err)
	}
	return replaced, nil
}

// walk returns a value with other words in it. field is the name under which the value is, and of that of the map around it.
func (r *redaction) walk(value any, field, of string) any {
	switch value := value.(type) {
	case map[string]any:
		replaced := map[string]any{}
		for name, inner := range value {
			switch lower := strings.ToLower(field); {
			case lower == "namespaces":
				replaced[r.text(name)] = r.walk(inner, "labels", field)
			case named[lower]:
				replaced[r.text(name)] = r.walk(inner, name, field)
			default:
				replaced[name] = r.walk(inner, name, field)
			}
		}
		return replaced
	case []any:
		replaced := make([]any, len(value))
		for i := range value {
			replaced[i] = r.walk(value[i], field, of)
		}
		return replaced
	case string:
		return r.value(value, field, strings.ToLower(of))
	}
	return value
}

// value returns a string with other words in it, unless it is no name.
func (r *redaction) value(value, field, of string) string {
	lower := strings.ToLower(field)
	switch {
	case labelled[of]:
		return r.labelValue(field, value)
	case verbatim[lower] || of == "os" || of == "minresources" && lower == "name":
		return value
	case of == "budgets" && lower == "selector":
		return r.selector(value)
	}
	if _, err := time.Parse(time.RFC3339Nano, value); err == nil {
		return value
	}
	if _, err := resource.ParseQuantity(value); err == nil && (amounts[of] || amounts[lower]) {
		return value
	}
	return r.text(value)
}

// labelValue returns another value of a label or annotation. One that is JSON keeps its fields.
func (r *redaction) labelValue(key, value string) string {
	if read.MatchString(key) && (!naming.MatchString(key) || strings.HasPrefix(key, "isolcpu.") || strings.HasSuffix(key, "operator-name")) {
		return value
	}
	var tree any
	if strings.HasPrefix(value, "[") || strings.HasPrefix(value, "{") {
		if err := json.Unmarshal([]byte(value), &tree); err == nil {
			if text, err := json.Marshal(r.walk(tree, "", "")); err == nil {
				return string(text)
			}
		}
	}
	return r.text(value)
}

// selector returns a selector of labels in which the values have other words.
func (r *redaction) selector(text string) string {
	requirements, err := labels.ParseToRequirements(text)
	if err != nil {
		return r.text(text)
	}
	replaced := labels.NewSelector()
	for i := range requirements {
		var values []string
		for value := range requirements[i].Values() {
			values = append(values, r.labelValue(requirements[i].Key(), value))
		}
		if requirement, err := labels.NewRequirement(requirements[i].Key(), requirements[i].Operator(), values); err == nil {
			replaced = replaced.Add(*requirement)
		}
	}
	return replaced.String()
}

var letters = regexp.MustCompile(`[A-Za-z]+`)

// text returns a string with other words in it.
func (r *redaction) text(value string) string {
	return letters.ReplaceAllStringFunc(value, func(word string) string {
		if r.learns {
			r.root.add(word, r.keys[value])
			return word
		}
		return r.root.replace(word)
	})
}

// letter is a node of the trie of all words: what words begin with.
type letter struct {
	next map[byte]*letter
	// stays reports that a word which stays begins so. as is the letter that the last one becomes.
	stays bool
	as    byte
}

func (l *letter) add(word string, stays bool) {
	for i := range len(word) {
		if l.next == nil {
			l.next = map[byte]*letter{}
		}
		if l.next[word[i]] == nil {
			l.next[word[i]] = &letter{}
		}
		l = l.next[word[i]]
		l.stays = l.stays || stays
	}
}

// assign gives the letters that follow the first ones of the alphabet, in their order, lower and upper case for themselves. One
// that stays is itself, so that the order stays, too.
func (l *letter) assign() {
	free := map[bool]byte{true: 'a', false: 'A'}
	following := make([]byte, 0, len(l.next))
	for c := range l.next {
		following = append(following, c)
	}
	slices.Sort(following)
	for _, c := range following {
		next, lower := l.next[c], c >= 'a'
		if next.as = free[lower]; next.stays {
			next.as = c
		}
		free[lower] = next.as + 1
		next.assign()
	}
}

func (l *letter) replace(word string) string {
	replaced := make([]byte, len(word))
	for i := range len(word) {
		l = l.next[word[i]]
		replaced[i] = l.as
	}
	return string(replaced)
}
