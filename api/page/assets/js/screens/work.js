// The list of items.
import { h } from '../dom.js';
export default { name: 'work', title: 'Work', icon: 'work', path: ['work'], key: 'w', match: (path) => path[0] === 'work' && path.length === 1,
  mount(el) { el.append(h('h1', null, 'Work')); } };
