// Tool calls between messages: one collapsible line for each run of tools.

import { el, icon } from "./dom.js";
import { prose } from "./prose.js";

/** Group the lines of a transcript. Messages become `{line}`, and each run of tools becomes
 * `{done}`, an element that shows them. */
export function activities(history) {
  const parts = [];
  let run = null;
  const running = () => {
    if (!run) parts.push((run = { tools: [] }));
    return run.tools;
  };
  for (const line of history) {
    if (line.role === "tool") {
      const tool = (run?.tools ?? []).find((tool) => tool.html === undefined);
      if (tool) tool.html = line.html;
      else running().push({ name: "", what: "", html: line.html });
      continue;
    }
    if (line.html) {
      run = null;
      parts.push({ line });
    }
    for (const { name, what } of line.tools ?? []) running().push({ name, what });
  }
  return parts.map((part) => (part.tools ? { done: activity(part.tools) } : part));
}

function activity(tools) {
  const body =
    tools.length === 1 ? [result(tools[0])] : tools.map((tool) => el("details", {}, summary(tool), result(tool)));
  const head = tools.length === 1 ? summary(tools[0]) : summary({ name: named(tools), what: "" });
  return el("details", { class: "activity" }, head, el("div", { class: "activity-body" }, ...body));
}

/** The tool names with their counts: `read_file, run ×2`. */
function named(tools) {
  const counted = new Map();
  for (const { name } of tools) counted.set(name, (counted.get(name) ?? 0) + 1);
  return [...counted].map(([name, n]) => (n === 1 ? name : `${name} ×${n}`)).join(", ");
}

function summary({ name, what }) {
  return el(
    "summary",
    {},
    icon("right"),
    el("code", { class: "tool-name" }, name || "result"),
    what && el("span", { class: "tool-what" }, what),
  );
}

function result({ html, what }) {
  const shown = el("div", { class: "prose result" });
  if (what) shown.append(el("p", { class: "tool-call" }, what));
  shown.append(html ? prose(html) : el("p", { class: "faint" }, "No result was recorded."));
  return shown;
}
