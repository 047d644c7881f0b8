// Starts the page. A screen is a module in screens/; see README.md.

import { startShell } from './shell.js';
import overview from './screens/overview.js';
import work from './screens/work.js';
import item from './screens/item.js';
import missing from './screens/missing.js';

startShell([overview, work, item, missing]);
