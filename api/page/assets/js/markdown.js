// Markdown as elements. The engine parses it (Go package api/markdown): a node is a
// text, or {tag, href, children}.

import { h } from './dom.js';

const TAGS = new Set(['p', 'h3', 'h4', 'h5', 'ul', 'ol', 'li', 'em', 'strong', 'del', 'code', 'pre', 'blockquote', 'br', 'hr', 'table', 'thead', 'tbody', 'tr', 'th', 'td']);
const HREF = /^(https?:\/\/|mailto:)/i;

// markdown makes the elements of nodes. Links open a page of their own.
export const markdown = (nodes) => h('div', { class: 'markdown' }, (nodes ?? []).map(element));

function element(n) {
  if (typeof n === 'string') return n;
  const children = (n.children ?? []).map(element);
  if (n.tag === 'a' && HREF.test(n.href ?? '')) return h('a', { href: n.href, target: '_blank', rel: 'noopener noreferrer' }, children);
  if (n.tag === 'table') return h('div', { class: 'scroll-x' }, h('table', null, children));
  return h(TAGS.has(n.tag) ? n.tag : 'span', null, children);
}
