// A form made of the JSON schema of an object: a field for each property of a kind that
// people know, and JSON for any other. What is read is text, so that numbers keep their
// digits. The engine validates; the form complains of what is plain to see.

import { h, show, text } from './dom.js';
import { field, select } from './ui.js';
import { faultOf, indent, withTexts } from './jsontext.js';

const LONG = 200; // characters from which a text gets several lines
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const FORMATS = { date: 'date', 'date-time': 'datetime-local', email: 'email', uri: 'url' };
const MORE = ['$ref', '$dynamicRef', 'oneOf', 'anyOf', 'allOf', 'not', 'if', 'dependentSchemas']; // what no plain field keeps to

// schemaForm makes the form. first is the value that it begins with, or undefined; keep
// says that members of it that the schema does not name stay in the value.
export function schemaForm(schema, first, keep = false) {
  if (!isObject(schema.properties) || !plain(schema)) return jsonForm(first ?? schema.default ?? {}, schema.description);
  const had = isObject(first) ? first : {};
  const fields = Object.entries(schema.properties).map(([name, s]) => fieldOf(name, isObject(s) ? s : {}, had, schema.required ?? []));
  const rest = keep && schema.additionalProperties !== false ? Object.entries(had).filter(([name]) => !Object.hasOwn(schema.properties, name)) : [];
  return form(fields, schema.description, () => withTexts(Object.fromEntries(rest), Object.fromEntries(fields.map((f) => [f.name, f.text()]))));
}

// jsonForm is a form for any value.
export function jsonForm(first, hint) {
  const f = jsonField('Value', { description: hint }, first, true);
  return form([f], '', f.text);
}

function form(fields, hint, read) {
  const now = () => JSON.stringify(fields.map((f) => f.raw()));
  const before = now();
  return {
    el: h('div', { class: 'schema-form' }, hint && h('p', { class: 'hint' }, hint), fields.map((f) => f.el)),
    changed: () => now() !== before,
    focus: () => fields[0]?.input.focus(),
    // read gives the value as JSON; null, with the complaints shown, if a field has a fault.
    read() {
      const bad = fields.filter((f) => {
        const fault = f.fault();
        f.el.setError(fault);
        return fault;
      });
      bad[0]?.input.focus();
      return bad.length ? null : read();
    },
    // complain shows what the engine says of a value at the first field that it names, as
    // "…: name: …" or "…; name.1: …"; false: it names none.
    complain(message) {
      const f = fields.find((x) => x.name && [': ', '; '].some((a) => [':', '.'].some((b) => message.includes(a + x.name + b))));
      f?.el.setError(message);
      f?.input.focus();
      return f !== undefined;
    },
  };
}

const isObject = (v) => typeof v === 'object' && v !== null && !Array.isArray(v) && !JSON.isRawJSON?.(v);
const plain = (schema) => !MORE.some((k) => k in schema);

// num is a number of a schema, which may be kept as it was written (api.js, parseExact).
const num = (v) => (v === undefined ? undefined : Number(JSON.stringify(v)));

// said is a value as people read it.
export const said = (v) => (typeof v === 'string' ? v : JSON.stringify(v));

// fieldOf makes the field of a property: {name, el, input, text() → JSON, undefined if it
// is left out, raw() → what is typed, fault() → what is wrong}. What can't be shown in a
// field of its kind is shown as JSON.
function fieldOf(name, schema, had, required) {
  const value = Object.hasOwn(had, name) ? had[name] : schema.default;
  const needed = required.includes(name);
  const label = `${schema.title ?? name}${needed ? '' : ' (optional)'}`;
  const f = kindOf(schema)(label, schema, value, needed);
  const kept = value === undefined || f.text() === JSON.stringify(value);
  return { ...(kept ? f : jsonField(label, schema, value, needed)), name };
}

function kindOf(schema) {
  if (!plain(schema)) return jsonField;
  if (optionsOf(schema)) return choiceField;
  switch (schema.type) {
    case 'string': return textField;
    case 'number': case 'integer': return numberField;
    case 'boolean': return flagField;
    case 'array': return !isObject(schema.items) || !plain(schema.items) ? jsonField : optionsOf(schema.items) ? checksField : schema.items.type === 'string' ? linesField : jsonField;
  }
  return jsonField;
}

// optionsOf are the values that a schema allows, as [JSON, text]; undefined: it names none.
const optionsOf = (schema) => (schema.enum ?? ('const' in schema ? [schema.const] : undefined))?.map((v) => [JSON.stringify(v), said(v)]);

const hintOf = (schema, ...more) => [schema.description, ...more].filter(Boolean).join('; ');

// inputField is the field of an input whose value is text.
function inputField(label, input, hint, { text: read, fault }) {
  return {
    input, el: field(label, input, { hint }), text: read, raw: () => `${input.value}${input.validity.badInput ? '?' : ''}`,
    fault: () => (input.checkValidity() ? input.value && fault(input.value) : input.validationMessage),
  };
}

function textField(label, schema, value, needed) {
  if (value !== undefined && typeof value !== 'string') return jsonField(label, schema, value, needed);
  const [least, most] = [num(schema.minLength), num(schema.maxLength)];
  const timed = schema.format === 'date-time';
  const required = needed && value !== '';
  const long = schema['x-multiline'] || most > LONG || value?.includes('\n');
  const input = long ? h('textarea', { class: 'prose', rows: 4, required, value })
    : h('input', { type: FORMATS[schema.format] ?? 'text', required, autocomplete: 'off', step: timed ? 1 : null, value: timed ? localTime(value) : value });
  const first = input.value;
  return inputField(label, input, hintOf(schema, least && `at least ${least} characters`, most && `at most ${most} characters`, schema.pattern && `of the form ${schema.pattern}`, timed && 'in the zone of this machine'), {
    text() {
      if (input.value === first && (first || value === '')) return JSON.stringify(value); // as it was written
      return input.value === '' ? undefined : JSON.stringify(timed ? new Date(input.value).toISOString() : input.value);
    },
    fault(typed) {
      const n = [...typed].length;
      if (n < least) return `Use at least ${least} characters.`;
      if (n > most) return `Use at most ${most} characters: this has ${n}.`;
      return matches(schema.pattern, typed) ? '' : `Use the form ${schema.pattern}.`;
    },
  });
}

// localTime is a time as an input takes it; empty if it is none.
function localTime(rfc) {
  const t = new Date(rfc ?? NaN);
  return Number.isNaN(t.getTime()) ? '' : new Date(t.getTime() - t.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

// matches reports whether a text has a pattern in it; one that browsers can't read is
// left to the engine.
function matches(pattern, typed) {
  try {
    return pattern === undefined || new RegExp(pattern, 'u').test(typed);
  } catch {
    return true;
  }
}

function numberField(label, schema, value, needed) {
  const [min, max] = [num(schema.minimum), num(schema.maximum)];
  const whole = schema.type === 'integer';
  const input = h('input', { type: 'number', required: needed, autocomplete: 'off', step: whole ? 1 : 'any', min, max, value: value === undefined ? '' : said(value) });
  const bounds = min !== undefined && max !== undefined ? `${said(schema.minimum)} to ${said(schema.maximum)}` : min !== undefined ? `at least ${said(schema.minimum)}` : max !== undefined && `at most ${said(schema.maximum)}`;
  return inputField(label, input, hintOf(schema, bounds), {
    text: () => input.value || undefined,
    fault: (typed) => (NUMBER.test(typed) ? '' : 'Write the number as 12 or 12.5.'),
  });
}

function flagField(label, schema, value, needed) {
  if (value === undefined && !needed) return choiceOf(label, [['', '–'], ['true', 'yes'], ['false', 'no']], '', schema, false);
  const input = h('input', { type: 'checkbox', checked: value === true });
  const text = () => String(input.checked);
  return { input, el: field(label, input, { hint: hintOf(schema) }), text, raw: text, fault: () => '' };
}

function choiceField(label, schema, value, needed) {
  const options = optionsOf(schema);
  return choiceOf(label, needed && value !== undefined ? options : [['', '–'], ...options], JSON.stringify(value) ?? '', schema, needed);
}

function choiceOf(label, options, chosen, schema, required) {
  const input = select(options, chosen, { required });
  return inputField(label, input, hintOf(schema), { text: () => input.value || undefined, fault: () => '' });
}

function checksField(label, schema, value, needed) {
  const had = (Array.isArray(value) ? value : []).map((v) => JSON.stringify(v));
  const boxes = optionsOf(schema.items).map(([v, t]) => [v, h('input', { type: 'checkbox', checked: had.includes(v) }), t]);
  const error = h('p', { class: 'field-error', role: 'alert', hidden: true });
  const hint = hintOf(schema);
  const el = h('fieldset', { class: 'field' }, h('legend', null, label), boxes.map(([, box, t]) => h('label', { class: 'check' }, box, t)), hint && h('p', { class: 'hint' }, hint), error);
  el.setError = (message) => show(text(error, message), Boolean(message));
  const ticked = () => boxes.filter(([, box]) => box.checked).map(([v]) => v);
  return {
    el, input: boxes[0]?.[1] ?? el, raw: () => ticked().join(), fault: () => '',
    text: () => (ticked().length || needed || value !== undefined ? `[${ticked().join(',')}]` : undefined),
  };
}

function linesField(label, schema, value, needed) {
  const input = h('textarea', { class: 'prose', rows: 4, value: Array.isArray(value) ? value.map(said).join('\n') : '' });
  const lines = () => input.value.split('\n').filter((l) => l !== '');
  return inputField(label, input, hintOf(schema, 'one a line'), {
    text: () => (lines().length || needed || value !== undefined ? JSON.stringify(lines()) : undefined),
    fault: () => '',
  });
}

function jsonField(label, schema, value, needed) {
  const input = h('textarea', { rows: 6, required: needed, spellcheck: 'false', autocomplete: 'off', autocapitalize: 'none', value: value === undefined ? '' : indent(JSON.stringify(value)) });
  const f = inputField(label, input, hintOf(schema, 'JSON'), { text: () => input.value.trim() || undefined, fault: faultOf });
  input.addEventListener('input', () => f.el.setError(input.value.trim() ? faultOf(input.value) : ''));
  return f;
}
