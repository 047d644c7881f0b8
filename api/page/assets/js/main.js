// Starts the page. A screen is a module in screens/; see README.md.

import { startShell } from './shell.js';
import overview from './screens/overview.js';
import work from './screens/work.js';
import item from './screens/item.js';
import dead from './screens/dead.js';
import types from './screens/types.js';
import type from './screens/type.js';
import workers from './screens/workers.js';
import batches from './screens/batches.js';
import schedules from './screens/schedules.js';
import schedule from './screens/schedule.js';
import events from './screens/events.js';
import audit from './screens/audit.js';
import missing from './screens/missing.js';

startShell([overview, work, item, dead, types, type, workers, schedules, schedule, batches, events, audit, missing]);
