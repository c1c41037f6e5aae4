package observe

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/client-go/kubernetes"
)

// writeCount is a line of the API server's metric of requests, as far as it is about one that was meant to change something.
var writeCount = regexp.MustCompile(`^apiserver_request_total\{(.*verb="(?:POST|PUT|PATCH|DELETE|APPLY)".*)\} (\S+)$`)

// Writes is how many requests that change something the API server has answered so far, by resource and subresource
// ("pods/binding"), whatever the answer. Leases are left out: the server renews its own.
func Writes(ctx context.Context, client kubernetes.Interface) (map[string]int, error) {
	text, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").SetHeader("Accept", "text/plain").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("metrics of the API server: %w", err)
	}
	return parseWrites(string(text))
}

func parseWrites(text string) (map[string]int, error) {
	writes := map[string]int{}
	for line := range strings.Lines(text) {
		match := writeCount.FindStringSubmatch(strings.TrimSpace(line))
		if match == nil {
			continue
		}
		count, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics of the API server: %w", err)
		}
		name := label(match[1], "resource")
		if subresource := label(match[1], "subresource"); subresource != "" {
			name += "/" + subresource
		}
		if name != "leases" {
			writes[name] += int(count)
		}
	}
	return writes, nil
}

// label is the value of a label; those of this metric hold no quotes.
func label(labels, name string) string {
	for part := range strings.SplitSeq(labels, ",") {
		if key, value, _ := strings.Cut(part, "="); key == name {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}
