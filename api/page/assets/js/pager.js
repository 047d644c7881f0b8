// Pages of a list by cursor, to any depth. The cursor stands in the address; the
// way back is kept with the entry of the browser's history.

import { attr, h, text } from './dom.js';
import { count, plural } from './format.js';
import { go } from './router.js';
import { button } from './ui.js';
import { keys } from './keys.js';

export const PAGE = 50; // rows
const MAX_STACK = 1000; // pages that "newer" goes back

// pager is the buttons below a list. address(cursor) is the address of a page;
// set(route) reads where one is; draw(rows, next) says what is shown.
export function pager({ address, signal, what = 'item', note = 'latest first' }) {
  const at = { cursor: '', next: '', stack: [], number: 1 };
  const page = (cursor, stack, number) => go(address(cursor), { state: { stack, number } });
  const first = button('Newest', () => page('', [], 1), { key: '0' });
  const newer = button('Newer', back, { key: '[' });
  const older = button('Older', forward, { key: ']' });
  const where = h('span', { class: 'muted', role: 'status' });
  function forward() {
    if (at.next) page(at.next, [...at.stack, at.cursor].slice(-MAX_STACK), at.number ? at.number + 1 : 0);
  }
  function back() {
    if (at.stack.length) page(at.stack.at(-1), at.stack.slice(0, -1), at.number ? at.number - 1 : 0);
  }
  keys(']', 'Older', forward, { signal });
  keys('[', 'Newer', back, { signal });
  keys('0', 'The newest', () => page('', [], 1), { signal });
  return {
    el: h('div', { class: 'pager' }, first, newer, older, where),
    get cursor() { return at.cursor; },
    set(route) {
      at.cursor = route.query.get('cursor') ?? '';
      at.next = ''; // until the page is there: what follows the page before it is no more to be gone to
      at.stack = route.state?.stack ?? [];
      at.number = route.state?.number ?? (at.cursor ? 0 : 1);
    },
    draw(rows, next) {
      at.next = next ?? '';
      attr(first, 'disabled', at.cursor === '');
      attr(newer, 'disabled', at.stack.length === 0);
      attr(older, 'disabled', at.next === '');
      text(where, `${at.number ? `Page ${count(at.number)}` : 'A later page'}: ${plural(rows, what)}, ${note}${at.next ? '' : '; no older ones'}`);
    },
  };
}
