// The form of a type's settings. What engine.toml makes can't be changed here and
// says so; what the engine refuses is shown at the field that it names.

import { attr, h, put, show, text } from '../dom.js';
import { send } from '../api.js';
import { plural } from '../format.js';
import { parseDuration, parseSize, writeDuration, writeSize } from '../units.js';
import { complaints, DEFAULT, GROUPS, inFile, putAt, read, SETTINGS, valueAt, written } from '../settings.js';
import { button, panel, select, toast } from '../ui.js';
import { faultOf } from '../jsontext.js';
import { typePath } from './typeactions.js';

const OWNED = 'engine.toml sets this: change it there, then restart the engine.';
const sources = { file: ['engine.toml', 'tag'], api: ['changed', 'tag tag-warn'], default: ['default', 'tag'] };

// settingsForm is {el, set(type)} for a type; set shows what the engine has, and leaves what is being edited.
export function settingsForm(name) {
  let type = null;
  const rows = new Map(SETTINGS.map((s) => [s.path, rowOf(s, () => changed())]));
  const message = h('p', { class: 'field-error', role: 'alert', hidden: true });
  const status = h('span', { class: 'muted', role: 'status' });
  const save = h('button', { type: 'submit', class: 'button button-primary', disabled: true }, 'Save');
  const undo = button('Undo', () => set(type), { disabled: true });
  const form = h('form', { class: 'settings', 'aria-label': `Settings of ${name}`, onsubmit: submit, novalidate: true },
    GROUPS.map(([label, list]) => h('fieldset', null, h('legend', null, label), h('div', { class: 'settings-grid' }, list.map((s) => rows.get(s.path).el)))),
    h('div', { class: 'settings-end' }, message, save, undo, status));
  const source = h('span');
  const el = panel('Settings', { name: 'settings', tools: source }, h('div', { class: 'panel-body' }, form));

  const edited = () => [...rows.values()].filter((r) => r.edited());
  function changed() {
    const n = edited().length;
    attr(save, 'disabled', n === 0);
    attr(undo, 'disabled', n === 0);
    text(status, n ? `${plural(n, 'setting')} changed, not saved` : '');
  }
  // set shows the settings; with keep, what is being edited stays.
  function set(t, keep = false) {
    type = t;
    put(source, t.source === 'file' ? 'set by engine.toml' : t.source === 'api' ? 'changed through the API' : 'all defaults');
    for (const r of rows.values()) r.set(t, keep);
    if (!keep) show(message, false);
    changed();
  }
  async function submit(ev) {
    ev.preventDefault();
    show(message, false);
    const patch = {};
    let wrong = null;
    for (const r of rows.values()) r.complain('');
    for (const r of edited()) {
      try {
        putAt(patch, r.setting.path, r.value());
      } catch (err) {
        r.complain(err.message);
        wrong ??= r;
      }
    }
    if (wrong) { wrong.input.focus(); return; }
    save.disabled = true;
    try {
      const saved = await send('PATCH', typePath(name), patch);
      set(saved);
      toast(`The settings of ${name} are saved.`);
    } catch (err) {
      refuse(err);
      changed();
    }
  }
  function refuse(err) {
    let first = null;
    for (const [path, said] of complaints(err.message)) {
      const r = rows.get(path);
      if (r) { r.complain(said); first ??= r; }
      else show(text(message, `${said}${err.code ? ` (${err.code})` : ''}`), true);
    }
    first?.input.focus();
  }
  return { el, set: (t) => set(t, true) };
}

let ids = 0;

// rowOf is a setting: {el, input, set(type, keep), edited(), value(), complain(said)}.
function rowOf(setting, changed) {
  const id = `set${++ids}`;
  const input = inputOf(setting);
  const [tag, hint, error] = [h('span', { class: 'tag' }), h('p', { class: 'hint', id: `${id}h` }), h('p', { class: 'field-error', id: `${id}e`, role: 'alert', hidden: true })];
  Object.assign(input, { id, name: setting.path });
  input.setAttribute('aria-describedby', `${id}e ${id}h`);
  const el = h('div', { class: `setting${setting.kind === 'json' ? ' setting-wide' : ''}`, 'data-setting': setting.path }, h('div', { class: 'setting-head' }, h('label', { for: id }, setting.label), tag), input, hint, error);
  let shown = '';
  let touched = false; // somebody edits it
  let had; // as the engine has it
  const edited = () => touched && typed() !== shown;
  const typed = () => (setting.kind === 'flag' ? String(input.checked) : input.value.trim());
  const complain = (said) => {
    show(text(error, said), Boolean(said));
    input.setAttribute('aria-invalid', said ? 'true' : 'false');
  };
  const mark = () => {
    el.classList.toggle('is-edited', edited());
    changed();
  };
  input.addEventListener('input', () => { touched = true; complain(''); mark(); });
  return {
    el, input, setting, complain, edited,
    value() {
      const next = valueOf(setting, typed());
      const lost = setting.empty === null && next ? Object.keys(had ?? {}).filter((k) => !(k in next)) : [];
      if (lost.length) throw new Error(`To remove ${lost.join(', ')}, empty the field and save, then enter the others: a request can add or replace entries, or remove all of them.`);
      return next;
    },
    set(t, keep) {
      const value = valueAt(t.settings, setting.path);
      const owned = inFile(setting, t.set_in_file ?? []);
      had = value;
      shown = write(setting, value);
      attr(input, 'placeholder', unsetOf(setting, t));
      touched &&= keep && !owned;
      if (!touched) {
        if (setting.kind === 'flag') input.checked = shown === 'true';
        else input.value = shown;
        complain('');
      }
      const from = owned ? 'file' : JSON.stringify(value ?? null) === JSON.stringify(valueAt(t.defaults, setting.path) ?? null) ? 'default' : 'api';
      attr(text(tag, sources[from][0]), 'class', sources[from][1]);
      attr(tag, 'data-source', from);
      const lock = setting.kind === 'flag' || setting.kind === 'choice' ? 'disabled' : 'readonly';
      attr(input, lock, owned);
      text(hint, owned ? OWNED : setting.hint);
      el.classList.toggle('is-owned', owned);
      el.classList.toggle('is-edited', edited());
    },
  };
}

// unsetOf says what an empty field means: the engine's default, if it has one.
function unsetOf(setting, { unset, settings }) {
  const known = valueAt(unset ?? {}, setting.path);
  const value = known && setting.least ? Math.max(known, valueAt(settings, setting.least) ?? 0) : known;
  return setting.unset !== undefined && value && setting.kind !== 'json' ? write(setting, value) : setting.unset;
}

function inputOf(s) {
  if (s.kind === 'flag') return h('input', { type: 'checkbox' });
  if (s.kind === 'choice') return select(s.choices, '');
  if (s.kind === 'json') return h('textarea', { rows: 2, spellcheck: 'false', placeholder: s.unset });
  return h('input', { autocomplete: 'off', spellcheck: 'false', maxlength: 128, placeholder: s.unset, inputmode: s.kind === 'count' || s.kind === 'number' ? 'decimal' : null });
}

// write is a value as its field shows it.
function write(s, value) {
  if (s.kind === 'flag') return String(Boolean(value));
  if (value === undefined || value === null || (s.unset !== undefined && (value === 0 || value === ''))) return '';
  if (s.kind === 'duration') return writeDuration(value);
  if (s.kind === 'size') return writeSize(value);
  if (s.kind === 'json') return Object.keys(value).length ? JSON.stringify(written(value)) : '';
  return String(value);
}

// valueOf reads a field; it throws what is wrong with it.
function valueOf(s, said) {
  const value = valueRead(s, said);
  if (value === 0 && said !== '' && s.unset === DEFAULT) throw new Error('It must be more than 0; leave the field empty for the default.');
  return value;
}

function valueRead(s, said) {
  if (s.kind === 'flag') return said === 'true';
  if (s.kind === 'choice' || s.kind === 'words') return said;
  if (said === '') {
    if (s.unset === undefined) throw new Error('Enter a value.');
    return s.kind === 'json' ? s.empty : 0;
  }
  if (s.kind === 'duration') return parseDuration(said);
  if (s.kind === 'size') return parseSize(said);
  if (s.kind === 'json') {
    const fault = faultOf(said);
    if (fault) throw new Error(fault);
    return read(JSON.parse(said));
  }
  const n = Number(said.replaceAll(',', ''));
  if (Number.isNaN(n)) throw new Error(`“${said}” is not a number.`);
  if (s.kind === 'count' && !Number.isInteger(n)) throw new Error('It must be a whole number.');
  return n;
}
