// The report: the player, and the angles of one person beside it.
import { Player } from './player.js';
import { Curve, plots, shownAtFirst } from './curves.js';

// smoothed is the document with the smoothed points in the raw ones' place, and with those who are only there by filling.
function smoothed(pose) {
  const person = (p) => (p.smooth ? { ...p, keypoints: p.smooth.keypoints } : p);
  const frame = (f) => ({ ...f, people: [...f.people, ...(f.filled ?? [])].map(person) });
  return { ...pose, clips: pose.clips.map((c) => ({ ...c, frames: c.frames.map(frame) })) };
}

class Report extends Player {
  constructor(raw, clips) {
    super(null, clips);
    this.raw = raw;
    this.smooth = smoothed(raw);
    this.curves = [];
    this.show();
    this.build();
    $('smoothed').addEventListener('change', () => this.show());
    $('person').addEventListener('change', () => this.fill());
    const redraw = () => this.curves.forEach((c) => c.draw());
    new ResizeObserver(redraw).observe($('curves'));
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
    if (!this.video.getAttribute('src')) this.refused();
  }

  source() { return this.video.src; }

  refused() {
    if (this.video.getAttribute('src')) {
      super.refused();
      return;
    }
    this.pendingAlone = true;
    this.goAlone();
    this.note('The clip is not part of this report. The skeleton is shown alone.');
  }

  show() { this.setDocument($('smoothed').checked ? this.smooth : this.raw); }

  paint(t) {
    super.paint(t);
    if (!this.curves) return;
    const index = this.track ? this.track.index(t) : -1;
    for (const c of this.curves) c.show(index, t);
  }

  // build makes the plots, and the choices of plots and of the person.
  build() {
    const clip = this.raw.clips[0];
    const signal = clip.signal;
    const times = clip.frames.map((f) => f.t);
    $('angles-note').textContent = remark(clip);
    for (const plot of plots(signal?.angles ?? [])) {
      const curve = new Curve(plot, times, this.track.duration, (t) => this.seek(t), (by) => this.step(by));
      const shown = shownAtFirst(plot.name);
      curve.figure.hidden = !shown;
      this.curves.push(curve);
      $('curves').append(curve.figure);
      $('choice').append(choice(plot.name.replaceAll('_', ' '), shown, (on) => {
        curve.figure.hidden = !on;
        curve.draw();
      }));
    }
    for (const [track, frames] of this.track.tracks()) {
      const name = track === this.track.athlete ? 'athlete' : 'person';
      $('person').append(new Option(`${name} ${track} (${frames} frames)`, track, false, track === this.track.athlete));
    }
    $('whose').hidden = $('person').options.length < 2;
    this.fill();
  }

  // fill puts the chosen person's angles into the plots.
  fill() {
    const track = Number($('person').value);
    const of = (f) => [...f.people, ...(f.filled ?? [])].find((p) => p.track === track)?.angles;
    const values = this.raw.clips[0].frames.map(of);
    for (const c of this.curves) c.setValues(values);
    this.repaint();
  }
}

// Rates below which there are no angles (docs/pose.md).
const [LEGS_RATE, ARMS_RATE] = [20, 25];

// remark says what the reader must know of the clip's times.
function remark(clip) {
  if (!clip.athlete) return 'Nobody was found in this clip.';
  const { timeScale: scale, rate } = clip.signal ?? {};
  if (!rate) return '';
  const slow = Math.abs(scale - 1) > 0.01 ? ` One second of the clip was ${+scale.toFixed(3)} s of the movement.` : '';
  const few = rate < LEGS_RATE ? ' That is too few for angles' : rate < ARMS_RATE ? ' That is too few for the angles of the arms' : '';
  const need = few && `: legs need ${LEGS_RATE}, arms ${ARMS_RATE}.`;
  return `${Math.round(rate)} frames a second of the movement.${slow}${few}${need}`;
}

function choice(name, on, change) {
  const label = document.createElement('label');
  const box = Object.assign(document.createElement('input'), { type: 'checkbox', checked: on });
  box.addEventListener('change', () => change(box.checked));
  label.append(box, ' ' + name);
  return label;
}

const pose = JSON.parse($('pose').textContent);
new Report(pose, [{ ID: pose.clips[0].id, ContentType: $('clip').dataset.type || 'video', Preview: false }]);
