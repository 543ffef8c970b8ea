import { pino, type DestinationStream, type Logger } from "pino";
import type { Config } from "./config.ts";

const CENSOR = "[redacted]";
const DEPTH_MAX = 6;
const SECRET_NAME =
  /^(authorization|cookie|set-cookie|key|.*(password|secret|token|api-?key|pepper|private-?key)s?)$/i;
/**
 * Matches API keys (all but the part shown as `prefix`), platform and refresh tokens, secrets of webhooks,
 * keys of Stripe, JWTs and bearer values anywhere in a line.
 */
const SECRET_TEXT = new RegExp(
  [
    String.raw`(svc_(?:live|test)_[0-9A-Za-z]{8})[0-9A-Za-z]+`,
    String.raw`(?:svc_(?!live_|test_)[a-z]{1,20}_|whsec_|[rs]k_(?:live|test)_)[\w+/=%-]{8,}`,
    String.raw`eyJ[\w-]{8,}(?:\.[\w-]+){0,2}`,
    String.raw`(Bearer )[\w.~+/=-]+`,
  ].join("|"),
  "g",
);

/**
 * Returns a copy with every value under a secret name censored. Errors and other class instances stay as they
 * are.
 */
const censor = (value: unknown, depth = 0): unknown => {
  if (typeof value !== "object" || value === null) return value;
  if (depth >= DEPTH_MAX) return "[deep]";
  if (Array.isArray(value)) return value.map((item) => censor(item, depth + 1));
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return value;
  const clean = Object.entries(value).map(([name, item]) => [
    name,
    SECRET_NAME.test(name) ? CENSOR : censor(item, depth + 1),
  ]);
  return Object.fromEntries(clean);
};

const censorText = (line: string): string =>
  line.replace(SECRET_TEXT, (_all, prefix?: string, bearer?: string) => `${prefix ?? bearer ?? ""}${CENSOR}`);

/** Serializes a thrown value, which need not be an Error. Of a command of Redis its name is shown only. */
const serializeError = (thrown: unknown): unknown => {
  if (typeof thrown !== "object" || thrown === null) return { type: typeof thrown, message: String(thrown) };
  const shown: Record<string, unknown> = { ...pino.stdSerializers.err(thrown as Error) };
  const { command, previousErrors: _previous, ...rest } = shown;
  const name = (command as { name?: unknown } | undefined)?.name;
  return censor(typeof name === "string" ? { ...rest, command: name } : rest);
};

/** Formats one line for people: time, level, message, then the rest as name=value; a stack below. */
export const prettyLine = (json: string): string => {
  const line = JSON.parse(json) as Record<string, unknown> & { level: string; msg?: string; time: string };
  const { level, msg = "", err, pid: _pid, time, ...rest } = line;
  const fields = Object.entries(rest).map(
    ([name, value]) => ` ${name}=${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  const stack = (err as { stack?: string } | undefined)?.stack;
  const head = `${time.slice(11, 23)} ${level.toUpperCase().padEnd(5)} ${msg}`;
  return `${head}${fields.join("")}\n${stack === undefined ? "" : `${stack}\n`}`;
};

/** Default output: readable lines on a terminal, otherwise JSON, one object per line. */
const standardOutput = (): DestinationStream => {
  const out = pino.destination({ fd: 1, sync: true });
  return process.stdout.isTTY ? { write: (line) => void out.write(prettyLine(line)) } : out;
};

const LINES = {
  base: { pid: process.pid },
  timestamp: pino.stdTimeFunctions.isoTime,
  formatters: { level: (label: string) => ({ level: label }) },
  serializers: { err: serializeError },
};

/**
 * Creates the lines about a start, for where there is no terminal. Unlike those of a log they are written at
 * every LOG_LEVEL, and what they show of a demo's credentials stays readable.
 * @param fd 1: standard output, 2: standard error
 */
export const createStartLines = (fd: 1 | 2): Logger => pino(LINES, pino.destination({ fd, sync: true }));

/**
 * Creates the log of a process. It never contains credentials: values under secret names are censored at any
 * depth, and so is text that looks like an API key or another token of this server, a JWT or a bearer value.
 * `log.child({ requestId })` marks one request.
 */
export const createLog = (
  config: Pick<Config, "logLevel">,
  output: DestinationStream = standardOutput(),
): Logger =>
  pino(
    {
      ...LINES,
      level: config.logLevel,
      formatters: { ...LINES.formatters, log: (fields) => censor(fields) as Record<string, unknown> },
    },
    { write: (line) => output.write(censorText(line)) },
  );
