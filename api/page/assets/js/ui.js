// The parts that screens are made of. Classes are in css/parts.css.

import { attr, h, put, s, show, text } from './dom.js';
import { addressed } from './address.js';
import { icon } from './icons.js';
import { toast } from './toasts.js';

export { toast };

// failed says what has gone wrong.
export const failed = (err) => toast(err.code && err.status ? `${err.message} (${err.code})` : err.message, { kind: 'bad' });

// button makes a button. kind: plain (the default), primary, danger, quiet.
export function button(label, onclick, { kind = 'plain', key, title, disabled, name } = {}) {
  return h('button', { type: 'button', class: `button button-${kind}`, onclick, disabled, title, 'aria-label': name, 'aria-keyshortcuts': key, 'data-key': key },
    label, key && h('kbd', { 'aria-hidden': 'true' }, key));
}

// iconButton is a button that shows an icon; its name is said and is its title.
export function iconButton(name, label, onclick, more = {}) {
  return h('button', { type: 'button', class: 'icon-button', 'aria-label': label, title: label, onclick, ...more }, icon(name));
}

// field is a labelled input. hint is said with it; error is an element that
// complains, set by its setError.
export function field(label, input, { hint } = {}) {
  const id = `f${++fields}`;
  input.id = id;
  const error = h('p', { class: 'field-error', id: `${id}e`, role: 'alert', hidden: true });
  input.setAttribute('aria-describedby', hint ? `${id}e ${id}h` : `${id}e`);
  const el = h('div', { class: 'field' }, h('label', { for: id }, label), input, hint && h('p', { class: 'hint', id: `${id}h` }, hint), error);
  el.setError = (message) => {
    text(error, message ?? '');
    show(error, Boolean(message));
    input.setAttribute('aria-invalid', message ? 'true' : 'false');
  };
  return el;
}
let fields = 0;

// select is a list to choose one of: options are [value, text].
export function select(options, value, props) {
  return h('select', props, options.map(([v, t]) => h('option', { value: v, selected: String(v) === String(value) }, t)));
}

// dialog asks for something. body are elements; act is called when the main button
// is pressed, may be async, and keeps the dialog open by returning false or by
// throwing (the error is then shown in it). The promise gives true once it is done,
// false if it was closed. It closes when the address is left, by Back or by a link in
// it, unless it stays.
export function dialog({ title, body = [], action, kind = 'primary', act, cancel = 'Cancel', wide = false, stays = false }) {
  return new Promise((resolve) => {
    const id = `d${++fields}`;
    const error = h('p', { class: 'dialog-error', role: 'alert', hidden: true });
    const main = action && h('button', { type: 'submit', class: `button button-${kind}` }, action);
    let done = false;
    const form = h('form', { method: 'dialog', onsubmit: submit },
      h('h2', { id }, title), h('div', { class: 'dialog-body' }, body), error,
      h('div', { class: 'dialog-buttons' }, h('button', { type: 'button', class: 'button button-plain', onclick: () => el.close() }, cancel), main));
    const el = h('dialog', { class: wide ? 'wide' : null, 'data-stays': stays, 'aria-labelledby': id, onclose: () => { el.remove(); resolve(done); } }, form);
    async function submit(ev) {
      ev.preventDefault();
      if (main?.disabled) return;
      if (main) main.disabled = true;
      try {
        if (await act?.() === false) return;
        done = true;
        el.close();
      } catch (err) {
        show(text(error, err.message), true);
      } finally {
        if (main) main.disabled = false;
      }
    }
    document.body.append(el);
    el.showModal();
  });
}

// confirm asks whether something is to be done, and does it.
export const confirm = (title, message, action, act, kind = 'danger') =>
  dialog({ title, body: [h('p', null, message)], action, kind, act });

// panel is a titled part of a screen. tools stand beside the title.
export function panel(title, { tools, level = 2, name } = {}, ...body) {
  const id = `p${++fields}`;
  return h('section', { class: `panel${name ? ` panel-${name}` : ''}`, 'aria-labelledby': id },
    h('header', { class: 'panel-head' }, h(`h${level}`, { id }, title), tools && h('div', { class: 'panel-tools' }, tools)), ...body);
}

// empty says that there is nothing, why, and what to do next. commands are shown
// with a button that copies them.
export function empty(title, message, commands = []) {
  return h('div', { class: 'empty' }, h('p', { class: 'empty-title' }, title), message && h('p', null, message), commands.map(command));
}

// command is a line for a terminal, with a button that copies it. A command of the
// program engine gets the address of this one.
export function command(line) {
  const code = h('code');
  addressed(line, (whole) => text(code, whole));
  return h('div', { class: 'command' }, code, copyButton(() => code.textContent, 'Copy the command'));
}

// copyButton copies what text() gives.
export function copyButton(what, label = 'Copy') {
  return iconButton('copy', label, async () => {
    try {
      await navigator.clipboard.writeText(what());
      toast('Copied');
    } catch {
      toast('The browser does not let this page copy: select the text and copy it by hand.', { kind: 'warn' });
    }
  });
}

// facts is a list of names and values; those whose value is empty are left out.
export function facts(list) {
  return h('dl', { class: 'facts' }, list.filter(([, v]) => v !== null && v !== undefined && v !== '' && v !== false)
    .map(([k, v]) => h('div', null, h('dt', null, k), h('dd', null, v))));
}

// MAX_JSON bounds the text of a document that is shown, in characters.
const MAX_JSON = 100_000;
const token = /("(?:\\.|[^"\\])*")(\s*:)?|\b(true|false|null)\b|(-?\d[\d.eE+-]*)/g;

// json shows a document, indented and coloured; what is very long is cut.
export function json(value, { label = 'document' } = {}) {
  const whole = typeof value === 'string' && value.length > MAX_JSON ? JSON.stringify(value) : JSON.stringify(value, null, 2);
  const cut = whole.length > MAX_JSON;
  const shown = cut ? whole.slice(0, MAX_JSON) : whole;
  const pre = h('pre', { class: 'json', tabindex: 0, 'aria-label': label });
  let at = 0;
  if (shown.length < 20_000) {
    for (const m of shown.matchAll(token)) {
      const kind = m[1] ? (m[2] ? 'key' : 'text') : m[3] ? 'word' : 'number';
      pre.append(shown.slice(at, m.index), h('span', { class: `json-${kind}` }, m[1] ?? m[0]));
      at = m.index + (m[1] ?? m[0]).length;
    }
  }
  pre.append(shown.slice(at));
  return h('div', { class: 'json-box' }, copyButton(() => whole, `Copy the ${label}`), pre,
    cut && h('p', { class: 'hint' }, `The first ${MAX_JSON.toLocaleString('en')} of ${whole.length.toLocaleString('en')} characters. Copy takes all of it.`));
}

// bar is a part of a whole: a filled line. set(part, of) fills it.
export function bar(label) {
  const fill = s('rect', { class: 'bar-fill', height: 8, width: 0 });
  const el = s('svg', { class: 'bar', role: 'meter', viewBox: '0 0 72 8', width: 72, height: 8, 'aria-label': label, 'aria-valuemin': 0 }, s('rect', { class: 'bar-rest', width: 72, height: 8 }), fill);
  el.set = (part, of) => {
    attr(fill, 'width', of > 0 ? Math.min(1, part / of) * 72 : 0);
    attr(attr(attr(el, 'aria-valuenow', Math.min(part, of)), 'aria-valuemax', of), 'aria-valuetext', `${part} of ${of}`);
  };
  return el;
}

// loading fills a place while something is fetched, but only if that takes long
// enough to be noticed.
export function loading(el, promise) {
  const t = setTimeout(() => put(el, h('p', { class: 'muted loading' }, 'Loading …')), 400);
  return promise.finally(() => clearTimeout(t));
}

// problem shows in a place that it could not be filled, and offers to try again.
export function problem(err, again) {
  return h('div', { class: 'empty', role: 'alert' }, h('p', { class: 'empty-title' }, 'This could not be loaded'), h('p', null, err.message),
    again && h('p', null, button('Try again', again)));
}
