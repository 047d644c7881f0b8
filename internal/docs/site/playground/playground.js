// The playground of a page: a session of the engine's core, compiled to WebAssembly, in the
// reader's browser. Each button is a command; what the core answers is shown as it is. The
// core is loaded when a reader starts it.

/** Makes an element, with attributes and properties, and children. */
function h(tag, props, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (name in el && name !== 'list') el[name] = value;
    else el.setAttribute(name, value);
  }
  el.append(...children);
  return el;
}

let loading;

/** Loads the core, once, and returns the function that begins a session. */
function load(files) {
  loading ??= (async () => {
    await new Promise((resolve, reject) => document.head.append(h('script', { src: files + 'wasm_exec.js', onload: resolve, onerror: reject })));
    const packed = await fetch(files + 'playground.wasm.gz');
    if (!packed.ok) throw new Error(`the core is not there: status ${packed.status}`);
    const code = await new Response(packed.body.pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
    const go = new globalThis.Go();
    const { instance } = await WebAssembly.instantiate(code, go.importObject);
    go.run(instance); // until it waits for calls
    return globalThis.streamwrightPlayground;
  })();
  return loading;
}

const help = `submit TYPE {"priority": 9, "dedup_key": "a", "tenant": "acme", "delay_ms": 1000, "max_attempts": 2, "timeout_ms": 5000}
complete [N]     fail [N] {"code": "network", "retryable": true, "retry_after_ms": 1000}     lose [N]     cancel N
advance 10s      advance next      slots N      pause TYPE      resume TYPE      reset TYPE
type TYPE {SETTINGS}, in the form of the settings in type_configured events`;

class Playground {
  constructor(section) {
    this.section = section;
    this.script = section.dataset.script.split('\n').filter((line) => line !== '');
    const start = h('button', { type: 'button', onclick: () => this.start(start) }, 'Start the playground');
    this.note = h('p', { role: 'status' }, `Try it here: the engine's own core, in your browser. Nothing leaves this page.`);
    section.replaceChildren(this.note, start);
  }

  async start(button) {
    button.disabled = true;
    this.note.textContent = 'Loading the core…';
    try {
      this.begin = await load(this.section.dataset.files);
    } catch (err) {
      loading = undefined;
      button.disabled = false;
      this.note.textContent = `The playground could not be loaded: ${err.message ?? 'its files are not there'}`;
      return;
    }
    this.build();
    this.restart();
    this.command.focus();
  }

  build() {
    const types = [...new Set(this.script.map((line) => /^(?:submit|type) (\S+)/.exec(line)?.[1]).filter(Boolean))];
    const button = (text, command) => h('button', { type: 'button', onclick: () => this.run(command()) }, text);
    const label = (text, control) => h('label', {}, text, ' ', control);
    const type = h('input', { value: types[0] ?? 'email', size: 10, spellcheck: false });
    const priority = h('select', {}, ...Array.from({ length: 10 }, (_, n) => h('option', { value: n, selected: n === 5 }, String(n))));
    const key = h('input', { size: 8, spellcheck: false });
    const submission = () => {
      const options = { priority: Number(priority.value) };
      if (key.value !== '') options.dedup_key = key.value;
      return `submit ${type.value} ${JSON.stringify(options)}`;
    };
    this.code = h('select', { className: 'codes' }, ...['error', 'network', 'rate_limited', 'timeout', 'logic'].map((code) => h('option', {}, code)));
    this.command = h('input', { className: 'command', spellcheck: false, autocomplete: 'off', placeholder: 'advance 10s' });
    this.state = h('p', { className: 'state' });
    this.items = h('tbody');
    this.log = h('pre', { className: 'log', tabIndex: 0, role: 'log', 'aria-label': 'Commands and events' });
    this.digest = h('code');
    this.section.replaceChildren(
      h('form', { className: 'row', onsubmit: (e) => { e.preventDefault(); this.run(submission()); } },
        label('Type', type), label('Priority', priority), label('Dedup key', key), h('button', {}, 'Submit')),
      h('div', { className: 'row' },
        button('Complete the first run', () => 'complete'), button('Fail it', () => this.failure('')), label('with code', this.code)),
      h('div', { className: 'row' }, 'Let time pass:',
        ...['1s', '10s', '1m', '10m'].map((d) => button(d, () => `advance ${d}`)), button('until something is due', () => 'advance next')),
      h('form', { className: 'row', onsubmit: (e) => { e.preventDefault(); this.run(this.command.value); } },
        label('Command', this.command), h('button', {}, 'Run'), h('button', { type: 'button', onclick: () => this.restart() }, 'Start again')),
      h('details', {}, h('summary', {}, 'All commands'), h('pre', {}, help)),
      this.state,
      h('table', {},
        h('thead', {}, h('tr', {}, ...['Item', 'Type', 'Priority', 'State', 'Attempt', 'Due in', 'Report'].map((name) => h('th', { scope: 'col' }, name)))), this.items),
      this.log,
      h('p', { className: 'digest' }, 'Digest of the state that the log gives: ', this.digest));
  }

  failure(number) { return `fail ${number} ${JSON.stringify({ code: this.code.value })}`; }

  restart() {
    this.session = this.begin();
    this.log.replaceChildren();
    for (const line of this.script) this.run(line);
  }

  run(line) {
    if (line.trim() === '') return;
    const { events, refused, view } = JSON.parse(this.session(line));
    this.log.append(h('b', {}, `> ${line}\n`), ...(events ?? []).map((event) => event + '\n'));
    if (refused) this.log.append(h('span', { className: 'refused' }, refused + '\n'));
    this.log.scrollTop = this.log.scrollHeight;
    this.show(view);
  }

  show(view) {
    const held = Object.entries(view.held).map(([type, why]) => ` ${type}: ${why}.`);
    const runs = view.items.filter((it) => it.state === 'running').length;
    this.state.textContent = `${view.passed} since the start; ${runs} of ${view.slots} slots run.${held.join('')}`;
    const at = document.activeElement?.dataset.act; // the table is made anew: keep the focus
    this.items.replaceChildren(...view.items.map((it) => h('tr', {},
      h('td', {}, String(it.number)), h('td', {}, it.type), h('td', {}, String(it.priority)),
      h('td', {}, it.note ? `${it.state}: ${it.note}` : it.state),
      h('td', {}, it.attempt ? `${it.attempt} of ${it.max_attempts}` : ''), h('td', {}, it.due ?? ''),
      h('td', {}, ...(it.state !== 'running' ? [] : [
        this.act(it, 'Complete', () => `complete ${it.number}`), ' ', this.act(it, 'Fail', () => this.failure(it.number)), ' ', this.act(it, 'Lose', () => `lose ${it.number}`),
      ])))));
    this.digest.textContent = view.digest;
    if (at) (this.items.querySelector(`[data-act="${at}"]`) ?? this.command).focus();
  }

  act(it, text, command) {
    const el = h('button', { type: 'button', 'aria-label': `${text} item ${it.number}`, onclick: () => this.run(command()) }, text);
    el.dataset.act = `${text} ${it.number}`;
    return el;
  }
}

for (const section of document.querySelectorAll('section.playground')) new Playground(section);
