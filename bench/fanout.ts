// What one server's CPU delivers to subscribers, against the smallest programs that do the same.
// See README.md.
import { parseArgs } from "node:util";
import { describeMachine } from "./support/box.ts";
import { type Patches, runPatches } from "./support/fanout-boards.ts";
import { redisPid, type Spent } from "./support/fanout-costs.ts";
import {
  CLIENTS,
  runScaled,
  runSession,
  type Scaled,
  type Session,
  type Setup,
} from "./support/fanout-crowds.ts";
import { type Latency, runLatency } from "./support/fanout-latency.ts";
import { type Contestant, openStage } from "./support/fanout-stage.ts";
import { inBox, save } from "./support/run.ts";
import { calmest, rounded, spread, type Spread, spreadText, table } from "./support/stats.ts";

const PARTS = ["crowd", "patches", "scale", "latency"] as const;
const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    rounds: { type: "string" },
    // 0: nothing but joins.
    messages: { type: "string" },
    rate: { type: "string" },
    only: { type: "string", default: PARTS.join(",") },
    json: { type: "string" },
    profile: { type: "string" },
  },
});
const ROUNDS = Number(options.rounds ?? (options.quick ? 1 : 5));
const MESSAGES = Number(options.messages ?? (options.quick ? 100 : 400));
const TICKS = options.quick ? 12 : 50;
/** Events a second while latency is measured, and for how long. */
const RATE = Number(options.rate ?? (options.quick ? 500 : 5_000));
const LATENCY_S = options.quick ? 10 : 30;
const LATENCY_MAX_MS = 300;
const CONTESTANTS: readonly Contestant[] = ["ws", "socket.io", "colyseus", "colyseus redis", "laurel"];
const only = new Set(options.only.split(","));

type Results = {
  crowd: Map<Contestant, Session[]>;
  patches: Patches[];
  scale: Map<number, Scaled[]>;
  latency: Latency | undefined;
};
type Ratio = { name: string; value: Spread; goal: number; isMost?: boolean };

const say = (what: string, { foreign }: Spent): void =>
  console.error(`${what}: other load ${rounded(foreign)} cores`);

/** Again while other programs are busy, in a run that has the time. */
const calm = <T>(measure: () => Promise<T>, foreignCores: (sample: T) => number): Promise<T> =>
  options.quick ? measure() : calmest(measure, foreignCores);

const add = <K, T>(to: Map<K, T[]>, key: K, sample: T): void =>
  void to.set(key, [...(to.get(key) ?? []), sample]);

const runRound = async (setup: Setup, round: number, results: Results): Promise<void> => {
  const inTurn = <T>(all: readonly T[]) => (round % 2 === 1 ? all : all.toReversed());
  for (const contestant of inTurn(CONTESTANTS.filter((name) => only.has("crowd") || only.has(name)))) {
    const session = await calm(
      () => runSession(setup, contestant),
      ({ broadcast, joins }) => Math.max(broadcast.spent.foreign, joins.spent.foreign),
    );
    add(results.crowd, contestant, session);
    const { broadcast, joins } = session;
    const rates = `${rounded(broadcast.perCpuSecond)} deliveries/CPU s, ${rounded(joins.rate)} joins/s`;
    say(`round ${round}, ${contestant}: ${rates}`, broadcast.spent);
  }
  if (only.has("patches")) {
    const patches = await calm(
      () => runPatches(setup, TICKS),
      ({ spent }) => spent.foreign,
    );
    results.patches.push(patches);
    const costs = `${rounded(patches.laurelUs)} us, floor ${rounded(patches.floorUs)} us`;
    say(`round ${round}, patches: ${costs}`, patches.spent);
  }
  for (const processes of inTurn(only.has("scale") ? [1, 2] : [])) {
    const scaled = await calm(
      () => runScaled(setup, processes),
      ({ spent }) => spent.foreign,
    );
    add(results.scale, processes, scaled);
    say(`round ${round}, ${processes} processes: ${rounded(scaled.rate)} deliveries/s`, scaled.spent);
  }
};

const showCrowd = (crowd: Results["crowd"]): void => {
  const lines = CONTESTANTS.flatMap((name) => {
    const sessions = crowd.get(name);
    if (!sessions) return [];
    const of = (read: (session: Session) => number) => spread(sessions.map(read));
    const cores = (part: "postgres" | "redis" | "worker" | "crowd" | "foreign") =>
      rounded(
        of(({ broadcast: { spent } }) => (part === "foreign" ? spent.foreign : spent[part] / spent.wall))
          .median,
      );
    return [
      [
        name,
        spreadText(of(({ broadcast }) => broadcast.perCpuSecond)),
        rounded(of(({ broadcast }) => broadcast.rate).median),
        rounded(of(({ broadcast }) => broadcast.bytes).median),
        spreadText(of(({ joins }) => joins.rate)),
        spreadText(of(({ joins }) => joins.cpuMs)),
        rounded(of(({ joins }) => joins.p99Ms).median),
        spreadText(of(({ memory }) => memory.rss / 1_024)),
        rounded(of(({ memory }) => memory.heap / 1_024).median),
        ...(["postgres", "redis", "worker", "crowd", "foreign"] as const).map(cores),
      ],
    ];
  });
  const head = [
    "",
    "deliveries/CPU s",
    "deliveries/s",
    "bytes",
    "joins/s",
    "CPU ms/join",
    "join p99 ms",
    "RSS KiB/client",
    "heap KiB/client",
    "PG cores",
    "Redis cores",
    "worker cores",
    "generator cores",
    "other load",
  ];
  console.log(`\n### Broadcast, joins, memory\n\n${table(head, lines)}\n`);
};

const ratiosOfCrowd = (crowd: Results["crowd"]): Ratio[] => {
  const against = (floor: Contestant, read: (session: Session) => number) =>
    spread(
      (crowd.get("laurel") ?? []).flatMap((ours, n) => {
        const theirs = crowd.get(floor)?.[n];
        return theirs ? [read(ours) / read(theirs)] : [];
      }),
    );
  const broadcast = ({ broadcast: { perCpuSecond } }: Session) => perCpuSecond;
  const joins = ({ joins: { rate } }: Session) => rate;
  const joinsCpu = ({ joins: { cpuMs } }: Session) => 1 / cpuMs;
  const rss = ({ memory }: Session) => memory.rss;
  return [
    { name: "broadcast, laurel / ws loop", value: against("ws", broadcast), goal: 0.8 },
    { name: "broadcast, laurel / socket.io", value: against("socket.io", broadcast), goal: 0.95 },
    { name: "broadcast, laurel / colyseus", value: against("colyseus", broadcast), goal: Number.NaN },
    { name: "joins/s, laurel / colyseus", value: against("colyseus", joins), goal: 0.6 },
    { name: "joins/s, laurel / colyseus redis", value: against("colyseus redis", joins), goal: 0.6 },
    { name: "joins/CPU s, laurel / colyseus", value: against("colyseus", joinsCpu), goal: 0.6 },
    { name: "joins/CPU s, laurel / colyseus redis", value: against("colyseus redis", joinsCpu), goal: 0.6 },
    {
      name: "memory of a client, laurel / colyseus",
      value: against("colyseus", rss),
      goal: 1.3,
      isMost: true,
    },
  ];
};

const ratiosOfPatches = (patches: readonly Patches[]): Ratio[] => [
  {
    name: "patches per CPU second, laurel / ws loop of as many bytes",
    value: spread(patches.map(({ laurelUs, floorUs }) => floorUs / laurelUs)),
    goal: 0.75,
  },
  {
    name: "bytes of patches / changed cells",
    value: spread(patches.map(({ overhead }) => overhead)),
    goal: 1.3,
    isMost: true,
  },
];

const ratiosOfScale = (scale: Results["scale"]): Ratio[] => {
  const [one = [], two = []] = [scale.get(1), scale.get(2)];
  const over = (read: (scaled: Scaled) => number) =>
    spread(two.map((sample, n) => read(sample) / read(one[n]!)));
  const perCpu = over(({ perCpuSecond }) => perCpuSecond);
  const twice = { median: 2 * perCpu.median, min: 2 * perCpu.min, max: 2 * perCpu.max };
  return [
    {
      name: "deliveries/s as fast as it goes, 2 processes on 2 cores / 1 on 1",
      value: over(({ rate }) => rate),
      goal: 1.8,
    },
    { name: "twice the deliveries/CPU s of 2 processes / 1, at 400 messages/s", value: twice, goal: 1.8 },
  ];
};

const verdict = ({ value, goal, isMost = false }: Ratio): string => {
  if (Number.isNaN(goal)) return "";
  const isMet = isMost ? value.median <= goal : value.median >= goal;
  return `${isMet ? "met" : "MISSED"}: ${goal}${isMost ? " at most" : ""}`;
};

const showPatches = (patches: readonly Patches[]): void => {
  const of = (read: (one: Patches) => number) => spreadText(spread(patches.map(read)));
  const cpu = of(({ laurelUs }) => laurelUs);
  const floor = of(({ floorUs }) => floorUs);
  console.log(
    `patch of 10 changed rows: ${of(({ bytes }) => bytes)} bytes, ${cpu} us; ws loop ${floor} us\n`,
  );
};

const showLatency = ({ rate, xp, board }: Latency): void => {
  const goal = ({ p99Ms }: Latency["xp"]) =>
    `${p99Ms <= LATENCY_MAX_MS ? "met" : "MISSED"}: p99 ${LATENCY_MAX_MS}`;
  const lines = Object.entries({ "player.xp": xp, "leaderboard patch": board }).map(([name, times]) => [
    name,
    ...[times.samples, times.p50Ms, times.p99Ms].map(rounded),
    goal(times),
  ]);
  console.log(`\nEvent accepted to seen, with ${rounded(rate)} other events/s:\n`);
  console.log(table(["seen as", "events", "p50 ms", "p99 ms", "goal"], lines));
};

const report = ({ crowd, patches, scale, latency }: Results): Ratio[] => {
  if (crowd.size > 0) showCrowd(crowd);
  if (patches.length > 0) showPatches(patches);
  const ratios = [
    ...(crowd.size > 0 ? ratiosOfCrowd(crowd) : []),
    ...(patches.length > 0 ? ratiosOfPatches(patches) : []),
    ...(scale.size > 0 ? ratiosOfScale(scale) : []),
  ];
  const known = ratios.filter(({ value }) => Number.isFinite(value.median));
  const lines = known.map((ratio) => [ratio.name, spreadText(ratio.value), verdict(ratio)]);
  if (lines.length > 0) console.log(table(["ratio", "of the same round", "goal"], lines));
  if (latency) showLatency(latency);
  return known;
};

const main = (): Promise<void> =>
  inBox(async (box, dir) => {
    const results: Results = { crowd: new Map(), patches: [], scale: new Map(), latency: undefined };
    const stage = await openStage(box, dir, { count: CLIENTS, profile: options.profile });
    try {
      const redis = await redisPid(box.env["REDIS_URL"] ?? "");
      const setup: Setup = { stage, redis, messages: MESSAGES };
      for (let round = 1; round <= ROUNDS; round++) await runRound(setup, round, results);
      if (only.has("latency")) results.latency = await runLatency(setup, RATE, LATENCY_S);
    } finally {
      await stage.close();
    }
    const ratios = report(results);
    const { crowd, scale, ...rest } = results;
    const maps = { crowd: Object.fromEntries(crowd), scale: Object.fromEntries(scale) };
    const machine = await describeMachine(box.pool);
    await save({ bench: "fanout", machine, clients: CLIENTS, ...maps, ...rest, ratios }, options.json);
  });

await main();
process.exit(0);
