// A target in JavaScript: mxfp4 as OCP MX v1.0 section 6.3 has it, and nvfp4 in Transformer Engine's order of operations.
//
//     mxspec smoke 'cmd:node target.js'
//     mxspec check 'cmd:node target.js'
//     node target.js < bundle.jsonl > results.jsonl && mxspec check results.jsonl
//
// One JSON request to a line on stdin, one JSON reply to a line on stdout; notes go to stderr.
// SPDX-License-Identifier: Apache-2.0
'use strict';

const tiesAway = process.argv.includes('--ties-away'); // a bug, to show what the judge says of it
const f32 = Math.fround;
const MAX_FLOAT = f32(3.4028234663852886e38);
const E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6];
// Halfway between neighbours. Of a tie the even code wins: the lower one where its number is even.
const MIDPOINT = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5];
const isNegative = (v) => v < 0 || Object.is(v, -0);
const least = (a, b) => (Number.isNaN(a) || a < b ? a : b);

function encodeE2m1(v) {
  if (Number.isNaN(v)) return 7;
  const magnitude = Math.abs(v);
  let code = 0;
  while (code < 7 && (magnitude > MIDPOINT[code] || (magnitude === MIDPOINT[code] && (tiesAway || code % 2 === 1)))) code++;
  return isNegative(v) ? code | 8 : code;
}

const decodeE2m1 = (code) => (code & 8 ? -E2M1[code & 7] : E2M1[code & 7]);

// floor(log2 v) of a positive float32, from its exponent field.
const word = new DataView(new ArrayBuffer(4));
function exponentOf(v) {
  word.setFloat32(0, v);
  const field = (word.getUint32(0) >>> 23) & 0xff;
  return field ? field - 127 : 31 - Math.clz32(word.getUint32(0)) - 149;
}

function roundHalfEven(v) {
  const low = Math.floor(v);
  const rest = v - low;
  return rest > 0.5 || (rest === 0.5 && low % 2 === 1) ? low + 1 : low;
}

function encodeUe4m3(v) { // v >= 0 or NaN; saturates
  if (Number.isNaN(v)) return 0x7f;
  if (v >= 448) return 0x7e;
  const exponent = v === 0 ? -6 : Math.max(exponentOf(v), -6);
  const steps = roundHalfEven(v * 2 ** (3 - exponent)); // eight steps to a binade
  return steps < 8 ? steps : (exponent + 6) * 8 + steps;
}

function decodeUe4m3(code) {
  if ((code & 0x7f) === 0x7f) return NaN;
  const field = (code >> 3) & 15;
  return field ? (8 + (code & 7)) * 2 ** (field - 10) : (code & 7) * 2 ** -9;
}

function largestMagnitude(x, start, count) { // NaN if any is
  let amax = 0;
  for (let i = start; i < start + count; i++) {
    if (Number.isNaN(x[i])) return NaN;
    amax = Math.max(amax, Math.abs(x[i]));
  }
  return amax;
}

function quantizeMx(x, codes, scales) {
  for (let b = 0; b < scales.length; b++) {
    const amax = largestMagnitude(x, 32 * b, 32);
    if (Number.isNaN(amax)) {
      scales[b] = 0xff; // the codes stay zero
      continue;
    }
    const exponent = amax === 0 ? -127 : amax === Infinity ? 127 : Math.max(exponentOf(amax) - 2, -127);
    for (let i = 32 * b; i < 32 * b + 32; i++) codes[i] = encodeE2m1(x[i] * 2 ** -exponent);
    scales[b] = exponent + 127;
  }
}

function encodeScale(tensorAmax) {
  const s = least(f32(2688 / tensorAmax), MAX_FLOAT);
  return tensorAmax === 0 || s === 0 ? 1 : s;
}

function quantizeNv(x, codes, scales, tensorAmax) {
  const s = tensorAmax === undefined ? 1 : encodeScale(tensorAmax);
  for (let b = 0; b < scales.length; b++) {
    scales[b] = encodeUe4m3(least(f32(largestMagnitude(x, 16 * b, 16) * f32(s * f32(1 / 6))), MAX_FLOAT));
    const factor = least(f32(1 / f32(decodeUe4m3(scales[b]) * f32(1 / s))), MAX_FLOAT);
    for (let i = 16 * b; i < 16 * b + 16; i++) codes[i] = encodeE2m1(f32(x[i] * factor));
  }
}

const BLOCK = { mxfp4: 32, nvfp4: 16 };

const functions = {
  quantize({ x, format, tensor_scale: tensorScale }) {
    if (x.dtype !== 'float32') throw new Unsupported('float32 alone');
    const [rows, columns] = x.shape;
    const codes = new Uint8Array(rows * columns);
    const scales = new Uint8Array((rows * columns) / BLOCK[format]);
    if (format === 'mxfp4') quantizeMx(x.values, codes, scales);
    else quantizeNv(x.values, codes, scales, tensorScale);
    return { codes: [codes, x.shape], scales: [scales, [rows, columns / BLOCK[format]]] };
  },
  dequantize({ codes, scales, format, tensor_scale: tensorScale }) {
    const values = new Float32Array(codes.values.length);
    for (let i = 0; i < values.length; i++) {
      const q = decodeE2m1(codes.values[i]);
      const scale = scales.values[Math.floor(i / BLOCK[format])];
      if (format === 'mxfp4') values[i] = scale === 0xff ? NaN : q * 2 ** (scale - 127);
      else if (tensorScale === undefined) values[i] = q * decodeUe4m3(scale);
      else values[i] = q * f32(f32(decodeUe4m3(scale) * tensorScale) * f32(1 / 2688));
    }
    return { values: [values, codes.shape] };
  },
  tensor_scale({ x }) {
    return { scale: [Float32Array.of(largestMagnitude(x.values, 0, x.values.length)), [1]] };
  },
};

class Unsupported extends Error {}

// Arrays are little-endian bytes, as typed arrays are on every machine that node runs on.
const TYPES = { float32: Float32Array, uint8: Uint8Array, uint32: Uint32Array };

function readArgument(given) {
  if (given === null || typeof given !== 'object' || Array.isArray(given)) return given;
  if ('float32' in given) return Buffer.from(given.float32, 'hex').readFloatBE(0);
  const bytes = Buffer.from(given.base64 ?? given.hex, 'base64' in given ? 'base64' : 'hex');
  const Type = TYPES[given.dtype];
  const values = Type && new Type(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  return { dtype: given.dtype, shape: given.shape, values };
}

function writeOutput([values, shape]) {
  const dtype = values instanceof Float32Array ? 'float32' : 'uint8';
  return { dtype, shape, base64: Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString('base64') };
}

const mapValues = (object, f) => Object.fromEntries(Object.entries(object).map(([key, value]) => [key, f(value)]));

function answer(request) {
  const run = functions[request.function];
  const args = mapValues(request.arguments, readArgument);
  try {
    if (!run) throw new Unsupported(`no ${request.function} here`);
    if (args.format !== undefined && !(args.format in BLOCK)) throw new Unsupported('mxfp4 and nvfp4 alone');
    return { id: request.id, outputs: mapValues(run(args), writeOutput) };
  } catch (error) {
    if (error instanceof Unsupported) return { id: request.id, skipped: { reason: error.message } };
    return { id: request.id, error: { message: `${error.name}: ${error.message}`, detail: error.stack } };
  }
}

const description = {
  mxspec: 1,
  name: 'example',
  version: '1.0',
  language: 'JavaScript',
  libraries: { node: process.versions.node },
  capabilities: {
    formats: ['mxfp4', 'nvfp4'],
    tensor_scale: 'amax',
    functions: { quantize: ['tensor_scale'], dequantize: ['tensor_scale'], tensor_scale: [] },
  },
};

const lines = require('node:readline').createInterface({ input: process.stdin });
lines.on('line', (line) => {
  const request = JSON.parse(line);
  if (request.cmd === 'stop') lines.close();
  else process.stdout.write(`${JSON.stringify(request.cmd === 'start' ? description : answer(request))}\n`);
});
