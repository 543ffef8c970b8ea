// What requests cost that games make most, in builds that take turns and beside the least that they can cost:
// `npm run bench:requests -- --against ../other-checkout --only "score,board"`.
import { GAMES, gameEvent, PLAYERS } from "./support/games.ts";
import { load, type Sending } from "./support/load.ts";
import {
  FLOOR,
  onStages,
  post,
  type Site,
  type Stage,
  start,
  startCosts,
  until,
  waiting,
} from "./support/stage.ts";
import { type Entrant, inTurns, optionsOf, type Sample } from "./support/turns.ts";

const options = optionsOf({ connections: "16", only: "", ms: "3000" });
const [CONNECTIONS, ROUNDS, MS] = [options.connections, options.rounds, options.ms].map(Number) as [
  number,
  number,
  number,
];
const DAY_MS = 86_400_000;
const FIRST_EVENTS = 10_000;
const BATCH = 100;

type Make = (n: number) => Sending;

const get = (path: string): Sending => ({ method: "GET", path: `/api/v1${path}` });
const update = (): Sending => ({ method: "POST", path: "/update" });
const select = (): Sending => ({ method: "GET", path: "/select" });
const send = (path: string, body: object): Sending => ({ method: "POST", path: `/api/v1${path}`, body });
/** Players in an order that no two neighbours of a page follow. */
const player = (n: number): string => `ext:player-${(n * 7_919) % PLAYERS}`;
const dateOf = (daysBack: number): string =>
  new Date(Date.now() - daysBack * DAY_MS).toISOString().slice(0, 10);
/** Each as of a moment of its own, so that no answer is kept. */
const overview = (n: number): string =>
  `overview?from=${dateOf(30)}&to=${dateOf(0)}&compare=previous_period&asOf=${new Date(Date.now() - n).toISOString()}`;
const eventsFrom = (n: number) => Array.from({ length: BATCH }, (_, i) => gameEvent(n * BATCH + i));
const score = (n: number) => ({ playerId: player(n), score: (n * 104_729) % 1_000_003 });

/** Kinds of requests, each with what is the same of the floor's server. */
const KINDS: Readonly<Record<string, { make: Make; floor: Make; connections?: number }>> = {
  "one event": {
    make: (n) => send("/events", gameEvent(n)),
    floor: (n) => ({ method: "POST", path: "/insert", body: gameEvent(n) }),
  },
  "100 events": {
    make: (n) => send("/events/batch", { events: eventsFrom(n) }),
    floor: (n) => ({ method: "POST", path: "/insert", body: { events: eventsFrom(n) } }),
  },
  score: { make: (n) => send("/leaderboards/scores/scores", score(n)), floor: update },
  "grant of XP": { make: (n) => send(`/players/${player(n)}/xp`, { amount: 5 }), floor: update },
  spending: {
    make: (n) => send(`/players/${player(n)}/balances/coins/spend`, { amount: 1 }),
    floor: update,
  },
  "a player": { make: (n) => get(`/players/${player(n)}?include=badges,streaks`), floor: select },
  "board, first 50": { make: () => get("/leaderboards/scores/entries?limit=50"), floor: select },
  "board, around a player": {
    make: (n) => get(`/leaderboards/scores/entries?around=${player(n)}`),
    floor: select,
  },
  "analytics, overview": { make: (n) => get(`/analytics/${overview(n)}`), floor: select, connections: 1 },
};

type Target = { name: string; stage: Stage; url: string; key: string; pids: readonly number[] };

/** CPU of 1,000 requests, with what they leave to a worker. */
const measure = async (
  { stage, url, key, pids }: Target,
  make: Make,
  connections: number,
): Promise<Sample> => {
  const stop = await startCosts(pids, stage.sql);
  const { sent, rate, p50Ms, p99Ms } = await load({ url, key, make, connections, ms: MS });
  await until(async () => Object.values(await waiting(stage)).every((left) => left === 0));
  const { of, postgres } = await stop();
  const [server = 0, worker = 0] = of.map((seconds) => (1e6 * seconds) / sent);
  const database = (1e6 * postgres) / sent;
  return {
    "CPU ms of 1,000": server + worker + database,
    "of it the server": server,
    "of it PostgreSQL": database,
    "requests/s": rate,
    "p50 ms": p50Ms,
    "p99 ms": p99Ms,
  };
};

/** A game that is played, a board that has all players, and money to spend. */
const prepare = async (stage: Stage, site: Site): Promise<void> => {
  await GAMES.economy(site);
  await post(site, "/leaderboards", {
    key: "scores",
    name: "Scores",
    operator: "LATEST",
    metric: { source: "CUSTOM" },
  });
  const first = { ...site, connections: CONNECTIONS };
  await load({ ...first, make: KINDS["100 events"]!.make, count: FIRST_EVENTS / BATCH });
  await until(async () => (await waiting(stage)).events === 0);
  await load({ ...first, make: KINDS["score"]!.make, count: PLAYERS });
  const grant: Make = (n) => send(`/players/${player(n)}/balances/coins/grant`, { amount: 1_000_000 });
  await load({ ...first, make: grant, count: PLAYERS });
};

await onStages({ ...options, hasWorker: true }, async (visited) => {
  const targets: Target[] = [];
  for (const { site, ...one } of visited) {
    await prepare(one.stage, site);
    await one.stage.sql("vacuum analyze");
    targets.push({ ...one, ...site });
  }
  const { stage } = targets[0]!;
  const floor = await start([FLOOR, "http"], { env: stage.env });
  const floorUrl = `http://127.0.0.1:${String(floor.first)}`;
  const target = { name: "floor", stage, url: floorUrl, key: "", pids: [floor.pid] };
  for (const [name, { make, floor: least, connections = CONNECTIONS }] of Object.entries(KINDS)) {
    if (!options.only.split(",").some((part) => name.includes(part))) continue;
    const ours = targets.map((one): Entrant => ({
      name: one.name,
      measure: () => measure(one, make, connections),
    }));
    const entrants = [...ours, { name: "the floor", measure: () => measure(target, least, connections) }];
    await inTurns(`${name}, ${connections} connections`, entrants, { rounds: ROUNDS });
  }
  await floor.stop();
});
