/* report.js - the rest of what the page of a report does: tables sort, a communicator is chosen, and calls in tables lead to the timeline. */

/* ---------------------------------------------------------------------------------------------------- tables */

function sortBy(table, head) {
  const heads = [...head.parentElement.children], column = heads.indexOf(head), body = table.tBodies[0];
  const isText = head.classList.contains("text"), was = head.getAttribute("aria-sort");
  const isDown = was ? was == "ascending" : !isText;
  const value = row => isText ? row.cells[column].textContent : Number(row.cells[column].dataset.value);
  const compare = (a, b) => isText ? a.localeCompare(b) : a - b;
  heads.forEach(other => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
  body.append(...[...body.rows].sort((a, b) => (isDown ? -1 : 1) * compare(value(a), value(b))));
}

for (const table of document.querySelectorAll("table.sortable"))
  for (const head of table.tHead.rows[0].cells)
    head.querySelector("button").addEventListener("click", () => sortBy(table, head));

/* ------------------------------------------------------------------------------------------- communicators */

const all = JSON.parse(document.getElementById("data").textContent), timelines = [];

/* A timeline is made when it is shown first. */
function timelineOf(section) {
  const place = section.querySelector(".timeline"), number = Number(place.dataset.number);
  return timelines[number] ??= new Timeline(place, readData(all[number]));
}

function showSection(id) {
  for (const section of document.querySelectorAll(".comm")) section.hidden = section.id != id;
  timelineOf(document.getElementById(id));
}

const chooser = document.getElementById("chooser");
chooser?.parentElement.removeAttribute("hidden");
chooser?.addEventListener("change", () => showSection(chooser.value));
showSection("comm-0");

/* Numbers of calls in tables lead to them in the timeline. */
document.addEventListener("click", event => {
  const link = event.target.closest("a.call");
  if (!link) return;
  event.preventDefault();
  const timeline = timelineOf(link.closest(".comm")), call = timeline.data.calls.get(Number(link.hash.slice("#call-".length)));
  if (!call) return;
  timeline.select(call.bars.get(call.last) ?? call.bars.values().next().value);
  timeline.place.scrollIntoView({behavior: still.matches ? "auto" : "smooth"});
  timeline.focus(timeline.selected);
});
