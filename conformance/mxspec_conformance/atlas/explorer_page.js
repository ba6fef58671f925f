/* The explorer's page: what is typed, through the arithmetic above, to what is seen. All text goes into the page as text. */
(function () {
'use strict';
if (typeof document === 'undefined' || !document.getElementById('explorer')) return;
const m = globalThis.mxspec;
const $ = (id) => document.getElementById(id);
const verdicts = JSON.parse($('explorer-verdicts').textContent);

function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === 'function') element.addEventListener(name, value);
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(9).filter((c) => c !== null && c !== undefined && c !== false && c !== ''));
  return element;
}
const put = (id, ...children) => $(id).replaceChildren(...children.flat(9).filter((c) => c !== null && c !== undefined && c !== ''));

/* Numbers: decimals, fractions, hex floats and bits, each rounded once to float32. */
const size = (n) => n.toString(2).length;
function ratioToBits(negative, num, den) { /* BigInt num / den to nearest even */
  const sign = negative ? 0x80000000 : 0;
  if (num === 0n) return [sign >>> 0, true];
  let e = size(num) - size(den); /* floor(log2), or one above */
  if (e >= 0 ? num < den << BigInt(e) : num << BigInt(-e) < den) e -= 1;
  if (e > 128) return [(sign | 0x7f800000) >>> 0, false];
  if (e < -160) return [sign >>> 0, false];
  const step = Math.max(e, -126) - 23;
  const [a, b] = step >= 0 ? [num, den << BigInt(step)] : [num << BigInt(-step), den];
  let n = a / b;
  const rest = a % b;
  if (rest * 2n > b || (rest * 2n === b && n % 2n === 1n)) n += 1n;
  const bits = Number(n) + (Math.max(e, -126) + 126) * 0x800000;
  return [(sign | Math.min(bits, 0x7f800000)) >>> 0, rest === 0n && bits < 0x7f800000];
}
const DECIMAL = /^(\d*)(?:\.(\d*))?(?:e([+-]?\d+))?$/i;
function decimalRatio(text) {
  const found = DECIMAL.exec(text);
  if (!found || !(found[1] || found[2])) return null;
  const digits = found[1] + (found[2] ?? '');
  const e = Number(found[3] ?? 0) - (found[2] ?? '').length;
  if (digits.length > 2000 || Math.abs(e) > 2000) return null;
  return e >= 0 ? [BigInt(digits) * 10n ** BigInt(e), 1n] : [BigInt(digits), 10n ** BigInt(-e)];
}
/* [bits, whether nothing was rounded] of one number, or null. */
function readNumber(token) {
  const negative = token.startsWith('-');
  const text = token.replace(/^[+-]/, '').replace(/(?<=[\d.])f$/i, (f) => (/^0x/i.test(token.replace(/^[+-]/, '')) ? f : ''));
  const sign = negative ? 0x80000000 : 0;
  if (/^inf(inity)?$/i.test(text)) return [(sign | 0x7f800000) >>> 0, true];
  if (/^nan$/i.test(text)) return [(sign | 0x7fc00000) >>> 0, true];
  if (/^0x[0-9a-f]{8}$/i.test(text) && !/^[+-]/.test(token)) return [parseInt(text, 16) >>> 0, true];
  if (/^0x[0-9a-f]{4}$/i.test(text) && !/^[+-]/.test(token)) return [(parseInt(text, 16) << 16) >>> 0, true];
  const hexFloat = /^0x([0-9a-f]*)(?:\.([0-9a-f]*))?p([+-]?\d{1,4})$/i.exec(text);
  if (hexFloat && (hexFloat[1] || hexFloat[2])) {
    const e = Number(hexFloat[3]) - 4 * (hexFloat[2] ?? '').length;
    const digits = BigInt(`0x${hexFloat[1]}${hexFloat[2] ?? ''}`);
    return e >= 0 ? ratioToBits(negative, digits << BigInt(e), 1n) : ratioToBits(negative, digits, 1n << BigInt(-e));
  }
  const [over, under, more] = text.split('/');
  const [a, b] = [decimalRatio(over), under === undefined ? [1n, 1n] : decimalRatio(under)];
  if (!a || !b || more !== undefined || b[0] === 0n) return null;
  return ratioToBits(negative, a[0] * b[1], a[1] * b[0]);
}
function readNumbers(text) {
  const bits = [];
  const wrong = [];
  let rounded = 0;
  for (const token of text.split(/[\s,;|[\](){}]+/).filter(Boolean).slice(0, 4096)) {
    const found = readNumber(token.replace(/\u2212/g, '-'));
    if (!found) wrong.push(token);
    else {
      bits.push(found[0]);
      rounded += found[1] ? 0 : 1;
    }
  }
  return { bits, wrong, rounded };
}

/* Numbers as text: the shortest decimal that is this float32, else of this double. */
function show(v) {
  if (Number.isNaN(v)) return 'NaN';
  if (!Number.isFinite(v)) return v < 0 ? '\u2212\u221e' : '\u221e';
  if (Object.is(v, -0)) return '\u22120';
  let text = String(v);
  if (Math.fround(v) === v) {
    for (let digits = 1; digits <= 9; digits++) {
      const shorter = String(Number(v.toPrecision(digits)));
      if (Math.fround(Number(shorter)) === v) { text = shorter; break; }
    }
  }
  return text.replace('e+', 'e').replaceAll('-', '\u2212');
}
const brief = (v) => (Number.isFinite(v) && v !== 0 ? String(Number(v.toPrecision(4))).replace('e+', 'e').replaceAll('-', '\u2212') : show(v));
function hexFloat(v) {
  if (!Number.isFinite(v) || v === 0) return show(v);
  const bits = m.bitsOfFloat(v);
  const field = (bits >>> 23) & 255;
  const digits = ((bits & 0x7fffff) * 2).toString(16).padStart(6, '0').replace(/0+$/, '');
  return `${bits >>> 31 ? '-' : ''}0x${field ? 1 : 0}${digits ? `.${digits}` : ''}p${field ? field - 127 : -126}`;
}
const float32Fields = (bits) => {
  const text = bits.toString(2).padStart(32, '0');
  return [['sign', text.slice(0, 1)], ['exponent', text.slice(1, 9)], ['mantissa', text.slice(9)]];
};
/* Fields as coloured bits; other: bits of another code, to mark those that differ. */
function bitsOf(fields, other) {
  const text = fields.map(([, b]) => b).join('');
  let at = 0;
  return h('span', { class: 'bits' }, fields.map(([name, bits]) => h('span', { class: `field ${name}`, title: name }, [...bits].map((b) => {
    const differs = other !== undefined && other !== null && other.length === text.length && other[at] !== b;
    at += 1;
    return h('span', differs ? { class: 'differs' } : null, b);
  }))));
}

/* State: what a link holds. */
const DEFAULTS = { f: 'mxfp4', p: '', q: '', x: '', t: 'auto', v: '', s: '', u: '', n: '0', b: '0' };
const EXAMPLES = [
  ['a tie', '2.5 5 -0.25 0.75 1.25 1.75 3.5 6'],
  ['just below a power of two', '0x3FFFFFFF 0x1.fffffep+0 1.9999998 1.75 0.1 -0.3'],
  ['tiny', '0x00000001 1e-40 -0x1p-126 3e-39 1e-38 0'],
  ['NaN and Inf', '1 -2 nan inf 0.5'],
  ['a third', '1/3 -2/3 4/3 5/7 -22/7 0.1'],
];
let state = { ...DEFAULTS };
let showsAll = false; /* lanes that were not typed */
const sides = [['p', 's'], ['q', 'u']];
const rowFor = (profile) => m.find(profile, state.f, true) ?? m.find(profile, state.f, false);
function readHash() {
  const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  state = { ...DEFAULTS };
  for (const key of Object.keys(DEFAULTS)) if (given[key] !== undefined) state[key] = given[key];
  if (!location.hash) state.x = EXAMPLES[0][1];
  repair();
}
function repair() { /* what is no choice becomes the default */
  if (!Object.hasOwn(m.FORMATS, state.f)) state.f = DEFAULTS.f;
  if (!rowFor(state.p)) state.p = state.f === 'nvfp4' ? 'nvfp4-te' : 'mx-floor';
  if (!rowFor(state.q)) state.q = '';
  if (!['auto', 'amax', 'native', 'none'].includes(state.t)) state.t = 'auto';
  for (const [, key] of sides) if (state[key] !== '' && !/^[0-9a-f]{1,2}$/i.test(state[key])) state[key] = '';
  for (const key of ['n', 'b']) if (!/^\d+$/.test(state[key])) state[key] = '0';
}
function link() {
  const kept = Object.entries(state).filter(([key, value]) => value !== DEFAULTS[key] || key === 'x' || key === 'p');
  return `#${new URLSearchParams(kept)}`;
}
function change(changes) {
  Object.assign(state, changes);
  repair();
  history.replaceState(null, '', link());
  render();
}

/* The tensor scale of one side: its form, native bits and words. */
function tensorOf(profile, all) {
  const two = m.find(profile, state.f, true);
  const one = m.find(profile, state.f, false);
  if (!two || (state.t === 'none' && one)) return { row: one ?? two, bits: undefined, words: one && two ? 'no tensor scale' : '' };
  const typed = readNumbers(state.v).bits[0];
  const leaf = two.tensor.leaf;
  const about = { S: 'encode scale S', g: 'decode scale g', tmax: 'largest magnitude' }[leaf];
  if (state.t === 'native' && typed !== undefined) return { row: two, bits: typed, words: `${about} as typed` };
  const amax = state.t === 'amax' && typed !== undefined ? m.floatOfBits(typed) : m.findAmax(all.map(m.floatOfBits), two.tensor.amax_nan ?? 'propagate');
  return { row: two, bits: m.tensorScale(two, amax), words: leaf === 'tmax' ? `${about} of the tensor` : `${about} of a tensor whose largest magnitude is ${show(amax)}` };
}

function compute(profile, key, block, all) {
  const { row, bits, words } = tensorOf(profile, all);
  const scale = m.SCALARS[m.FORMATS[state.f].scale];
  try {
    const own = m.quantize(row, block, bits);
    const given = state[key] === '' ? undefined : Math.min(parseInt(state[key], 16), scale.values.length - 1);
    const made = given === undefined ? own : m.quantize(row, block, bits, given);
    const outputs = made.codes.map((c) => m.dequantize(row, c, made.scale, made.leaves));
    const errors = outputs.map((y, i) => y - m.floatOfBits(block[i]));
    return { profile, row, tensor: bits, words, own, made, outputs, errors, given };
  } catch (error) {
    if (error instanceof m.Refused) return { profile, row, refused: error.message };
    throw error;
  }
}

/* What stands still, so that a slider that is dragged stays the same element. */
const panels = sides.map(([profileKey, scaleKey], i) => {
  const slider = h('input', { type: 'range', min: 0, step: 1, 'aria-label': `scale byte of profile ${'AB'[i]}`, input: () => change({ [scaleKey]: Number(slider.value).toString(16) }) });
  const step = (by) => () => change({ [scaleKey]: Math.max(0, Math.min(Number(slider.max), Number(slider.value) + by)).toString(16) });
  const down = h('button', { type: 'button', click: step(-1), 'aria-label': `scale byte of ${'AB'[i]} down by one` }, '\u2212');
  const up = h('button', { type: 'button', click: step(1), 'aria-label': `scale byte of ${'AB'[i]} up by one` }, '+');
  const back = h('button', { type: 'button', click: () => change({ [scaleKey]: '' }) }, 'as the profile has it');
  const [head, above, below] = [h('div'), h('div'), h('div')];
  const root = h('section', { class: 'side', 'aria-label': `profile ${'AB'[i]}` }, head, above, h('div', { class: 'drag' }, down, slider, up, back), below);
  return { profileKey, scaleKey, slider, down, up, back, head, above, below, root };
});

const DOMAINS = { exact: 'exact', f32: 'float32', 'f32.ftz': 'float32, subnormals flushed', bf16: 'bfloat16', f16: 'float16' };
function stepLine({ node, operands, value }) {
  const [op, domain] = node;
  const shown = operands.map(show);
  const sentence = op === 'if' ? `if ${shown[0]} ${domain}${domain.startsWith('is') ? '' : ` ${shown[1]}`} then ${shown[2]} else ${shown[3]}`
    : '+-*/'.includes(op) ? `${shown[0]} ${{ '*': '\u00d7', '-': '\u2212' }[op] ?? op} ${shown[1]}` : `${op}(${shown.join(', ')})`;
  const exactly = domain === 'exact' || op === 'if';
  const cut = domain === 'exact' && op === '/' && Number.isFinite(value) && value * operands[1] !== operands[0];
  return h('tr', null, h('td', null, sentence), h('td', { class: 'equals' }, `${cut || (exactly && Math.fround(value) !== value && !Number.isNaN(value)) ? '\u2248' : '='} ${cut ? brief(value) : show(value)}`), h('td', { class: 'soft mono' }, Math.fround(value) === value || Number.isNaN(value) ? m.hex(m.bitsOfFloat(value), 8) : ''),
    h('td', { class: 'soft' }, op === 'if' ? 'a choice' : exactly ? 'exact' : DOMAINS[domain]));
}
function stageOf(title, stage, extra) {
  return h('div', { class: 'stage' }, h('h4', null, title), h('code', { class: 'formula' }, stage.text),
    stage.steps.length ? h('div', { class: 'scroll' }, h('table', { class: 'steps' }, h('tbody', null, stage.steps.map(stepLine)))) : h('p', { class: 'soft small' }, `= ${show(stage.value)}, nothing to compute`), extra ?? null);
}

const STEPS = {
  floor: 'floor of its binary logarithm', ceil: 'ceiling of its binary logarithm', 'half-up': 'exponent after rounding half up to the element\u2019s precision', encode: 'the scale format\u2019s own encoder',
  'log2f-floor': 'floor of a float32 log2', 'log2f-ceil': 'ceiling of a float32 log2', 'log2f-round': 'a float32 log2 rounded', 'log2bf16-floor': 'floor of a bfloat16 log2', 'ggml-ue4m3': 'ggml\u2019s encoder of ue4m3',
};
function scaleWords(rule, f) {
  const words = [STEPS[rule.step] ?? rule.step];
  if (rule.rounding) words.push(`rounding ${rule.rounding}`);
  if (rule.subtract_emax) words.push(`less ${f.emax}, the exponent of the largest element`);
  if (rule.offset) words.push(`${rule.offset > 0 ? 'plus' : 'less'} ${Math.abs(rule.offset)}`);
  if (rule.wraps) words.push('modulo 256');
  return words.join(', ');
}
const total = (errors) => errors.reduce((sum, e) => sum + e * e, 0);

function renderSide(panel, seen, other) {
  const about = m.PROFILES.find((p) => p.id === seen.profile);
  const verdict = verdicts[`${seen.profile} ${state.f}`];
  panel.head.replaceChildren(
    h('h3', null, seen.profile),
    h('p', { class: 'soft small' }, about.summary),
    h('p', { class: 'small' }, h('span', { class: `chip ${verdict?.ok ? 'good' : 'unknown'}` }, verdict ? `judged: ${verdict.text.replace(` to ${seen.profile}`, '').replace(` ${seen.profile}`, '')}` : 'not judged'),
      about.provisional ? h('span', { class: 'chip warn', title: 'No run of the library has confirmed this profile' }, 'provisional') : null),
  );
  const hidden = seen.refused !== undefined;
  panel.root.classList.toggle('refused', hidden);
  if (hidden) {
    panel.above.replaceChildren(h('p', { class: 'wrong' }, `No answer: ${seen.refused}.`));
    panel.below.replaceChildren();
    return;
  }
  const { made, row } = seen;
  const names = m.FORMATS[state.f];
  const scale = m.SCALARS[names.scale];
  const fields = m.fieldsOf(names.scale, made.scale);
  const otherBits = other && !other.refused ? m.fieldsOf(names.scale, other.made.scale).map(([, b]) => b).join('') : undefined;
  panel.slider.max = String(scale.values.length - 1);
  panel.slider.value = String(made.scale);
  panel.slider.setAttribute('aria-valuetext', `${m.hex(made.scale, 2)}, ${show(made.sf)}`);
  panel.back.disabled = seen.given === undefined;
  const changed = seen.given !== undefined && seen.given !== seen.own.scale;
  panel.above.replaceChildren(
    h('div', { class: 'byte' }, h('span', { class: 'hex big' }, m.hex(made.scale, 2)), bitsOf(fields, otherBits), h('span', { class: 'big' }, `= ${show(made.sf)}`),
      changed ? h('span', { class: 'chip warn' }, `by hand; the profile writes ${m.hex(seen.own.scale, 2)}`) : null),
  );
  const stages = m.explain(row, made, Number(state.n));
  const scaleStage = stages.find((s) => s.stage === 'scale');
  const before = stages.slice(0, stages.indexOf(scaleStage)).filter((s) => s.stage !== 'x');
  panel.below.replaceChildren(
    seen.tensor !== undefined ? h('p', { class: 'small' }, `Tensor scale ${row.tensor.leaf} = ${show(m.floatOfBits(seen.tensor))} `, h('span', { class: 'soft mono' }, m.hex(seen.tensor, 8)), h('span', { class: 'soft' }, `, ${seen.words}`)) : h('p', { class: 'small soft' }, seen.words),
    h('details', { open: true }, h('summary', null, `Scale: largest magnitude ${show(made.amax)} \u2192 byte ${m.hex(seen.own.scale, 2)}`),
      before.map((s) => stageOf(`${s.stage}`, s)),
      stageOf('the value that is encoded', { ...scaleStage, text: `amax = ${show(made.amax)};  ${scaleStage.text}` }, h('p', { class: 'small' }, `\u2192 ${scaleWords(seen.own.rule, m.SCALARS[names.element])} \u2192 `, h('b', { class: 'mono' }, m.hex(seen.own.scale, 2)))),
      made.candidates ? h('p', { class: 'small' }, 'Two scales are tried: ', made.candidates.map((c, i) => [i ? '; ' : '', h('span', { class: 'mono' }, m.hex(c.scale, 2)), ` gives the error ${brief(c.error)}`]), `. ${m.hex(seen.own.scale, 2)} is kept.`) : null),
    h('dl', { class: 'sums' }, h('dt', null, 'sum of squared errors'), h('dd', null, brief(total(seen.errors))), h('dt', null, 'largest error'),
      h('dd', null, brief(seen.errors.reduce((a, e) => (Number.isNaN(a) || Number.isNaN(e) ? NaN : Math.max(a, Math.abs(e))), 0)))),
  );
}

/* Up and down go from lane to lane. */
function step(event, lane) {
  const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (!by) return;
  event.preventDefault();
  document.querySelector(`[data-lane="${lane + by}"]`)?.focus();
  if (document.activeElement?.dataset?.lane === String(lane + by)) change({ n: String(lane + by) });
}
function renderTable(block, count, seen) {
  const element = m.FORMATS[state.f].element;
  const digits = Math.ceil(m.SCALARS[element].bits / 4);
  const shown = seen.map((s) => (s.refused ? null : s));
  const textOf = (s, i) => m.fieldsOf(element, s.made.codes[i]).map(([, b]) => b).join('');
  const head = [h('tr', null, h('th', { scope: 'col' }, 'lane'), h('th', { scope: 'col', class: 'num' }, 'x'), h('th', { scope: 'col', class: 'wide' }, 'float32 bits'),
    shown.map((s, i) => s && ['scaled', 'code', 'value', 'error'].map((name) => h('th', { scope: 'col', class: `${name === 'scaled' ? 'wide ' : ''}${name === 'code' ? '' : 'num '}${name === 'scaled' || name === 'code' ? `from${i}` : ''}` }, seen.length > 1 ? `${name} ${'AB'[i]}` : name))))];
  const lanes = Array.from(showsAll ? block : block.slice(0, Math.max(count, Number(state.n) + 1)), (bits, i) => {
    const parted = shown.length > 1 && shown[0] && shown[1] && shown[0].made.codes[i] !== shown[1].made.codes[i];
    return h('tr', { class: `${i === Number(state.n) ? 'chosen ' : ''}${i >= count ? 'padding ' : ''}${parted ? 'parted' : ''}`, click: () => change({ n: String(i) }) },
      h('th', { scope: 'row' }, h('button', { type: 'button', 'data-lane': i, 'aria-pressed': String(i === Number(state.n)), 'aria-label': `lane ${i}, show its steps`, click: (e) => { e.stopPropagation(); change({ n: String(i) }); }, keydown: (e) => step(e, i) }, String(i))),
      h('td', { class: 'num' }, show(m.floatOfBits(bits))), h('td', { class: 'mono soft wide' }, m.hex(bits, 8)),
      shown.map((s, j) => s && [
        h('td', { class: `num wide from${j}` }, show(s.made.scaled[i])),
        h('td', { class: `from${j} nowrap` }, h('span', { class: 'hex' }, m.hex(s.made.codes[i], digits)), ' ', bitsOf(m.fieldsOf(element, s.made.codes[i]), shown[1 - j] && textOf(shown[1 - j], i))),
        h('td', { class: 'num' }, show(s.outputs[i])), h('td', { class: `num ${s.errors[i] === 0 ? 'soft' : ''}` }, s.errors[i] === 0 ? '0' : brief(s.errors[i]))]));
  });
  const held = document.activeElement?.dataset?.lane;
  put('lanes', h('table', { class: 'lanes' }, h('thead', null, head), h('tbody', null, lanes)));
  const more = block.length - count;
  put('more', more ? h('button', { type: 'button', 'aria-expanded': String(showsAll), click: () => { showsAll = !showsAll; render(); $('more').firstChild?.focus(); } }, showsAll ? 'hide the lanes that are 0' : `show the other ${more} lanes, which are 0`) : null);
  if (held !== undefined) document.querySelector(`[data-lane="${held}"]`)?.focus({ preventScroll: true });
}

/* Where a scaled number lies between two values of the element format. */
function neighbours(f, scaled) {
  if (!Number.isFinite(scaled)) return null;
  const finite = [...f.values].filter(Number.isFinite).sort((a, b) => a - b);
  const below = finite.filter((v) => v <= scaled).at(-1);
  const above = finite.find((v) => v >= scaled);
  if (below === undefined || above === undefined) return h('p', { class: 'small soft' }, `${show(scaled)} lies beyond ${show(below ?? above)}, the ${below === undefined ? 'smallest' : 'largest'} value.`);
  if (below === above) return h('p', { class: 'small soft' }, `${show(scaled)} is a value of ${f.name}.`);
  const share = (scaled - below) / (above - below);
  const place = `left:${(100 * share).toFixed(2)}%`;
  const where = share === 0.5 ? 'exactly half way' : `${(100 * share).toPrecision(4)} % of the way`;
  const line = h('div', { class: 'line', role: 'img', 'aria-label': `${show(scaled)} lies ${where} from ${show(below)} to ${show(above)}` }, h('i', { class: 'half' }), h('i', { class: 'at' }));
  line.querySelector('.at').style.cssText = place;
  return h('div', null, h('div', { class: 'between' }, h('span', null, show(below)), line, h('span', null, show(above))), h('p', { class: 'small soft' }, `${show(scaled)} lies ${where} from ${show(below)} to ${show(above)}.`));
}
function renderLane(block, seen) {
  const lane = Number(state.n);
  const bits = block[lane];
  const names = m.FORMATS[state.f];
  const f = m.SCALARS[names.element];
  put('lane', h('h2', null, `Lane ${lane}, step by step`),
    h('p', { class: 'wrapping' }, h('b', null, show(m.floatOfBits(bits))), ' is ', h('span', { class: 'mono' }, hexFloat(m.floatOfBits(bits))), ', in float32 ', h('span', { class: 'mono' }, m.hex(bits, 8)), ' ', bitsOf(float32Fields(bits))),
    h('div', { class: 'pair' }, seen.map((s) => {
      if (s.refused) return h('section', { class: 'side' }, h('h3', null, s.profile), h('p', null, 'No answer.'));
      const stages = Object.fromEntries(m.explain(s.row, s.made, lane).map((stage) => [stage.stage, stage]));
      const code = s.made.codes[lane];
      return h('section', { class: 'side' }, h('h3', null, s.profile),
        stages.x ? stageOf('the number that the profile starts from', stages.x) : null,
        stageOf('what the element encoder is given', stages.scaled, neighbours(f, s.made.scaled[lane])),
        stages.error ? h('p', { class: 'small' }, 'All codes are tried, from 0 up; the one of the least error is kept: ', h('code', null, stages.error.text), `, here ${show(stages.error.value)}.`) : null,
        h('div', { class: 'stage' }, h('h4', null, `the code, ${f.name}`), h('div', { class: 'byte' }, h('span', { class: 'hex big' }, m.hex(code, Math.ceil(f.bits / 4))), bitsOf(m.fieldsOf(names.element, code)), h('span', null, `= ${show(f.values[code])}`)),
          h('p', { class: 'small soft' }, m.fieldsOf(names.element, code).map(([name, b]) => `${name} ${b}`).join(', '))),
        stageOf('the value that comes back', stages.value, h('p', { class: 'small' }, `Error ${s.errors[lane] === 0 ? '0' : brief(s.errors[lane])}`, Number.isFinite(s.errors[lane]) && m.floatOfBits(bits) !== 0 ? `, ${(100 * Math.abs(s.errors[lane] / m.floatOfBits(bits))).toPrecision(3)} % of x` : '', '.')));
    })));
}
function placesOf(layout, lane) {
  const place = layout.codes[lane];
  const bits = Array.isArray(place) ? place : Array.from({ length: layout.width }, (_, b) => place + b);
  return new Set(bits.map((p) => p >> 3));
}
function renderLayouts(seen) {
  const chosen = m.LAYOUTS.filter((l) => l.formats.includes(state.f));
  put('layouts', chosen.map((layout) => {
    const packed = seen.map((s) => (s.refused ? null : m.pack(layout, s.made.codes, s.made.scale)));
    const held = placesOf(layout, Number(state.n));
    return h('div', { class: 'layout' }, h('h3', null, layout.names.join(', ')), h('p', { class: 'soft small' }, `${layout.summary}; ${layout.size} bytes${layout.partial ? ' for more than this block, whose bytes are shown' : ''}`),
      packed.map((bytes, i) => bytes === null ? h('p', { class: 'small' }, seen[i].refused ? 'No answer.' : `It cannot hold the scale byte ${m.hex(seen[i].made.scale, 2)}.`)
        : h('div', { class: 'bytes' }, seen.length > 1 ? h('b', null, 'AB'[i]) : null, bytes.map((byte, at) => h('span', { class: `${held.has(at) ? 'held ' : ''}${seen.length > 1 && packed[1 - i] && packed[1 - i][at] !== byte ? 'differs' : ''}`, title: `byte ${at}` }, byte === null ? '\u00b7\u00b7' : m.hex(byte, 2))))));
  }));
}

function fillProfiles() {
  const known = m.PROFILES.filter((p) => rowFor(p.id));
  for (const [id, key] of [['profile-a', 'p'], ['profile-b', 'q']]) {
    const group = (label, kind) => h('optgroup', { label }, known.filter((p) => p.kind === kind).map((p) => h('option', { value: p.id }, p.id)));
    put(id, key === 'q' ? h('option', { value: '' }, 'none') : null, group('normative', 'normative'), group('libraries', 'descriptive'));
    $(id).value = state[key];
  }
}
function setValue(id, value) {
  if ($(id).value !== value) $(id).value = value;
}
function render() {
  setValue('format', state.f);
  fillProfiles();
  setValue('numbers', state.x);
  const { bits: all, wrong, rounded } = readNumbers(state.x);
  const { k, element, scale } = m.FORMATS[state.f];
  const blocks = Math.max(1, Math.ceil(all.length / k));
  const at = Math.min(Number(state.b), blocks - 1);
  state.b = String(at);
  const own = all.slice(at * k, at * k + k);
  const block = Uint32Array.from({ length: k }, (_, i) => own[i] ?? 0);
  state.n = String(Math.min(Number(state.n), k - 1));
  const notes = [`${own.length} of ${k} numbers of a block of ${state.f} (elements ${element}, scale ${scale})`];
  if (own.length < k) notes.push('the others are 0');
  if (rounded) notes.push(`${rounded} of all were rounded to float32`);
  put('notes', `${notes.join('; ')}.`);
  put('wrong', wrong.length ? `Not a number: ${wrong.slice(0, 4).join(' ')}${wrong.length > 4 ? ' \u2026' : ''}. Write decimals (0.1, 1e-40), fractions (1/3), hex floats (0x1.8p-3), bits of float32 (0x3F800000) or bfloat16 (0x3F80), inf, nan.` : '');
  $('blocks').hidden = blocks < 2;
  put('which', `block ${at + 1} of ${blocks}`);
  $('tensor').hidden = !m.ROWS.some((r) => r.format === state.f && r.tensor);
  setValue('tensor-kind', state.t);
  setValue('tensor-value', state.v);
  $('tensor-value').hidden = state.t === 'auto' || state.t === 'none';
  const seen = sides.filter(([p]) => state[p]).map(([p, s]) => compute(state[p], s, block, all));
  panels.forEach((panel, i) => { panel.root.hidden = !seen[i]; });
  seen.forEach((s, i) => renderSide(panels[i], s, seen[1 - i]));
  $('explorer').classList.toggle('two', seen.length > 1);
  if (seen.length > 1 && !seen[0].refused && !seen[1].refused) {
    const lanes = seen[0].made.codes.filter((c, i) => c !== seen[1].made.codes[i]).length;
    const same = seen[0].made.scale === seen[1].made.scale;
    const values = seen[0].outputs.filter((y, i) => !Object.is(y, seen[1].outputs[i])).length;
    put('difference', same && !lanes && !values ? 'Scale, codes and values are the same.' : `Differ: ${same ? 'the scale does not' : 'the scale'}, ${lanes} of ${k} codes, ${values} of ${k} values.`);
  } else put('difference', '');
  renderTable(block, own.length, seen);
  renderLane(block, seen);
  renderLayouts(seen);
  $('permalink').href = link();
}

function start() {
  $('sides').append(...panels.map((p) => p.root));
  put('format', Object.keys(m.FORMATS).map((name) => h('option', { value: name }, name)));
  put('examples', EXAMPLES.map(([name, text]) => h('button', { type: 'button', click: () => change({ x: text, n: '0', b: '0', s: '', u: '' }) }, name)), h('button', { type: 'button', click: () => {
    const { k } = m.FORMATS[state.f];
    const normal = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
    change({ x: Array.from({ length: k }, () => normal().toFixed(3)).join(' '), n: '0', b: '0', s: '', u: '' });
  } }, 'a random block'));
  $('format').addEventListener('change', () => change({ f: $('format').value, n: '0', b: '0', s: '', u: '' }));
  $('profile-a').addEventListener('change', () => change({ p: $('profile-a').value, s: '' }));
  $('profile-b').addEventListener('change', () => change({ q: $('profile-b').value, u: '' }));
  $('numbers').addEventListener('input', () => change({ x: $('numbers').value }));
  $('tensor-kind').addEventListener('change', () => change({ t: $('tensor-kind').value }));
  $('tensor-value').addEventListener('input', () => change({ v: $('tensor-value').value }));
  $('before').addEventListener('click', () => change({ b: String(Math.max(0, Number(state.b) - 1)) }));
  $('after').addEventListener('click', () => change({ b: String(Number(state.b) + 1) }));
  globalThis.addEventListener('hashchange', () => { readHash(); render(); });
  readHash();
  render();
  $('explorer').hidden = false;
}
start();
})();
