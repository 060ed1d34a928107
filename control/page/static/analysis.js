// One analysis: its state and all that touched it, kept current, and the player once there is a pose document.
import { Angled } from './angles.js';
import { follow, refresh } from './follow.js';
import { localise } from './time.js';

const $ = (id) => document.getElementById(id);
const main = $('main');
const id = encodeURIComponent(main.dataset.analysis);
const player = new Angled(main.dataset.analysis, JSON.parse($('clip-data').textContent));
const TRIES = 5;
let poseAsked = false;

// show puts the analysis on the page.
function show(a) {
  const state = $('state');
  if (state.textContent !== a.status) state.textContent = a.status;
  state.dataset.status = main.dataset.status = a.status;
  $('error').textContent = a.error ?? '';
  $('pose-link').hidden = a.status !== 'delivered';
  hidePlayer(['failed', 'cancelled'].includes(a.status));
  $('document').textContent = JSON.stringify(a, null, 2);
  if (a.status === 'delivered') loadPose();
}

// hidePlayer: an analysis that ended without a document has nothing to play.
function hidePlayer(hidden) {
  $('player').hidden = hidden;
  if ($('clips')) $('clips').hidden = hidden;
  if (hidden) $('clip').pause();
}

async function loadPose() {
  if (poseAsked) return;
  poseAsked = true;
  for (let n = 1; ; n++) {
    try {
      const response = await fetch(`/v1/analyses/${id}/pose`);
      if (!response.ok) throw new Error('status ' + response.status);
      player.setDocument(await response.json());
      return;
    } catch (fault) {
      if (n === TRIES) {
        player.note('The pose document could not be loaded: ' + fault.message);
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, 500 * 2 ** n));
    }
  }
}

localise($('live'));
const data = JSON.parse($('data').textContent);
show(data);
if (!['delivered', 'failed', 'cancelled'].includes(data.status)) {
  follow(`/v1/analyses/${id}/events`, 'analysis', (e) => {
    show(JSON.parse(e.data));
    refresh().catch(() => {});
  });
}
