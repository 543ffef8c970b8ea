import assert from "node:assert/strict";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { PLAYER_STATE_MAX_BYTES } from "../../src/domain/kernel/limits.ts";
import { Metric, metricId } from "../../src/domain/evaluation/metrics/compile.ts";
import { changePlayers } from "../../src/domain/progression/change.ts";
import { processPartitions } from "../../src/domain/progression/claim.ts";
import { createPlanCache } from "../../src/domain/progression/plan.ts";
import { FIRST_PROJECT } from "../../src/domain/progression/queue.ts";
import { memoryDomain, processAll, publish, usersIn } from "../support/domain/domain.ts";

const PART = 5;
const PLAYERS = 8;
const MIB = 1024 * 1024;

const distinctOf = (type: string): Json => ({ eventTypes: [type], aggregate: "distinct", property: "x" });
const reading = (metric: Json): Json => ({ type: "event_aggregate", metric, op: "gte", value: 1 });

describe("what is kept of a player", () => {
  const { domain } = memoryDomain();

  /** Makes players whose documents have one counter of so many bytes, in pieces that stand `alike` times. */
  const withCounter = async (
    projectId: string,
    users: readonly string[],
    {
      id,
      bytes,
      isNoted = true,
      alike = 1,
    }: { id: string; bytes: number; isNoted?: boolean; alike?: number },
  ): Promise<string[]> => {
    const ids: string[] = [];
    for (const user of users) ids.push(await domain.addPlayer(projectId, user));
    await domain.sql`
      insert into player_states (project_id, player_id, doc, bytes)
      select ${projectId}::uuid, i, jsonb_build_object('c', jsonb_build_object(${id}::text, case
        when ${isNoted}::boolean then repeat(md5(i::text), ${bytes / 32}::int)
        else (select string_agg(repeat(md5(random()::text), ${alike}::int), '')
          from generate_series(1, ${bytes / 32 / alike}::int))
      end)),
        case when ${isNoted}::boolean then ${bytes}::int end
      from unnest(${`{${ids.join(",")}}`}::uuid[]) as u(i)
      on conflict (project_id, player_id) do update set doc = excluded.doc, bytes = excluded.bytes`;
    return ids;
  };
  const docs = (projectId: string): Promise<{ counters: string[]; bytes: number; noted: number }[]> =>
    domain.sql`
      select array(select jsonb_object_keys(doc->'c')) as counters, octet_length(doc::text) as bytes,
        bytes as noted
      from player_states where project_id = ${projectId}`;
  /** How many events each claim takes until none is left. */
  const claims = async (): Promise<number[]> => {
    const onError = (error: unknown): never => assert.fail(String(error));
    const options = { transact: domain.transact, plans: createPlanCache(), claimLimit: 500, onError };
    const taken: number[] = [];
    for (let places = [{ part: PART, afterProject: FIRST_PROJECT }]; places.length > 0;) {
      const done = await processPartitions({ ...options, onLeft: () => assert.fail("left") }, places);
      if (done.events > 0) taken.push(done.events);
      places = [...done.again];
      for (const part of (await done.preparing) ?? []) places.push({ part, afterProject: FIRST_PROJECT });
    }
    return taken;
  };

  it("is loaded by a claim for no more players than fit in hand, and the next claims go on", async () => {
    const projectId = await domain.addProject();
    const metric = distinctOf("big");
    await publish(domain, projectId, { key: "big", conditions: { all: [reading(metric)] } });
    const users = usersIn(projectId, PART, PLAYERS);
    await withCounter(projectId, users, { id: metricId(Metric.parse(metric)), bytes: 2 * MIB });
    await domain.track(
      projectId,
      users.map((user) => ({ user, type: "unheard" })),
    );
    const taken = await claims();
    assert.equal(
      taken.reduce((sum, events) => sum + events, 0),
      PLAYERS,
    );
    assert(Math.max(...taken) <= 3, taken.join(", "));
  });
  for (const [how, alike] of Object.entries({ "hard to compress": 1, "easy to compress": 16 })) {
    it(`may be larger than ever since before it was bounded: taken alone, and shrunk, ${how}`, async () => {
      const projectId = await domain.addProject();
      const users = usersIn(projectId, PART, 2);
      await withCounter(projectId, users, { id: "unread", bytes: 9 * MIB, isNoted: false, alike });
      await domain.track(
        projectId,
        users.map((user) => ({ user, type: "unheard" })),
      );
      assert.deepEqual(await claims(), [1, 1]);
      for (const { counters, bytes, noted } of await docs(projectId)) {
        assert.deepEqual(counters, []);
        assert(bytes < 100 && noted < 100, `${bytes} bytes, ${noted} noted`);
      }
    });
  }

  it("stays in its bounds: what nothing reads goes, then nothing new counts, and it is told", async () => {
    const projectId = await domain.addProject();
    const [user] = usersIn(projectId, PART, 1);
    const [big, small] = [distinctOf("big"), { eventTypes: ["small"], aggregate: "count" }];
    const [bigId, smallId] = [big, small].map((metric) => metricId(Metric.parse(metric))) as [string, string];
    const conditions = { all: [reading(big), reading(small)] };
    await publish(domain, projectId, { key: "reads", conditions });
    const uncounted = () =>
      domain.sql<{ data: Json }>`
        select data from outbox where project_id = ${projectId} and type = 'event.uncounted'`;
    const full = PLAYER_STATE_MAX_BYTES - 32;
    await withCounter(projectId, [user!], { id: "unread", bytes: full });
    await domain.track(projectId, [{ user: user!, type: "small" }]);
    await processAll(domain);
    assert.deepEqual((await docs(projectId))[0]!.counters, [smallId]);
    assert.deepEqual(await uncounted(), []);

    await withCounter(projectId, [user!], { id: bigId, bytes: full });
    await domain.track(projectId, [{ user: user!, type: "small" }]);
    await processAll(domain);
    const [doc] = await docs(projectId);
    assert.deepEqual(doc!.counters, [bigId]);
    assert(doc!.bytes <= PLAYER_STATE_MAX_BYTES);
    const [told, ...more] = await uncounted();
    assert.deepEqual([told!.data["kind"], told!.data["key"], more.length], ["rule", "reads", 0]);
  });

  it("is not loaded for many players by one request: it is refused, and said why", async () => {
    const projectId = await domain.addProject();
    const ids = await withCounter(projectId, usersIn(projectId, PART, 18), { id: "unread", bytes: 2 * MIB });
    const change = (playerIds: readonly string[]) =>
      domain.transact((work) => changePlayers(work, projectId, playerIds, () => undefined));
    await assert.rejects(change(ids), { code: "CONFLICT", reason: "TOO_MUCH_AT_ONCE" });
    assert.equal((await change(ids.slice(0, 4))).length, 4);
  });
});
