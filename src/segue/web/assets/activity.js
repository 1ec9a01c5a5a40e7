// Tool calls between messages: one collapsible line for each run of tools.

import { el, icon } from "./dom.js";
import { prose } from "./prose.js";

/** Group what a session shows, in its order. Lines with text, messages and moves stay as they are.
 * Each run of tools becomes `{kind: "tools"}`. */
export function activities(ordered) {
  const parts = [];
  let run = null;
  let open = []; // tools without a result yet
  const running = (seq) => {
    if (!run) parts.push((run = { kind: "tools", seq, tools: [] }));
    return run.tools;
  };
  for (const part of ordered) {
    const { kind, item } = part;
    if (kind !== "line") {
      run = null;
      parts.push(part);
    } else if (item.role === "tool") {
      const tool = open.shift();
      if (tool) tool.html = item.html;
      else running(item.seq).push({ name: "", what: "", html: item.html });
    } else {
      open = [];
      if (item.html) {
        run = null;
        parts.push(part);
      }
      for (const { name, what } of item.tools) {
        const tool = { name, what };
        running(item.seq).push(tool);
        open.push(tool);
      }
    }
  }
  return parts;
}

/** An element that shows a run of tools. */
export function activity(tools) {
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
  shown.append(html ? prose(html) : el("p", { class: "faint" }, "No result yet."));
  return shown;
}
