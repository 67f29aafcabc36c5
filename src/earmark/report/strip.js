// ---- the timeline: rows of equal length, read like lines of text -----------------------------

const ROWS = [60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 14400];
const GUTTER = 58, MOST_ROWS = 24, AXIS = 18;
const TICKS = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600];

function layOut(recording, width) {
  const room = Math.max(120, width - GUTTER);
  const fits = (room / 4) * (recording.window || 4); // a window is at least four pixels wide
  let length = [...ROWS].reverse().find((each) => each <= fits) || ROWS[0];
  length = ROWS.find((each) => each >= length && recording.duration / each <= MOST_ROWS) || recording.duration / MOST_ROWS;
  if (recording.duration < length) length = Math.max(recording.duration, 1);
  const rows = Math.max(1, Math.ceil(recording.duration / length - 1e-9));
  return { length, room, rows, height: rows < 3 ? 92 : rows < 7 ? 60 : 46 };
}

function drawStrip(strip) {
  const { canvas, recording } = strip;
  const width = canvas.clientWidth;
  if (!width) return;
  const plan = (strip.plan = layOut(recording, width));
  canvas.style.height = `${plan.rows * plan.height + AXIS}px`;
  const [pen, colour] = penOf(canvas);
  pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  for (let row = 0; row < plan.rows; row += 1) drawRow(pen, strip, row, colour);
  drawAxis(pen, plan, colour);
}

/** Times below the last row: in the recording if there is one row, else from the start of a row. */
function drawAxis(pen, plan, colour) {
  const step = TICKS.find((each) => (each / plan.length) * plan.room >= 64) || plan.length;
  const top = plan.rows * plan.height;
  pen.fillStyle = colour("quiet");
  pen.textAlign = "center";
  for (let time = step; time < plan.length - step / 3; time += step) {
    const x = GUTTER + (time / plan.length) * plan.room;
    pen.fillRect(x, top - 4, 1, 4);
    pen.fillText((plan.rows > 1 ? "+" : "") + clock(time), x, top + 12);
  }
}

function drawRow(pen, strip, row, colour) {
  const { recording, plan } = strip;
  const top = row * plan.height, foot = top + plan.height - 16, from = row * plan.length;
  const until = Math.min(from + plan.length, recording.duration);
  const tall = plan.height - 21;
  const place = (time) => GUTTER + ((time - from) / plan.length) * plan.room;
  pen.fillStyle = colour("quiet");
  pen.textAlign = "left";
  pen.fillText(clock(from), 0, foot);
  drawPicks(pen, strip, { from, until, top, foot, place, colour });
  const [plain, picked] = [colour("sound"), colour("sound-picked")];
  for (let x = GUTTER; x < place(until); x += 1) { // sound level, one column per pixel
    const [time, next] = [x, x + 1].map((edge) => from + ((edge - GUTTER) / plan.room) * plan.length);
    const height = 1 + (loudest(recording, time, next) / 100) * tall;
    const pick = pickAt(recording, time + 1e-9);
    pen.fillStyle = pick && pick.isFound ? picked : plain;
    pen.fillRect(x, foot - height, 1, height);
  }
  drawScore(pen, recording, { from, until, foot, tall, place, colour });
  pen.fillStyle = colour("ink");
  for (const mark of recording.marks.filter((time) => time >= from && time < until)) drawFlag(pen, place(mark), top, foot);
}

function loudest(recording, from, until) {
  const first = Math.floor(from / recording.hop);
  let most = recording.level[first] || 0;
  for (let step = first + 1; step < until / recording.hop; step += 1) most = Math.max(most, recording.level[step] || 0);
  return most;
}

/** The pick that contains `time`, in seconds; undefined if there is none. */
function pickAt({ picks }, time) {
  let [low, high] = [0, picks.length]; // binary search: picks are in order of time, and may not be on a grid
  while (low < high) {
    const middle = (low + high) >> 1;
    if (picks[middle].start <= time) low = middle + 1; else high = middle;
  }
  const pick = picks[low - 1];
  return pick && time < pick.end ? pick : undefined;
}

function drawPicks(pen, strip, { from, until, top, foot, place, colour }) {
  const { recording, plan } = strip;
  const step = recording.window;
  if (!step) return;
  const [edge, gapped] = [GUTTER + plan.room, (wide) => wide - (wide > 3 ? 1 : 0)];
  const extent = (start, end) => [Math.max(GUTTER, place(start)), Math.min(place(Math.min(end, until)), edge)];
  pen.fillStyle = colour("cell");
  for (let index = Math.floor(from / step + 1e-9); index * step < until; index += 1) {
    const [left, right] = extent(index * step, (index + 1) * step);
    if (right > left) pen.fillRect(left, foot + 3, gapped(right - left), 2);
  }
  for (const pick of recording.picks) {
    if (pick.end <= from || pick.start >= until) continue;
    const [left, right] = extent(pick.start, pick.end);
    if (right <= left) continue;
    pen.globalAlpha = pick.isFound ? 1 : 0.25;
    pen.fillStyle = colour(pick.status === "failed" ? "bad" : "mark");
    pen.fillRect(left, foot + 3, gapped(right - left), 6);
    pen.fillStyle = colour(pick.status === "failed" ? "bad-soft" : "mark-soft");
    pen.fillRect(left, top + 3, gapped(right - left), foot - top - 1);
    pen.globalAlpha = 1;
  }
}

function drawScore(pen, recording, { from, until, foot, tall, place, colour }) {
  const step = recording.window;
  if (!step || !recording.scores.some((score) => score > 0)) return;
  pen.strokeStyle = colour("score");
  pen.lineWidth = 1.5;
  pen.lineJoin = "round";
  pen.beginPath();
  for (let index = Math.floor(from / step + 1e-9); index * step < until; index += 1) {
    const x = Math.max(GUTTER, place(Math.min((index + 0.5) * step, until)));
    const y = foot - 1 - (recording.scores[index] / 100) * tall;
    if (index * step <= from + 1e-9) pen.moveTo(x, y); else pen.lineTo(x, y);
  }
  pen.stroke();
}

/** The time under the pointer, in seconds; null beside the timeline. */
function timeAt(strip, event) {
  const { plan, recording } = strip;
  const across = (event.offsetX - GUTTER) / plan.room;
  const time = (Math.min(plan.rows - 1, Math.floor(event.offsetY / plan.height)) + across) * plan.length;
  return across < 0 || across > 1 || time >= recording.duration ? null : time;
}

function makeStrip(recording) {
  const canvas = make("canvas", "strip");
  const told = make("output");
  const strip = { canvas, recording };
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label",
    `Timeline of ${recording.name}: ${plural(recording.windows, "window")}, ${whole(recording.picks.length)} picked`);
  canvas.addEventListener("pointermove", (event) => {
    const time = timeAt(strip, event);
    const pick = time === null ? null : pickAt(recording, time);
    const score = time === null ? undefined : recording.scores[Math.floor(time / (recording.window || 1))];
    told.textContent = time === null ? "" : `${clock(time)} · ${pick ? `picked: ${pick.reason}` : "left out"}` +
      (score === undefined ? "" : ` · score ${score}`);
  });
  canvas.addEventListener("pointerleave", () => { told.textContent = ""; });
  canvas.addEventListener("click", (event) => {
    const time = timeAt(strip, event);
    if (time === null) return;
    const pick = pickAt(recording, time);
    if (pick && pick.isFound) goTo(pick); else play(recording, time);
  });
  new ResizeObserver(() => drawStrip(strip)).observe(canvas);
  strips.push(strip);
  const key = (name, text) => make("span", name, text);
  const legend = make("div", "legend", key("picked", "picked"), key("left", "left out"),
    recording.level.length ? key("level", "sound level") : null, key("curve", "score"),
    recording.marks.length ? key("flag", "marked on the camera") : null, told);
  return [makeLanes(recording), makeMarks(recording.marks, (time) => play(recording, time)), canvas, legend];
}
