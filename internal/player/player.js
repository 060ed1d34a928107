// The clip with the skeleton on it. The video's own clock leads; where the browser can't play the clip, a clock of our
// own leads and the skeleton is shown alone.
import { Track, draw } from './pose.js';

const $ = (id) => document.getElementById(id);

export class Player {
  constructor(analysis, clips) {
    this.analysis = analysis;
    this.clips = clips;
    this.video = $('clip');
    this.canvas = $('skeleton');
    this.context = this.canvas.getContext('2d', { willReadFrequently: true });
    this.stage = $('stage');
    this.alone = null; // the clock of our own, once the video has been given up
    this.offset = null; // of the first shown frame on the video's clock, in ms
    this.drawn = 0;
    this.last = { index: -2, width: 0, height: 0 };
    this.listen();
    this.choose(clips[0].ID, false);
    this.catchUp();
    this.follow();
  }

  listen() {
    const { video } = this;
    for (const name of ['loadeddata', 'seeked', 'pause', 'timeupdate']) video.addEventListener(name, () => this.paintVideo());
    video.addEventListener('loadedmetadata', () => this.fit(video.videoWidth, video.videoHeight));
    video.addEventListener('resize', () => this.fit(video.videoWidth, video.videoHeight));
    video.addEventListener('error', () => this.refused());
    new ResizeObserver(() => this.resize()).observe(this.stage);
    $('show').addEventListener('change', () => this.repaint());
    $('speed').addEventListener('change', () => { video.playbackRate = this.speed(); });
    $('back').addEventListener('click', () => this.step(-1));
    $('forward').addEventListener('click', () => this.step(1));
    $('full').addEventListener('click', () => (document.fullscreenElement ? document.exitFullscreen() : this.stage.requestFullscreen()));
    $('play').addEventListener('click', () => this.toggle());
    $('scrubber').addEventListener('input', (e) => this.seek(Number(e.target.value)));
    $('clips')?.addEventListener('click', (e) => e.target.dataset.clip && this.choose(e.target.dataset.clip, true));
    document.addEventListener('keydown', (e) => this.key(e));
  }

  // catchUp does what was missed before anybody listened.
  catchUp() {
    if (this.video.error) this.refused();
    else if (this.video.readyState >= 1) this.fit(this.video.videoWidth, this.video.videoHeight);
  }

  key(event) {
    if (event.defaultPrevented || event.target.closest('input, select, textarea, video') || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === ' ' && event.target.closest('button, a, summary')) return; // what space does there
    const act = {
      ',': () => this.step(-1), '.': () => this.step(1), ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1),
      ' ': () => this.toggle(), s: () => $('show').click(),
    }[event.key];
    if (act) {
      event.preventDefault();
      act();
    }
  }

  // choose shows another clip.
  choose(id, load) {
    this.clip = this.clips.find((c) => c.ID === id);
    for (const b of document.querySelectorAll('#clips button')) b.setAttribute('aria-pressed', String(b.dataset.clip === id));
    this.alone?.stop();
    Object.assign(this, { alone: null, pendingAlone: false, triedOriginal: false, offset: null, last: { index: -2 } });
    this.video.hidden = false;
    this.note('');
    for (const part of ['play', 'scrubbing']) $(part).hidden = true;
    if (load) {
      this.video.dataset.clip = id;
      this.video.src = this.source(this.clip.Preview);
    }
    this.track = null;
    if (this.document) this.setDocument(this.document);
  }

  source(preview) {
    const base = `/v1/analyses/${encodeURIComponent(this.analysis)}/clips/${encodeURIComponent(this.clip.ID)}`;
    return preview ? base + '/preview' : base;
  }

  // setDocument takes the pose document in.
  setDocument(pose) {
    this.document = pose;
    const clip = pose.clips?.find((c) => c.id === this.clip.ID);
    this.track = clip ? new Track(clip, pose.skeleton) : null;
    this.canvas.dataset.frames = this.track?.frames.length ?? 0;
    $('controls').hidden = !this.track;
    this.legend();
    if (this.pendingAlone) this.goAlone();
    this.repaint();
  }

  legend() {
    const items = (this.track?.tracks() ?? []).slice(0, 12).map(([track, frames]) => {
      const li = document.createElement('li');
      li.innerHTML = '<svg viewBox="0 0 10 10" aria-hidden="true"><circle cx="5" cy="5" r="5"/></svg>';
      li.querySelector('circle').setAttribute('fill', this.track.colour(track));
      const athlete = track === this.track.athlete;
      li.classList.toggle('athlete', athlete);
      li.append(`${athlete ? 'athlete' : 'person'} ${track}, ${frames} frames`);
      return li;
    });
    $('people').replaceChildren(...items);
  }

  // refused: the browser can't play what it was given.
  refused() {
    if (this.clip.Preview && !this.video.src.endsWith('/preview')) {
      this.video.src = this.source(true);
      return;
    }
    if (this.clip.Preview && this.video.src.endsWith('/preview') && !this.triedOriginal) {
      this.triedOriginal = true;
      this.video.src = this.source(false);
      return;
    }
    this.note(`This browser can't play the clip (${this.clip.ContentType}). ` +
      (this.document ? 'The skeleton is shown alone.' : 'The skeleton will be shown alone, once there is one.'));
    this.pendingAlone = true;
    this.goAlone();
  }

  goAlone() {
    if (!this.track || this.alone) return;
    this.pendingAlone = false;
    this.video.hidden = true;
    this.note(`This browser can't play the clip (${this.clip.ContentType}). The skeleton is shown alone.`);
    this.fit(this.track.width, this.track.height);
    this.alone = new Clock(this.track.duration, (t) => this.paint(t), () => this.speed(), () => this.buttons());
    $('scrubber').max = Math.ceil(this.track.duration);
    for (const part of ['play', 'scrubbing']) $(part).hidden = false;
    this.buttons();
    this.alone.seek(0);
  }

  buttons() { $('play').textContent = this.alone?.running ? 'Pause' : 'Play'; }

  speed() { return Number($('speed').value); }

  toggle() {
    if (this.alone) {
      if (this.alone.running) this.alone.stop();
      else this.alone.start();
    } else if (this.video.paused) this.video.play().catch(() => {}); // the video says itself what it can't do
    else this.video.pause();
  }

  now() { return this.alone ? this.alone.t : this.video.currentTime * 1000 - (this.offset ?? 0); }

  seek(t) {
    if (this.alone) this.alone.seek(t);
    else this.video.currentTime = Math.max(0, (t + (this.offset ?? 0)) / 1000);
  }

  // step goes to a neighbouring frame. A little into it, so that rounding does not show the one before.
  step(by) {
    if (!this.track?.frames.length) return;
    this.alone ? this.alone.stop() : this.video.pause();
    const at = Math.min(Math.max(this.track.index(this.now()) + by, 0), this.track.frames.length - 1);
    this.seek(this.track.frames[at].t + Math.min(2, this.track.gap / 4));
  }

  // follow paints each frame that the browser shows.
  follow() {
    const { video } = this;
    if (!('requestVideoFrameCallback' in video)) {
      const tick = () => {
        if (!video.paused) this.paintVideo();
        requestAnimationFrame(tick);
      };
      requestAnimationFrame(tick);
      return;
    }
    const shown = (_, frame) => {
      // The document counts from the first shown frame, which need not be at 0 on the video's clock.
      if (this.offset === null && video.currentTime < 0.001) this.offset = frame.mediaTime * 1000;
      if (!this.alone) this.paint(frame.mediaTime * 1000 - (this.offset ?? 0));
      video.requestVideoFrameCallback(shown);
    };
    video.requestVideoFrameCallback(shown);
  }

  paintVideo() {
    if (!this.alone) this.paint(this.now());
  }

  repaint() {
    this.last.index = -2;
    this.paint(this.now());
  }

  // paint shows the skeleton of the time t in ms, if it is not there already.
  paint(t) {
    $('clock').textContent = (Math.max(0, t) / 1000).toFixed(3) + ' s';
    if (this.alone) $('scrubber').value = t;
    const index = this.track && $('show').checked ? this.track.index(t) : -1;
    const { width, height } = this.canvas;
    if (index === this.last.index && width === this.last.width && height === this.last.height) return;
    this.last = { index, width, height };
    const people = this.track ? draw(this.context, this.track, this.track.frames[index]) : 0;
    this.canvas.dataset.people = people;
    this.canvas.dataset.frame = index;
    if (people > 0) this.canvas.dataset.drawn = ++this.drawn;
  }

  // fit gives the stage the shape of the picture, so that the canvas covers the picture and nothing else.
  fit(width, height) {
    if (!width || !height) return;
    this.stage.style.aspectRatio = `${width} / ${height}`;
    this.stage.style.maxWidth = `calc(75vh * ${width / height})`;
    this.resize();
  }

  resize() {
    const box = this.canvas.getBoundingClientRect();
    const scale = Math.min(window.devicePixelRatio || 1, 2);
    const [width, height] = [Math.round(box.width * scale), Math.round(box.height * scale)];
    if (width === this.canvas.width && height === this.canvas.height) return;
    this.canvas.width = width;
    this.canvas.height = height;
    this.repaint();
  }

  note(text) { $('note').textContent = text; }
}

// Clock runs from 0 to its end and tells the time at each turn of the screen.
class Clock {
  constructor(end, tell, speed, changed) {
    Object.assign(this, { end, tell, speed, changed, t: 0, running: false });
  }

  seek(t) {
    this.t = Math.min(Math.max(t, 0), this.end);
    this.tell(this.t);
  }

  start() {
    if (this.t >= this.end) this.t = 0;
    this.running = true;
    this.changed();
    let before = performance.now();
    const turn = (now) => {
      if (!this.running) return;
      this.seek(this.t + (now - before) * this.speed());
      before = now;
      if (this.t >= this.end) this.stop();
      else requestAnimationFrame(turn);
    };
    requestAnimationFrame(turn);
  }

  stop() {
    this.running = false;
    this.changed();
  }
}
