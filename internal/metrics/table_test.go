package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"
)

func TestTable(t *testing.T) {
	prometheus.NewRegistry().MustRegister(Make(Table()))
	for _, m := range Table() {
		if m.Kind == Histogram && (!slices.IsSorted(m.Buckets) || len(m.Buckets) == 0) {
			t.Errorf("%s has buckets %v", m.Name, m.Buckets)
		}
		name := string(m.Name)
		if (m.Kind == Counter) != strings.HasSuffix(name, "_total") {
			t.Errorf("%s is a %s", name, m.Kind)
		}
		if m.Kind == Histogram && !strings.HasSuffix(name, "_seconds") {
			t.Errorf("the unit of %s is not in its name", name)
		}
		if !strings.HasSuffix(m.Help, ".") {
			t.Errorf("what %s says is no sentence: %s", name, m.Help)
		}
		for _, label := range m.Labels {
			if slices.Contains([]string{"pod", "job", "job_id", "job_name", "namespace"}, label.Name) {
				t.Errorf("%s is labelled with %s", name, label.Name)
			}
		}
	}
}

const chart = "../../charts/tutti/files/"

// TestQueriesNameWhatThereIs compares the dashboard and the alerts with the table: each metric and label in a query exists.
func TestQueriesNameWhatThereIs(t *testing.T) {
	dashboard := queriesOfDashboard(t)
	alerts := queriesOfAlerts(t)
	if len(dashboard) < 10 || len(alerts) < 5 {
		t.Fatalf("found %d queries of the dashboard and %d of alerts", len(dashboard), len(alerts))
	}
	for _, query := range slices.Concat(dashboard, alerts) {
		for _, wrong := range check(query) {
			t.Errorf("%s: %s", query, wrong)
		}
	}
}

func TestCheckFindsWhatIsWrong(t *testing.T) {
	for query, want := range map[string]string{
		`sum by (reason) (tutti_waiting_jobs{job=~"$job"})`:          "",
		`sum(rate(tutti_cycle_duration_seconds_bucket[5m])) by (le)`: "",
		`tutti_leading > 1 or absent(tutti_leading)`:                 "",
		`sum(tutti_waiting_job)`:                                     "there is no metric tutti_waiting_job",
		`rate(tutti_cycle_duration_seconds[5m])`:                     "there is no metric tutti_cycle_duration_seconds",
		`tutti_outcomes_total{result="Bound"}`:                       "tutti_outcomes_total has no label result",
		`sum by (reasons) (tutti_waiting_jobs)`:                      "no metric here has the label reasons",
		`sum by (le) (tutti_waiting_jobs)`:                           "no metric here has the label le",
		`label_values(tutti_cycle_duration_seconds_count, job)`:      "",
		`vector(1)`: "it names no metric",
		`tutti_evictions_total{cause="undo",reason="x"}`:                  "tutti_evictions_total has no label reason",
		`sum(tutti_evictions_total) by (cause) / on (kind) tutti_leading`: "no metric here has the label kind",
	} {
		if got := strings.Join(check(query), "; "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

// TestAlertsSeeTheFirst: to Prometheus a new series is no increase, so series in alerts exist from the start.
func TestAlertsSeeTheFirst(t *testing.T) {
	counted := 0
	for _, query := range queriesOfAlerts(t) {
		for _, found := range ours.FindAllStringSubmatch(query, -1) {
			row, known := find(Name(found[1]))
			if !known || row.Kind != Counter || !slices.ContainsFunc(Scheduler(), func(m Metric) bool { return m.Name == row.Name }) { // the agent's are at zero where they are created
				continue
			}
			counted++
			if missing := unborn(row, found[2]); missing != "" {
				t.Errorf("%s: the first %s is not seen", query, missing)
			}
		}
	}
	if counted < 5 {
		t.Errorf("alerts name %d counters only", counted)
	}
	if row, _ := find(Evictions); unborn(row, `cause="boredom"`) == "" {
		t.Error("a value that is not there passes")
	}
}

// unborn returns the series of a selector that does not exist from the start, empty when all do.
func unborn(row Metric, selector string) string {
	values := make(chan prometheus.Metric, 100)
	Make([]Metric{row}).Collect(values)
	if len(values) == 0 {
		return string(row.Name)
	}
	for _, wanted := range regexp.MustCompile(`(\w+)="([^"]*)"`).FindAllStringSubmatch(selector, -1) {
		for _, label := range row.Labels {
			if label.Name == wanted[1] && !slices.Contains(label.Known, wanted[2]) {
				return string(row.Name) + "{" + wanted[0] + "}"
			}
		}
	}
	return ""
}

func queriesOfDashboard(t *testing.T) (queries []string) {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct{ List []struct{ Query string } }
	}
	text, err := os.ReadFile(chart + "dashboard.json")
	if err == nil {
		err = json.Unmarshal(text, &dashboard)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries = append(queries, target.Expr)
		}
	}
	for _, variable := range dashboard.Templating.List {
		if variable.Query != "prometheus" {
			queries = append(queries, variable.Query)
		}
	}
	return queries
}

func queriesOfAlerts(t *testing.T) (queries []string) {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Labels      map[string]string
				Annotations map[string]string
			}
		}
	}
	text, err := os.ReadFile(chart + "alerts.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			if rule.Alert == "" || rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("alert %q says too little", rule.Alert)
			}
			queries = append(queries, rule.Expr)
		}
	}
	return queries
}

var (
	quoted   = regexp.MustCompile(`"[^"]*"`)
	span     = regexp.MustCompile(`\[[^\]]*\]`)
	grouping = regexp.MustCompile(`\b(by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	ours     = regexp.MustCompile(`\b((?:tutti|isolcpu|volcano)_\w+)\s*(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
)

// scraped are the labels that a Prometheus adds, and those of the metrics of libraries that queries name.
var scraped = []string{"job", "instance", "namespace", "pod", "cluster", "method", "code"}

// libraries are the metrics that Prometheus, kube-state-metrics and the libraries of our programs have.
var libraries = regexp.MustCompile(`\b(up\b|(process|go|rest_client|kube_deployment)_\w+)`)

// check returns what is wrong with a Prometheus query.
func check(query string) (wrong []string) {
	text := span.ReplaceAllString(quoted.ReplaceAllString(query, `""`), "")
	labels := slices.Clone(scraped)
	for _, found := range ours.FindAllStringSubmatch(text, -1) {
		has, known := labelsOf(found[1])
		if !known {
			wrong = append(wrong, "there is no metric "+found[1])
			continue
		}
		labels = append(labels, has...)
		for _, label := range matcher.FindAllStringSubmatch(found[2], -1) {
			if !slices.Contains(has, label[1]) && !slices.Contains(scraped, label[1]) {
				wrong = append(wrong, found[1]+" has no label "+label[1])
			}
		}
	}
	if len(labels) == len(scraped) && len(wrong) == 0 && !ours.MatchString(text) && !libraries.MatchString(text) {
		return []string{"it names no metric"}
	}
	for _, found := range grouping.FindAllStringSubmatch(text, -1) {
		for _, label := range strings.FieldsFunc(found[2], func(r rune) bool { return r == ',' || r == ' ' }) {
			if !slices.Contains(labels, label) && len(wrong) == 0 {
				wrong = append(wrong, "no metric here has the label "+label)
			}
		}
	}
	return wrong
}

// labelsOf returns the labels of a series.
func labelsOf(series string) (labels []string, known bool) {
	for _, m := range Table() {
		scraped := []string{string(m.Name)}
		if m.Kind == Histogram {
			scraped = []string{scraped[0] + "_bucket", scraped[0] + "_count", scraped[0] + "_sum"}
		}
		if slices.Contains(scraped, series) {
			for _, label := range m.Labels {
				labels = append(labels, label.Name)
			}
			if strings.HasSuffix(series, "_bucket") && m.Kind == Histogram {
				labels = append(labels, "le")
			}
			return labels, true
		}
	}
	return nil, false
}

// find returns a row of the table; false when there is none of that name.
func find(name Name) (Metric, bool) {
	table := Table()
	i := slices.IndexFunc(table, func(m Metric) bool { return m.Name == name })
	if i < 0 {
		return Metric{}, false
	}
	return table[i], true
}
