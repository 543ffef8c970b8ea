// Members of one chat room in a process of their own: they speak and note what each of them hears when.
import { MESSAGES_PER_SECOND_MAX } from "../../src/rooms/messages.ts";
import { openWire, ROOM, roomMessage, roomMessageHead, type Wire } from "./fanout-wire.ts";
import { percentile } from "./stats.ts";

/** What the parent asks for; `tag` marks our own messages, `expected` are those of all crowds. */
export type ChatOrder =
  | { kind: "join"; port: number; channelId: string; tokens: readonly string[] }
  /** Speaks as soon as one of the `window` messages on their way was heard, until all `expected` were. */
  | { kind: "flood"; tag: string; messages: number; window: number; expected: number }
  /** Speaks `rate` times a second whatever is heard. */
  | { kind: "pace"; tag: string; messages: number; rate: number; expected: number }
  | { kind: "leave" };
export type ChatFailed = { failed: string };
/** When all was heard; times in ms, of our own messages: from the send until every member has it. */
export type ChatHeard = { seconds: number; p50Ms: number; p99Ms: number; maxMs: number };

type Member = { wire: Wire; heard: number };

/** Codes of a request, and of its answer, whose third byte is 0 for what was accepted. */
const [REQUEST, RESPONSE] = [21, 22];
const HEARD = roomMessageHead("chat.message");
const JOINS_AT_ONCE = 8;
const ORDER_MAX_MS = 120_000;
const PACE_EVERY_MS = 5;
/**
 * Of what a client may say in a second, so that what waits while the server is busy does not end a session: a
 * fast room is measured up to here.
 */
const SHARE_OF_LIMIT = 0.75;
/** Digits that no reading makes a word of. */
const DIGITS = "bdfghklmnp";
const NUMBER_LENGTH = 6;
/** Where a tag has the letter of its crowd, from its end. */
const OWN_AT = -2;
const WORDS = "amber birch cedar delta ember fjord grove harbour island juniper kestrel lagoon meadow".split(
  " ",
);
const CONTENT_WORDS = 8;

let members: Member[] = [];
let isLeaving = false;
let onHeard: ((payload: Buffer) => void) | undefined;
let fail: (error: Error) => void = () => undefined;

const spelled = (n: number): string =>
  Array.from(String(n).padStart(NUMBER_LENGTH, "0"), (digit) => DIGITS[Number(digit)]).join("");

const VALUE_OF = new Uint8Array(256).fill(255);
for (let digit = 0; digit < DIGITS.length; digit++) VALUE_OF[DIGITS.charCodeAt(digit)] = digit;

const numberAt = (payload: Buffer, at: number): number => {
  let n = 0;
  for (let i = at; i < at + NUMBER_LENGTH; i++) {
    const digit = VALUE_OF[payload[i]!]!;
    if (digit === 255) throw new Error(`not ours: ${payload.toString("latin1")}`);
    n = 10 * n + digit;
  }
  return n;
};

const isAt = (payload: Buffer, mark: Buffer, at: number): boolean => {
  for (let i = 0; i < mark.length; i++) if (payload[at + i] !== mark[i]) return false;
  return true;
};

/**
 * Finds where a message says whose it is: nearly always where the last one did. All crowds' tags are alike
 * but for their last letter, so that nobody searches in vain in what others said.
 */
const tagFinder = (tag: string): ((payload: Buffer) => number) => {
  const [mark, own] = [Buffer.from(tag.slice(0, OWN_AT)), tag.charCodeAt(tag.length + OWN_AT)];
  let at = 0;
  return (payload) => {
    if (!isAt(payload, mark, at)) at = Math.max(0, payload.indexOf(mark, HEARD.length));
    return isAt(payload, mark, at) && payload[at + mark.length] === own ? at + tag.length : -1;
  };
};

/** No two alike, and words for the filter to look at. */
const contentOf = (tag: string, n: number): string => {
  const words = Array.from({ length: CONTENT_WORDS }, () => WORDS[Math.floor(Math.random() * WORDS.length)]!);
  return `${tag}${spelled(n)} ${words.join(" ")}`;
};

const joinOne = async (order: ChatOrder & { kind: "join" }, token: string): Promise<void> => {
  const { port, channelId } = order;
  const answer = await fetch(`http://127.0.0.1:${port}/matchmake/joinOrCreate/chat`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
    body: JSON.stringify({ channelId }),
  });
  if (!answer.ok) throw new Error(`seat: ${answer.status} ${await answer.text()}`);
  const { processId, roomId, sessionId } = (await answer.json()) as Record<string, string>;
  await new Promise<void>((resolve, reject) => {
    const member: Member = { wire: undefined!, heard: 0 };
    members.push(member);
    member.wire = openWire(port, `/${processId}/${roomId}?sessionId=${sessionId}`, {
      onOpen: () => undefined,
      onMessage: (payload) => {
        if (payload[0] === ROOM.JOIN) member.wire.send(Buffer.from([ROOM.JOIN]));
        else if (payload[0] === ROOM.STATE) resolve();
        else if (isAt(payload, HEARD, 0)) {
          member.heard++;
          onHeard?.(payload);
        } else if (payload[0] === RESPONSE && payload[2] !== 0)
          fail(new Error(`refused: ${payload.toString("latin1", 3)}`));
      },
      onClose: (reason) => {
        const error = new Error(`a socket was ${reason}`);
        if (!isLeaving) fail(error);
        reject(error);
      },
    });
  });
};

const join = async (order: ChatOrder & { kind: "join" }): Promise<object> => {
  const waiting = [...order.tokens];
  const lane = async (): Promise<void> => {
    for (let token = waiting.pop(); token !== undefined; token = waiting.pop()) await joinOne(order, token);
  };
  await Promise.all(Array.from({ length: JOINS_AT_ONCE }, lane));
  return {};
};

/** A request of the SDK; all have the same number, since nobody waits for one answer. */
const speak = (tag: string, n: number): void => {
  const [, ...message] = roomMessage("chat.send", contentOf(tag, n));
  members[n % members.length]!.wire.send(Buffer.from([REQUEST, 1, ...message]));
};

/** Until every member has heard `expected` messages; calls `onFirst` for each of ours that one has. */
const hear = (
  { tag, messages, expected }: ChatOrder & { kind: "flood" | "pace" },
  onFirst: () => void,
): { done: Promise<void>; sentAtMs: Float64Array; latencies: number[] } => {
  const { promise: done, resolve, reject } = Promise.withResolvers<void>();
  fail = reject;
  const findNumber = tagFinder(tag);
  const sentAtMs = new Float64Array(messages);
  const counts = new Uint16Array(messages);
  const latencies: number[] = [];
  for (const member of members) member.heard = 0;
  let left = expected * members.length;
  onHeard = (payload) => {
    left--;
    const at = findNumber(payload);
    if (at >= 0) {
      const n = numberAt(payload, at);
      if (++counts[n]! === 1) onFirst();
      if (counts[n] === members.length) latencies.push(performance.now() - sentAtMs[n]!);
    }
    if (left === 0) resolve();
  };
  return { done, sentAtMs, latencies };
};

const told = async (
  startMs: number,
  { done, latencies }: { done: Promise<void>; latencies: number[] },
): Promise<ChatHeard> => {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error("messages are missing")), ORDER_MAX_MS);
  try {
    await Promise.race([done, late]);
  } finally {
    clearTimeout(timer);
    onHeard = undefined;
  }
  const seconds = (performance.now() - startMs) / 1_000;
  const sorted = latencies.toSorted((a, b) => a - b);
  const [p50Ms, p99Ms, maxMs] = [percentile(sorted, 0.5), percentile(sorted, 0.99), sorted.at(-1)!];
  return { seconds, p50Ms, p99Ms, maxMs };
};

const flood = async (order: ChatOrder & { kind: "flood" }): Promise<ChatHeard> => {
  const startMs = performance.now();
  const perMs = (members.length * MESSAGES_PER_SECOND_MAX * SHARE_OF_LIMIT) / 1_000;
  /** How many may be said now; what was not said in time is not made up for. */
  let [allowed, atMs] = [members.length, startMs];
  let [said, heard] = [0, 0];
  const next = (): void => {
    const nowMs = performance.now();
    allowed = Math.min(members.length, allowed + (nowMs - atMs) * perMs);
    atMs = nowMs;
    for (; allowed >= 1 && said < Math.min(order.messages, heard + order.window); allowed--) {
      hearing.sentAtMs[said] = nowMs;
      speak(order.tag, said++);
    }
  };
  const hearing = hear(order, () => {
    heard++;
    next();
  });
  const timer = setInterval(next, PACE_EVERY_MS);
  try {
    return await told(startMs, hearing);
  } finally {
    clearInterval(timer);
  }
};

const pace = (order: ChatOrder & { kind: "pace" }): Promise<ChatHeard> => {
  const startMs = performance.now();
  let said = 0;
  const hearing = hear(order, () => undefined);
  const timer = setInterval(() => {
    const due = Math.min(order.messages, ((performance.now() - startMs) * order.rate) / 1_000);
    // A message counts from when it was due: who is late does not make it faster.
    for (; said < Math.floor(due); said++) {
      hearing.sentAtMs[said] = startMs + ((said + 1) * 1_000) / order.rate;
      speak(order.tag, said);
    }
    if (said === order.messages) clearInterval(timer);
  }, PACE_EVERY_MS);
  return told(startMs, hearing);
};

const leave = async (): Promise<object> => {
  isLeaving = true;
  for (const { wire } of members) wire.cut();
  members = [];
  isLeaving = false;
  return {};
};

const obey = (order: ChatOrder): Promise<object> => {
  if (order.kind === "join") return join(order);
  if (order.kind === "flood") return flood(order);
  return order.kind === "pace" ? pace(order) : leave();
};

process.on("message", (order: ChatOrder) => {
  void obey(order)
    .catch((error: unknown): ChatFailed => ({ failed: String(error) }))
    .then((answer) => process.send?.(answer));
});
for (const event of ["SIGTERM", "disconnect"]) process.on(event, () => process.exit(0));
process.send?.("ready");
