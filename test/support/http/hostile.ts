import { Agent, request as httpRequest } from "node:http";
import type { z } from "zod";
import { anAddress } from "./client.ts";

const nested = (open: string, close: string, depth: number): string =>
  `${open.repeat(depth)}1${close.repeat(depth)}`;

const linesOf = (text: string): string[] => text.trim().split(/\s*\n\s*/);

/** JSON texts that are wrong nearly everywhere, and dangerous where they are not. */
export const HOSTILE_VALUES: readonly string[] = [
  ...linesOf(String.raw`
    null
    true
    0
    -0
    -1
    1.5
    1e308
    -1e308
    1e999
    5e-324
    2147483648
    9007199254740993
    9223372036854775808
    []
    [[]]
    [null]
    {}
    {"":1}
    ""
    " "
    "\u0000"
    "a\u0000b"
    "\ud800"
    "\udfff\ud800"
    "\u202e\u2066evil\ufeff"
    "\r\nSet-Cookie: a=b"
    "👩‍👩‍👧‍👦"
    "Ｚ̸̢͗ﷺ"
    "'; drop table players; --"
    "{{7*7}}<script>%{7*7}"
    "../../etc/passwd"
    "%00%2f%5c"
    "__proto__"
    "constructor"
    "ext:"
    "*"
    "a.*"
    "%_\\"
    "NaN"
    "2026-02-30T00:00:00Z"
    "0000-01-01T00:00:00Z"
    "9999-12-31T23:59:59-23:59"
    "0001-01-01T00:00:00+14:00"
    "9999-12-31T23:59:59-14:00"
    "00000000-0000-0000-0000-000000000000"
    {"__proto__":{"polluted":1}}
    {"constructor":{"prototype":{"polluted":1}}}
    {"toString":1,"valueOf":1,"then":1,"toJSON":1,"length":-1}
    {"$ref":"player.__proto__.polluted"}
    {"op":"mul","args":[1e300,1e300]}`),
  `"${"x".repeat(300)}"`,
  `"${"é".repeat(40_000)}"`,
  `[${"0,".repeat(9_999)}0]`,
  nested('{"a":', "}", 40),
  nested("[", "]", 500),
];

/** Texts as they stand in an address, percent-encoded or not as an attacker would have them. */
export const HOSTILE_TEXTS: readonly string[] = [
  ...linesOf(`
    %00
    a%00b
    %2500
    ..%2f..%2fetc%2fpasswd
    %2e%2e
    .
    ..
    a%2fb
    %5c
    %
    %zz
    %ff
    %ed%a0%80
    %f0%9f%91%a9
    %ef%bb%bf
    %e2%80%ae
    %0d%0aSet-Cookie:a=b
    %20
    +
    -1
    1e400
    NaN
    null
    true
    0x10
    1.5
    999999999999999999999
    9007199254740991
    -9007199254740992
    '%20or%20'1'='1
    %25%5f
    *
    {}
    []
    __proto__
    constructor
    toString
    ext:
    ext:%00
    ext:__proto__
    00000000-0000-0000-0000-000000000000
    0000-01-01T00:00:00Z
    9999-12-31T23:59:59Z
    0001-01-01T00:00:00%2b14:00
    9999-12-31T23:59:59-14:00
    2026-01-01T00:00:00%2b23:59`),
  "x".repeat(300),
  "%f0%9f%91%a9".repeat(300),
];

export type RawAnswer = { status: number; text: string; headers: Record<string, unknown> };
type RawRequest = {
  method: string;
  path: string;
  headers?: Record<string, string>;
  body?: string;
};

const agent = new Agent({ keepAlive: true, maxSockets: 8 });

/** A request whose path goes out as it stands: fetch would tidy it. */
export const sendRaw = (url: string, { method, path, headers = {}, body }: RawRequest): Promise<RawAnswer> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(url);
    const length = body === undefined ? {} : { "Content-Length": Buffer.byteLength(body) };
    const request = httpRequest(
      {
        agent,
        hostname,
        port,
        method,
        path,
        headers: { "X-Forwarded-For": anAddress(), ...headers, ...length },
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.once("error", reject);
        response.once("end", () => {
          const { statusCode = 0, headers: answered } = response;
          resolve({ status: statusCode, text: Buffer.concat(chunks).toString("utf8"), headers: answered });
        });
      },
    );
    request.once("error", reject);
    request.end(body);
  });

const LEAK = new RegExp(
  [
    String.raw`node_modules|file:\/\/|\/work\/|\/src\/|\.ts:\d|\.js:\d|\bat (async )?[\w.<>]+ \(`,
    `violates|constraint "|relation "|column "|syntax error at|invalid input syntax|out of range for type`,
    "SQLSTATE|DriverException|DatabaseError|TypeError|RangeError|ZodError|PGlite|kysely|mikro",
  ].join("|"),
  "i",
);

/** What a text tells of the inside of the server. */
export const leakIn = (text: string): string | undefined => LEAK.exec(text)?.[0];

type Refusal = { error?: { code?: unknown; requestId?: unknown } };

const hasErrorBody = ({ error }: Refusal): boolean =>
  typeof error?.code === "string" && typeof error.requestId === "string";

/** What is wrong with an answer to a hostile request; undefined for a decent one. */
export const indecency = ({ status, text }: RawAnswer): string | undefined => {
  if (status >= 500) return `answered ${status}`;
  const leak = leakIn(text);
  if (leak !== undefined) return `leaks the inside: ${leak}`;
  if (status < 400) return undefined;
  return hasErrorBody(JSON.parse(text)) ? undefined : `has no error body: ${text.slice(0, 100)}`;
};

type Def = {
  type: string;
  checks?: readonly { _zod: { def: { check: string } } }[];
  innerType?: z.ZodType;
  in?: z.ZodType;
  out?: z.ZodType;
  shape?: Record<string, z.ZodType>;
  element?: z.ZodType;
  valueType?: z.ZodType;
  options?: readonly z.ZodType[];
  values?: readonly unknown[];
  entries?: Record<string, unknown>;
};
type Bare = { _zod: { def: Def } };

/** The schema under optional, nullable, lazy, preprocessed and the like. */
export const bareSchema = (schema: z.ZodType): Bare => {
  const { type, innerType, in: from, out } = schema._zod.def as unknown as Def;
  if (innerType) return bareSchema(innerType);
  // Its getter would make another schema each time.
  if (type === "lazy") return bareSchema((schema as z.ZodLazy<z.ZodType>)._zod.innerType);
  if (type === "pipe") return bareSchema(from!._zod.def.type === "transform" ? out! : from!);
  return schema;
};

/** A place in a value that a schema describes; `wrap` makes a value that has something at this place. */
export type Place = { name: string; schema: z.ZodType; wrap: (value: unknown) => unknown };

const DEPTH_MAX = 9;

/** Something near to what the schema wants, so that what stands beside it is looked at. */
const sampleOf = (schema: z.ZodType, depth = 0): unknown => {
  const { type, shape, values, entries, options } = bareSchema(schema)._zod.def;
  if (depth > DEPTH_MAX) return null;
  if (type === "object") {
    const required = Object.entries(shape!).filter(([, inner]) => inner._zod.optin !== "optional");
    return Object.fromEntries(required.map(([name, inner]) => [name, sampleOf(inner, depth + 1)]));
  }
  if (type === "literal") return values![0];
  if (type === "enum") return Object.values(entries!)[0];
  if (type === "union") return sampleOf(options![0]!, depth + 1);
  const plain: Record<string, unknown> = { string: "aa", number: 1, boolean: true, record: {}, array: [] };
  return plain[type] ?? null;
};

/** Every place of a schema, the outermost first; one that comes again inside of itself is told once. */
export const placesOf = (root: z.ZodType): Place[] => {
  const places: Place[] = [];
  const seen = new Set<unknown>();
  const visit = (schema: z.ZodType, name: string, wrap: Place["wrap"]): void => {
    const bare = bareSchema(schema);
    if (seen.has(bare)) return;
    seen.add(bare);
    places.push({ name, schema, wrap });
    const { shape, element, valueType, options } = bare._zod.def;
    if (shape) {
      const beside = sampleOf(schema) as object;
      for (const [key, inner] of Object.entries(shape))
        visit(inner, `${name}.${key}`, (value) => wrap({ ...beside, [key]: value }));
    }
    if (element) visit(element, `${name}[]`, (value) => wrap([value]));
    if (valueType) visit(valueType, `${name}{}`, (value) => wrap({ a: value }));
    options?.forEach((option, i) => visit(option, `${name}|${i}`, wrap));
  };
  visit(root, "", (value) => value);
  return places;
};
