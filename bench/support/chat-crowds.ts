import { setTimeout as delay } from "node:timers/promises";
import { type Box, type Costs, startCosts } from "./box.ts";
import { ask, type Child, startChild, supportFile } from "./children.ts";
import type { ChatFailed, ChatHeard, ChatOrder } from "./chat-clients.ts";
import type { Stage } from "./fanout-stage.ts";

/** Members who speak and hear: enough that none says more than a client may. */
export const FLOOD_MEMBERS = 240;
/** Their processes. */
const FLOOD_CROWDS = 2;
/** Messages on their way. */
const WINDOW = 800;
/** Who hears at half the rate that is the goal. */
export const PACE_MEMBERS = 100;
/** Compile the code. */
const WARM = { messages: 5_000, window: 100 } as const;
const REST_MS = 1_500;

export type Flooded = { rate: number; serverUs: number; postgresUs: number; foreign: number };
/** CPU in cores, and in ms of 1,000 deliveries. */
export type Paced = ChatHeard & {
  serverCores: number;
  postgresCores: number;
  foreign: number;
  perThousand: { web: number; worker: number; postgres: number };
};

type Crowd = { children: readonly Child[] };
type Talk = { kind: "flood"; messages: number; window: number } | PacedTalk;
type PacedTalk = { kind: "pace"; messages: number; rate: number };

const tell = async <T>({ children }: Crowd, order: (n: number) => ChatOrder): Promise<T[]> => {
  const answers = await Promise.all(children.map((child, n) => ask<T | ChatFailed>(child, order(n))));
  for (const answer of answers) {
    const { failed } = answer as Partial<ChatFailed>;
    if (failed !== undefined) throw new Error(failed);
  }
  return answers as T[];
};

/** Each process of the crowd says its share, and hears all. */
const say = (crowd: Crowd, tag: string, talk: Talk): Promise<ChatHeard[]> => {
  const share = 1 / crowd.children.length;
  return tell<ChatHeard>(crowd, (n) => {
    const common = { tag: `${tag}${"qz"[n]!} `, messages: talk.messages * share, expected: talk.messages };
    return talk.kind === "flood"
      ? { kind: "flood", window: talk.window * share, ...common }
      : { kind: "pace", rate: talk.rate * share, ...common };
  });
};

type Heard = { heard: ChatHeard[]; server: number; costs: Costs };

/** One room of one web process, with so many members. */
const inRoom = async (stage: Stage, [members, crowds]: [number, number], talk: Talk): Promise<Heard> => {
  const server = await stage.startLaurel(1);
  const file = supportFile("chat-clients.ts");
  const children = await Promise.all(Array.from({ length: crowds }, () => startChild(file)));
  const crowd: Crowd = { children };
  try {
    const { ports, options } = server.target;
    const { channelId } = options as { channelId: string };
    const share = members / crowds;
    await tell(crowd, (n) => ({
      kind: "join",
      port: ports[0]!,
      channelId,
      tokens: server.tokens.slice(n * share, (n + 1) * share),
    }));
    await say(crowd, "warm", { kind: "flood", ...WARM });
    // What was said to warm up counts for the limit of each client's messages in a second.
    await delay(REST_MS);
    const { pid } = server.children[0]!;
    const stop = await startCosts(stage.box.pool, [pid, stage.worker.pid, ...children.map((one) => one.pid)]);
    const before = await countRows(stage.box, channelId);
    const heard = await say(crowd, "said", talk);
    const costs = await stop();
    const rows = (await countRows(stage.box, channelId)) - before;
    if (rows !== talk.messages) throw new Error(`${rows} rows of ${talk.messages} messages`);
    await tell(crowd, () => ({ kind: "leave" }));
    return { heard, server: costs.byPid.get(pid)!, costs };
  } finally {
    await Promise.all(children.map((child) => child.stop()));
    await server.stop();
  }
};

const countRows = async ({ pool }: Box, channelId: string): Promise<number> => {
  const { rows } = await pool.query("select count(*) as n from chat_messages where channel_id = $1", [
    channelId,
  ]);
  return Number(rows[0]!["n"]);
};

/** As many messages as the room takes, from sockets to all sockets. @throws Error unless all are stored */
export const runFlood = async (stage: Stage, messages: number): Promise<Flooded> => {
  const talk: Talk = { kind: "flood", messages, window: WINDOW };
  const { heard, server, costs } = await inRoom(stage, [FLOOD_MEMBERS, FLOOD_CROWDS], talk);
  return {
    rate: messages / Math.max(...heard.map(({ seconds }) => seconds)),
    serverUs: (1e6 * server) / messages,
    postgresUs: (1e6 * costs.postgres) / messages,
    foreign: costs.foreign / costs.wall,
  };
};

/** So many messages a second: how long each takes to reach all members. @throws Error as `runFlood` */
export const runPace = async (
  stage: Stage,
  { rate, seconds, members = PACE_MEMBERS }: { rate: number; seconds: number; members?: number },
): Promise<Paced> => {
  const messages = rate * seconds;
  const { heard, server, costs } = await inRoom(stage, [members, 1], { kind: "pace", messages, rate });
  const { wall, postgres, foreign, byPid } = costs;
  const perThousand = (cpuSeconds: number): number => (1e6 * cpuSeconds) / (messages * members);
  return {
    ...heard[0]!,
    serverCores: server / wall,
    postgresCores: postgres / wall,
    foreign: foreign / wall,
    perThousand: {
      web: perThousand(server),
      worker: perThousand(byPid.get(stage.worker.pid)!),
      postgres: perThousand(postgres),
    },
  };
};
