// One analysis: its state and timeline, kept current, and the player once there is a pose document.
import { Player } from './player.js';
import { localise, stamp } from './time.js';

const $ = (id) => document.getElementById(id);
const main = $('main');
const player = new Player(main.dataset.analysis, JSON.parse($('clip-data').textContent));
const TRIES = 5;
let poseAsked = false;

function element(name, className, text) {
  const e = document.createElement(name);
  e.className = className;
  e.textContent = text;
  return e;
}

function line(event) {
  const li = document.createElement('li');
  li.dataset.kind = event.kind;
  li.append(stamp(event.at), ' ', element('b', '', event.kind.replaceAll('_', ' ')));
  if (event.epoch) li.append(' ', element('span', 'epoch', 'epoch ' + event.epoch));
  if (event.holder) {
    const h = event.holder;
    li.append(' ', element('span', 'holder', `${h.workerId}, ${h.source}, attempt ${h.attempt}`));
  }
  if (event.detail) li.append(' ', element('span', 'detail', event.detail));
  return li;
}

// show puts the analysis on the page.
function show(a) {
  const state = $('state');
  if (state.textContent !== a.status) state.textContent = a.status;
  state.dataset.status = main.dataset.status = a.status;
  $('error').textContent = a.error ?? '';
  $('pose-link').hidden = a.status !== 'delivered';
  hidePlayer(['failed', 'cancelled'].includes(a.status));
  $('timeline').replaceChildren(...(a.timeline ?? []).map(line));
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
      const response = await fetch(`/v1/analyses/${encodeURIComponent(main.dataset.analysis)}/pose`);
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

// watch follows the analysis until it is decided. The browser reconnects by itself after faults.
function watch() {
  const events = new EventSource(`/v1/analyses/${encodeURIComponent(main.dataset.analysis)}/events`);
  events.addEventListener('analysis', (e) => show(JSON.parse(e.data)));
  events.addEventListener('end', () => events.close());
  window.addEventListener('pagehide', () => events.close());
}

localise($('timeline'));
const data = JSON.parse($('data').textContent);
show(data);
if (!['delivered', 'failed', 'cancelled'].includes(data.status)) watch();
