package api

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// namespace begins every metric's name.
const namespace = "streamwright"

// Described is a metric that the engine exports, whether it has samples or not.
type Described struct {
	Name   string
	Type   string // counter, gauge, histogram
	Help   string
	Labels []string
}

// catalogue collects what is described.
type catalogue []Described

func (c *catalogue) add(kind, name, help string, labels []string) string {
	*c = append(*c, Described{Name: namespace + "_" + name, Type: kind, Help: help, Labels: labels})
	return name
}

func (c *catalogue) counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: c.add("counter", name, help, labels), Help: help}, labels)
}

func (c *catalogue) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: c.add("histogram", name, help, labels), Help: help, Buckets: buckets}, labels)
}

// scraped are the metrics that are read when they are scraped.
var scraped catalogue

// scrapedDescs are those of scraped.
var scrapedDescs []*prometheus.Desc

func desc(name, help string, labels ...string) *prometheus.Desc {
	return described("gauge", name, help, labels)
}

func counterDesc(name, help string, labels ...string) *prometheus.Desc {
	return described("counter", name, help, labels)
}

func described(kind, name, help string, labels []string) *prometheus.Desc {
	d := prometheus.NewDesc(namespace+"_"+scraped.add(kind, name, help, labels), help, labels, nil)
	scrapedDescs = append(scrapedDescs, d)
	return d
}

// Catalogue lists the engine's own metrics by name, those of the Go runtime and
// the process (go_*, process_*) left out.
func Catalogue() []Described {
	all := slices.Concat(NewMetrics().catalogue, scraped)
	slices.SortFunc(all, func(a, b Described) int { return strings.Compare(a.Name, b.Name) })
	return all
}
