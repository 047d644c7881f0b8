// The engine at a glance.
import { h } from '../dom.js';
export default { name: 'overview', title: 'Overview', icon: 'overview', path: [], key: 'o', match: (path) => path.length === 0,
  mount(el) { el.append(h('h1', null, 'Overview')); } };
