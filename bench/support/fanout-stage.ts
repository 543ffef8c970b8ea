import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { SignJWT } from "jose";
import { freePort } from "../../test/support/processes/process.ts";
import { startRedis } from "../../test/support/processes/redis-server.ts";
import type { Box } from "./box.ts";
import { ask, type Child, MAIN, startChild, supportFile } from "./children.ts";
import type { ClientOrder, Failed, Target } from "./fanout-clients.ts";
import type { Floor } from "./fanout-floors.ts";
import { GAMES } from "./process-sites.ts";
import { createSite, post, type Site, untilReady } from "./setup.ts";

const PROBE = supportFile("fanout-probe.ts");
/** One address of all processes, which is in their tokens. */
const PUBLIC_URL = "http://localhost:3000";
/** Requests at one time while players are made. */
const AT_ONCE = 32;

export type Contestant = "laurel" | Floor;
/** A server with its subscribers' way to it. */
export type Server = {
  children: readonly Child[];
  target: Target;
  tokens: readonly string[];
  stop(): Promise<void>;
};

/** What all measurements share: a site with players, served by processes that are not measured. */
export type Stage = {
  box: Box;
  site: Site;
  players: readonly { playerId: string; token: string }[];
  /** Answers what is not measured: scores, events, tokens. */
  api: Child;
  worker: Child;
  startFloor(floor: Floor): Promise<Server>;
  startLaurel(processes: number): Promise<Server>;
  close(): Promise<void>;
};

const [simple] = GAMES as [(typeof GAMES)[number]];

/** Limits that no measurement reaches, all of them on. */
const SETTINGS = { slowModeSeconds: 0, burstMessages: 1_000, minuteMessages: 10_000 };

const makePlayers = async (site: Site, count: number) => {
  const players: { playerId: string; token: string }[] = [];
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < count) {
      const n = next++;
      const answer = await post(site, "/auth/ws-token", { externalUserId: `player-${n}` });
      players[n] = { playerId: String(answer["playerId"]), token: String(answer["token"]) };
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  return players;
};

const LISTEN_POLL_MS = 20;

const untilListening = async (port: number): Promise<void> => {
  for (;;) {
    const socket = connect(port, "127.0.0.1");
    const isThere = await Promise.race([
      once(socket, "connect"),
      once(socket, "close").then(() => undefined),
    ]).catch(() => undefined);
    socket.destroy();
    if (isThere) return;
    await delay(LISTEN_POLL_MS);
  }
};

const makeFloors = async (count: number, measured: readonly string[]) => {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const token = (n: number) =>
    new SignJWT({ sub: `player-${n}` })
      .setProtectedHeader({ alg: "EdDSA" })
      .setExpirationTime("1d")
      .sign(privateKey);
  const tokens = await Promise.all(Array.from({ length: count }, (_, n) => token(n)));
  const redis = await startRedis();
  const keyEnv = { BENCH_PUBLIC_KEY: String(publicKey.export({ type: "spki", format: "pem" })) };
  const start = async (floor: Floor): Promise<Server> => {
    const env = { ...keyEnv, ...(floor === "colyseus redis" ? { BENCH_REDIS_URL: redis.url } : {}) };
    const port = await freePort();
    const file = supportFile("fanout-floors.ts");
    const child = await startChild(file, { args: [floor, String(port)], env, execArgv: measured });
    const dialect = floor === "colyseus redis" ? "colyseus" : floor;
    await untilListening(port);
    const target: Target = { dialect, ports: [port], room: "bare", options: {}, say: "say", heard: "heard" };
    return { children: [child], target, tokens, stop: () => child.stop() };
  };
  return { start, close: () => redis.kill() };
};

export type StageOptions = {
  /** Players, and tokens for the floors' rooms. */
  count: number;
  /** Folder for profiles of the measured servers. */
  profile: string | undefined;
};

export const openStage = async (box: Box, dir: string, { count, profile }: StageOptions): Promise<Stage> => {
  const profiling = profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${profile}`];
  const measured = ["--expose-gc", "--import", PROBE, ...profiling];
  const outputFile = join(dir, "servers.log");
  const startWeb = async () => {
    const port = await freePort();
    const env = { ...box.env, PORT: String(port), ROLES: "web", PUBLIC_URL };
    const child = await startChild(MAIN, { args: ["serve"], env, outputFile, execArgv: measured });
    await untilReady(`http://127.0.0.1:${port}`);
    return { child, port };
  };
  const api = await startWeb();
  const worker = await startChild(MAIN, { args: ["worker"], env: { ...box.env, PUBLIC_URL }, outputFile });
  const site = await createSite(`http://127.0.0.1:${api.port}`);
  await box.pool.query(
    `update tenants set plan = 'ENTERPRISE' where id = (select tenant_id from projects where id = $1)`,
    [site.projectId],
  );
  const channel = await post(site, "/chat/channels", {
    kind: "PROJECT",
    key: "all",
    name: "All",
    settings: SETTINGS,
  });
  const channelId = String(channel["id"]);
  const players = await makePlayers(site, count);
  const tokens = players.map(({ token }) => token);
  const floors = await makeFloors(count, measured);
  const startLaurel = async (processes: number): Promise<Server> => {
    const webs = await Promise.all(Array.from({ length: processes }, startWeb));
    const children = webs.map(({ child }) => child);
    const words = { say: "chat.send", heard: "chat.message" };
    const ports = webs.map(({ port }) => port);
    const target: Target = { dialect: "colyseus", ports, room: "chat", options: { channelId }, ...words };
    const stop = async () => void (await Promise.all(children.map((child) => child.stop())));
    return { children, target, tokens, stop };
  };
  await simple.prepare(site);
  const close = async () => {
    await Promise.all([api.child.stop(), worker.stop(), floors.close()]);
  };
  return { box, site, players, api: api.child, worker, startFloor: floors.start, startLaurel, close };
};

/** Processes full of subscribers, which are told the same thing at once. */
export type Crowd = {
  children: readonly Child[];
  tell<T>(order: (n: number) => ClientOrder): Promise<T[]>;
  stop(): Promise<void>;
};

export const startCrowd = async (processes: number): Promise<Crowd> => {
  const file = supportFile("fanout-clients.ts");
  const children = await Promise.all(Array.from({ length: processes }, () => startChild(file)));
  const tell = async <T>(order: (n: number) => ClientOrder): Promise<T[]> => {
    const answers = await Promise.all(children.map((child, n) => ask<T | Failed>(child, order(n))));
    for (const answer of answers) {
      const { failed } = answer as Partial<Failed>;
      if (failed !== undefined) throw new Error(failed);
    }
    return answers as T[];
  };
  const stop = async () => void (await Promise.all(children.map((child) => child.stop())));
  return { children, tell, stop };
};
