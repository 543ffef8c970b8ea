import { type Kysely, sql } from "kysely";
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { findDueExports, registerProjects } from "../../src/domain/analytics/warehouse/progress.ts";
import { stampIdsBy } from "../../src/domain/kernel/ids.ts";
import { type Domain, openDomain } from "../support/domain/domain.ts";
import { eventually } from "../support/eventually.ts";
import { freePort, kill, startProcess } from "../support/processes/process.ts";
import { aHistoryProject, play, takeBack } from "../support/reverts/histories.ts";
import { seeded } from "../support/seed.ts";
import { assertLoaded, filesIn, manifestIn, openWarehouse } from "../support/warehouse/stage.ts";
import { ownServices } from "../support/processes/services.ts";

/** What a game's players did: how many, over how many days, and roughly how many events in all. */
type History = { players: number; days: number; events: number };

const DAY_MS = 86_400_000;

/** A number in [0, 1) that is the same for the same numbers. */
const chance = (...of: readonly string[]) =>
  sql.raw(`((hashint8extended(${of.join(" * 1000003::bigint + ")}, 7) & 1048575) / 1048576.0)`);

/** Each type with the share of events up to it. */
const TYPES = { "session.started": 0.2, "match.played": 0.55, "match.won": 0.75, "quiz.done": 1 };
const type = sql.raw(
  `case ${Object.entries(TYPES)
    .map(([name, upTo]) => `when kind < ${upTo} then '${name}'`)
    .join(" ")} end`,
);

/**
 * Fills a project with players who come on any day, more on weekends, return less and less, and play in the
 * evening. The same numbers give the same history, up to the ids of players.
 * @returns how many events there are
 */
const fillHistory = async (
  db: Kysely<unknown>,
  projectId: string,
  { history: { players, days, events }, endMs }: { history: History; endMs: number },
): Promise<number> => {
  const startMs = endMs - days * DAY_MS;
  await sql`
    insert into players (project_id, id, external_user_id, created_at, updated_at)
    select ${projectId}::uuid, gen_random_uuid(), 'player-' || n, now(), now()
    from generate_series(1, ${players}::int) n`.execute(db);
  // Active days of a player are about 1 + 12 on average; so many events on each give the wanted sum.
  const perDay = Math.max(1, Math.round(events / (players * 5.1)));
  await sql`
    with p as (
      select n, floor(${chance("n", "1")} * ${days}::int)::int as born, ${chance("n", "2")} as zeal
      from generate_series(1, ${players}::bigint) n),
    d as (
      select p.n, day, day - p.born as age from p, generate_series(p.born, ${days}::int - 1) day
      where day = p.born or ${chance("p.n", "day")} <
        (0.15 + 0.6 * p.zeal * p.zeal) * (0.25 + 0.75 * exp(-(day - p.born) / 9.0))
          * case when day % 7 in (0, 6) then 1.25 else 1 end),
    e as (
      select d.n, d.day, i, ${startMs}::bigint + d.day * ${DAY_MS}::bigint
          + floor((0.75 * ${chance("d.n", "d.day", "3")} + 0.2 * ${chance("d.n", "d.day", "i", "5")})
            * ${DAY_MS}::bigint)::bigint as ms,
        ${chance("d.n", "d.day", "i", "11")} as kind
      from d, generate_series(1, greatest(1, (2 * ${perDay}::int * ${chance("d.n", "d.day", "13")})::int)) i)
    insert into tracked_events
      (project_id, id, external_user_id, event_type, properties, occurred_at, received_at)
    select ${projectId}::uuid, (substr(lpad(to_hex(ms), 12, '0'), 1, 12)
        || '7' || substr(md5(n || ' ' || day || ' ' || i), 1, 3)
        || '8' || substr(md5(i || ' ' || day || ' ' || n), 1, 15))::uuid,
      'player-' || n, ${type},
      jsonb_build_object('level', 1 + (n + day) % 40, 'team', (array['red','green','blue'])[1 + n % 3]),
      to_timestamp(ms / 1000.0), to_timestamp(ms / 1000.0)
    from e order by ms`.execute(db);
  await sql`analyze tracked_events, players`.execute(db);
  const { rows } = await sql<{ n: string }>`
    select count(*) as n from tracked_events where project_id = ${projectId}`.execute(db);
  return Number(rows[0]!.n);
};

const KILLS = 10;
const HISTORY = { players: 1_000, days: 12, events: 20_000 };

describe("kill -9 of workers that write files for a warehouse", function () {
  this.timeout(500_000);
  const own = ownServices();
  let domain: Domain;
  before(() => {
    domain = openDomain(own.database);
  });

  /** Has workers begin at once, as if two minutes had passed, or five since the last one died. */
  const passTime = (): Promise<unknown> =>
    domain.transact(async (work) => {
      await registerProjects(work);
      await sql`
        update warehouse_projects set registered_at = now() - interval '1 hour',
          leased_until = now() - interval '1 second', moved_at = now() - interval '1 hour'`.execute(work.db);
    });

  /** Whether no worker has a project in hand, and none is to be taken, as is one whose lease has ended. */
  const isAtRest = (): Promise<boolean> =>
    domain.transact(async (work) => {
      const leased = await sql`select 1 from warehouse_projects where leased_until > now()`.execute(work.db);
      const due = await findDueExports(work, { everyMs: 10_000, lagMs: 120_000, limit: 1 });
      return leased.rows.length + due.length === 0;
    });

  it("leaves a manifest from which each event is loaded once, at any time", async () => {
    const random = seeded();
    const root = join(own.path, "warehouse");
    const filled = await domain.addProject();
    const events = await fillHistory(own.db(), filled, { history: HISTORY, endMs: Date.now() - 3_600_000 });
    // Events are left until they are two minutes old.
    stampIdsBy(() => Date.now() - 3_600_000);
    const played = await aHistoryProject(domain, { boards: [] });
    const ids = await play(domain, played, {
      user: "ada",
      events: [3, 8, 9, 1].map((score) => ({ at: new Date(), properties: { score, game: "a" } })),
    });
    await takeBack(domain, played, ids[1]!);
    stampIdsBy(Date.now);
    const env = { ...own.services.env, WAREHOUSE_URL: `file://${root}`, WAREHOUSE_EVERY_SECONDS: "10" };
    const start = async () => startProcess(["worker"], { ...env, PORT: String(await freePort()) });
    const warehouse = await openWarehouse(root);
    for (let n = 0; n < KILLS; n++) {
      await passTime();
      // Two of them want the same projects.
      const workers = await Promise.all([start(), start()]);
      await delay(random.between(0, 900));
      await Promise.all(workers.map(kill));
      if (manifestIn(root).length > 0) await warehouse.load();
    }
    const early = await warehouse.ask(
      'select count(*)::int as n, count(distinct "eventId")::int as d from events',
    );
    assert.equal(early[0]!["n"], early[0]!["d"]);
    assert.ok(Number(early[0]!["n"]) < events, "the kills came before the end");
    await passTime();
    const last = await start();
    await eventually(async () => (await isAtRest()) && manifestIn(root).length > 0, { timeoutMs: 200_000 });
    last.child.kill("SIGTERM");
    assert.equal(await last.ended, 0);
    await warehouse.load();
    assert.equal(await assertLoaded(domain, warehouse, filled), events);
    assert.equal(await assertLoaded(domain, warehouse, played), ids.length);
    const listed = manifestIn(root);
    for (const { path, bytes, sha256 } of listed) {
      const body = readFileSync(join(root, path));
      assert.deepEqual([body.length, createHash("sha256").update(body).digest("hex")], [bytes, sha256]);
    }
    const ofEvents = listed.filter(({ kind }) => kind !== "ledger" && kind !== "rewards");
    const rows = ofEvents.reduce((sum, one) => sum + one.rows, 0);
    const total = await warehouse.ask("select count(*)::int as n from events");
    assert.equal(rows, total[0]!["n"], "no record is in two files");
    const there = [...filesIn(root).keys()].filter((path) => !path.startsWith("manifest/"));
    assert.deepEqual(
      there.toSorted(),
      listed.map(({ path }) => path).toSorted(),
      "nothing is left lying about",
    );
    warehouse.close();
  });
});
