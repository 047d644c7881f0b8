package top

import (
	"context"
	"slices"
	"strings"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/wire"
)

// kind is a kind of page.
type kind int

const (
	typesPage kind = iota
	workersPage
	itemsPage
	itemPage
)

// tabs are the pages that tab goes round, by their names.
var tabs = []string{typesPage: "types", workersPage: "workers", itemsPage: "items"}

// page is one page below the overview: its content, and the user's place in it.
type page struct {
	kind   kind
	words  string              // of the types or workers that are shown
	filter streamwright.Filter // of the items
	id     string              // of the item

	workers []streamwright.WorkerInfo
	items   Items
	item    Item
	known   bool // the engine has answered for this page

	at  int    // the row that is chosen; of an item the first line that is shown
	key string // the chosen row's, which stays chosen where it goes
}

// The items of a page: at first, and at most.
const (
	someItems = 100
	mostItems = 1000
)

// query returns the question whose answer fills the page.
func (p *page) query(src Source) func(context.Context) (func(*page), error) {
	kind, id, filter := p.kind, p.id, p.filter
	return func(ctx context.Context) (func(*page), error) {
		switch kind {
		case workersPage:
			ws, err := src.Workers(ctx)
			return func(p *page) { p.workers, p.known = ws, true }, err
		case itemsPage:
			items, err := src.Items(ctx, filter)
			return func(p *page) { p.items, p.known = items, true }, err
		case itemPage:
			it, err := src.Item(ctx, id)
			return func(p *page) { p.item, p.known = it, true }, err
		}
		return func(p *page) { p.known = true }, nil
	}
}

// matching returns the entries of which a word contains what the page's filter says.
func matching[T any](p *page, all []T, words func(T) []string) []T {
	if p.words == "" {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(e T) bool {
		return !slices.ContainsFunc(words(e), func(w string) bool { return strings.Contains(strings.ToLower(w), strings.ToLower(p.words)) })
	})
}

// types returns the types that the page shows.
func (m *Model) types() []wire.TypeStats {
	return matching(m.page(), m.over.Stats.Types, func(t wire.TypeStats) []string { return []string{t.Type} })
}

// workers returns the workers that the page shows.
func (m *Model) workers() []streamwright.WorkerInfo {
	return matching(m.page(), m.page().workers, func(w streamwright.WorkerInfo) []string { return append([]string{w.Worker, w.Host}, w.Types...) })
}

// keys returns what tells the page's rows apart.
func (m *Model) keys() (keys []string) {
	switch p := m.page(); p.kind {
	case typesPage:
		for _, t := range m.types() {
			keys = append(keys, t.Type)
		}
	case workersPage:
		for _, w := range m.workers() {
			keys = append(keys, w.Worker+" "+w.Session)
		}
	case itemsPage:
		for _, it := range p.items.Items {
			keys = append(keys, it.ID)
		}
	}
	return keys
}

// settle finds the chosen row among new ones.
func (p *page) settle(m *Model) {
	if p.kind == itemPage {
		return // View bounds it
	}
	keys := m.keys()
	if i := slices.Index(keys, p.key); i >= 0 && p.at > 0 { // the first row stays the first
		p.at = i
	}
	p.choose(keys, p.at)
}

// choose chooses a row.
func (p *page) choose(keys []string, at int) {
	p.at = max(min(at, len(keys)-1), 0)
	if p.key = ""; p.at < len(keys) {
		p.key = keys[p.at]
	}
}

// chosen returns the row that is chosen; false if there is none.
func chosen[T any](p *page, rows []T) (T, bool) {
	var none T
	if p.at >= len(rows) {
		return none, false
	}
	return rows[p.at], true
}

// chosenItem is the item that keys concern.
func (m *Model) chosenItem() (streamwright.WorkItem, bool) {
	switch p := m.page(); p.kind {
	case itemsPage:
		return chosen(p, p.items.Items)
	case itemPage:
		return p.item.WorkItem, p.known
	}
	return streamwright.WorkItem{}, false
}

// chosenType is the type that keys concern.
func (m *Model) chosenType() (string, bool) {
	p := m.page()
	if p.kind == typesPage {
		t, ok := chosen(p, m.types())
		return t.Type, ok
	}
	if it, ok := m.chosenItem(); ok {
		return it.Type, true
	}
	return p.filter.Type, p.filter.Type != ""
}
