package api

import (
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sync/errgroup"

	"github.com/streamwright/streamwright/events"
)

const (
	// maxScrapes bounds the scrapes that run at once, and maxFullScrapes those of all
	// namespaces.
	maxScrapes, maxFullScrapes = 4, 2
	// scrapeTimeout bounds a scrape.
	scrapeTimeout = 10 * time.Second
	// MaxScrapedNamespaces bounds the namespaces in a scrape of all, default among them.
	MaxScrapedNamespaces = 100
)

// namespaceLabel tells the series of one namespace from those of another in a scrape of all.
const namespaceLabel = "namespace"

var (
	descRuns    = desc("namespace_running", "1 if the namespace runs on this node, 0 if it starts, has failed or is being removed; in a scrape of all namespaces alone.", namespaceLabel)
	descLeftOut = desc("namespaces_left_out", "Namespaces that a scrape of all leaves out, since it has more than 100: those added last.")
)

// NamespaceMetrics are the metrics of one namespace; nil if it does not run here.
type NamespaceMetrics struct {
	Name    events.Namespace
	Metrics *Metrics
}

// Gather returns the engine's own metrics, without those of the process.
func (m *Metrics) Gather() ([]*dto.MetricFamily, error) { return m.registry.Gather() }

// MetricsHandler answers /metrics.
func (s *Service) MetricsHandler() http.Handler {
	return s.scrapes(prometheus.Gatherers{s.Metrics, s.Metrics.process}, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
}

// AllMetricsHandler answers /metrics?namespaces=all: as [Service.MetricsHandler], with the
// series of all namespaces, each with a label that names its namespace. The metrics of the
// process, which is that of all of them, have no such label. What one namespace can't tell is
// left out, and logged.
func (s *Service) AllMetricsHandler() http.Handler {
	return s.scrapes(prometheus.GathererFunc(s.gatherAll), promhttp.HandlerOpts{MaxRequestsInFlight: maxFullScrapes, ErrorHandling: promhttp.ContinueOnError})
}

// scrapes answers with what a gatherer has.
func (s *Service) scrapes(g prometheus.Gatherer, o promhttp.HandlerOpts) http.Handler {
	o.Timeout, o.ErrorLog = scrapeTimeout, slog.NewLogLogger(s.Logger.Handler(), slog.LevelWarn)
	return promhttp.HandlerFor(g, o)
}

// gatherAll gathers the metrics of the process and of all namespaces, as many at a time as
// there are processors.
func (s *Service) gatherAll() ([]*dto.MetricFamily, error) {
	all := []NamespaceMetrics{{events.DefaultNamespace, s.Metrics}}
	if s.Namespaces != nil {
		all = append(all, s.Namespaces.Metrics()...)
	}
	shown := all[:min(len(all), MaxScrapedNamespaces)]
	gathered := make(prometheus.Gatherers, len(shown), len(shown)+2)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, n := range shown {
		group.Go(func() error {
			gathered[i] = labelled(n)
			return nil
		})
	}
	_ = group.Wait() // each has its error with it
	list := prometheus.NewRegistry()
	list.MustRegister(listCollector{shown, len(all) - len(shown)})
	return append(gathered, s.Metrics.process, list).Gather()
}

// labelled gathers the metrics of a namespace, with the label that names it.
func labelled(n NamespaceMetrics) prometheus.Gatherer {
	if n.Metrics == nil {
		return prometheus.Gatherers{}
	}
	families, err := n.Metrics.Gather()
	name, value := namespaceLabel, string(n.Name)
	label := &dto.LabelPair{Name: &name, Value: &value}
	for _, f := range families {
		for _, m := range f.Metric {
			at, _ := slices.BinarySearchFunc(m.Label, name, func(l *dto.LabelPair, name string) int { return strings.Compare(l.GetName(), name) })
			m.Label = slices.Concat(m.Label[:at], []*dto.LabelPair{label}, m.Label[at:]) // the metric's own are not to be changed
		}
	}
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return families, err })
}

// listCollector says which namespaces a scrape of all shows.
type listCollector struct {
	shown   []NamespaceMetrics
	leftOut int
}

func (c listCollector) Describe(out chan<- *prometheus.Desc) {
	out <- descRuns
	out <- descLeftOut
}

func (c listCollector) Collect(out chan<- prometheus.Metric) {
	for _, n := range c.shown {
		out <- prometheus.MustNewConstMetric(descRuns, prometheus.GaugeValue, boolean(n.Metrics != nil), string(n.Name))
	}
	out <- prometheus.MustNewConstMetric(descLeftOut, prometheus.GaugeValue, float64(c.leftOut))
}
