import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { Client, type Room } from "@colyseus/sdk";
import { ask } from "./children.ts";
import type { Counted } from "./fanout-clients.ts";
import type { FloorOrder } from "./fanout-floors.ts";
import { spend, type Spent } from "./fanout-costs.ts";
import { CLIENTS, CROWDS, joinAll, type Setup } from "./fanout-crowds.ts";
import { type Server, startCrowd } from "./fanout-stage.ts";
import { post } from "./setup.ts";

const TOP = 100;
const CHANGED = 10;
/** Between two changes; a room of so many watchers shows a board four times a second at most. */
const TICK_MS = 400;
/** Changes that compile the code, before what is measured; the loop has as many. */
const WARM_TICKS = 15;
/** Until the last change has arrived everywhere. */
const SETTLE_MS = 1_500;
/** Far enough apart that no change moves a row. */
const STEP = 1_000;
const BASE = 100_000;
/** A changed cell: number of the row, number of the field, and a score as MessagePack writes it. */
const CELL_BYTES = 1 + 1 + 5;
const FRAME_HEAD_BYTES = 4;

export type Patches = {
  /** CPU of a delivery, in us. */
  laurelUs: number;
  floorUs: number;
  /** Of a patch. */
  bytes: number;
  /** Bytes of all patches at one client over those of the changed cells. */
  overhead: number;
  patches: number;
  spent: Spent;
};

type Row = { playerId: string; score: number };
// oxlint-disable-next-line typescript/no-explicit-any -- the state is learnt from the handshake
type AnyRoom = Room<any, any>;

const watch = async ({ target, tokens }: Server): Promise<AnyRoom> => {
  const client = new Client(`http://127.0.0.1:${target.ports[0]!}`);
  client.auth.token = tokens[0]!;
  return client.joinOrCreate(target.room, target.options);
};

/** @throws Error unless the room shows the last score of every row */
const checkRoom = (room: AnyRoom, scores: ReadonlyMap<string, number>): void => {
  const { top } = room.state as { top: Iterable<Row> };
  const rows = [...top];
  const isRight = rows.length === TOP && rows.every(({ playerId, score }) => scores.get(playerId) === score);
  if (!isRight) throw new Error("the room does not show the last scores");
};

/** A board of all players; its first rows are the last players, so that the first ones see no own change. */
const makeBoard = async ({
  stage: { site, players },
}: Setup): Promise<{ key: string; scores: Map<string, number> }> => {
  const key = `board-${randomUUID().slice(0, 8)}`;
  await post(site, "/leaderboards", { key, name: "Board", metric: { source: "CUSTOM" }, operator: "LATEST" });
  const scores = new Map(players.map(({ playerId }, n) => [playerId, BASE + n * STEP]));
  const rows = [...scores].map(([playerId, score]) => ({ playerId, score }));
  for (let from = 0; from < rows.length; from += TOP)
    await post(site, `/leaderboards/${key}/scores/batch`, { scores: rows.slice(from, from + TOP) });
  return { key, scores };
};

/** Changes every tenth row of the first ones, another tenth each time. */
const change = async (
  { stage: { site, players } }: Setup,
  board: Awaited<ReturnType<typeof makeBoard>>,
  tick: number,
) => {
  const leaders = players.slice(-TOP).filter((_, n) => n % (TOP / CHANGED) === tick % (TOP / CHANGED));
  const rows = leaders.map(({ playerId }) => ({ playerId, score: board.scores.get(playerId)! + 1 }));
  for (const { playerId, score } of rows) board.scores.set(playerId, score);
  await post(site, `/leaderboards/${board.key}/scores/batch`, { scores: rows });
};

const tick = async (
  setup: Setup,
  board: Awaited<ReturnType<typeof makeBoard>>,
  ticks: number,
): Promise<void> => {
  for (let n = 0; n < ticks; n++) {
    const dueMs = performance.now() + TICK_MS;
    await change(setup, board, n);
    await delay(Math.max(0, dueMs - performance.now()));
  }
  await delay(SETTLE_MS);
};

/** Patches of our room. */
const runRooms = async (setup: Setup, ticks: number) => {
  const { stage, redis } = setup;
  const board = await makeBoard(setup);
  const laurel = await stage.startLaurel(1);
  const crowd = await startCrowd(CROWDS);
  const options = { leaderboardKey: board.key, top: TOP };
  const server: Server = { ...laurel, target: { ...laurel.target, room: "leaderboard", options } };
  try {
    await joinAll(crowd, server, CLIENTS);
    const room = await watch(server);
    await tick(setup, board, WARM_TICKS);
    await crowd.tell<Counted>(() => ({ kind: "count" }));
    const { spent } = await spend(stage, { server, crowd, redis }, () => tick(setup, board, ticks));
    const counted = await crowd.tell<Counted>(() => ({ kind: "count" }));
    checkRoom(room, board.scores);
    await room.leave();
    await crowd.tell(() => ({ kind: "leave" }));
    const patches = counted.flatMap((one) => one.patches);
    // The players of the changed rows get no more patches than the others: their own row is part of them.
    if (Math.max(...patches) > ticks || Math.min(...patches) < ticks * 0.8)
      throw new Error(`${Math.min(...patches)} to ${Math.max(...patches)} patches for ${ticks} changes`);
    const [first] = counted as [Counted];
    return { spent, patches, bytes: first.bytes / first.patches[0]!, total: first.bytes };
  } finally {
    await crowd.stop();
    await server.stop();
  }
};

/** As many messages of as many bytes, sent in a loop. */
const runFloor = async ({ stage, redis }: Setup, ticks: number, bytes: number): Promise<number> => {
  const server = await stage.startFloor("ws");
  const crowd = await startCrowd(CROWDS);
  const order: FloorOrder = { kind: "ticks", ticks, bytes: Math.round(bytes), everyMs: TICK_MS };
  try {
    await joinAll(crowd, server, CLIENTS);
    await ask(server.children[0]!, { ...order, ticks: WARM_TICKS });
    await delay(SETTLE_MS);
    await crowd.tell<Counted>(() => ({ kind: "count" }));
    const before = await crowd.tell<Counted>(() => ({ kind: "count" }));
    if (before.some(({ heard }) => heard.some((n) => n !== 0))) throw new Error("the floor is not at rest");
    const { spent } = await spend(stage, { server, crowd, redis }, async () => {
      await ask(server.children[0]!, order);
      await delay(SETTLE_MS);
    });
    const counted = await crowd.tell<Counted>(() => ({ kind: "count" }));
    await crowd.tell(() => ({ kind: "leave" }));
    if (counted.some(({ heard }) => heard.some((n) => n !== ticks)))
      throw new Error("the floor lost messages");
    return (1e6 * spent.server) / (ticks * CLIENTS);
  } finally {
    await crowd.stop();
    await server.stop();
  }
};

export const runPatches = async (setup: Setup, ticks: number): Promise<Patches> => {
  const { spent, patches, bytes, total } = await runRooms(setup, ticks);
  const delivered = patches.reduce((sum, n) => sum + n, 0);
  const floorUs = await runFloor(setup, ticks, bytes - FRAME_HEAD_BYTES);
  const overhead = total / (ticks * CHANGED * CELL_BYTES);
  return { laurelUs: (1e6 * spent.server) / delivered, floorUs, bytes, overhead, patches: delivered, spent };
};
