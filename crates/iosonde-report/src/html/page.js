"use strict";
(() => {
const make = (tag, parent, fields) => {
  const made = Object.assign(document.createElement(tag), fields);
  if (parent) parent.append(made);
  return made;
};
const button = (parent, words, act) => {
  const made = make("button", parent, { type: "button", textContent: words });
  made.addEventListener("click", act);
  return made;
};
document.documentElement.classList.add("js");

// One box for all values. It moves into the dialog when that is open, which lies above all else.
const hint = make("div", document.body, { id: "hint", hidden: true });
hint.setAttribute("role", "status");
let lit = null;
let again = null;
const quiet = () => {
  hint.hidden = true;
  again = null;
  if (lit) lit.classList.remove("lit");
  lit = null;
};
const say = (words, x, y) => {
  hint.textContent = words;
  hint.hidden = false;
  const box = hint.getBoundingClientRect();
  const left = x + 16 + box.width > innerWidth ? x - 16 - box.width : x + 16;
  const top = y - 12 - box.height < 4 ? y + 20 : y - 12 - box.height;
  hint.style.left = Math.max(4, Math.min(left, innerWidth - box.width - 4)) + "px";
  hint.style.top = Math.max(4, top) + "px";
};

// What a figure says: each shape that has words, with the places at which it can be met.
const known = new WeakMap();
const words = (shape) => {
  const title = shape.querySelector(":scope > title");
  const d = shape.dataset;
  // The name of a series says nothing of a point.
  if (title && (title.textContent !== d.s || !d.x)) return title.textContent;
  return [d.s, [d.x, d.y].filter(Boolean).join(", ")].filter(Boolean).join(": ");
};
const SMALL = 30;
const shapes = (svg) => {
  if (known.has(svg)) return known.get(svg);
  const all = [];
  for (const shape of svg.querySelectorAll("*")) {
    // The ground of a plot has only the scales of its axes.
    if (!shape.getBBox || shape.dataset.field) continue;
    const text = words(shape);
    if (!text || shape === svg) continue;
    const box = shape.getBBox();
    const exact = "x" in shape.dataset || Math.max(box.width, box.height) < SMALL;
    const point = exact || shape.localName === "rect";
    const found = { shape, words: text, box, exact, point, area: false, line: [] };
    if (!point && shape.getTotalLength) {
      const length = shape.getTotalLength();
      const steps = Math.min(400, Math.ceil(length / 5));
      for (let i = 0; i <= steps; i++) found.line.push(shape.getPointAtLength(length * i / steps));
      found.area = shape.getAttribute("fill") !== "none";
    }
    all.push(found);
  }
  known.set(svg, all);
  return all;
};
const outside = (value, from, size) => Math.max(from - value, 0, value - from - size);
const distance = (found, at) => {
  const b = found.box;
  const toBox = Math.hypot(outside(at.x, b.x, b.width), outside(at.y, b.y, b.height));
  // A curve comes after its points, and an area after what lies in it.
  if (found.point) return toBox + (found.exact ? 0 : 20);
  if (found.area && found.shape.isPointInFill(at)) return 24;
  if (!found.line.length) return toBox + 24;
  const least = Math.min(...found.line.map((p) => Math.hypot(p.x - at.x, p.y - at.y)));
  return least + (found.area ? 24 : 12);
};
const REACH = 40;
const tell = (found, svg, x, y, words = found.words) => {
  if (lit !== found.shape) quiet();
  lit = found.shape;
  if (found.point) lit.classList.add("lit");
  (svg.closest("dialog") || document.body).append(hint);
  say(words, x, y);
};
const follow = (event) => {
  const svg = event.currentTarget.querySelector("svg");
  const matrix = svg && svg.getScreenCTM();
  if (!matrix) return;
  const at = svg.createSVGPoint();
  at.x = event.clientX;
  at.y = event.clientY;
  const place = at.matrixTransform(matrix.inverse());
  const near = shapes(svg).map((found) => ({ found, far: distance(found, place) }));
  near.sort((a, b) => a.far - b.far);
  const [best] = near;
  if (!best || best.far > REACH / Math.min(1, matrix.a)) return quiet();
  // Points that lie upon each other are all described.
  const exact = best.found.exact ? near.filter((each) => each.found.exact) : [];
  const same = exact.filter((each) => each.far < best.far + 1);
  const all = [best, ...same].map((each) => each.found.words);
  tell(best.found, svg, event.clientX, event.clientY, [...new Set(all)].join("\n"));
};
// The same by keys: from one value to the next.
const step = (plot, by) => {
  const svg = plot.querySelector("svg");
  const points = shapes(svg).filter((found) => found.point);
  if (!points.length) return;
  const last = points.length - 1;
  const now = Number(plot.dataset.at ?? -1);
  const next = by === "first" ? 0 : by === "last" ? last : Math.max(0, Math.min(last, now + by));
  plot.dataset.at = next;
  const show = () => {
    const box = points[next].shape.getBoundingClientRect();
    tell(points[next], svg, box.x + box.width / 2, box.y);
    again = show;
  };
  show();
  points[next].shape.scrollIntoView({ block: "nearest", inline: "nearest" });
};
const STEPS = { ArrowRight: 1, ArrowLeft: -1, Home: "first", End: "last" };

// A figure at the size of the window.
const dialog = make("dialog", document.body, { id: "zoom" });
const tools = make("div", dialog, { className: "tools" });
const stage = make("div", dialog, { className: "stage", tabIndex: 0 });
let home = null;
let whole = null;
let view = null;
const svgOn = () => stage.querySelector("svg");
const look = (next) => {
  const [x, y, w, h] = whole;
  const width = Math.min(w, Math.max(w / 40, next[2]));
  const height = width * h / w;
  view = [
    Math.max(x, Math.min(next[0], x + w - width)),
    Math.max(y, Math.min(next[1], y + h - height)), width, height];
  svgOn().setAttribute("viewBox", view.join(" "));
};
const zoom = (by, clientX, clientY) => {
  const box = stage.getBoundingClientRect();
  const matrix = svgOn().getScreenCTM();
  const middle = clientX === undefined;
  const x = ((middle ? box.x + box.width / 2 : clientX) - matrix.e) / matrix.a;
  const y = ((middle ? box.y + box.height / 2 : clientY) - matrix.f) / matrix.d;
  const width = Math.min(whole[2], view[2] / by);
  const share = width / view[2];
  look([x - (x - view[0]) * share, y - (y - view[1]) * share, width]);
};
const move = (x, y) => look([view[0] + x, view[1] + y, view[2]]);
const open = (plot) => {
  const svg = plot.querySelector("svg");
  if (!svg) return;
  quiet();
  home = plot;
  whole = svg.getAttribute("viewBox").split(" ").map(Number);
  plot.style.height = plot.offsetHeight + "px";
  dialog.setAttribute("aria-label", svg.getAttribute("aria-label"));
  stage.append(svg);
  dialog.showModal();
  look(whole);
  stage.focus();
};
dialog.addEventListener("close", () => {
  quiet();
  document.body.append(hint);
  look(whole);
  home.append(svgOn());
  home.style.height = "";
  home.focus();
});
button(tools, "+", () => zoom(1.5)).ariaLabel = "Larger";
button(tools, "−", () => zoom(1 / 1.5)).ariaLabel = "Smaller";
button(tools, "Whole", () => look(whole));
make("span", tools, { textContent: "Wheel, pinch or + and − enlarge, arrows or a drag move." });
button(tools, "Close", () => dialog.close());
stage.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.002)), event.clientX, event.clientY);
}, { passive: false });
const fingers = new Map();
const spread = () => {
  const [a, b] = [...fingers.values()];
  return Math.hypot(a.x - b.x, a.y - b.y) || 1;
};
stage.addEventListener("pointerdown", (event) => {
  fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  stage.setPointerCapture(event.pointerId);
});
for (const name of ["pointerup", "pointercancel"]) {
  stage.addEventListener(name, (event) => fingers.delete(event.pointerId));
}
stage.addEventListener("pointermove", (event) => {
  const finger = fingers.get(event.pointerId);
  if (!finger) return follow(event);
  const before = fingers.size === 2 ? spread() : 0;
  const scale = svgOn().getScreenCTM().a;
  if (!before) move((finger.x - event.clientX) / scale, (finger.y - event.clientY) / scale);
  fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  if (before) zoom(spread() / before, event.clientX, event.clientY);
});
stage.addEventListener("pointerleave", quiet);
stage.addEventListener("keydown", (event) => {
  const far = view[2] / 10;
  const act = {
    "+": () => zoom(1.5), "=": () => zoom(1.5), "-": () => zoom(1 / 1.5), 0: () => look(whole),
    ArrowLeft: () => move(-far, 0), ArrowRight: () => move(far, 0),
    ArrowUp: () => move(0, -far), ArrowDown: () => move(0, far),
  }[event.key];
  if (act && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    act();
  }
});

const save = (name, type, text) => {
  const link = make("a", document.body, { download: name });
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};
for (const plot of document.querySelectorAll(".picture")) {
  plot.ariaLabel += ". Arrow keys tell its values, Enter enlarges it.";
  plot.addEventListener("pointermove", follow);
  plot.addEventListener("pointerdown", follow);
  plot.addEventListener("pointerleave", quiet);
  plot.addEventListener("blur", quiet);
  plot.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter") open(plot);
    else if (event.key === "Escape") quiet();
    else if (event.key in STEPS) step(plot, STEPS[event.key]);
    else return;
    event.preventDefault();
  });
  const figure = plot.closest("figure");
  const svg = plot.querySelector("svg");
  const caption = figure.querySelector("figcaption");
  button(caption, "Enlarge", () => open(plot));
  button(caption, "Save as SVG", () => {
    quiet();
    save(figure.dataset.name + ".svg", "image/svg+xml", svg.outerHTML);
  });
}

// More to say of an entry of a table.
for (const more of document.querySelectorAll(".more")) {
  const text = more.title;
  more.removeAttribute("title");
  const show = () => {
    const box = more.getBoundingClientRect();
    quiet();
    document.body.append(hint);
    say(text, box.x, box.y);
    if (document.activeElement === more) again = show;
  };
  for (const name of ["pointerenter", "focus"]) more.addEventListener(name, show);
  for (const name of ["pointerleave", "blur"]) more.addEventListener(name, quiet);
}
// What keys have chosen goes along with the page; what the pointer met is somewhere else now.
addEventListener("scroll", () => (again || quiet)(), { passive: true, capture: true });
addEventListener("keydown", (event) => { if (event.key === "Escape") quiet(); });

// Order by a column: numbers with their units, then what is none, each as it stood.
const UNITS = { ns: 1e-9, "µs": 1e-6, us: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600 };
const number = (text) => {
  const found = /^[\s~≈<>≤≥±]*([+\-−]?[\d,]*\.?\d+(?:e[+-]?\d+)?)\s*([^\s\d]*)/i.exec(text);
  if (!found) return NaN;
  const value = Number(found[1].replaceAll(",", "").replace("−", "-"));
  const [unit, prefix] = [found[2], /^([kKMGTP])(i?)/.exec(found[2])];
  if (unit in UNITS) return value * UNITS[unit];
  if (!prefix) return value;
  const power = "kmgtp".indexOf(prefix[1].toLowerCase()) + 1;
  return value * (prefix[2] ? 1024 : 1000) ** power;
};
const order = (table, column, isNumber, up) => {
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => {
    const text = row.cells[column].textContent.trim();
    return { row, text, value: number(text) };
  });
  rows.sort((a, b) => {
    if (!isNumber) return (up ? 1 : -1) * a.text.localeCompare(b.text, "en", { numeric: true });
    if (isNaN(a.value) || isNaN(b.value)) return isNaN(a.value) - isNaN(b.value);
    return (up ? 1 : -1) * (a.value - b.value);
  });
  body.append(...rows.map((each) => each.row));
};
for (const table of document.querySelectorAll(".table table")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const title = head.textContent;
    head.textContent = "";
    button(head, title, () => {
      const up = head.ariaSort !== "ascending";
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      order(table, column, head.classList.contains("number"), up);
    });
  });
}

// The numbers of the page as files.
const sets = document.getElementById("sets");
const source = document.getElementById("story").textContent;
const RISKY = /[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
const cell = (value) => {
  if (typeof value !== "string") return value === null ? "" : String(value);
  const text = value.replace(RISKY, "");
  const harmless = /^[=+\-@]/.test(text) ? "'" + text : text;
  return /[",]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
};
const line = (cells) => cells.map(cell).join(",") + "\n";
if (sets) {
  const { data } = JSON.parse(source);
  [...sets.children].forEach((item, at) => {
    const set = data[at];
    const name = set.name.replace(/[^\w-]/g, "_") + ".csv";
    item.append(" ");
    button(item, "Save " + name, () => {
      save(name, "text/csv", line(set.columns) + set.rows.map(line).join(""));
    });
  });
  const all = make("p", null);
  sets.after(all);
  button(all, "Save everything as JSON", () => save("report.json", "application/json", source));
}
})();
