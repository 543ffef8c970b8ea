// Subscribers in a process of their own: they join, count what arrives, and some of them speak.
import { Agent, request } from "node:http";
import {
  type Dialect,
  openWire,
  ROOM,
  roomMessage,
  roomMessageHead,
  type Wire,
  type WireEvents,
} from "./fanout-wire.ts";
import { percentile } from "./stats.ts";

/** Where and how to join. `say` and `heard`: the types of messages of a room. */
export type Target = {
  dialect: Dialect;
  /** Clients take turns between the ports. */
  ports: readonly number[];
  room: string;
  options: object;
  say: string;
  heard: string;
};
export type ClientOrder =
  | { kind: "join"; target: Target; tokens: readonly string[]; count: number; atOnce: number }
  /** Says so many messages and waits until each client has heard `expected`. */
  | ({ kind: "publish"; tag: string; messages: number; expected: number } & Manner)
  /** What each client has got since it was last asked. */
  | { kind: "count" }
  | { kind: "leave" };
/** How many speak, and with how many messages on their way, or how often in a second whatever is heard. */
export type Manner = { speakers: number } & ({ window: number } | { rate: number });
/** Times in ms. */
export type Joined = { count: number; p50Ms: number; p99Ms: number };
export type Heard = { heard: number; bytes: number; seconds: number };
/** By client; `bytes` are those of the patches of the first client, with the heads of frames. */
export type Counted = { heard: number[]; patches: number[]; bytes: number };
export type Failed = { failed: string };

type Subscriber = { wire: Wire; heard: number; heardBytes: number; patches: number; patchBytes: number };

const JOIN_MAX_MS = 30_000;
const HEAR_MAX_MS = 30_000;
const PACE_EVERY_MS = 5;
/** Bytes of what is said. */
const CONTENT_BYTES = 200;
const WORDS = "amber birch cedar delta ember fjord grove harbour island juniper kestrel lagoon meadow".split(
  " ",
);

const agent = new Agent({ keepAlive: true, maxSockets: 64 });
let target: Target | undefined;
let subscribers: Subscriber[] = [];
/** What each subscriber has heard by the end of the last round, and the bytes of all. */
let told = { heard: 0, bytes: 0 };
let isLeaving = false;
let broken: string | undefined;
/** Told of each message that a subscriber hears. */
let onHeard: ((at: number, payload: Buffer) => void) | undefined;

type Seat = { processId: string; roomId: string; sessionId: string };

const reserve = (port: number, { room, options }: Target, token: string | undefined): Promise<Seat> =>
  new Promise((resolve, reject) => {
    const body = JSON.stringify(options);
    const headers = {
      "Content-Type": "application/json",
      "Content-Length": String(Buffer.byteLength(body)),
      ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
    };
    const path = `/matchmake/joinOrCreate/${room}`;
    const sent = request({ host: "127.0.0.1", port, path, method: "POST", headers, agent }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString();
        if (response.statusCode === 200) resolve(JSON.parse(text) as Seat);
        else reject(new Error(`seat: ${response.statusCode} ${text}`));
      });
    });
    sent.on("error", reject);
    sent.end(body);
  });

/** Says what a new socket must say, and tells when it has joined. */
const greet = (dialect: Dialect, wire: () => Wire, joined: () => void) => {
  if (dialect === "ws") return { onOpen: joined, isJoin: () => false };
  if (dialect === "socket.io") {
    const isJoin = (payload: Buffer): boolean => {
      const text = payload.toString("latin1", 0, 2);
      if (text.startsWith("0")) wire().send("40");
      else if (text === "40") joined();
      else if (text === "2") wire().send("3");
      else return false;
      return true;
    };
    return { onOpen: () => undefined, isJoin };
  }
  const isJoin = ([first]: Buffer): boolean => {
    if (first === ROOM.JOIN) wire().send(Buffer.from([ROOM.JOIN]));
    else if (first === ROOM.STATE) joined();
    else return false;
    return true;
  };
  return { onOpen: () => undefined, isJoin };
};

const classify = ({ dialect, heard }: Target): ((payload: Buffer) => "heard" | "patch" | undefined) => {
  if (dialect === "ws") return () => "heard";
  if (dialect === "socket.io") return ([a, b]) => (a === 0x34 && b === 0x32 ? "heard" : undefined);
  const head = roomMessageHead(heard);
  return (payload) => {
    if (payload[0] === ROOM.PATCH) return "patch";
    return payload.subarray(0, head.length).equals(head) ? "heard" : undefined;
  };
};

const openOne = (where: Target, port: number, path: string): Promise<void> =>
  new Promise((resolve, reject) => {
    const kindOf = classify(where);
    const at = subscribers.length;
    const own: Subscriber = { wire: undefined!, heard: 0, heardBytes: 0, patches: 0, patchBytes: 0 };
    subscribers.push(own);
    const { onOpen, isJoin } = greet(where.dialect, () => own.wire, resolve);
    const onMessage: WireEvents["onMessage"] = (payload, bytes) => {
      if (isJoin(payload)) return;
      const kind = kindOf(payload);
      if (kind === "patch") {
        own.patches++;
        own.patchBytes += bytes;
      } else if (kind === "heard") {
        own.heard++;
        own.heardBytes += bytes;
        onHeard?.(at, payload);
      }
    };
    const onClose = (reason: string): void => {
      const text = `socket ${at} of ${subscribers.length}: ${reason}`;
      if (!isLeaving) broken ??= text;
      reject(new Error(text));
    };
    own.wire = openWire(port, path, { onOpen, onMessage, onClose });
  });

const joinOne = async (where: Target, n: number, token: string | undefined): Promise<void> => {
  const port = where.ports[n % where.ports.length]!;
  if (where.dialect === "ws") return openOne(where, port, "/");
  if (where.dialect === "socket.io") return openOne(where, port, "/socket.io/?EIO=4&transport=websocket");
  const { processId, roomId, sessionId } = await reserve(port, where, token);
  return openOne(where, port, `/${processId}/${roomId}?sessionId=${sessionId}`);
};

const join = async (order: ClientOrder & { kind: "join" }): Promise<Joined> => {
  target = order.target;
  isLeaving = false;
  broken = undefined;
  const times: number[] = [];
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < order.count) {
      const n = next++;
      const startMs = performance.now();
      await within(JOIN_MAX_MS, "a join", joinOne(order.target, n, order.tokens[n]));
      times.push(performance.now() - startMs);
    }
  };
  await Promise.all(Array.from({ length: order.atOnce }, lane));
  const sorted = times.toSorted((a, b) => a - b);
  return { count: times.length, p50Ms: percentile(sorted, 0.5), p99Ms: percentile(sorted, 0.99) };
};

const within = async <T>(maxMs: number, what: string, promise: Promise<T>): Promise<T> => {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`${what} took more than ${maxMs} ms`)), maxMs);
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
};

/** No two alike, in letters, and always as long. */
const contentOf = (tag: string): string => {
  const words = [tag];
  let bytes = tag.length;
  while (bytes < CONTENT_BYTES) {
    const word = WORDS[Math.floor(Math.random() * WORDS.length)]!;
    words.push(word);
    bytes += word.length + 1;
  }
  return words
    .join(" ")
    .slice(0, CONTENT_BYTES - 1)
    .padEnd(CONTENT_BYTES, "x");
};

const packed = ({ dialect, say }: Target, content: string): Buffer | string => {
  if (dialect === "ws") return content;
  return dialect === "socket.io" ? `42${JSON.stringify([say, content])}` : roomMessage(say, content);
};

/** So many of our messages are on their way at a time, as the first subscriber sees it. */
const publish = async (order: ClientOrder & { kind: "publish" }): Promise<Heard> => {
  const { tag, messages, speakers, expected } = order;
  // Another crowd may have begun before this one: what counts is what was heard since the last round.
  const before = told;
  told = { heard: before.heard + expected, bytes: 0 };
  const { promise: done, resolve } = Promise.withResolvers<void>();
  let [said, complete] = [0, 0];
  const speak = (): void => {
    if (said === messages) return;
    subscribers[said++ % speakers]!.wire.send(packed(target!, contentOf(tag)));
  };
  onHeard = (at, payload) => {
    const own = subscribers[at]!;
    if ("window" in order && at === 0 && payload.includes(tag)) speak();
    if (own.heard === told.heard && ++complete === subscribers.length) resolve();
  };
  const startMs = performance.now();
  const speakUntil = (due: number): void => {
    while (said < Math.min(due, messages)) speak();
  };
  const pace = (rate: number) =>
    setInterval(() => speakUntil(((performance.now() - startMs) * rate) / 1_000), PACE_EVERY_MS);
  const timer = "rate" in order ? pace(order.rate) : undefined;
  if ("window" in order) speakUntil(order.window);
  try {
    await within(HEAR_MAX_MS, "the last delivery", done);
  } finally {
    clearInterval(timer);
    onHeard = undefined;
  }
  if (broken !== undefined) throw new Error(broken);
  const sum = (field: "heard" | "heardBytes") => subscribers.reduce((total, one) => total + one[field], 0);
  told.bytes = sum("heardBytes");
  return {
    heard: sum("heard") - before.heard * subscribers.length,
    bytes: told.bytes - before.bytes,
    seconds: (performance.now() - startMs) / 1_000,
  };
};

const count = async (): Promise<Counted> => {
  if (broken !== undefined) throw new Error(broken);
  const counted = {
    heard: subscribers.map(({ heard }) => heard),
    patches: subscribers.map(({ patches }) => patches),
    bytes: subscribers[0]?.patchBytes ?? 0,
  };
  for (const one of subscribers) Object.assign(one, { heard: 0, patches: 0, patchBytes: 0 });
  return counted;
};

const leave = async (): Promise<object> => {
  isLeaving = true;
  if (target?.dialect === "colyseus")
    for (const { wire } of subscribers) wire.send(Buffer.from([ROOM.LEAVE]));
  await new Promise((resolve) => setTimeout(resolve, 300));
  for (const { wire } of subscribers) wire.cut();
  subscribers = [];
  told = { heard: 0, bytes: 0 };
  return {};
};

const obey = (order: ClientOrder): Promise<object> => {
  if (order.kind === "join") return join(order);
  if (order.kind === "publish") return publish(order);
  return order.kind === "count" ? count() : leave();
};

process.on("message", (order: ClientOrder) => {
  void obey(order)
    .catch((error: unknown): Failed => ({ failed: String(error) }))
    .then((answer) => process.send?.(answer));
});
for (const event of ["SIGTERM", "disconnect"]) process.on(event, () => process.exit(0));
process.send?.("ready");
