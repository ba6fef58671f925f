// The explorer's arithmetic as a target: the file mxspec.js beside this one, asked by JSON lines.
//
//     mxspec check 'cmd:node target.js --profile mx-floor'
//     mxspec check 'cmd:node target.js --profile mx-rceil@mxfp4 --profile nvfp4-te'
//
// --profile NAME[@FORMAT]: a profile, in all formats that it has here or in one. Several have different formats.
// SPDX-License-Identifier: Apache-2.0
'use strict';

const mxspec = require('./mxspec.js');
const ROUNDINGS = Object.keys(mxspec.RULES);
const DTYPES = { float32: 4, float16: 2, bfloat16: 2 };
const WIDTHS = new Map([...Object.entries(DTYPES), ['uint8', 1]]);

class Unsupported extends Error {}

function chooseProfiles(argv) { // Map of format -> profile
  const chosen = new Map();
  const given = argv.filter((_, i) => argv[i - 1] === '--profile');
  for (const text of given.length ? given : ['mx-floor', 'nvfp4-te']) {
    const [name, format] = text.split('@');
    const formats = [...new Set(mxspec.ROWS.filter((r) => r.profile === name && (!format || r.format === format)).map((r) => r.format))];
    if (!formats.length) throw new Error(`no profile ${text} here; there are ${mxspec.PROFILES.map((p) => p.id).join(', ')}`);
    for (const f of formats) {
      if (chosen.has(f)) throw new Error(`two profiles of ${f}: ${chosen.get(f)} and ${name}; write NAME@FORMAT`);
      chosen.set(f, name);
    }
  }
  return chosen;
}
const chosen = chooseProfiles(process.argv.slice(2));

function rowOf(format, tensorScale) {
  if (!chosen.has(format)) throw new Unsupported(`${[...chosen.keys()].join(', ')} alone`);
  const row = mxspec.find(chosen.get(format), format, tensorScale !== undefined);
  if (!row) throw new Unsupported(`${chosen.get(format)} has no form ${tensorScale === undefined ? 'without' : 'with'} a tensor scale`);
  return row;
}

// float32 bits of what was sent; a NaN keeps its sign.
function widen(bits, dtype) {
  if (dtype === 'float32') return bits;
  if (dtype === 'bfloat16') return Uint32Array.from(bits, (b) => (b << 16) >>> 0);
  return Uint32Array.from(bits, (b) => {
    const sign = (b & 0x8000) << 16;
    const [field, part] = [(b >> 10) & 31, b & 1023];
    if (field === 31) return (sign | (part ? 0x7fc00000 : 0x7f800000)) >>> 0;
    const magnitude = mxspec.bitsOfFloat(field ? (1024 + part) * 2 ** (field - 25) : part * 2 ** -24);
    return (sign | magnitude) >>> 0;
  });
}

function checkColumns(columns, k, format) {
  if (columns % k) throw new mxspec.Refused(`k = ${columns} is not a multiple of the ${k}-element block of ${format}; pad it to ${columns + k - (columns % k)}`);
}

const functions = {
  quantize({ x, format, tensor_scale: tensor }) {
    const row = rowOf(format, tensor);
    const { k } = mxspec.FORMATS[format];
    const [rows, columns] = x.shape;
    checkColumns(columns, k, format);
    const codes = new Uint8Array(rows * columns);
    const scales = new Uint8Array((rows * columns) / k);
    for (let b = 0; b < scales.length; b++) {
      const made = mxspec.quantize(row, x.bits.subarray(b * k, b * k + k), tensor);
      codes.set(made.codes, b * k);
      scales[b] = made.scale;
    }
    return { codes: [codes, x.shape], scales: [scales, [rows, columns / k]] };
  },
  dequantize({ codes, scales, format, tensor_scale: tensor }) {
    const row = rowOf(format, tensor);
    const { k } = mxspec.FORMATS[format];
    checkColumns(codes.shape[1], k, format);
    const leaves = mxspec.bind(row, tensor);
    const bits = Uint32Array.from(codes.bits, (code, i) => mxspec.bitsOfFloat(mxspec.dequantize(row, code, scales.bits[Math.floor(i / k)], leaves)));
    return { values: [new Float32Array(bits.buffer), codes.shape] };
  },
  encode({ x, element, rounding, overflow }) {
    if (rounding !== undefined && !ROUNDINGS.includes(rounding)) throw new Unsupported(`roundings ${ROUNDINGS.join(', ')} alone`);
    return { codes: [Uint8Array.from(x.bits, (bits) => mxspec.encode(element, bits, rounding, overflow)), x.shape] };
  },
  decode({ codes, element }) {
    const bits = Uint32Array.from(codes.bits, (code) => mxspec.bitsOfFloat(mxspec.decode(element, code)));
    return { values: [new Float32Array(bits.buffer), codes.shape] };
  },
  tensor_scale({ x, format }) {
    const row = rowOf(format, 0);
    const amax = mxspec.findAmax(Array.from(x.bits, mxspec.floatOfBits), row.tensor.amax_nan ?? 'propagate');
    return { scale: [new Float32Array(Uint32Array.of(mxspec.tensorScale(row, amax)).buffer), [1]] };
  },
};

function describe() {
  const formats = [...chosen.keys()];
  const rows = formats.flatMap((f) => [mxspec.find(chosen.get(f), f, false), mxspec.find(chosen.get(f), f, true)]).filter(Boolean);
  const tensor = rows.find((row) => row.tensor)?.tensor;
  const options = tensor ? ['tensor_scale'] : [];
  const dtypes = Object.keys(DTYPES).filter((d) => formats.every((f) => mxspec.PROFILES.find((p) => p.id === chosen.get(f)).dtypes.includes(d)));
  const calls = { quantize: options, dequantize: options, encode: ['rounding', 'overflow'], decode: [] };
  return {
    mxspec: 1,
    name: 'mxspec explorer',
    version: mxspec.version,
    language: 'JavaScript',
    libraries: { node: process.versions.node },
    capabilities: {
      formats,
      dtypes,
      profile: [...new Set(chosen.values())],
      functions: tensor ? { ...calls, tensor_scale: [] } : calls,
      ...(tensor ? { tensor_scale: tensor.kind, one_level: rows.every((row) => !row.tensor || mxspec.find(row.profile, row.format, false)) } : {}),
    },
  };
}

function readArgument(given) {
  if (given === null || typeof given !== 'object' || Array.isArray(given)) return given;
  if ('float32' in given) return parseInt(given.float32, 16) >>> 0;
  const bytes = Buffer.from(given.base64 ?? given.hex, 'base64' in given ? 'base64' : 'hex');
  const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  const width = WIDTHS.get(given.dtype);
  if (!width) throw new mxspec.Refused(`dtype ${given.dtype}; taken are ${[...WIDTHS.keys()].join(', ')}`);
  const { shape } = given;
  const whole = Array.isArray(shape) && shape.length > 0 && shape.every((n) => Number.isInteger(n) && n >= 0);
  if (!whole || shape.reduce((a, n) => a * n, width) !== bytes.length) throw new mxspec.Refused(`${bytes.length} bytes of ${given.dtype} are no array of shape ${JSON.stringify(shape)}`);
  const words = width === 4 ? new Uint32Array(buffer) : width === 2 ? new Uint16Array(buffer) : new Uint8Array(buffer);
  return { shape: given.shape, bits: given.dtype in DTYPES ? widen(words, given.dtype) : words };
}

function writeOutput([values, shape]) {
  const dtype = values instanceof Float32Array ? 'float32' : 'uint8';
  return { dtype, shape, base64: Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString('base64') };
}

const mapValues = (object, f) => Object.fromEntries(Object.entries(object).map(([key, value]) => [key, f(value)]));

function answer(request) {
  try {
    const run = Object.hasOwn(functions, request.function) ? functions[request.function] : undefined;
    if (!run) throw new Unsupported(`no ${request.function} here`);
    return { id: request.id, outputs: mapValues(run(mapValues(request.arguments, readArgument)), writeOutput) };
  } catch (error) {
    if (error instanceof Unsupported) return { id: request.id, skipped: { reason: error.message } };
    return { id: request.id, error: { message: error instanceof mxspec.Refused ? `refused: ${error.message}` : `${error.name}: ${error.message}`, detail: error.stack } };
  }
}

const lines = require('node:readline').createInterface({ input: process.stdin });
lines.on('line', (line) => {
  let request;
  try { request = JSON.parse(line); } catch { request = null; }
  if (request === null || typeof request !== 'object') throw new Error(`no request: ${line.slice(0, 80)}`);
  if (request.cmd === 'stop') lines.close();
  else process.stdout.write(`${JSON.stringify(request.cmd === 'start' ? describe() : answer(request))}\n`);
});
