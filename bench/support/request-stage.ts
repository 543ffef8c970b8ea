import { join } from "node:path";
import { Redis } from "ioredis";
import type { EntryChange } from "../../src/domain/kernel/events/events.ts";
import { createRedisRanks } from "../../src/platform/redis-ranks.ts";
import { freePort } from "../../test/support/processes/process.ts";
import { type Box, openBox } from "./box.ts";
import { type Child, MAIN, startChild, supportFile } from "./children.ts";
import { fillBoards, keyOf, unlimit, untilBuilt } from "./filled-boards.ts";
import { playerIdOf } from "./rank-floor.ts";
import { createSite, post, type Site, untilReady } from "./setup.ts";

export const MEMBERS = 10_000;
/** Players that requests name in turn. */
const NAMED = 500;

/** A cluster of one web process and one worker, with a board of MEMBERS, and the floors beside it. */
export type RequestStage = {
  box: Box;
  site: Site;
  port: number;
  web: Child;
  worker: Child;
  floors: Child;
  redisPid: number;
  /** Changes the board in the rank index, as another process would, until it is called. */
  keepChanging(): () => void;
  close(): Promise<void>;
};

/** Changes of the board per second while it keeps changing. */
const CHANGES = 20;

const changer = (box: Box, ref: { projectId: string; periodId: string }) => {
  const redis = new Redis(box.env["REDIS_URL"]!);
  const ranks = createRedisRanks(redis, box.env["REDIS_NAMESPACE"]!, async function* () {});
  let version = 1_000_000;
  const keepChanging = (): (() => void) => {
    const timer = setInterval(() => {
      const n = version++ % 50;
      // Among the first places, so that every page of them is another one.
      const entry: EntryChange = [playerIdOf(n * 190), -900_000 - (version % 90_000), version, version];
      void ranks.apply(ref.projectId, ref.periodId, [entry]);
    }, 1_000 / CHANGES);
    return () => clearInterval(timer);
  };
  return { redis, keepChanging };
};

const redisPidOf = async (redis: Redis): Promise<number> =>
  Number(/process_id:(\d+)/.exec(await redis.info("server"))?.[1]);

/** What a player of a game has beside XP. */
const defineGame = async (site: Site): Promise<void> => {
  for (const key of ["coins", "gems"]) await post(site, "/currencies", { key, name: key });
  await post(site, "/badges", { key: "first", name: "First" });
  for (let n = 0; n < NAMED; n++) {
    const path = `/players/${namedPlayer(n)}`;
    await post(site, `${path}/balances/coins/grant`, { amount: 100 + n, reason: "start" });
    await post(site, `${path}/badges/first`, {});
  }
};

const namedPlayer = (n: number): string => playerIdOf(Math.floor((n * MEMBERS) / NAMED));

export const openRequestStage = async (dir: string): Promise<RequestStage> => {
  const [box, port] = [await openBox(dir), await freePort()];
  const outputFile = join(dir, "server.log");
  const env = { ...box.env, PORT: String(port), LOG_LEVEL: "info" };
  const web = await startChild(MAIN, { args: ["serve"], env: { ...env, ROLES: "web" }, outputFile });
  const workerEnv = { ...env, PORT: String(await freePort()), ROLES: "worker" };
  const worker = await startChild(MAIN, { args: ["serve"], env: workerEnv, outputFile });
  const url = `http://127.0.0.1:${port}`;
  await untilReady(url);
  const site = await createSite(url);
  await unlimit(box, site);
  const [board] = await fillBoards(box, site, [MEMBERS]);
  await untilBuilt(site, MEMBERS);
  await defineGame(site);
  const { projectId } = site;
  const { redis, keepChanging } = changer(box, { projectId, periodId: board!.periodId });
  const floors = await startChild(supportFile("floor-server.ts"), {
    args: [projectId, board!.periodId],
    env: box.env,
  });
  const close = async (): Promise<void> => {
    for (const child of [floors, web, worker]) await child.stop();
    redis.disconnect();
    await box.close();
  };
  return { box, site, port, web, worker, floors, redisPid: await redisPidOf(redis), keepChanging, close };
};

type Make = (site: Site) => string[];

const request = (site: Site, first: string, body?: object): string => {
  const text = body === undefined ? "" : JSON.stringify(body);
  const more = text === "" ? [] : ["Content-Type: application/json", `Content-Length: ${text.length}`];
  return [`${first} HTTP/1.1`, "Host: 127.0.0.1", `X-API-Key: ${site.key}`, ...more, "", text].join("\r\n");
};

const BOARD = `/api/v1/leaderboards/${keyOf(MEMBERS)}`;
const each = (make: (n: number) => string): string[] => Array.from({ length: NAMED }, (_, n) => make(n));
const page = (site: Site) => request(site, `GET ${BOARD}/entries?limit=50`);
const around = (site: Site, n: number) => request(site, `GET ${BOARD}/entries?around=${namedPlayer(n)}`);
const submit = (site: Site, n: number) => {
  const score = (n * 104_729) % 1_000_003;
  return request(site, `POST ${BOARD}/scores`, { playerId: namedPlayer(n), score });
};

const event = (site: Site, n: number) =>
  request(site, "POST /api/v1/events", {
    externalUserId: `player-${(n * 104_729) % MEMBERS}`,
    eventType: "level_completed",
    properties: { level: n % 40, points: n % 100, world: "the-whispering-forest" },
  });

/** The kinds of requests, and what is sent in turn. */
export const KINDS: Readonly<Record<string, { make: Make; isChanging?: true }>> = {
  "first 50 places": { make: (site) => [page(site)] },
  "first 50, changing": { make: (site) => [page(site)], isChanging: true },
  "11 around a player": { make: (site) => each((n) => around(site, n)) },
  "a player": { make: (site) => each((n) => request(site, `GET /api/v1/players/${namedPlayer(n)}`)) },
  "a player, includes": {
    make: (site) =>
      each((n) => request(site, `GET /api/v1/players/${namedPlayer(n)}?include=badges,streaks`)),
  },
  balances: {
    make: (site) => each((n) => request(site, `GET /api/v1/players/${namedPlayer(n)}/balances`)),
  },
  "submit a score": { make: (site) => each((n) => submit(site, n)) },
  "single event": { make: (site) => each((n) => event(site, n)) },
  "19 reads : 1 submit": {
    make: (site) =>
      each((n) => (n % 20 === 0 ? submit(site, n) : n % 2 === 0 ? page(site) : around(site, n))),
  },
};
