/* The runtime: numbers are doubles, which hold every float32 and every exact product of the profiles; one Math.fround is one rounding to
 * float32. Inputs come by their bits, since JavaScript keeps no sign of a NaN. */
const cell = new DataView(new ArrayBuffer(8));
const f32 = Math.fround;
const floatOfBits = (bits) => (cell.setUint32(0, bits >>> 0), cell.getFloat32(0));
const bitsOfFloat = (v) => (Number.isNaN(v) ? 0x7fc00000 : (cell.setFloat32(0, v), cell.getUint32(0)));
const isNegative = (v) => v < 0 || Object.is(v, -0);
const withSign = (negative, v) => (negative ? -v : v);
/* 2^n, and floor(log2 |v|) of a number that is neither zero nor below 2^-1022: by bit fields. */
const pow2 = (n) => (cell.setUint32(0, (n + 1023) << 20), cell.setUint32(4, 0), cell.getFloat64(0));
const exponentOf = (v) => (cell.setFloat64(0, v), ((cell.getUint32(0) >>> 20) & 0x7ff) - 1023);
const isPowerOfTwo = (v) => v === pow2(exponentOf(v));
const TINY = pow2(-126);
const FLUSHED_BELOW = TINY * (1 - pow2(-25));
const flush = (v) => (Math.abs(v) < TINY ? withSign(isNegative(v), 0) : v);

function floorHalf(q, rule) { /* q >= 0 rounded to an integer */
  const low = Math.floor(q);
  const rest = q - low;
  switch (rule) {
    case 'even': return low + (rest > 0.5 || (rest === 0.5 && low % 2 === 1) ? 1 : 0);
    case 'ties-away': return low + (rest >= 0.5 ? 1 : 0);
    case 'ties-to-zero': return low + (rest > 0.5 ? 1 : 0);
    case 'up': return low + (rest > 0 ? 1 : 0);
    default: return low;
  }
}

function toBfloat16(v) { /* of a float32 */
  if (Number.isNaN(v)) return v;
  const bits = bitsOfFloat(v);
  return floatOfBits((bits + 0x7fff + ((bits >>> 16) & 1)) & 0xffff0000);
}
function toFloat16(v) {
  const a = Math.abs(v);
  if (!(a < 65520)) return Number.isNaN(v) ? v : withSign(isNegative(v), Infinity);
  if (a === 0) return v;
  const step = pow2(Math.max(exponentOf(a), -14) - 10);
  return withSign(isNegative(v), floorHalf(a / step, 'even') * step);
}
const ROUND = {
  exact: (v) => v,
  f32,
  'f32.ftz': (v) => (Math.abs(v) < FLUSHED_BELOW ? withSign(isNegative(v), 0) : f32(v)),
  bf16: (v) => toBfloat16(f32(v)),
  f16: (v) => toFloat16(f32(v)),
};
const OPERATIONS = { '+': (a, b) => a + b, '-': (a, b) => a - b, '*': (a, b) => a * b, '/': (a, b) => a / b };
const SELECTIONS = {
  min: (a, b) => (Number.isNaN(a) ? a : Number.isNaN(b) || b < a ? b : a),
  max: (a, b) => (Number.isNaN(a) ? a : Number.isNaN(b) || a < b ? b : a),
  fmin: (a, b) => (Number.isNaN(a) ? b : Number.isNaN(b) ? a : b < a ? b : a),
  fmax: (a, b) => (Number.isNaN(a) ? b : Number.isNaN(b) ? a : a < b ? b : a),
  abs: (a) => Math.abs(a),
  pow2ceil: (a) => {
    const m = Math.abs(a);
    return !(m > 0 && m < Infinity) || isPowerOfTwo(m) ? a : withSign(a < 0, pow2(exponentOf(m) + 1));
  },
};
/* NVIDIA's rcp.approx.ftz.f32 as measured on an H200, all 2^23 significands: a quadratic in each of 128 pieces, whose square leaves out the
 * products of two bits of the place w that lie below 2^17. All numbers are integers below 2^53. */
function reciprocal(v) {
  const a = flush(v);
  if (!(Math.abs(a) > 0 && Math.abs(a) < Infinity)) return 1 / a;
  const significand = bitsOfFloat(a) & 0x7fffff;
  const [level, slope, bend] = RECIPROCAL[significand >>> 16];
  const w = significand & 0xffff;
  let square = 0;
  for (let i = 0; i < 16; i++) {
    const above = Math.max(i + 1, 16 - i);
    if ((w >>> i) & 1) square += ((w >>> above) << above) * 2 ** (i + 1) + (i < 9 ? 0 : 2 ** (2 * i));
  }
  const y = level * 2 ** 14 - 2 * slope * w + 2 * bend * Math.floor(square / 2 ** 17) + RECIPROCAL_BIAS;
  return flush(withSign(a < 0, Math.floor(y / 2 ** 16) * pow2(-24 - exponentOf(a))));
}
const TESTS = { '==': (a, b) => a === b, '<': (a, b) => a < b, 'is nan': (a) => Number.isNaN(a), 'is inf': (a) => a === Infinity || a === -Infinity };

/* One function for each node of the expressions: an operation, rounded in its domain. */
const values = new Float64Array(NODES.length);
const RUN = NODES.map((node) => {
  if (typeof node === 'string') return (leaves) => leaves[node];
  if (typeof node === 'number') return () => floatOfBits(node);
  const [op, domain, a, b] = node;
  if (op === 'if') {
    const [, test, left, right, then, otherwise] = node;
    return () => (TESTS[test](values[left], values[right]) ? values[then] : values[otherwise]);
  }
  if (op in SELECTIONS) return () => SELECTIONS[op](values[a], values[b]);
  if (op === 'rcp') return () => reciprocal(values[a]);
  if (op === 'round') return () => ROUND[domain](values[a]);
  if (domain === 'f32.ftz') return () => ROUND[domain](OPERATIONS[op](flush(values[a]), flush(values[b])));
  return () => ROUND[domain](OPERATIONS[op](values[a], values[b]));
});
const operandsOf = (node) => (typeof node !== 'object' ? [] : node[0] === 'if' ? node.slice(2) : node.slice(2));
const orders = new Map();
function orderOf(root) { /* operands before operations */
  if (!orders.has(root)) {
    const list = [];
    const visit = (i) => {
      if (list.includes(i)) return;
      operandsOf(NODES[i]).forEach(visit);
      list.push(i);
    };
    visit(root);
    orders.set(root, list);
  }
  return orders.get(root);
}
/* The value of an expression; trace: receives {node, value, operands} of each operation, in order. */
function evaluate(root, leaves, trace) {
  for (const i of orderOf(root)) {
    values[i] = RUN[i](leaves);
    if (trace && typeof NODES[i] === 'object') trace.push({ node: i, value: values[i], operands: operandsOf(NODES[i]).map((n) => values[n]) });
  }
  return values[root];
}
/* The text of an expression, as the profiles print it. */
function textOf(i) {
  const node = NODES[i];
  if (typeof node === 'string') return node;
  if (typeof node === 'number') {
    const v = floatOfBits(node);
    return Number.isFinite(v) && Math.abs(v) < 2 ** 24 && Number.isInteger(v * 2 ** 20) ? String(v) : `0x${hex(node, 8)}`;
  }
  const [op, domain, ...args] = node;
  if (op === 'if') {
    const [left, right, then, otherwise] = args.map(textOf);
    return `(${then} if ${left} ${domain}${domain.startsWith('is') ? '' : ` ${right}`} else ${otherwise})`;
  }
  const suffix = domain === 'exact' ? '' : `_${domain}`;
  return op in OPERATIONS ? `(${textOf(args[0])} ${op}${suffix} ${textOf(args[1])})` : `${op}${suffix}(${args.map(textOf).join(', ')})`;
}

/* Scalar formats. */
for (const f of Object.values(SCALARS)) f.sign = f.signed ? 2 ** (f.bits - 1) : 0;
const join = (f, sign, magnitude) => (!sign || !f.signed ? magnitude : f.twos ? (2 ** f.bits - magnitude) % 2 ** f.bits : magnitude | f.sign);
function magnitudeOf(f, code) {
  const field = code >> f.mantissa;
  const part = code & (2 ** f.mantissa - 1);
  if (f.exponent === 0) return code * pow2(1 - f.bias - f.mantissa);
  if (field === 0 && f.zero) return part * pow2(1 - f.bias - f.mantissa);
  return (2 ** f.mantissa + part) * pow2(field - f.bias - f.mantissa);
}
function valueOf(f, code) {
  const negative = f.signed && (code & f.sign) !== 0;
  const magnitude = !negative ? code : f.twos ? 2 ** f.bits - code : code ^ f.sign;
  if (!f.twos && magnitude > f.top) return magnitude === f.inf ? withSign(negative, Infinity) : NaN;
  return withSign(negative, magnitudeOf(f, magnitude));
}
for (const f of Object.values(SCALARS)) f.values = Float64Array.from({ length: 2 ** f.bits }, (_, code) => valueOf(f, code));

/* Exponent of the step around a magnitude; code of its binade's first step less the count of that step. */
function stepAround(f, a) {
  if (f.exponent === 0) return [1 - f.bias - f.mantissa, 0];
  const low = f.zero ? 1 - f.bias : -f.bias;
  const at = a > 0 ? Math.max(exponentOf(a), low) : low;
  return [at - f.mantissa, f.zero ? (at - low) * 2 ** f.mantissa : at - low - 1];
}
function magnitudeCode(f, a, rule) { /* as if the range had no end */
  if (!f.zero) { /* powers of two: of two equally near ones, the one with the even code */
    if (a <= magnitudeOf(f, 0)) return 0;
    const code = exponentOf(a) + f.bias;
    const rest = a / pow2(exponentOf(a)) - 1;
    return code + (rule === 'even' ? (rest > 0.5 || (rest === 0.5 && code % 2 === 1) ? 1 : 0) : floorHalf(rest, rule));
  }
  const [step, base] = stepAround(f, a);
  return base + floorHalf(a / pow2(step), rule);
}
function overflowCode(f, sign, mode, infinite) {
  const own = f.inf ?? f.nan;
  if (mode === 'saturate' || (mode === 'saturate-finite' && !infinite)) return join(f, sign, f.top);
  if (own === undefined) throw new Refused(`${f.name} has neither Inf nor NaN: overflow=${mode} cannot be honoured; use saturate`);
  return join(f, sign, own);
}
/* The code of a number that is not NaN, by a deterministic rounding. */
function encodeNumber(f, v, rounding, overflow) {
  const sign = f.signed && isNegative(v) ? 1 : 0;
  const a = Math.abs(v);
  if (a === Infinity) return overflowCode(f, sign, overflow, true);
  const rule = RULES[rounding][sign];
  const code = magnitudeCode(f, a, rule);
  if (rule === 'down') return join(f, sign, Math.min(code, f.top));
  return code > f.top ? overflowCode(f, sign, overflow, false) : join(f, sign, code);
}
/* A call that has no answer. */
class Refused extends Error {}

/* The code of a float32 by its bits, as `mxspec.encode` gives it. */
function encode(format, bits, rounding = 'rne', overflow = 'saturate') {
  const f = SCALARS[format];
  const v = floatOfBits(bits);
  if (!(rounding in RULES)) throw new Refused(`no rounding ${rounding} here; there are ${Object.keys(RULES).join(', ')}`);
  if (Number.isNaN(v)) return f.nan === undefined ? f.top : join(f, bits >>> 31, f.nan);
  if (!f.signed && v < 0) throw new Refused(`${v} is negative and ${format} is unsigned`);
  return encodeNumber(f, v, rounding, overflow);
}
const decode = (format, code) => SCALARS[format].values[code];

/* Logarithms rounded to float32: how far from the nearer power of two a float32 of each binade gives the exponent above. */
function steppedLog2(table, v) {
  const e = exponentOf(v);
  const d = LOGARITHMS[table][e - FIRST_BINADE];
  const threshold = d > 0 ? bitsOfFloat(pow2(e)) + d : (e < 127 ? bitsOfFloat(pow2(e + 1)) : 0x7f800000) + d;
  return bitsOfFloat(v) >= threshold ? e + 1 : e;
}

/* ggml's encoder of ue4m3: half up on one bit, subnormals never reach 08, 7E from 248 on. */
function ggmlUe4m3(v) {
  const clipped = Math.min(v, 448);
  const exponent = exponentOf(clipped) + 7;
  if (exponent <= 0) return Math.min(Math.floor(f32(clipped * 512 + 0.5)), 7);
  const code = exponent * 8 + Math.floor((clipped / pow2(exponent - 7)) * 8 + 0.5) - 8;
  return code >= 120 ? 0x7e : code;
}

/* The scale byte of the scale expression's value. */
function encodeScale(rule, v, scale, element) {
  const a = Math.abs(v);
  const [low, high] = rule.range;
  if (Number.isNaN(a)) return rule.on_nan ?? scale.nan;
  if (a === Infinity) return rule.on_inf ?? high;
  if (a === 0) return rule.on_zero ?? low;
  const clamp = (code) => Math.min(Math.max(code, low), high);
  if (rule.step === 'ggml-ue4m3') return ggmlUe4m3(a);
  if (rule.step === 'encode') return clamp(encodeNumber(scale, a, rule.rounding ?? 'rne', 'saturate'));
  let e = exponentOf(a);
  if (rule.step === 'ceil') e += isPowerOfTwo(a) ? 0 : 1;
  else if (rule.step === 'half-up') e += a / pow2(e) >= 2 - pow2(-(element.half_bits + 1)) ? 1 : 0;
  else if (rule.step !== 'floor') e = steppedLog2(rule.step, a);
  e += (rule.offset ?? 0) - (rule.subtract_emax ? element.emax : 0) + scale.bias;
  return rule.wraps ? Math.min(e, high) & 0xff : clamp(e);
}

function findAmax(lanes, mode) {
  const needed = mode === 'skip-unless-all' ? lanes : mode === 'skip-unless-odd' ? lanes.filter((_, i) => i % 2 === 1) : [];
  if (needed.length && needed.every((x) => Number.isNaN(x))) return NaN;
  let best = 0;
  for (const x of lanes) {
    if (Number.isNaN(x)) {
      if (mode === 'propagate') return NaN;
    } else if (Math.abs(x) > best) best = Math.abs(x);
  }
  return best;
}

/* floor(steps + 1/2), the sum rounded in the rule's domain; under rne exact ties that came out odd go back. */
function addHalfFloor(f, a, rule) {
  const [step, base] = stepAround(f, a);
  const steps = a / pow2(step);
  const sum = ROUND[rule.half_floor](steps + 0.5);
  if (!(sum < 2 ** 40)) return f.top;
  const tie = steps - Math.floor(steps) === 0.5 && Math.floor(steps) % 2 === 0;
  return Math.min(base + Math.floor(sum) - (tie && (rule.rounding ?? 'rne') === 'rne' ? 1 : 0), f.top);
}
/* Eight bits of a bfloat16's fields: a value without upper end, of which bits beyond four spill into the next lane. */
function unboundedFields(v) {
  const a = Math.abs(v);
  const sign = isNegative(v) ? 8 : 0;
  if (!(a < Infinity)) return 0x0b;
  const step = a < 2 ? 0.5 : a < 4 ? 1 : 2;
  const value = a >= 2 ** 50 ? a : floorHalf(a / step, 'even') * step;
  if (value === 0) return sign;
  const e = exponentOf(value);
  return (sign | ((e + 1) << 1) | (e === -1 || value / pow2(e) >= 1.5 ? 1 : 0)) & 0xff;
}

/* The code of one scaled element. x, negativeNan: the element before scaling. */
function encodeElement(rule, f, scaled, x, negativeNan, scaleIsNan) {
  if (rule.unbounded_fields) return unboundedFields(scaled);
  if (Number.isNaN(scaled)) {
    if (!rule.nan) throw new Refused('the block holds a NaN, which this profile refuses');
    return rule.nan[Number.isNaN(x) ? (negativeNan ? 1 : 0) : scaleIsNan ? 0 : rule.invalid_sign ?? 0];
  }
  const sign = isNegative(scaled) ? 1 : 0;
  const a = Math.abs(scaled);
  const rounding = rule.rounding ?? 'rne';
  let code;
  if (rule.half_floor && a < Infinity) code = join(f, sign, addHalfFloor(f, a, rule));
  else if (rule.binade_log2f && a > 0 && a < Infinity) {
    const step = pow2(Math.max(steppedLog2('log2f-floor', a), 1 - f.bias) - f.mantissa);
    code = encodeNumber(f, withSign(sign, Math.floor(a / step) * step), 'rne', 'saturate');
  } else if (f.twos && rule.lowest === -128 && sign) {
    code = a === Infinity ? 0x80 : join(f, 1, Math.min(magnitudeCode(f, a, RULES[rounding][1]), 128));
  } else code = encodeNumber(f, scaled, rounding, rule.overflow ?? 'saturate');
  if (!f.twos && (code & ~f.sign) === 0) {
    if (rule.zero === 'plus' || (rule.zero === 'plus-unless-underflow' && a === 0)) return 0;
    if (rule.zero === 'minus-unless-positive' && a === 0) return f.sign;
  }
  return code;
}
function searchCode(error, f, leaves) { /* the first code of the least error */
  let best = 0;
  leaves.q = f.values[0];
  let least = evaluate(error, leaves);
  for (let code = 1; code < f.values.length; code++) {
    leaves.q = f.values[code];
    const candidate = evaluate(error, leaves);
    if (candidate < least) [least, best] = [candidate, code];
  }
  return best;
}

/* The rules of a profile in a format; undefined where it has no such form. */
const rowIndex = new Map(ROWS.map((row) => [`${row.profile} ${row.format} ${row.tensor ? 1 : 0}`, row]));
const find = (profile, format, withTensor) => rowIndex.get(`${profile} ${format} ${withTensor ? 1 : 0}`);

/* The leaves that a native tensor scale binds, by its bits. */
function bind(row, tensorBits) {
  const f = SCALARS[FORMATS[row.format].element];
  const leaves = { x: NaN, amax: NaN, tmax: NaN, S: NaN, g: NaN, sf: NaN, q: NaN, scaled: NaN, y: NaN, M: f.values[f.top] };
  if (row.tensor) {
    leaves[row.tensor.leaf] = floatOfBits(tensorBits);
    for (const [leaf, root] of row.tensor.derived) leaves[leaf] = evaluate(root, leaves);
  }
  return leaves;
}
/* Bits of the native tensor scale of a tensor whose largest magnitude is given. */
const tensorScale = (row, amax) => bitsOfFloat(f32(evaluate(row.tensor.from_amax, { tmax: amax })));

/* Codes under one scale rule, or under a scale byte that is given. */
function codesUnder(row, rule, lanes, negativeNan, amax, leaves, given) {
  const { element: elementName, scale: scaleName } = FORMATS[row.format];
  const [f, scale] = [SCALARS[elementName], SCALARS[scaleName]];
  const rules = row.element;
  const value = evaluate(rule.value, { ...leaves, amax });
  const byte = given ?? encodeScale(rule, value, scale, f);
  const sf = scale.values[byte];
  const known = { ...leaves, amax, sf };
  const scaled = [];
  let codes = lanes.map((x, i) => {
    known.x = x;
    const v = evaluate(row.scaled, known);
    scaled.push(v);
    if (Number.isNaN(sf) && rules.under_nan !== undefined) return rules.under_nan;
    if (rules.error !== undefined) {
      known.scaled = v;
      return searchCode(rules.error, f, known);
    }
    return encodeElement(rules, f, v, x, negativeNan[i], Number.isNaN(sf));
  });
  if (rules.unbounded_fields && !(Number.isNaN(sf) && rules.under_nan !== undefined)) {
    codes = codes.map((c, i) => (i % 2 ? (c | (codes[i - 1] >> 4)) & 15 : c & 15));
  }
  return { rule, value, scale: byte, sf, scaled, codes };
}
/* The error by which two candidates are compared. */
function errorOf(row, made, lanes, leaves) {
  const rule = row.other;
  const f = SCALARS[FORMATS[row.format].element];
  const combine = rule.norm === 'maximum' ? SELECTIONS.max : (a, b) => f32(a + b);
  const known = { ...leaves, sf: made.sf };
  let errors = lanes.map((x, i) => {
    known.x = x;
    known.q = f.values[made.codes[i]];
    known.y = evaluate(row.dequantize, known);
    return evaluate(rule.error, known);
  });
  if (rule.halves) errors = errors.slice(0, errors.length / 2).map((e, i) => combine(e, errors[i + errors.length / 2]));
  return ROUND[rule.total](errors.reduce(combine, 0));
}

/* One block, every stage kept. bits: Uint32Array or array of float32 bits; given: a scale byte in place of the rule's own. */
function quantize(row, bits, tensorBits, given) {
  const leaves = bind(row, tensorBits);
  const input = Array.from(bits, floatOfBits);
  const negativeNan = input.map((x, i) => Number.isNaN(x) && bits[i] >>> 31 === 1);
  let lanes = row.flush ? input.map(flush) : input;
  if (row.normalize !== undefined) lanes = lanes.map((x) => evaluate(row.normalize, { ...leaves, x }));
  const amax = findAmax(lanes, row.amax_nan);
  let made = codesUnder(row, row.scale, lanes, negativeNan, amax, leaves, given);
  let candidates = null;
  if (row.other && given === undefined) {
    const second = codesUnder(row, row.other.scale, lanes, negativeNan, amax, leaves);
    candidates = [made, second].map((m) => ({ scale: m.scale, sf: m.sf, codes: m.codes, error: errorOf(row, m, lanes, leaves) }));
    if (candidates[1].error < candidates[0].error) made = second;
  }
  return { ...made, input, lanes, amax, leaves, candidates };
}
/* The float32 that a stored element stands for; leaves: those of `bind`, of which q and sf are set. */
function dequantize(row, code, scale, leaves) {
  const { element, scale: scaleName } = FORMATS[row.format];
  leaves.q = SCALARS[element].values[code];
  leaves.sf = SCALARS[scaleName].values[scale];
  return f32(evaluate(row.dequantize, leaves));
}

/* Names and values of each step of one lane: [{stage, steps: [{text, operands, value, domain}], value}]. */
function explain(row, made, lane) {
  const { element } = FORMATS[row.format];
  const known = { ...made.leaves, amax: made.amax, sf: made.sf, x: made.lanes[lane], q: SCALARS[element].values[made.codes[lane]] };
  const stage = (name, root, leaves) => {
    const trace = [];
    const value = evaluate(root, leaves, trace);
    return { stage: name, text: textOf(root), value, steps: trace.map((t) => ({ ...t, text: textOf(t.node), node: NODES[t.node] })) };
  };
  const stages = [];
  for (const [leaf, root] of row.tensor?.derived ?? []) stages.push(stage(leaf, root, made.leaves));
  if (row.normalize !== undefined) stages.push(stage('x', row.normalize, { ...made.leaves, x: made.input[lane] }));
  stages.push(stage('scale', made.rule.value, known));
  stages.push(stage('scaled', row.scaled, known));
  if (row.element.error !== undefined) stages.push(stage('error', row.element.error, { ...known, scaled: made.scaled[lane] }));
  stages.push(stage('value', row.dequantize, known));
  return stages;
}

/* The bytes of a block in a layout: numbers, or null where another block's bits lie. */
function pack(layout, codes, scale) {
  const bytes = new Array(layout.size).fill(0);
  const held = new Array(layout.size).fill(false);
  const put = (places, item, width) => {
    for (let b = 0; b < width; b++) {
      const place = places.length ? places[b] : places + b;
      bytes[place >> 3] |= ((item >> b) & 1) << (place & 7);
      held[place >> 3] = true;
    }
  };
  layout.codes.forEach((place, i) => put(place, codes[i], layout.width));
  if (layout.scale !== undefined) {
    const stored = layout.stored ? layout.stored[scale] : scale;
    if (stored < 0) return null;
    put(layout.scale, stored, 8);
  }
  return bytes.map((byte, i) => (held[i] || !layout.partial ? byte : null));
}

const hex = (n, digits) => (n >>> 0).toString(16).toUpperCase().padStart(digits, '0');
/* [name, bits] of the fields of a code. */
function fieldsOf(format, code) {
  const f = SCALARS[format];
  const binary = code.toString(2).padStart(f.bits, '0');
  if (f.twos) return [['sign', binary.slice(0, 1)], ['integer', binary.slice(1)]];
  const cut = f.signed ? 1 : 0;
  return [['sign', binary.slice(0, cut)], ['exponent', binary.slice(cut, cut + f.exponent)], ['mantissa', binary.slice(cut + f.exponent)]].filter(([, b]) => b);
}

const mxspec = {
  version: VERSION, FORMATS, SCALARS, PROFILES, ROWS, LAYOUTS, LEFT_OUT, NODES, RULES, Refused, find, quantize, dequantize, explain, evaluate, textOf, encode,
  decode, tensorScale, bind, findAmax, pack, reciprocal, fieldsOf, floatOfBits, bitsOfFloat, isNegative, hex,
};
