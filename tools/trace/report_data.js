/* report_data.js - the data of a report as its page uses them, and the words for them; report_bars.h says how they are written.
 *
 * Texts come from dumps, which anybody may have written. They get into the page as text alone, never as HTML.
 */
"use strict";

const LANES_MAX = 4, LATE_LEAST_NS = 2000, LATE_SHARE = 0.1;
const WAIT_FOR_ALL = ["allreduce", "allgather", "reduce_scatter", "alltoall", "barrier"];
const COLOURED = [...WAIT_FOR_ALL, "broadcast", "reduce", "gather", "scatter", "send", "recv"];

/* ---------------------------------------------------------------------------------------- elements and words */

function make(name, attributes = {}, ...children) {
  const isDrawn = ["svg", "g", "rect", "text", "path", "line", "title"].includes(name);
  const element = isDrawn ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function duration(ns) {
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  if (ns < 1e6) return `${(ns / 1e3).toFixed(1)} us`;
  if (ns < 1e9) return `${(ns / 1e6).toFixed(1)} ms`;
  return `${(ns / 1e9).toFixed(2)} s`;
}

function took(bar) {
  return bar.took == 0 && !isOpen(bar) ? "< 2 us" : duration(bar.took);
}

const isOpen = bar => bar.state != "done";
const isRunning = bar => bar.state == "running";
const isFailed = bar => isOpen(bar) && !isRunning(bar);
const waitingShare = bar => bar.waited > 0 ? Math.min(1, bar.waited / bar.took) : 0;
const plainCall = kind => COLOURED.find(name => kind.call == name || kind.call == name + "v") ?? "other";

function nameOf(bar) {
  const {call, started, count, dtype, op, root, peer, tag} = bar.kind;
  const parts = dtype ? [`count ${count}`, dtype] : [];
  if (op) parts.push(op);
  if (root !== undefined) parts.push(`root ${root}`);
  if (!bar.isMessage) return `${call}${started ? "_start" : ""}(${parts.join(", ")}) #${bar.number}`;
  parts.push(`${call == "send" ? "to" : "from"} ${peer === undefined ? "any rank" : "rank " + peer}`);
  if (tag !== undefined) parts.push(`tag ${tag}`);
  return `${call}(${parts.join(", ")})`;
}

function stateOf(bar) {
  if (isRunning(bar)) return `not over after ${took(bar)}`;
  return `${bar.state} after ${took(bar)}`;
}

function describe(bar) {
  const waits = bar.target >= 0 ? `, ${isRunning(bar) ? "waits" : "waited"} for rank ${bar.target}` : "";
  return `rank ${bar.row.rank}: ${nameOf(bar)}, ${stateOf(bar)}${waits}${bar.isLate ? ", came last" : ""}`;
}

/* ------------------------------------------------------------------------------------------------------ data */

/* Bars of one list of a row; numbers and begins are differences. */
function readBars(data, row, list, isMessage) {
  const bars = [];
  let number = 0, begin = 0;
  for (let i = 0; i + 6 < list.length; i += 7) {
    const [step, kind, later, length, state, target, since] = list.slice(i, i + 7);
    number += step;
    begin += later;
    bars.push({row, number, begin, target, since, isMessage, took: length, index: bars.length,
               kind: data.kinds[kind], state: data.states[state], end: begin + length});
  }
  return bars;
}

/* Bars that overlap lie in lanes, one above the other. Returns how many there are. */
function layLanes(bars) {
  const ends = [];
  for (const bar of [...bars].sort((a, b) => a.begin - b.begin)) {
    const free = ends.findIndex(end => end <= bar.begin);
    bar.lane = free >= 0 ? free : Math.min(ends.length, LANES_MAX - 1);
    ends[bar.lane] = Math.max(ends[bar.lane] ?? 0, bar.end);
  }
  return Math.max(1, ends.length);
}

/* A call of all ranks: its bars by rank, and until when ranks wait for the last one to come. */
function layCalls(data) {
  const calls = new Map();
  for (const row of data.rows)
    for (const bar of row.calls) {
      if (!calls.has(bar.number)) calls.set(bar.number, {bars: new Map(), cameAt: -Infinity});
      const call = calls.get(bar.number);
      call.bars.set(row.rank, bar);
      call.cameAt = Math.max(call.cameAt, bar.begin);
    }
  for (let i = 0; i + 4 < data.late.length; i += 5) {
    const [number, rank, late, skew, measured] = data.late.slice(i, i + 5), call = calls.get(number);
    if (!call) continue;
    Object.assign(call, {last: rank, late, skew, measured});
    const bar = call.bars.get(rank);
    if (bar) bar.isLate = late >= LATE_LEAST_NS && late >= LATE_SHARE * measured;
  }
  for (const [number, call] of calls) {
    const lacks = data.rows.some(row => !row.calls.length || row.calls.at(-1).number < number);
    for (const bar of call.bars.values()) {
      const waits = WAIT_FOR_ALL.includes(plainCall(bar.kind)) && data.clock != "none";
      const until = lacks && isOpen(bar) ? bar.end : Math.min(call.cameAt, bar.end);
      bar.waited = waits && !isFailed(bar) ? Math.max(0, until - bar.begin) : 0;
    }
  }
  return calls;
}

/* Reads the data of a communicator. */
function readData(data) {
  for (const row of data.rows) {
    row.calls = readBars(data, row, row.calls ?? [], false);
    row.messages = readBars(data, row, row.messages ?? [], true);
    row.lanes = layLanes(row.calls);
    row.messageLanes = row.messages.length ? layLanes(row.messages) : 0;
  }
  data.calls = layCalls(data);
  data.numbers = [...data.calls.keys()].sort((a, b) => a - b);
  for (const row of data.rows) { /* what others have called, and it has not */
    const last = row.calls.at(-1)?.number ?? 0;
    const next = data.numbers.find(number => number > last);
    if (row.dump !== undefined && !row.calls.some(isOpen) && next !== undefined && row.made < next) row.owes = next;
  }
  return data;
}
