/* report_timeline.js - the timeline of a communicator: a row for each rank, a bar for each call, by time or side by side by their numbers.
 *
 *     rank 0  ░░░░░▓▓▓▓▓  ░░▓▓▓      ░ waits for the last rank    ▓ all are there
 *     rank 1     ░░▓▓▓▓▓  ▼▓▓▓▓      ▼ came last
 *     rank 2  - - - - - - - - -      left no dump
 *
 * Only rows and bars in view are drawn, and bars that are too narrow to tell apart are drawn as one. So it does not matter how many there are.
 */
const LABEL_WIDTH = 76, BAR_MIN = 2, MERGE_BELOW = 4, LEAST_NS = 200, LEAST_CALLS = 2, GLIDE_MS = 160;
const still = matchMedia("(prefers-reduced-motion: reduce)");
const keyOf = bar => `${bar.row.rank} ${bar.isMessage ? "message" : "call"} ${bar.index}`;

class Timeline {
  constructor(place, data) {
    place.replaceChildren(document.getElementById("timeline").content.cloneNode(true));
    this.place = place;
    this.data = data;
    this.axis = data.clock == "none" ? "call" : "time";
    this.ruler = place.querySelector(".ruler");
    this.scroller = place.querySelector(".rows");
    this.canvas = this.scroller.querySelector("svg");
    this.details = place.querySelector(".details");
    this.layers = {ground: make("g"), bars: make("g"), over: make("g")};
    this.canvas.append(...Object.values(this.layers));
    this.marks = new Map(); /* the elements that are drawn, by key: they stay from one drawing to the next */
    const lanes = data.rows.map(row => (row.lanes > 1 ? row.lanes * 11 : 0) + row.messageLanes * 8);
    this.rowHeight = Math.max(...lanes.map(pixels => pixels + 8), data.rows.length > 40 ? 18 : data.rows.length > 12 ? 26 : 32);
    this.height = data.rows.length * this.rowHeight + 2;
    this.canvas.style.height = `${this.height}px`;
    this.bars = data.rows.flatMap(row => [...row.calls, ...row.messages]);
    this.first = this.bars.reduce((first, bar) => Math.min(first, bar.begin), data.span);
    this.current = this.firstCurrent();
    this.view = this.endView();
    this.writeLegend();
    this.listen();
    this.draw();
    new ResizeObserver(() => this.draw()).observe(this.scroller);
  }

  /* The bar at which keys begin: of the call that the verdict names, of the culprit if it has made it. */
  firstCurrent() {
    const {calls, numbers, sequence, culprit} = this.data;
    const call = calls.get(sequence) ?? calls.get(numbers.at(-1));
    return call ? call.bars.get(culprit) ?? call.bars.values().next().value : this.bars[0];
  }

  /* The colours that there are. */
  writeLegend() {
    const kinds = new Set(this.data.kinds.map(plainCall));
    const items = [...COLOURED, "other"].filter(name => kinds.has(name)).map(name => [`call-${name}`, name]);
    for (const [has, kind, text] of [[bar => bar.waited, "waits", "waits for the last rank"], [isFailed, "failed", "✕ failed"],
                                     [isRunning, "running", "not over"], [bar => bar.isLate, "late", "came last"]])
      if (this.bars.some(has)) items.push([kind, text]);
    const swatch = ([kind, text]) => make("li", {}, make("span", {class: `swatch ${kind}`}), text);
    this.place.querySelector(".legend").append(...items.map(swatch));
  }

  /* ------------------------------------------------------------------------------------------- what is in view */

  whole() {
    const {numbers, span} = this.data;
    if (this.axis == "call") return [numbers[0] ?? 0, (numbers.at(-1) ?? 0) + 1];
    return [Math.min(this.first, span), Math.max(span, this.first + 1000)];
  }

  spanOf(bar) {
    return this.axis == "call" ? [bar.number, bar.number + 1] : [bar.begin, bar.end];
  }

  /* The call that the verdict names and some before it. A call that hangs for long runs out of the view. */
  endView() {
    const {calls, numbers, sequence} = this.data, [low, high] = this.whole();
    const at = Math.max(0, calls.has(sequence) ? numbers.indexOf(sequence) : numbers.length - 1);
    if (!numbers.length) return [low, high];
    if (this.axis == "call") return [Math.max(low, numbers[at] - 12), Math.min(high, numbers[at] + 4)];
    const barsOf = index => [...calls.get(numbers[index]).bars.values()];
    const beginOf = index => Math.min(...barsOf(index).map(bar => bar.begin)), endOf = index => Math.max(...barsOf(index).map(bar => bar.end));
    const from = beginOf(Math.max(0, at - 6)), until = beginOf(at), before = Math.max(until - from, (high - low) / 1000, 1000);
    const to = Math.min(Math.max(endOf(at), endOf(numbers.length - 1)), until + before);
    return [from - before * 0.05, to + (to - from) * 0.05];
  }

  /* Goes there, as far as there is something to see. */
  show([from, to], isAtOnce = still.matches) {
    const [low, high] = this.whole(), margin = (high - low) * 0.05;
    const width = Math.min(Math.max(to - from, this.axis == "call" ? LEAST_CALLS : LEAST_NS), high - low + 2 * margin);
    const begin = Math.min(Math.max((from + to - width) / 2, low - margin), high + margin - width);
    const old = this.view, wanted = [begin, begin + width], started = performance.now();
    const step = now => {
      const part = isAtOnce ? 1 : Math.min(1, Math.max(0, now - started) / GLIDE_MS), eased = part * (2 - part);
      this.view = part == 1 ? wanted : wanted.map((end, i) => old[i] + (end - old[i]) * eased);
      this.draw();
      if (part < 1) this.gliding = requestAnimationFrame(step);
    };
    cancelAnimationFrame(this.gliding);
    step(started);
  }

  zoom(factor, around) {
    const [from, to] = this.view, middle = around ?? (from + to) / 2;
    this.show([middle - (middle - from) * factor, middle + (to - middle) * factor]);
  }

  move(part) {
    const [from, to] = this.view;
    this.show([from + (to - from) * part, to + (to - from) * part]);
  }

  setAxis(axis) {
    if (axis == this.axis) return;
    this.axis = axis;
    this.view = this.endView();
    if (this.selected) this.bringIntoView(this.selected);
    this.draw();
  }

  bringIntoView(bar) {
    const [from, to] = this.view, [begin, end] = this.spanOf(bar), width = to - from;
    if (end < from || begin > to || (begin < from && end < to)) {
      const middle = end - begin < width ? (begin + end) / 2 : begin + width * 0.4;
      this.show([middle - width / 2, middle + width / 2], true);
    }
    const top = this.data.rows.indexOf(bar.row) * this.rowHeight, {scrollTop, clientHeight} = this.scroller;
    if (top < scrollTop) this.scroller.scrollTop = top;
    if (top + this.rowHeight > scrollTop + clientHeight) this.scroller.scrollTop = top + this.rowHeight - clientHeight;
  }

  x(value) {
    const [from, to] = this.view;
    return LABEL_WIDTH + (value - from) / (to - from) * (this.width - LABEL_WIDTH);
  }

  valueAt(clientX) {
    const [from, to] = this.view, x = clientX - this.canvas.getBoundingClientRect().left;
    return from + (x - LABEL_WIDTH) / (this.width - LABEL_WIDTH) * (to - from);
  }

  /* ------------------------------------------------------------------------------------------------- drawing */

  draw() {
    this.width = this.scroller.clientWidth;
    if (this.width <= LABEL_WIDTH) return; /* it is hidden */
    this.used = new Set();
    this.canvas.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    for (const axis of ["time", "call"]) this.place.querySelector(`.by-${axis}`).setAttribute("aria-pressed", this.axis == axis);
    this.drawRuler();
    const {scrollTop, clientHeight} = this.scroller, height = this.rowHeight;
    this.data.rows.forEach((row, i) => {
      const isNear = (i + 3) * height > scrollTop && (i - 2) * height < scrollTop + clientHeight;
      if (isNear || row == this.current?.row) this.drawRow(row, i * height);
    });
    this.drawLink();
    for (const [key, mark] of this.marks) {
      if (this.used.has(key)) continue;
      mark.remove();
      this.marks.delete(key);
    }
  }

  /* The element of that key, which is made when it is drawn first. */
  mark(layer, key, name, attributes, text) {
    let mark = this.marks.get(key);
    if (!mark) {
      this.marks.set(key, mark = make(name));
      this.layers[layer].append(mark);
    }
    for (const [attribute, value] of Object.entries(attributes))
      if (mark.getAttribute(attribute) != value) mark.setAttribute(attribute, value);
    if (text !== undefined && mark.textContent != text) mark.textContent = text;
    this.used.add(key);
    return mark;
  }

  /* Says to a pointer that rests there what it says to assistive technology. */
  tell(mark, text) {
    if (mark.firstChild?.textContent != text) mark.replaceChildren(make("title", {}, text));
    mark.setAttribute("aria-label", text);
  }

  drawRuler() {
    const [from, to] = this.view, isByCall = this.axis == "call", least = (to - from) / Math.max(2, (this.width - LABEL_WIDTH) / 90);
    const power = 10 ** Math.floor(Math.log10(least)), nice = power * [1, 2, 5, 10].find(step => step * power >= least);
    const step = isByCall ? Math.max(1, Math.round(nice)) : nice, digits = Math.min(9, Math.max(0, 9 - Math.floor(Math.log10(step))));
    const ticks = [make("text", {x: 4, y: 13, class: "unit"}, isByCall ? "call" : "time")];
    for (let i = 0, value = Math.ceil(from / step) * step; value <= to && i < 100; i++, value += step) {
      const x = this.x(isByCall ? value + 0.5 : value), text = isByCall ? `#${value}` : `${(value / 1e9).toFixed(digits)} s`;
      if (x < LABEL_WIDTH || x > this.width) continue;
      ticks.push(make("line", {x1: x, x2: x, y1: 18, y2: 24}));
      if (x + text.length * 3.2 < this.width) ticks.push(make("text", {x, y: 13}, text));
    }
    this.ruler.setAttribute("viewBox", `0 0 ${this.width} 24`);
    this.ruler.replaceChildren(...ticks);
  }

  drawRow(row, top) {
    const {rank} = row, height = this.rowHeight, isCulprit = rank == this.data.culprit, isMissing = row.dump === undefined;
    const where = row.host === undefined ? "" : `, host ${row.host}${row.pid ? `, process ${row.pid}` : ""}`;
    const label = this.mark("ground", `label ${rank}`, "text", {x: 4, y: top + height / 2 + 4, class: isCulprit ? "label culprit" : "label"});
    if (!label.firstChild) label.append(`rank ${rank}`, make("title", {}, `rank ${rank}${where}`));
    this.mark("ground", `ground ${rank}`, "rect", {x: LABEL_WIDTH, y: top + 1, width: this.width - LABEL_WIDTH, height: height - 2,
                                                   class: isMissing ? "ground missing" : "ground"});
    if (isMissing) this.note(row, top, LABEL_WIDTH + 8, this.width, `left no dump${isCulprit ? ": the culprit" : ""}`);
    if (row.owes !== undefined) this.drawOwing(row, top);
    const strip = this.axis == "call" ? 0 : Math.min(row.messageLanes * 8, height * 2 / 3);
    const lanes = this.axis == "call" ? 1 : row.lanes, lane = (height - 6 - strip) / lanes, messageLane = strip / row.messageLanes;
    this.drawBars(row.calls, bar => [top + 3 + (lanes > 1 ? bar.lane : 0) * lane, lane - (lanes > 1 ? 1 : 0)]);
    if (strip) this.drawBars(row.messages, bar => [top + height - 2 - strip + bar.lane * messageLane, messageLane - 1]);
  }

  /* From its last call on, the rank is in none, and others wait. */
  drawOwing(row, top) {
    const isByCall = this.axis == "call", after = row.calls.at(-1)?.end ?? 0;
    const from = Math.max(LABEL_WIDTH, this.x(isByCall ? row.owes : after)), to = Math.min(this.width, this.x(isByCall ? row.owes + 1 : row.dump));
    if (to <= from) return;
    this.mark("ground", `owes ${row.rank}`, "rect", {x: from, y: top + 3, width: to - from, height: this.rowHeight - 6, class: "owes"});
    this.note(row, top, from + 8, to, `has not called #${row.owes}`);
  }

  note(row, top, from, to, text) {
    if (to - from > text.length * 6.2) this.mark("over", `note ${row.rank}`, "text", {x: from, y: top + this.rowHeight / 2 + 4, class: "note"}, text);
  }

  /* Bars that are too narrow to tell apart become one, unless a bar says something of its own. */
  drawBars(bars, place) {
    let many = null; /* the bars since the last one that was drawn */
    const draw = () => {
      if (many?.count == 1) this.drawBar(many.first, many.from, many.to, place(many.first));
      else if (many) this.drawMany(many, place(many.first));
      many = null;
    };
    for (const bar of bars) {
      const [begin, end] = this.spanOf(bar).map(value => this.x(value)), isCurrent = bar == this.current;
      if ((end < LABEL_WIDTH || begin > this.width) && !isCurrent) continue; /* that one keeps the focus */
      const from = Math.min(Math.max(begin, LABEL_WIDTH), this.width - BAR_MIN), to = Math.max(Math.min(end, this.width), from + BAR_MIN);
      const isOwn = isCurrent || isOpen(bar) || this.isSelected(bar) || to - from >= MERGE_BELOW;
      if (isOwn || many && (many.first.lane != bar.lane || from - many.to >= 1)) draw();
      if (isOwn) {
        this.drawBar(bar, from, to, place(bar));
        continue;
      }
      many ??= {first: bar, from, count: 0, waiting: 0, times: {}};
      Object.assign(many, {last: bar, to: Math.max(many.to ?? 0, to), count: many.count + 1, waiting: many.waiting + waitingShare(bar)});
      many.times[plainCall(bar.kind)] = (many.times[plainCall(bar.kind)] ?? 0) + bar.took;
    }
    draw();
  }

  /* In the colour of what took the longest. */
  drawMany({first, last, from, to, count, waiting, times}, [y, height]) {
    const [longest] = Object.entries(times).reduce((a, b) => b[1] > a[1] ? b : a), opacity = (1 - 0.6 * waiting / count).toFixed(2);
    const mark = this.mark("bars", `many ${keyOf(first)}`, "rect",
                           {x: from, y, width: to - from, height, opacity, class: `many call-${longest}`, role: "img"});
    mark.bars = [first, last];
    this.tell(mark, `rank ${first.row.rank}: ${count} ${first.isMessage ? "messages" : "calls"}, from ${nameOf(first)} to ${nameOf(last)}`);
  }

  /* The selected bar, or the same call of another rank. */
  isSelected(bar) {
    const {selected} = this;
    return bar == selected || selected && !selected.isMessage && !bar.isMessage && bar.number == selected.number;
  }

  drawBar(bar, from, to, [y, height]) {
    const key = keyOf(bar), classes = ["bar", `call-${plainCall(bar.kind)}`];
    if (bar.isMessage) classes.push("message");
    if (isOpen(bar)) classes.push(isRunning(bar) ? "running" : "failed");
    if (this.isSelected(bar)) classes.push(bar == this.selected ? "selected" : "same");
    const mark = this.mark("bars", key, "rect", {x: from, y, width: to - from, height, rx: 2, class: classes.join(" "), role: "button",
                                                 tabindex: bar == this.current ? 0 : -1});
    mark.bar = bar;
    this.tell(mark, describe(bar));
    const came = this.axis == "time" ? Math.min(this.x(bar.begin + bar.waited), to) : from + (to - from) * waitingShare(bar);
    if (came - from > 1) this.mark("bars", `${key} waits`, "rect", {x: from, y, width: came - from, height, rx: 2, class: "waits"});
    if (height > 12) this.drawWord(bar, came - from > to - came ? [from, came, "word on-waits"] : [came, to, "word"], y + height / 2 + 4);
    if (bar.isLate && this.x(this.spanOf(bar)[0]) >= LABEL_WIDTH)
      this.mark("over", `${key} late`, "path", {d: `M${from - 5} ${y - 2}h10l-5 9z`, class: "late"});
  }

  /* In the larger part of a bar: where it waits, or where all are there. */
  drawWord(bar, [from, to, kind], y) {
    const call = bar.kind.call + (bar.kind.started ? "_start" : ""), name = `${call} #${bar.number}`;
    const words = this.axis == "call" ? [call, ""] : [...isOpen(bar) ? [`${name}, ${stateOf(bar)}`] : [], name, `#${bar.number}`, ""];
    const word = words.map(text => isFailed(bar) ? `✕ ${text}` : text).find(text => to - from > text.trim().length * 7.2 + 8);
    if (word) this.mark("bars", `${keyOf(bar)} word`, "text", {x: from + 6, y, class: kind}, word);
  }

  /* A line through the begins of the selected call on all ranks. */
  drawLink() {
    const call = this.selected && !this.selected.isMessage && this.data.calls.get(this.selected.number);
    if (!call) return;
    const points = this.data.rows.flatMap((row, i) => {
      const bar = call.bars.get(row.rank), x = bar && this.x(this.spanOf(bar)[0]);
      return bar && x >= LABEL_WIDTH && x <= this.width ? [`${x} ${(i + 0.5) * this.rowHeight}`] : [];
    });
    if (points.length > 1) this.mark("over", "link", "path", {class: "link", d: `M${points.join("L")}`});
  }

  /* ------------------------------------------------------------------------------------------------- choosing */

  select(bar) {
    this.selected = bar;
    if (bar) this.current = bar;
    this.writeDetails();
    if (bar) this.bringIntoView(bar);
    this.draw();
  }

  focus(bar) {
    if (!bar) return;
    this.current = bar;
    this.bringIntoView(bar);
    this.draw();
    this.marks.get(keyOf(bar)).focus({preventScroll: true});
  }

  /* The same call of the next rank that has made it. */
  neighbour(bar, step) {
    const {rows, calls} = this.data;
    for (let i = rows.indexOf(bar.row) + step; rows[i]; i += step) {
      const found = bar.isMessage ? rows[i].messages[0] : calls.get(bar.number).bars.get(rows[i].rank);
      if (found) return found;
    }
    return null;
  }

  press(event) {
    const bar = this.current, list = bar.isMessage ? bar.row.messages : bar.row.calls;
    const middle = this.spanOf(bar).reduce((a, b) => (a + b) / 2);
    const [from, to] = this.view, around = middle > from && middle < to ? middle : undefined;
    const actions = {
      ArrowLeft: () => event.shiftKey ? this.move(-0.25) : this.focus(list[bar.index - 1]),
      ArrowRight: () => event.shiftKey ? this.move(0.25) : this.focus(list[bar.index + 1]),
      ArrowUp: () => this.focus(this.neighbour(bar, -1)),
      ArrowDown: () => this.focus(this.neighbour(bar, 1)),
      Home: () => this.focus(list[0]),
      End: () => this.focus(list.at(-1)),
      Enter: () => this.select(bar),
      " ": () => this.select(bar),
      Escape: () => this.select(null),
      "+": () => this.zoom(0.5, around),
      "=": () => this.zoom(0.5, around),
      "-": () => this.zoom(2, around),
      "0": () => this.show(this.whole()),
    };
    if (event.ctrlKey || event.metaKey || event.altKey || !actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }

  listen() {
    const buttons = {".by-time": () => this.setAxis("time"), ".by-call": () => this.setAxis("call"), ".zoom-in": () => this.zoom(0.5),
                     ".zoom-out": () => this.zoom(2), ".all": () => this.show(this.whole()), ".end": () => this.show(this.endView())};
    for (const [button, action] of Object.entries(buttons)) this.place.querySelector(button).addEventListener("click", action);
    this.scroller.addEventListener("scroll", () => this.draw());
    this.canvas.addEventListener("keydown", event => { if (event.target.bar) this.press(event); });
    this.canvas.addEventListener("focusin", event => { if (event.target.bar) this.current = event.target.bar; });
    this.canvas.addEventListener("click", ({target: {bar, bars}}) => {
      if (this.wasDragged) return;
      if (bar) this.select(bar);
      else if (bars) this.show([this.spanOf(bars[0])[0], this.spanOf(bars[1])[1]]);
    });
    this.canvas.addEventListener("wheel", event => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.valueAt(event.clientX));
    }, {passive: false});
    this.canvas.addEventListener("pointerdown", event => this.drag(event.clientX));
  }

  /* Follows a pointer from where it went down until it goes up. */
  drag(start) {
    const [from, to] = this.view, over = new AbortController(), {signal} = over;
    this.wasDragged = false;
    addEventListener("pointermove", ({clientX}) => {
      this.wasDragged ||= Math.abs(clientX - start) >= 4;
      const by = (clientX - start) / (this.width - LABEL_WIDTH) * (to - from);
      if (this.wasDragged) this.show([from - by, to - by], true);
    }, {signal});
    for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => over.abort(), {signal});
  }

  /* -------------------------------------------------------------------------------------------------- details */

  writeDetails() {
    const bar = this.selected, call = bar && !bar.isMessage && this.data.calls.get(bar.number);
    const [about, onRanks] = this.details.children; /* the first one is read out when it changes */
    onRanks.replaceChildren(...call ? [this.rankTable(bar, call)] : []);
    if (!bar) {
      about.replaceChildren(make("p", {}, "No call is selected."));
      return;
    }
    const {kind, target} = bar, waits = isRunning(bar) ? "Waits" : "Waited", isMeasured = call?.last !== undefined;
    const facts = {
      "Rank": `${bar.row.rank}`,
      "State": stateOf(bar),
      [`${waits} for`]: target >= 0 && `rank ${target}, ${duration(Math.max(0, bar.took - bar.since))}`,
      [`${waits} for its gate`]: kind.gated && "yes",
      "Algorithm": kind.algorithm,
      "Ways": kind.ways,
      "Expected": kind.expected && duration(kind.expected),
      "All ranks": isMeasured && `there after ${duration(call.skew)}, done after ${duration(call.measured)} more`,
      "Came last": isMeasured && call.late >= LATE_LEAST_NS && `rank ${call.last}, ${duration(call.late)} after all others`,
    };
    const item = ([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value));
    const items = Object.entries(facts).filter(([, value]) => value).map(item);
    about.replaceChildren(make("h3", {}, nameOf(bar)), make("dl", {class: "facts"}, ...items));
  }

  /* One call on all ranks. */
  rankTable(selected, call) {
    const first = Math.min(...[...call.bars.values()].map(bar => bar.begin));
    const cellsOf = row => {
      const bar = call.bars.get(row.rank), none = "–";
      if (bar) return [`+ ${duration(bar.begin - first)}`, took(bar), bar.waited ? duration(bar.waited) : none, bar.state,
                       bar.target >= 0 ? `rank ${bar.target}` : none];
      return [none, none, none, row.dump === undefined ? "no dump" : row.made < selected.number ? "has not called it" : "not in its dump", none];
    };
    const rows = this.data.rows.map(row => make("tr", row == selected.row ? {class: "selected"} : {},
      make("th", {scope: "row"}, `rank ${row.rank}`), ...cellsOf(row).map(cell => make("td", {}, cell))));
    const heads = ["Rank", "Began", "Took", "Until all came", "State", "Waited for"].map(text => make("th", {scope: "col"}, text));
    return make("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "This call on all ranks"},
                make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows)));
  }
}
