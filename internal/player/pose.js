// The pose document: which frame is on at a time, and how its people are drawn.

const LEAST_SCORE = 0.2;

// Track keeps the frames of one clip in order of time.
export class Track {
  constructor(clip, skeleton) {
    this.clip = clip;
    this.frames = clip.frames ?? [];
    this.edges = skeleton?.edges ?? [];
    this.width = clip.media?.width ?? 0;
    this.height = clip.media?.height ?? 0;
    this.athlete = clip.athlete?.track;
    this.duration = Math.max(clip.media?.durationMs ?? 0, this.frames.at(-1)?.t ?? 0);
    this.gap = this.medianGap();
    this.ranks = new Map(this.tracks().map(([track], rank) => [track, rank]));
  }

  medianGap() {
    const gaps = [];
    for (let i = 1; i < this.frames.length; i++) gaps.push(this.frames[i].t - this.frames[i - 1].t);
    gaps.sort((a, b) => a - b);
    return gaps.length ? gaps[gaps.length >> 1] : 40;
  }

  // index is that of the frame which is on at t, in ms; -1 if there is none, since none was analysed near it.
  index(t) {
    const at = t + 1; // a video's clock and the document's times differ by rounding
    let low = 0;
    let high = this.frames.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.frames[middle].t <= at) low = middle + 1;
      else high = middle;
    }
    if (low === 0) return this.frames.length && this.frames[0].t - at < this.gap ? 0 : -1;
    const next = low < this.frames.length ? this.frames[low].t : this.frames[low - 1].t + 3 * this.gap;
    return at < next && at - this.frames[low - 1].t < Math.max(10 * this.gap, 500) ? low - 1 : -1;
  }

  // colour gives the people who are seen most hues that are far apart; a person keeps it through the clip.
  colour(track) {
    return `hsl(${Math.round((this.ranks.get(track) * 137.508 + 25) % 360)} 95% 60%)`;
  }

  // tracks lists the people of the clip, most seen first.
  tracks() {
    const seen = new Map();
    for (const f of this.frames) for (const p of f.people) seen.set(p.track, (seen.get(p.track) ?? 0) + 1);
    return [...seen].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
  }
}

// draw paints the people of a frame on the context, whose canvas shows width × height pixels of the document. It
// returns how many people really got a line or a point.
export function draw(context, track, frame) {
  const { width, height } = context.canvas;
  context.clearRect(0, 0, width, height);
  if (!frame || !track.width || !track.height) return 0;
  const scale = { x: width / track.width, y: height / track.height };
  const unit = Math.max(1, Math.min(width, height) / 240);
  let drawn = 0;
  const last = (p) => p.track === track.athlete; // on top of the others
  for (const person of [...frame.people].sort((a, b) => last(a) - last(b))) {
    if (drawPerson(context, track, person, scale, unit)) drawn++;
  }
  return drawn;
}

function drawPerson(context, track, person, scale, unit) {
  const points = person.keypoints.map((p) => (p && p[2] >= LEAST_SCORE ? [p[0] * scale.x, p[1] * scale.y] : null));
  const athlete = person.track === track.athlete;
  const lines = track.edges.filter(([a, b]) => points[a] && points[b]);
  context.lineCap = 'round';
  if (athlete) stroke(context, points, lines, 'rgb(255 255 255 / .85)', unit * 3.2);
  stroke(context, points, lines, track.colour(person.track), unit * (athlete ? 1.9 : 1.2));
  context.fillStyle = track.colour(person.track);
  let any = lines.length > 0;
  for (const p of points) {
    if (!p) continue;
    context.beginPath();
    context.arc(p[0], p[1], unit * (athlete ? 2 : 1.3), 0, 2 * Math.PI);
    context.fill();
    any = true;
  }
  return any;
}

function stroke(context, points, lines, style, width) {
  context.strokeStyle = style;
  context.lineWidth = width;
  context.beginPath();
  for (const [a, b] of lines) {
    context.moveTo(...points[a]);
    context.lineTo(...points[b]);
  }
  context.stroke();
}
