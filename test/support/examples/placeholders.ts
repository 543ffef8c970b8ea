/** The moment of all examples. */
const MOMENT_MS = Date.parse("2026-01-31T12:00:00.000Z");
const [MINUTE_MS, HOUR_MS, DAY_MS] = [60_000, 3_600_000, 86_400_000];
/** Times further away than these are the callers' own, and the same in every recording. */
const [PAST_MS, FUTURE_MS] = [60 * DAY_MS, 400 * DAY_MS];

/** The same distance from the moment of all examples, in whole minutes; whole days and hours stay whole. */
const movedTime = (ms: number, nowMs: number): number => {
  if (ms < nowMs - PAST_MS || ms > nowMs + FUTURE_MS) return ms;
  const unit = [DAY_MS, HOUR_MS].find((one) => ms % one === 0);
  const floor = (value: number): number => value - (unit === undefined ? 0 : value % unit);
  const distance = ms - floor(nowMs);
  // A few minutes ago is what the recording itself has done.
  if (distance < 0 && distance > -10 * MINUTE_MS) return floor(MOMENT_MS);
  return floor(MOMENT_MS) + Math.round(distance / MINUTE_MS) * MINUTE_MS;
};

/** Obviously no secret, of the length of one. */
const filler = (length: number): string => "EXAMPLE".repeat(Math.ceil(length / 7)).slice(0, length);
const looksRandom = (word: string): boolean => [/[a-z]/, /[A-Z]/, /\d/].every((kind) => kind.test(word));

const PEOPLE = ["ada", "grace", "alan", "olga", "edsger", "barbara"];

/** Returns the name that `make` gives to a value: one of its own for each value, by order of appearance. */
const namer = (make: (index: number) => string) => {
  const names = new Map<string, string>();
  return (value: string): string => {
    if (!names.has(value)) names.set(value, make(names.size));
    return names.get(value)!;
  };
};

type Rule = readonly [pattern: RegExp, replace: (...match: string[]) => string];

const textRules = (nowMs: number): readonly Rule[] => {
  const uuid = namer((i) => `0197c2a0-0000-7000-8000-${String(i + 1).padStart(12, "0")}`);
  const person = namer((i) => PEOPLE[i] ?? `player-${i}`);
  const number = namer((i) => String(i + 1));
  const spare = namer((i) => `exam-pex5-exam-pex${"23456789ab"[i % 10]}`);
  const address = namer((i) => `203.0.113.${i + 7}`);
  return [
    [
      /\b[\w-]+(?=@(?:platform\.)?example\.com)/g,
      (name) => (/[0-9a-f]{8}-[0-9a-f]{4}/.test(name) ? person(name) : name),
    ],
    [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g, uuid],
    [/(?<=[a-z]-)[0-9a-f]{8}-[0-9a-f]{4}\b/g, number],
    [
      /\b\d{4}-\d\d-\d\dT[\d:.]+Z/g,
      (at) => `${new Date(movedTime(Date.parse(at), nowMs)).toISOString().slice(0, at.length - 1)}Z`,
    ],
    [/^\d{4}-\d\d-\d\d$/g, (day) => new Date(movedTime(Date.parse(day), nowMs)).toISOString().slice(0, 10)],
    [/\b[A-Z2-7]{32}\b/g, () => "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"],
    [/\b(?:[a-km-np-z2-9]{4}-){3}[a-km-np-z2-9]{4}\b/g, spare],
    [/[\w-]+(?=%40(?:platform\.)?example\.com)/g, () => "ada"],
    [/^localhost$/g, () => "console.example.com"],
    [/https?:\/\/(?:localhost|127\.0\.0\.1)(?::\d+)?/g, () => "https://laurel.example.com"],
    [/\bshit\b/g, () => "noob"],
    [/(?<=join )A studio\b/g, () => "Analytical Games"],
    [/\btest\.example\b/g, () => "example.com"],
    [/\b10(?:\.\d+){3}\b/g, address],
    [/\beyJ[\w-]+\.[\w-]+\.[\w-]+/g, () => "header.payload.signature"],
    [/\b(svc_[a-z]+_)(\w+)/g, (_all, kind = "", rest = "") => kind + filler(rest.length)],
    [/\b(whsec_)[\w+/]+/g, (all, kind = "") => kind + filler(all.length - kind.length)],
    [/\b[0-9a-f]{32,}\b/g, (all) => "0123456789abcdef".repeat(4).slice(0, all.length)],
    [/[\w-]{20,}/g, (word) => (looksRandom(word) ? filler(word.length) : word)],
  ];
};

/** What is random, or depends on the machine. */
const OF_MACHINE: Readonly<Record<string, unknown>> = {
  rssBytes: 268_435_456,
  heapUsedBytes: 134_217_728,
  pid: 4242,
  host: "web-1",
  processId: "Xk3fQ9wRa",
  sessionId: "bT7cW2mLe",
  secretHint: "LEE=",
  micros: 850,
  durationMs: 42,
};
const LOBBY_CODE = /^[A-Z0-9]{6}$/;

/** Names of the tests that a reader has no use for. */
const NAMES: Readonly<Record<string, string>> = {
  "Test Owner": "Ada Lovelace",
  "Test Admin": "Ada Lovelace",
  "Test Studio": "Analytical Games",
  "A studio": "Analytical Games",
  "Test Game": "Difference Engine",
  "Test key": "Game server",
  "A key": "Game server",
  "A machine": "Build server",
  "A VIEWER": "Grace Hopper",
  "a-secret-of-the-sweeps": `whsec_${filler(43)}=`,
  Swept: "Asked for by mail",
  swept: "lesson.completed",
};

const movedNumber = (value: number, nowMs: number): number => {
  const isSeconds = Math.abs(value * 1_000 - nowMs) < FUTURE_MS;
  return isSeconds ? movedTime(value * 1_000, nowMs) / 1_000 : value;
};

/**
 * Returns an answer as an example shows it: ids and times as in every recording, people, hosts and addresses
 * that belong to nobody, and no secrets.
 * @param nowMs when the answer came
 */
export const withPlaceholders = (answer: unknown, nowMs: number): unknown => {
  const rules = textRules(nowMs);
  const text = (value: string): string =>
    NAMES[value] ?? rules.reduce((sofar, [pattern, replace]) => sofar.replace(pattern, replace), value);
  const go = (value: unknown, name: string): unknown => {
    if (typeof value === typeof OF_MACHINE[name]) return OF_MACHINE[name];
    if (name === "code" && typeof value === "string" && LOBBY_CODE.test(value)) return "K7WG5M";
    if (typeof value === "string") return text(value);
    if (typeof value === "number") return movedNumber(value, nowMs);
    if (Array.isArray(value)) return value.map((one) => go(one, name));
    if (typeof value !== "object" || value === null) return value;
    // Readers of the document would follow a reference, wherever it stands.
    const fields = Object.entries(value).filter(([key]) => key !== "$ref");
    return Object.fromEntries(fields.map(([key, one]) => [text(key), go(one, key)]));
  };
  return go(answer, "");
};
