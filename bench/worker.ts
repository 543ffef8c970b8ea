// How fast one worker processes waiting events, and at what CPU, in builds that take turns: `npm run
// bench:worker -- --against ../other-checkout`. With --embedded, of an embedded server that takes them too.
import { checkXp, GAMES, gameEvent } from "./support/games.ts";
import { load } from "./support/load.ts";
import {
  createSite,
  onStages,
  type Site,
  type Stage,
  startCosts,
  startWorker,
  until,
  type Visited,
  waiting,
} from "./support/stage.ts";
import { type Entrant, inTurns, optionsOf, type Sample } from "./support/turns.ts";

const options = optionsOf({ events: "", games: Object.keys(GAMES).join(",") });
const BATCH = 100;
const EVENTS = Number(options.events || (options.embedded ? 10_000 : 20_000));
/** Of a backlog, while which the new worker compiles its code. */
const WARM_UP = 0.25;
const CONNECTIONS = 16;
/** Counting costs PostgreSQL time. */
const LOOK = { everyMs: 50 };

type Played = { site: Site; events: number };

/** Sends events of a game; `wait` until each is processed. */
const send = async ({ site, ...played }: Played, count: number, wait: boolean): Promise<number> => {
  const make = (n: number) => {
    const events = Array.from({ length: BATCH }, (_, i) => gameEvent(played.events + n * BATCH + i));
    return {
      method: "POST",
      path: `/api/v1/events/batch${wait ? "?wait=true" : ""}`,
      body: { events },
    } as const;
  };
  const { rate } = await load({ ...site, make, connections: CONNECTIONS, count: count / BATCH });
  return rate * BATCH;
};

/** A worker that starts beside a backlog: the last three quarters of it count. */
const drain = async (stage: Stage, played: Played): Promise<Sample> => {
  await send(played, EVENTS, false);
  await stage.sql("vacuum analyze event_q, tracked_events");
  const worker = await startWorker(stage);
  let left = EVENTS;
  const isLeft = (most: number) => async (): Promise<boolean> =>
    (left = (await waiting(stage)).events) <= most;
  await until(isLeft(EVENTS * (1 - WARM_UP)), LOOK);
  const [counted, startMs] = [left, performance.now()];
  const stop = await startCosts([worker.pid], stage.sql);
  await until(isLeft(0), LOOK);
  const seconds = (performance.now() - startMs) / 1_000;
  await until(async () => (await waiting(stage)).commits === 0);
  const { of, postgres } = await stop();
  await worker.stop();
  return {
    "events/s": counted / seconds,
    "worker, CPU us/event": (1e6 * of[0]!) / counted,
    "PostgreSQL, CPU us/event": (1e6 * postgres) / counted,
  };
};

/** An embedded server takes events, and answers when they are processed. */
const takeAndProcess = async ({ web }: Stage, played: Played): Promise<Sample> => {
  const stop = await startCosts([web.pid]);
  const rate = await send(played, EVENTS, true);
  const { of } = await stop();
  return { "events/s": rate, "CPU us/event": (1e6 * of[0]!) / EVENTS };
};

const entrantOf = async ({ name, stage }: Visited, game: keyof typeof GAMES): Promise<Entrant> => {
  const played: Played = { site: await createSite(stage.url), events: 0 };
  await GAMES[game](played.site);
  const measure = async (): Promise<Sample> => {
    const sample = await (options.embedded ? takeAndProcess : drain)(stage, played);
    played.events += EVENTS;
    // A slow machine answers before it has processed.
    await until(
      () =>
        checkXp(played.site, played.events).then(
          () => true,
          () => false,
        ),
      LOOK,
    );
    return sample;
  };
  return { name, measure };
};

const mode = options.embedded ? "embedded" : "cluster";
await onStages({ ...options, mode }, async (visited) => {
  for (const game of options.games.split(",") as (keyof typeof GAMES)[]) {
    const entrants = [];
    for (const one of visited) entrants.push(await entrantOf(one, game));
    await inTurns(`game ${game}, ${EVENTS} events`, entrants, { rounds: Number(options.rounds) });
  }
});
