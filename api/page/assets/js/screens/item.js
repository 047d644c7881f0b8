// One item.
import { h } from '../dom.js';
export default { name: 'item', title: 'Item', within: 'work', match: (path) => path[0] === 'work' && path.length === 2,
  mount(el, { route }) { el.append(h('h1', null, route.path[1])); } };
