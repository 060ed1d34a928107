// The angles of one person as curves below the clip.
import { Player } from './player.js';
import { Curve, plots, shownAtFirst } from './curves.js';

const $ = (id) => document.getElementById(id);

// Angled is a player with curves.
export class Angled extends Player {
  constructor(analysis, clips) {
    super(analysis, clips);
    $('person').addEventListener('change', () => this.fill());
    const redraw = () => this.curves?.forEach((c) => c.draw());
    new ResizeObserver(redraw).observe($('curves'));
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  }

  setDocument(pose) {
    super.setDocument(pose);
    this.build();
  }

  paint(t) {
    super.paint(t);
    const index = this.track ? this.track.index(t) : -1;
    for (const c of this.curves ?? []) c.show(index, t);
  }

  // build makes the plots of the clip that is shown; a document without angles has none.
  build() {
    const defined = this.track?.clip.signal?.angles ?? [];
    const times = this.track?.frames.map((f) => f.t) ?? [];
    this.curves = plots(defined).filter((p) => shownAtFirst(p.name))
      .map((plot) => new Curve(plot, times, this.track.duration, (t) => this.seek(t), (by) => this.step(by)));
    $('angles').hidden = this.curves.length === 0;
    $('curves').replaceChildren(...this.curves.map((c) => c.figure));
    const people = this.track?.tracks() ?? [];
    $('person').replaceChildren(...people.map(([track, frames]) => {
      const athlete = track === this.track.athlete;
      return new Option(`${athlete ? 'athlete' : 'person'} ${track} (${frames} frames)`, track, false, athlete);
    }));
    $('whose').hidden = people.length < 2;
    this.fill();
  }

  // fill puts the chosen person's angles into the plots.
  fill() {
    if (this.curves.length === 0) return;
    const track = Number($('person').value);
    const values = this.track.frames.map((f) => [...f.people, ...(f.filled ?? [])].find((p) => p.track === track)?.angles);
    for (const c of this.curves) c.setValues(values);
    this.repaint();
  }
}
