import assert from "node:assert/strict";
import { sql } from "kysely";
import type { App } from "../../src/app.ts";
import { createLog } from "../../src/log.ts";
import { sweepDue } from "../../src/jobs/due-work.ts";
import type { PlayersOf } from "../../src/domain/progression/moved-ends.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import { BATCH, withTimeouts } from "../../src/domain/kernel/timeouts.ts";
import { createPlanCache } from "../../src/domain/progression/plan.ts";
import { FIRST_PROJECT } from "../../src/domain/progression/queue.ts";
import { createStatsRecorder, type StatsRecorder } from "../../src/domain/evaluation/running/stats.ts";
import { claimParts, type Domain, publish, userIn } from "../support/domain/domain.ts";
import { startDatabase } from "../support/processes/services.ts";

/** How long the transactions of these tests may stand still, in ms. */
const IDLE_MS = 300;
/** CPU of a slow event or step, in ms: more than that. */
const SLOW_MS = 600;
const PART = 3;

const cpuMs = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
};
const compute = (ms: number): void => {
  for (const untilMs = cpuMs() + ms; cpuMs() < untilMs;);
};
const block = (ms: number): void => {
  for (const untilMs = performance.now() + ms; performance.now() < untilMs;);
};

describe("work that computes for longer than its transaction may stand still", () => {
  let domain: Domain;
  let remove: () => Promise<void>;
  before(async () => {
    ({ domain, remove } = await startDatabase(4));
  });
  after(() => remove());

  it("goes on when others take the process between its events: the transaction is kept", async () => {
    const projectId = await domain.addProject();
    await publish(domain, projectId, { key: "plain" });
    const user = userIn(projectId, PART);
    await domain.track(projectId, [{ user }, { user }, { user }, { user }]);
    const recorder = createStatsRecorder();
    // Long enough for a rest after it, in which others block the process.
    const considered = (): void => {
      compute(20);
      setImmediate(() => block(BATCH.idleMs / 2.5));
    };
    const openBatch: StatsRecorder["openBatch"] = () => ({
      ...recorder.openBatch(),
      observerOf: () => considered,
    });
    const options = {
      transact: domain.transact,
      plans: createPlanCache(),
      claimLimit: 100,
      stats: { ...recorder, openBatch },
      onError: (error: unknown) => assert.fail(String(error)),
      onLeft: () => assert.fail("left"),
    };
    const places = [{ part: PART, afterProject: FIRST_PROJECT }];
    const { events } = await withTimeouts(BATCH, () => claimParts(options, places));
    assert.equal(events, 4);
  });

  it("players for whom something is due are left out, and those after them have their turn", async () => {
    const projectId = await domain.addProject();
    const playerIds = await Promise.all(["a", "b", "c"].map((user) => domain.addPlayer(projectId, user)));
    await domain.transact(async ({ db }) => {
      await sql`create table due_things (project_id uuid, player_id uuid, expires_at timestamptz)`.execute(
        db,
      );
      for (const [i, id] of playerIds.entries())
        await sql`insert into due_things
          values (${projectId}, ${id}, now() - interval '1 hour' + ${i} * interval '1 second')`.execute(db);
    });
    const lines: string[] = [];
    const log = createLog({ logLevel: "info" }, { write: (line) => void lines.push(line) });
    const app = { transact: domain.transact, limits: {}, log } as App;
    const settled: string[] = [];
    const settle = async ({ db, afterCommit }: Work, { playerIds: ids }: PlayersOf): Promise<void> => {
      await sql`select 1`.execute(db);
      if (ids.includes(playerIds[0]!)) compute(SLOW_MS);
      await sql`select 1`.execute(db);
      afterCommit(() => void settled.push(...ids));
    };
    await withTimeouts({ ...BATCH, idleMs: IDLE_MS }, () =>
      sweepDue(app, { due: { table: "due_things" }, settle }),
    );
    assert.deepEqual(settled, playerIds.slice(1));
    assert.equal(lines.filter((line) => line.includes(playerIds[0]!)).length, 1);
  });
});
