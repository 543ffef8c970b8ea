import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { post, type Site, until } from "../bench/support/stage.ts";
import { startTcpProxy } from "../test/support/faults/tcp-proxy.ts";
import { atRate, joinAll, joinRoom, leaveAll, makePlayers } from "./clients.ts";
import type { AnyRoom, LoadPlayer } from "./clients.ts";
import type { Tally } from "./tally.ts";

/** What a scenario is given. */
type LoadContext = {
  site: Site;
  tally: Tally;
  clients: number;
  seconds: number;
  /** Operations a second over all clients, where the scenario sends at a rate. */
  rate: number;
  /** What is being done now, for the progress line. */
  say(phase: string): unknown;
};

/** What has not come by then is lost, in ms. */
const LATE_MS = 10_000;

const newKey = (): string => `load-${randomUUID().slice(0, 8)}`;

const preparePlayers = ({ site, tally, clients, say }: LoadContext, prefix: string, url = site.url) => {
  say("players");
  return makePlayers(site, clients, { tally, prefix, url });
};

const SEATS = 4;
/** Between two games of a group: a player may join 20 times in 10 s. */
const PAUSE_MS = 1_500;

const startedOf = async (room: AnyRoom): Promise<string> => {
  let matchId = "";
  room.onMessage("lobby.started", ({ data }: { data: { matchId: string } }) => (matchId = data.matchId));
  await until(() => matchId !== "", { maxMs: LATE_MS });
  return matchId;
};

/** One game of one group: create, join, ready, start, results. */
const play = async ({ site, tally }: LoadContext, group: LoadPlayer[], mode: string): Promise<void> => {
  const [host, ...guests] = group;
  const settings = { countdownSeconds: 0 };
  const create = { name: "Load test", mode, minPlayers: SEATS, maxPlayers: SEATS, settings };
  const first = await tally.measure("create and join", () => joinRoom(host!, "lobby", { create }));
  if (!first) return;
  const lobbyIdOf = () => (first.state as { id?: string }).id;
  await until(() => Boolean(lobbyIdOf()), { maxMs: LATE_MS });
  const options = { lobbyId: lobbyIdOf() };
  const others = await joinAll(guests, { tally, name: "lobby", options });
  const rooms = [first, ...others].filter((room) => room !== undefined);
  if (rooms.length === SEATS) {
    const started = rooms.map(startedOf);
    for (const room of rooms)
      await tally.measure("ready", () => room.request("lobby.ready", { ready: true }));
    const startMs = performance.now();
    await tally.measure("start", () => first.request("lobby.start", {}));
    const [matchId, ...more] = new Set(await Promise.all(started));
    tally.time("start to started at all", performance.now() - startMs);
    tally.delivered("started once for all", { expected: 1, received: 1 + more.length });
    const results = group.map(({ playerId }) => ({ playerId, outcome: "DRAW" }));
    const path = `/lobbies/${options.lobbyId}/end`;
    await tally.measure("end by REST", () => post(site, path, { matchId, results }));
  }
  await leaveAll(rooms);
};

const playLobbies = async (context: LoadContext): Promise<void> => {
  const { tally, seconds, say } = context;
  const mode = newKey();
  const clients = Math.ceil(context.clients / SEATS) * SEATS;
  const players = await preparePlayers({ ...context, clients }, mode);
  say("games");
  const endMs = performance.now() + seconds * 1_000;
  const playOn = async (_: unknown, n: number): Promise<void> => {
    const group = players.slice(n * SEATS, (n + 1) * SEATS);
    do {
      await play(context, group, mode).catch((error: unknown) => tally.fail("game", error));
      await delay(PAUSE_MS);
    } while (performance.now() < endMs);
  };
  await Promise.all(Array.from({ length: clients / SEATS }, playOn));
};

const chatInOneChannel = async (context: LoadContext): Promise<void> => {
  const { site, tally, seconds, rate, say } = context;
  const key = newKey();
  const settings = { slowModeSeconds: 0, burstMessages: 0, minuteMessages: 0, profanity: "OFF" };
  const channel = { kind: "PROJECT", key, name: "Load test", settings };
  const { id: channelId } = await post(site, "/chat/channels", channel);
  const players = await preparePlayers(context, key);
  say("joins");
  const rooms = await joinAll(players, { tally, name: "chat", options: { channelId } });
  const readers = rooms.flatMap((room) => (room ? [{ room, seqs: [] as number[] }] : []));
  for (const { room, seqs } of readers)
    room.onMessage("chat.message", ({ data }: { data: { seq: number; content: string } }) => {
      seqs.push(data.seq);
      tally.time("send to a reader", performance.now() - Number(data.content.split(" ")[1]));
    });
  say("messages");
  let acknowledged = 0;
  await atRate({ rate, seconds }, async (n) => {
    const message = { content: `message ${performance.now()} ${n}`, clientMsgId: `${key}-${n}` };
    const { room } = readers[n % readers.length]!;
    if (await tally.measure("send to acknowledgement", () => room.request("chat.send", message)))
      acknowledged++;
  });
  say("last deliveries");
  const isHeard = () => readers.every(({ seqs }) => seqs.length >= acknowledged);
  await until(isHeard, { maxMs: LATE_MS }).catch((error: unknown) => tally.fail("deliveries", error));
  for (const { seqs } of readers) {
    if (!seqs.every((seq, i) => i === 0 || seq === seqs[i - 1]! + 1))
      tally.fail("order", new Error("a reader heard messages out of order or with a gap"));
    tally.delivered("messages to readers", { expected: acknowledged, received: seqs.length });
  }
  await leaveAll(rooms);
};

type Me = { me?: Map<string, { score: number }> } | undefined;
const scoreOf = (room: AnyRoom): number => [...((room.state as Me)?.me?.values() ?? [])][0]?.score ?? 0;

const watchBoard = async (context: LoadContext): Promise<void> => {
  const { site, tally, seconds, rate, say } = context;
  const key = newKey();
  const definition = { metric: { source: "CUSTOM" }, operator: "SUM", sort: "DESC" };
  await post(site, "/leaderboards", { key, name: "Load test", ...definition });
  const players = await preparePlayers(context, key);
  say("joins");
  const options = { leaderboardKey: key, top: 10, around: 2 };
  const rooms = await joinAll(players, { tally, name: "leaderboard", options });
  say("scores");
  const totals = players.map(() => 0);
  const counts = { expected: 0, received: 0 };
  await atRate({ rate, seconds }, async (i) => {
    const n = i % players.length;
    const { playerId } = players[n]!;
    const path = `/leaderboards/${key}/scores`;
    await tally.measure("score to own patch", async () => {
      if (!(await tally.measure("submit score", () => post(site, path, { playerId, score: 1 })))) return;
      counts.expected++;
      const total = (totals[n]! += 1);
      await until(() => scoreOf(rooms[n]!) >= total, { maxMs: LATE_MS });
      counts.received++;
    });
  });
  tally.delivered("scores seen by their player", counts);
  await leaveAll(rooms);
};

/** How long the herd may take to be back, in ms. */
const BACK_MAX_MS = 60_000;
/** Without jitter on purpose. */
const RETRY_MS = 500;

const comeBack = async ({ tally }: LoadContext, player: LoadPlayer, endMs: number): Promise<AnyRoom> => {
  for (;;) {
    try {
      return await joinRoom(player, "player", {});
    } catch (error) {
      if (performance.now() > endMs) throw error;
      tally.time("refused or failed tries", 0);
      await delay(RETRY_MS);
    }
  }
};

const cutHerd = async (context: LoadContext): Promise<void> => {
  const { site, tally, clients, say } = context;
  const { hostname, port } = new URL(site.url);
  const proxy = await startTcpProxy(hostname, Number(port));
  try {
    const players = await preparePlayers(context, newKey(), `http://127.0.0.1:${proxy.port}`);
    say("joins");
    const rooms = await joinAll(players, { tally, name: "player", options: {} });
    let lost = 0;
    for (const room of rooms) {
      // A herd that begins anew, as after a restart: the SDK would take its seats again.
      if (room) room.reconnection.enabled = false;
      room?.onLeave(() => void lost++);
    }
    say("cut");
    await proxy.cut();
    await until(() => lost === rooms.filter(Boolean).length, { maxMs: BACK_MAX_MS });
    await proxy.restore();
    say("everybody comes back");
    const endMs = performance.now() + BACK_MAX_MS;
    const back = await Promise.all(
      players.map((player) => tally.measure("cut to back", () => comeBack(context, player, endMs))),
    );
    tally.delivered("players back", { expected: clients, received: back.filter(Boolean).length });
    await leaveAll(back);
  } finally {
    await proxy.stop();
  }
};

/** `defaults` are of a run that says nothing else. */
export const SCENARIOS = [
  {
    name: "lobby",
    about: "groups of four make a lobby, join, get ready, start and end a game, again and again",
    defaults: { clients: 40, seconds: 10, rate: 0 },
    run: playLobbies,
  },
  {
    name: "chat",
    about: "everybody in one channel hears everything; acknowledgements, deliveries and their order",
    defaults: { clients: 100, seconds: 10, rate: 50 },
    run: chatInOneChannel,
  },
  {
    name: "leaderboard",
    about: "players watch a board and submit scores; how soon each sees their own",
    defaults: { clients: 200, seconds: 10, rate: 100 },
    run: watchBoard,
  },
  {
    name: "herd",
    about: "all sockets are cut at once, and everybody joins again at the same moment",
    defaults: { clients: 500, seconds: 0, rate: 0 },
    run: cutHerd,
  },
];
export type Scenario = (typeof SCENARIOS)[number];
