// The settings of a type, as a form shows them: where each stands in the API's
// document, and how it is read and written: as in engine.toml, where no name has a
// unit and the values do. Bounds are the engine's: what it refuses is shown at the
// field.
//
// kind: duration (ms in the API), size (bytes), count, number, flag, words, choice, json.
// unset: what an empty field means, DEFAULT: what the engine says (unset in its
// reply), or what the type has at the path least if that is more; without it the
// field must be filled.

import { parseDuration, parseSize, writeDuration, writeSize } from './units.js';

export const DEFAULT = 'the default';

export const GROUPS = [
  ['Running', [
    { path: 'capacity', kind: 'count', label: 'Capacity', hint: 'items dispatched or running at once' },
    { path: 'timeout_ms', kind: 'duration', label: 'Timeout', hint: 'how long an attempt may run' },
    { path: 'lease_ms', kind: 'duration', label: 'Lease', hint: 'how long a worker may be silent before its item goes to another; a run keeps the lease it began with' },
    { path: 'max_attempts', kind: 'count', label: 'Attempts', hint: 'before an item is dead' },
    { path: 'age_step_ms', kind: 'duration', label: 'Age step', hint: 'waiting this long equals one priority' },
    { path: 'assign_by', kind: 'words', label: 'Assigned by', hint: 'most_free, round_robin, tenant or label:NAME: which worker gets an item', unset: DEFAULT },
    { path: 'max_params_bytes', kind: 'size', label: 'Maximum params', hint: 'larger ones are refused' },
  ]],
  ['Backoff', [
    { path: 'backoff.initial_ms', kind: 'duration', label: 'First wait', hint: 'before the first retry' },
    { path: 'backoff.factor', kind: 'number', label: 'Factor', hint: 'each wait is this many times the one before' },
    { path: 'backoff.max_ms', kind: 'duration', label: 'Longest wait', hint: '' },
    { path: 'backoff.jitter', kind: 'number', label: 'Jitter', hint: 'random part added to a wait, 0 to 1' },
  ]],
  ['Limits', [
    { path: 'max_queued', kind: 'count', label: 'Maximum queued', hint: 'more submissions are refused', unset: 'no limit' },
    { path: 'group_by', kind: 'words', label: 'Grouped by', hint: 'tenant, label:NAME or none: groups take turns', unset: DEFAULT },
    { path: 'group_capacity', kind: 'count', label: 'Capacity per group', hint: 'items of one group running at once', unset: 'no limit' },
    { path: 'pool', kind: 'words', label: 'Pool', hint: 'shared slots that its runs also use', unset: 'none' },
    { path: 'pool_weight', kind: 'count', label: 'Share of the pool', hint: '', unset: DEFAULT },
    { path: 'rates', kind: 'json', label: 'Rates (JSON)', hint: '[{"per":"type","at":"dispatch","n":10,"interval":"1s"}]', unset: 'none', empty: [] },
    { path: 'queue_steps', kind: 'json', label: 'Queue steps (JSON)', hint: '[{"over":1000,"min_priority":5}]', unset: 'none', empty: [] },
  ]],
  ['Protection', [
    { path: 'poison_after', kind: 'count', label: 'Poisoned after', hint: 'leases an item may lose before it is dead', unset: DEFAULT },
    { path: 'circuit.consecutive', kind: 'count', label: 'Circuit: failures in a row', hint: 'that open it', unset: 'none' },
    { path: 'circuit.ratio', kind: 'number', label: 'Circuit: share of failures', hint: 'in the window that opens it, above 0 to 1', unset: 'none' },
    { path: 'circuit.window_ms', kind: 'duration', label: 'Circuit: window', hint: 'over which the share is taken', unset: DEFAULT },
    { path: 'circuit.min_runs', kind: 'count', label: 'Circuit: minimum runs', hint: 'in the window before the share counts', unset: DEFAULT },
    { path: 'circuit.cooldown_ms', kind: 'duration', label: 'Circuit: cooldown', hint: 'doubled each time it opens in a row', unset: DEFAULT },
    { path: 'circuit.max_cooldown_ms', kind: 'duration', label: 'Circuit: longest cooldown', hint: '', unset: DEFAULT, least: 'circuit.cooldown_ms' },
    { path: 'circuit.probes', kind: 'count', label: 'Circuit: probes', hint: 'probes at a time, and successes that close it', unset: DEFAULT },
    { path: 'circuit.count_no_retry', kind: 'flag', label: 'Circuit: count failures that are not retried', hint: '' },
  ]],
  ['Duplicates', [
    { path: 'dedup_policy', kind: 'choice', label: 'When a dedup key is in use', hint: '', choices: [['', 'merge (default)'], ['merge', 'merge'], ['distinct', 'distinct'], ['supersede', 'supersede'], ['defer', 'defer']] },
    { path: 'dedup_window_ms', kind: 'duration', label: 'Key stays reserved for', hint: 'after completion', unset: '0s' },
  ]],
  ['Kept after it ends', [
    { path: 'retain.completed_ms', kind: 'duration', label: 'Completed', hint: '', unset: DEFAULT },
    { path: 'retain.dead_ms', kind: 'duration', label: 'Dead', hint: '', unset: DEFAULT },
    { path: 'retain.cancelled_ms', kind: 'duration', label: 'Cancelled', hint: '', unset: DEFAULT },
    { path: 'retain.merged_ms', kind: 'duration', label: 'Merged', hint: '', unset: DEFAULT },
  ]],
  ['By priority, and by failure code', [
    { path: 'per_priority', kind: 'json', label: 'Per priority (JSON)', hint: '{"9":{"timeout":"1m"}}', unset: 'none', empty: null },
    { path: 'codes', kind: 'json', label: 'Per failure code (JSON)', hint: '{"smtp":{"no_retry":true}}', unset: 'none', empty: null },
  ]],
];

export const SETTINGS = GROUPS.flatMap(([, list]) => list);

// valueAt is what settings have at a path; undefined: nothing.
export const valueAt = (settings, path) => path.split('.').reduce((o, k) => o?.[k], settings);

// putAt sets it.
export function putAt(settings, path, value) {
  const names = path.split('.');
  const last = names.pop();
  let o = settings;
  for (const n of names) o = o[n] ??= {};
  o[last] = value;
}

// UNITS are the ends of the API's names whose values have a unit: how that is read
// and written.
const UNITS = { _ms: [parseDuration, writeDuration], _bytes: [parseSize, writeSize] };
const unit = /_(?:ms|bytes)$/;

// called is a setting's name in engine.toml.
export const called = (path) => path.replace(unit, '');

// SPELLED are the API's names in JSON of settings by engine.toml's.
const SPELLED = new Map(['interval_ms', 'timeout_ms', 'timeout_max_ms', 'initial_ms', 'max_ms'].map((name) => [called(name), name]));

// written is JSON of the API as engine.toml would spell it; read is the way back,
// which throws what is wrong.
export function written(doc) {
  if (Array.isArray(doc)) return doc.map(written);
  if (doc === null || typeof doc !== 'object') return doc;
  return Object.fromEntries(Object.entries(doc).map(([k, v]) => (unit.test(k) ? [called(k), UNITS[unit.exec(k)[0]][1](v)] : [k, written(v)])));
}
export function read(doc) {
  if (Array.isArray(doc)) return doc.map(read);
  if (doc === null || typeof doc !== 'object') return doc;
  return Object.fromEntries(Object.entries(doc).map(([k, v]) => {
    if (unit.test(k)) throw new Error(`“${k}” is called “${called(k)}” here: write it with its unit, as "30s".`);
    const name = SPELLED.get(k);
    if (!name) return [k, read(v)];
    if (typeof v !== 'string') throw new Error(`“${k}” is ${JSON.stringify(v)}: write it with its unit, as "30s".`);
    return [name, parseDuration(v)];
  }));
}

// spelled is what the engine says of settings, "lease_ms is 5: it must be 1000 to
// 3600000", as engine.toml would spell it.
export function spelled(said) {
  return said.split('\n').map((line) => {
    const at = /[a-z0-9_.]+_(ms|bytes)\b is -?\d/.exec(line);
    if (!at) return line;
    const write = UNITS[`_${at[1]}`][1];
    const fault = line.slice(at.index).replace(/\b([a-z0-9_.]+)_(?:ms|bytes)\b/g, '$1').replace(/(^|[\s(])(\d+)\b/g, (_, before, n) => before + write(Number(n)));
    return line.slice(0, at.index) + fault;
  }).join('\n');
}

// inFile says whether engine.toml makes a setting. A backoff is one setting of it.
export const inFile = (setting, named) => named.some((n) => n === called(setting.path) || n.startsWith(`${called(setting.path)}.`) || (n.startsWith('backoff.') && setting.path.startsWith('backoff.')));

// complaints shares an error's text out to the settings that it names; what names
// none is under ''. Lines are as the engine joins them.
export function complaints(message) {
  const out = new Map();
  const add = (path, said) => out.set(path, [out.get(path), spelled(said)].filter(Boolean).join(' '));
  const file = /engine\.toml sets (.+) of type/.exec(message);
  if (file) {
    const named = file[1].split(', ');
    for (const s of SETTINGS) if (inFile(s, named)) add(s.path, message);
    if (out.size) return out;
  }
  for (const said of message.split(/\n|; (?=[a-z_.]+ (?:is|has) )/)) {
    const s = SETTINGS.filter((x) => new RegExp(`(^|[\\s:"'.])${x.path.replaceAll('.', '\\.')}(?![a-z_])`).test(said)).sort((a, b) => b.path.length - a.path.length)[0];
    add(s?.path ?? '', said);
  }
  return out;
}
