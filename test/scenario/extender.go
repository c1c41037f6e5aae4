package scenario

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// webhook is the extender of a story. It lets all nodes pass, gives all the same score and agrees to all victims, but where
// a line of the story says otherwise, and keeps what it was asked about victims.
type webhook struct {
	server *httptest.Server

	mu sync.Mutex
	// behaviour are its lines by verb and, but for fail, by node.
	behaviour map[string]map[string][]string
	asked     []string
}

// extenderURL stands in a story for where its extender is.
const extenderURL = "EXTENDER"

// command gives the stage's extender new orders; the old ones are forgotten.
func (s *environment) command(text string) error {
	orders := map[string]map[string][]string{}
	for _, one := range strings.Split(strings.TrimSpace(text), "\n") {
		words := strings.Fields(one)
		if len(words) == 0 {
			continue
		}
		if len(words) < 2 || !slices.Contains([]string{"filter", "never", "prioritize", "preempt", "fail"}, words[0]) {
			return fmt.Errorf("no such order: %s", one)
		}
		if orders[words[0]] == nil {
			orders[words[0]] = map[string][]string{}
		}
		orders[words[0]][words[1]] = words[2:]
	}
	if s.webhook == nil {
		hook := &webhook{}
		hook.server = httptest.NewServer(hook)
		s.webhook = hook
	}
	s.webhook.mu.Lock()
	defer s.webhook.mu.Unlock()
	s.webhook.behaviour = orders
	return nil
}

// maskURLs puts the name of the story's extender in place of its URL, which is another one each time.
func (s *environment) maskURLs(text string) string {
	if s.webhook == nil {
		return text
	}
	return strings.ReplaceAll(text, s.webhook.server.URL, extenderURL)
}

// takeAsked returns what the extender was asked about victims since the last look, a line for each question.
func (s *environment) takeAsked() string {
	if s.webhook == nil {
		return ""
	}
	s.webhook.mu.Lock()
	defer s.webhook.mu.Unlock()
	asked := strings.Join(s.webhook.asked, "")
	s.webhook.asked = nil
	return asked
}

// ServeHTTP answers one call.
func (h *webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	verb := strings.TrimPrefix(r.URL.Path, "/")
	if _, fails := h.behaviour["fail"][verb]; fails {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	answer, err := h.answer(verb, json.NewDecoder(r.Body))
	if err == nil {
		err = json.NewEncoder(w).Encode(answer)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

func (h *webhook) answer(verb string, body *json.Decoder) (answer any, err error) {
	switch verb {
	case "filter":
		var question extenderv1.ExtenderArgs
		err = body.Decode(&question)
		return h.filter(&question), err
	case "prioritize":
		var question extenderv1.ExtenderArgs
		if err = body.Decode(&question); err != nil {
			return nil, err
		}
		return h.prioritize(&question)
	case "preempt":
		var question extenderv1.ExtenderPreemptionArgs
		err = body.Decode(&question)
		return h.preempt(&question), err
	}
	return nil, fmt.Errorf("no such verb: %s", verb)
}

func (h *webhook) filter(question *extenderv1.ExtenderArgs) *extenderv1.ExtenderFilterResult {
	result := &extenderv1.ExtenderFilterResult{
		NodeNames: &[]string{}, FailedNodes: extenderv1.FailedNodesMap{}, FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{},
	}
	for _, node := range *question.NodeNames {
		if why, out := h.behaviour["filter"][node]; out {
			result.FailedNodes[node] = strings.Join(why, " ")
		} else if why, out := h.behaviour["never"][node]; out {
			result.FailedAndUnresolvableNodes[node] = strings.Join(why, " ")
		} else {
			*result.NodeNames = append(*result.NodeNames, node)
		}
	}
	return result
}

func (h *webhook) prioritize(question *extenderv1.ExtenderArgs) (extenderv1.HostPriorityList, error) {
	var list extenderv1.HostPriorityList
	for _, node := range *question.NodeNames {
		score := int64(0)
		if words := h.behaviour["prioritize"][node]; len(words) > 0 {
			var err error
			if score, err = strconv.ParseInt(words[0], 10, 64); err != nil {
				return nil, err
			}
		}
		list = append(list, extenderv1.HostPriority{Host: node, Score: score})
	}
	return list, nil
}

func (h *webhook) preempt(question *extenderv1.ExtenderPreemptionArgs) *extenderv1.ExtenderPreemptionResult {
	proposed := question.NodeNameToMetaVictims
	asked := fmt.Sprintf("ask about victims: %s", key(question.Pod.Namespace, question.Pod.Name))
	result := &extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{}}
	for _, node := range slices.Sorted(maps.Keys(proposed)) {
		asked += "; on " + node
		for _, pod := range proposed[node].Pods {
			asked += " " + pod.UID
		}
		victims, set := h.behaviour["preempt"][node]
		if !set {
			result.NodeNameToMetaVictims[node] = proposed[node]
			continue
		}
		for _, name := range victims {
			if result.NodeNameToMetaVictims[node] == nil {
				result.NodeNameToMetaVictims[node] = &extenderv1.MetaVictims{}
			}
			meta := result.NodeNameToMetaVictims[node]
			meta.Pods = append(meta.Pods, &extenderv1.MetaPod{UID: name})
		}
	}
	h.asked = append(h.asked, asked+"\n")
	return result
}

// end closes what the stage has opened.
func (s *environment) end() {
	s.close()
	if s.webhook != nil {
		s.webhook.server.Close()
	}
}
