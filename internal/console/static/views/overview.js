// The last hour at a glance.
import { html, useMemo } from '../dom.js';
import { Chart } from '../chart.js';
import { bytes, count, duration, percent, seconds, short } from '../format.js';
import { connect, useLive } from '../live.js';
import { Command, Empty, Facts, Panel } from '../parts.js';
import { Failure, Skeleton } from '../resource.js';
import { Cost, Failing, Happenings, Leases, Origins, Reasons, Slow } from './overview_lists.js';

const hour = 60; // minutes

// minutesOf returns the last 60 minutes without gaps.
function minutesOf(overview) {
  const known = new Map(overview.minutes.map((minute) => [Math.floor(new Date(minute.at).getTime() / 60_000), minute]));
  const last = Math.floor(new Date(overview.at).getTime() / 60_000);
  return Array.from({ length: hour }, (_, i) => ({ time: (last - hour + 1 + i) * 60, ...known.get(last - hour + 1 + i) }));
}

export function Overview({ canChange }) {
  const { overview, state, problem } = useLive();
  if (!overview) return html`<h1>Overview</h1>${problem && html`<${Failure} problem=${problem} retry=${connect} />`}<${Skeleton} rows=${8} slow=${state === 'reconnecting'} />`;
  return html`
    <div class="title"><h1>Overview</h1><p class="quiet">${overview.node} · ${overview.version} · ${overview.store}</p></div>
    ${overview.status !== 'ok' && html`<div class="failure" role="alert"><p><strong>Degraded:</strong> ${overview.problems.join('; ')}.</p></div>`}
    ${overview.hour.requests === 0 && html`<${First} overview=${overview} />`}
    <${Now} overview=${overview} />
    <${Charts} overview=${overview} />
    <div class="panels">
      <${Failing} pages=${overview.failing} />
      <${Reasons} totals=${overview.hour} details=${overview.details} sites=${overview.sites} />
      <${Slow} pages=${overview.slowest} title="Slowest pages" hint="Renders by their mean time. Once a page has been rendered, it is listed here." />
      <${Slow} pages=${overview.most_requested} title="Most requested" requests hint="Pages by their requests. Once a page has been requested, it is listed here." />
      <${Origins} canChange=${canChange} />
      <${Leases} held=${overview.now.leases_held} />
      <${Cost} overview=${overview} />
      <${Happenings} />
    </div>`;
}

// First is for a server that no visitor has reached yet.
function First({ overview }) {
  const site = overview.sites?.[0] ?? 'http://127.0.0.1:8080';
  return html`<${Empty} title="No page has been requested yet.">
    <p>Request one, twice: the first response is rendered (<code>fwd=miss</code>), the second comes from the cache (<code>hit</code>).</p>
    <${Command} line=${`curl -i ${site}/`} />
    <p class="quiet">The figures follow within two seconds.</p>
  <//>`;
}

const classes = [['hit', 'Hits'], ['stale', 'Stale'], ['miss', 'Misses'], ['bypass', 'Bypasses'], ['error', 'Errors']];

// Now is the hour in figures, and the shares of the answers as a bar.
function Now({ overview }) {
  const { hour: totals, minute, now } = overview;
  const share = (name) => percent(totals[name], totals.requests);
  return html`<section class="figures" aria-label="The last hour in figures">
    <div class="figure lead"><span>Served from the cache</span><strong>${totals.requests ? percent(totals.hit + totals.stale, totals.requests) : '–'}</strong></div>
    ${classes.map(([name, title]) => html`<div key=${name} class="figure"><span><i class="swatch ${name}"></i>${title}</span><strong>${count(totals[name])}</strong><small>${share(name)}</small></div>`)}
    <div class="figure"><span>Requests/s</span><strong>${(minute.requests / 60).toFixed(minute.requests < 600 ? 1 : 0)}</strong><small>last minute</small></div>
    <div class="figure"><span>Renders now</span><strong>${count(now.renders_in_flight)}</strong><small>${now.leases_held === 1 ? '1 lease' : `${count(now.leases_held)} leases`} held</small></div>
    <div class="bar" role="img" aria-label=${classes.map(([name, title]) => `${title} ${share(name)}`).join(', ')}>
      ${classes.map(([name]) => totals[name] > 0 && html`<i key=${name} class=${name} style=${{ flexGrow: String(totals[name]) }}></i>`)}
    </div>
    <${Facts} of=${[
      ['Memory', `${bytes(now.memory_bytes)}${now.memory_limit_bytes > 0 ? ` of ${bytes(now.memory_limit_bytes)}` : ''}, ${count(now.memory_entries)} entries`],
      ['Hit latency', totals.hit_ms?.p50 > 0 && `${duration(totals.hit_ms.p50)} (p99 ${duration(totals.hit_ms.p99)})`],
      ['Store', totals.store_calls > 0 && `${count(totals.store_calls)} calls, ${count(totals.store_errors)} errors, p95 ${duration(totals.store_ms?.p95)}`],
      ['Stores down', now.stores_down?.join(', ')],
      ['Log read', now.poll_lag_ms > 0 && `${duration(now.poll_lag_ms)} ago`],
      ['Sent', bytes(totals.bytes)],
      ['Uptime', seconds(Math.floor((new Date(overview.at) - new Date(overview.started_at)) / 1000))],
    ]} />
  </section>`;
}

// Charts are small multiples of the hour: requests by class on scales of their own, render times.
function Charts({ overview }) {
  const { minutes, times } = useMemo(() => {
    const all = minutesOf(overview);
    return { minutes: all, times: all.map(({ time }) => time) };
  }, [overview.minutes, overview.at]);
  const totals = overview.hour;
  const values = (of) => minutes.map((minute) => of(minute) ?? null);
  const requests = classes.map(([name, title]) => html`<${Chart} key=${name} title=${`${title} a minute`} figure=${short(totals[name])} times=${times} format=${short}
    summary=${`${count(totals[name])} in the last hour, at most ${count(Math.max(0, ...values((m) => m[name])))} a minute`}
    series=${[{ label: title, token: `--${name}`, values: values((minute) => minute[name] ?? 0) }]} />`);
  const render = totals.render_ms ?? {};
  return html`<section class="charts" aria-label="The last hour by minute">
    ${requests}
    <${Chart} title="Render time" figure=${totals.renders ? duration(render.p50) : '–'} times=${times} format=${duration}
      summary=${totals.renders ? `median ${duration(render.p50)}, p95 ${duration(render.p95)}, maximum ${duration(render.max)}` : 'no renders in the last hour'}
      series=${[
        { label: 'p50', token: '--hit', values: values((minute) => minute.renders && minute.render_ms?.p50) },
        { label: 'p95', token: '--miss', dash: [4, 3], values: values((minute) => minute.renders && minute.render_ms?.p95) },
      ]} />
  </section>`;
}
