"use strict";
// The script of every page. It shows times in the reader's time zone, draws plots, updates the page through server-sent
// events, and asks before it sends a command. Without it a page shows everything except the plots.
(() => {
  const all = (selector, inside = document) => Array.from(inside.querySelectorAll(selector));

  // --- times in the reader's time zone -------------------------------------------------------------------------------

  const moment = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

  function age(seconds) {
    const steps = [[86400, "d"], [3600, "h"], [60, "min"]];
    for (const [size, unit] of steps) if (seconds >= size) return `${Math.floor(seconds / size)} ${unit} ago`;
    return `${Math.max(0, Math.floor(seconds))} s ago`;
  }

  function showTimes(inside) {
    for (const each of all("time[data-when]", inside)) {
      const at = new Date(each.dateTime);
      each.textContent = moment.format(at);
      each.title = at.toISOString();
    }
    showAges(inside);
  }

  function showAges(inside) {
    const now = Date.now();
    for (const each of all("time[data-ago]", inside)) {
      const text = age((now - Date.parse(each.dateTime)) / 1000);
      if (each.textContent === text) continue;
      each.textContent = text;
      each.title = moment.format(new Date(each.dateTime));
    }
  }

  // --- commands, each with a question --------------------------------------------------------------------------------

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-opens], [data-closes]");
    if (!button) return;
    if (button.dataset.opens) document.getElementById(button.dataset.opens).showModal();
    else button.closest("dialog").close();
  });

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.dataset.address) return;
    event.preventDefault();
    const dialog = form.closest("dialog"), problem = form.querySelector(".problem"), yes = form.querySelector("[value=yes]");
    problem.hidden = yes.disabled = true;
    yes.disabled = true;
    try {
      const answer = await send(form);
      dialog.close();
      if (form.dataset.then === "run") location.assign(`/runs/${answer.run_id}`);
      else if (form.dataset.then === "reload") location.reload();
      else if (form.dataset.then === "asked") document.getElementById("asked").textContent = `Sent: ${yes.textContent}. The control loop reads the command with its next observation, and shows it under Why.`;
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    } finally {
      yes.disabled = false;
    }
  });

  async function send(form) {
    const body = form.dataset.body ? JSON.parse(form.dataset.body) : {};
    for (const field of all("input[name]", form)) {
      const operator = field.name.startsWith("k.") ? field.name.slice(2) : null;
      if (operator === null) body[field.name] = field.value;
      else (body.parallelism ??= {})[operator] = Number(field.value);
    }
    const hasBody = Object.keys(body).length > 0;
    const response = await fetch(form.dataset.address, {
      method: form.dataset.method,
      headers: hasBody ? { "Content-Type": "application/json" } : {},
      body: hasBody ? JSON.stringify(body) : undefined,
    }).catch(() => { throw new Error("The server does not answer. Try again."); });
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) throw new Error(answer.detail || `The server answered ${response.status}.`);
    return answer;
  }

  // --- plots --------------------------------------------------------------------------------------------------------

  const drawn = new Map(); // the figure element → its plot
  const unseen = new IntersectionObserver(onSeen, { rootMargin: "200px" });
  const narrow = matchMedia("(max-width: 760px)"), dark = matchMedia("(prefers-color-scheme: dark)");
  let upto = 0; // number of the last observation in the plots
  let plotly = null;

  function loadPlotly() {
    plotly ??= new Promise((resolve, reject) => {
      const script = document.createElement("script"), own = document.getElementById("script").dataset;
      for (const id of own.styles.split(" ")) { // Plotly adds no style if there is an element with its id
        const placeholder = document.createElement("meta");
        placeholder.id = id;
        document.head.append(placeholder);
      }
      script.src = own.plotly;
      script.onload = () => resolve(window.Plotly);
      script.onerror = () => reject(new Error("The plot library did not load. Reload the page."));
      document.head.append(script);
    });
    return plotly;
  }

  function loadPlots() {
    const containers = all("[data-plots]");
    for (const address of new Set(containers.map((each) => each.dataset.plots))) {
      fetch(address)
        .then(async (response) => {
          if (!response.ok) throw new Error(`The plots did not load: the server answered ${response.status}.`);
          return response.json();
        })
        .then((answer) => {
          upto = answer.upto;
          for (const plot of answer.plots) place(plot);
          for (const figure of all("figure[aria-busy=true]")) if (!drawn.has(figure)) showText(figure, "No data yet.");
        })
        .catch((error) => {
          for (const figure of all("figure")) if (!drawn.has(figure)) showText(figure, error.message);
        });
    }
  }

  function place(plot) {
    const figure = document.getElementById(`plot-${plot.name}`);
    if (!figure) return;
    figure.querySelector("h3").textContent = plot.title;
    if (plot.missing) {
      if (drawn.delete(figure) && window.Plotly) window.Plotly.purge(figure.querySelector(".plot"));
      showText(figure, plot.missing);
      return;
    }
    figure.querySelector("figcaption").textContent = plot.caption;
    figure.querySelector(".plot").setAttribute("aria-label", `${plot.title}. ${plot.caption}`);
    if (plot.layout.xaxis.type === "date") for (const trace of plot.data) trace.x = trace.x.map(local);
    const before = drawn.get(figure);
    drawn.set(figure, plot);
    plot.shown = Boolean(before && before.shown);
    if (plot.shown) show(figure, plot);
    else unseen.observe(figure);
  }

  function showText(figure, text) {
    figure.removeAttribute("aria-busy");
    const line = document.createElement("p");
    line.className = "quiet";
    line.textContent = text;
    figure.querySelector(".plot").replaceChildren(line);
  }

  function onSeen(entries) {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      unseen.unobserve(target);
      show(target, drawn.get(target));
    }
  }

  function show(figure, plot) {
    loadPlotly().then((library) => {
      if (drawn.get(figure) !== plot) return;
      const place = figure.querySelector(".plot");
      if (!plot.shown) place.replaceChildren();
      plot.shown = true;
      library.react(place, plot.data.map(coloured), layout(plot), { displayModeBar: false, responsive: true });
      figure.removeAttribute("aria-busy");
    }).catch((error) => showText(figure, error.message));
  }

  // Plotly shows times without a zone, so they are shifted to the reader's zone.
  function local(milliseconds) {
    return milliseconds === null ? null : milliseconds - new Date(milliseconds).getTimezoneOffset() * 60000;
  }

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  }

  function coloured(trace) {
    const { role, band } = trace.meta, own = colour(role === "level" ? "quiet" : role);
    if (band) return { ...trace, fillcolor: own };
    if (trace.type === "bar") return { ...trace, marker: { ...trace.marker, color: own } };
    const painted = { ...trace };
    if (trace.line) painted.line = { ...trace.line, color: own };
    if (trace.marker) painted.marker = { ...trace.marker, color: own };
    if (trace.error_y) painted.error_y = { ...trace.error_y, color: own };
    return painted;
  }

  function layout(plot) {
    const axis = { gridcolor: colour("grid"), linecolor: colour("line"), zerolinecolor: colour("line"), automargin: true };
    const quiet = colour("quiet");
    return {
      ...plot.layout,
      xaxis: { ...axis, ...plot.layout.xaxis, title: { ...plot.layout.xaxis.title, standoff: 8 } },
      yaxis: { ...axis, ...plot.layout.yaxis, title: { ...plot.layout.yaxis.title, standoff: 8 } },
      shapes: plot.layout.shapes.map((each) => ({ ...each, line: { ...each.line, color: quiet } })),
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: quiet },
      hoverlabel: { bgcolor: colour("raised"), bordercolor: colour("line"), font: { color: colour("text") } },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
      margin: { l: 8, r: 8, t: plot.layout.showlegend ? 30 : 12, b: 8 },
      dragmode: narrow.matches ? false : "zoom", height: 270, uirevision: plot.name,
    };
  }

  // Append new observations. If observations are missing in between, all plots are loaded again.
  function extend(added) {
    if (added.upto <= upto) return;
    if (added.after !== upto) return loadPlots();
    upto = added.upto;
    for (const [figure, plot] of drawn) {
      const extension = added.plots[plot.name];
      if (!extension) continue;
      figure.querySelector("figcaption").textContent = extension.caption;
      extension.traces.forEach((trace, i) => {
        const x = plot.layout.xaxis.type === "date" ? trace.x.map(local) : trace.x;
        const known = plot.data[i];
        known.x = known.x.concat(x).slice(-MAX_VALUES);
        known.y = known.y.concat(trace.y).slice(-MAX_VALUES);
        if (known.text) known.text = known.text.concat(trace.text).slice(-MAX_VALUES);
      });
      if (plot.shown) show(figure, plot);
    }
  }
  const MAX_VALUES = 800; // of a series

  function recolour() {
    for (const [figure, plot] of drawn) if (plot.shown) show(figure, plot);
  }

  // --- live updates --------------------------------------------------------------------------------------------------

  const indicator = document.getElementById("live");
  let source = null, since = null;

  function follow() {
    if (!document.body.dataset.live || source) return;
    const address = new URL(document.body.dataset.live, location.href);
    if (since) address.searchParams.set("since", since);
    source = new EventSource(address);
    source.onopen = () => showConnection("live", "live");
    source.onerror = () => {
      showConnection("lost", "offline, retrying");
      if (source.readyState === EventSource.CLOSED) { // after a refusal the browser does not try again
        source = null;
        setTimeout(follow, 5000);
      }
    };
    source.addEventListener("update", (event) => {
      since = event.lastEventId;
      const { regions, plots } = JSON.parse(event.data);
      for (const [name, html] of Object.entries(regions)) replaceRegion(name, html);
      if (plots && plots.reload) loadPlots();
      else if (plots) extend(plots);
    });
  }

  function showConnection(state, text) {
    if (indicator.dataset.state === state) return;
    indicator.dataset.state = state;
    indicator.textContent = text;
  }

  // A region that the reader uses at the moment is replaced afterwards.
  const postponed = new Map();

  function replaceRegion(name, html) {
    const region = document.getElementById(name);
    if (!region) return;
    if (region.contains(document.activeElement) || region.querySelector("dialog[open]")) {
      postponed.set(name, html);
      return;
    }
    postponed.delete(name);
    region.innerHTML = html;
    showTimes(region);
  }

  document.addEventListener("focusout", () => setTimeout(() => { for (const [name, html] of postponed) replaceRegion(name, html); }, 0));
  // A hidden page closes its connection, because a browser opens at most six per server.
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) follow();
    else if (source) { source.close(); source = null; showConnection("none", ""); }
  });

  showTimes(document);
  setInterval(() => showAges(document), 1000);
  dark.addEventListener("change", recolour);
  narrow.addEventListener("change", recolour);
  loadPlots();
  if (!document.hidden) follow();
})();
