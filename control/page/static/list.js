// Keeps the first page of a list current.
import { follow, refresh } from './follow.js';
import { localise } from './time.js';

const live = document.getElementById('live');
localise(live);
if (live.dataset.follow === 'true') {
  follow('/v1/live' + location.search, 'analyses', () => refresh().catch(() => {}));
}
