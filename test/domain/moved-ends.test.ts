import assert from "node:assert/strict";
import { ADVENTURE_ENDS } from "../../src/domain/economy/adventures/change-adventures.ts";
import { ENDS_PAGE, followEnd, movedEnds } from "../../src/domain/progression/moved-ends.ts";
import { define, memoryDomain } from "../support/domain/domain.ts";

const PLAYERS = 2 * ENDS_PAGE + 300;
const FAR = "2099-01-01T00:00:00.000Z";

describe("an adventure whose end is moved", () => {
  const { domain } = memoryDomain();
  let projectId: string;

  beforeEach(async () => {
    projectId = await domain.addProject();
    await define(domain, projectId, "quest", {
      key: "act",
      name: "Act",
      steps: [
        { key: "a", name: "A", kind: "EVENT", metric: { eventTypes: ["a"], aggregate: "count" }, target: 1 },
      ],
    });
    const times = { startsAt: "2026-01-01T00:00:00Z", endsAt: FAR, claimUntil: FAR };
    const items = [{ questKey: "act", order: 1 }];
    await define(domain, projectId, "adventure", { key: "season", name: "Season", ...times, items });
    await domain.sql`
    with made as (
      insert into players (project_id, id, external_user_id, created_at, updated_at)
      select ${projectId}, gen_random_uuid(), 'p' || n, now(), now() from generate_series(1, ${PLAYERS}) n
      returning id, external_user_id)
    insert into player_adventures (project_id, player_id, adventure_key, id, adventure_version, state,
      points, started_at, completed_at, doc, due_at, updated_at)
    select ${projectId}, id, 'season', gen_random_uuid(), 1,
      case when right(external_user_id, 1) = '1' then 'COMPLETED' else 'IN_PROGRESS' end, 0, now(), null,
      '{"items": {}, "unlocked": [], "tiers": {}}', ${FAR}::timestamptz, now()
    from made returning 1`;
  });

  /** With players who have got further by the new version. */
  const moveTo = (endsAt: string, claimUntil: string) =>
    domain.sql`
    with raised as (update projects set config_version = config_version + 1 where id = ${projectId}),
    further as (update player_adventures set adventure_version = adventure_version + 1
      where project_id = ${projectId})
    update definitions set version = version + 1,
      definition = definition
        || jsonb_build_object('endsAt', ${endsAt}::text, 'claimUntil', ${claimUntil}::text)
    where project_id = ${projectId} and kind = 'adventure' returning 1`;
  const step = () =>
    domain.transact(async (work) => {
      const [moved] = await movedEnds(work, ADVENTURE_ENDS, projectId);
      return moved ? followEnd(work, ADVENTURE_ENDS, moved) : "NOTHING";
    });
  /** How many rows are due when, by their state. */
  const due = async (): Promise<Record<string, number>> => {
    const rows = await domain.sql<{ due: string; n: string }>`
      select state || ' ' || to_char(due_at at time zone 'UTC', 'YYYY') as due, count(*) as n
      from player_adventures where project_id = ${projectId} group by 1 order by 1`;
    return Object.fromEntries(rows.map(({ due: when, n }) => [when, Number(n)]));
  };
  const completed = PLAYERS / 10;
  const open = PLAYERS - completed;

  it("to an earlier time makes all rows due by it, a page at a time, whatever fails on the way", async () => {
    await moveTo("2031-01-01T00:00:00Z", "2032-01-01T00:00:00Z");
    await assert.rejects(
      domain.transact(async (work) => {
        const [moved] = await movedEnds(work, ADVENTURE_ENDS, projectId);
        assert.equal(await followEnd(work, ADVENTURE_ENDS, moved!), "MORE");
        throw new Error("killed");
      }),
      /killed/,
    );
    assert.deepEqual(await due(), { "COMPLETED 2099": completed, "IN_PROGRESS 2099": open });
    assert.equal(await step(), "MORE");
    const first = await due();
    assert.equal(first["COMPLETED 2032"]! + first["IN_PROGRESS 2031"]!, ENDS_PAGE);
    assert.deepEqual([await step(), await step(), await step()], ["MORE", "DONE", "NOTHING"]);
    assert.deepEqual(await due(), { "COMPLETED 2032": completed, "IN_PROGRESS 2031": open });
  });

  it("again while that goes on begins anew", async () => {
    await moveTo("2031-01-01T00:00:00Z", "2032-01-01T00:00:00Z");
    assert.equal(await step(), "MORE");
    await moveTo("2028-01-01T00:00:00Z", "2032-01-01T00:00:00Z");
    assert.deepEqual([await step(), await step(), await step()], ["MORE", "MORE", "DONE"]);
    assert.deepEqual(await due(), { "COMPLETED 2032": completed, "IN_PROGRESS 2028": open });
  });

  it("to a later time touches no row", async () => {
    await moveTo("2031-01-01T00:00:00Z", "2032-01-01T00:00:00Z");
    while ((await step()) === "MORE");
    await moveTo("2033-01-01T00:00:00Z", "2034-01-01T00:00:00Z");
    while ((await step()) === "MORE");
    assert.deepEqual(await due(), { "COMPLETED 2032": completed, "IN_PROGRESS 2031": open });
  });

  it("or changed otherwise is due at once for players who have not got further by it", async () => {
    await domain.sql`update player_adventures set adventure_version = 0 returning 1`;
    await moveTo(FAR, FAR);
    await domain.sql`update player_adventures set adventure_version = 2 where player_id = any(array(
      select player_id from player_adventures
      where project_id = ${projectId} and state = 'IN_PROGRESS' limit 70)) returning 1`;
    while ((await step()) === "MORE");
    const now = `IN_PROGRESS ${new Date().getUTCFullYear()}`;
    const finished = now.replace("IN_PROGRESS", "COMPLETED");
    assert.deepEqual(await due(), { [finished]: completed, [now]: open - 70, "IN_PROGRESS 2099": 70 });
  });
});
