// The rows of lists of items: what an item is, and the one thing that is worth knowing of it.

import { h, put } from '../dom.js';
import { ago, count, failureText, now, plural, setAgo } from '../format.js';
import { href } from '../router.js';
import { badge, mark, shownState } from '../states.js';

// row is an item's row; on a phone it folds to two lines (css/screens.css).
// choose(id, on), if given, is told whether the item is selected.
export function row(item, choose) {
  const c = Object.fromEntries(['state', 'type', 'say', 'priority', 'attempt'].map((k) => [k, h('td', { class: `c-${k}${k === 'priority' || k === 'attempt' ? ' num' : ''}` })]));
  const link = h('a', { class: 'row-link mono', href: href(['work', item.id]), title: item.id }, item.id);
  const changed = h('td', { class: 'c-changed nowrap' });
  const state = h('span');
  const check = choose && h('input', { type: 'checkbox', 'aria-label': `Select ${item.type} ${item.id}`, onchange: () => choose(item.id, check.checked) });
  c.state.append(...[check, state].filter(Boolean));
  const tr = h('tr', { 'data-id': item.id }, c.state, c.type, h('td', { class: 'c-item' }, link), c.say, c.priority, c.attempt, changed);
  tr.addEventListener('click', (ev) => {
    if (!ev.target.closest('a, button, input') && !getSelection().toString()) link.click();
  });
  tr.check = check;
  let said = '';
  tr.set = (it) => {
    const at = it.finished_at ?? it.started_at ?? it.claimed_at ?? it.queued_at ?? it.created_at;
    if (changed.firstChild) setAgo(changed.firstChild, at);
    else changed.append(ago(at));
    const is = shownState(it, now());
    const doc = JSON.stringify([is, it.attempt, it.priority, it.reason, it.error, it.progress, it.worker, it.batch, it.children]);
    if (doc === said) return;
    said = doc;
    put(state, badge(is));
    put(c.type, it.type);
    put(c.say, sayOf(it, is));
    put(c.priority, it.priority);
    put(c.attempt, it.attempt ? `${it.attempt}/${it.max_attempts}` : '–');
  };
  return tr;
}

// sayOf is the one thing that is worth knowing of an item, with its labels.
function sayOf(it, state) {
  const marks = [it.tenant && h('span', { class: 'tag', title: 'tenant' }, it.tenant), ...Object.entries(it.labels ?? {}).slice(0, 4).map(([k, v]) => h('span', { class: 'tag' }, `${k}=${v}`))];
  let said = '';
  if (state === 'running' || state === 'claimed') said = it.progress ? `${it.progress.percent} %${it.progress.message ? ` ${it.progress.message}` : ''} · ${it.worker}` : it.worker ?? '';
  else if (it.error && state !== 'completed') said = failureText(it.error);
  else if (it.waits_for?.ask) said = `asks: ${it.waits_for.ask.title}`;
  else if (it.waits_for?.names?.length) said = `waits for the signal ${it.waits_for.names.join(it.waits_for.all ? ' and ' : ' or ')}`;
  else if (it.waits_left) said = `waits for ${plural(it.waits_left, 'item')}`;
  else if (it.batch) said = `${it.batch.name ? `${it.batch.name}: ` : ''}${count(it.batch.done)} of ${plural(Math.max(it.batch.total, it.batch.declared ?? 0), 'item')} done`;
  else if (it.children) said = `${it.children.total - it.children.live} of ${plural(it.children.total, 'child', 'children')} ended`;
  else if (it.merged_into) said = `into ${it.merged_into}`;
  else if (it.reason) said = it.reason;
  return [h('span', { class: it.error && state === 'dead' ? 'say bad' : 'say' }, said), ' ', marks];
}
