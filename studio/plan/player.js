"use strict";
// The page shows frame 0, the start, or frame k, what is so after round k. `show` draws all of it from the plan, `frame` and
// `chosen` alone. The plan's form is described in player.h. Text there only ever becomes text: nothing here makes
// elements of it.
const plan = JSON.parse(document.getElementById("plan").textContent);
const NOBODY = -1;
const STEP_MS = 1500; // of a round, at speed 1
const CHIPS_MAX = 26, LINES_MAX = 12, FRESH_MAX = 800; // more than that is not read, or not smooth
const last = Math.max(1, plan.rounds);
const isAlltoall = plan.collective === "alltoall", isBarrier = plan.collective === "barrier";
const gathers = plan.reduces || isBarrier; // chunks become complete by and by
let frame = 0, chosen = NOBODY, timer = null;

const $ = id => document.getElementById(id);
const ruler = document.createElement("canvas").getContext("2d");
ruler.font = "600 12px " + getComputedStyle(document.body).fontFamily;
const widthOf = (text, size = 12) => ruler.measureText(text).width * size / 12;
const countTo = (count, make) => Array.from({length: count}, (_, i) => make(i));

const allRanks = countTo(plan.ranks, rank => rank);
const sets = plan.sets.map(hex => allRanks.filter(rank => BigInt("0x" + hex) >> BigInt(rank) & 1n));
const isFull = set => sets[set].length === plan.ranks;
const isDone = value => value !== null && (!gathers || isFull(value.set));
const steps = plan.steps.map(([round, rank, kind, text, buffer, first, values]) => ({round, rank, kind, text, buffer, first,
    chunks: countTo(values.length / 2, i => ({kind: values[2 * i], set: values[2 * i + 1]}))}));
const messages = plan.messages.map(([round, from, to, sent, taken]) => ({round, from, to, chunks: steps[sent].chunks,
    taken: taken < 0 ? null : steps[taken], adds: taken >= 0 && steps[taken].kind.includes("reduce")}));
messages.sort((a, b) => a.from - b.from || a.to - b.to);
const messagesOf = countTo(last + 1, k => messages.filter(message => message.round === k));
const hostOf = rank => plan.hosts ? plan.hosts[rank] : 0;
const order = [...allRanks].sort((a, b) => hostOf(a) - hostOf(b) || a - b);

// ------------------------------------------------------------------------------------------------------------- words

const plural = (count, word) => count + " " + word + (count === 1 ? "" : "s");

function chunkName(kind) {
    if (["allreduce", "reduce", "broadcast"].includes(plan.collective)) return String(kind);
    const block = Math.floor(kind / plan.parts), part = plan.parts > 1 ? "." + kind % plan.parts : "";
    return (isAlltoall ? Math.floor(block / plan.ranks) + "›" + block % plan.ranks : block) + part;
}
function runs(items, follows) { // [first, last] of each run of items that follow each other
    const found = [];
    for (const item of items)
        if (found.length > 0 && follows(found.at(-1)[1], item)) found.at(-1)[1] = item;
        else found.push([item, item]);
    return found;
}
function rankList(ranks) { // "0+1+3"; of many, "0–8+10"
    return runs(ranks, (a, b) => ranks.length > 8 && b === a + 1).map(([a, b]) => a === b ? a : a + "–" + b).join("+");
}
function chunkList(chunks) { // "0–3, 8"
    const names = runs(chunks.map(value => value.kind), (a, b) => !isAlltoall && b === a + 1)
        .map(([a, b]) => chunkName(a) + (a === b ? "" : "–" + chunkName(b)));
    return names.length > 6 ? names.slice(0, 5).join(", ") + `, … (${chunks.length})` : names.join(", ");
}
function number({kind, set}) { // the sum of the example values that are in it
    const sum = sets[set].reduce((total, rank) => total + (plan.values[rank][plan.inputs[rank].indexOf(kind)] ?? 0), 0);
    return String(Number(sum.toPrecision(6)));
}
function contents(value) {
    if (sets[value.set].length === 0) return "?"; // nobody wrote it
    if (plan.values && !isBarrier) return number(value);
    if (!gathers) return chunkName(value.kind);
    return isFull(value.set) ? "all" : rankList(sets[value.set]);
}
function contentsWithin(value, width, size) { // in full, or in short, or nothing
    const short = gathers && !plan.values ? sets[value.set].length + "/" + plan.ranks : "";
    return [contents(value), short].find(text => widthOf(text, size) <= width) ?? "";
}
function describeChunks(chunks) { // "chunks 0–3 (0+1)"
    if (isBarrier) return `a signal (${contents(chunks[0])})`;
    const same = chunks.length === 1 || !plan.values && chunks.every(value => value.set === chunks[0].set);
    return (chunks.length > 1 ? "chunks " : "chunk ") + chunkList(chunks) +
        (same && (gathers || plan.values) ? ` (${contents(chunks[0])})` : "");
}
function describeTaking(message) { // "adds it"
    const step = message.taken, it = message.chunks.length > 1 ? "them" : "it";
    if (step === null) return `never takes ${it}`;
    const passes = step.kind.endsWith("send");
    const verb = isBarrier ? passes ? "passes it on" : "notes it"
        : message.adds ? `adds ${it}` + (passes ? " and sends the sum on" : "")
        : step.buffer < 0 ? `sends ${it} on` : `stores ${it}` + (passes ? ` and sends ${it} on` : "");
    return verb + (step.round > message.round ? " in round " + step.round : "");
}
function describeMessage(message) {
    const {from, to, chunks} = message;
    return `${from} → ${to}: ${describeChunks(chunks)}; ${to} ${describeTaking(message)}`;
}

// -------------------------------------------------------------------------------------------------------- the plan's run

// The contents of the cells of all ranks, and the numbers of those that have changed in this frame.
function cellsAt(at) {
    const cells = allRanks.map(() => Array(plan.cells).fill(null)), fresh = new Set();
    for (let k = isAlltoall && at > 0 ? 1 : 0; k <= at; k++)
        for (let flat = plan.frames[k], i = 0; i < flat.length; i += 4) {
            cells[flat[i]][flat[i + 1]] = {kind: flat[i + 2], set: flat[i + 3]};
            if (k === at && k > 0) fresh.add(flat[i] * plan.cells + flat[i + 1]);
        }
    return {cells, fresh};
}
// The contents of the input, the output and the scratch of a rank.
function buffersAt(rank, at) {
    const own = plan.sets.indexOf((1n << BigInt(rank)).toString(16)), kinds = [plan.inputs[rank], plan.outputs[rank]];
    const buffers = [plan.inputs[rank], plan.outputs[rank], plan.scratch[rank]].map(buffer => buffer.map(() => null));
    // In place, input and output chunks of one kind are one memory; those of an all-to-all are so by their number.
    const twin = (buffer, i) => isAlltoall ? i : kinds[1 - buffer].indexOf(kinds[buffer][i]);
    const store = (buffer, i, value) => {
        buffers[buffer][i] = value;
        if (plan.in_place && buffer < 2 && twin(buffer, i) >= 0) buffers[1 - buffer][twin(buffer, i)] = value;
    };
    kinds[0].forEach((kind, i) => store(0, i, {kind, set: own}));
    for (const step of at > 0 && !isBarrier ? steps : [])
        if (step.rank === rank && step.round <= at && step.buffer >= 0)
            step.chunks.forEach((value, i) => store(step.buffer, step.first + i, value));
    return buffers;
}
const wanted = plan.outputs.map(kinds => countTo(plan.cells, i => isBarrier || isAlltoall || kinds.includes(i)));
function doneOf(cells, rank) { // how many of a rank's results are there, and how many there will be; inputs are no results
    const mine = cells[rank].filter((_, i) => wanted[rank][i]);
    return {done: isAlltoall && frame === 0 ? 0 : mine.filter(isDone).length, all: mine.length};
}

// ---------------------------------------------------------------------------------------------------------- elements

function make(name, attributes = {}, ...children) {
    const isSvg = ["g", "path", "circle", "text", "rect", "title"].includes(name);
    const element = isSvg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes))
        if (key === "hue") element.style.setProperty("--hue", value);
        else element.setAttribute(key, value);
    element.append(...children);
    return element;
}
function hueOf(kind) { // in an all-to-all, of the rank where it comes from
    const few = [255, 55, 155, 350, 100, 300, 205, 25]; // hues that stay apart
    const count = isAlltoall ? plan.ranks : isBarrier ? 1 : plan.cells;
    const colour = isAlltoall ? Math.floor(kind / plan.parts / plan.ranks) : isBarrier ? 0 : kind;
    return count <= few.length ? few[colour] : Math.round(colour * 360 / count);
}
const strokes = sets.map(ranks => { // one for each rank whose contribution is in, or for neighbours if they are many
    const width = 100 / plan.ranks, gap = plan.ranks > 16 ? 0 : width / 12;
    const parts = runs(ranks, (a, b) => gap === 0 && b === a + 1).map(([a, b]) => [a * width + gap, (b + 1) * width - gap])
        .map(([from, to]) => `transparent ${from}%, currentColor ${from}% ${to}%, transparent ${to}%`);
    return `linear-gradient(to right, ${["transparent 0%", ...parts].join(", ")})`;
});
function dress(cell, value, text, ...classes) { // makes an element look like a cell with that value
    const look = value === null ? "nothing" : isDone(value) ? "full" : "part";
    cell.className = ["cell", look, ...classes].join(" ");
    cell.textContent = text;
    cell.style.backgroundImage = look === "part" ? strokes[value.set] : "";
    if (value !== null) cell.style.setProperty("--hue", hueOf(value.kind));
}

// ------------------------------------------------------------------------------------------------- who sends to whom

const MIDDLE = {x: 220, y: 220};
const radius = plan.ranks === 1 ? 0 : plan.hosts ? 160 : 188;
const disc = plan.ranks === 1 ? 24 : Math.min(24, radius * Math.PI / plan.ranks * .48);
const isTiny = disc < 9; // numbers stand beside their discs
const net = $("net"), arrows = make("g"), discs = make("g"), chips = make("g");
const angleOf = place => (place / plan.ranks - (plan.ranks === 2 ? .5 : .25)) * 2 * Math.PI;
const pointAt = (angle, far) => ({x: MIDDLE.x + far * Math.cos(angle), y: MIDDLE.y + far * Math.sin(angle)});
const places = [];
order.forEach((rank, place) => { places[rank] = pointAt(angleOf(place), radius); });
const print = ({x, y}) => x.toFixed(1) + " " + y.toFixed(1);
function towards(from, to, far) {
    const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
    return {x: from.x + (to.x - from.x) / length * far, y: from.y + (to.y - from.y) / length * far};
}

function drawHosts() { // an arc along the ranks of each
    const far = radius + disc + (isTiny ? 22 : 14), margin = Math.PI / plan.ranks * .7;
    if (!plan.hosts) return;
    for (const [first, end] of runs(allRanks, (a, b) => hostOf(order[a]) === hostOf(order[b]))) { // places, not ranks
        const from = angleOf(first) - margin, to = angleOf(end) + margin, host = hostOf(order[first]);
        const arc = `M${print(pointAt(from, far))}A${far} ${far} 0 ${to - from > Math.PI ? 1 : 0} 1 ${print(pointAt(to, far))}`;
        net.append(make("g", {class: "host"}, make("title", {}, "host " + host), make("path", {d: arc}),
            make("text", pointAt((from + to) / 2, far + 13), String(host))));
    }
}
function drawDiscs() {
    for (const rank of allRanks) {
        const place = places[rank], hasRoot = rank === plan.root && disc > 18;
        const outside = towards(MIDDLE, place, radius + disc + 8);
        const spot = isTiny ? {x: outside.x - place.x, y: outside.y - place.y} : {x: 0, y: hasRoot ? -4 : 0};
        const g = make("g", {class: "rank", transform: `translate(${print(place)})`},
            make("title"), make("circle", {class: "disc", r: disc}),
            make("circle", {class: "done", r: disc * .86, "stroke-width": Math.max(2, disc * .15), pathLength: 100,
                transform: "rotate(-90)"}),
            make("text", {...spot, "font-size": isTiny ? 9 : Math.min(16, disc * .8)}, String(rank)));
        if (hasRoot) g.append(make("text", {class: "root", y: 10}, "root"));
        g.addEventListener("click", () => choose(rank === chosen ? NOBODY : rank));
        discs.append(g);
    }
}
function showDiscs(cells) {
    const isPeer = rank => messagesOf[frame].some(({from, to}) => from === chosen && to === rank || from === rank && to === chosen);
    [...discs.children].forEach((g, rank) => {
        const {done, all} = doneOf(cells, rank);
        g.setAttribute("class", "rank" + (rank === chosen ? " chosen" : isPeer(rank) ? " peer" : ""));
        g.querySelector(".done").setAttribute("stroke-dasharray", `${all > 0 ? 100 * done / all : 0} 100`);
        g.querySelector("title").textContent =
            `rank ${rank}${plan.hosts ? ` on host ${hostOf(rank)}` : ""}: ${done} of ${plural(all, "result")} there`;
    });
}
// Messages of a round from one rank to another are a bundle, which is one arrow.
function drawArrows() {
    const bundles = new Map();
    for (const message of messagesOf[frame]) {
        const key = message.from * plan.ranks + message.to;
        bundles.set(key, [...bundles.get(key) ?? [], message]);
    }
    const isMine = ([message]) => chosen === NOBODY || message.from === chosen || message.to === chosen;
    const all = [...bundles.values()], mine = all.filter(isMine), taken = places.map(({x, y}) => ({x, y, half: disc}));
    arrows.replaceChildren();
    chips.replaceChildren();
    for (const bundle of all.filter(bundle => !isMine(bundle))) drawArrow(bundle, " other");
    for (const bundle of mine) {
        const curve = drawArrow(bundle, "");
        if (mine.length <= CHIPS_MAX) drawChip(bundle, curve, taken);
    }
}
function inkOf(bundle) { // the hue of the one chunk that is in it, or grey
    const hues = new Set(bundle.flatMap(message => message.chunks).map(value => hueOf(value.kind)));
    const isOne = hues.size === 1 && !isBarrier, adds = bundle.some(message => message.adds);
    return {class: "arrow" + (adds ? " adds" : "") + (isOne ? " one" : ""), hue: isOne ? [...hues][0] : 0};
}
// An arrow bends to its left, which leaves room for the opposite one. Returns its curve, as a function from 0 to 1.
function drawArrow(bundle, other) {
    const a = places[bundle[0].from], b = places[bundle[0].to], ink = inkOf(bundle);
    const bend = Math.hypot(b.x - a.x, b.y - a.y) < radius ? .3 : .16;
    const turn = {x: (a.x + b.x) / 2 + (b.y - a.y) * bend, y: (a.y + b.y) / 2 - (b.x - a.x) * bend};
    const from = towards(a, turn, disc + 2), tip = towards(b, turn, disc + 3), foot = towards(tip, turn, Math.min(10, disc * .8));
    const side = {x: (tip.y - foot.y) / 2, y: (foot.x - tip.x) / 2};
    const corners = [tip, {x: foot.x + side.x, y: foot.y + side.y}, {x: foot.x - side.x, y: foot.y - side.y}];
    const line = `M${print(from)}Q${print(turn)} ${print(foot)}`;
    const g = make("g", {class: ink.class + other, hue: ink.hue, "data-from": bundle[0].from, "data-to": bundle[0].to},
        make("title", {}, bundle.map(describeMessage).join("\n")),
        make("path", {class: "halo", d: line}), make("path", {class: "line", d: line}),
        make("path", {class: "head", d: `M${corners.map(print).join("L")}z`}), make("circle", {class: "dot", r: Math.min(6, disc / 2)}));
    g.lastChild.style.offsetPath = `path("${line}")`;
    arrows.append(g);
    const along = (t, axis) => (1 - t) ** 2 * from[axis] + 2 * t * (1 - t) * turn[axis] + t * t * foot[axis];
    return t => ({x: along(t, "x"), y: along(t, "y")});
}
// The chip with an arrow's data, where there is room for it beside the discs and the other chips.
function drawChip(bundle, curve, taken) {
    const chunks = bundle.flatMap(message => message.chunks), ink = inkOf(bundle);
    const list = isBarrier ? "" : plan.values && chunks.length === 1 ? contents(chunks[0]) : chunkList(chunks);
    const text = (ink.class.includes("adds") ? "+" : "") + (list.length > 8 ? "×" + chunks.length : list);
    const half = widthOf(text) / 2 + 6, from = curve(0), to = curve(1);
    if (list === "" || Math.hypot(to.x - from.x, to.y - from.y) < 2 * half - 12) return;
    const isFree = ({x, y}) => taken.every(other =>
        Math.abs(x - other.x) > half + other.half || Math.abs(y - other.y) > 10 + Math.min(other.half, disc));
    const place = [.45, .35, .55, .25, .65, .75].map(curve).find(isFree);
    if (!place) return;
    taken.push({...place, half});
    chips.append(make("g", {class: ink.class + " chip", hue: ink.hue, transform: `translate(${print(place)})`},
        make("rect", {x: -half, y: -10, width: 2 * half, height: 20, rx: 10}), make("text", {}, text)));
}

// ----------------------------------------------------------------------------------------------- what each rank holds

const table = $("table"), rows = [];
function buildTable() {
    table.tHead.append(make("tr", {}, make("th", {class: "corner"}, "rank"), ...countTo(plan.cells, () => make("th", {scope: "col"}))));
    order.forEach((rank, place) => {
        const button = make("button", {tabindex: place === 0 ? 0 : -1}, // one stop for Tab; arrows go on from there
            make("span", {class: "unseen"}, "rank "), rank + (rank === plan.root ? " root" : ""));
        button.addEventListener("click", () => choose(rank === chosen ? NOBODY : rank));
        button.addEventListener("keydown", event => moveFrom(place, event));
        const row = make("tr", {}, make("th", {scope: "row"}, button), ...countTo(plan.cells, () => make("td")));
        if (place > 0 && hostOf(rank) !== hostOf(order[place - 1])) row.className = "host";
        table.tBodies[0].append(row);
        rows.push({rank, button, cells: [...row.cells].slice(1), looks: []});
    });
}
function moveFrom(place, event) {
    const to = rows[place + ({ArrowUp: -1, ArrowDown: 1}[event.key] ?? NaN)];
    if (!to) return;
    rows.forEach(row => { row.button.tabIndex = row === to ? 0 : -1; });
    to.button.focus();
    event.preventDefault();
}
function captionOf() {
    const when = frame === 0 ? "at the start: " : `after round ${frame}: `;
    if (isBarrier) return when + "which ranks are known to have entered";
    if (isAlltoall) return when + (frame === 0 ? "the block for each rank" : "the block from each rank");
    return when + "each chunk at its most complete";
}
function headOf(cell) {
    if (isBarrier) return "entered";
    return isAlltoall ? Math.floor(cell / plan.parts) + (plan.parts > 1 ? "." + cell % plan.parts : "") : chunkName(cell);
}
function describeCell(rank, cell, value) {
    const name = isBarrier ? "" : isAlltoall && value ? ", block " + chunkName(value.kind) : ", chunk " + headOf(cell);
    return `rank ${rank}${name}: ` + (value === null ? "nothing yet" : gathers || plan.values ? contents(value) : "there");
}
// Cells get as wide as there is room for, and their texts as long as they are wide.
function showTable({cells, fresh}) {
    const least = plan.cells <= 16 ? 20 : plan.cells <= 64 ? 7 : 5, head = plan.root === null ? 46 : 62;
    const width = Math.max(least, ($("scroll").clientWidth - head) / plan.cells - 2), size = width < 22 ? 9 : 12;
    const tall = plan.ranks > 32 ? 15 : plan.ranks > 16 ? 20 : 28, isSmall = width < 18 || tall < 18;
    table.style.setProperty("--tall", tall + "px");
    table.style.setProperty("--head", head + "px");
    table.style.fontSize = size + "px";
    table.style.minWidth = head + plan.cells * (least + 2) + "px";
    table.caption.textContent = captionOf();
    $("scroll").tabIndex = $("scroll").scrollWidth > $("scroll").clientWidth ? 0 : -1; // arrows scroll it
    const heads = countTo(plan.cells, headOf);
    const stride = [1, 2, 4, 8, 16, 32].find(count => heads.every(name => widthOf(name, size) <= count * (width + 2) - 4)) ?? 64;
    [...table.tHead.rows[0].cells].slice(1).forEach((th, i) => { th.textContent = i % stride === 0 ? heads[i] : ""; });
    for (const {rank, button, cells: row, looks} of rows) {
        button.setAttribute("aria-pressed", rank === chosen);
        row.forEach((td, i) => {
            const value = cells[rank][i], text = value === null || tall < 18 ? "" : contentsWithin(value, width - 3, size);
            const classes = [isSmall ? "small" : "", fresh.has(rank * plan.cells + i) ? "fresh" : "",
                frame === last && value !== null && !wanted[rank][i] ? "unwanted" : ""];
            const look = [value?.kind, value?.set, text, ...classes].join();
            if (look === looks[i]) return;
            looks[i] = look;
            dress(td, value, text, ...classes);
            td.title = describeCell(rank, i, value);
            if (value !== null && text !== contents(value)) td.setAttribute("aria-label", contents(value));
            else td.removeAttribute("aria-label");
        });
    }
}

// ------------------------------------------------------------------------------------------------------------ details

function listOf(lines, count = lines.length) {
    const list = make("ul", {}, ...lines.slice(0, count).map(line => make("li", {}, line)));
    if (lines.length > count) list.append(make("li", {}, `and ${lines.length - count} more; a rank shows its own`));
    return list;
}
function bufferOf(kinds, values, before) {
    return make("div", {class: "buffer"}, ...values.map((value, i) => {
        const cell = make("div"), isNew = value !== null && (value.kind !== before[i]?.kind || value.set !== before[i]?.set);
        dress(cell, value, value === null ? "" : contentsWithin(value, 160), isNew ? "fresh" : "");
        cell.title = value === null ? "nothing yet" : contents(value);
        return make("div", {}, chunkName(kinds[i]), cell);
    }));
}
function showRank(rank) {
    const body = $("detail-body"), add = (title, content) => body.append(make("h3", {}, title), content);
    const host = plan.hosts ? ` on host ${hostOf(rank)}` : "";
    $("detail-head").textContent = `Rank ${rank}${host}` + (frame === 0 ? " at the start" : " in round " + frame);
    const sends = messagesOf[frame].filter(message => message.from === rank);
    const gets = messagesOf[frame].filter(message => message.to === rank);
    const ends = steps.filter(step => step.rank === rank && frame > 0 && Math.max(1, step.round) === frame)
        .sort((a, b) => parseInt(a.text) - parseInt(b.text)); // lane by lane
    if (sends.length > 0) add("sends", listOf(sends.map(m => `${describeChunks(m.chunks)} to ${m.to}, which ${describeTaking(m)}`)));
    if (gets.length > 0) add("receives", listOf(gets.map(m => `${describeChunks(m.chunks)} from ${m.from}, and ${describeTaking(m)}`)));
    if (ends.length > 0) add("steps of its plan that end in this round", listOf(ends.map(step => make("code", {}, step.text))));
    if (isBarrier) return;
    const buffers = buffersAt(rank, frame), before = frame > 0 ? buffersAt(rank, frame - 1) : buffers;
    const names = plan.in_place ? ["input, which the output shares", "output, which the input shares"] : ["input", "output"];
    [plan.inputs, plan.outputs, plan.scratch].forEach((kinds, i) => {
        if (kinds[rank].length > 0) add(names[i] ?? "scratch", bufferOf(kinds[rank], buffers[i], before[i]));
    });
}
function showDetail() {
    $("detail-body").replaceChildren();
    if (chosen !== NOBODY) return showRank(chosen);
    const lines = messagesOf[frame].map(describeMessage);
    $("detail-head").textContent = frame === 0 ? "Messages" : "Messages of round " + frame;
    $("detail-body").append(lines.length > 0 ? listOf(lines, LINES_MAX) : make("p", {}, frame === 0 ? "None yet." : "None."));
}
function describeTraffic(now) {
    const added = now.filter(message => message.adds).length, s = now.length === 1 ? "s" : "";
    const receivers = now.length === 1 ? ", which the receiver" : ", which the receivers";
    if (isBarrier || now.length === 0) return "";
    if (added === 0) return `${receivers} store${s} or send${s} on`;
    return added === now.length ? `${receivers} add${s}` : `; receivers add ${added}, and store or send on ${now.length - added}`;
}
function describeChosen(now) {
    const ends = [...now.filter(m => m.from === chosen).map(m => `sends ${describeChunks(m.chunks)} to ${m.to}`),
        ...now.filter(m => m.to === chosen).map(m => `gets ${describeChunks(m.chunks)} from ${m.from} and ${describeTaking(m)}`)];
    if (ends.length === 0) return ` Rank ${chosen} sends and gets nothing.`;
    return ` Rank ${chosen} ${ends.length <= 6 ? ends.join("; ") : `sends or gets ${ends.length} messages`}.`;
}
function describe(cells) {
    const now = messagesOf[frame], counts = allRanks.map(rank => doneOf(cells, rank));
    const done = counts.reduce((sum, count) => sum + count.done, 0), all = counts.reduce((sum, count) => sum + count.all, 0);
    const what = frame === 0 ? "Start: nothing has moved yet."
        : `Round ${frame} of ${last}: ${plural(now.length, "message")}${describeTraffic(now)}.`;
    return what + ` ${done} of ${plural(all, "result")} ${all === 1 ? "is" : "are"} complete.` + (chosen === NOBODY ? "" : describeChosen(now));
}

// ------------------------------------------------------------------------------------------------------------ playing

function show(travels = false) {
    const state = cellsAt(frame);
    $("status").textContent = describe(state.cells);
    $("where").replaceChildren(...frame === 0 ? ["start"] : [make("span", {}, "round "), `${frame} of ${last}`]);
    $("slider").value = frame;
    $("slider").setAttribute("aria-valuetext", $("where").textContent);
    $("first").disabled = $("back").disabled = frame === 0;
    $("next").disabled = $("last").disabled = frame === last;
    drawArrows();
    showDiscs(state.cells);
    showTable(state);
    showDetail();
    if (travels && !matchMedia("(prefers-reduced-motion: reduce)").matches && state.fresh.size <= FRESH_MAX) travel();
}
function travel() { // messages go from rank to rank, and then what they change appears
    const duration = STEP_MS / 3 / Number($("speed").value);
    for (const dot of arrows.querySelectorAll(".dot"))
        dot.animate([{offsetDistance: "0%", opacity: 1}, {offsetDistance: "100%", opacity: 1}], {duration, easing: "ease-in-out"});
    for (const cell of table.querySelectorAll(".fresh"))
        cell.animate([{opacity: .25}, {opacity: .25, offset: .7}, {opacity: 1}], {duration: duration * 1.4});
}
function go(to, isPlaying = false) {
    if (!isPlaying) pause();
    const from = frame;
    frame = Math.min(last, Math.max(0, to));
    if (frame !== from) show(frame === from + 1);
}
function choose(rank) {
    chosen = rank;
    show();
}
function play() {
    if (timer !== null) return pause();
    $("play").classList.add("playing");
    $("play").setAttribute("aria-label", "pause");
    $("status").setAttribute("aria-live", "off"); // nobody can listen as fast
    if (frame === last) go(0, true);
    const tick = () => {
        go(frame + 1, true);
        timer = setTimeout(frame < last ? tick : pause, STEP_MS / Number($("speed").value));
    };
    timer = setTimeout(tick, 100);
}
function pause() {
    clearTimeout(timer);
    timer = null;
    $("play").classList.remove("playing");
    $("play").setAttribute("aria-label", "play");
    $("status").removeAttribute("aria-live");
}
function press(event) {
    const {target: {tagName}, key} = event;
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (tagName === "SELECT" || tagName === "INPUT" && key !== " " && key !== "Escape") return; // they have uses of their own for keys
    if (tagName === "BUTTON" && key === " " || event.target.id === "scroll" && key.startsWith("Arrow")) return;
    const actions = {ArrowRight: () => go(frame + 1), ArrowLeft: () => go(frame - 1), Home: () => go(0), End: () => go(last),
        " ": play, Escape: () => choose(NOBODY)};
    if (!actions[key]) return;
    event.preventDefault();
    actions[key]();
}
function sayFacts() {
    const say = (before, bold, after, title = "") => $("facts").append(make("li", {title}, before, make("b", {}, String(bold)), after));
    const count = (number, word, title) => say("", number, plural(number, word).slice(String(number).length), title);
    for (const name of [plan.collective, plan.algorithm])
        if (name !== null && !plan.title.includes(name)) say("", name, "");
    if (!plan.title.includes(`${plan.ranks} ranks`)) count(plan.ranks, "rank");
    if (plan.root !== null) say("root ", plan.root, "");
    if (plan.hosts) count(new Set(plan.hosts).size, "host");
    if (!isBarrier) say("", plan.parts, plan.parts === 1 ? " chunk a block" : " chunks a block", "a block is what one rank gives or gets");
    count(plan.rounds, "round", `a lane sends ${plan.ports === 0 ? "any number of messages" : plural(plan.ports, "message")} in a round`);
    count(messages.length, "message");
    if (plan.least > 0) {
        const ratio = plan.busiest / plan.least, blocks = Number(plan.busiest.toPrecision(3));
        say("busiest rank ", plural(blocks, "block"), ratio < 1.0001 ? ", the optimum" : `, ${ratio.toFixed(2)} × the optimum`,
            "the most that one rank sends, or receives; the optimum is the least that any plan can do with");
    }
    if (plan.proof?.proven) say("", "proven", ` (${plan.proof.text})`);
    $("wrong").hidden = plan.proof?.proven ?? true;
    $("wrong").textContent = "This plan is wrong: " + (plan.proof?.text ?? "");
    for (const [name, is] of [["if-adds", plan.reduces], ["if-gathers", gathers], ["if-not", !gathers], ["if-hosts", plan.hosts]])
        for (const element of document.getElementsByClassName(name)) element.hidden = !is;
}

net.append(arrows, discs, chips);
drawHosts();
drawDiscs();
buildTable();
sayFacts();
$("slider").max = last;
$("first").addEventListener("click", () => go(0));
$("back").addEventListener("click", () => go(frame - 1));
$("play").addEventListener("click", play);
$("next").addEventListener("click", () => go(frame + 1));
$("last").addEventListener("click", () => go(last));
$("slider").addEventListener("input", () => go(Number($("slider").value)));
document.addEventListener("keydown", press);
addEventListener("resize", () => showTable(cellsAt(frame)));
show();
