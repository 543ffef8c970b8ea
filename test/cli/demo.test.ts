import assert from "node:assert/strict";
import { join } from "node:path";
import { sql } from "kysely";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, stat } from "node:fs/promises";
import { promisify } from "node:util";
import { DEMO_CURVE } from "../../src/cli/demo-game.ts";
import { buildCurve } from "../../src/domain/evaluation/xp/levels.ts";
import { openEmbeddedDatabase } from "../../src/platform/database.ts";
import { assertInvariants } from "../support/domain/crashing.ts";
import { type Answer, type Client, clientOf, must } from "../support/http/client.ts";
import { DEMO_PLAYERS, demoHistory } from "../../src/cli/demo-history.ts";
import { blocksOf } from "../support/documents/documents.ts";
import { eventually } from "../support/eventually.ts";
import { freePort, kill, type Laurel, laurel, linesOf, temporaryDir } from "../support/processes/process.ts";
import { pluck } from "../support/pluck.ts";

type Counts = {
  events: number;
  keys: number;
  projects: number;
  tenants: number;
  players: number;
  tests: number;
};

/** What is in the database of a stopped server, after holding it against what is always true. */
const examine = async (dataDir: string): Promise<Counts> => {
  const database = await openEmbeddedDatabase(join(dataDir, "pglite"));
  try {
    await assertInvariants(database.em, buildCurve(DEMO_CURVE));
    const result = await sql<Counts>`
      select (select count(*) from tracked_events where idempotency_key like 'demo:%') as events,
        (select count(distinct idempotency_key) from tracked_events) as keys,
        (select count(*) from tracked_events where event_type = 'self_test') as tests,
        (select count(*) from projects) as projects, (select count(*) from tenants) as tenants,
        (select count(*) from players where display_name is not null) as players`.execute(
      database.em.fork().getKysely(),
    );
    return result.rows[0]!;
  } finally {
    await database.close();
  }
};

/** Puts the season into the past, as if this demo had last been started long ago. */
const ageSeason = async (dataDir: string): Promise<void> => {
  const database = await openEmbeddedDatabase(join(dataDir, "pglite"));
  try {
    const past = JSON.stringify({ startsAt: "2026-01-01T00:00:00.000Z", endsAt: "2026-03-01T00:00:00.000Z" });
    const { numAffectedRows } = await sql`
      update definitions set definition = definition || ${past}::jsonb
      where kind = 'adventure' and key = 'season'`.execute(database.em.fork().getKysely());
    assert.equal(numAffectedRows, 2n);
  } finally {
    await database.close();
  }
};

type Ask = (question: string, query: Record<string, string>) => Promise<Answer["body"]>;
type Point = { date: string; value: number; complete: boolean };

const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;

const isWeekend = ({ date }: Point): boolean => [0, 6].includes(new Date(date).getUTCDay());

/** Players come back less often the later. */
const assertRetention = async (ask: Ask): Promise<void> => {
  const { overall } = await ask("retention", { period: "90d", offsets: "1,7,30" });
  const rates = overall.map(({ rate }: { rate: number }) => rate) as [number, number, number];
  assert.ok(rates[0] > 0.1 && rates[0] > rates[1] && rates[1] > rates[2] && rates[2] > 0, String(rates));
};

/** More play at weekends, and more each week; most in the evening. */
const assertRhythm = async (ask: Ask): Promise<void> => {
  const daily = await ask("trends", { metric: "activePlayers", interval: "day", period: "30d" });
  const days = (daily.series[0].points as Point[]).filter(({ complete }) => complete);
  const ofDays = (wanted: boolean): number =>
    mean(days.filter((day) => isWeekend(day) === wanted).map(({ value }) => value));
  assert.ok(ofDays(true) > 1.2 * ofDays(false), `${ofDays(true)} and ${ofDays(false)}`);
  const hourly = await ask("trends", { metric: "events", interval: "hour", period: "30d" });
  const ofHours = (from: number, to: number): number =>
    (hourly.series[0].points as { start: string; value: number }[])
      .filter(({ start }) => new Date(start).getUTCHours() >= from && new Date(start).getUTCHours() < to)
      .reduce((sum, { value }) => sum + value, 0);
  assert.ok(ofHours(18, 22) > 3 * ofHours(2, 12), `${ofHours(18, 22)} and ${ofHours(2, 12)}`);
  const { metrics } = await ask("overview", { period: "30d" });
  assert.ok(metrics.newPlayers.value > metrics.newPlayers.previous, JSON.stringify(metrics.newPlayers));
};

/** Each step of the funnel has fewer players than the one before. */
const assertFunnel = async (ask: Ask): Promise<void> => {
  const steps = "session_started,level_finished,gems_found,boss_defeated";
  const funnel = await ask("funnels", { steps, period: "90d" });
  const players = funnel.steps.map((step: { players: number }) => step.players) as number[];
  assert.equal(players.length, 4);
  for (const [i, count] of players.entries())
    assert.ok(count > 0 && (i === 0 || count < players[i - 1]!), String(players));
};

/** Players whom the rule of the bonus leaves out come less often, and not by chance. */
const assertExperiment = async (ask: Ask): Promise<void> => {
  const found = await ask("experiments/comeback-bonus", { metric: "event:session_started", period: "90d" });
  const [{ treated, control, difference }] = found.metrics;
  assert.ok(treated.players > 100 && control.players > 100, JSON.stringify(found));
  assert.ok(difference.low > 0, JSON.stringify(difference));
};

/** Asserts that analytics of a server's demo look as those of a game do. */
const assertPictures = async (api: Client, key: string): Promise<void> => {
  const ask: Ask = async (question, query) =>
    must(
      await api.get(`/api/v1/analytics/${question}?${new URLSearchParams(query).toString()}`, { key }),
      200,
    );
  for (const one of [assertRetention, assertRhythm, assertFunnel, assertExperiment]) await one(ask);
};

const ROOT = join(import.meta.dirname, "../..");
const START_MAX_MS = 180_000;
const DEMO_LINE = /^.*"commands":.*\n/m;

/** Runs a command as somebody who copied it from the screen. */
const shell = async (command: string): Promise<unknown> => {
  const { stdout } = await promisify(execFile)("bash", ["-c", command], { cwd: ROOT });
  return JSON.parse(stdout) as unknown;
};

const found = (text: string, pattern: RegExp): string => {
  const [, value] = pattern.exec(text) ?? assert.fail(`no ${pattern} in:\n${text}`);
  return value!;
};

/** What a start tells about its demo. */
type Told = {
  key: string;
  password?: string;
  events: number;
  players: number;
  selfTestMs: number;
  season: { endsAt: string; quests: number; tiers: number; players: number };
  commands: { track: string; board: string; goals: string; watch: string };
};
const toldIn = (output: string): Told => JSON.parse(found(output, /^(.*"commands":.*)$/m)) as Told;

type Directory = Awaited<ReturnType<typeof temporaryDir>>;
type Started = { process: Laurel; told: Told };

const isTold = (process: Laurel): Promise<true> =>
  eventually(() => DEMO_LINE.test(process.output()) || undefined, { timeoutMs: START_MAX_MS });

const start = async (env: Record<string, string>): Promise<Started> => {
  const process = laurel(["serve"], env);
  await Promise.race([
    isTold(process),
    process.ended.then((code) => assert.fail(`ended with ${code}:\n${process.output()}`)),
  ]);
  return { process, told: toldIn(process.output()) };
};

const stop = async ({ child, ended }: Laurel): Promise<void> => {
  child.kill("SIGTERM");
  assert.equal(await ended, 0);
};

type Goals = {
  quests: { questKey: string; state: string; steps: { stepKey: string; state: string; value: number }[] }[];
  adventures: { adventureKey: string; state: string; points: number; tiers: object[] }[];
};

/** The number of events does not depend on the day. */
const EVENTS = demoHistory(Date.UTC(2026, 0, 15, 12)).events.length;
/** What the database has once the demo is there. */
const WHOLE = { events: EVENTS, keys: EVENTS, projects: 2, tenants: 1, players: DEMO_PLAYERS };

describe("the demo", function () {
  this.timeout(3 * START_MAX_MS);
  const directories: Directory[] = [];
  const settings = async (): Promise<{ env: Record<string, string>; url: string; dataDir: string }> => {
    const directory = await temporaryDir();
    directories.push(directory);
    const port = await freePort();
    const dataDir = join(directory.path, "data");
    const env = { DATA_DIR: dataDir, PORT: String(port), LOG_LEVEL: "error" };
    return { env, url: `http://localhost:${port}`, dataDir };
  };
  let made: Awaited<ReturnType<typeof settings>> & { key: string };
  after(async () => {
    for (const directory of directories) await directory.remove();
  });

  it("is made by the first start, which prints commands that work as printed", async () => {
    const { env, url, dataDir } = await settings();
    const { process, told } = await start(env);
    const { key, password = "", commands } = told;
    made = { env, url, dataDir, key };
    const lines = linesOf(process.output());
    const ready = lines.find(({ msg }) => msg.endsWith(`is ready on ${url}`));
    const isMaking = lines.findIndex(({ msg }) => msg.startsWith("Making the demo project"));
    assert.ok(ready && isMaking > lines.indexOf(ready), "the server is ready before the demo is");
    assert.deepEqual([ready["url"], ready["docs"]], [url, `${url}/docs`]);
    assert.ok(told.selfTestMs > 0);
    assert.deepEqual([told.players, told.events], [DEMO_PLAYERS, EVENTS]);

    const api = clientOf(url);
    const login = await api.post("/api/v1/auth/login", { email: "demo@localhost", password });
    assert.equal(login.status, 200, JSON.stringify(login.body));
    assert.equal(login.body.user.role, "OWNER");

    const watching = spawn("bash", ["-c", `exec env ${commands.watch}`], { cwd: ROOT });
    let seen = "";
    watching.stdout.on("data", (chunk: Buffer) => (seen += chunk.toString()));
    await eventually(() => seen.includes("session.ready"), { label: "the watcher is in" });
    const tracked = (await shell(commands.track)) as {
      status: string;
      effects: { type: string }[];
    };
    assert.equal(tracked.status, "PROCESSED");
    assert.ok(tracked.effects.filter(({ type }) => type === "player.xp_granted").length >= 2);
    await eventually(() => seen.includes("player.xp "), { label: "the watcher hears of the XP" });
    watching.kill();

    const leaders = (await shell(commands.board)) as {
      data: { rank: number; score: number; displayName: string }[];
      pagination: { total: number };
    };
    assert.deepEqual(pluck(leaders.data, "rank"), [1, 2, 3, 4, 5]);
    assert.match(leaders.data[0]!.displayName, /^[A-Z][a-z]+ [A-Z][a-z]+$/);
    for (const board of ["gems", "hardest-hit", "season"]) {
      const { body } = await api.get(`/api/v1/leaderboards/${board}/entries`, { key });
      assert.ok(body.pagination.total > 100, `${board}: ${body.pagination.total}`);
    }
    const { quests, adventures } = (await shell(commands.goals)) as Goals;
    const steps = quests.map(({ questKey, state, steps: [first, second] }) => {
      return [questKey, state, first!.value, second?.state];
    });
    assert.deepEqual(steps, [
      ["daily-wins", "IN_PROGRESS", 1, undefined],
      ["weekly-hunt", "LOCKED", 0, "LOCKED"],
      ["story", "IN_PROGRESS", 1, "ACTIVE"],
    ]);
    assert.deepEqual(
      adventures.map(({ adventureKey, state, points, tiers }) => [adventureKey, state, points, tiers.length]),
      [["season", "IN_PROGRESS", 0, 10]],
    );
    const veterans = await api.get("/api/v1/players?minLevel=5&limit=1", { key });
    assert.ok(veterans.body.data[0].tags.includes("veteran"));
    await stop(process);
    assert.equal((await stat(join(dataDir, "demo.json"))).mode & 0o777, 0o600);
    assert.ok(!(await readFile(join(dataDir, "demo.json"), "utf8")).includes(password));
  });

  it("has players in the middle of daily and weekly quests, a story and a season", async () => {
    const { env, url, key } = made;
    const { process, told } = await start(env);
    const api = clientOf(url);
    const { season } = told;
    assert.ok(Date.parse(season.endsAt) > Date.now());
    assert.deepEqual([season.quests, season.tiers], [3, 10]);
    const { body } = await api.get("/api/v1/adventures/season/stats", { key });
    assert.ok(body.players > 500 && body.players === season.players, JSON.stringify(body));
    assert.ok(body.states["IN_PROGRESS"] > 500 && body.states["COMPLETED"] > 0, JSON.stringify(body));
    assert.equal(body.premium, 5);
    for (const quest of ["daily-wins", "weekly-hunt", "story"]) {
      const { body: stats } = await api.get(`/api/v1/quests/${quest}/stats`, { key });
      assert.ok(stats.states["CLAIMED"] > 0 && stats.states["IN_PROGRESS"] > 0, JSON.stringify(stats));
    }
    const { players } = demoHistory(0);
    const most = await api.get(`/api/v1/players/ext:${players[0]!.externalUserId}/adventures/season`, {
      key,
    });
    const [tier] = most.body.tiers;
    assert.deepEqual([most.body.premium, tier.claimed, tier.premiumClaimed], [true, true, true]);
    const heroes = await api.get("/api/v1/badges/hero/holders?limit=1", { key });
    assert.ok(heroes.body.pagination.total > 0, JSON.stringify(heroes.body));
    await stop(process);
  });

  it("looks like a game in analytics, as the guide shows it", async () => {
    const { env, url, key } = made;
    const { process } = await start(env);
    await assertPictures(clientOf(url), key);
    const block = blocksOf(await readFile(join(ROOT, "docs/guides/analytics.md"), "utf8")).find(({ text }) =>
      text.includes("experiments/comeback-bonus"),
    );
    const shown = await promisify(execFile)("bash", ["-c", block!.text], {
      env: { ...globalThis.process.env, URL: url, DEMO_KEY: key },
    });
    const answers = shown.stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as object);
    assert.deepEqual(
      ["series", "cohorts", "steps", "ruleKey"].map((field, i) => field in (answers[i] ?? {})),
      [true, true, true, true],
    );
    await stop(process);
  });

  it("is found by npm start later on, its season renewed, and not made again until removed", async () => {
    const { env, url, dataDir, key } = made;
    await ageSeason(dataDir);
    const { PATH = "" } = globalThis.process.env;
    const npm = spawn("npm", ["start"], {
      cwd: ROOT,
      env: { PATH, CONSOLE_BUILD: "off", ...env },
      detached: true,
    });
    let screen = "";
    npm.stdout.on("data", (chunk: Buffer) => (screen += chunk.toString()));
    const ended = once(npm, "close");
    await eventually(() => DEMO_LINE.test(screen), { timeoutMs: START_MAX_MS, label: "npm start is done" });
    assert.ok(screen.includes(`ready on ${url}`));
    assert.ok(!screen.includes("Making the demo"));
    const told = toldIn(screen);
    assert.ok(told.selfTestMs > 0);
    assert.deepEqual([told.key, told.password], [key, undefined]);
    assert.ok(Date.parse(told.season.endsAt) > Date.now());
    const { body: season } = await clientOf(url).get("/api/v1/adventures/season", { key });
    assert.deepEqual([season.status, season.endsAt], ["ACTIVE", told.season.endsAt]);
    globalThis.process.kill(-npm.pid!, "SIGTERM");
    await ended;
    await eventually(() => laurelIsGone(dataDir), { timeoutMs: 60_000, label: "the server has stopped" });
    const { tests, ...counts } = await examine(dataDir);
    assert.equal(tests, 4);
    assert.deepEqual(counts, WHOLE);

    const renewed = laurel(["demo", "password"], env);
    assert.equal(await renewed.ended, 0, renewed.output());
    const removed = laurel(["demo", "remove"], env);
    assert.equal(await removed.ended, 0, removed.output());
    const again = laurel(["serve"], env);
    await eventually(() => again.output().includes("register, then"), { timeoutMs: START_MAX_MS });
    assert.ok(!again.output().includes("svc_test_"));
    const answer = await clientOf(url).get("/api/v1/players", { key });
    assert.equal(answer.status, 401);
    const password = found(renewed.output(), /\/ {2}(\S+)/);
    const login = await clientOf(url).post("/api/v1/auth/login", { email: "demo@localhost", password });
    assert.equal(login.status, 200);
    await stop(again);
  });

  it("is finished without duplicates by the start after one that was killed", async () => {
    const { env, dataDir } = await settings();
    const killed = laurel(["serve"], env);
    await eventually(() => /Making the demo project: [1-9]\d %/.test(killed.output()), {
      timeoutMs: START_MAX_MS,
      label: "half the demo is there",
    });
    await kill(killed);
    assert.doesNotMatch(killed.output(), DEMO_LINE);

    const { process, told } = await start(env);
    assert.ok(told.selfTestMs > 0);
    assert.ok(told.password);
    await stop(process);
    const { tests, ...counts } = await examine(dataDir);
    assert.equal(tests, 1);
    assert.deepEqual(counts, WHOLE);
  });

  it("is not made with DEMO=off", async () => {
    const { env, url } = await settings();
    const process = laurel(["serve"], { ...env, DEMO: "off", LOG_LEVEL: "debug" });
    await eventually(() => process.output().includes("register, then"), { timeoutMs: START_MAX_MS });
    assert.ok(process.output().includes(`ready on ${url}`));
    assert.ok(!process.output().includes("svc_test_"));
    await stop(process);
    // Of everything that the process has written, from the migrations to its end.
    for (const { level, time, msg } of linesOf(process.output())) assert.ok(level && time && msg);
  });
});

/** The name of the owner goes with the server. */
const laurelIsGone = (dataDir: string): Promise<boolean> =>
  stat(join(dataDir, "laurel.pid")).then(
    () => false,
    () => true,
  );
