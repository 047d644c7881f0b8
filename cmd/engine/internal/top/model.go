package top

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/wire"
)

// Options say how the screen works.
type Options struct {
	Program   string // as people call it
	Namespace string
	Interval  time.Duration // between two looks at the engine
	Timeout   time.Duration // of a look or a change
	Style     console.Style
	Calls     func(string) string // writes the commands of a text as people type them
	Notes     Notes               // what is to be shown beside the answers; nil: nothing
	Now       func() time.Time
}

// Notes carries what would else be printed over the screen. What has no room is dropped.
type Notes chan string

// Write implements io.Writer. It never fails.
func (n Notes) Write(p []byte) (int, error) {
	select {
	case n <- strings.TrimSpace(string(p)):
	default:
	}
	return len(p), nil
}

// Run shows the screen until the user quits or ctx ends.
func Run(ctx context.Context, src Source, o Options, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx) // what is asked ends with the screen
	defer cancel()
	_, err := tea.NewProgram(New(ctx, src, o), tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler()).Run()
	if ctx.Err() != nil && errors.Is(err, tea.ErrProgramKilled) {
		return nil
	}
	return err
}

// Model is the state of the screen. Only Update changes it.
type Model struct {
	src Source
	o   Options
	ctx context.Context // of all questions

	width, height int
	now           time.Time

	pages []*page // the one shown is the last, and below it those that esc leads back to

	over  Overview
	heard time.Time // when the engine last answered; zero: not yet

	asked time.Time          // when the open question was asked
	stop  context.CancelFunc // ends the open question; nil: none is
	view  int                // counts the pages that were turned to
	err   error              // of the last answer

	said     string // what the last change came to, or another note
	bad      bool   // it failed
	changing string // the change that is under way

	ask  *confirmation
	edit *filterEdit
	help bool
}

// confirmation is a change that is about to be made.
type confirmation struct {
	text  string // what it touches
	doing string
	do    func(context.Context) (string, error)
}

// New returns the screen as it begins.
func New(ctx context.Context, src Source, o Options) *Model {
	return &Model{src: src, o: o, ctx: ctx, now: o.Now(), width: 80, height: 24, pages: []*page{{kind: typesPage}}}
}

// What Update is told.
type (
	ticked  struct{}
	noted   string
	changed struct {
		text string
		err  error
	}
	// answered is the answer to the question that was asked for a view.
	answered struct {
		view int
		over Overview
		fill func(*page) // enters what the page asked for; nil if err is not
		err  error
	}
)

// Init implements tea.Model.
func (m *Model) Init() tea.Cmd {
	return tea.Batch(m.look(), m.tick(), m.listen())
}

func (m *Model) tick() tea.Cmd {
	return tea.Tick(m.o.Interval, func(time.Time) tea.Msg { return ticked{} })
}

// listen awaits a note.
func (m *Model) listen() tea.Cmd {
	return func() tea.Msg {
		select {
		case text := <-m.o.Notes:
			return noted(text)
		case <-m.ctx.Done():
			return nil
		}
	}
}

// Update implements tea.Model.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	m.now = m.o.Now()
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case ticked:
		return m, tea.Batch(m.tick(), m.look())
	case answered:
		return m, m.take(msg)
	case changed:
		m.changing, m.said, m.bad = "", msg.text, msg.err != nil
		if msg.err != nil {
			m.said = console.Explain(msg.err)
		}
		return m, m.turned()
	case noted:
		m.said, m.bad = string(msg), true
		return m, m.listen()
	case tea.PasteMsg:
		if m.edit != nil {
			m.edit.add(msg.Content)
		}
	case tea.KeyPressMsg:
		return m, m.press(msg)
	}
	return m, nil
}

// look asks the engine for what the page shows, unless a question is open.
func (m *Model) look() tea.Cmd {
	if m.stop != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(m.ctx, m.o.Timeout)
	m.stop, m.asked = cancel, m.now
	a, query := answered{view: m.view}, m.page().query(m.src)
	return func() tea.Msg {
		defer cancel()
		if a.over, a.err = m.src.Overview(ctx); a.err == nil {
			a.fill, a.err = query(ctx)
		}
		return a
	}
}

// take takes an answer. One for a page that was left is of use for what all pages show.
func (m *Model) take(a answered) tea.Cmd {
	m.stop = nil
	current := a.view == m.view
	if a.err == nil {
		m.over, m.heard = a.over, m.now
	}
	if !current {
		return m.look()
	}
	if m.err = a.err; a.err == nil {
		a.fill(m.page())
		m.page().settle(m)
	}
	return nil
}

// turned is to be called when another page is shown, or the page shows something else: the
// open question is of no use then.
func (m *Model) turned() tea.Cmd {
	m.view++
	if m.stop != nil {
		m.stop() // the answer, which is an error then, asks anew
		return nil
	}
	return m.look()
}

// change makes the change that was confirmed.
func (m *Model) change(c *confirmation) tea.Cmd {
	m.changing, m.said = c.doing, ""
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, m.o.Timeout)
		defer cancel()
		text, err := c.do(ctx)
		return changed{text, err}
	}
}

// page is the page that is shown.
func (m *Model) page() *page { return m.pages[len(m.pages)-1] }

// typeStats returns the figures of a type, nil if they are unknown.
func (m *Model) typeStats(typ string) *wire.TypeStats {
	for i := range m.over.Stats.Types {
		if t := &m.over.Stats.Types[i]; t.Type == typ {
			return t
		}
	}
	return nil
}
